"""Prints what was measured into docs/performance.md, and the chart beside it.

    python -m benchmarks.page

What lies between ``<!-- NAME: start -->`` and ``<!-- NAME: stop -->`` is of benchmarks/results.json
and benchmarks/instructions.json; the rest of the page is by hand. Ratios are of CPU time: every
program runs on one core, and what else runs there does not count.
"""

import json
from statistics import median
from typing import Any

from benchmarks import chart, results
from benchmarks.chart import Panel
from benchmarks.workloads import ROOT, WORKLOADS

PAGE = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "scaling.svg"
INSTRUCTIONS = ROOT / "benchmarks" / "instructions.json"
NAMES = {  # in their order on the page
    "tshark": "tshark",
    "dpkt": "dpkt, packets only",
    "plain": "kdissect, plain Python",
    "compiled": "kdissect",
}
PLAIN_TARGET = 4.0  # times tshark, on bulk and small
START_TARGETS_MS = {"--help": 150, "quickstart": 1000}
JOBS_TOLERANCE = 0.03  # two runs of the same differ by that
PEAK_TARGET = 500_000_000
LARGEST = 10_000_000_000
WORST_TARGET, MEDIAN_TARGET = 10.0, 20.0  # times tshark, `dissect` of drawn captures
FINDINGS_TARGET = 1.4  # times counting alone
FINDINGS_PEAK = 300_000_000
PROCESSES_TARGET = 1.7  # times as fast with two
BUSY = 0.7  # processes that ran or waited to run in the minute before
UNRELATED = 0.05  # cores that unrelated processes and the hypervisor used meanwhile
Kept = dict[str, Any]


def targets(kept: Kept) -> list[str]:
    """Targets next to results."""
    lines = ["| what | target | measured | |", "|---|---|---|---|"]
    for name, workload in in_order(kept.get("workloads", {})):
        programs = workload["programs"]
        if workload["target"]:
            lines.append(row(name, workload["target"], ratio(programs, "compiled"), "x tshark"))
        if "plain" in programs and name in ("bulk", "small"):
            found = ratio(programs, "plain")
            lines.append(row(f"{name}, plain Python", PLAIN_TARGET, found, "x tshark"))
        if workload["rate"][1]:
            lines.append(
                f"| {name}, for orientation | {workload['rate'][1]} | {rate(workload)} | |"
            )
    for name, of_one in in_order(kept.get("jobs", {})):
        found = faster(of_one["programs"])
        mark = verdict(found >= of_one["target"] * (1 - JOBS_TOLERANCE))
        told = f"{of_one['target']:.1f}x `--jobs 1` | {found:.2f}x"
        lines.append(f"| {name}, `--jobs 2`, elapsed | {told} | {mark} |")
    for name, milliseconds in START_TARGETS_MS.items():
        if name in kept.get("start_up", {}):
            found = kept["start_up"][name]["cpu_seconds"] * 1000
            mark = verdict(found <= milliseconds)
            told = f"under {milliseconds} ms | {found:.0f} ms"
            lines.append(f"| start-up: `kdissect {name}` | {told} | {mark} |")
    for point in kept.get("scaling", {}).get("size", []):
        if point["bytes"] >= LARGEST:
            peak = point["programs"]["compiled"]["peak_bytes"]
            told = f"under {megabytes(PEAK_TARGET)} | {megabytes(peak)}"
            lines.append(f"| peak memory, 10 GB of bulk | {told} | {verdict(peak < PEAK_TARGET)} |")
    return lines


def in_order(of_workloads: Kept) -> list[tuple[str, Any]]:
    """Stored results of each workload, in the order of the list."""
    return [
        (workload.name, of_workloads[workload.name])
        for workload in WORKLOADS
        if workload.name in of_workloads
    ]


def row(name: str, target: float, found: float, unit: str) -> str:
    """A line of the targets: more is better."""
    return f"| {name} | {target:.0f}{unit} | {found:.1f}{unit} | {verdict(found >= target)} |"


def verdict(reached: bool) -> str:
    return "reached" if reached else "**missed**"


def peers(kept: Kept) -> list[str]:
    """Every program on every workload."""
    lines = [
        "| workload | program | CPU time | of it start-up | MB/s | without start-up | rows/s "
        "| times tshark | elapsed | peak memory |",
        f"|{'---|' * 10}",
    ]
    for name, workload in in_order(kept.get("workloads", {})):
        title = f"{name}, {megabytes(workload['bytes'])}"
        for program in (one for one in NAMES if one in workload["programs"]):
            cells = peer(workload, program)
            lines.append(f"| {title} | {NAMES[program]} | {' | '.join(cells)} |")
            title = ""
    return [*lines, "", *circumstances(kept.get("workloads", {}).values())]


def peer(workload: Kept, program: str) -> list[str]:
    """The cells of one program on one workload."""
    figures, size = workload["programs"][program], workload["bytes"] / 1e6
    cpu, start_up = figures["cpu_seconds"], figures.get("start_up")
    rows = figures["rows"].get(workload["rate"][0])
    times = ratio(workload["programs"], program)
    return [
        f"{cpu:.2f} s",
        f"{start_up:.2f} s" if start_up else "",
        f"{size / cpu:.0f}",
        f"{size / (cpu - start_up):.0f}" if start_up and cpu > start_up else "",
        f"{thousands(rows / cpu)} {workload['rate'][0]}" if rows else "",
        f"{times:.1f}" if times else "",
        f"{figures['fastest']:.2f}-{figures['slowest']:.2f} s",
        megabytes(figures["peak_bytes"]),
    ]


def drawn(kept: Kept) -> list[str]:
    """Drawn captures, a line each; below them the worst and the median of each column."""
    found = dict(sorted(kept.get("drawn", {}).items()))
    if not found:
        return ["Not measured yet."]
    lines = [
        "| capture | connections | tshark | `dissect` | `--records` | counting | summary "
        "| summary / counting | peak memory of the summary | `dissect`, 2 processes "
        "| summary, 2 processes |",
        f"|{'---|' * 11}",
    ]
    for name, one in found.items():
        programs = one["programs"]
        cells = [f"{name}, {megabytes(one['bytes'])}", thousands(one["connections"])]
        cells.append(f"{programs['tshark']['cpu_seconds']:.2f} s")
        for program in ("dissect", "records", "counting", "summary"):
            seconds = programs[program]["cpu_seconds"]
            cells.append(f"{seconds:.2f} s, {ratio(programs, program):.1f}x")
        cells.append(f"{findings_cost(programs):.2f}")
        cells.append(megabytes(programs["summary"]["peak_bytes"]))
        cells += [f"{by_two(programs, program):.2f}x" for program in ("dissect", "summary")]
        lines.append(f"| {' | '.join(cells)} |")
    lines += drawn_extremes([one["programs"] for one in found.values()])
    return [*lines, "", *circumstances(found.values(), "one core, and all")]


def drawn_extremes(every: list[Kept]) -> list[str]:
    """The lines `worst`, `median` and `target`."""
    names = ("dissect", "records", "counting", "summary")
    times = [[ratio(programs, name) for programs in every] for name in names]
    costs = [findings_cost(programs) for programs in every]
    peaks = [programs["summary"]["peak_bytes"] for programs in every]
    both = [[by_two(programs, name) for programs in every] for name in ("dissect", "summary")]
    targets = f"{WORST_TARGET:.0f}x, median {MEDIAN_TARGET:.0f}x"
    lines = []
    for title, of_more, of_less in (("worst", min, max), ("median", median, median)):
        cells = [title, "", "", *(f"{of_more(column):.1f}x" for column in times)]
        cells += [f"{of_less(costs):.2f}", megabytes(of_less(peaks))]
        cells += [f"{of_more(column):.2f}x" for column in both]
        lines.append(f"| **{'** | **'.join(cells)}** |".replace("****", ""))
    at_most = f"{FINDINGS_TARGET} | {megabytes(FINDINGS_PEAK)}"
    processes = f"{PROCESSES_TARGET}x | {PROCESSES_TARGET}x"
    return [*lines, f"| target | | | {targets} | | | | {at_most} | {processes} |"]


def findings_cost(programs: Kept) -> float:
    """CPU time of the summary, divided by that of counting alone."""
    return float(programs["summary"]["cpu_seconds"] / programs["counting"]["cpu_seconds"])


def by_two(programs: Kept, name: str) -> float:
    """Speed-up by two processes, in elapsed time."""
    return float(programs[f"{name}, 1"]["seconds"] / programs[f"{name}, 2"]["seconds"])


def jobs(kept: Kept) -> list[str]:
    """One process beside two, in elapsed time."""
    found = kept.get("jobs", {})
    lines = [
        "| capture | `--jobs 1`, elapsed | `--jobs 2`, elapsed | times as fast | CPU time of both "
        "| peak memory of both |",
        f"|{'---|' * 6}",
    ]
    for name, one in in_order(found):
        alone, together = (one["programs"][number] for number in ("1", "2"))
        lines.append(
            f"| {name}, {megabytes(one['bytes'])} | {alone['seconds']:.2f} s "
            f"| {together['seconds']:.2f} s | {faster(one['programs']):.2f} "
            f"| {alone['cpu_seconds']:.2f} s, {together['cpu_seconds']:.2f} s "
            f"| {megabytes(alone['peak_bytes'])}, {megabytes(together['peak_bytes'])} |"
        )
    return [*lines, "", *circumstances(found.values(), "all cores")]


def faster(programs: Kept) -> float:
    """Speed-up by two processes, in elapsed time."""
    return float(programs["1"]["seconds"] / programs["2"]["seconds"])


def scaling(kept: Kept) -> list[str]:
    """The points of the chart."""
    found = kept.get("scaling", {})
    lines = [
        "| bulk | kdissect, CPU time | a GB | peak memory | dpkt | tshark |",
        "|---|---|---|---|---|---|",
    ]
    for point in found.get("size", []):
        own = point["programs"]["compiled"]
        a_gigabyte = own["cpu_seconds"] / point["bytes"] * 1e9
        lines.append(
            f"| {megabytes(point['bytes'])} | {own['cpu_seconds']:.2f} s | {a_gigabyte:.2f} s "
            f"| {megabytes(own['peak_bytes'])} | {others(point)} |"
        )
    lines += [
        "",
        "| small, connections | kdissect, CPU time | an exchange | peak memory | dpkt | tshark |",
        "|---|---|---|---|---|---|",
    ]
    for point in found.get("connections", []):
        own = point["programs"]["compiled"]
        an_exchange = own["cpu_seconds"] / own["rows"]["exchanges"] * 1e6
        lines.append(
            f"| {thousands(point['connections'])}, {megabytes(point['bytes'])} "
            f"| {own['cpu_seconds']:.2f} s | {an_exchange:.1f} µs "
            f"| {megabytes(own['peak_bytes'])} | {others(point)} |"
        )
    return [*lines, "", *circumstances([found] if found else [])]


def others(point: Kept) -> str:
    """The cells of the peers."""
    programs = point["programs"]
    times = [
        f"{programs[name]['cpu_seconds']:.1f} s" if name in programs else ""
        for name in ("dpkt", "tshark")
    ]
    return " | ".join(times)


def profiles(kept: Kept) -> list[str]:
    """Profile: a column a workload, and the floor."""
    found = dict(in_order(kept.get("profiles", {})))
    stages: dict[str, float] = {}
    for one in found.values():
        for stage, share in one["shares"].items():
            stages[stage] = stages.get(stage, 0.0) + share
    lines = [f"| | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for stage in sorted(stages, key=lambda name: -stages[name]):
        cells = [f"{one['shares'].get(stage, 0.0):.1f} %" for one in found.values()]
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    cells = [f"{one['seconds']:.2f} s" for one in found.values()]
    lines.append(f"| CPU time | {' | '.join(cells)} |")
    cells = [f"{one['start_up']:.2f} s" for one in found.values()]
    lines.append(f"| of it start-up | {' | '.join(cells)} |")
    for part in ("reading", "copying", "unpacking"):
        cells = [f"{one['floor'][part]:.2f} s" for one in found.values()]
        lines.append(f"| floor: {part} | {' | '.join(cells)} |")
    cells = [
        f"{(one['seconds'] - one['start_up']) / sum(one['floor'].values()):.1f}"
        for one in found.values()
    ]
    lines.append(f"| times the floor, without start-up | {' | '.join(cells)} |")
    return [*lines, "", *circumstances(found.values())]


def instructions() -> list[str]:
    """The accepted counts."""
    if not INSTRUCTIONS.exists():
        return ["Not counted yet."]
    accepted = json.loads(INSTRUCTIONS.read_text(encoding="utf-8"))
    lines = ["| path | instructions |", "|---|---|"]
    lines += [f"| {name} | {thousands(count)} |" for name, count in accepted["counts"].items()]
    built = ", ".join(f"{name} {value}" for name, value in accepted["built_with"].items())
    return [*lines, "", f"Counted with {built}."]


def commands(kept: Kept) -> list[str]:
    """CPU time and peak memory of every command on each drawn capture."""
    found = dict(sorted(kept.get("commands", {}).items()))
    titles = [
        f"{kind}, seed {one['seed']}, {megabytes(one['bytes'])}" for kind, one in found.items()
    ]
    lines = ["| command | " + " | ".join(titles) + " |", f"|{'---|' * (len(found) + 1)}"]
    for name in dict.fromkeys(name for one in found.values() for name in one["commands"]):
        cells = [
            f"{one['commands'][name]['cpu_seconds']:.2f} s, "
            f"{megabytes(one['commands'][name]['peak_bytes'])}"
            if name in one["commands"]
            else ""
            for one in found.values()
        ]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return [*(lines if found else []), "", *circumstances(found.values(), "all cores")]


def evidence(kept: Kept) -> list[str]:
    """CPU time and memory of each evidence of findings; in brackets where it is not asked."""
    found = dict(sorted(kept.get("evidence", {}).items()))
    titles = [
        f"{kind}, seed {one['seed']}, {megabytes(one['bytes'])}, {thousands(one['rows'])} rows"
        for kind, one in found.items()
    ]
    lines = ["| part | " + " | ".join(titles) + " |", f"|{'---|' * (len(found) + 1)}"]
    for name in dict.fromkeys(name for one in found.values() for name in one["parts"]):
        cells = [evidence_cell(one["parts"].get(name)) for one in found.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*(lines if found else []), "", *circumstances(found.values(), "all cores")]


def evidence_cell(figures: Kept | None) -> str:
    """The figures of one evidence."""
    if figures is None:
        return ""
    text = f"{figures['cpu_seconds']:.2f} s"
    if "peak_bytes" in figures:
        text += f", {megabytes(figures['peak_bytes'])}"
    return text if figures.get("is_asked", True) else f"({text})"


def circumstances(measured: Any, where: str = "one core") -> list[str]:
    """Date and machine in a sentence for each that differs, with the busiest time."""
    sentences: dict[str, Kept] = {}
    for one in measured:
        at = one["circumstances"]
        sentence = (
            f"Measured on {at['date']}, revision {at['revision']}, Python {at['python']}, "
            f"tshark {at['tshark']}; {where} of {at['cores']}, {at['processor']}."
        )
        sentences[sentence] = max(sentences.get(sentence, at), at, key=business)
    return [sentence + busy(at) for sentence, at in sentences.items()] or ["Not measured yet."]


def business(at: Kept) -> float:
    """Cores that unrelated processes used, or the load of the minute before."""
    return float(at.get("others", at["load"]))


def busy(at: Kept) -> str:
    """What follows the sentence about a machine that was not quiet."""
    share = at.get("others")
    if share is None:
        is_busy, why = at["load"] > BUSY, f"load {at['load']}"
    else:
        is_busy, why = share > UNRELATED, f"other processes used {share:.2f} cores"
    return f" **The machine was busy** ({why}): the numbers are preliminary." if is_busy else ""


def ratio(programs: Kept, name: str) -> float:
    """CPU time of tshark divided by that of kdissect; 0 when tshark did not run."""
    if "tshark" not in programs:
        return 0.0
    base, own = programs["tshark"]["cpu_seconds"], programs[name]["cpu_seconds"]
    return float(base / own)


def rate(workload: Kept) -> str:
    """Throughput of the compiled build: rows of the table if it is known, else megabytes."""
    figures = workload["programs"]["compiled"]
    table = workload["rate"][0]
    if table:
        return f"{thousands(figures['rows'][table] / figures['cpu_seconds'])}/s"
    return f"{workload['bytes'] / 1e6 / figures['cpu_seconds']:.0f} MB/s"


def megabytes(size: float) -> str:
    return f"{thousands(size / 1e6)} MB"


def thousands(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


def panels(kept: Kept) -> list[Panel]:
    """The two curves."""
    found = kept["scaling"]
    sides = (
        ("size", "Over size (bulk)", "megabytes", lambda point: point["bytes"] / 1e6),
        (
            "connections",
            "Over connections (400 000 small exchanges)",
            "connections",
            lambda point: point["connections"],
        ),
    )
    return [
        Panel(
            title,
            across,
            "seconds of CPU",
            {
                NAMES[name]: [
                    (place(point), point["programs"][name]["cpu_seconds"])
                    for point in found[side]
                    if name in point["programs"]
                ]
                for name in ("compiled", "dpkt", "tshark")
            },
        )
        for side, title, across, place in sides
        if side in found
    ]


def between(page: str, name: str, lines: list[str]) -> str:
    """The page with new lines between the marks of a name."""
    start, stop = f"<!-- {name}: start -->\n", f"<!-- {name}: stop -->"
    before, rest = page.split(start)
    _, after = rest.split(stop)
    return before + start + "\n" + "\n".join(lines) + "\n\n" + stop + after


def printed(page: str, kept: Kept) -> str:
    """The page with all that was measured."""
    parts = {
        "targets": targets(kept),
        "peers": peers(kept),
        "drawn": drawn(kept),
        "jobs": jobs(kept),
        "scaling": scaling(kept),
        "profiles": profiles(kept),
        "commands": commands(kept),
        "evidence": evidence(kept),
        "instructions": instructions(),
    }
    for name, lines in parts.items():
        page = between(page, name, lines)
    return page


def write(kept: Kept) -> None:
    """Write page and chart."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(printed(page, kept), encoding="utf-8")
    if "scaling" in kept:
        CHART.write_text(chart.drawn(panels(kept)), encoding="utf-8")


if __name__ == "__main__":
    write(results.read())
