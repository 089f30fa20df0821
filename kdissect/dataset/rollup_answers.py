"""Queries answered from rollups: rows are merged, percentiles come with bounds.

In a KLL sketch the rank of a percentile has an error; `p99_low_ns` and `p99_high_ns` are the values
at the rank minus and plus that error. With few values, all of which a sketch keeps, they are the
neighbours of the percentile.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.analysis.dimensions import DEFAULT_WINDOW_NS, column_name, dimension_column
from kdissect.analysis.execution import schema_of
from kdissect.analysis.question import SHARE
from kdissect.analysis.questions.latency import PERCENTILES, QUESTION
from kdissect.dataset.rollup_rows import (
    BUCKET_NS,
    CLIENT,
    COUNTERS,
    HLL_LG_K,
    KLL_K,
    LARGEST,
    MEASURES,
    SETS,
    TOPIC,
    sketches,
)
from kdissect.errors import InvalidArgument
from kdissect.tables.schemas import INT64, Column

if TYPE_CHECKING:
    import pyarrow as pa

DIMENSIONS_OF: Final = ("api", CLIENT, TOPIC, "tap", "date", "window")
FLOAT: Final = 2.0**-23  # twice the rounding error of a 24-bit float
HALF: Final = 0.5  # of a rank, so that rounding does not give the next value
STD_DEVS: Final = 3  # 99.7 % of cardinality estimates lie within this many

COLUMNS: Final = (
    Column("exchanges", INT64, "", "answered exchanges"),
    *[Column(f"{name}_ns", INT64, "ns", f"{name} of the measure (`of`)") for name in PERCENTILES],
    Column("max_ns", INT64, "ns", "largest"),
    *[
        Column(f"{name}_{end}_ns", INT64, "ns", f"{name} is not {word}, with 99 % confidence")
        for name in PERCENTILES
        for end, word in (("low", "below"), ("high", "above"))
    ],
    Column("rank_error", SHARE, "", "by how much the rank of a percentile may be off"),
    Column("waited", SHARE, "", "long-poll share: wait as a share of all latency"),
    Column("requests", INT64, "", "all exchanges"),
    Column("failed", INT64, "", "those with an error in the response"),
    Column("unanswered", INT64, "", "those without the response they asked for"),
    Column("throttled", INT64, "", "those that the broker throttled"),
    Column("request_bytes", INT64, "bytes", "requests, with their size fields"),
    Column("response_bytes", INT64, "bytes", "responses, with their size fields"),
    Column("records", INT64, "", "records they carried; by topic, of the topic"),
    Column("record_bytes", INT64, "bytes", "their batches; by topic, of the topic"),
    *[
        Column(f"{name}{end}", INT64, "", f"{meaning}{word}")
        for name, meaning in (("clients", "client ids"), ("connections", "connections"))
        for end, word in (
            ("", ", about"), ("_low", ": not fewer, with 99.7 % confidence"),
            ("_high", ": not more"),
        )
    ],
)  # fmt: skip

WITHIN: Final = {f"{name}{end}_ns" for name in PERCENTILES for end in ("", "_high")}
ROLLED: Final = QUESTION._replace(columns=COLUMNS, dimensions=(dimension_column(CLIENT),))


class Asked(NamedTuple):
    """A validated query of rollups."""

    by: tuple[str, ...]
    of: str = "latency"
    window_ns: int = DEFAULT_WINDOW_NS
    where: str | None = None
    level: str = CLIENT

    @property
    def keys(self) -> dict[str, str]:
        """SQL expressions of `by`, valid in DuckDB and Spark."""
        window = f"(request_start_ns - request_start_ns % {self.window_ns})"
        values = {"window": window}
        return {name: values.get(name, name) for name in self.by}


def asked_of_rollups(by: Sequence[str], of: str, window_ns: int | None, where: str | None) -> Asked:
    """Validate a query; raises KdissectError for one that rollups cannot answer."""
    by = tuple(map(column_name, by))
    for name in by:
        if name not in DIMENSIONS_OF:
            there = ", ".join(DIMENSIONS_OF)
            raise InvalidArgument(f"rollups are not by {name!r}; they are by {there}")
    if of not in MEASURES:
        raise InvalidArgument(f"rollups have no times of {of!r}; they have {', '.join(MEASURES)}")
    window_ns = BUCKET_NS if window_ns is None else window_ns
    if "window" in by and window_ns % BUCKET_NS:
        raise InvalidArgument("rollups have tens of minutes: windows are 10m, 20m, 1h and so on")
    named = columns_in(where) if where else set()
    is_topic = "topic" in by or TOPIC in named
    if is_topic and (CLIENT in by or CLIENT in named):
        raise InvalidArgument("rollups are by client or by topic, not by both")
    return Asked(by, of, window_ns, where, TOPIC if is_topic else CLIENT)


def columns_in(where: str) -> set[str]:
    """Names of columns in a condition in DuckDB SQL; empty if it cannot be parsed."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        return {one.name for one in sqlglot.condition(where, dialect="duckdb").find_all(exp.Column)}
    except SqlglotError:
        return set()  # the engine reports the error


class Group:
    """Merged rollup rows with the same values of `by`."""

    def __init__(self) -> None:
        module = sketches()
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.largest: dict[str, int | None] = dict.fromkeys(LARGEST)
        self.times = {name: module.kll_floats_sketch(KLL_K) for name in MEASURES}
        self.sets = {name: module.hll_union(HLL_LG_K) for name in SETS}

    def add(self, row: Mapping[str, Any]) -> None:
        """Merge a row."""
        module = sketches()
        for name in COUNTERS:
            self.counters[name] += row[name]
        for name in LARGEST:
            known = [value for value in (self.largest[name], row[name]) if value is not None]
            self.largest[name] = max(known, default=None)
        for name, sketch in self.times.items():
            if row[name] is not None:
                sketch.merge(module.kll_floats_sketch.deserialize(row[name]))
        for name, union in self.sets.items():
            if row[name] is not None:
                union.update(module.hll_sketch.deserialize(row[name]))

    def values_of(self, of: str) -> dict[str, Any]:
        """Columns of the answer."""
        counters = self.counters
        values: dict[str, Any] = {
            "exchanges": counters["answered"],
            "requests": counters["exchanges"],
            "max_ns": self.largest[f"{of}_max_ns"],
            "waited": counters["wait_sum_ns"] / max(counters["latency_sum_ns"], 1),
            **percentiles(self.times[of]),
        }
        for name in values.keys() & WITHIN:  # no time exceeds the largest
            if values[name] is not None:
                values[name] = min(values[name], values["max_ns"])
        same = ("failed", "unanswered", "throttled", "request_bytes", "response_bytes",
                "records", "record_bytes")  # fmt: skip
        values |= {name: counters[name] for name in same}
        for name, union in self.sets.items():
            found = union.get_result()
            values[name] = round(found.get_estimate())
            values[f"{name}_low"] = floor(found.get_lower_bound(STD_DEVS))
            values[f"{name}_high"] = ceil(found.get_upper_bound(STD_DEVS))
        return values


def percentiles(sketch: Any) -> dict[str, Any]:
    """Percentiles and their bounds; null if there are no values."""
    if not sketch.n:
        names = [f"{name}{end}_ns" for name in PERCENTILES for end in ("", "_low", "_high")]
        return dict.fromkeys([*names, "rank_error"])
    error = sketch.normalized_rank_error(False) if sketch.is_estimation_mode() else 0.0
    # One more rank, as exact percentiles interpolate between two values.
    off = error + 1 / sketch.n
    row = {"rank_error": error}
    for name, rank in PERCENTILES.items():
        ranks = max(0.0, rank - off), min(1.0, rank + off)
        low, high = [sketch.get_quantile(one, True) for one in ranks]
        bounds = floor(low * (1 - FLOAT)), ceil(high * (1 + FLOAT))
        values = floor(between(sketch, rank) + 0.5), *bounds
        row |= dict(zip((f"{name}_ns", f"{name}_low_ns", f"{name}_high_ns"), values, strict=True))
    return row


def between(sketch: Any, share: float) -> float:
    """A percentile, interpolated between two values as in `latency`."""
    place = share * (sketch.n - 1)
    low, high = [
        float(sketch.get_quantile((rank + 1 - HALF) / sketch.n, True))
        for rank in (floor(place), ceil(place))
    ]
    return float(low + (high - low) * (place % 1))


class Groups:
    """Groups, keyed by their values of `by`."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.groups: dict[tuple[Any, ...], Group] = {}

    def add(self, rows: "pa.Table") -> None:
        """Merge rows that have the columns of `by` and all columns of a rollup."""
        for row in rows.to_pylist():
            key = tuple(row[name] for name in self.asked.by)
            group = self.groups.get(key)
            if group is None:
                group = self.groups[key] = Group()
            group.add(row)

    def answer(self) -> "pa.Table":
        """Rows of the answer: in order of time, then by descending p99."""
        import pyarrow as pa

        made = []
        for key, group in self.groups.items():
            values = group.values_of(self.asked.of)
            if values["exchanges"]:
                made.append(dict(zip(self.asked.by, key, strict=True)) | values)
        made.sort(key=lambda row: place_of(row, self.asked.by))
        names = [*self.asked.by, *[column.name for column in COLUMNS]]
        return pa.Table.from_pylist(made, schema_of(ROLLED, names))


def place_of(row: Mapping[str, Any], by: Iterable[str]) -> tuple[Any, ...]:
    """Sort key of a row, with null values last."""
    others = [(row[name] is None, row[name] or "") for name in by if name != "window"]
    return row.get("window") or 0, -row["p99_ns"], others
