"""Rows of evidence that match a rule: the first of them, and the totals of all.

An evidence has a row for each client, topic or the like, whose number is unbounded. Sentences
name a few and state how many exist: so the first rows are kept, in the order of the evidence
(the worst first), and the numbers of all rows are summed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kdissect.text.human import TEXT_LENGTH, cut

Row = Mapping[str, Any]
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


class Chosen(list[Row]):
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
        """The sum of a column; nulls count as 0."""
        return self._sums.get(name, 0)

    def largest(self, name: str) -> int | None:
        """The largest number of a column; None when empty."""
        return self._largest.get(name)

    def smallest(self, name: str) -> int | None:
        """The smallest number of a column; None when empty."""
        return self._smallest.get(name)

    def distinct(self, name: str) -> int:
        """Number of distinct values of a column of `COUNTED`, or CLIENT; null is one of them."""
        return len(self._names.get(name, ()))

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
    """The row, with texts from the wire cut to what a page can show."""
    return {
        name: cut(value, TEXT_LENGTH) if isinstance(value, str) else value
        for name, value in row.items()
    }


def distinct(rows: Sequence[Row], name: str, found: int) -> int:
    """Number of distinct values in all rows, of which `found` are among those kept."""
    return max(found, rows.distinct(name)) if isinstance(rows, Chosen) else found
