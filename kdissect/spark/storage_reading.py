"""A table of a dataset in a store, read by Arrow in Spark's tasks, one per file.

Spark itself reads ``s3a://`` with hadoop-aws, ``gs://`` with Google's connector, ``abfs://`` with
hadoop-azure, none of which comes with PySpark from PyPI. Arrow has no further requirements, but
Spark does not pass it the requested columns and rows, so all are read.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from kdissect.dataset.entries import NO_DATE
from kdissect.dataset.storage import joined, reached_by, remember, store_errors, system_at
from kdissect.spark.arrow_rows import arrow_schema_of
from kdissect.tables.stored_rows import believed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# A batch size that suits Spark.
BATCH_ROWS: Final = 8192
# URI schemes that differ in Hadoop.
HADOOP: Final = {"s3": "s3a"}


def hadoop_uri(location: str) -> str:
    """A location in the form of Spark's own readers.

    >>> hadoop_uri("s3://bucket/kafka")
    's3a://bucket/kafka'
    """
    scheme, separator, rest = location.partition("://")
    return f"{HADOOP.get(scheme, scheme)}{separator}{rest}"


def arrow_frame(
    spark: "SparkSession", dataset: str, files: Sequence[str], schema: "StructType"
) -> "DataFrame":
    """Rows of some files of a dataset, whose last columns are those in their paths."""
    wanted = arrow_schema_of(schema)
    stores = reached_by([dataset])
    names = list(files)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for one in stores:
            remember(one)
        for batch in batches:
            for place in batch["id"].to_pylist():
                yield from file_batches(dataset, names[place], wanted)

    return spark.range(0, len(names), 1, len(names)).mapInArrow(rows, schema)


def file_batches(dataset: str, name: str, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of a file with the requested partition columns from its path."""
    partition = partition_of(name)
    location = joined(dataset, name)
    with store_errors(location), believed(location):
        system, path = system_at(location)
        for batch in ParquetFile(path, filesystem=system).iter_batches(BATCH_ROWS):
            arrays = [
                pa.array([partition[field.name]] * batch.num_rows, field.type)
                if field.name in partition
                else batch[field.name].cast(field.type)
                for field in wanted
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def partition_of(name: str) -> dict[str, str | None]:
    """Partition columns in the path of a file.

    >>> partition_of("exchanges/date=2026-11-22/tap=rack%201/r000001-t0-0.parquet")
    {'date': '2026-11-22', 'tap': 'rack 1'}
    """
    found = dict(part.split("=", 1) for part in name.split("/") if "=" in part)
    return {key: None if value == NO_DATE else unquote(value) for key, value in found.items()}
