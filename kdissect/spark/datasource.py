"""PySpark's classes for data sources in Python, where it has them."""

import pyspark

from kdissect.errors import KdissectError

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        Filter,
        InputPartition,
    )
except ImportError as error:
    raise KdissectError(
        f"the data source needs PySpark 4.1 or newer, and this is {pyspark.__version__}; "
        "datasets and analyses work with it (kdissect.spark.pipeline, kdissect spark dissect)"
    ) from error

__all__ = ["DataSource", "DataSourceReader", "DataSourceStreamReader", "Filter", "InputPartition"]
