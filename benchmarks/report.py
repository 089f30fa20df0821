"""Size, time and memory of reports on drawn captures, beside `kdissect FILE`; prints a table.

    python -m benchmarks.report [--megabytes 30] [--kinds mixed,small,bulk,wide] [--seed 2]
    python -m benchmarks.report --large
    python -m benchmarks.report --long

The large ones: quickstart, 1 GB of bulk, 500 MB of small messages, 440 MB of 4 000 mixed
connections, and 100 000 clients, each with an address of its own and four exchanges. The long ones:
10 GB of large responses, which need as much room for temporary files, and a dataset of 30 days.
CPU time and memory are medians of `--rounds` runs of each command in turn. Time to interactive is
`domInteractive` of Debian's Chromium when the page is opened from disk, the least of five; beside
it the time until all plots are drawn. "-" without a browser or Playwright.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import drawn, timing
from benchmarks.repeated import repeat
from benchmarks.timing import KDISSECT, Program
from benchmarks.workloads import ROOT
from kdissect.spark.pipeline import dissect

CONNECTIONS: Final = 4_000
QUICKSTART: Final = ROOT / "captures" / "quickstart.pcapng"
# Kind, megabytes, connections open at a time.
LARGE: Final = (("bulk", 1_000, 50), ("small", 500, CONNECTIONS), ("mixed", 440, CONNECTIONS))
CLIENTS: Final = 100_000
EXCHANGES: Final = 4  # of each client
# Milliseconds until the page can be used, and until all of its plots are drawn.
TEN_GIGABYTES: Final = (
    "--megabytes", "10000", "--mss", "8948", "--min-size", "20000", "--connections", "50",
)  # fmt: skip
LARGE_RESPONSES: Final = ROOT / "captures" / "quorum-4.3.1.pcapng"
DAYS: Final = 30
OF_A_DAY: Final = 10_000_000  # bytes
INTERACTIVE: Final = (
    "[performance.getEntriesByType('navigation')[0].domInteractive, "
    "performance.getEntriesByName('drawn')[0].startTime]"
)
OPENED: Final = 5  # times; the least counts, as other programs of the machine add to it


def interactive(page: Path) -> str:
    """Milliseconds until a browser lets its user act, and until all is drawn."""
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "-"
    if program is None:
        return "-"
    with sync_playwright() as driver:
        found = [opening(driver, program, page) for _ in range(OPENED)]
    usable, drawn_at = (min(times) for times in zip(*found, strict=True))
    return f"{usable:.0f} / {drawn_at:.0f} ms"


def opening(driver: Any, program: str, page: Path) -> list[float]:
    """The times of one opening, in a browser of its own."""
    browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
    opened = browser.new_page()
    opened.goto(page.as_uri())
    opened.wait_for_selector("html[data-ready]", timeout=60_000)
    found: list[float] = opened.evaluate(INTERACTIVE)
    browser.close()
    return found


def line(kind: str, capture: Path, scratch: Path, program: str, rounds: int) -> str:
    """The figures of one capture."""
    page = scratch / "report.html"
    words = (*KDISSECT, "report", "{}", "-o", str(page), "--force")
    programs = [
        Program("summary", (*KDISSECT, "summary", "{}"), program),
        Program("report", words, program),
    ]
    found = timing.in_turn(programs, capture, rounds)
    summary, report = found["summary"], found["report"]
    cpu = [median(one.cpu_seconds for one in runs) for runs in (report, summary)]
    peak = [median(one.peak_bytes for one in runs) / 1e6 for runs in (report, summary)]
    times = f"{cpu[0]:.2f} / {cpu[1]:.2f} s  {cpu[0] / cpu[1]:.2f}"
    memory = f"{peak[0]:.0f} / {peak[1]:.0f} MB  {peak[0] / peak[1]:.2f}"
    sizes = f"{size_of(capture) / 1e6:6.0f} MB  {page.stat().st_size / 1e6:.2f} MB"
    return f"{kind:10} {sizes}  {interactive(page):>14}  {times:>20}  {memory:>20}"


def size_of(source: Path) -> int:
    """Bytes of a capture, or of the files of a dataset."""
    files = source.rglob("*") if source.is_dir() else [source]
    return sum(one.stat().st_size for one in files if one.is_file())


def large(seed: int, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Each large case with its capture, which the next one overwrites."""
    yield "quickstart", QUICKSTART
    capture = scratch / "large.pcap"
    for kind, megabytes, connections in LARGE:
        parameters = drawn.draw(seed, kind, ())._replace(connections=connections)
        drawn.make(parameters, capture, megabytes * 1_000_000)
        yield kind, capture
    words = ["benchmarks.generate", str(QUICKSTART), str(capture), "--ports", "1"]
    words += ["--connections", str(CLIENTS), "--exchanges-each", str(EXCHANGES)]
    subprocess.run([sys.executable, "-m", *words], check=True, cwd=ROOT, capture_output=True)
    yield "clients", capture


def long(seed: int, scratch: Path) -> Iterator[tuple[str, Path]]:
    """10 GB, and a dataset of a capture a day; each is removed before the next one is made."""
    capture = scratch / "long.pcap"
    words = ["benchmarks.generate", str(LARGE_RESPONSES), str(capture), *TEN_GIGABYTES]
    subprocess.run([sys.executable, "-m", *words], check=True, cwd=ROOT, capture_output=True)
    yield "10 GB", capture
    parameters = drawn.draw(seed, "small", ())._replace(connections=1_000)
    drawn.make(parameters, capture, OF_A_DAY)
    days, dataset = scratch / "days", scratch / "dataset"
    repeat(capture, days, DAYS * OF_A_DAY, DAYS, is_each=True)
    capture.unlink()
    outcome = dissect(None, [str(days)], str(dataset))
    if outcome.broken or outcome.captures != DAYS:
        raise SystemExit(f"{outcome.captures} of {DAYS} captures: {outcome.broken}")
    yield "30 days", dataset


def main() -> None:
    parser = drawn.parser(__doc__)
    parser.add_argument("--large", action="store_true", help="the large cases instead")
    parser.add_argument("--long", action="store_true", help="the long cases instead")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each command")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    options = parser.parse_args()
    print(
        "capture              page   usable / drawn  "
        "CPU report / summary  memory report / summary, and their ratios"
    )
    with tempfile.TemporaryDirectory(prefix="kdissect-report-") as name:
        scratch = Path(name)
        small = drawn.captures(options, CONNECTIONS, scratch)
        cases = small
        if options.large or options.long:
            cases = (large if options.large else long)(options.seed, scratch)
        for kind, capture in cases:
            print(line(kind, capture, scratch, options.compiled, options.rounds), flush=True)


if __name__ == "__main__":
    main()
