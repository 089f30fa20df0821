"""The page of a comparison draws its rows: values, intervals, units; names are text."""

import json
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.cli.program import ANSWERED, run
from kdissect.report.changes import changes_page
from tests.conversation import conversation
from tests.exchange_builders import request, response
from tests.report.conftest import Opened
from tests.report.pages import HOSTILE
from tests.report.test_browser import OF_PLOT, Opens, serious
from tests.report.test_numbers import data_of

CAPTURE = Path(__file__).parents[2] / "captures" / "incident-leader-killed-4.3.1.pcapng"
WORDS = [str(CAPTURE), "--at", "+15s", "--unchanged", "--no-progress"]


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("changes") / "diff.html"
    assert run(["compare", *WORDS, "-o", str(target)]) == ANSWERED
    return target


def rows_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    (table,) = data["tables"]
    paths = [column["path"] for column in table["columns"]]
    return [dict(zip(paths, row, strict=True)) for row in table["rows"]]


def test_the_page_has_the_rows_of_the_comparison(changes: Path) -> None:
    found = kdissect.compare(CAPTURE, at="+15s", unchanged=True)
    data = data_of(changes.read_bytes())
    assert rows_of(data) == found.table.to_pylist()
    assert data["verdicts"] == found.verdicts
    assert [side["exchanges"] for side in data["sides"]] == [43, 287]
    assert all(column["meaning"] for column in data["tables"][0]["columns"])


def drawn(shown: Opened) -> dict[str, list[float]]:
    """Name of a row → middle, low and high on the axis of its plot."""
    found = {}
    for number in range(5):
        if shown.page.locator(f"#changes-plot-{number}").count():
            option = shown.page.evaluate(OF_PLOT, f"changes-plot-{number}")
            names = option["yAxis"][0]["data"]
            for name, one in zip(names, option["series"][0]["data"], strict=True):
                found[name] = one["value"][1:]
    return found


@pytest.mark.slow
def test_points_and_intervals_are_those_of_the_rows(changes: Path, opened: Opens) -> None:
    shown, rows = opened(changes), rows_of(data_of(changes.read_bytes()))
    points = drawn(shown)
    assert len(points) == len(rows)
    for row in rows:
        middle, low, high = points[
            " · ".join([row["api"] or "(none)", row["measure"], row["what"]])
        ]
        bounds = [row["low"], row["high"]]
        if row["ratio"] and row["before"]:
            assert middle == row["ratio"]
            expected = [
                row["ratio"] if one is None else max(1 + one / row["before"], 0.01)
                for one in bounds
            ]
        else:
            assert middle == row["difference"]
            expected = [row["difference"] if one is None else one for one in bounds]
        assert [low, high] == pytest.approx(expected)
    assert serious(shown.page) == []
    assert shown.requests == [changes.as_uri()]
    assert shown.said == []


@pytest.mark.slow
def test_hostile_names_in_a_comparison_are_text(tmp_path: Path, opened: Opens) -> None:
    paths = []
    for side in (len(HOSTILE), 2 * len(HOSTILE)):
        talk = conversation().open()
        for number in range(side):
            name = HOSTILE[number % len(HOSTILE)][:200]
            talk = talk.client(request("Metadata", 8, number, name, topics=[]))
            talk = talk.broker(response("Metadata", 8, number, brokers=[], topics=[]))
        paths.append(tmp_path / f"{side}.pcap")
        paths[-1].write_bytes(talk.close().pcap())
    found = kdissect.compare(*paths, by=["client_id"], unchanged=True, window=10**6)
    target = tmp_path / "diff.html"
    target.write_bytes(changes_page(found, ["<b>x</b>", "\u202ey"]))
    shown = opened(target)
    assert shown.page.locator("img, iframe, b > b").count() == 0
    assert len(shown.texts("#table-changes tbody tr")) > 0
    assert shown.said == []
    assert shown.requests == [target.as_uri()]


def test_nothing_changed_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(Path(__file__).parents[2] / "captures" / "quickstart.pcapng")
    target = tmp_path / "same.html"
    assert run(["compare", path, path, "--no-progress", "-o", str(target)]) == ANSWERED
    assert rows_of(data_of(target.read_bytes())) == []
    assert run(["compare", path, path, "--no-progress", "-o", str(target)]) != ANSWERED
    capfd.readouterr()
    assert run(["compare", path, path, "--no-progress", "--json"]) == ANSWERED
    assert json.loads(capfd.readouterr().out)["rows"] == []
