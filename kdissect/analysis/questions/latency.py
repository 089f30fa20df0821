"""Latency: how long clients wait, and for what.

Latency is from the packet with the last byte of the request to that with the first byte of the
response. It is split where the protocol allows it: the queue behind earlier requests of the same
connection, the wait that the request asked for (long poll, joining a group), and work, the rest.
Percentiles interpolate between the two adjacent exchanges, as those of the summary do.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import (
    BY,
    DEFAULT_WINDOW_NS,
    MS,
    WINDOW,
    in_order,
    with_dimensions,
)
from kdissect.analysis.question import NUMBER, SHARE, TEXT, Option, Question, Tables, Turn
from kdissect.tables.schemas import INT64, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
PARTS: Final = ("upload", "queue", "service", "wait", "work", "download", "throttle")
MEASURES: Final = ("latency", *PARTS)

COLUMNS: Final = (
    Column("requests", INT64, "", "all exchanges, unanswered ones included"),
    Column("exchanges", INT64, "", "answered exchanges: those in the percentiles"),
    *[
        Column(f"{name}_ns", INT64, "ns", f"{name} of the measure (`of`, latency)")
        for name in (*PERCENTILES, "max")
    ],
    *[Column(f"{part}_p99_ns", INT64, "ns", f"p99 of {part}") for part in PARTS],
    Column("waited", SHARE, "", "long-poll share: wait as a share of all latency"),
    Column("retransmitted", INT64, "", "exchanges with retransmitted segments"),
    Column("retransmitted_p99_ns", INT64, "ns", "p99 of the measure, of these exchanges"),
    Column("rtt_p50_ns", INT64, "ns", "median of the connections' TCP round trips"),
)
OF: Final = Option("of", TEXT, "latency", "Measure of the percentiles.", MEASURES)


def latency(
    tables: Tables,
    by: Sequence[str] = ("api",),
    of: str = "latency",
    window: int = DEFAULT_WINDOW_NS,
) -> "ir.Table":
    """Percentiles of the latency of answered exchanges, a row for each value of `by`."""
    import ibis

    exchanges = with_dimensions(tables, by, window)
    is_measured = exchanges.outcome.identical_to("answered") & exchanges.latency_ns.notnull()
    rows = exchanges.mutate(
        is_measured=is_measured,
        throttle_ns=exchanges.throttle_ms.cast("int64") * MS,
        is_repeated=is_measured & (exchanges.retransmits > 0).coalesce(False),
    )
    rows = rows.mutate(
        **{f"{one}_ns": rows.is_measured.ifelse(rows[f"{one}_ns"], None) for one in MEASURES},
        rtt_ns=rows.is_measured.ifelse(rows.rtt_ns, None),
    )
    measure = rows[f"{of}_ns"]
    found = rows.group_by(list(by)).aggregate(
        requests=rows.count(),
        exchanges=rows.is_measured.sum(),
        **{f"{name}_ns": whole(measure.quantile(at)) for name, at in PERCENTILES.items()},
        max_ns=measure.max(),
        **{f"{part}_p99_ns": whole(rows[f"{part}_ns"].quantile(0.99)) for part in PARTS},
        waited=rows.wait_ns.sum().coalesce(0) / ibis.greatest(rows.latency_ns.sum().coalesce(0), 1),
        retransmitted=rows.is_repeated.sum(),
        retransmitted_p99_ns=whole(rows.is_repeated.ifelse(measure, None).quantile(0.99)),
        rtt_p50_ns=whole(rows.rtt_ns.quantile(0.5)),
    )
    return in_order(found.filter(found.exchanges > 0), by, ibis.desc("p99_ns"))


def measured(exchanges: "ir.Table") -> "ir.Table":
    """Answered exchanges, with the throttle in ns too."""
    answered = exchanges.filter(exchanges.outcome == "answered", exchanges.latency_ns.notnull())
    return answered.mutate(throttle_ns=answered.throttle_ms.cast("int64") * MS)


def whole(number: "ir.NumericValue") -> "ir.IntegerValue":
    """A number of nanoseconds without fractions."""
    return number.round().cast("int64")


QUESTION: Final = Question(
    "latency",
    "How long do clients wait for the broker, and for what?",
    ("exchanges",),
    COLUMNS,
    latency,
    (BY, OF, WINDOW),
    (
        "kdissect latency broker.pcap",
        "kdissect latency broker.pcap --by api,client_id",
        "kdissect latency broker.pcap --by window --window 1s --of work",
        "kdissect latency broker.pcap --by topic --where \"api = 'Produce'\"",
        "kdissect latency broker.pcap --slowest 10 --of work",
    ),
    turns=(
        Turn(
            Option("slowest", NUMBER, None, "Show the N slowest exchanges, as `slowest` does."),
            "slowest",
            "number",
        ),
    ),
)
