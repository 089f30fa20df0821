"""All tests. Their processes keep what they have compiled, even where the environment forbids it.

Else each of the hundreds of processes that tests start would compile all modules that it imports:
two seconds of processor time instead of a half.
"""

import os
import sys

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
