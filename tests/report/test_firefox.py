"""Pages in Firefox: another engine than Chromium's reads them the same.

Mozilla's own driver (Marionette) opens them from disk. Errors of scripts and of the policy are
those of the browser's console.
"""

import gc
import os
import shutil
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kdissect.text.escape import escaped, is_harmful
from tests.report.keyboard import FOCUSED, STOPS, faults
from tests.report.pages import HOSTILE, QUICKSTART, findings_of, hostile_capture, written
from tests.report.test_browser import OF_PLOT
from tests.report.test_numbers import CAPTURES, data_of

# The driver leaves the sockets open by which it waited for the browser.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PROGRAMS = ("firefox-esr", "firefox")
TAB, ENTER = "\ue004", "\ue007"  # WebDriver's names of keys
MISSING = "needs Firefox: apt-get install firefox-esr"
# Script errors and what the policy blocked; all other messages are about the browser.
SAID = """return Services.console.getMessageArray()
    .filter(one => one instanceof Ci.nsIScriptError && /^(content|CSP)/.test(one.category))
    .map(one => one.errorMessage)"""
READY = """const [done] = arguments, page = document.documentElement;
    const wait = () => "ready" in page.dataset ? done() : setTimeout(wait, 50);
    wait();"""
AXE = "const [done] = arguments; axe.run().then(found => done(found.violations))"


class Firefox:
    """A page opened from disk, and what the browser says of it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, width: int = 1280) -> None:
        with self.driver.using_context("chrome"):
            self.driver.execute_script("Services.console.reset()")
        self.driver.set_window_rect(width=width, height=900)
        self.driver.navigate(path.as_uri())
        ready = "const [done] = arguments; const wait = () => "
        ready += (
            "'ready' in document.documentElement.dataset ? done() : setTimeout(wait, 50); wait()"
        )
        self.driver.execute_async_script(ready)

    def value(self, expression: str, *arguments: Any) -> Any:
        """The value of an expression of the page's own scripts."""
        return self.driver.execute_script(
            f"return ({expression})", arguments, sandbox=None, new_sandbox=False
        )

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.value(
            f"[...document.querySelectorAll({selector!r})].map(one => one.textContent)"
        )
        return found

    def click_all(self, selector: str) -> None:
        for element in self.driver.find_elements("css selector", selector):
            element.click()

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        self.driver.actions.sequence("key", "keyboard").key_down(key).key_up(key).perform()

    def said(self) -> list[str]:
        with self.driver.using_context("chrome"):
            found: list[str] = self.driver.execute_script(SAID)
        return found

    def requests(self) -> list[str]:
        """Addresses of everything that the page asked for besides itself."""
        found: list[str] = self.value(
            "performance.getEntriesByType('resource').map(one => one.name)"
        )
        return found

    def serious(self) -> list[str]:
        """Violations that axe calls serious or critical."""
        package = find_spec("axe_playwright_python")
        assert package is not None
        script = Path(str(package.origin)).parent / "axe.min.js"
        self.driver.execute_script(script.read_text(), sandbox=None)
        violations = self.driver.execute_async_script(AXE, sandbox=None)
        return [one["id"] for one in violations if one["impact"] in ("serious", "critical")]


@pytest.fixture(scope="module")
def firefox() -> Iterator[Firefox]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        assert os.environ.get("KDISSECT_FIREFOX") != "require", MISSING
        pytest.skip(MISSING)
    marionette = pytest.importorskip("marionette_driver.marionette")
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    driver = marionette.Marionette(
        bin=program, headless=True, host="127.0.0.1", port=port, gecko_log="-"
    )
    driver.start_session()
    driver.timeout.script = 60
    made = Firefox(driver)
    yield made
    del made
    driver.quit()
    del driver
    gc.collect()  # its profile removes itself, which it cannot when Python ends


@pytest.mark.slow
@pytest.mark.sweep(1)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_a_page_in_firefox_asks_for_nothing_and_has_the_findings(
    path: Path, tmp_path: Path, firefox: Firefox, capfd: pytest.CaptureFixture[str]
) -> None:
    firefox.open(written(path, tmp_path))
    found = findings_of(path, capfd)
    assert firefox.texts(".card .sentence") == [escaped(one["text"]) for one in found]
    firefox.click_all(".card h3 button")
    assert firefox.texts(".command code") == [one["command"] for one in found if one["command"]]
    assert firefox.requests() == []
    assert firefox.said() == []


@pytest.mark.slow
def test_plots_in_firefox_draw_the_numbers_and_follow_a_finding(
    tmp_path: Path, firefox: Firefox
) -> None:
    path = written(QUICKSTART, tmp_path)
    firefox.open(path)
    data = data_of(path.read_bytes())
    time = data["time"]
    (series,) = (
        one for one in firefox.value(f"({OF_PLOT})('time-plot')")["series"] if one["name"] == "p99"
    )
    times = [time["start_ms"] + n * time["width_ms"] for n in range(time["count"])]
    assert series["data"] == [list(pair) for pair in zip(times, time["p99_ns"], strict=True)]
    firefox.click_all('.card[data-id="broker-stalls"] h3 button')
    zoom = firefox.value(f"({OF_PLOT})('heat-plot')")["dataZoom"][0]
    assert 0 < zoom["endValue"] - zoom["startValue"] < 5_000
    assert firefox.said() == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 500])
def test_hostile_names_are_text_in_firefox(width: int, tmp_path: Path, firefox: Firefox) -> None:
    firefox.open(written(hostile_capture(tmp_path), tmp_path), width)
    firefox.click_all(".card h3 button")
    names = firefox.texts("#table-clients tbody td:first-child")
    assert {escaped(name) for name in HOSTILE if len(name) < 200} <= set(names)
    assert firefox.value("document.querySelectorAll('img, iframe, object, embed').length") == 0
    text = firefox.value("document.body.innerText + document.title")
    assert [one for one in text if is_harmful(ord(one)) and one not in "\n\t"] == []
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert firefox.value(overflow) <= 0
    assert firefox.serious() == []
    assert firefox.requests() == []
    assert firefox.said() == []


@pytest.mark.slow
def test_a_page_in_firefox_may_request_nothing(tmp_path: Path, firefox: Firefox) -> None:
    firefox.open(written(QUICKSTART, tmp_path))
    asked = """const [place, done] = arguments;
        fetch(place).catch(() => {});
        const made = document.createElement("img");
        made.src = place;
        document.body.append(made);
        setTimeout(done, 300)"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        firefox.driver.execute_async_script(asked, (place,), sandbox=None)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert len(firefox.said()) == 2  # the policy refused both, which this oracle sees


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 500])
def test_tab_in_firefox_reaches_every_control_and_shows_where_it_is(
    width: int, tmp_path: Path, firefox: Firefox
) -> None:
    firefox.open(written(QUICKSTART, tmp_path), width)
    card = "document.querySelector('.card h3 button')"
    firefox.value(f"{card}.focus()")
    for key, expanded in ((ENTER, "true"), (" ", "false")):
        firefox.press(key)
        assert firefox.value(f"{card}.getAttribute('aria-expanded')") == expanded
    number = firefox.value(STOPS)
    firefox.value("document.querySelector('.skip').focus()")
    seen = []
    for _ in range(number):
        seen.append(firefox.value(FOCUSED))
        firefox.press(TAB)
    found = faults([*seen, firefox.value(FOCUSED)], number)
    assert found[:5] == []
    assert firefox.said() == []
