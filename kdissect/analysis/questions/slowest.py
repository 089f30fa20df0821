"""The slowest exchanges, each with its packets in Wireshark."""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import with_ends
from kdissect.analysis.question import NUMBER, Option, Question, Tables
from kdissect.analysis.questions.latency import OF, measured
from kdissect.analysis.shared_columns import CLIENT_IP
from kdissect.tables.schemas import EXCHANGES, INT64, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

DEFAULT_NUMBER: Final = 20
SILENT_NS: Final = 100_000_000
OWN: Final = {column.name: column for column in EXCHANGES.columns}
BROKER: Final = Column("broker", "text", "", "address and port of the broker")
SILENT: Final = Column(
    "silent_ns", INT64, "ns",
    "longest time in it without a response of the broker on any connection; null below 100 ms",
)  # fmt: skip
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
    "acks",
)
LAST: Final = ("retransmits", "rtt_ns", "api_version", "group_id", "topic_count", "exchange_id")
COLUMNS: Final = (
    *[OWN[name] for name in FIRST],
    BROKER,
    *[OWN[name] for name in BEHIND],
    SILENT,
    THROTTLE,
    CLIENT_IP,
    *[OWN[name] for name in LAST],
)


def slowest(tables: Tables, number: int = DEFAULT_NUMBER, of: str = "latency") -> "ir.Table":
    """The answered exchanges with the largest measure, largest first."""
    import ibis

    rows = with_ends(tables, measured(tables["exchanges"]))
    order = [ibis.desc(f"{of}_ns"), ibis.asc("exchange_id")]
    chosen = rows.order_by(order).limit(number)
    silent = silence(chosen, silences(tables))
    found = chosen.left_join(silent, "exchange_id").drop("exchange_id_right")
    return found.order_by(order).select(*[column.name for column in COLUMNS])


def silences(tables: Tables) -> "ir.Table":
    """Times of at least SILENT_NS between two responses of a broker on any connection.

    The first response of a broker ends one that began before the capture.
    """
    import ibis

    every = with_ends(tables, tables["all_exchanges"])
    answers = every.filter(every.response_start_ns.notnull())
    in_order = ibis.window(group_by="broker", order_by=["response_start_ns", "exchange_id"])
    answers = answers.select(
        silent_at=answers.broker,
        silent_until=answers.response_start_ns,
        silent_from=answers.response_start_ns.lag().over(in_order).fill_null(0),
    )
    return answers.filter(answers.silent_until - answers.silent_from >= SILENT_NS)


def silence(exchanges: "ir.Table", gaps: "ir.Table") -> "ir.Table":
    """For exchanges that waited while their broker was silent, the longest such time."""
    import ibis

    both = exchanges.inner_join(
        gaps,
        [
            exchanges.broker == gaps.silent_at,
            gaps.silent_from < exchanges.response_start_ns,
            gaps.silent_until > exchanges.request_end_ns,
        ],
    )
    end = ibis.least(both.silent_until, both.response_start_ns)
    start = ibis.greatest(both.silent_from, both.request_end_ns)
    overlap = both.select("exchange_id", overlap=end - start)
    found = overlap.group_by("exchange_id").aggregate(silent_ns=overlap.overlap.max())
    return found.mutate(silent_ns=(found.silent_ns >= SILENT_NS).ifelse(found.silent_ns, None))


QUESTION: Final = Question(
    "slowest",
    "Which exchanges took longest, and which packets are they?",
    ("exchanges", "connections", "all_exchanges"),
    COLUMNS,
    slowest,
    (Option("number", NUMBER, DEFAULT_NUMBER, "Number of exchanges."), OF),
    (
        "kdissect slowest broker.pcap",
        "kdissect slowest broker.pcap --number 5 --of work --where \"api <> 'Fetch'\"",
    ),
)
