"""Columns of durations as Arrow's durations, which pandas has as Timedelta."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kdissect.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa

NUMBERS: Final = "numbers"
TIMEDELTA: Final = "timedelta"
UNITS: Final = (NUMBERS, TIMEDELTA)
OF_TIME: Final = ("ns", "ms")


def in_units(table: "pa.Table", asked: str, units: Mapping[str, str]) -> "pa.Table":
    """The table with whole numbers, or with durations of the columns that `units` has in ns or ms.

    Names stay: `latency_ns` as a duration is a duration in ns.
    """
    check_units(asked)
    if asked == NUMBERS:
        return table
    import pyarrow as pa

    fields = []
    for field in table.schema:
        unit = units.get(field.name, "")
        is_time = unit in OF_TIME and pa.types.is_integer(field.type)
        fields.append(field.with_type(pa.duration(unit)) if is_time else field)
    wide = pa.schema(
        [one.with_type(pa.int64()) if pa.types.is_duration(one.type) else one for one in fields]
    )
    return table.cast(wide).cast(pa.schema(fields, table.schema.metadata))


def check_units(asked: str) -> None:
    """Raise InvalidArgument for unknown units."""
    if asked not in UNITS:
        raise InvalidArgument(f"no units {asked!r}; there are {', '.join(UNITS)}")
