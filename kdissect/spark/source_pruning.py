"""Captures that a query of the data source has to read, by its filters on names and times.

All packets of a tap outside the times of a filter: none of its rows passes, and none is made. That
is exact. Within a tap, rows depend on the captures before and after: on connections that are open,
and names of topics. So captures of a tap are left out only by the option ``context``: how many
seconds before and after the times are read with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kdissect.capture.capture_file import NO_PACKET_NS
from kdissect.capture.packet import SECOND_NS
from kdissect.capture.splits import plan_file
from kdissect.dataset.planning import count_packets
from kdissect.dataset.stored_columns import NS
from kdissect.errors import CaptureError
from kdissect.spark.source_filters import column_of, flags_of

DAY: Final = "day"
DAY_TYPE: Final = pa.date32()
# Columns with times of packets, by table; the first one is that of `DAY`. Timestamps of records
# are the producers'.
TIMES: Final = {
    "exchanges": ("request_start", "request_end", "response_start", "response_end"),
    "connections": ("first_time", "last_time"),
    "members": ("time",),
    "problems": ("time",),
}
# Spark's times are rounded to microseconds.
ROUNDED_NS: Final = 1000
DAY_NS: Final = 86_400 * SECOND_NS
EARLIEST, LATEST = -(1 << 62), 1 << 62
WHOLE: Final = 1 << 62  # bytes of a split


class Times(NamedTuple):
    """Range of times in nanoseconds since 1970, both ends included."""

    first_ns: int = EARLIEST
    last_ns: int = LATEST


class Bounds(NamedTuple):
    """Ranges of times, in each of which a row that passes has a packet."""

    ranges: tuple[Times, ...] = ()

    def excludes(self, times: Times) -> bool:
        """Return whether packets of these times give no row that passes."""
        return any(
            times.last_ns < one.first_ns or one.last_ns < times.first_ns for one in self.ranges
        )

    def around(self, context_ns: int) -> Times:
        """Times of all packets of rows that pass, and of so much before and after."""
        ends = [end for one in self.ranges for end in one if EARLIEST < end < LATEST]
        has_first = any(one.first_ns > EARLIEST for one in self.ranges)
        has_last = any(one.last_ns < LATEST for one in self.ranges)
        return Times(
            min(ends) - context_ns if has_first else EARLIEST,
            max(ends) + context_ns if has_last else LATEST,
        )

    def chosen(self, paths: Sequence[str], context_ns: int | None) -> list[str]:
        """Captures of a tap to be read: all or none, or those around the times."""
        if not self.ranges:
            return list(paths)
        found = {path: times_of(path) for path in paths}
        of_tap = Times(
            min(one.first_ns for one in found.values()), max(one.last_ns for one in found.values())
        )
        if self.excludes(of_tap):
            return []
        if context_ns is None:
            return list(paths)
        around = Bounds((self.around(context_ns),))
        return [path for path in paths if not around.excludes(found[path])]


def times_of(path: str) -> Times:
    """Times of a capture's earliest and latest packets, found by stepping through it.

    Without a bound where it is not readable to the end: then its reader says so.
    """
    try:
        splits, packets = plan_file(path, WHOLE)
        if packets < 0:
            splits, packets = count_packets(splits[0], path)
    except (CaptureError, OSError):
        return Times()
    known = [one for one in splits if one.earliest_ns != NO_PACKET_NS and one.latest_ns >= 0]
    if not known:
        return Times() if packets else Times(LATEST, EARLIEST)
    return Times(min(one.earliest_ns for one in known), max(one.latest_ns for one in known))


def bounds_of(table: str, filters: Iterable[Filter]) -> Bounds:
    """Ranges of times in filters on columns with times of packets."""
    columns = TIMES.get(table, ())
    known = {*columns, *(name + NS for name in columns)} | ({DAY} if columns else set())
    found = [range_of(one) for one in filters if column_of(one)[0] in known]
    return Bounds(tuple(one for one in found if one != Times()))


def range_of(one: Any) -> Times:
    """Range of times that a filter on one of them allows."""
    if isinstance(one, In):
        ends = [times_in(value) for value in one.value if value is not None]
        if not ends:
            return Times()
        return Times(min(end.first_ns for end in ends), max(end.last_ns for end in ends))
    value = getattr(one, "value", None)
    if value is None:
        return Times()
    given = times_in(value)
    if isinstance(one, EqualTo | EqualNullSafe):
        return given
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        return Times(first_ns=given.first_ns)
    if isinstance(one, LessThan | LessThanOrEqual):
        return Times(last_ns=given.last_ns)
    return Times()


def times_in(value: Any) -> Times:
    """Times that a value of a filter stands for: nanoseconds, a time, or a day."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        ns = (since.days * 86_400 + since.seconds) * SECOND_NS + since.microseconds * 1000
        return Times(ns - ROUNDED_NS, ns + ROUNDED_NS)
    if isinstance(value, date):
        begin = times_in(datetime.combine(value, time(), UTC)).first_ns
        return Times(begin, begin + DAY_NS + 2 * ROUNDED_NS)
    return Times(int(value), int(value))


def has_tap(name: str, column: str, filters: Iterable[Filter]) -> bool:
    """Return whether the name of a tap passes the filters on its column."""
    row = pa.RecordBatch.from_pydict({column: pa.array([name], pa.string())})
    own = [one for one in filters if column_of(one) == (column,)]
    return all(flags_of(row, one)[0].as_py() for one in own)


def days_of(table: str, batch: Mapping[str, pa.Array] | pa.RecordBatch) -> pa.Array:
    """UTC days of rows by their first packets."""
    times = batch[TIMES[table][0]]
    return cast("pa.Array", pc.cast(pc.floor_temporal(times, unit="day"), DAY_TYPE))
