"""Size, time and memory of reports on drawn captures, beside `kdissect FILE`; prints a table.

    python -m benchmarks.report [--megabytes 30] [--kinds mixed,small,bulk,wide] [--seed 2]

Time to interactive is `domInteractive` of Debian's Chromium when the page is opened from disk; "-"
without a browser or Playwright.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from benchmarks import drawn, timing
from benchmarks.timing import KDISSECT, Program

CONNECTIONS: Final = 4_000
INTERACTIVE: Final = "performance.getEntriesByType('navigation')[0].domInteractive"


def interactive(page: Path) -> str:
    """Milliseconds until a browser lets its user act."""
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "-"
    if program is None:
        return "-"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.goto(page.as_uri())
        opened.wait_for_selector("html[data-ready]", timeout=60_000)
        found = opened.evaluate(INTERACTIVE)
        browser.close()
    return f"{found:.0f} ms"


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
    return f"{kind:8} {sizes}  {interactive(page):>8}  {times:>16}  {memory:>16}"


def main() -> None:
    parser = drawn.parser(__doc__)
    parser.add_argument("--compiled", default="", help="default: what is installed")
    options = parser.parse_args()
    print("capture          page  interactive  CPU report / summary  memory report / summary")
    with tempfile.TemporaryDirectory(prefix="kdissect-report-") as name:
        scratch = Path(name)
        for kind, capture in drawn.captures(options, CONNECTIONS, scratch):
            print(line(kind, capture, scratch, options.compiled), flush=True)


if __name__ == "__main__":
    main()
