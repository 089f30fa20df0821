"""The waiting requests of a protocol from before 0.8, in the order they were sent.

A request is found by its correlation id, or as the newest of its API that was sent before some
time, without a scan of all.
"""

from bisect import bisect_left, bisect_right

from kdissect.exchanges.connection_state import MIN_DROPPED
from kdissect.exchanges.exchange import Exchange
from kdissect.messages.old_extracted import OldFields
from kdissect.messages.old_protocols import OldApi
from kdissect.protocol.readers import NULL


class Asked:
    """A waiting request with its fields."""

    __slots__ = ("api", "exchange", "facts")

    def __init__(self, api: OldApi, exchange: Exchange, facts: OldFields) -> None:
        self.api = api
        self.exchange = exchange
        self.facts = facts


class OldWaiting:
    """A queue of requests; places are counted from the first waiting one.

    The waiting requests are ``_asked[_head:]``. `_by_id` maps correlation ids to indices in it, in
    order. `_by_api` has for each API the indices of requests sent before all later ones of that
    API, and `_times` their times: both only grow along the list.
    """

    def __init__(self) -> None:
        self._asked: list[Asked] = []
        self._head = 0
        self._by_id: dict[int, list[int]] = {}
        self._by_api: dict[int, list[int]] = {}
        self._times: dict[int, list[int]] = {}

    @property
    def count(self) -> int:
        """Number of waiting requests."""
        return len(self._asked) - self._head

    def rest(self) -> list[Asked]:
        """All waiting requests."""
        return self._asked[self._head :]

    def add(self, asked: Asked) -> None:
        """Add a request."""
        self._asked.append(asked)
        self._note(len(self._asked) - 1)

    def take_first(self, count: int) -> list[Asked]:
        """Remove the first ones, which no longer wait."""
        end = self._head + count
        taken = self._asked[self._head : end]
        self._head = end
        if end >= MIN_DROPPED and end * 2 >= len(self._asked):
            del self._asked[:end]
            self._head = 0
            self._by_id, self._by_api, self._times = {}, {}, {}
            for index in range(len(self._asked)):
                self._note(index)
        return taken

    def find_id(self, correlation_id: int | None) -> int:
        """The place of the first request with this id; -1 for none."""
        index = self._first_of(correlation_id)
        return index - self._head if index >= 0 else -1

    def has_id(self, correlation_id: int | None, time_ns: int) -> bool:
        """Return whether a request with this id was sent before this time."""
        index = self._first_of(correlation_id)
        return index >= 0 and self._asked[index].exchange.request_start <= time_ns

    def newest(self, time_ns: int) -> list[tuple[int, Asked]]:
        """The newest request of each API before this time, with its place; the newest first."""
        found = []
        for key, indices in self._by_api.items():
            at = bisect_right(self._times[key], time_ns) - 1
            if at >= 0 and indices[at] >= self._head:
                found.append((indices[at] - self._head, self._asked[indices[at]]))
        return sorted(found, key=lambda one: -one[0])

    def _first_of(self, correlation_id: int | None) -> int:
        """The index of the first waiting request with this id; -1 for none."""
        indices = self._by_id.get(NULL if correlation_id is None else correlation_id, [])
        at = bisect_left(indices, self._head)
        return indices[at] if at < len(indices) else -1

    def _note(self, index: int) -> None:
        """Index a request."""
        exchange = self._asked[index].exchange
        if exchange.correlation_id != NULL:
            self._by_id.setdefault(int(exchange.correlation_id), []).append(index)
        key = int(exchange.api_key)
        indices = self._by_api.setdefault(key, [])
        times = self._times.setdefault(key, [])
        while times and times[-1] >= exchange.request_start:
            # The one after it is newer, and was sent no later.
            times.pop()
            indices.pop()
        times.append(int(exchange.request_start))
        indices.append(index)
