"""Table storage for analyses: Parquet files and datasets, as DuckDB and Ibis see them."""
