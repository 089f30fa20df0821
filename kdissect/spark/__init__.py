"""Spark: sessions (with a suitable Java) and analyses. The only package that imports pyspark."""
