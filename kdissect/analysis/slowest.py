"""The slowest exchanges, each with its packets in Wireshark."""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import with_ends
from kdissect.analysis.latency import OF, PARTS, measured
from kdissect.analysis.question import NUMBER, Option, Question, Tables
from kdissect.tables.schemas import EXCHANGES, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

DEFAULT_NUMBER: Final = 20
BEFORE: Final = ("exchange_id", "request_start", "api", "api_version", "client_id")
BEHIND: Final = (
    "retransmits", "rtt_ns", "error", "group_id", "topic_count", "request_packet",
    "response_packet",
)  # fmt: skip
OWN: Final = {column.name: column for column in EXCHANGES.columns}
COLUMNS: Final = (
    *[OWN[name] for name in BEFORE],
    Column("client_ip", "text", "", "address of the client"),
    Column("broker", "text", "", "address and port of the broker"),
    OWN["latency_ns"],
    *[OWN[f"{part}_ns"] for part in PARTS if part != "throttle"],
    Column("throttle_ns", "int64", "ns", "what the broker says it held back"),
    *[OWN[name] for name in BEHIND],
)


def slowest(tables: Tables, number: int = DEFAULT_NUMBER, of: str = "latency") -> "ir.Table":
    """The answered exchanges with the largest measure, largest first."""
    import ibis

    rows = with_ends(tables, measured(tables["exchanges"]))
    chosen = rows.order_by([ibis.desc(f"{of}_ns"), ibis.asc("exchange_id")]).limit(number)
    return chosen.select(*[column.name for column in COLUMNS])


QUESTION: Final = Question(
    "slowest",
    "Which exchanges took longest, and which packets are they?",
    ("exchanges", "connections"),
    COLUMNS,
    slowest,
    (Option("number", NUMBER, DEFAULT_NUMBER, "How many."), OF),
    (
        "kdissect slowest broker.pcap",
        "kdissect slowest broker.pcap --number 5 --of work --where \"api <> 'Fetch'\"",
    ),
)
