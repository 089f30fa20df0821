"""pandas DataFrames of Arrow tables, where pandas is installed."""

from typing import TYPE_CHECKING, Final

from kdissect.errors import KdissectError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MISSING: Final = 'to_pandas() needs pandas: pip install "kdissect[pandas]"'


def pandas_frame(table: "pa.Table") -> "pd.DataFrame":
    """A DataFrame of the rows; raises `KdissectError` without pandas."""
    try:
        import pandas  # noqa: F401  # pyarrow's own error does not name the extra
    except ImportError as error:
        raise KdissectError(MISSING) from error
    frame: pd.DataFrame = table.to_pandas()
    return frame
