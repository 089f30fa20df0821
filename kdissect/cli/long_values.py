"""Long values of rows, written in pieces as JSON, CSV or text.

A value of a record may have 100 MB, and its JSON is up to six times as long: as one text it would
be in memory several times (decoded, quoted, escaped, encoded). Of a long value only one piece
exists in each of these forms; the output bytes are the same.
"""

import base64
import codecs
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kdissect.text.escape import UNSEEN_LIMIT, csv_safe, escaped, json_safe

if TYPE_CHECKING:
    import pyarrow as pa

# Bytes of a piece, and minimum size of a value written in pieces. Quoted it has six times as many
# characters, of up to 4 bytes each: about 1.5 MB in each form.
PIECE: Final = 1 << 16
LONG: Final = PIECE
# Characters that decide whether a cell is a formula, and more than a column of a table is wide.
CELL_START: Final = UNSEEN_LIMIT


class LongValue:
    """A long cell of a column: the bytes as stored by Arrow."""

    def __init__(self, data: "pa.Buffer") -> None:
        self.data = memoryview(data)

    def __len__(self) -> int:
        return len(self.data)


def row_pieces(row: Mapping[str, Any]) -> Iterator[bytes]:
    """A row as one line of JSON, without newline; `LongValue` is text or ``{"base64": "..."}``."""
    if not any(isinstance(value, LongValue) for value in row.values()):
        yield quoted(row)
        return
    between = b"{"
    for name, value in row.items():
        yield between + quoted(name) + b": "
        if isinstance(value, LongValue):
            yield from value_pieces(value.data)
        else:
            yield quoted(value)
        between = b", "
    yield b"}"


def value_pieces(data: memoryview) -> Iterator[bytes]:
    """The JSON of `json_bytes`: text when it is UTF-8, else ``{"base64": "..."}``."""
    if is_text(data):
        yield b'"'
        for text in decoded(data):
            yield quoted(text)[1:-1]
        yield b'"'
        return
    yield b'{"base64": "'
    for at in range(0, len(data), 3 * PIECE):  # three bytes become four characters
        yield base64.b64encode(data[at : at + 3 * PIECE])
    yield b'"}'


def csv_pieces(data: memoryview) -> Iterator[bytes]:
    """A quoted cell of CSV, see `text_pieces`."""
    yield b'"'
    is_first = True
    for text in text_pieces(data):
        safe = escaped(csv_safe(text) if is_first else text)
        is_first = False
        yield safe.replace('"', '""').encode()
    yield b'"'


def beginning(data: memoryview) -> str:
    """The first characters of a long value as a cell of text, more than a table shows."""
    return next(text_pieces(data))


def text_pieces(data: memoryview) -> Iterator[str]:
    """The text when it is UTF-8, else base64; the first piece has at least CELL_START characters.

    Not escaped.
    """
    if is_text(data):
        start = ""
        pieces = decoded(data)
        for text in pieces:
            start += text
            if len(start) >= CELL_START:
                break
        yield start
        yield from pieces
        return
    start_size = 3 * max(PIECE, CELL_START)
    yield f"base64:{base64.b64encode(data[:start_size]).decode()}"
    for at in range(start_size, len(data), 3 * PIECE):
        yield base64.b64encode(data[at : at + 3 * PIECE]).decode()


def is_text(data: memoryview) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        for _ in decoded(data):
            pass
    except UnicodeDecodeError:
        return False
    return True


def decoded(data: memoryview) -> Iterator[str]:
    """The text of UTF-8 in pieces. Raises UnicodeDecodeError for invalid bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for at in range(0, len(data), PIECE):
        yield decoder.decode(bytes(data[at : at + PIECE]))
    yield decoder.decode(b"", final=True)


def quoted(value: Any) -> bytes:
    """A value as JSON, with harmful characters escaped."""
    return json_safe(json.dumps(value, ensure_ascii=False)).encode()


def is_long(column: "pa.Array") -> bool:
    """Return whether a text or binary column has a long value."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return is_long(column.dictionary)
    if not is_binary(column.type) or column.nbytes < LONG:
        return False
    from pyarrow import compute

    longest = compute.max(compute.binary_length(column)).as_py()
    return longest is not None and longest >= LONG


def is_binary(kind: "pa.DataType") -> bool:
    """Return whether cells are stored as bytes: texts are, as UTF-8."""
    import pyarrow as pa

    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    return bool(is_text or types.is_binary(kind) or types.is_large_binary(kind))


def long_cells(column: "pa.Array") -> Iterator["LongValue | bytes | str | None"]:
    """The cells of a column with long values; short ones as Python values."""
    import pyarrow as pa

    for cell in column:
        inner = cell.value if isinstance(cell, pa.DictionaryScalar) else cell
        data = inner.as_buffer() if inner.is_valid else None
        yield inner.as_py() if data is None or data.size < LONG else LongValue(data)
