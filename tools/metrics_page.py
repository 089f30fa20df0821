"""docs/metrics.md: the page as it is, with the table of metrics printed into it."""

from pathlib import Path

from kdissect.live.counting.counters import BOUNDS_NS, FEW_BOUNDS_NS
from kdissect.live.counting.metric_declarations import METRICS

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
START, STOP = "<!-- metrics: start -->", "<!-- metrics: stop -->"


def metrics_page() -> str:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(STOP)
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        name = metric.name if metric.kind == "histogram" else metric.series[0]
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{name}` | {metric.kind} | {labels} | {metric.meaning} |")
    many, few = (
        ", ".join(f"{ns / 1e9:g}" for ns in bounds.tolist())
        for bounds in (BOUNDS_NS, FEW_BOUNDS_NS)
    )
    lines += ["", f"Bounds of the histograms' buckets, in seconds: {many}, +Inf; by client and"]
    lines += [f"by topic: {few}, +Inf."]
    return "\n".join([before + START, "", *lines, "", STOP + after])
