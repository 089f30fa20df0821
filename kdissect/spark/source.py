"""``spark.read.format("kdissect")``: rows of one table of captures, without a dataset.

    spark.read.format("kdissect").option("table", "exchanges").load("captures/*.pcap*")

Spark finds the format by the package `pyspark_kdissect`. Connections across files are reassembled.
A tap is one task, with as many processes as Spark gives CPUs to a task (``spark.task.cpus``). A
user-defined schema (``.schema("api string, latency_ns bigint")``) selects the columns to compute.
Ids are those of `kdissect.read` of the tap's captures; the optional columns `tap` and `day` are the
tap's name and the UTC day of the row's first packet. A capture that cannot be read is a row of
`problems`, and of any table with the optional column `_corrupt_capture`; with the option ``mode``
FAILFAST it fails the query. Spark does not push columns down to a source, and filters only if
``spark.sql.python.filterPushdown.enabled`` is true: then taps and times that a query does not need
are not dissected (`source_pruning`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, StringType, StructField, StructType

from kdissect.capture.packet import SECOND_NS
from kdissect.checkpoint.run_choice import make_run
from kdissect.dataset.delta_actions import commented
from kdissect.dataset.storage import reached_by, remember
from kdissect.dataset.storage_captures import local_copies
from kdissect.dataset.stored_columns import UNREADABLE, spark_batch, spark_schema, stored_columns
from kdissect.dataset.taps import find_taps
from kdissect.errors import CaptureError, KdissectError, not_among
from kdissect.pipeline import Options, Run
from kdissect.spark.arrow_rows import arrow_schema_of
from kdissect.spark.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from kdissect.spark.source_filters import column_of, flags_of, is_taken
from kdissect.spark.source_pruning import DAY, DAY_TYPE, TIMES, bounds_of, days_of, has_tap
from kdissect.tables.schemas import TABLES

TAP: Final = "tap"
# Why a capture cannot be read: with this column its row is in every table, as with Spark's CSV.
CORRUPT: Final = "_corrupt_capture"
EXTRA: Final = {TAP: pa.string(), DAY: DAY_TYPE, CORRUPT: pa.string()}
PERMISSIVE, FAILFAST = "PERMISSIVE", "FAILFAST"
# Rows per batch: 1 to 2 MB for Spark to take over at a time.
SOURCE_BATCH_ROWS: Final = 8192
# Supported options of the library, by type.
TEXTS: Final = ("protocol",)
LISTS: Final = ("ports", "brokers", "decode_as", "keylog")
FLAGS: Final = ("payload", "verify_crc")
OWN: Final = (
    "path",
    "paths",
    "captures",
    "table",
    "tap",
    "mode",
    "jobs",
    "context",
)
OF_STREAMS: Final = ("state", "quiet", "maxfilespertrigger", "maxbytespertrigger")


@dataclass
class TapPartition(InputPartition):
    """Captures of a tap, or an unreadable one, with the reason."""

    tap: str
    paths: tuple[str, ...]
    problem: str = ""
    stores: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The first capture."""
        return self.paths[0]


class KdissectDataSource(DataSource):
    """The data source; its options are ``table``, ``tap`` (a pattern) and those of `Options`."""

    def __init__(self, options: dict[str, str]) -> None:
        # Spark's options are case-insensitive.
        self.options = {name.lower(): value for name, value in options.items()}
        self.table = self.options.get("table", "exchanges")
        if self.table not in TABLES:
            raise KdissectError(not_among(f"no table {self.table!r}", TABLES))

    @classmethod
    def name(cls) -> str:
        """Name for ``format``."""
        return "kdissect"

    def schema(self) -> StructType:
        """All columns of the table, with comments."""
        table = TABLES[self.table]
        found: StructType = from_arrow_schema(spark_schema(table))
        for column, field in zip(found, commented(table), strict=True):
            metadata = {name.decode(): value.decode() for name, value in field.metadata.items()}
            unit = f" [{metadata['unit']}]" if "unit" in metadata else ""
            column.metadata = {"comment": metadata["comment"] + unit}
        return found

    def reader(self, schema: StructType) -> "KdissectReader":
        """Reader of the columns of a schema."""
        check_schema(self.table, schema)
        return FilteringReader(self.table, schema, self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # PySpark's
        """Stream reader of the columns of a schema, for captures as they become complete."""
        from kdissect.spark.source_stream import KdissectStreamReader, end_quietly

        end_quietly()
        check_schema(self.table, schema)
        return KdissectStreamReader(
            KdissectReader(self.table, schema, self.options), stream_options(self.options)
        )


class KdissectReader(DataSourceReader):
    """Reads the columns of a schema, tap by tap."""

    def __init__(self, table: str, schema: StructType, options: Mapping[str, str]) -> None:
        self.table = table
        self.wanted = arrow_schema_of(schema)
        self.sources = paths_of(options)
        self.pattern = options.get("tap")
        self.options = options_of(table, options)
        self.jobs = int(options.get("jobs", 0))
        self.context_ns = nanoseconds(options["context"]) if "context" in options else None
        self.filters: list[Filter] = []
        self.mode = options.get("mode", PERMISSIVE).upper()
        if self.mode not in (PERMISSIVE, FAILFAST):
            raise KdissectError(f"mode is {PERMISSIVE} or {FAILFAST}, not {self.mode}")

    def partitions(self) -> Sequence[TapPartition]:
        """Tasks for each tap, and for each unreadable capture."""
        found = find_taps(self.sources, self.pattern)
        tasks = [
            TapPartition(tap.name, tap.paths, stores=reached_by(tap.paths))
            for tap in found.taps
            if has_tap(tap.name, TAP, self.filters)
        ]
        return tasks + [TapPartition("", (one.path,), one.message) for one in found.broken]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a tap."""
        if not isinstance(partition, TapPartition):
            return
        for batch in self._batches(partition):
            yield from self.sliced(batch)

    def sliced(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows that pass the filters, in batches that suit Spark."""
        kept = self.kept(batch)
        for first in range(0, kept.num_rows, SOURCE_BATCH_ROWS):
            yield kept.slice(first, SOURCE_BATCH_ROWS)

    def _batches(self, partition: TapPartition) -> Iterator[pa.RecordBatch]:
        if partition.problem:
            yield from self.problem_rows(partition.path, partition.problem)
            return
        try:
            for batch in self._made(partition):
                yield self.as_wanted(batch, partition.tap)
        except CaptureError as error:
            # It was readable a moment ago.
            yield from self.problem_rows(partition.path, str(error))

    def _made(self, partition: TapPartition) -> Iterator[pa.RecordBatch]:
        for one in partition.stores:
            remember(one)
        with local_copies(partition.paths) as copies:
            bounds = bounds_of(self.table, self.filters)
            paths = bounds.chosen(list(copies), self.context_ns)
            if paths:
                yield from self._dissected(paths, copies)

    def _dissected(self, paths: list[str], names: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        options = self.made_options()
        are_local = all(path == names[path] for path in paths)
        # Copies are shown in rows under other names, which processes beside this one do not do.
        with make_run(paths, options) if are_local else Run(paths, options, names) as run:
            for _, batch in run:
                yield batch

    def made_options(self) -> Options:
        """Options of the library, with the columns to compute."""
        names = [name for name in self.read_columns() if name not in EXTRA]
        if DAY in self.read_columns():
            names.append(TIMES[self.table][0])
        made = stored_columns(TABLES[self.table], names) or ["capture"]
        jobs = self.jobs or cpus_of_task()
        return Options(**self.options, columns={self.table: made}, jobs=jobs)

    def read_columns(self) -> list[str]:
        """Requested columns, and those that filters use."""
        asked = [column_of(one)[0] for one in self.filters]
        return list(dict.fromkeys([*self.wanted.names, *asked]))

    def as_wanted(self, batch: pa.RecordBatch, tap: str) -> pa.RecordBatch:
        """Convert rows to the schema of Spark."""
        names = self.read_columns()
        table = TABLES[self.table]
        made = spark_batch(batch, spark_schema(table, [n for n in names if n not in EXTRA]))
        extra = {
            TAP: pa.array([tap] * batch.num_rows, pa.string()),
            CORRUPT: pa.nulls(batch.num_rows, pa.string()),
        }
        if DAY in names:
            extra[DAY] = days_of(self.table, batch)
        arrays = [extra[name] if name in EXTRA else made[name] for name in names]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def problem_rows(self, path: str, message: str) -> Iterator[pa.RecordBatch]:
        """Row of an unreadable capture, in the table of problems, or where a column is for it.

        Raises CaptureError in its place where the mode is FAILFAST.
        """
        if self.mode == FAILFAST:
            raise CaptureError(message)
        names = self.read_columns()
        values = {"capture": path, CORRUPT: message}
        if self.table == "problems":
            values |= {"stage": "capture", "kind": UNREADABLE, "message": message}
        elif CORRUPT not in names:
            return
        types = {field.name: field.type for field in spark_schema(TABLES[self.table])} | EXTRA
        arrays = [pa.array([values.get(name)], types[name]) for name in names]
        yield pa.RecordBatch.from_arrays(arrays, names=names)

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that pass the filters."""
        for one in self.filters:
            batch = batch.filter(flags_of(batch, one))
        arrays = [batch[name] for name in self.wanted.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.wanted)


class Unrefused:
    """A reader's method `pushFilters` that sessions without filter pushdown accept too.

    They refuse a reader that has one other than that of Spark's base class, by ``__func__``.
    """

    def __get__(self, reader: Any, _: Any = None) -> Any:
        return self if reader is None else Bound(reader)


class Bound:
    """The method of a reader."""

    def __init__(self, reader: KdissectReader) -> None:
        self.reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept filters on a single column; Spark applies the others."""
        for one in filters:
            if is_taken(one) and len(column_of(one)) == 1:
                self.reader.filters.append(one)
            else:
                yield one


class FilteringReader(KdissectReader):
    """The same with filters, which Spark passes on only if configured, see above."""

    pushFilters = Unrefused()  # noqa: N815  # PySpark's name


def cpus_of_task() -> int:
    """CPUs that Spark gives to this task; 1 outside of tasks."""
    context = TaskContext.get()
    return 1 if context is None else int(context.cpus())


def nanoseconds(seconds: str) -> int:
    """Time of the option ``context``; raises KdissectError."""
    try:
        return round(float(seconds) * SECOND_NS)
    except (ValueError, OverflowError):
        raise KdissectError(f"context is in seconds, not {seconds!r}") from None


def check_schema(table: str, schema: StructType) -> None:
    """Raise KdissectError for columns of a user's schema that do not match the table."""
    known: StructType = from_arrow_schema(spark_schema(TABLES[table]))
    extra = [StructField(name, StringType()) for name in (TAP, CORRUPT)]
    days = [StructField(DAY, DateType())] if table in TIMES else []
    types = {field.name: field.dataType for field in [*known, *extra, *days]}
    for field in schema:
        if field.name not in types:
            raise KdissectError(not_among(f"no column {field.name!r} in {table}", types))
        if field.dataType != types[field.name]:
            right = types[field.name].simpleString()
            raise KdissectError(f"{field.name} is {right}, not {field.dataType.simpleString()}")


def paths_of(options: Mapping[str, str]) -> list[str]:
    """Paths passed to ``load``, one or several."""
    if "paths" in options:
        several: list[str] = json.loads(options["paths"])
        return several
    # In a query of a catalogue's table `path` is taken by Spark.
    path = options.get("path", options.get("captures"))
    if path is None:
        raise KdissectError("which captures? load(PATH), with a glob or a directory")
    return [path]


def stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options for streams only; raises KdissectError without ``state``."""
    if "state" not in options:
        raise KdissectError("a stream needs option('state', DIRECTORY), one for each checkpoint")
    return {name: options[name] for name in OF_STREAMS if name in options}


def options_of(table: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Options of the library; raises KdissectError for unknown ones."""
    made: dict[str, Any] = {"tables": (table,)}
    for name, value in options.items():
        if name in LISTS:
            made[name] = [one.strip() for one in value.split(",")]
        elif name in FLAGS:
            made[name] = value == "true"
        elif name in TEXTS:
            made[name] = value
        elif name not in OWN and name not in OF_STREAMS:
            known = (*OWN[3:], *OF_STREAMS, *LISTS, *FLAGS, *TEXTS)
            raise KdissectError(not_among(f"no option {name!r}", known))
    if "ports" in made:
        made["ports"] = [int(port) for port in made["ports"]]
    return made
