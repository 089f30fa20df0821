"""Plots of the notebooks: those of reports, and rows as matplotlib figures.

`of` and `changes` give the plots of reports, by ECharts in a frame. The others draw rows of
`kdissect.read` and `analyse` by matplotlib, and need the extra `notebooks`. `import kdissect` does
not import this package.
"""

from kdissect.plot.axes import figure, finish, seconds_since
from kdissect.plot.charts import first_to_last, grid_of_marks, over_time, time_spent
from kdissect.plot.pages import Plot, Plots, changes, of

__all__ = [
    "Plot",
    "Plots",
    "changes",
    "figure",
    "finish",
    "first_to_last",
    "grid_of_marks",
    "of",
    "over_time",
    "seconds_since",
    "time_spent",
]
