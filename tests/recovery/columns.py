"""Every value of every table of a damaged capture, against that of the whole capture.

A value is right when it is that of the whole, and when it is null: unknown. Whatever else it is,
it was made up. `RELATIONS` has the columns of which less is asked, each with its reason; a column
that is not among them, such as a new one, must be right. Rows are matched by what was on the wire
and where (packets, stream positions, the order within an exchange), never by what is judged.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kdissect.tables.schemas import TABLES, TIME
from tests.exchange_builders import Row

Rows = Mapping[str, Sequence[Row]]
# Tables whose rows are of an exchange.
DETAILS: Final = ("partitions", "batches", "records", "errors", "members", "bodies")


class Wrong(NamedTuple):
    """A value that the whole capture does not have there; `true` is the one it has."""

    table: str
    column: str
    told: Any
    true: Any
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.table}.{self.column} {self.told!r} was {self.true!r}"


@dataclass
class Pair:
    """An exchange as a damaged capture tells it and as the whole does: its row, and its details.

    `is_sent_late`: the first copy of some of its bytes, or of those of the response before, was
    lost, and a later one was captured. `may_be_unanswered`: nothing that was captured shows that
    there is a response.
    """

    row: Row
    true: Row
    details: Rows = field(default_factory=dict)
    true_details: Rows = field(default_factory=dict)
    is_sent_late: bool = False
    may_be_unanswered: bool = True


class Relation(NamedTuple):
    """What is asked of a column in place of the value of the whole capture, and why.

    `holds` is told the value, the true one, and the pair of exchanges, or of connections.
    """

    reason: str
    holds: Callable[[Any, Any, Pair], bool]


# The relations


def _any(told: Any, true: Any, pair: Pair) -> bool:
    return True


def _is_outcome(told: Any, true: Any, pair: Pair) -> bool:
    if told == "orphan":
        return pair.row["request_packet"] is None
    return bool(told == "unanswered" and true == "answered" and pair.may_be_unanswered)


def _is_of_request(told: Any, true: Any, pair: Pair) -> bool:
    is_alone = pair.row["outcome"] == "unanswered" and pair.true["outcome"] == "answered"
    return bool(is_alone and (true is None or told <= true))


def _is_of_orphan(told: Any, true: Any, pair: Pair) -> bool:
    return bool(pair.row["outcome"] == "orphan")


def _has_candidate(told: Any, true: Any, pair: Pair) -> bool:
    """Whether what a response without request may be has what it is."""
    versions = {pair.true["api_version"]}
    if pair.true["api"] == "ApiVersions":
        # A broker that does not know the version asked for says so in version 0.
        versions.add(0)
    for one in told.split(", "):
        api, _, named = one.rpartition(" ")
        first, _, last = named.partition("-")
        if api == pair.true["api"] and any(int(first) <= v <= int(last or first) for v in versions):
            return True
    return bool(pair.true["decode_status"] != "ok")


LOSS: Final = {"damaged", "no-request", "response-not-captured"}


def _is_status(told: Any, true: Any, pair: Pair) -> bool:
    """Whether nothing more went wrong than that bytes are missing."""
    more = set(told.split("+")) - {"ok"} - set(true.split("+"))
    return more <= LOSS and bool(more)


def _is_none_yet(told: Any, true: Any, pair: Pair) -> bool:
    return told == "none" and pair.row["closed_by"] == "capture-end"


def _is_fewer(told: Any, true: Any, pair: Pair) -> bool:
    return true is None or bool(told <= true)


def _is_silent(told: Any, true: Any, pair: Pair) -> bool:
    row = pair.row
    is_silent = not (row["bytes_to_broker"] or row["bytes_to_client"])
    return told == "none" and is_silent and not row["missing_bytes_to_broker"]


def _is_undecided(told: Any, true: Any, pair: Pair) -> bool:
    return pair.row["broker_side_by"] is None


# An assignment of a partition, with its topic's id.
BY_ID: Final = re.compile(r"[\w-]{22}:", re.ASCII)


def _is_by_id(told: Any, true: Any, pair: Pair) -> bool:
    """Whether an assignment has ids where the whole capture has the names of topics."""
    pairs = list(zip(told.split(" "), true.split(" "), strict=False))
    return told.count(" ") == true.count(" ") and all(
        one == other or (BY_ID.match(one) and one.partition(":")[2] == other.partition(":")[2])
        for one, other in pairs
    )


def _is_read_as(told: Any, true: Any, pair: Pair) -> bool:
    return is_guess_of(json.loads(told), json.loads(true))


def is_guess_of(told: Any, true: Any) -> bool:
    """Whether all of a body is as in the whole capture, but for what says that it is a guess."""
    if isinstance(told, dict) and ("read_as" in told or "undecoded" in told):
        return True
    if isinstance(told, dict) and isinstance(true, dict) and told.keys() == true.keys():
        return all(is_guess_of(value, true[name]) for name, value in told.items())
    if isinstance(told, list) and isinstance(true, list) and len(told) == len(true):
        return all(map(is_guess_of, told, true))
    return bool(told == true)


CAPTURED: Final = Relation("counts or measures the packets that this capture holds", _any)
KEY: Final = Relation("numbers the packets that this capture holds; rows are matched by it", _any)
OF_REQUEST: Final = Relation(
    "of an exchange that the capture shows no response of, what the request names", _is_of_request
)
EDGE: Final = Relation("says where the capture of the connection begins and ends, and how", _any)

RELATIONS: Final[dict[tuple[str, str], Relation]] = {
    **{(table, "connection_id"): KEY for table in TABLES},
    **{(table, "exchange_id"): KEY for table in DETAILS},
    ("exchanges", "exchange_id"): KEY,
    ("exchanges", "retransmits"): CAPTURED,
    ("exchanges", "zero_windows"): CAPTURED,
    ("exchanges", "rtt_ns"): CAPTURED,
    ("exchanges", "missing_bytes"): CAPTURED,
    ("exchanges", "topic_count"): OF_REQUEST,
    ("exchanges", "partition_count"): OF_REQUEST,
    ("exchanges", "outcome"): Relation(
        "an exchange whose request is not in the capture is an orphan; one is unanswered where "
        "nothing in the capture shows that there is a response",
        _is_outcome,
    ),
    ("exchanges", "decode_status"): Relation("says that bytes are missing", _is_status),
    ("exchanges", "candidates"): Relation("what an orphan may be has what it is", _has_candidate),
    ("exchanges", "certainty"): Relation("says how sure the API of an orphan is", _is_of_orphan),
    **{
        ("connections", name): EDGE
        for name in (
            "broker_side_by", "first_time", "last_time", "first_packet", "syn_seen", "fin_seen",
            "rst_by", "closed_by",
        )
    },
    **{
        ("connections", f"{name}_{way}"): CAPTURED
        for way in ("to_broker", "to_client")
        for name in (
            "packets", "bytes", "payload_bytes", "retransmitted_bytes", "network_lost_bytes",
            "missing_bytes", "capture_lost_bytes", "cut_bytes", "framed_bytes", "skipped_bytes",
            "tls_bytes", "encrypted_bytes", "gaps", "retransmitted_segments", "fast_retransmits",
            "spurious_retransmits", "duplicate_acks", "duplicate_packets",
            "duplicate_packet_bytes", "out_of_order_segments", "zero_windows", "zero_window_ns",
            "window_probes", "keepalives",
        )
    },
    **{
        ("connections", f"{name}_ns"): CAPTURED
        for name in (
            "handshake_rtt", "handshake_rtt_broker", "handshake_rtt_client", "min_rtt_broker",
            "min_rtt_client",
        )
    },
    ("connections", "exchanges"): CAPTURED,
    ("connections", "sasl_logins"): Relation(
        "counts the authentications that came to an end in the capture", _is_fewer
    ),
    ("connections", "sasl_outcome"): Relation(
        "none: no SASL was seen until the capture ended", _is_none_yet
    ),
    ("connections", "tls_undecrypted"): Relation(
        "says what this capture lacks to decrypt the connection", _any
    ),
    ("connections", "protocol"): Relation("none: there is no payload", _is_silent),
    **{
        ("connections", name): Relation(
            "where nothing tells the sides, the opener is shown as the client", _is_undecided
        )
        for name in ("client_ip", "client_port", "broker_ip", "broker_port")
    },
    ("partitions", "leader_epoch"): OF_REQUEST,
    ("members", "assignment"): Relation(
        "names topics by id when no message that was captured says the name", _is_by_id
    ),
    **{
        ("bodies", side): Relation(
            "says as what an assignment is read when the group's protocol is not known, and what "
            "could not be read",
            _is_read_as,
        )
        for side in ("request", "response")
    },
}  # fmt: skip

# Of a packet that was lost and sent again only the second copy has a time and a number.
TIMED: Final = frozenset(
    column.name
    for table in TABLES.values()
    for column in table.columns
    if column.type == TIME or column.name.endswith(("_ns", "_packet"))
)


def holds(table: str, column: str, told: Any, true: Any, pair: Pair) -> bool:
    """Whether a damaged capture may tell this value where the whole tells `true`."""
    if told is None or told == true:
        return True
    if pair.is_sent_late and table in ("exchanges", "members") and column in TIMED:
        return True
    relation = RELATIONS.get((table, column))
    return relation is not None and relation.holds(told, true, pair)


# Exchanges and their details


def wrong_in(pair: Pair) -> Iterator[Wrong]:
    """The wrong values of an exchange and of its details."""
    yield from differences("exchanges", pair.row, pair.true, pair)
    for table in DETAILS:
        yield from wrong_details(table, pair)


def differences(table: str, row: Row, true: Row, pair: Pair) -> Iterator[Wrong]:
    """The wrong values of a row."""
    for column, told in row.items():
        if not holds(table, column, told, true[column], pair):
            yield Wrong(table, column, told, true[column], place_of(pair))


def wrong_details(table: str, pair: Pair) -> Iterator[Wrong]:
    """The wrong values of the rows that a table has of an exchange.

    The n-th row of a partition is that of the whole; of other tables, the n-th row.
    """
    true = Counter[Any]()
    places: dict[Any, list[Row]] = {}
    for row in pair.true_details.get(table, ()):
        places.setdefault(place_in(table, row), []).append(row)
    for row in pair.details.get(table, ()):
        found = found_at(table, row, places, true)
        if found is None:
            yield Wrong(table, "(row)", brief(row), None, place_of(pair))
        else:
            yield from differences(table, row, found, pair)


def found_at(
    table: str, row: Row, places: Mapping[Any, list[Row]], taken: Counter[Any]
) -> Row | None:
    """The row of the whole at the place of this one; each is found once."""
    for place, rows in places.items():
        if is_same_place(table, place, place_in(table, row)) and taken[place] < len(rows):
            taken[place] += 1
            return rows[taken[place] - 1]
    return None


Place = tuple[Any, Any, Any]


def place_in(table: str, row: Row) -> Place:
    """The topic, by id and name, and partition of a row; the same for all where order decides."""
    if table in ("partitions", "batches", "records", "errors"):
        return row["topic_id"], row["topic"], row["partition"]
    return None, None, None


def is_same_place(table: str, one: Place, other: Place) -> bool:
    """Whether they are of one partition: by topic id where both have one, else by name."""
    if one[2] != other[2]:
        return False
    return one[0] == other[0] if one[0] and other[0] else one[1] == other[1]


def place_of(pair: Pair) -> str:
    """An exchange in a few words."""
    words = ("api", "api_version", "correlation_id", "outcome", "request_packet", "response_packet")
    return " ".join(str(pair.true[word]) for word in words)


def brief(row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items() if value is not None)


# Connections and problems

# Kinds of problems that loss alone brings.
OF_LOSS: Final = frozenset((
    "resync", "no-resync", "before-start", "early-limit", "search-limit", "undecided-limit",
))  # fmt: skip


def wrong_connection(row: Row, true: Row) -> Iterator[Wrong]:
    """The wrong values of a connection's row."""
    pair = Pair(row, true)
    for column, told in row.items():
        if not holds("connections", column, told, true[column], pair):
            place = f"connection of packet {true['first_packet']}"
            yield Wrong("connections", column, told, true[column], place)


def wrong_problems(rows: Iterable[Row], true: Iterable[Row]) -> Iterator[Wrong]:
    """Problems that are not of what is missing and that the whole does not have."""
    known = Counter(row["kind"] for row in true)
    for row in rows:
        known[row["kind"]] -= 1
        if row["kind"] not in OF_LOSS and known[row["kind"]] < 0:
            yield Wrong("problems", "kind", row["kind"], None, row["message"])
