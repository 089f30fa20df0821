"""Every value of every table of a damaged capture, against that of the whole capture.

A value is right when it equals that of the whole, and when it is null: unknown. Any other value was
made up. `relations` has the columns with a weaker requirement, each with its reason. Rows are
matched by wire facts (packets, stream positions, the order within an exchange or a partition),
never by judged values.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.exchange_builders import Row
from tests.recovery.relations import DETAILS, OF_LOSS, Pair, Value, holds


class Wrong(NamedTuple):
    """A value that the whole capture does not have there; `true` is the one it has."""

    table: str
    column: str
    told: Any
    true: Any
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.table}.{self.column} {self.told!r} was {self.true!r}"


def wrong_in(pair: Pair) -> Iterator[Wrong]:
    """The wrong values of an exchange and of its details."""
    place = place_of(pair)
    yield from wrong_columns("exchanges", pair.row, pair.true, pair, place)
    for table in DETAILS:
        yield from wrong_details(table, pair, place)


def wrong_connection(row: Row, true: Row) -> Iterator[Wrong]:
    """The wrong values of a connection's row."""
    place = f"connection of packet {true['first_packet']}"
    yield from wrong_columns("connections", row, true, Pair(row, true), place)


def wrong_problems(rows: Iterable[Row], true: Iterable[Row]) -> Iterator[Wrong]:
    """Problems unrelated to missing bytes that the whole capture does not have."""
    known = Counter(row["kind"] for row in true)
    for row in rows:
        known[row["kind"]] -= 1
        if row["kind"] not in OF_LOSS and known[row["kind"]] < 0:
            yield Wrong("problems", "kind", row["kind"], None, row["message"])


def wrong_columns(table: str, row: Row, true: Row, pair: Pair, place: str) -> Iterator[Wrong]:
    """The wrong values of a row."""
    for column, told in row.items():
        if not holds(table, column, Value(told, true[column], pair)):
            yield Wrong(table, column, told, true[column], place)


def wrong_details(table: str, pair: Pair, place: str) -> Iterator[Wrong]:
    """The wrong values of the rows that a table has of an exchange.

    The n-th row of a partition is that of the whole; of tables without partitions, the n-th row.
    """
    known: dict[Spot, list[Row]] = {}
    for row in pair.true_details.get(table, ()):
        known.setdefault(spot_of(row), []).append(row)
    taken: Counter[Spot] = Counter()
    for row in pair.details.get(table, ()):
        true = row_at(spot_of(row), known, taken)
        if true is None:
            yield Wrong(table, "(row)", brief(row), None, place)
        else:
            yield from wrong_columns(table, row, true, pair, place)


class Spot(NamedTuple):
    """The topic, by id and name, and partition of a row; None where its table has none."""

    topic_id: str | None
    topic: str | None
    partition: int | None

    def is_same(self, other: "Spot") -> bool:
        """Return whether both are of one partition: by topic id if both have one, else by name."""
        if self.partition != other.partition:
            return False
        if self.topic_id and other.topic_id:
            return self.topic_id == other.topic_id
        return self.topic == other.topic


def spot_of(row: Row) -> Spot:
    return Spot(row.get("topic_id"), row.get("topic"), row.get("partition"))


def row_at(spot: Spot, known: Mapping[Spot, list[Row]], taken: Counter[Spot]) -> Row | None:
    """The next row of the whole at a spot; each is given once."""
    for one, rows in known.items():
        if one.is_same(spot) and taken[one] < len(rows):
            taken[one] += 1
            return rows[taken[one] - 1]
    return None


def place_of(pair: Pair) -> str:
    """An exchange in a few words."""
    words = ("api", "api_version", "correlation_id", "outcome", "request_packet", "response_packet")
    return " ".join(str(pair.true[word]) for word in words)


def brief(row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items() if value is not None)
