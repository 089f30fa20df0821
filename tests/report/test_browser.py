"""Pages in a real browser: nothing is requested or said, plots move, hostile names are inert."""

import csv
import io
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kdissect
from benchmarks.report import INTERACTIVE
from kdissect.capture.pcap import NANOSECONDS
from kdissect.text.escape import escaped, is_harmful
from tests.capture.writers import make_pcap
from tests.report.conftest import WIDTHS, Opened
from tests.report.pages import HOSTILE, QUICKSTART, findings_of, hostile_capture, written
from tests.report.test_numbers import CAPTURES, data_of
from tests.spark.rotated import link_type_of, packets_of

OF_PLOT = "id => echarts.getInstanceByDom(document.getElementById(id)).getOption()"
OF_PLOT_IN = "q => echarts.getInstanceByDom(document.querySelector(q)).getOption()"
# A reader who is quicker than the plots: a click on a finding with a time, and on a button.
CLICKS = """document.addEventListener("DOMContentLoaded", () => {
  document.querySelector('.card[data-id="broker-stalls"] h3 button').click();
  document.querySelector("#zoom button:nth-child(2)").click();
})"""
UNITS = ("_ns", "_ms", "_bytes")
# Of each card what its evidence says, by name (of two, the first: numbers come before entities);
# numbers as they are, before they are rounded.
FACTS = """[...document.querySelectorAll(".card")].map(card => Object.fromEntries(
  [...card.querySelectorAll(".facts li")].reverse().map(
    one => [one.querySelector("b").textContent.trim(), one.title || one.lastChild.textContent])))"""
Opens = Callable[..., Opened]


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(QUICKSTART, tmp_path_factory.mktemp("report"))


def serious(page: Any) -> list[str]:
    """Violations that axe calls serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_a_page_asks_for_nothing_and_has_the_findings(
    path: Path, tmp_path: Path, opened: Opens, capfd: pytest.CaptureFixture[str]
) -> None:
    target = written(path, tmp_path)
    shown = opened(target)
    assert serious(shown.page) == []
    found = findings_of(path, capfd)
    assert shown.texts(".card .sentence") == [escaped(one["text"]) for one in found]
    assert shown.texts(".card .severity") == [one["severity"] for one in found]
    for card in shown.page.locator(".card h3 button").all():
        card.click()
    assert shown.texts(".command code") == [one["command"] for one in found if one["command"]]
    for one, facts in zip(found, shown.page.evaluate(FACTS), strict=True):
        check_facts(one, facts)
    assert shown.requests == [target.as_uri()]
    assert shown.said == []


def check_facts(finding: dict[str, Any], facts: dict[str, str]) -> None:
    """The numbers below a finding are those of the document, its time and packet, too."""
    assert facts["id"] == finding["id"]
    for name, key in (("time", "first_time"), ("packet", "packet")):
        assert facts.get(name) == (None if finding[key] is None else str(finding[key]))
    for name, value in finding["numbers"].items():
        if isinstance(value, int | float):
            word, _, unit = name.rpartition("_") if name.endswith(UNITS) else (name, "", "")
            number, *units = facts[word.replace("_", " ")].split(" ")
            assert float(number) == value
            assert units == ([unit] if unit else [])


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_hinders_readers_at_any_width_in_any_theme(
    width: int, theme: str, page_path: Path, opened: Opens
) -> None:
    shown = opened(page_path, width, theme)
    shown.page.locator(".card h3 button").first.click()
    assert serious(shown.page) == []
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert shown.page.evaluate(overflow) <= 0
    assert shown.said == []


@pytest.mark.slow
def test_a_finding_moves_the_plots_and_lists_its_exchanges(page_path: Path, opened: Opens) -> None:
    shown, data = opened(page_path), data_of(page_path.read_bytes())
    shown.page.locator('.card[data-id="broker-stalls"] h3 button').press("Enter")
    cells = shown.page.locator('.card[data-id="broker-stalls"] .scroll tbody td')
    assert "1241" in cells.all_text_contents()
    for name in ("time-plot", "heat-plot"):
        zoom = shown.page.evaluate(OF_PLOT, name)["dataZoom"][0]
        assert zoom["startValue"] < 1795233981170 < 1795233982373 < zoom["endValue"]
        assert zoom["endValue"] - zoom["startValue"] < 5_000
    assert shown.page.locator("#heat-choice select").first.input_value() != "0"
    copier = shown.page.locator('.card[data-id="broker-stalls"] .command button')
    copier.press("Enter")
    assert copier.text_content() == "Copied"
    (command,) = (one["command"] for one in data["findings"] if one["id"] == "broker-stalls")
    assert pasted(shown.page) == command
    shown.page.get_by_role("button", name="Show the whole time").click()
    zoom = shown.page.evaluate(OF_PLOT, "heat-plot")["dataZoom"][0]
    assert zoom["startValue"] == data["time"]["start_ms"]
    shown.page.get_by_role("button", name="Show less time").click()
    assert shown.page.evaluate(OF_PLOT, "time-plot")["dataZoom"][0]["start"] > 20
    assert shown.said == []


@pytest.mark.slow
def test_plots_draw_the_numbers_of_the_page(page_path: Path, opened: Opens) -> None:
    shown, data = opened(page_path), data_of(page_path.read_bytes())
    time = data["time"]
    drawn = {
        one["name"]: one["data"] for one in shown.page.evaluate(OF_PLOT, "time-plot")["series"]
    }
    names = {"exchanges": "exchanges", "with errors": "errors", "requests": "request_bytes"}
    names |= {"responses": "response_bytes", "p99": "p99_ns", "max": "max_ns"}
    for name, key in names.items():
        times = [time["start_ms"] + n * time["width_ms"] for n in range(time["count"])]
        assert drawn[name] == [list(pair) for pair in zip(times, time[key], strict=True)]
    for group in data["lag"]:
        assert [value for _, value in drawn[f"lag of {group['name']}"]] == group["values"]
    areas = shown.page.evaluate(OF_PLOT, "time-plot")["series"][0]["markArea"]["data"]
    bands = [(band["kind"], band["from_ms"], band["to_ms"]) for band in data["bands"]]
    drawn_areas = [(one["name"], one["xAxis"], end["xAxis"]) for one, end in areas]
    assert [one for one in drawn_areas if one[0] in ("rebalance", "failover")] == bands
    assert shown.texts("#areas .area")[:2] == ["rebalances", "failovers"]
    cells = shown.page.evaluate(OF_PLOT, "heat-plot")["series"][0]["data"]
    assert [cell[2] for cell in cells] == data["heat"]["maps"][0]["cells"]["latency"][2::3]
    links = shown.page.evaluate(OF_PLOT, "network-plot")["series"][0]["links"]
    (table,) = (one for one in data["tables"] if one["name"] == "brokers_topics")
    topics = {link["target"]: link["value"]["bytes"] for link in links}
    assert {f"topic {row[1]}": row[4] for row in table["rows"]}.items() <= topics.items()


@pytest.mark.slow
def test_the_page_can_be_used_before_its_plots_are_drawn(page_path: Path, opened: Opens) -> None:
    """What takes long does not keep it from answering."""
    shown = opened(page_path)
    usable, drawn = shown.page.evaluate(INTERACTIVE)
    assert 0 < usable < drawn
    clicked = shown.page.context.new_page()
    clicked.add_init_script(CLICKS)
    clicked.goto(page_path.as_uri())
    clicked.wait_for_selector("html[data-ready]")
    zoom = "echarts.getInstanceByDom(document.getElementById('time-plot')).getOption().dataZoom[0]"
    clicked.wait_for_function(f"{zoom}.start > 0")
    clicked.close()
    assert shown.page.evaluate(OF_PLOT, "time-plot")["series"]
    assert shown.said == []


@pytest.mark.slow
def test_what_the_capture_dropped_is_a_hole_and_no_zero(tmp_path: Path, opened: Opens) -> None:
    """Without a fifth of the packets in the middle, as a tap that dropped them."""
    packets = packets_of(QUICKSTART)
    first, last = packets[0].time_ns, packets[-1].time_ns
    begin, end = (first + (last - first) * share // 100 for share in (45, 65))
    kept = [one for one in packets if not begin <= one.time_ns < end]
    path = tmp_path / "dropped.pcap"
    path.write_bytes(make_pcap(kept, magic=NANOSECONDS, link_type=link_type_of(QUICKSTART)))
    target = written(path, tmp_path)
    shown, time = opened(target), data_of(target.read_bytes())["time"]
    (line,) = (
        one for one in shown.page.evaluate(OF_PLOT, "time-plot")["series"]
        if one["name"] == "exchanges"
    )  # fmt: skip
    width = time["width_ms"]
    inside = [value for at, value in line["data"] if at >= begin / 1e6 and at + width <= end / 1e6]
    assert len(inside) > 10
    # A response may come behind the drop, its request before it: that time is known.
    assert [value for value in inside if value == 0] == []
    assert None in inside
    areas = shown.page.evaluate(OF_PLOT, "time-plot")["series"][0]["markArea"]["data"]
    missing = [
        (one["xAxis"], to["xAxis"]) for one, to in areas if one["name"].startswith("missing")
    ]
    middle = (begin + end) / 2e6
    assert any(start <= middle <= to for start, to in missing)
    assert shown.said == []


@pytest.mark.slow
def test_each_sequence_can_be_chosen_and_has_its_messages(tmp_path: Path, opened: Opens) -> None:
    """Those that were asked for come first; packets are those of the tables."""
    rows = kdissect.read(QUICKSTART).to_arrow().to_pylist()
    asked = max(rows, key=lambda row: row["request_packet"] or 0)
    other = rows[0]["connection_id"]
    words = ["--packet", str(asked["request_packet"]), "--connection", str(other)]
    target = written(QUICKSTART, tmp_path, *words)
    shown, data = opened(target), data_of(target.read_bytes())
    titles = [one["title"] for one in data["sequences"]]
    assert titles[:2] == [f"packet {asked['request_packet']}", f"connection {other}"]
    assert {one.split(" ")[0] for one in titles} == {
        "packet", "connection", "finding", "rebalance", "slowest",
    }  # fmt: skip
    assert shown.texts("#sequence-choice option") == titles
    packets = {row[name] for row in rows for name in ("request_packet", "response_packet")}
    for place, one in enumerate(data["sequences"]):
        shown.page.locator("#sequence-choice select").select_option(str(place))
        drawn = shown.page.evaluate(OF_PLOT_IN, "#sequence-place .plot")["series"][0]["data"]
        told = [message["message"]["text"] for message in drawn]
        assert len(told) == sum(
            (row["request_packet"] is not None) + (row["response_ms"] is not None)
            for row in one["exchanges"]
        )
        numbers = {int(text.rsplit("packet ", 1)[1]) for text in told}
        assert numbers <= packets
        listed = shown.texts("#sequence-place li")
        assert [text.rsplit(": ", 1)[1] for text in listed] == told
    of_connection = [row for row in rows if row["connection_id"] == other]
    (diagram,) = (one for one in data["sequences"] if one["title"] == f"connection {other}")
    assert len(diagram["exchanges"]) + diagram["left_out"] == len(of_connection)
    assert serious(shown.page) == []
    assert shown.said == []


@pytest.mark.slow
def test_filters_of_the_map_leave_the_pairs_that_they_name(page_path: Path, opened: Opens) -> None:
    """Links of the map beside the rows of its tables, by a name, by errors, and by latency."""
    shown, data = opened(page_path), data_of(page_path.read_bytes())
    every = []
    for name in ("clients_groups", "clients_brokers", "brokers_topics"):
        (table,) = (one for one in data["tables"] if one["name"] == name)
        paths = [column["path"] for column in table["columns"]]
        every += [dict(zip(paths, row, strict=True)) for row in table["rows"]]
    assert any(pair["errors"] for pair in every)

    def links() -> set[tuple[str, str, int]]:
        (series,) = shown.page.evaluate(OF_PLOT, "network-plot")["series"]
        drawn = {node["id"] for node in series["data"]}
        assert all({one["source"], one["target"]} <= drawn for one in series["links"])
        pairs = [one["value"] for one in series["links"]]
        return {(one["from"], one["to"], one["bytes"]) for one in pairs}

    def expected(is_left: Callable[[Any], bool]) -> set[tuple[str, str, int]]:
        return {(one["from"], one["to"], one["bytes"]) for one in every if is_left(one)}

    client = max((one for one in every if one["errors"]), key=lambda one: one["errors"])["from"]
    search = shown.page.get_by_label("Filter names of the map")
    search.fill(client[:-1].upper())
    found = expected(lambda one: client[:-1].lower() in f"{one['from']} {one['to']}".lower())
    assert links() == found
    assert found < expected(lambda _: True)
    search.fill("")
    shown.page.get_by_label("only with errors").check()
    wrong = expected(lambda one: one["errors"] > 0)
    assert links() <= wrong
    assert len(links()) >= min(len(wrong), 14)
    shown.page.get_by_label("colour by").select_option("latency")
    assert "the p99 of latency" in str(shown.page.locator("#network-text").text_content())
    assert shown.said == []


@pytest.mark.slow
def test_tables_sort_search_and_copy(page_path: Path, opened: Opens) -> None:
    shown, data = opened(page_path), data_of(page_path.read_bytes())
    (apis,) = (one for one in data["tables"] if one["name"] == "apis")
    rows = shown.page.locator("#table-apis tbody tr")
    shown.page.locator("#table-apis th button", has_text="p99").first.click()
    place = [column["path"] for column in apis["columns"]].index("latency.p99_ns")
    slowest = max(apis["rows"], key=lambda row: row[place] or -1)
    assert rows.first.locator("td").first.text_content() == slowest[0]
    shown.page.get_by_label("Search APIs").fill("metadata")
    assert {text.lower() for text in shown.texts("#table-apis tbody tr td:first-child")} == {
        row[0].lower() for row in apis["rows"] if "metadata" in str(row).lower()
    }
    assert shown.said == []


@pytest.mark.slow
def test_copied_csv_is_the_chosen_rows(page_path: Path, opened: Opens) -> None:
    """Pasted into another element, as the reader would paste it."""
    shown, data = opened(page_path), data_of(page_path.read_bytes())
    (table,) = (one for one in data["tables"] if one["name"] == "partitions")
    shown.page.get_by_label("Search Partitions").fill("orders")
    shown.page.locator("#table-partitions th button", has_text="fetched").first.click()
    copier = shown.page.locator("#table-partitions .tools button")
    copier.press("Enter")
    assert copier.text_content() == "Copied"
    copied = list(csv.reader(io.StringIO(pasted(shown.page))))
    paths = [column["path"] for column in table["columns"]]
    place = paths.index("fetched_bytes")
    rows = sorted(
        (row for row in table["rows"] if "orders" in str(row)), key=lambda row: -row[place]
    )
    assert copied[0] == paths
    assert [row[place] for row in copied[1:]] == [str(row[place]) for row in rows]
    assert sorted(copied[1:]) == sorted([str(cell) for cell in row] for row in rows)
    assert shown.said == []


def pasted(page: Any) -> str:
    """What a reader who pastes now gets."""
    page.evaluate("document.body.append(document.createElement('textarea'))")
    page.locator("textarea").focus()
    page.keyboard.press("Control+V")
    text: str = page.locator("textarea").input_value()
    page.evaluate("document.querySelector('textarea').remove()")
    return text


@pytest.mark.slow
def test_a_dark_page_is_printed_light(page_path: Path, opened: Opens) -> None:
    """Chromium makes a PDF, and says so to the page."""
    shown = opened(page_path, theme="dark")
    colours = "[getComputedStyle(document.body), "
    colours += "{color: echarts.getInstanceByDom(document.getElementById('time-plot'))"
    colours += ".getOption().textStyle.color}].map(one => one.color)"
    dark = shown.page.evaluate(colours)
    shown.page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = {colours}; }})")
    assert shown.page.pdf()[:5] == b"%PDF-"
    printed = shown.page.evaluate("window.printed")
    assert all(one != other for one, other in zip(printed, dark, strict=True))
    assert shown.page.evaluate(colours) == dark
    assert shown.said == []


@pytest.mark.slow
def test_hostile_names_are_text(tmp_path: Path, opened: Opens) -> None:
    target = written(hostile_capture(tmp_path), tmp_path)
    shown = opened(target)
    for card in shown.page.locator(".card h3 button").all():
        card.click()
    names = shown.texts("#table-clients tbody td:first-child")
    assert {escaped(name) for name in HOSTILE if len(name) < 200} <= set(names)
    assert shown.page.locator("img, iframe, object, embed, link, base, form").count() == 0
    assert shown.page.locator("script").count() == 3
    text = shown.page.evaluate("document.body.innerText + document.title")
    assert [one for one in text if is_harmful(ord(one)) and one not in "\n\t"] == []
    assert shown.said == []
    assert shown.requests == [target.as_uri()]


@pytest.mark.slow
def test_the_page_may_request_nothing(page_path: Path, opened: Opens) -> None:
    shown = opened(page_path)
    asked = """async place => {
        const found = [];
        addEventListener("securitypolicyviolation", event => found.push(event.effectiveDirective));
        await fetch(place).catch(() => {});
        for (const tag of ["img", "script", "audio"]) {
            const made = document.createElement(tag);
            made.src = place;
            document.body.append(made);
        }
        const style = document.createElement("div");
        style.style.backgroundImage = `url(${place})`;
        document.body.append(style);
        await new Promise(done => setTimeout(done, 300));
        return found;
    }"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        refused = set(shown.page.evaluate(asked, place))
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert refused >= {"connect-src", "img-src", "media-src", "script-src-elem"}
