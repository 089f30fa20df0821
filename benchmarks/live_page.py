"""Prints the results of `benchmarks.live` into docs/live-performance.md, and the chart beside it.

python -m benchmarks.live_page
"""

import json
import statistics
from typing import Any

from benchmarks import chart, live_on_paper, page, spark_page
from benchmarks.chart import Panel
from benchmarks.live_broker import WITHOUT
from benchmarks.live_memory import growth, slope, warm
from benchmarks.workloads import ROOT

FILE = ROOT / "benchmarks" / "live-results.json"
PAGE = ROOT / "docs" / "live-performance.md"
CHART = ROOT / "docs" / "live-performance.svg"
NAMES = {  # in order of printing
    "tcpdump": "`tcpdump -w`",
    "ring": "`kdissect live`, ring",
    "snaplen": "`kdissect live`, ring, `--snaplen 128`",
    "scapy": "`kdissect live`, scapy's socket",
    "tshark": "`tshark -i`",
}
CHARTED = {"ring": "kdissect", "tcpdump": "tcpdump -w", "tshark": "tshark"}
OF_TCPDUMP, OF_TSHARK = 0.5, 10.0  # targets
BROKER_TARGET = 0.03
FLAT = 0.05  # more at the end than at the beginning
LEAST_LOSS = 1e-4  # where the chart draws none
Kept = dict[str, Any]


def read() -> Kept:
    """Stored results; empty when nothing was measured yet."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def keep(sections: Kept) -> None:
    """Replace the earlier results of these sections, and print."""
    kept = read() | sections
    FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write(read())  # in the order that it is kept in


def rates(kept: Kept) -> list[str]:
    """The highest rate that each sustained, and its resources."""
    lines = [
        "| traffic | capture by | packets/s | MB/s | of `tcpdump -w` | x tshark "
        "| CPU for 100 MB | memory | |",
        f"|{'---|' * 9}",
    ]
    for workload, found in kept.get("rates", {}).get("found", {}).items():
        title = workload
        for name in (one for one in NAMES if one in found):
            lines.append(f"| {title} | {NAMES[name]} | {' | '.join(cells(found, name))} |")
            title = ""
    return [*lines, "", *spark_page.measured(kept.get("rates", {}))]


def cells(found: Kept, name: str) -> list[str]:
    """Suffix of a capturer's name."""
    held = found[name]["held"]
    if held is None:
        return ["none was held", *[""] * 6]
    sent = held["sent"]
    least = "at least " if found[name]["is_senders_limit"] else ""
    return [
        least + page.thousands(packets_a_second(held)),
        f"{sent['bytes'] / sent['seconds'] / 1e6:.0f}",
        *(shown_ratio(found, name, other) for other in ("tcpdump", "tshark")),
        f"{held['cpu_seconds'] / sent['bytes'] * 1e8:.2f} s",
        page.megabytes(held["peak_bytes"]),
        reached(found, name),
    ]


def packets_a_second(step: Kept) -> float:
    return float(step["sent"]["packets"] / step["sent"]["seconds"])


def ratio(found: Kept, name: str, other: str) -> float:
    """Ratio of the two; 0 where one of them sustained nothing."""
    both = [found.get(one, {}).get("held") for one in (name, other)]
    if name == other or None in both:
        return 0.0
    return packets_a_second(both[0]) / packets_a_second(both[1])


def shown_ratio(found: Kept, name: str, other: str) -> str:
    times = ratio(found, name, other)
    return f"{times:.2f}" if times and times < 10 else f"{times:.0f}" if times else ""


def reached(found: Kept, name: str) -> str:
    """Results of kdissect with its ring next to the targets."""
    if name != "ring":
        return ""
    beside = (("tcpdump", OF_TCPDUMP), ("tshark", OF_TSHARK))
    times = {other: (ratio(found, name, other), target) for other, target in beside}
    if any(not one for one, _ in times.values()):
        return ""
    return page.verdict(all(one >= target for one, target in times.values()))


def broker(kept: Kept) -> list[str]:
    """Throughput of the broker with and without capture."""
    found = kept.get("broker", {}).get("found", {})
    lines = [
        "| network | | MB/s | of all rounds | round by round | from, to | CPU of capturing "
        "| under 3 % |",
        f"|{'---|' * 8}",
    ]
    for network, measured in found.items():
        ways = measured["ways"]
        for name in (one for one in (WITHOUT, *NAMES) if one in ways):
            cells = [NAMES.get(name, name), *beside(ways[WITHOUT]["rate"], name, ways[name])]
            lines.append(f"| {network if name == WITHOUT else ''} | {' | '.join(cells)} |")
    return [*lines, "", *spark_page.measured(kept.get("broker", {}))]


def beside(without: list[float], name: str, one: Kept) -> list[str]:
    """The median of one way, and its loss against the throughput without it.

    Once of all rounds' median, once of the same round's: both have to be small.
    """
    rate = statistics.median(one["rate"])
    if name == WITHOUT:
        return [f"{rate:.1f}", *[""] * 5]
    changes = [own / other - 1 for own, other in zip(one["rate"], without, strict=True)]
    whole, change = rate / statistics.median(without) - 1, statistics.median(changes)
    return [
        f"{rate:.1f}",
        f"{whole * 100:+.1f} %",
        f"{change * 100:+.1f} %",
        f"{min(changes) * 100:+.1f}, {max(changes) * 100:+.1f} %",
        f"{statistics.median(one['cpu_share']) * 100:.0f} % of a core",
        page.verdict(-min(whole, change) < BROKER_TARGET) if name in ("ring", "snaplen") else "",
    ]


def memory(kept: Kept) -> list[str]:
    """Memory over time, and whether all packets were seen."""
    found = kept.get("memory", {}).get("found", {})
    if not found:
        return ["Not measured yet."]
    samples = warm(found["samples"])
    sizes = [size for _, size in samples]
    share = growth(samples)
    sent = found["sent"]
    rows = [
        ("time", f"{sent['seconds'] / 60:.0f} min"),
        ("packets sent", page.thousands(sent["packets"])),
        ("packets seen", page.thousands(found["packets"])),
        ("rate", f"{page.thousands(sent['packets'] / sent['seconds'])}/s"),
        ("CPU", f"{found['cpu_seconds'] / sent['seconds'] * 100:.0f} % of a core"),
        ("memory after the warm-up", f"{page.megabytes(min(sizes))} to "
         f"{page.megabytes(max(sizes))}"),
        ("its slope", f"{slope(samples) / 1e6:+.1f} MB/h"),
        ("the last third beside the first", f"{share * 100:+.1f} %"),
        (f"flat: less than {FLAT * 100:.0f} % more", page.verdict(share < FLAT)),
    ]  # fmt: skip
    lines = ["| | |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)]
    return [*lines, "", *spark_page.measured(kept["memory"])]


def soak(kept: Kept, section: str = "soak") -> list[str]:
    """Counts of the clients and of the tables, and the faults injected meanwhile."""
    found = kept.get(section, {}).get("found", {})
    if not found:
        return ["Not measured yet."]
    counts, findings = found["counts"], found["findings"]
    rows = [
        ("time, with clients", f"{found['minutes']:g} min, {found['clients']}"),
        *((what, page.thousands(count)) for what, count in counts),
        *((f"**{what}**", page.thousands(count)) for what, count in findings.items()),
        ("lost without an outage, twice, or not whole", page.verdict(not findings)),
    ]
    if found.get("workers", 1) > 1:
        rows.insert(1, ("workers", str(found["workers"])))
    if kept[section]["circumstances"].get("kdissect") == "plain Python":
        rows.insert(0, ("kdissect", "plain Python, not compiled"))
    lines = ["| | |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)]
    return [*lines, "", *spark_page.measured(kept[section])]


def soak_workers(kept: Kept) -> list[str]:
    """The same with several workers."""
    return soak(kept, "soak_workers")


def workers(kept: Kept) -> list[str]:
    """The highest rate by number of workers, and as a multiple of that of the first number."""
    found = kept.get("workers", {}).get("found", {})
    if not found:
        return ["Not measured yet: needs more cores than the sender's and one worker's."]
    lines = [
        "| traffic | workers | cores | packets/s | MB/s | times | CPU for 1 M packets | memory |",
        f"|{'---|' * 8}",
    ]
    for workload, counts in found.items():
        first = next((one["held"] for one in counts.values() if one["held"]), None)
        for count, one in counts.items():
            cells = of_workers(one, first)
            lines.append(f"| {workload} | {count} | {one['cores']} | {' | '.join(cells)} |")
    return [*lines, "", *spark_page.measured(kept["workers"])]


def drain(kept: Kept) -> list[str]:
    """Rates at which full buffers were read, and as a multiple of that of the first number."""
    found = kept.get("drain", {}).get("found", {})
    if not found:
        return ["Not measured yet."]
    lines = [
        "| traffic | workers, cores | rounds | packets/s | from, to | MB/s | times "
        "| CPU for 1 M packets | memory |",
        f"|{'---|' * 9}",
    ]
    for workload, counts in found.items():
        first = median_rate(next(iter(counts.values())), "packets")
        for count, rounds in counts.items():
            cells = " | ".join(of_drain(rounds, first))
            lines.append(f"| {workload} | {count} | {len(rounds)} | {cells} |")
    return [*lines, "", *spark_page.measured(kept["drain"])]


def of_drain(rounds: list[Kept], first: float) -> list[str]:
    """Medians of one number of workers."""
    each = [one["packets"] / one["seconds"] for one in rounds]
    cpu = statistics.median(one["cpu_seconds"] / one["packets"] for one in rounds)
    return [
        page.thousands(median_rate(rounds, "packets")),
        f"{page.thousands(min(each))}, {page.thousands(max(each))}",
        f"{median_rate(rounds, 'bytes') / 1e6:.0f}",
        f"{median_rate(rounds, 'packets') / first:.2f}",
        f"{cpu * 1e6:.2f} s",
        page.megabytes(max(one["peak_bytes"] for one in rounds)),
    ]


def median_rate(rounds: list[Kept], what: str) -> float:
    """Packets or bytes a second."""
    return statistics.median(one[what] / one["seconds"] for one in rounds)


def overhead(kept: Kept) -> list[str]:
    """CPU time for a packet by number of workers, at one rate, on one core."""
    found = kept.get("overhead", {}).get("found", {})
    if not found:
        return ["Not measured yet."]
    lines = ["| workers | rounds | CPU for 1 M packets | from, to | times |", f"|{'---|' * 5}"]
    first = live_on_paper.median(kept, next(iter(found["seconds"])))
    for count, each in found["seconds"].items():
        middle = live_on_paper.median(kept, count)
        if middle is None or first is None:
            lines.append(f"| {count} | 0 |  |  |  |")
            continue
        extremes = f"{min(each):.2f}, {max(each):.2f} s"
        cells = f"{len(each)} | {middle:.2f} s | {extremes} | {middle / first:.2f}"
        lines.append(f"| {count} | {cells} |")
    rate = page.thousands(round(found["rate"]))
    return [*lines, "", f"At {rate} packets/s.", "", *spark_page.measured(kept["overhead"])]


def of_workers(one: Kept, first: Kept | None) -> list[str]:
    """What one number of workers sustained."""
    held = one["held"]
    if held is None or first is None:
        return ["none was held", *[""] * 4]
    sent = held["sent"]
    least = "at least " if one["is_senders_limit"] else ""
    return [
        least + page.thousands(packets_a_second(held)),
        f"{sent['bytes'] / sent['seconds'] / 1e6:.0f}",
        f"{packets_a_second(held) / packets_a_second(first):.2f}",
        f"{held['cpu_seconds'] / sent['packets'] * 1e6:.2f} s",
        page.megabytes(held["peak_bytes"]),
    ]


def panels(kept: Kept) -> list[Panel]:
    """Chart of loss by rate, a panel for each workload."""
    return [
        Panel(
            f"Lost, {workload}",
            "packets a second",
            "share",
            {CHARTED[name]: points(one["steps"]) for name, one in found.items() if name in CHARTED},
        )
        for workload, found in kept.get("rates", {}).get("found", {}).items()
        if any(name in CHARTED for name in found)
    ]


def points(steps: list[Kept]) -> list[tuple[float, float]]:
    """Rates, rising, with the share that was lost or not come to in time."""
    lost = [
        (packets_a_second(one), max(LEAST_LOSS, 1 - one["packets"] / max(1, one["arrived"])))
        for one in steps
    ]
    return sorted(lost)


PARTS = {
    "rates": rates, "broker": broker, "memory": memory, "soak": soak, "workers": workers,
    "drain": drain, "overhead": overhead, "soak_workers": soak_workers,
    "paper": live_on_paper.lines,
}  # fmt: skip


def printed(text: str, kept: Kept) -> str:
    """The page with all that was measured."""
    for name, part in PARTS.items():
        text = page.between(text, name, part(kept))
    return text


def write(kept: Kept) -> None:
    """Write page and chart."""
    PAGE.write_text(printed(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")
    CHART.write_text(chart.drawn(panels(kept)), encoding="utf-8")


if __name__ == "__main__":
    keep({})
