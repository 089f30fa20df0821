"""What `compare` counts: exchanges of one side by group and time window, in the engine.

A side is cut into windows of the same width from its start on. What leaves the engine are counts:
for each group and window its amounts, its errors, versions and software by name, and a histogram of
its latency whose bins have three significant digits.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.analysis.dimensions import DEFAULT_WINDOW_NS, with_dimensions
from kdissect.analysis.fingerprints import with_software
from kdissect.analysis.latency import measured, whole
from kdissect.analysis.question import Tables

if TYPE_CHECKING:
    import ibis.expr.types as ir

WHOLE_DIGITS: Final = 19  # digits of the largest int64
KEPT_DIGITS: Final = 3
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
NO_VERSION: Final = "-"  # Kafka 0.7 has none


class Span(NamedTuple):
    """A side in time, cut into `windows` of equal width; ns since 1970."""

    first_ns: int
    last_ns: int
    windows: int

    @property
    def width_ns(self) -> int:
        """Rounded up, so that the last request is in the last window."""
        return (self.last_ns - self.first_ns) // self.windows + 1


def span_of(tables: Tables) -> "ir.Table":
    """One row: first and last request, and how many."""
    sent = tables["exchanges"]
    return sent.aggregate(
        first_ns=sent.request_start_ns.min(),
        last_ns=sent.request_start_ns.max(),
        exchanges=sent.request_start_ns.count(),
    )


def sent_in_windows(tables: Tables, by: Sequence[str], span: Span) -> "ir.Table":
    """Exchanges whose request was seen, with the number of their window as `at`."""
    import ibis

    rows = with_dimensions(tables, by, DEFAULT_WINDOW_NS)
    rows = rows.filter(rows.request_start_ns.notnull())
    at = ((rows.request_start_ns - span.first_ns) // span.width_ns).cast("int64")
    return rows.mutate(at=ibis.greatest(0, ibis.least(at, span.windows - 1)))


def amounts(rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Requests, bytes and records of each group and window; `due` had or should have an answer."""
    return rows.group_by([*by, "at"]).aggregate(
        requests=rows.count(),
        request_bytes=rows.request_size.sum().coalesce(0),
        response_bytes=rows.response_size.sum().coalesce(0),
        records=rows.record_count.sum().coalesce(0),
        due=rows.outcome.isin(("answered", "unanswered")).sum().coalesce(0),
    )


def errors(rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Exchanges by the error that they were answered with, the first of each."""
    import ibis

    what = ibis.cases(
        (rows.outcome == "unanswered", "unanswered"),
        ((rows.outcome == "answered") & (rows.error_count > 0), rows.error),
        else_=None,
    )
    return counted(rows.mutate(what=what), by)


def versions(rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Exchanges by API and version: ``Fetch 12``."""
    what = rows.api + " " + rows.api_version.cast("string").coalesce(NO_VERSION)
    return counted(rows.mutate(what=what, of_api=rows.api), by, "of_api")


def software(tables: Tables, rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Exchanges by the library that clients say they are, or speak like; brokers are left out."""
    told = with_software(tables, rows)
    told = told.filter(~told.is_broker)
    what = told.software.coalesce("unknown") + (" " + told.software_version).coalesce("")
    return counted(told.mutate(what=what), by)


def counted(rows: "ir.Table", by: Sequence[str], *more: str) -> "ir.Table":
    """How many exchanges each group and window has of each `what`."""
    known = rows.filter(rows.what.notnull())
    return known.group_by([*by, "at", "what", *more]).aggregate(x=known.count())


def bins(rows: "ir.Table", by: Sequence[str], of: str) -> "ir.Table":
    """The histogram of a measure for each group and window: bins by their first three digits."""
    known = measured(rows)
    known = known.mutate(value=known[f"{of}_ns"])
    known = known.filter(known.value.notnull())
    known = known.mutate(bin=rounded(known.value))
    return known.group_by([*by, "at", "bin"]).aggregate(x=known.count())


def rounded(value: "ir.IntegerValue") -> "ir.IntegerValue":
    """The number without what is behind its third digit, in whole numbers, so alike everywhere."""
    import ibis

    *steps, last = [10**digits for digits in range(WHOLE_DIGITS - KEPT_DIGITS + 1)]
    smaller = [(value < step * 10**KEPT_DIGITS, value - value % step) for step in steps]
    found: ir.IntegerValue = ibis.cases(*smaller, else_=value - value % last)
    return found


def quantiles(rows: "ir.Table", by: Sequence[str], of: str) -> "ir.Table":
    """The percentiles of a measure for each group, those that `latency` gives."""
    known = measured(rows)
    value = known[f"{of}_ns"]
    return known.group_by(list(by)).aggregate(
        **{name: whole(value.quantile(share)) for name, share in QUANTILES.items()}
    )
