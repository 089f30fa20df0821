"""Spark finds its data source here: ``spark.read.format("kdissect")`` needs no registration.

Spark imports all packages whose names begin with ``pyspark_`` when a format is unknown to it, so
one that cannot be imported would hide the others' sources.
"""

from contextlib import suppress

from kdissect.errors import KdissectError

with suppress(KdissectError):  # PySpark 4.0 finds sources, but has not all that this one needs
    from kdissect.spark.source import KdissectDataSource as DefaultSource

__all__ = ["DefaultSource"]
