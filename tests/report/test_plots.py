"""Plots of notebooks are those of the report, in a frame that reaches nothing."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter

import kdissect
from kdissect import plot
from tests.report.conftest import Opened
from tests.report.test_browser import OF_PLOT, Opens
from tests.report.test_numbers import CAPTURES, data_of
from tests.seeds import SEED
from tools.notebooks import run

CAPTURE = CAPTURES[SEED % len(CAPTURES)]
QUICKSTART = next(path for path in CAPTURES if path.stem == "quickstart")


@pytest.fixture(scope="module")
def plots() -> plot.Plots:
    return plot.of(QUICKSTART)


def test_a_notebook_shows_a_frame_of_the_page(plots: plot.Plots) -> None:
    shown, _ = DisplayFormatter().format(plots.network())
    text = shown["text/html"]
    assert text.startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!doctype html&gt;')
    assert text.count("<") == 2
    assert text.count('"') == 8
    assert len(text) < 1_500_000


@pytest.mark.slow
def test_plots_have_the_numbers_of_the_report(tmp_path: Path) -> None:
    from kdissect.report.writing import write_report

    report = data_of(write_report(CAPTURE, tmp_path / "x.html").html)
    plots = plot.of(CAPTURE)
    assert json.loads(json.dumps(plots.timeline().data["time"])) == report["time"]
    assert plots.latency().data["cells"] == report["heat"]["maps"][0]["cells"]["latency"]
    assert data_of(plots.page().html)["totals"] == report["totals"]


def test_mistakes_are_said(plots: plot.Plots, tmp_path: Path) -> None:
    for wrong, said in (
        ({"part": "work"}, "no part 'work'"), ({"api": "Fetsch"}, "no map of api 'Fetsch'"),
        ({"group": "x"}, "of one of api"), ({"api": "Fetch", "client": "x"}, "of one of api"),
        ({"option": {"x": {1}}}, "not JSON"), ({"option": {"x": float("nan")}}, "not JSON"),
    ):  # fmt: skip
        given: dict[str, Any] = wrong
        with pytest.raises(kdissect.KdissectError, match=said):
            plots.latency(**given)
    plots.network().save(tmp_path / "x.html")
    with pytest.raises(kdissect.KdissectError, match="force=True overwrites it"):
        plots.network().save(tmp_path / "x.html")


@pytest.mark.slow
def test_a_browser_draws_each_plot_alone(plots: plot.Plots, tmp_path: Path, opened: Opens) -> None:
    report = data_of(plots.page().html)
    time = drawn(plots.timeline({"title": {"text": "</script><b>Monday"}}), tmp_path, opened)
    option = time.page.evaluate(OF_PLOT, "time-plot")
    assert option["title"][0]["text"] == "</script><b>Monday"
    (line,) = (one for one in option["series"] if one["name"] == "exchanges")
    assert [value for _, value in line["data"]] == report["time"]["exchanges"]
    assert time.page.locator("section:visible").count() == 1
    part = drawn(plots.latency(api="Fetch", part="long poll"), tmp_path, opened)
    (fetch,) = (one for one in report["heat"]["maps"] if one["name"] == "Fetch")
    cells = part.page.evaluate(OF_PLOT, "heat-plot")["series"][0]["data"]
    assert [cell[2] for cell in cells] == fetch["cells"]["long poll"][2::3]
    network = drawn(plots.network(), tmp_path, opened)
    links = network.page.evaluate(OF_PLOT, "network-plot")["series"][0]["links"]
    assert len(links) > 10


def drawn(one: plot.Plot, directory: Path, opened: Opens) -> Opened:
    """The page of a plot."""
    path = directory / "plot.html"
    one.save(path, force=True)
    shown = opened(path)
    assert shown.said == []
    assert shown.requests == [path.as_uri()]
    return shown


@pytest.mark.slow
def test_a_frame_in_a_cell_draws_and_reaches_nothing(
    plots: plot.Plots, tmp_path: Path, browser: Any
) -> None:
    path = tmp_path / "cell.html"
    path.write_text(f"<!doctype html><title>notebook</title>{plots.network()._repr_html_()}")
    page, said = browser.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.goto(path.as_uri())
    (frame,) = page.frames[1:]
    frame.wait_for_selector("html[data-ready]")
    assert frame.locator("canvas").count() == 1
    reached = "(() => { try { return parent.document.title; } catch { return 'refused'; } })()"
    assert frame.evaluate(reached) == "refused"
    assert said == []
    page.close()


@pytest.mark.slow
def test_outputs_of_an_executed_notebook_draw_in_their_cells(tmp_path: Path, browser: Any) -> None:
    """As JupyterLab shows them: the HTML that each cell has as its output."""
    cells = [
        f"import kdissect.plot\nplots = kdissect.plot.of({str(QUICKSTART)!r})\nplots.timeline()",
        'plots.latency(api="Fetch")', "plots.network()",
    ]  # fmt: skip
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(notebook, tmp_path / "made.ipynb")
    made = run(tmp_path / "made.ipynb")
    shown = [cell.outputs[-1].data["text/html"] for cell in made.cells]
    path = tmp_path / "cells.html"
    path.write_text("<!doctype html><title>notebook</title>" + "\n".join(shown))
    page, said = browser.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.goto(path.as_uri())
    frames = page.frames[1:]
    assert len(frames) == len(cells)
    for frame in frames:
        frame.wait_for_selector("html[data-ready]")
        assert frame.locator("canvas").count() == 1
    assert said == []
    page.close()


@pytest.mark.slow
def test_changes_are_a_page_of_a_comparison(tmp_path: Path, opened: Opens) -> None:
    found = kdissect.compare(QUICKSTART, at="+10s", unchanged=True)
    shown = drawn(plot.changes(found), tmp_path, opened)
    assert len(shown.texts("#table-changes tbody tr")) == min(found.table.num_rows, 25)
