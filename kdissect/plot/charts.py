"""Charts: time spent, lines over time, first to last, a grid of marks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kdissect.plot.axes import figure, finish, seconds_since

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PARTS: Final = {"wait_ns": "#c9d6df", "queue_ns": "#f0b67f", "work_ns": "#c44536"}
SERIES: Final = ("#c9d6df", "#f0b67f", "#c44536", "#3d7ea6", "#8a6bbe", "#3f9d6b")
NS: Final = 1e9


def time_spent(
    exchanges: "pd.DataFrame", title: str = "Time spent", width_s: float = 0.5
) -> "Axes":
    """Wait, queue and broker time of exchanges, stacked, by the time at which they were sent.

    Needs `request_start`, `wait_ns`, `queue_ns` and `work_ns`.
    """
    second = seconds_since(exchanges["request_start"]) // width_s * width_s
    sums = exchanges.groupby(second)[list(PARTS)].sum() / NS
    axes = figure(title, "second of the capture in which requests were sent", "seconds spent")
    bottom: Any = 0
    for column, colour in PARTS.items():
        axes.bar(
            sums.index, sums[column], 0.92 * width_s, bottom, align="edge", color=colour,
            label=column.removesuffix("_ns"),
        )  # fmt: skip
        bottom = bottom + sums[column]
    return finish(axes)


def over_time(
    rows: "pd.DataFrame", column: str, by: str, title: str, ylabel: str, scale: float = 1e-6
) -> "Axes":
    """A line for each value of `by`, over the windows of the rows; `column` times `scale`."""
    second = seconds_since(rows["window"])
    lines = rows.assign(second=second).pivot_table(index="second", columns=by, values=column)
    axes = figure(title, "second of the capture in which requests were sent", ylabel)
    for number, name in enumerate(lines.columns):
        colour = SERIES[number % len(SERIES)]
        axes.plot(lines.index, lines[name] * scale, color=colour, marker=".", label=str(name))
    return finish(axes)


def first_to_last(
    rows: "pd.DataFrame", what: str, look: str, colours: Mapping[str, str], title: str
) -> "Axes":
    """A line for each row from `first_seen` to `last_seen`, named `what`, coloured by `look`."""
    rows = rows.sort_values("first_seen", ascending=False)
    places = {name: place for place, name in enumerate(dict.fromkeys(rows[what]))}
    start = rows["first_seen"].min()
    axes = figure(title, "seconds since the first", height=4.6)
    for row in rows.to_dict("records"):
        ends = [(row[name] - start).total_seconds() for name in ("first_seen", "last_seen")]
        at, colour = [places[row[what]]] * 2, colours[row[look]]
        axes.plot(ends, at, color=colour, linewidth=2, zorder=1)
        axes.scatter(ends, at, s=30, color=colour, zorder=2)
    for name, colour in colours.items():
        axes.scatter([], [], color=colour, label=name)
    axes.set_yticks(range(len(places)), list(places), fontsize=8)
    return finish(axes, fontsize=8, loc="lower left")


def grid_of_marks(
    rows: "pd.DataFrame",
    x: str,
    y: str,
    look: str,
    text: Sequence[str],
    colours: Mapping[str, str],
    title: str,
) -> "Axes":
    """A square for each row at its values of `x` and `y`, with a text in it."""
    columns = sorted(rows[x].unique())
    lines = list(rows.groupby(y)[look].min().sort_values(kind="stable", ascending=False).index)
    axes = figure(title, height=4.4)
    for row, mark in zip(rows.to_dict("records"), text, strict=True):
        place = columns.index(row[x]), lines.index(row[y])
        axes.scatter(*place, s=340, marker="s", color=colours[row[look]])
        axes.annotate(mark, place, ha="center", va="center", fontsize=8)
    for name, colour in colours.items():
        axes.scatter([], [], marker="s", color=colour, label=name)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(lines)), lines, fontsize=8)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.6, len(lines) - 0.4))
    return finish(axes, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
