"""Axes of a notebook's size, and helpers of all charts."""

from typing import TYPE_CHECKING, Any, Final

from kdissect.system.extras import MissingExtra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

WIDTH: Final = 9.0  # inches


def figure(title: str, xlabel: str = "", ylabel: str = "", height: float = 3.6) -> "Axes":
    """Empty axes in the size of a notebook; raises MissingExtra without matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtra("plots", "notebooks") from error
    _, axes = plt.subplots(figsize=(WIDTH, height), layout="tight")
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return axes


def finish(axes: "Axes", **legend: Any) -> "Axes":
    """The axes with a legend without a frame."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**{"frameon": False, **legend})
    return axes


def seconds_since(times: "pd.Series[Any]", start: Any = None) -> "pd.Series[Any]":
    """Times as seconds since the first of them, or since `start`."""
    return (times - (times.min() if start is None else start)).dt.total_seconds()
