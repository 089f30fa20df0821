"""User SQL: DuckDB connections restricted to given files, and checked conditions."""
