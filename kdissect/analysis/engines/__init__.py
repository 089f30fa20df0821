"""Where the tables of analyses are: Parquet files and datasets, as DuckDB and Ibis see them."""
