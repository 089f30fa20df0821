"""SQL of users: DuckDB connections that reach only given files, and conditions that are checked."""
