"""The slowest exchanges, each with its packets in Wireshark."""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import with_ends
from kdissect.analysis.question import NUMBER, Option, Question, Tables
from kdissect.analysis.questions.latency import OF, measured
from kdissect.tables.schemas import EXCHANGES, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

DEFAULT_NUMBER: Final = 20
OWN: Final = {column.name: column for column in EXCHANGES.columns}
BROKER: Final = Column("broker", "text", "", "address and port of the broker")
CLIENT_IP: Final = Column("client_ip", "text", "", "address of the client")
THROTTLE: Final = Column("throttle_ns", "int64", "ns", "what the broker says it held back")
# Columns for finding packets in Wireshark come first, where a terminal shows them.
FIRST: Final = (
    "request_packet", "response_packet", "latency_ns", "wait_ns", "work_ns", "api", "client_id",
)  # fmt: skip
BEHIND: Final = (
    "request_start",
    "capture",
    "error",
    "queue_ns",
    "service_ns",
    "upload_ns",
    "download_ns",
)
LAST: Final = ("retransmits", "rtt_ns", "api_version", "group_id", "topic_count", "exchange_id")
COLUMNS: Final = (
    *[OWN[name] for name in FIRST],
    BROKER,
    *[OWN[name] for name in BEHIND],
    THROTTLE,
    CLIENT_IP,
    *[OWN[name] for name in LAST],
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
    (Option("number", NUMBER, DEFAULT_NUMBER, "Number of exchanges."), OF),
    (
        "kdissect slowest broker.pcap",
        "kdissect slowest broker.pcap --number 5 --of work --where \"api <> 'Fetch'\"",
    ),
)
