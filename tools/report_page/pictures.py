"""Draw the pictures of docs/report.md: python -m tools.report_page.pictures

Needs Chromium and Playwright. They are of `captures/quickstart.pcapng`: look at them.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.report.writing import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT: Final = Path(__file__).resolve().parents[2]
CAPTURE: Final = "captures/quickstart.pcapng"
HEADER: Final = 48  # pixels of the page's own navigation, which stays at its top


class Picture(NamedTuple):
    """A file in `docs`, the size and theme of the window, and what is done before."""

    name: str
    width: int
    height: int
    theme: str
    before: Callable[["Page"], None]


def top(page: "Page") -> None:
    """The page as it is opened."""


def finding(page: "Page") -> None:
    """The first finding, opened, with the sequence diagram at its end."""
    card = page.locator(".card").first
    card.locator("h3 button").click()
    at = card.locator("h3").bounding_box()
    scroll(page, (at["y"] if at else 0) - HEADER - 8)


def plots(page: "Page") -> None:
    """Time and latency."""
    at = page.locator("#time").bounding_box()
    scroll(page, (at["y"] if at else 0) - HEADER)


def scroll(page: "Page", by: float) -> None:
    page.evaluate("by => scrollBy({ top: by, behavior: 'instant' })", by)
    page.wait_for_timeout(300)


PICTURES: Final = (
    Picture("report-findings.png", 1180, 760, "light", top),
    Picture("report-sequence.png", 1180, 1060, "light", finding),
    Picture("report-dark.png", 1180, 1360, "dark", plots),
    Picture("report-phone.png", 390, 820, "light", top),
)


def main() -> None:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as made, sync_playwright() as driver:
        path = Path(made) / "report.html"
        write_report(ROOT / CAPTURE, path, files=[CAPTURE])
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for one in PICTURES:
            size = {"width": one.width, "height": one.height}
            context = browser.new_context(viewport=size, color_scheme=one.theme)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]")
            one.before(page)
            page.screenshot(path=ROOT / "docs" / one.name)
            context.close()
            print(ROOT / "docs" / one.name)
        browser.close()


if __name__ == "__main__":
    main()
