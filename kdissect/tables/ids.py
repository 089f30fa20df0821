"""Ids of several taps: each tap has its own range, so that rows of different taps do not collide.

`connection_id` counts the packets of a tap. The ids of tap number N begin at ``N << 36``; those of
tap 0 are the library's.
"""

from typing import Final

from kdissect.exchanges.connection_state import EXCHANGES_PER_PACKET

# Of each tap: so many packets, and 1342 taps, until the ids of exchanges have 64 bits.
TAP_BITS: Final = 36
LARGEST_TAP: Final = (1 << 63) // (int(EXCHANGES_PER_PACKET) << TAP_BITS) - 1
FACTORS: Final = {"connection_id": 1, "exchange_id": int(EXCHANGES_PER_PACKET)}


def id_offsets(tap: int) -> dict[str, int]:
    """Return the offsets added to the ids of a tap, by column.

    >>> id_offsets(1)
    {'connection_id': 68719476736, 'exchange_id': 6871947673600000}
    """
    return {name: (tap << TAP_BITS) * factor for name, factor in FACTORS.items()}
