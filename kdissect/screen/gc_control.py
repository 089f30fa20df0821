"""The collector of reference cycles, where it is switched off.

Who watches packets makes none, and has it off: it would look at all connections again and again.
But Textual makes about 100 kB of them with each refresh.
"""

import gc
from typing import Final

# Most of a refresh is left when the next one comes; what was still in use is found later.
SOON: Final = 60
LATE: Final = 3600


def sweep(turn: int) -> None:
    """Collect what refreshes have left; `turn` counts them from 1."""
    if gc.isenabled():
        return
    gc.collect(2 if turn % LATE == 0 else 1 if turn % SOON == 0 else 0)
