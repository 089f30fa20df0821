"""Rules that make findings: what an expert would say first about a capture, and rests it on.

    evidence   which answers of `kdissect.analysis` are cut down to what; needs Ibis
    sql/       the same printed as SQL, which is what runs; `compiled_sql` reads it, `asking` asks
    signs      counters of the one pass over the tables that say whether asking is worth it
    gates      which evidence is asked for
    seen       all that rules look at
    finding    what they give: ids, severities, the order
    ...        the rules, by what they are about
    judging    all rules together: causes before symptoms, the worst first

Rules know rows and counters; no files, no engine.
"""
