"""Values of rows over the last snapshots, for the history beside each row."""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from kdissect.live.counting.snapshot import Snapshot
from kdissect.screen.views import ALL_VIEWS, View

# A value a snapshot: a minute at one a second.
KEPT: Final = 60
UNKNOWN: Final = -1.0
Key = tuple[str, Hashable]


class RowHistories:
    """Histories of the listed rows of all views that have one; the newest value is last.

    A row that is missing in a snapshot has no value there; after `KEPT` of them it is forgotten.
    """

    def __init__(self) -> None:
        self._values: dict[Key, deque[float]] = {}
        self._last_ns = -1

    def add(self, snapshot: Snapshot) -> None:
        """Add the values of a snapshot; one of the same time replaces nothing."""
        if snapshot.status.now_ns == self._last_ns:
            return
        self._last_ns = snapshot.status.now_ns
        found: dict[Key, float] = {}
        for view in ALL_VIEWS:
            if view.history is not None:
                found |= values_of(view, view.history[0], snapshot)
        for key in found.keys() - self._values.keys():
            self._values[key] = deque(maxlen=KEPT)
        for key, values in [*self._values.items()]:
            values.append(found.get(key, UNKNOWN))
            if key not in found and all(value == UNKNOWN for value in values):
                del self._values[key]

    def of(self, view: View, row: Any) -> Sequence[float]:
        """The values of a row, UNKNOWN where it was missing."""
        return tuple(self._values.get((view.name, view.key(row)), ()))

    def clear(self) -> None:
        """Forget all: the focus has changed."""
        self._values.clear()
        self._last_ns = -1


def values_of(view: View, value: Callable[[Any], float], snapshot: Snapshot) -> dict[Key, float]:
    """The value of each row of a view."""
    return {(view.name, view.key(row)): float(value(row)) for row in view.rows(snapshot)}
