"""pandas DataFrames of Arrow tables, where pandas is installed."""

from typing import TYPE_CHECKING

from kdissect.system.extras import MissingExtra

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def pandas_frame(table: "pa.Table") -> "pd.DataFrame":
    """Return a DataFrame of the rows; raise `MissingExtra` without pandas."""
    try:
        import pandas  # noqa: F401  # pyarrow's own error does not name the extra
    except ImportError as error:
        raise MissingExtra("to_pandas()", "pandas") from error
    frame: pd.DataFrame = table.to_pandas()
    return frame
