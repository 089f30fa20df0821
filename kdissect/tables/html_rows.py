"""The first rows of an Arrow table as HTML, for notebooks."""

from typing import TYPE_CHECKING, Final

from kdissect.text.html import html_table

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN: Final = 20


def html_of(caption: str, table: "pa.Table") -> str:
    """An HTML table of the first rows, and how many there are."""
    import pyarrow as pa

    first = table.slice(0, SHOWN)
    # Times with nanoseconds would need pandas.
    columns = (
        column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column
        for column in first.columns
    )
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    more = table.num_rows - first.num_rows
    title = f"{caption}; {SHOWN} shown" if more else caption
    return html_table(table.column_names, rows, title)
