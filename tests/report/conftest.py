"""Pages in Debian's Chromium, driven by Playwright.

A browser for each module: while Playwright drives it, an event loop runs in this thread, which
tests of prompts cannot have.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
MISSING = "needs Chromium: apt-get install chromium"
WIDTHS = (1280, 820, 390)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    is_required = os.environ.get("KDISSECT_BROWSER") == "require"
    if program is None:
        assert not is_required, MISSING
        pytest.skip(MISSING)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


class Opened:
    """A page that was opened from disk, and all that it said and asked for."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.said: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=60_000)

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.locator(selector).all_text_contents()
        return found


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Opens a file at a width in a theme."""
    contexts = []

    def open_page(path: Path, width: int = 1280, theme: str = "light") -> Opened:
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=theme))
        return Opened(contexts[-1].new_page(), path)

    yield open_page
    for context in contexts:
        context.close()
