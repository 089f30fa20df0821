"""Plots of the notebooks: rows of `kdissect.read` and `analyse` as matplotlib figures.

Needs the extra `notebooks`; `import kdissect` does not import this package.
"""

from kdissect.plot.axes import figure, finish, seconds_since
from kdissect.plot.charts import first_to_last, grid_of_marks, over_time, time_spent

__all__ = [
    "figure",
    "finish",
    "first_to_last",
    "grid_of_marks",
    "over_time",
    "seconds_since",
    "time_spent",
]
