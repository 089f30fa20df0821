"""Ids of findings that the truth asks for and no rule has yet, with what they are to say."""

WANTED = {
    "broker-recompresses": "what consumers fetch of a topic has another codec than what producers "
    "sent: the broker compresses all of it anew",
    "idle-connections-closed": "a broker closes connections that were idle for the same time, and "
    "their clients connect again",
    "advertised-listener-unreachable": "clients that bootstrap are sent to an address to which no "
    "connection goes, or where none succeeds",
    "tls-on-plaintext-port": "connections begin with a TLS ClientHello and the broker closes them "
    "without an answer",
    "plaintext-on-tls-port": "connections begin with a Kafka request, and the broker answers with "
    "a TLS alert or closes them",
    "consumer-processes-slowly": "a member of a group that lags fetches what it asks for at once, "
    "and lets long times go by between its fetches",
    "offset-reset-skips-records": "a Fetch was answered OFFSET_OUT_OF_RANGE, and the client went "
    "on at the latest offset, beyond records that the broker has",
    "topic-deleted-in-use": "a topic was deleted (DeleteTopics), or is no longer in the metadata, "
    "while clients write or read it",
    "coordinator-moved": "the coordinator of a group changed from one broker to another",
    "broker-restarted": "a broker that had served was silent, refused connections and served again",
    "acks-0-records-lost": "Produce requests with acks=0 were on connections that were reset, or "
    "not acknowledged by TCP: their records are lost",
    "share-group-redelivers": "records of a share group are acquired again, with a delivery count "
    "above one",
    "share-member-stuck": "a member of a share group acquired records and did not acknowledge them "
    "until their locks ended",
    "round-trip-makes-latency": "most of a client's latency is the round trip of the network",
    "client-fills-link": "one client has nearly all of the bytes while exchanges of others on the "
    "same link are slow",
    "client-dominates-traffic": "one client has nearly all of what a broker sends, while others "
    "wait longer than before",
}
