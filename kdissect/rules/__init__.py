"""Rules that make findings: what an expert would say first about a capture, and its evidence.

    evidence        which answers of `kdissect.analysis` are cut down to what; needs Ibis
    sql/            the same compiled to SQL: `compiled_sql` reads it, `executor` runs it
    indicators      counters of the one pass over the tables that say whether asking is worth it
    preconditions   which evidence is asked for
    context         all that rules look at
    finding         what they give: ids, severities, the order
    catalogue       the ids of findings, and what to do then
    *_rules         the rules, by what they are about
    formatting      words that sentences of findings share
    engine          all rules together: causes before symptoms, the worst first

Rules know rows and counters; no files, no engine of tables.
"""
