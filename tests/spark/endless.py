"""A condition that holds for all exchanges, and takes hours for a few hundred."""

from typing import Final

FOUR: Final = "abcd"
ENDLESS: Final = (
    f"(select max({' + '.join(f'{one}.correlation_id % {at + 2}' for at, one in enumerate(FOUR))})"  # noqa: S608
    f" from {', '.join(f'all_exchanges {one}' for one in FOUR)}) >= 0"
)
