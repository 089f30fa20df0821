"""The largest of a large number of counters, in bounded memory."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar


class Counter(Protocol):
    """A counter that can be compared by weight and added to another."""

    @property
    def weight(self) -> Any: ...

    def merge(self, other: Any) -> None: ...


C = TypeVar("C", bound=Counter)


class Largest(Generic[C]):
    """Counters by name, at most twice `limit`: beyond that, the heavier half is kept.

    A dropped name that occurs again starts from 0, so with more than `limit` names counts may be
    too low by the dropped part; `left_out` is the number dropped, `others` their total.
    """

    def __init__(self, limit: int, make: Callable[[], C]) -> None:
        self._limit = limit
        self._make = make
        self._counters: dict[str, C] = {}
        self.others = make()
        self.left_out = 0

    def at(self, name: str) -> C:
        """The counter of `name`, a new one when missing."""
        counter = self._counters.get(name)
        if counter is None:
            self._prune()
            counter = self._counters[name] = self._make()
        return counter

    def rows(self) -> Iterator[tuple[str, C]]:
        """Names and counters, the heaviest first."""
        yield from sorted(self._counters.items(), key=lambda item: item[1].weight, reverse=True)

    def _prune(self) -> None:
        if len(self._counters) < 2 * self._limit:
            return
        names = sorted(self._counters, key=lambda name: self._counters[name].weight, reverse=True)
        for name in names[self._limit :]:
            self.others.merge(self._counters.pop(name))
            self.left_out += 1
