"""Tables of a dataset after its last run: as a DataFrame, or for analyses."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kdissect.analysis.engines.stored_tables import check_files
from kdissect.dataset.entries import table_files
from kdissect.dataset.runs import contents_in
from kdissect.dataset.storage import absolute, is_uri, joined
from kdissect.dataset.stored_columns import spark_schema
from kdissect.pipeline import check_columns
from kdissect.spark.storage_reading import arrow_frame, hadoop_uri
from kdissect.tables.schemas import TABLES

SPECIAL: Final = re.compile(r"[*?{}\[\]\\]")  # special characters of Hadoop's glob patterns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def read_table(
    spark: "SparkSession",
    dataset: str | os.PathLike[str],
    table: str = "exchanges",
    *,
    by_arrow: bool = False,
) -> "DataFrame":
    """Rows of a table, with ``date`` and ``tap``; Spark reads only the selected days and taps.

    Same as `spark.read.parquet` of the table's directory, except for files that a run is moving at
    the moment, tap names that look like numbers, and tables without rows. A dataset in a store
    (``s3://…``) is read by Spark, which needs Hadoop's connector, or `by_arrow`, which has no
    requirements but reads all rows and columns. Raises KdissectError if the dataset or table does
    not exist.
    """
    from pyspark.sql import functions

    check_columns(table, ())
    directory = absolute(dataset)
    names = table_files(contents_in(directory), table)
    if by_arrow and names:
        frame = arrow_frame(spark, directory, names, table_schema(table))
    else:
        paths = [joined(directory, name) for name in names]
        if not is_uri(directory):
            check_files(directory, paths)
        frame = read_files(spark, directory, table, paths)
    return frame.withColumn("date", functions.col("date").cast("date"))


def table_schema(table: str) -> "StructType":
    """Schema of a dataset's table, with ``date`` and ``tap`` as text."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StringType, StructField, StructType

    columns = list(from_arrow_schema(spark_schema(TABLES[table])))
    partitions = [StructField(name, StringType()) for name in ("date", "tap")]
    return StructType([*columns, *partitions])


def read_files(
    spark: "SparkSession", directory: str | Path, table: str, files: Sequence[str]
) -> "DataFrame":
    """Rows of files of a dataset's table, with ``date`` and ``tap`` as text."""
    schema = table_schema(table)
    if not files:
        return spark.createDataFrame([], schema)
    base = located(joined(str(directory), table))
    reader = spark.read.schema(schema).option("basePath", base)
    return reader.parquet(*(pattern_of(file) for file in files))


def located(path: str) -> str:
    """A local path as a URI, valid even if the session's default file system is another one."""
    return hadoop_uri(path) if is_uri(path) else f"file:{Path(path).absolute()}"


def pattern_of(path: str) -> str:
    r"""Glob pattern that matches only this path: Spark interprets paths as patterns.

    >>> pattern_of("/ring*/a[1].parquet")
    'file:/ring\\*/a\\[1\\].parquet'
    """
    return SPECIAL.sub(r"\\\g<0>", located(path))
