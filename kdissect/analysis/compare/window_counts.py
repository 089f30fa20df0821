"""Counts for the comparison: exchanges of one side by group and time window, in the engine.

A side is cut into windows of the same width. Only counts leave the engine:
for each group and window its amounts, its errors, versions and software by name, and a histogram of
its latency whose bins have three significant digits.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.analysis.dimensions import DEFAULT_WINDOW_NS, SECOND_NS, with_dimensions
from kdissect.analysis.fingerprints import with_software
from kdissect.analysis.grouping import is_failed, is_unanswered
from kdissect.analysis.question import Tables
from kdissect.analysis.questions.latency import measured, whole

if TYPE_CHECKING:
    import ibis.expr.types as ir

WHOLE_DIGITS: Final = 19  # digits of the largest int64
KEPT_DIGITS: Final = 3
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
NO_VERSION: Final = "-"  # Kafka 0.7 has none


class Span(NamedTuple):
    """Time range of a side, ns since 1970, and its window width; windows begin at multiples of it.

    So both sides send the same query to their engines, and the SQL is compiled once.
    """

    first_ns: int
    last_ns: int
    width_ns: int

    @property
    def first(self) -> int:
        """Number of the first window."""
        return self.first_ns // self.width_ns

    @property
    def windows(self) -> int:
        """Number of windows; the first and the last are partial."""
        return self.last_ns // self.width_ns - self.first + 1

    def seconds(self) -> list[float]:
        """Seconds of each window covered by the side; at least 1 ns, to avoid division by 0."""
        starts = [(self.first + place) * self.width_ns for place in range(self.windows)]
        return [
            (min(start + self.width_ns, self.last_ns + 1) - max(start, self.first_ns)) / SECOND_NS
            for start in starts
        ]


def span_of(tables: Tables) -> "ir.Table":
    """One row: times of the first and last request, and the number of requests."""
    sent = tables["exchanges"]
    return sent.aggregate(
        first_ns=sent.request_start_ns.min(),
        last_ns=sent.request_start_ns.max(),
        exchanges=sent.request_start_ns.count(),
    )


def sent_in_windows(tables: Tables, by: Sequence[str], width_ns: int) -> "ir.Table":
    """Exchanges whose request was captured, with the number of their window as `at`."""
    rows = with_dimensions(tables, by, DEFAULT_WINDOW_NS)
    rows = rows.filter(rows.request_start_ns.notnull())
    sent = rows.request_start_ns
    # Engines divide in floating point, which has too few digits for ns since 1970: so no floor.
    return rows.mutate(at=((sent - sent % width_ns) / width_ns).round().cast("int64"))


def counts(rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Requests, bytes and records of each group and window, by version and problem.

    `due` had or should have a response; `problem` is its first error, or ``unanswered``.
    """
    import ibis

    due = (rows.outcome == "answered") | is_unanswered(rows)
    requests = rows.mutate(
        of_api=rows.api,
        spoken=rows.api + " " + rows.api_version.cast("string").coalesce(NO_VERSION),
        problem=ibis.cases(
            (is_unanswered(rows), "unanswered"),
            ((rows.outcome == "answered") & is_failed(rows), rows.error),
            else_=None,
        ),
    )
    return requests.group_by([*by, "at", "of_api", "spoken", "problem"]).aggregate(
        requests=requests.count(),
        request_bytes=requests.request_size.sum().coalesce(0),
        response_bytes=requests.response_size.sum().coalesce(0),
        records=requests.record_count.sum().coalesce(0),
        due=due.sum().coalesce(0),
    )


def software(tables: Tables, rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Exchanges by client library, declared or fingerprinted; brokers are left out."""
    clients = with_software(tables, rows)
    clients = clients.filter(~clients.is_broker)
    what = clients.software.coalesce("unknown") + (" " + clients.software_version).coalesce("")
    return clients.group_by([*by, "at", what.name("what")]).aggregate(requests=clients.count())


def bins(rows: "ir.Table", by: Sequence[str], of: str) -> "ir.Table":
    """The histogram of a measure for each group and window: bins by their three leading digits."""
    known = measured(rows)
    known = known.mutate(value=known[f"{of}_ns"])
    known = known.filter(known.value.notnull())
    known = known.mutate(bin=rounded(known.value))
    return known.group_by([*by, "at", "bin"]).aggregate(x=known.count())


def rounded(value: "ir.IntegerValue") -> "ir.IntegerValue":
    """The number truncated to three digits, in integer arithmetic, so equal on all engines."""
    import ibis

    *steps, last = [10**digits for digits in range(WHOLE_DIGITS - KEPT_DIGITS + 1)]
    smaller = [(value < step * 10**KEPT_DIGITS, value - value % step) for step in steps]
    found: ir.IntegerValue = ibis.cases(*smaller, else_=value - value % last)
    return found


def quantiles(rows: "ir.Table", by: Sequence[str], of: Sequence[str]) -> "ir.Table":
    """The percentiles of measures for each group, as in `latency`: ``work_p50``."""
    known = measured(rows)
    return known.group_by(list(by)).aggregate(
        **{
            f"{measure}_{name}": whole(known[f"{measure}_ns"].quantile(share))
            for measure in of
            for name, share in QUANTILES.items()
        }
    )
