"""Finding ids that truths require but no rule reports yet, with their intended text."""

WANTED = {
    "consumer-processes-slowly": "a member of a group that lags fetches what it asks for at once, "
    "and lets long times go by between its fetches",
    "offset-reset-skips-records": "a Fetch was answered OFFSET_OUT_OF_RANGE, and the client went "
    "on at the latest offset, beyond records that the broker has",
    "topic-deleted-in-use": "a topic was deleted (DeleteTopics), or is no longer in the metadata, "
    "while clients write or read it",
    "broker-restarted": "a broker that had served was silent, refused connections and served again",
    "share-member-stuck": "a member of a share group acquired records and did not acknowledge them "
    "until their locks ended",
    "client-dominates-traffic": "one client has nearly all of what a broker sends, while others "
    "wait longer than before",
}
