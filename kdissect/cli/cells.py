"""Values of Arrow columns as cells of text and as JSON."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kdissect.cli.long_values import LongValue, beginning, is_long, long_cells
from kdissect.text.escape import escaped

if TYPE_CHECKING:
    import pyarrow as pa


def json_cells(column: "pa.Array") -> Iterator[Any]:
    """Values of JSON of a column with long values, which are `LongValue`."""
    from kdissect.messages.full_bodies import json_bytes

    for value in long_cells(column):
        yield json_bytes(value) if isinstance(value, bytes) else value


def json_values(column: "pa.Array") -> list[Any]:
    """Values of JSON: times are ISO 8601, bytes text or an object with base64."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return _iso_times(column)
    values: list[Any] = column.to_pylist()
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        from kdissect.messages.full_bodies import json_bytes

        return [value if value is None else json_bytes(value) for value in values]
    return values


def _iso_times(column: "pa.Array") -> list[str | None]:
    import pyarrow as pa

    texts = column.cast(pa.timestamp("ns")).cast(pa.string()).to_pylist()
    return [text and f"{text.replace(' ', 'T')}Z" for text in texts]


def cells_of(column: "pa.Array") -> Iterator[str]:
    """Cells of a table; of long values the beginning, which is more than fits."""
    values: Iterable[Any] = json_cells(column) if is_long(column) else json_values(column)
    return ("" if value is None else escaped(text_of(value)) for value in values)


def text_of(value: object) -> str:
    """A value of JSON as text, not escaped."""
    if isinstance(value, LongValue):
        return beginning(value.data)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return f"base64:{value['base64']}"
    return value if isinstance(value, str) else str(value)


def is_numeric(kind: "pa.DataType") -> bool:
    """Return whether a column is aligned right."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
