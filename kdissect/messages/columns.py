"""A column of a table as it is declared, with the types that columns have."""

from typing import Final, NamedTuple

TIME: Final = "time"  # timestamp[ns, UTC] of the capture clock
INT64: Final = "int64"
INT32: Final = "int32"
INT16: Final = "int16"
INT8: Final = "int8"
BOOL: Final = "bool"
TEXT: Final = "text"  # dictionary of UTF-8 strings
BINARY: Final = "binary"


class Column(NamedTuple):
    """One column. `unit` is "" for counts, codes and text; `stored` False when it is computed.

    `source` is the code of the integer that a row stores, see `tables.writers_source`: `own` in it
    is the dictionary of the column's texts. Columns that are not written row by row have none.
    """

    name: str
    type: str
    unit: str
    meaning: str
    stored: bool = True
    source: str = ""
