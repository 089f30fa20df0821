"""Rotating files of tables: from rows in memory to Parquet that survives a kill."""
