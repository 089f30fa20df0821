"""Exchanges of captures, as a streaming table: each run adds those of new captures."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

COLUMNS = """
    tap string, client_id string, api string, error string, request_start timestamp,
    latency_ns bigint, wait_ns bigint, request_size bigint, response_size bigint
"""

spark = SparkSession.active()


@dp.table(format="parquet", comment="Requests with their responses, as kdissect dissects them")
def exchanges() -> DataFrame:
    """Rows of complete captures, connections continued from file to file."""
    return (
        spark.readStream.format("kdissect")
        .schema(COLUMNS)
        .option("state", spark.conf.get("kdissect.state"))
        .option("quiet", "0")
        .load(spark.conf.get("kdissect.captures"))
    )
