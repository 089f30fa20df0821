"""What a dataset has, by the files that its manifest lists: as a DataFrame, or for questions."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kdissect.analysis.engines.stored_tables import check_files
from kdissect.dataset.columns import spark_schema
from kdissect.dataset.entries import table_files
from kdissect.dataset.manifest import manifest_in
from kdissect.dataset.storage import absolute, is_uri, joined
from kdissect.pipeline import check_columns
from kdissect.spark.storage_reading import arrow_frame, hadoop_uri
from kdissect.tables.schemas import TABLES

SPECIAL: Final = re.compile(r"[*?{}\[\]\\]")  # of Hadoop's patterns

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
    """The rows of a table, with ``date`` and ``tap``; Spark reads only the days and taps chosen.

    What `spark.read.parquet` gives of the table's directory, but for files that a run is just
    moving, for names of taps that look like numbers, and for tables without rows. A dataset in a
    store (``s3://…``) is read by Spark, which needs Hadoop's connector for it, or `by_arrow`, which
    needs nothing and reads all. Raises KdissectError where there is no such dataset or table.
    """
    from pyspark.sql import functions

    check_columns(table, ())
    directory = absolute(dataset)
    names = table_files(manifest_in(directory), table)
    if by_arrow and names:
        frame = arrow_frame(spark, directory, names, table_schema(table))
    else:
        paths = [joined(directory, name) for name in names]
        if not is_uri(directory):
            check_files(directory, paths)
        frame = read_files(spark, directory, table, paths)
    return frame.withColumn("date", functions.col("date").cast("date"))


def table_schema(table: str) -> "StructType":
    """The columns of a table of a dataset, and ``date`` and ``tap`` as text."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StringType, StructField, StructType

    columns = list(from_arrow_schema(spark_schema(TABLES[table])))
    partitions = [StructField(name, StringType()) for name in ("date", "tap")]
    return StructType([*columns, *partitions])


def read_files(
    spark: "SparkSession", directory: str | Path, table: str, files: Sequence[str]
) -> "DataFrame":
    """The rows in files of a dataset's table, with ``date`` and ``tap`` as text."""
    schema = table_schema(table)
    if not files:
        return spark.createDataFrame([], schema)
    base = located(joined(str(directory), table))
    reader = spark.read.schema(schema).option("basePath", base)
    return reader.parquet(*(pattern_of(file) for file in files))


def located(path: str) -> str:
    """A path of this machine as one also where the session has another file system by default."""
    return hadoop_uri(path) if is_uri(path) else f"file:{Path(path).absolute()}"


def pattern_of(path: str) -> str:
    r"""The same as the pattern that matches this path only: Spark takes what it reads for patterns.

    >>> pattern_of("/ring*/a[1].parquet")
    'file:/ring\\*/a\\[1\\].parquet'
    """
    return SPECIAL.sub(r"\\\g<0>", located(path))
