"""Rows of exchanges → rows of a rollup: one per ten minutes, API, and client or topic.

A row has additive counters; KLL sketches of times, for percentiles; and HLL sketches for distinct
counts. Sketches of any rows can be merged, in any order: they are those of Apache DataSketches,
which Spark also uses.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.questions.clients import SIZE_FIELD
from kdissect.sql.connections import locked_connection
from kdissect.sql.files import PlainPaths, parquet_files
from kdissect.sql.interruption import arrow_rows
from kdissect.system.extras import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa

BUCKET_NS: Final = 600_000_000_000
# Rank error of 0.18 % at most, with 99 % confidence: p99 is between p98.82 and p99.18.
KLL_K: Final = 1600
# 4096 registers: relative standard error of 1.04 / 64 = 1.6 %.
HLL_LG_K: Final = 12

CLIENT: Final = "client_id"
TOPIC: Final = "topic"
LEVELS: Final = (CLIENT, TOPIC)  # rows are by time, API and one of these

COUNTERS: Final = (
    "exchanges", "answered", "unanswered", "failed", "throttled", "request_bytes",
    "response_bytes", "records", "record_bytes", "latency_sum_ns", "wait_sum_ns",
)  # fmt: skip
MEASURES: Final = ("latency", "work")  # times in ns, of answered exchanges
LARGEST: Final = tuple(f"{measure}_max_ns" for measure in MEASURES)
SETS: Final = ("clients", "connections")

_MEASURED: Final = "outcome = 'answered' AND latency_ns IS NOT NULL"
_COUNTED: Final = f"""
    count(*) AS exchanges,
    count(*) FILTER ({_MEASURED}) AS answered,
    count(*) FILTER (outcome = 'unanswered') AS unanswered,
    count(*) FILTER (is_failed) AS failed,
    count(*) FILTER (throttle_ms > 0) AS throttled,
    coalesce(sum(request_size + {SIZE_FIELD}), 0)::BIGINT AS request_bytes,
    coalesce(sum(response_size + {SIZE_FIELD}), 0)::BIGINT AS response_bytes,
    coalesce(sum(records_here), 0)::BIGINT AS records,
    coalesce(sum(bytes_here), 0)::BIGINT AS record_bytes,
    coalesce(sum(latency_ns) FILTER ({_MEASURED}), 0)::BIGINT AS latency_sum_ns,
    coalesce(sum(wait_ns) FILTER ({_MEASURED}), 0)::BIGINT AS wait_sum_ns
    """
_LISTED: Final = ", ".join(
    [f"max({one}_ns) FILTER ({_MEASURED}) AS {one}_max_ns" for one in MEASURES]
    + [f"list({one}_ns) FILTER ({_MEASURED} AND {one}_ns IS NOT NULL) AS {one}" for one in MEASURES]
    + [
        "list(DISTINCT client_id) FILTER (client_id IS NOT NULL) AS clients",
        "list(DISTINCT connection_id) AS connections",
    ]
)
_SENT: Final = "coalesce(request_start_ns, response_start_ns)"
_BUCKET: Final = f"({_SENT} - {_SENT} % {BUCKET_NS})"


def rollup_schema(level: str) -> "pa.Schema":
    """Schema of a rollup."""
    import pyarrow as pa

    keys = [("request_start_ns", pa.int64()), ("api", pa.string()), (level, pa.string())]
    numbers = [(name, pa.int64()) for name in (*COUNTERS, *LARGEST)]
    return pa.schema([*keys, *numbers, *[(name, pa.binary()) for name in (*MEASURES, *SETS)]])


def rolled_clients(exchanges: str) -> "pa.Table":
    """Rollup of a Parquet file of exchanges by client."""
    with PlainPaths() as paths:
        return rolled(of_clients(paths.of(exchanges)), CLIENT, [paths.of(exchanges)])


def of_clients(exchanges: str) -> str:
    """Query for a file of exchanges."""
    return f"""
        SELECT *, error_count > 0 OR error_code <> 0 AS is_failed, record_count AS records_here,
            record_bytes AS bytes_here
        FROM {parquet_files([exchanges])}
        """  # noqa: S608  # quoted


def rolled_topics(partitions: str, exchanges: Sequence[str]) -> "pa.Table":
    """Rollup of a Parquet file of partitions by topic; an exchange counts once per topic.

    `exchanges` are files that contain their exchanges, and possibly others.
    """
    with PlainPaths() as paths:
        one, *others = [paths.of(path) for path in (partitions, *exchanges)]
        return rolled(of_topics(one, others), TOPIC, [one, *others])


def of_topics(partitions: str, exchanges: Sequence[str]) -> str:
    """Query for a file of partitions, with the files of their exchanges."""
    there = parquet_files([partitions])
    return f"""
        WITH parts AS (
            SELECT exchange_id, coalesce(topic, topic_id) AS topic,
                sum(record_count) AS records_here, sum(record_bytes) AS bytes_here,
                coalesce(bool_or(error_code <> 0), false) AS is_failed
            FROM {there} GROUP BY 1, 2
        ), ends AS (SELECT min(exchange_id) AS first, max(exchange_id) AS last FROM {there})
        SELECT exchanges.*, parts.* EXCLUDE (exchange_id)
        FROM {parquet_files(exchanges)} AS exchanges JOIN parts USING (exchange_id)
        WHERE exchange_id BETWEEN (SELECT first FROM ends) AND (SELECT last FROM ends)
        """  # noqa: S608  # quoted


def rolled(source: str, level: str, files: Iterable[str]) -> "pa.Table":
    """Rollup of the exchanges returned by a query, which reads these files."""
    import pyarrow as pa

    query = f"""
        SELECT {_BUCKET} AS request_start_ns, api, {level}, {_COUNTED}, {_LISTED}
        FROM ({source}) GROUP BY ALL ORDER BY 1, 2, 3
        """  # noqa: S608  # ours
    schema = rollup_schema(level)
    with locked_connection(files) as connection:
        found = arrow_rows(connection, query)
    columns = []
    for field in schema:
        column = found[field.name]
        if field.name in MEASURES:
            column = pa.array([kll_of(one) for one in lists_of(column)], pa.binary())
        elif field.name in SETS:
            column = pa.array([hll_of(one.as_py()) for one in column], pa.binary())
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)


def lists_of(column: Any) -> Iterable[Any]:
    """Lists of a column as numpy arrays, None for null."""
    for one in column:
        yield None if one.values is None else one.values.to_numpy()


def kll_of(values: Any) -> bytes | None:
    """KLL sketch of times, None if there are none."""
    if values is None or not len(values):
        return None
    sketch = sketches().kll_floats_sketch(KLL_K)  # 24-bit floats: half the size of doubles
    sketch.update(values.astype("f4"))
    made: bytes = sketch.serialize()
    return made


def hll_of(values: Iterable[int | str] | None) -> bytes | None:
    """HLL sketch of a set, None for an empty one."""
    if not values:
        return None
    module = sketches()
    sketch = module.hll_sketch(HLL_LG_K, module.tgt_hll_type.HLL_8)  # as in Spark
    for value in values:
        sketch.update(value)
    made: bytes = sketch.serialize_compact()
    return made


@cache
def sketches() -> Any:
    """The DataSketches library; raises MissingExtra if it is not installed."""
    try:
        return import_module("datasketches")
    except ImportError as error:
        raise MissingExtra("rollups", "rollups") from error
