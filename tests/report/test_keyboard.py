"""A page by keyboard alone: every control is reached by Tab, is seen, has a name and works."""

from pathlib import Path
from typing import Any

import pytest

from tests.report.keyboard import FOCUSED, STOPS, faults
from tests.report.pages import QUICKSTART, written
from tests.report.test_browser import OF_PLOT, Opens, pasted
from tests.report.test_numbers import data_of

# Resolves when a place has been scrolled; the page's policy lets nothing be evaluated later.
MOVED = """new Promise(done => {
  const place = document.querySelector("#table-connections .scroll");
  const look = () => place.scrollLeft ? done(true) : requestAnimationFrame(look);
  look();
})"""


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(QUICKSTART, tmp_path_factory.mktemp("report"))


def name_of_focus(session: Any) -> str:
    """The name that a screen reader says, as the browser computes it."""
    found = session.send("Runtime.evaluate", {"expression": "document.activeElement"})
    given = {"objectId": found["result"]["objectId"], "fetchRelatives": False}
    (node, *_) = session.send("Accessibility.getPartialAXTree", given)["nodes"]
    return str(node.get("name", {}).get("value", ""))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_tab_reaches_every_control_in_order_and_shows_where_it_is(
    width: int, theme: str, page_path: Path, opened: Opens
) -> None:
    shown = opened(page_path, width, theme)
    page = shown.page
    page.locator(".card h3 button").first.press("Enter")
    page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    session = page.context.new_cdp_session(page)
    number = page.evaluate(STOPS)
    assert number > 200
    seen, names = [], []
    page.locator(".skip").focus()
    for _ in range(number):
        seen.append(page.evaluate(FOCUSED))
        names.append(name_of_focus(session))
        page.keyboard.press("Tab")
    assert faults([*seen, page.evaluate(FOCUSED)], number) == []
    assert all(name.strip() for name in names)
    page.locator(".skip").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    last = page.evaluate(FOCUSED)
    assert last is None or last["place"] >= number - 2  # out of the page, or round it
    assert shown.said == []


@pytest.mark.slow
@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_each_kind_of_button_works_by_either_key(key: str, page_path: Path, opened: Opens) -> None:
    shown, data = opened(page_path), data_of(page_path.read_bytes())
    page = shown.page

    def press(selector: str) -> Any:
        one = page.locator(selector).first
        one.focus()
        page.keyboard.press(key)
        return one

    theme = page.evaluate("document.documentElement.dataset.theme")
    press("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") != theme
    head = press('.card[data-id="broker-stalls"] h3 button')
    assert head.get_attribute("aria-expanded") == "true"
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    zoomed = range_of(page)
    assert zoomed[1] - zoomed[0] < 5_000
    press('.card[data-id="broker-stalls"] .command button')
    (command,) = (one["command"] for one in data["findings"] if one["id"] == "broker-stalls")
    assert pasted(page) == command
    press(head_of("broker-stalls"))
    assert head.get_attribute("aria-expanded") == "false"
    press("#zoom button:nth-child(4)")
    assert range_of(page)[0] < zoomed[0]
    press("#zoom button:nth-child(5)")
    assert range_of(page) == pytest.approx(zoomed, abs=1)
    press("#zoom button:nth-child(3)")
    assert range_of(page)[0] < zoomed[0] < zoomed[1] < range_of(page)[1]
    press("#zoom button:nth-child(1)")
    assert range_of(page)[0] == data["time"]["start_ms"]
    line = press("#lines button:nth-child(3)")
    assert (line.inner_text(), line.get_attribute("aria-pressed")) == ("exchanges", "false")
    assert hidden_lines(page) == ["exchanges"]
    press("#lines button:nth-child(1)")
    press("#lines button:nth-child(3)")
    assert hidden_lines(page) == ["requests"]
    press("#theme")
    assert page.locator("#lines button[aria-pressed=false]").all_inner_texts() == ["requests"]
    assert hidden_lines(page) == ["requests"]
    press("#table-clients th button")
    assert page.locator("#table-clients th").first.get_attribute("aria-sort") == "ascending"
    rows = page.locator("#table-clients tbody tr")
    few = rows.count()
    press("#table-clients > button")
    assert rows.count() == len(of(data, "clients")["rows"]) > few
    press("#table-clients .meanings summary")
    assert page.locator("#table-clients .meanings dd").first.is_visible()
    assert shown.said == []


def head_of(finding: str) -> str:
    return f'.card[data-id="{finding}"] h3 button'


def of(data: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (one for one in data["tables"] if one["name"] == name)
    assert isinstance(found, dict)
    return found


def hidden_lines(page: Any) -> list[str]:
    selected = page.evaluate(OF_PLOT, "time-plot")["legend"][0]["selected"]
    return [name for name, is_shown in selected.items() if not is_shown]


def range_of(page: Any) -> tuple[float, float]:
    zoom = page.evaluate(OF_PLOT, "time-plot")["dataZoom"][0]
    return zoom["startValue"], zoom["endValue"]


@pytest.mark.slow
def test_choices_filters_links_and_long_places_work_by_keys(page_path: Path, opened: Opens) -> None:
    shown = opened(page_path)
    page = shown.page
    page.keyboard.press("Tab")
    assert page.locator(".skip").evaluate("one => one.getBoundingClientRect().left >= 0")
    page.keyboard.press("Enter")
    assert page.url.endswith("#findings")
    page.keyboard.press("Tab")
    assert page.evaluate("Boolean(document.activeElement.closest('#findings'))")
    for place, plot in (("#heat-choice", "heat-plot"), ("#network-choice", "network-plot")):
        before = page.evaluate(OF_PLOT, plot)["series"]
        page.locator(f"{place} select").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert page.evaluate(OF_PLOT, plot)["series"] != before
    page.locator("#network-choice input[type=checkbox]").focus()
    page.keyboard.press("Space")
    links = page.evaluate(OF_PLOT, "network-plot")["series"][0]["links"]
    assert links
    assert all(link["value"]["errors"] for link in links)
    page.get_by_label("Search APIs").focus()
    page.keyboard.type("fetch")
    assert all("fetch" in text.lower() for text in shown.texts("#table-apis tbody tr"))
    page.set_viewport_size({"width": 390, "height": 800})
    place = page.locator("#table-connections .scroll")
    place.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(MOVED)
    assert shown.said == []
