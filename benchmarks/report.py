"""Size, time and memory of reports on drawn captures, beside `kdissect FILE`; prints a table.

    python -m benchmarks.report [--megabytes 30] [--kinds mixed,small,bulk,wide] [--seed 2]
    python -m benchmarks.report --large

The large ones: quickstart, 1 GB of bulk, 500 MB of small messages, 440 MB of 4 000 mixed
connections, and 100 000 clients, each with an address of its own and four exchanges.
Time to interactive is `domInteractive` of Debian's Chromium when the page is opened from disk, the
least of five; beside it the time until all plots are drawn. "-" without a browser or Playwright.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks import drawn, timing
from benchmarks.timing import KDISSECT, Program
from benchmarks.workloads import ROOT

CONNECTIONS: Final = 4_000
QUICKSTART: Final = ROOT / "captures" / "quickstart.pcapng"
# Kind, megabytes, connections open at a time.
LARGE: Final = (("bulk", 1_000, 50), ("small", 500, CONNECTIONS), ("mixed", 440, CONNECTIONS))
CLIENTS: Final = 100_000
EXCHANGES: Final = 4  # of each client
# Milliseconds until the page can be used, and until all of its plots are drawn.
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


def line(kind: str, capture: Path, scratch: Path, program: str) -> str:
    """The figures of one capture."""
    page = scratch / "report.html"
    timing.warm(capture)
    summary = timing.run(Program("summary", (*KDISSECT, "summary", "{}"), program), capture)
    words = (*KDISSECT, "report", "{}", "-o", str(page), "--force")
    report = timing.run(Program("report", words, program), capture)
    times = f"{report.cpu_seconds:.1f} / {summary.cpu_seconds:.1f} s"
    memory = f"{report.peak_bytes / 1e6:.0f} / {summary.peak_bytes / 1e6:.0f} MB"
    sizes = f"{capture.stat().st_size / 1e6:5.0f} MB  {page.stat().st_size / 1e6:.2f} MB"
    return f"{kind:10} {sizes}  {interactive(page):>14}  {times:>16}  {memory:>16}"


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


def main() -> None:
    parser = drawn.parser(__doc__)
    parser.add_argument("--large", action="store_true", help="the large cases instead")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    options = parser.parse_args()
    print(
        "capture             page   usable / drawn  CPU report / summary  memory report / summary"
    )
    with tempfile.TemporaryDirectory(prefix="kdissect-report-") as name:
        scratch = Path(name)
        small = drawn.captures(options, CONNECTIONS, scratch)
        for kind, capture in large(options.seed, scratch) if options.large else small:
            print(line(kind, capture, scratch, options.compiled), flush=True)


if __name__ == "__main__":
    main()
