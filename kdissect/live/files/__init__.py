"""Tables as files that rotate: from rows in memory to Parquet that survives a kill."""
