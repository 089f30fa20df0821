"""Input of the rules from the rows of a test; columns not given are null."""

from collections.abc import Mapping
from typing import Any

from kdissect.analysis.summary.counters import ApiRow, ClientRow, Quantiles
from kdissect.analysis.summary.network import Network
from kdissect.analysis.summary.summary import Summary, Totals, summarise
from kdissect.rules.compiled_sql import query
from kdissect.rules.context import Context
from kdissect.rules.engine import judge
from kdissect.rules.finding import Finding
from kdissect.rules.indicators import Indicators

MS = 1_000_000
SECOND = 1_000_000_000
START_US = 1_700_000_000_000_000
SPAN = 60 * SECOND
NONE = Quantiles(None, None, None, None)


def api(name: str, exchanges: int = 100, p99_ms: float = 1.0, **more: Any) -> ApiRow:
    """An API whose answered requests took p99_ms, most of it broker time."""
    p99 = round(p99_ms * MS)
    row = {
        "api": name, "api_key": 0, "versions": [12], "exchanges": exchanges, "with_errors": 0,
        "unanswered": 0, "latency": Quantiles(p99, p99, p99, p99),
        "work": Quantiles(p99, p99, p99, p99), "waited": 0.0, "request_bytes": 0,
        "response_bytes": 0, "answered": exchanges,
    }  # fmt: skip
    return ApiRow(**(row | more))


def made_summary(
    *apis: ApiRow,
    clients: tuple[str, ...] = (),
    network: Mapping[str, int] | None = None,
    **more: Any,
) -> Summary:
    """A summary of a minute with these APIs."""
    empty = summarise([])
    rows = [ClientRow(name, 1, 0, NONE, 0, 0) for name in clients]
    counted = {name: 0 for name in Network.__dataclass_fields__ if name != "round_trip"}
    fields = {name: getattr(empty, name) for name in Summary.__dataclass_fields__}
    fields |= {
        "totals": Totals(
            START_US * 1000, START_US * 1000 + SPAN, 1, sum(row.exchanges for row in apis), {},
            sum(row.with_errors for row in apis), 0, 0,
        ),
        "apis": list(apis), "clients": rows,
        "network": Network(**(counted | dict(network or {})), round_trip=NONE),
        "balance": {"packets": 10, "payload_bytes": 1000},
    }  # fmt: skip
    return Summary(**(fields | more))


def seen(
    *apis: ApiRow, summary: Summary | None = None, **evidence: list[dict[str, Any]]
) -> Context:
    """Evidence by name; each row has all columns of it, most of them null."""
    rows = {
        name: [dict.fromkeys(columns_of(name)) | row for row in given]
        for name, given in evidence.items()
    }
    return Context(summary or made_summary(*(apis or (api("Produce"),))), Indicators(), rows)


def columns_of(evidence: str) -> list[str]:
    """The columns that the printed query gives."""
    told = query(evidence).partition("FROM (\n")[0].removeprefix("SELECT ")
    return [one.strip().split(" ")[-1].strip('"') for one in told.strip().split(", ")]


def ids(found: list[Finding]) -> list[str]:
    """Their ids, without those always reported."""
    return [one.id for one in found if one.id != "latencies"]


def judged(*apis: ApiRow, **evidence: list[dict[str, Any]]) -> list[Finding]:
    """Findings of the rules for the evidence."""
    return [one for one in judge(seen(*apis, **evidence)) if one.id != "latencies"]
