"""Spark: sessions with a Java that is found, and the analyses there. The only place of pyspark."""
