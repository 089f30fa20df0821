"""A table of a dataset as a DataFrame, of the files that its manifest lists."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kdissect.errors import KdissectError
from kdissect.pipeline import check_columns
from kdissect.spark.columns import spark_schema
from kdissect.spark.manifest import Manifest, read_manifest
from kdissect.tables.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_table(
    spark: "SparkSession", dataset: str | os.PathLike[str], table: str = "exchanges"
) -> "DataFrame":
    """The rows of a table, with ``date`` and ``tap``; Spark reads only the days and taps chosen.

    What `spark.read.parquet` gives of the table's directory, but for files that a run is just
    moving, for names of taps that look like numbers, and for tables without rows. Raises
    KdissectError where there is no such dataset or table.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import DateType, StringType, StructField, StructType

    check_columns(table, ())
    directory = Path(dataset).absolute()
    columns = list(from_arrow_schema(spark_schema(TABLES[table])))
    partitions = [StructField("date", DateType()), StructField("tap", StringType())]
    schema = StructType([*columns, *partitions])
    files = table_files(manifest_in(directory), table)
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", str(directory / table))
    return reader.parquet(*(str(directory / file) for file in files))


def manifest_in(dataset: Path) -> Manifest:
    """The manifest of a dataset; raises KdissectError where there is none."""
    manifest = read_manifest(dataset)
    if manifest is None:
        raise KdissectError(f"{dataset} is no dataset: it has no manifest")
    return manifest


def table_files(manifest: Manifest, table: str) -> list[str]:
    """The Parquet files of a table, as paths in the dataset."""
    files = [file.path for tap in manifest.taps for file in tap.files if file.table == table]
    if table == "problems":
        files += [one.file for one in manifest.broken if one.file]
    return files
