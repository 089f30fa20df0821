"""The seed of all that tests draw: KDISSECT_SEED, else another in each run, which prints it."""

import os
import random
from typing import Final

SEED: Final = int(os.environ.get("KDISSECT_SEED", "0")) or random.randrange(1, 1 << 31)
# Whether sweeps run all cases, not drawn ones.
IS_EVERY_CASE: Final = os.environ.get("KDISSECT_SWEEP", "") == "all"
