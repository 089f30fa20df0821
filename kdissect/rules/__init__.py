"""Rules that make findings: an expert's first diagnosis of a capture, with its evidence.

    evidence        answers of `kdissect.analysis`, reduced to a few rows; needs Ibis
    sql/            the same compiled to SQL: `compiled_sql` reads it, `executor` runs it
    indicators      counters of the one pass over the tables that show which queries are useful
    preconditions   selection of the evidence to query
    context         input of the rules
    finding         output of the rules: ids, severities, the order
    catalogue       the ids of findings, and the advice for each
    *_rules         the rules, by subject
    formatting      shared phrases of findings
    engine          all rules together: causes before symptoms, the worst first

Rules use rows and counters; no files, no engine of tables.
"""
