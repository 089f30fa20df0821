"""All tests. Their processes keep compiled modules, even where the environment forbids it.

Otherwise each of the hundreds of processes that tests start would compile all modules that it
imports: two seconds of processor time instead of half a second.
"""

import os
import sys

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
