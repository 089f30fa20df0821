"""Rows of evidence that match a rule: the first of them, and the totals of all.

An evidence has a row for each client, topic or the like, whose number is unbounded. Sentences
name a few and state how many exist: so the first rows are kept, in the order of the evidence
(the worst first), and the numbers of all rows are summed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from kdissect.text.human import TEXT_LENGTH, cut

Row = Mapping[str, Any]
US: Final = 1_000  # evidence has times in microseconds
# Rows of one evidence that are kept: omitted ones are smaller than those kept.
ROWS: Final = 300
# Distinct names per column: 75 bytes each as a hash in a set, 75 MB at most.
DISTINCT: Final = 1_000_000
# Columns whose distinct values are counted, and a client at its address.
COUNTED: Final = frozenset(
    ("client", "client_id", "client_ip", "topic", "broker", "group_instance_id")
)
CLIENT: Final = "client at address"
NAMED_CLIENT: Final = "client with a name at address"


class Rows(list[Row]):
    """Rows of evidence, and the totals of their columns; nulls do not count."""

    def total(self, name: str) -> int:
        """The sum of a column."""
        return sum(self._numbers(name))

    def highest(self, name: str) -> int | None:
        """The largest number of a column; None when empty."""
        return max(self._numbers(name), default=None)

    def lowest(self, name: str) -> int | None:
        """The smallest number of a column; None when empty."""
        return min(self._numbers(name), default=None)

    def distinct(self, name: str, found: int = 0) -> int:
        """Number of distinct values of a column in all rows, `found` of them in these."""
        return found

    def largest(self, name: str) -> int:
        """The largest number of a column; 0 when empty."""
        return self.highest(name) or 0

    def earliest(self, name: str) -> int | None:
        """The first time of a column, in ns."""
        return in_ns(self.lowest(name))

    def latest(self, name: str) -> int | None:
        """The last time of a column, in ns."""
        return in_ns(self.highest(name))

    def first_packet(self, name: str = "first_packet") -> int | None:
        """The smallest frame number of a column."""
        return self.lowest(name)

    def _numbers(self, name: str) -> Iterator[int]:
        return (int(row[name]) for row in self if row.get(name) is not None)


class Chosen(Rows):
    """The first matching rows; `total` and the like cover all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0
        self.has_more_names = False
        self._sums: dict[str, int] = {}
        self._largest: dict[str, int] = {}
        self._smallest: dict[str, int] = {}
        self._names: dict[str, set[int]] = {}

    def keep(self, row: Row) -> None:
        """Keep a row if it is among the first; `add` counts it."""
        if len(self) < ROWS:
            self.append(shortened(row))

    def add(self, rows: Sequence[Row]) -> None:
        """Count rows; those of an evidence have the same columns."""
        self.taken += len(rows)
        for name in rows[0]:
            values = [row[name] for row in rows]
            known = [value for value in values if value is not None]
            if known and isinstance(known[0], int):
                self._add_numbers(name, known)
            elif name in COUNTED:
                self._add_names(name, values)
        names = [row.get("client") or row.get("client_id") for row in rows]
        clients = [(name, row.get("client_ip")) for name, row in zip(names, rows, strict=True)]
        self._add_names(CLIENT, clients)
        self._add_names(NAMED_CLIENT, [client for client in clients if client[0]])

    def total(self, name: str) -> int:
        return self._sums.get(name, 0)

    def highest(self, name: str) -> int | None:
        return self._largest.get(name)

    def lowest(self, name: str) -> int | None:
        return self._smallest.get(name)

    def distinct(self, name: str, found: int = 0) -> int:
        """The same for a column of `COUNTED`, or CLIENT; null is one of them."""
        return max(found, len(self._names.get(name, ())))

    def _add_numbers(self, name: str, values: Sequence[int]) -> None:
        self._sums[name] = self._sums.get(name, 0) + sum(values)
        self._largest[name] = max(self._largest.get(name, values[0]), *values)
        self._smallest[name] = min(self._smallest.get(name, values[0]), *values)

    def _add_names(self, name: str, values: Iterable[object]) -> None:
        found = self._names.setdefault(name, set())
        hashes = set(map(hash, values))
        if len(found) + len(hashes) <= DISTINCT:
            found |= hashes
            return
        hashes -= found
        room = max(0, DISTINCT - len(found))
        found.update(islice(hashes, room))
        self.has_more_names |= len(hashes) > room


def shortened(row: Row) -> dict[str, Any]:
    """A row of evidence, with texts from the wire truncated for a page."""
    return {
        name: cut(value, TEXT_LENGTH) if isinstance(value, str) else value
        for name, value in row.items()
    }


def in_ns(microseconds: int | None) -> int | None:
    """Microseconds as nanoseconds."""
    return None if microseconds is None else int(microseconds) * US
