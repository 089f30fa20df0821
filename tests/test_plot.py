"""Plots of notebooks: they draw the values of the rows; the library does not import them."""

import subprocess
import sys
from collections.abc import Iterator

import matplotlib
import matplotlib.pyplot as plt
import pytest

import kdissect
from kdissect import plot

CAPTURE = "captures/quickstart.pcapng"


@pytest.fixture(autouse=True)
def no_window() -> Iterator[None]:
    matplotlib.use("agg")
    yield
    plt.close("all")


def test_bars_add_up_to_the_time_that_was_spent() -> None:
    names = ["request_start", "wait_ns", "queue_ns", "work_ns"]
    where = "outcome = 'answered' AND latency_ns IS NOT NULL"
    rows = kdissect.read(CAPTURE, table="exchanges", columns=names, where=where).to_pandas()
    axes = plot.time_spent(rows, "x")
    drawn = sum(bar.get_height() for bar in axes.patches)
    assert drawn == pytest.approx(rows[names[1:]].sum().sum() / 1e9)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["wait", "queue", "work"]


def test_lines_go_from_the_first_error_to_the_last() -> None:
    rows = kdissect.analyse("errors", CAPTURE).to_pandas().assign(look="seen")
    axes = plot.first_to_last(rows, "error", "look", {"seen": "red"}, "x")
    lengths = sorted(line.get_xdata()[1] - line.get_xdata()[0] for line in axes.lines)
    spans = (rows["last_seen"] - rows["first_seen"]).dt.total_seconds()
    assert lengths == pytest.approx(sorted(spans))


def test_a_line_for_each_group_has_its_windows() -> None:
    rows = kdissect.analyse("latency", CAPTURE, by=["api", "window"], window=10**9).to_pandas()
    rows = rows[rows["api"].isin(["Produce", "Fetch"])]
    axes = plot.over_time(rows, "max_ns", "api", "x", "ms")
    heights = sorted(value for line in axes.lines for value in line.get_ydata() if value == value)
    assert heights == pytest.approx(sorted(rows["max_ns"] / 1e6))


def test_a_mark_for_each_row() -> None:
    rows = kdissect.analyse("upgrade", "captures/basics-0.10.2.2.pcapng").to_pandas()
    colours = dict.fromkeys(rows["verdict"].unique(), "red")
    text = [f"v{version}" for version in rows["api_version"]]
    axes = plot.grid_of_marks(rows, "api", "client_id", "verdict", text, colours, "x")
    assert [one.get_text() for one in axes.texts] == text


def test_the_library_does_not_import_plots() -> None:
    code = (
        "import sys, kdissect; dir(kdissect); kdissect.analyse; "
        "assert not {'kdissect.plot', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(kdissect.KdissectError, match='plots needs the extra "notebooks"'):
        plot.figure("x")
