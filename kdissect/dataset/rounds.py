"""Taps of a run in rounds, each with a commit of its own: none waits for all others.

A round has taps with so many bytes of new captures in all, at least one tap. Those with few come
first, so a large tap, or a slow one, holds only what is in its round, and what earlier rounds
have committed stays when the run is ended. Few taps with little to do are one round.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

from kdissect.dataset.taps import Tap, Taps

# A thousand tasks of 256 MB: enough for the executors of a cluster to be busy together.
ROUND_BYTES: Final = 256 << 30
# Path, size and modification time of a capture.
Known: TypeAlias = tuple[str, int, int]


def rounds_of(search: Taps, known_captures: Callable[[], Collection[Known]]) -> list[list[Tap]]:
    """The taps in rounds; `known_captures` returns the captures that are in the dataset."""
    taps = search.taps
    found = [[(path, *search.seen[path]) for path in tap.paths] for tap in taps]
    if len(taps) < 2 or sum(map(size_of, found)) <= ROUND_BYTES:
        return [list(taps)]
    known = known_captures()
    sizes = [size_of([one for one in captures if one not in known]) for captures in found]
    rounds: list[list[Tap]] = [[]]
    left = ROUND_BYTES
    for place in sorted(range(len(taps)), key=sizes.__getitem__):
        if rounds[-1] and sizes[place] > left:
            rounds.append([])
            left = ROUND_BYTES
        rounds[-1].append(taps[place])
        left -= sizes[place]
    return rounds


def size_of(captures: Sequence[Known]) -> int:
    """Bytes of captures; those that do not exist any more have none."""
    return sum(max(size, 0) for _, size, _ in captures)
