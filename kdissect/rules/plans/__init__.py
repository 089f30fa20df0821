"""Evidence without a database: plans of the questions, evaluated over columns in memory.

An Ibis expression is a graph of relations and values. `tools.print_evidence` stores it as data;
`evaluator` computes the columns that are read of it, each once, over numpy arrays. It starts at
once, where DuckDB takes 0.1 s to import and 0.1 to 1 s to plan a question.

`columns`: values with nulls. `scalars`: functions of rows. `grouping`, `reductions`, `windows`:
rows by key. `joins`: pairs of rows. `stored`: columns of the tables of a pass.
"""
