"""The columns that need not equal the whole capture's, each with its weaker relation and reason.

Every other column must have the whole's value, or null: `holds`. The same goes for new columns.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kdissect.tables.schemas import TABLES, TIME
from tests.exchange_builders import Row

Rows = Mapping[str, Sequence[Row]]
# Tables with rows of one exchange each.
DETAILS: Final = ("partitions", "batches", "records", "errors", "members", "bodies")
WAYS: Final = ("to_broker", "to_client")
# Values of decode_status for missing bytes.
LOSS: Final = {"damaged", "no-request", "response-not-captured"}
# An assignment of a partition, with its topic's id.
BY_ID: Final = re.compile(r"[\w-]{22}:", re.ASCII)


@dataclass
class Pair:
    """An exchange as a damaged capture tells it and as the whole does: its row, and its details.

    `is_sent_late`: the first copy of some of the connection's bytes was lost, and a later one was
    captured. `may_be_unanswered`: nothing that was captured shows that there is a response. A
    connection is a pair of rows alone.
    """

    row: Row
    true: Row
    details: Rows = field(default_factory=dict)
    true_details: Rows = field(default_factory=dict)
    is_sent_late: bool = False
    may_be_unanswered: bool = True


class Value(NamedTuple):
    """Value of a column in a damaged capture, and in the whole."""

    told: Any
    true: Any
    pair: Pair


def anything(_value: Value) -> bool:
    return True


class Relation(NamedTuple):
    """Relation of a column to the value of the whole capture, with the reason."""

    reason: str
    holds: Callable[[Value], bool] = anything


def holds(table: str, column: str, value: Value) -> bool:
    """Return whether a damaged capture may tell this value in this column."""
    if value.told is None or value.told == value.true:
        return True
    if value.pair.is_sent_late and table in ("exchanges", "members") and column in TIMED:
        return True
    relation = RELATIONS.get((table, column))
    return relation is not None and relation.holds(value)


def is_outcome(value: Value) -> bool:
    """An orphan, or a request without evidence of an answer."""
    if value.told == "orphan":
        return value.pair.row["request_packet"] is None
    is_alone = value.told == "unanswered" and value.true == "answered"
    return is_alone and value.pair.may_be_unanswered


def is_answered_later(value: Value) -> bool:
    """The capture ends, as far as it shows, before the response."""
    row, true = value.pair.row, value.pair.true
    is_alone = row["outcome"] == "unanswered" and true["outcome"] == "answered"
    return bool(is_alone and value.pair.may_be_unanswered)


def is_of_request(value: Value) -> bool:
    """No more than there is, of an exchange without response in a capture that ends early."""
    return is_answered_later(value) and (value.true is None or bool(value.told <= value.true))


def is_of_orphan(value: Value) -> bool:
    return bool(value.pair.row["outcome"] == "orphan")


def has_candidate(value: Value) -> bool:
    """Candidates of a response without request include its API."""
    true = value.pair.true
    versions = {true["api_version"]}
    if true["api"] == "ApiVersions":
        # A broker that does not know the requested version answers in version 0.
        versions.add(0)
    for one in value.told.split(", "):
        api, _, named = one.rpartition(" ")
        first, _, last = named.partition("-")
        if api == true["api"] and any(int(first) <= v <= int(last or first) for v in versions):
            return True
    return bool(true["decode_status"] != "ok")


def is_status(value: Value) -> bool:
    """Nothing but missing bytes is wrong; for a response that is not yet there, nothing is."""
    more = set(value.told.split("+")) - {"ok"} - set(value.true.split("+"))
    return more <= LOSS and (bool(more) or is_answered_later(value))


def is_none_yet(value: Value) -> bool:
    return value.told == "none" and bool(value.pair.row["closed_by"] == "capture-end")


def is_fewer(value: Value) -> bool:
    return value.true is None or bool(value.told <= value.true)


def is_silent(value: Value) -> bool:
    row = value.pair.row
    return value.told == "none" and not any(row[f"bytes_{way}"] for way in WAYS)


def is_undecided(value: Value) -> bool:
    return value.pair.row["broker_side_by"] is None


def is_by_id(value: Value) -> bool:
    """An assignment with ids where the whole capture has the names of topics."""
    told, true = value.told.split(" "), value.true.split(" ")
    return len(told) == len(true) and all(
        one == other or (BY_ID.match(one) and one.partition(":")[2] == other.partition(":")[2])
        for one, other in zip(told, true, strict=True)
    )


def is_read_as(value: Value) -> bool:
    return is_guess_of(json.loads(value.told), json.loads(value.true))


def is_guess_of(told: Any, true: Any) -> bool:
    """Return whether a body equals that of the whole capture, apart from marks of a guess."""
    if isinstance(told, dict) and ("read_as" in told or "undecoded" in told):
        return True
    if is_raw(told, true) or is_withheld(told, true):
        return True
    if isinstance(told, dict) and isinstance(true, dict) and told.keys() == true.keys():
        return all(is_guess_of(value, true[name]) for name, value in told.items())
    if isinstance(told, list) and isinstance(true, list) and len(told) == len(true):
        return all(map(is_guess_of, told, true))
    return bool(told == true)


def is_withheld(told: Any, true: Any) -> bool:
    """Return whether this is the size of a value that an exchange in doubt does not show."""
    if isinstance(true, dict) and set(true) == {"base64"}:
        return bool(told == f"<withheld, {len(b64decode(true['base64']))} bytes>")
    return isinstance(true, str) and told == f"<withheld, {len(true.encode())} bytes>"


def is_raw(told: Any, true: Any) -> bool:
    """Return whether these are the bytes that the whole capture decodes, as many as it states."""
    if not isinstance(true, dict) or "size" not in true:
        return False
    if isinstance(told, dict) and set(told) == {"base64"}:
        return len(b64decode(told["base64"])) == true["size"]
    return isinstance(told, str) and len(told.encode()) == true["size"]


def each(table: str, relation: Relation, *names: str) -> dict[tuple[str, str], Relation]:
    """One relation for some columns of a table."""
    return {(table, name): relation for name in names}


CAPTURED: Final = Relation("counts or measures the packets that this capture holds")
KEY: Final = Relation("numbers the packets that this capture holds; rows are matched by it")
EDGE: Final = Relation("says where the capture of the connection begins and ends, and how")
OF_REQUEST: Final = Relation(
    "of an exchange that the capture shows no response of, what the request names", is_of_request
)
COUNTED: Final = (
    "packets", "bytes", "payload_bytes", "retransmitted_bytes", "network_lost_bytes",
    "missing_bytes", "capture_lost_bytes", "cut_bytes", "framed_bytes", "skipped_bytes",
    "tls_bytes", "encrypted_bytes", "gaps", "retransmitted_segments", "fast_retransmits",
    "spurious_retransmits", "unacknowledged_ns", "duplicate_acks", "duplicate_packets",
    "duplicate_packet_bytes", "out_of_order_segments", "zero_windows", "zero_window_ns",
    "window_probes", "keepalives",
)  # fmt: skip
RELATIONS: Final[dict[tuple[str, str], Relation]] = {
    **{(table, "connection_id"): KEY for table in TABLES},
    **{(table, "exchange_id"): KEY for table in ("exchanges", *DETAILS)},
    **each(
        "exchanges", CAPTURED, "retransmits", "zero_windows", "rtt_ns", "missing_bytes"
    ),
    **each("exchanges", OF_REQUEST, "topic_count", "partition_count"),
    **each("partitions", OF_REQUEST, "leader_epoch"),
    ("exchanges", "outcome"): Relation(
        "an exchange whose request is not in the capture is an orphan; one is unanswered where "
        "nothing in the capture shows that there is a response",
        is_outcome,
    ),
    ("exchanges", "decode_status"): Relation(
        "says that bytes are missing, and nothing of a response behind the end of the capture",
        is_status,
    ),
    ("exchanges", "candidates"): Relation("what an orphan may be has what it is", has_candidate),
    ("exchanges", "certainty"): Relation("says how sure the API of an orphan is", is_of_orphan),
    ("members", "assignment"): Relation(
        "names topics by id when no message that was captured says the name", is_by_id
    ),
    **each(
        "bodies",
        Relation(
            "says as what an assignment is read when the group's protocol is not known, and what "
            "could not be read; shows the bytes of a record of an internal topic when no message "
            "that was captured says the topic's name",
            is_read_as,
        ),
        "request",
        "response",
    ),
    **each(
        "connections",
        EDGE,
        "broker_side_by", "first_time", "last_time", "first_packet", "syn_seen", "fin_seen",
        "rst_by", "ended_by", "closed_by",
    ),
    **each("connections", CAPTURED, "exchanges"),
    **each("connections", CAPTURED, *(f"{name}_{way}" for name in COUNTED for way in WAYS)),
    **each(
        "connections",
        CAPTURED,
        "handshake_rtt_ns", "handshake_rtt_broker_ns", "handshake_rtt_client_ns",
        "min_rtt_broker_ns", "min_rtt_client_ns",
    ),
    **each(
        "connections",
        Relation(
            "where nothing tells the sides, the opener is shown as the client", is_undecided
        ),
        "client_ip", "client_port", "broker_ip", "broker_port",
    ),
    ("connections", "protocol"): Relation("none: there is no payload", is_silent),
    ("connections", "sasl_outcome"): Relation(
        "none: no SASL was seen until the capture ended", is_none_yet
    ),
    ("connections", "sasl_logins"): Relation(
        "counts the authentications that came to an end in the capture", is_fewer
    ),
    ("connections", "tls_undecrypted"): Relation(
        "says what this capture lacks to decrypt the connection"
    ),
}  # fmt: skip

# Of a packet that was lost and sent again only the second copy has a time and a number.
TIMED: Final = frozenset(
    column.name
    for table in TABLES.values()
    for column in table.columns
    if column.type == TIME or column.name.endswith(("_ns", "_packet"))
)
# Kinds of problems that loss alone brings.
OF_LOSS: Final = frozenset((
    "resync", "no-resync", "mid-stream", "before-start", "early-limit", "search-limit",
    "undecided-limit",
))  # fmt: skip
