"""Prints the results of `benchmarks.spark` into docs/spark-performance.md, and the chart beside it.

python -m benchmarks.spark_page
"""

import json
import statistics
from typing import Any

from benchmarks import chart, page
from benchmarks.chart import Panel
from benchmarks.workloads import ROOT

FILE = ROOT / "benchmarks" / "spark-results.json"
PAGE = ROOT / "docs" / "spark-performance.md"
CHART = ROOT / "docs" / "spark-scaling.svg"
RATIO_TARGET = 0.7
BOUNDARY_TARGET = 0.01
RATE_TARGET = 50  # MB/s that batches have to keep up with
SLOWER, START = 3, 5  # times as long as DuckDB, and seconds, that Spark may take for a question
GB, TB = 1e9, 1e12
DAY = 86_400
BROKERS, BROKER_RATE = 100, 10e6
WORKLOADS = ("small", "bulk")  # those of the reckoning
Kept = dict[str, Any]


def read() -> Kept:
    """Stored results; empty when nothing was measured yet."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def keep(sections: Kept) -> None:
    """Keep these sections in place of their earlier results, and print."""
    kept = read() | sections
    FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write(read())  # in the order of the file


def rates(kept: Kept) -> list[str]:
    """The pipeline beside two processes."""
    found = kept.get("rates", {})
    lines = [
        "| captures | `--jobs 2` | run of a session, local[2] | Spark | ratio | of CPU time "
        "| of 70 % |",
        f"|{'---|' * 7}",
    ]
    for name, one in found.get("found", {}).items():
        jobs = one["jobs"]
        title = f"{name}, {page.megabytes(one['bytes'])} in {one['files']} files"
        for which, spark in (("first", one["spark"]), ("second", one["later"])):
            ratio = jobs["seconds"] / spark["seconds"]
            lines.append(
                f"| {title} | {jobs['seconds']:.1f} s | {which} | {spark['seconds']:.1f} s "
                f"| {percent(ratio)} | {percent(jobs['cpu_seconds'] / spark['cpu_seconds'])} "
                f"| {page.verdict(ratio >= RATIO_TARGET)} |"
            )
    return [*lines, "", *measured(found)]


def boundaries(kept: Kept) -> list[str]:
    """Totals of all splits."""
    lines = [
        "| captures | splits | boundary states | share | under 1 % | rows that waited |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in kept.get("rates", {}).get("found", {}).items():
        share = one["boundary_bytes"] / one["bytes"]
        lines.append(
            f"| {name} | {one['splits']} | {one['boundary_bytes'] / 1e6:.1f} MB | {share:.2%} "
            f"| {page.verdict(share < BOUNDARY_TARGET)} | {page.megabytes(one['row_bytes'])} |"
        )
    return lines


def batches(kept: Kept) -> list[str]:
    """Batches of 100 MB, one after the other."""
    found = kept.get("batches", {})
    lines = [
        "| captures | first | second | tenth | last | median | of CPU | for 50 MB/s | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, one in found.get("found", {}).items():
        seconds = one["seconds"]
        shown = [seconds[0], seconds[1], seconds[9], seconds[-1], middle(seconds)]
        due = one["bytes"][0] / 1e6 / RATE_TARGET
        lines.append(
            f"| {name} | {' | '.join(f'{number:.1f} s' for number in shown)} "
            f"| {middle(one['cpu_seconds']):.1f} s | {due:.1f} s "
            f"| {page.verdict(middle(seconds) <= due)} |"
        )
    return [*lines, "", *measured(found)]


def scaling(kept: Kept) -> list[str]:
    """Cost over files, connections and cores."""
    found = kept.get("scaling", {})
    lines = ["| captures | cores | seconds | of CPU | boundary states |", "|---|---|---|---|---|"]
    for side in ("files", "connections"):
        for one in found.get("found", {}).get(side, []):
            lines.append(
                f"| {page.megabytes(one['bytes'])}, {page.thousands(one[side])} {side} "
                f"| {one['cores']} | {one['seconds']:.1f} s | {one['cpu_seconds']:.1f} s "
                f"| {one['boundary_bytes'] / 1e6:.1f} MB |"
            )
    return [*lines, "", *measured(found)]


def questions(kept: Kept) -> list[str]:
    """Every question by each engine, and whether Spark takes at most 3 times as long and 5 s."""
    found = kept.get("questions", {}).get("found", {})
    if not found:
        return ["Not measured yet."]
    lines = [
        f"A capture of {page.megabytes(found['capture_bytes'])}, a dataset of "
        f"{page.megabytes(found['bytes'])}; largest resident set of the JVM "
        f"{page.megabytes(found['jvm'])}.",
        "",
        "| question | rows | DuckDB | of CPU | Spark, local[2] | of CPU "
        "| at most 3 times and 5 s | Spark SQL | of CPU | shuffled |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, one in found["questions"].items():
        duckdb, spark, sql = one["duckdb"], one["spark"], one["sql"]
        most = SLOWER * duckdb["seconds"] + START
        lines.append(
            f"| `{name}` | {page.thousands(duckdb['rows'])} | {cost(duckdb)} | {cost(spark)} "
            f"| {page.verdict(spark['seconds'] <= most)} | {cost(sql)} "
            f"| {sql['shuffled'] / 1e6:.1f} MB |"
        )
    ratios = [
        one["sql"]["cpu_seconds"] / one["duckdb"]["cpu_seconds"]
        for one in found["questions"].values()
    ]
    return [
        *lines,
        "",
        f"Spark SQL takes {statistics.median(ratios):.0f} times the CPU time of DuckDB in the "
        f"median, {min(ratios):.0f} to {max(ratios):.0f} times.",
        "",
        *measured(kept["questions"]),
    ]


def cost(one: dict[str, Any]) -> str:
    """Seconds of a question, and of CPU time."""
    return f"{one['seconds']:.1f} s | {one['cpu_seconds']:.1f} s"


def reckoning(kept: Kept) -> list[str]:
    """Extrapolation to larger amounts."""
    found = kept.get("rates", {}).get("found", {})
    chosen = {name: found[name] for name in WORKLOADS if name in found}
    each = [one["spark"]["cpu_seconds"] / one["bytes"] for one in chosen.values()]
    shares = [one["boundary_bytes"] / one["bytes"] for one in chosen.values()]
    volume = BROKERS * BROKER_RATE
    rows = [
        ("CPU for 1 GB", [f"{one * GB:.1f} s" for one in each]),
        ("1 TB a day: CPU", [f"{one * TB / 3600:.1f} h" for one in each]),
        ("of it, cores that are busy all day", [f"{one * TB / DAY:.2f}" for one in each]),
        ("on 8 cores, done in", [f"{one * TB / 8 / 60:.0f} min" for one in each]),
        ("boundary states a day", [f"{share * TB / GB:.1f} GB" for share in shares]),
        (
            f"{BROKERS} brokers with {BROKER_RATE / 1e6:.0f} MB/s each, "
            f"{volume * DAY / TB:.0f} TB a day: cores",
            [f"{one * volume:.0f}" for one in each],
        ),
    ]
    lines = [
        f"| | {' | '.join(chosen)} |",
        f"|---|{'---|' * len(chosen)}",
        *(f"| {what} | {' | '.join(values)} |" for what, values in rows),
    ]
    return lines if chosen else ["Not measured yet."]


def panels(kept: Kept) -> list[Panel]:
    """Over files and over connections, a line for each number of cores."""
    found = kept.get("scaling", {}).get("found", {})
    return [
        Panel(
            title,
            side,
            "seconds",
            {
                f"local[{cores}]": [
                    (float(one[side]), one["seconds"])
                    for one in found[side]
                    if one["cores"] == cores
                ]
                for cores in (1, 2)
            },
        )
        for side, title in (
            ("files", "Over files (the same packets)"),
            ("connections", "Over connections (400 000 exchanges)"),
        )
        if side in found
    ]


def measured(found: Kept) -> list[str]:
    """Date and machine."""
    if "circumstances" not in found:
        return ["Not measured yet."]
    where = found["circumstances"]
    return [
        f"Measured on {where['date']}, revision {where['revision']}, Python {where['python']}; "
        f"{where['cores']} cores, {where['processor']}.{page.busy(where)}"
    ]


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def printed(text: str, kept: Kept) -> str:
    """The page with all that was measured."""
    for part in (rates, boundaries, batches, scaling, questions, reckoning):
        text = page.between(text, part.__name__, part(kept))
    return text


def write(kept: Kept) -> None:
    """Write page and chart."""
    PAGE.write_text(printed(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")
    CHART.write_text(chart.drawn(panels(kept)), encoding="utf-8")


if __name__ == "__main__":
    write(read())
