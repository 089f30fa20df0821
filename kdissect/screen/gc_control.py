"""Garbage collection of reference cycles while the automatic collector is off.

Packet processing creates no cycles, and turns it off: it would traverse all connections repeatedly.
But Textual creates about 100 kB of cycles with each refresh.
"""

import gc
from typing import Final

# Most objects of a refresh are freed at the next one; those still in use are found later.
SOON: Final = 60
LATE: Final = 3600


def sweep(turn: int) -> None:
    """Collect garbage of refreshes; `turn` counts them from 1."""
    if gc.isenabled():
        return
    gc.collect(2 if turn % LATE == 0 else 1 if turn % SOON == 0 else 0)
