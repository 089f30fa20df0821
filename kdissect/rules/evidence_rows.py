"""Rows of evidence that match a rule: the first of them, and the totals of all.

An evidence has a row for each client, topic or the like, whose number is unbounded. Sentences
name a few and state how many exist: so the first rows are kept, in the order of the evidence
(the worst first), and the numbers of all rows are summed.
"""

from collections.abc import Iterator, Mapping
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

    def take(self, row: Row, *, is_kept: bool = True) -> None:
        """Count a row; keep it when it is among the first."""
        self.taken += 1
        if is_kept and len(self) < ROWS:
            self.append(_cut(row))
        for name, value in row.items():
            if isinstance(value, int):
                self._count(name, int(value))
            elif name in COUNTED:
                self._name(name, value)
        client = row.get("client") or row.get("client_id")
        self._name(CLIENT, (client, row.get("client_ip")))
        if client:
            self._name(NAMED_CLIENT, (client, row.get("client_ip")))

    def total(self, name: str) -> int:
        return self._sums.get(name, 0)

    def highest(self, name: str) -> int | None:
        return self._largest.get(name)

    def lowest(self, name: str) -> int | None:
        return self._smallest.get(name)

    def distinct(self, name: str, found: int = 0) -> int:
        """The same for a column of `COUNTED`, or CLIENT; null is one of them."""
        return max(found, len(self._names.get(name, ())))

    def _count(self, name: str, value: int) -> None:
        self._sums[name] = self._sums.get(name, 0) + value
        if value > self._largest.get(name, value - 1):
            self._largest[name] = value
        if value < self._smallest.get(name, value + 1):
            self._smallest[name] = value

    def _name(self, name: str, value: object) -> None:
        found = self._names.setdefault(name, set())
        if len(found) < DISTINCT:
            found.add(hash(value))
        elif hash(value) not in found:
            self.has_more_names = True


def _cut(row: Row) -> Row:
    """The row, with texts from the wire truncated for a page."""
    return {
        name: cut(value, TEXT_LENGTH) if isinstance(value, str) else value
        for name, value in row.items()
    }


def in_ns(microseconds: int | None) -> int | None:
    """Microseconds as nanoseconds."""
    return None if microseconds is None else int(microseconds) * US
