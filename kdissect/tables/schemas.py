"""Table schemas: every column's name, type, unit and meaning, declared once.

The Arrow schema, the row layout of `rows.py`, the Spark schema and docs/tables.md are all derived
from here. A `stored` column is one packed integer a row (text is an index into the batch's
dictionary); the others are computed a column at a time when a batch is closed (`batches.py`).
"""

from typing import Final, NamedTuple

TIME: Final = "time"  # timestamp[ns, UTC] of the capture clock
INT64: Final = "int64"
INT32: Final = "int32"
INT16: Final = "int16"
INT8: Final = "int8"
BOOL: Final = "bool"
TEXT: Final = "text"  # dictionary of UTF-8 strings
BINARY: Final = "binary"


class Column(NamedTuple):
    """One column. `unit` is "" for counts, codes and text; `stored` False when it is computed."""

    name: str
    type: str
    unit: str
    meaning: str
    stored: bool = True


class Table(NamedTuple):
    """One table: the meaning of a row, and its columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]
    is_default: bool = True

    @property
    def stored(self) -> tuple[Column, ...]:
        """Columns that are packed a row at a time, in order."""
        return tuple(column for column in self.columns if column.stored)


CAPTURE = Column("capture", TEXT, "", "file or interface the row's first packet came from")
CONNECTION_ID = Column(
    "connection_id", INT64, "",
    "the connection: number of its first packet (counted on over all files of the run)",
)  # fmt: skip
API_NAME: Final = (
    "API name; api-N for a key N that is not known; Vendor-Name for one of a vendor's, where "
    "ApiVersions on this connection said whose the broker is"
)
EXCHANGE_ID = Column(
    "exchange_id", INT64, "",
    "the exchange: number of its first packet times 100 000, plus its place in that packet",
)  # fmt: skip


def _both_ways(name: str, unit: str, meaning: str) -> tuple[Column, Column]:
    return (
        Column(f"{name}_to_broker", INT64, unit, f"{meaning}, client to broker"),
        Column(f"{name}_to_client", INT64, unit, f"{meaning}, broker to client"),
    )


CONNECTIONS = Table(
    "connections",
    "a TCP connection",
    (
        CAPTURE,
        CONNECTION_ID,
        Column("client_ip", TEXT, "", "address of the client side"),
        Column("client_port", INT32, "", "TCP port of the client side"),
        Column("broker_ip", TEXT, "", "address of the broker side"),
        Column("broker_port", INT32, "", "TCP port of the broker side"),
        Column(
            "broker_side_by", TEXT, "", "how the sides were told apart: user, syn, port or content"
        ),
        Column(
            "proxied_client_ip",
            TEXT,
            "",
            "address of the client behind a proxy, when a PROXY protocol header says it",
        ),
        Column("proxied_client_port", INT32, "", "TCP port of the client behind a proxy"),
        Column("first_time", TIME, "", "time of the first packet"),
        Column("last_time", TIME, "", "time of the last packet"),
        Column("first_packet", INT64, "", "frame number of the first packet"),
        Column("syn_seen", BOOL, "", "the capture holds the start of the connection"),
        Column("fin_seen", BOOL, "", "a FIN was seen, either way"),
        Column("rst_by", TEXT, "", "side that reset the connection: client, broker; null if none"),
        Column(
            "closed_by", TEXT, "", "why the row ends: fin, rst, reuse, idle, limit, capture-end"
        ),
        *_both_ways("packets", "", "TCP segments"),
        *_both_ways(
            "bytes", "bytes", "payload on the wire as the IP headers declare it, repeats included"
        ),
        *_both_ways("payload_bytes", "bytes", "captured TCP payload"),
        *_both_ways(
            "retransmitted_bytes",
            "bytes",
            "captured payload that had been seen before, duplicate packets aside",
        ),
        *_both_ways(
            "network_lost_bytes",
            "bytes",
            "payload sent again before it was acknowledged: the network lost it, before the tap "
            "or behind it",
        ),
        *_both_ways("missing_bytes", "bytes", "payload the capture does not hold"),
        *_both_ways(
            "capture_lost_bytes",
            "bytes",
            "part of missing_bytes that the receiver acknowledged: the capture lost it, not the "
            "network",
        ),
        *_both_ways("cut_bytes", "bytes", "part of missing_bytes that a snaplen cut off"),
        *_both_ways(
            "framed_bytes",
            "bytes",
            "payload cut into frames, size fields and PROXY headers included",
        ),
        *_both_ways("skipped_bytes", "bytes", "payload that could not be cut into frames"),
        *_both_ways("tls_bytes", "bytes", "payload that is TLS's own: handshakes, headers, tags"),
        *_both_ways("encrypted_bytes", "bytes", "payload inside TLS that was not decrypted"),
        *_both_ways("gaps", "", "holes in the payload"),
        *_both_ways(
            "retransmitted_segments",
            "",
            "segments that repeat bytes, or bring what was lost before the tap; keepalives and "
            "window probes aside",
        ),
        *_both_ways("fast_retransmits", "", "those that two or more duplicate ACKs asked for"),
        *_both_ways("spurious_retransmits", "", "those with nothing that was not acknowledged"),
        *_both_ways("duplicate_acks", "", "ACKs by which the sender said again what it is missing"),
        *_both_ways(
            "duplicate_packets", "", "packets captured once more; nothing else counts them"
        ),
        *_both_ways("duplicate_packet_bytes", "bytes", "captured payload of duplicate packets"),
        *_both_ways("out_of_order_segments", "", "segments that came after later ones"),
        *_both_ways("zero_windows", "", "segments by which the sender said its window is full"),
        *_both_ways("zero_window_ns", "ns", "time that the window of the sender was full"),
        *_both_ways("window_probes", "", "segments that ask whether a full window is open again"),
        *_both_ways("keepalives", "", "segments that ask whether the other side is there"),
        Column("handshake_rtt_ns", INT64, "ns", "SYN to the ACK of the SYN-ACK"),
        Column(
            "handshake_rtt_broker_ns", INT64, "ns", "part of it between the tap and the broker side"
        ),
        Column(
            "handshake_rtt_client_ns", INT64, "ns", "part of it between the tap and the client side"
        ),
        Column("min_rtt_broker_ns", INT64, "ns", "smallest data to ACK time, tap to broker side"),
        Column("min_rtt_client_ns", INT64, "ns", "smallest data to ACK time, tap to client side"),
        Column("exchanges", INT64, "", "exchanges of the connection"),
        Column(
            "protocol",
            TEXT,
            "",
            "kafka, kafka-0.7, tls, http, http2, ssh, zookeeper, rmi, postgresql, mysql, redis, "
            "amqp, mqtt, dns, proxy (a PROXY header alone), other, or none (no payload); excluded, "
            "kafka-proposal and kafka-trunk-2012 only when asked for (docs/ports.md)",
        ),
        Column("tls_version", TEXT, "", "SSL 3.0 to TLS 1.3, as the server chose"),
        Column("tls_sni", TEXT, "", "TLS server name, when the client sent one"),
        Column("tls_alpn", TEXT, "", "protocol the server chose by ALPN"),
        Column("tls_cipher", TEXT, "", "cipher suite the server chose, by IANA's name"),
        Column("tls_resumed", BOOL, "", "the session goes on from an earlier handshake"),
        Column(
            "tls_undecrypted",
            TEXT,
            "",
            "why nothing of TLS was decrypted: no hellos, no ClientHello, no ServerHello, "
            "no secrets, wrong secrets, unsupported, limit, loss",
        ),
        Column("sasl_mechanism", TEXT, "", "SASL mechanism"),
        Column("sasl_user", TEXT, "", "SASL user name, where it travels in clear"),
        Column(
            "sasl_outcome",
            TEXT,
            "",
            "ok, failed, or none (no SASL was seen); null when the capture does not tell",
        ),
        Column(
            "sasl_logins",
            INT64,
            "",
            "authentications that came to an end; the columns before are of the last one",
        ),
        Column("client_software_name", TEXT, "", "client library, from ApiVersions v3+"),
        Column("client_software_version", TEXT, "", "its version, from ApiVersions v3+"),
    ),
)

EXCHANGES = Table(
    "exchanges",
    "a request and what became of it",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column("api_key", INT16, "", "API key of the request; its type in Kafka 0.7"),
        Column("api", TEXT, "", API_NAME, stored=False),
        Column("api_version", INT16, "", "API version of the request; null in Kafka 0.7"),
        Column("correlation_id", INT32, "", "correlation id; null in Kafka 0.7"),
        Column("client_id", TEXT, "", "client id of the request header"),
        Column(
            "outcome", TEXT, "",
            "answered, unanswered (connection or capture ended first), no_response_expected "
            "(produce with acks=0), orphan (a response whose request was not captured); null when "
            "the response may be among what was not captured",
        ),
        Column("request_start", TIME, "", "packet with the first byte of the request"),
        Column("request_end", TIME, "", "packet with the last byte of the request"),
        Column("response_start", TIME, "", "packet with the first byte of the response"),
        Column("response_end", TIME, "", "packet with the last byte of the response"),
        Column("latency_ns", INT64, "ns", "response_start - request_end", stored=False),
        Column("upload_ns", INT64, "ns", "request_end - request_start", stored=False),
        Column("download_ns", INT64, "ns", "response_end - response_start", stored=False),
        Column(
            "queue_ns", INT64, "ns",
            "part of latency spent behind earlier requests of the connection: "
            "response_end of the previous answer - request_end, within 0 and latency; null when "
            "that answer may not have been captured",
        ),
        Column("service_ns", INT64, "ns", "latency - queue", stored=False),
        Column(
            "wait_ns", INT64, "ns",
            "part of service it asked for: long poll, join wait; null when what tells it was not "
            "captured",
        ),
        Column("work_ns", INT64, "ns", "service - wait", stored=False),
        Column("throttle_ms", INT32, "ms", "throttle time the broker states"),
        Column("request_size", INT64, "bytes", "size field of the request"),
        Column("response_size", INT64, "bytes", "size field of the response"),
        Column(
            "error_code", INT16, "",
            "top-level error code; when that is 0 or absent, the first other code in the response",
        ),
        Column("error", TEXT, "", "name of error_code", stored=False),
        Column(
            "error_count", INT32, "",
            "error codes other than 0 anywhere in the response; null when not all of it was "
            "captured",
        ),
        Column("acks", INT16, "", "acks of a Produce request"),
        Column("group_id", TEXT, "", "group of the request (or its first group)"),
        Column("transactional_id", TEXT, "", "transactional id of the request"),
        Column(
            "producer_id", INT64, "",
            "InitProducerId: the producer id that the response gives; AddPartitionsToTxn up to "
            "v3, AddOffsetsToTxn, TxnOffsetCommit, EndTxn: that of the request",
        ),
        Column("producer_epoch", INT16, "", "its epoch"),
        Column(
            "transaction_timeout_ms", INT32, "ms",
            "InitProducerId: how long a transaction may be open before the coordinator aborts it",
        ),
        Column("is_commit", BOOL, "", "EndTxn: to commit; false: to abort"),
        Column(
            "replica_id", INT32, "",
            "broker or controller that asks as a replica (Fetch, ListOffsets, "
            "OffsetForLeaderEpoch, FetchSnapshot, Vote); null for clients",
        ),
        Column("rack_id", TEXT, "", "rack of the client: Fetch, heartbeats of the new groups"),
        Column(
            "topic_count", INT32, "",
            "topics named in request or response, whichever has more; null when not all of both "
            "was captured",
        ),
        Column(
            "partition_count",
            INT32,
            "",
            "partitions named in request or response: its rows in `partitions`, and those that a "
            "message has beyond the limit on what it may become; null as topic_count",
        ),
        Column("record_count", INT64, "", "records carried, as the batch headers count them"),
        Column("record_bytes", INT64, "bytes", "size of the records fields, as on the wire"),
        Column(
            "fetch_class", TEXT, "",
            "Fetch and ShareFetch: data (answered at once), waited (long poll that data ended), "
            "empty (less than min_bytes came back), error",
        ),
        Column("retransmits", INT32, "", "segments of the connection retransmitted meanwhile"),
        Column(
            "zero_windows", INT32, "",
            "segments of the connection that said a window is full, meanwhile",
        ),
        Column(
            "rtt_ns", INT64, "ns",
            "smallest TCP round trip of the connection known when the response was there, both "
            "sides of the tap together: by the handshake, and by data and its ACK; so much of "
            "latency at least is the network's when the capture is the client's",
        ),
        Column(
            "missing_bytes", INT64, "bytes",
            "bytes of request and response that the capture does not hold, inside the frames "
            "whose size is known",
        ),
        Column("request_packet", INT64, "", "frame number of request_start"),
        Column("response_packet", INT64, "", "frame number of response_start"),
        Column(
            "decode_status", TEXT, "",
            "ok, or joined with +: request, response (not decoded to its end, see problems), "
            "leftover (bytes behind the last field), variant:R (in the layout that release R had "
            "under this version; no-throttle-time: ApiVersions without its last field, as some "
            "brokers answer), unknown-api, unknown-version (only the header is decoded), "
            "damaged (bytes were not captured), clock-set (the capture's clock was set meanwhile: "
            "durations are null), no-request (an orphan response), "
            "response-not-captured (not one packet of the broker's direction was)",
        ),
        Column(
            "candidates", TEXT, "",
            "of an orphan: the APIs and versions that its bytes may be, the likeliest first",
        ),
        Column(
            "certainty", INT8, "%",
            "how certain the API is: 100 where the request says it; of an orphan, the share of "
            "its first candidate, 0 when there is none",
        ),
    ),
)  # fmt: skip

PARTITIONS = Table(
    "partitions",
    "a topic-partition in an exchange",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column("topic", TEXT, "", "topic name, from the message or learnt for the topic id"),
        Column("topic_id", TEXT, "", "topic id as Kafka writes it (22 characters of base64)"),
        Column("partition", INT32, "", "partition index"),
        Column("error_code", INT16, "", "error code of the partition in the response"),
        Column("error", TEXT, "", "name of error_code", stored=False),
        Column(
            "base_offset",
            INT64,
            "",
            "Produce: offset given to the first record; ListOffsets: the offset; Offsets of "
            "Kafka 0.7: the first of those listed",
        ),
        Column(
            "fetch_offset", INT64, "", "Fetch: offset asked for (the last one of the fetch session)"
        ),
        Column(
            "committed_offset",
            INT64,
            "",
            "OffsetCommit, OffsetFetch: the committed offset; -1 none",
        ),
        Column("high_watermark", INT64, "", "high watermark in the response"),
        Column("last_stable_offset", INT64, "", "last stable offset in the response"),
        Column("log_start_offset", INT64, "", "log start offset in the response"),
        Column("record_count", INT64, "", "records, as the batch headers count them"),
        Column("record_bytes", INT64, "bytes", "size of the records field on the wire"),
        Column("batch_count", INT32, "", "rows of this partition in `batches`"),
        Column("codec", TEXT, "", "compression of the batches; mixed when they differ"),
        Column("leader_epoch", INT32, "", "leader epoch of the request or response"),
        Column("preferred_read_replica", INT32, "", "Fetch: replica the consumer is sent to"),
    ),
)

ABORTED_MEANING: Final = (
    "of a transaction that was aborted, as a read_committed fetch says; null: of a transaction, "
    "and nothing says how it ended"
)

BATCHES = Table(
    "batches",
    "a record batch, a compressed wrapper message, or a run of plain messages of one magic",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column("topic", TEXT, "", "topic name, from the message or learnt for the topic id"),
        Column("topic_id", TEXT, "", "topic id"),
        Column("partition", INT32, "", "partition index"),
        Column("magic", INT8, "", "record format: 0, 1 or 2"),
        Column("codec", TEXT, "", "none, gzip, snappy, lz4 or zstd"),
        Column("compressed_size", INT64, "bytes", "size of the records part on the wire"),
        Column(
            "uncompressed_size",
            INT64,
            "bytes",
            "size of the records part unpacked, as its codec states it; known of every batch when "
            "records are asked for too",
        ),
        Column("record_count", INT64, "", "records; null for a wrapper that was not unpacked"),
        Column(
            "base_offset",
            INT64,
            "",
            "first offset (in a produce request: relative); Kafka 0.7: position of the first byte",
        ),
        Column(
            "last_offset",
            INT64,
            "",
            "last offset the batch stands for; Kafka 0.7: position behind the last byte",
        ),
        Column("base_time", TIME, "", "first record's timestamp (ms resolution)"),
        Column("max_time", TIME, "", "largest timestamp (ms resolution)"),
        Column("timestamp_type", TEXT, "", "create or append"),
        Column("producer_id", INT64, "", "producer id; null without idempotence"),
        Column("producer_epoch", INT16, "", "producer epoch"),
        Column("base_sequence", INT32, "", "sequence number of the first record"),
        Column("leader_epoch", INT32, "", "partition leader epoch in the batch header"),
        Column("is_transactional", BOOL, "", "part of a transaction"),
        Column("is_control", BOOL, "", "control batch (transaction marker, leader change ...)"),
        Column("is_aborted", BOOL, "", ABORTED_MEANING),
        Column(
            "crc",
            INT64,
            "",
            "checksum in the header, 0 to 2^32 - 1; of a run of plain messages that of the first: "
            "a batch that is sent again has the same",
        ),
        Column("crc_ok", BOOL, "", "checksum is right; null when not verified"),
    ),
)

RECORDS = Table(
    "records",
    "a record",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column("topic", TEXT, "", "topic name, from the message or learnt for the topic id"),
        Column("topic_id", TEXT, "", "topic id"),
        Column("partition", INT32, "", "partition index"),
        Column(
            "offset",
            INT64,
            "",
            "offset (in a produce request: relative); Kafka 0.7: position in bytes behind the "
            "message, or behind the compressed message that it is in",
        ),
        Column("time", TIME, "", "timestamp (ms resolution)"),
        Column("key_size", INT32, "bytes", "size of the key; null for no key"),
        Column("value_size", INT32, "bytes", "size of the value; null for a tombstone"),
        Column("header_count", INT32, "", "record headers"),
        Column("is_aborted", BOOL, "", ABORTED_MEANING),
        Column("key", BINARY, "", "the key (only with payload)", stored=False),
        Column(
            "value",
            BINARY,
            "",
            "the value (only with payload; never of the metadata log, which has credentials)",
            stored=False,
        ),
        Column("headers", BINARY, "", "the headers as JSON (only with payload)", stored=False),
    ),
    is_default=False,
)

ERRORS = Table(
    "errors",
    "an error code other than 0 anywhere in a response, or a record that it concerns",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column("path", TEXT, "", "field of the response, like responses[].partitions[].error_code"),
        Column("code", INT16, "", "error code"),
        Column("name", TEXT, "", "its name", stored=False),
        Column("is_retriable", BOOL, "", "clients may retry it", stored=False),
        Column("message", TEXT, "", "error message beside the code"),
        Column("topic", TEXT, "", "topic concerned"),
        Column("topic_id", TEXT, "", "topic id concerned"),
        Column("partition", INT32, "", "partition concerned"),
        Column("group_id", TEXT, "", "group concerned"),
        Column(
            "resource",
            TEXT,
            "",
            "other thing concerned: what a config or ACL is for, user, member, record, ...",
        ),
    ),
)

MEMBERS = Table(
    "members",
    "something that happened to a member of a group; heartbeats that change nothing are no rows",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column("time", TIME, "", "packet with the first byte of the request"),
        Column("client_id", TEXT, "", "client id of the request header"),
        Column("group_id", TEXT, "", "group"),
        Column("member_id", TEXT, "", "member, as the response names it where it does"),
        Column("group_instance_id", TEXT, "", "static member's own name"),
        Column(
            "generation", INT32, "",
            "generation of the group; member epoch in groups of the new protocols",
        ),
        Column(
            "event", TEXT, "",
            "join, leave, sync (a member gets its assignment), assign (the leader or the broker "
            "assigns), heartbeat (one that is answered with an error), owned and subscribe (a "
            "member says what it owns or wants), epoch (the member's epoch changes)",
        ),
        Column("protocol", TEXT, "", "assignor: the group's choice, else the member's first"),
        Column("is_leader", BOOL, "", "the member leads the group (classic groups)"),
        Column(
            "subscription", TEXT, "",
            "topics and /patterns/ with blanks between; a Connect worker's URL and config offset",
        ),
        Column(
            "assignment", TEXT, "",
            "like orders:0,1 payments:2; connectors with tasks; active, standby and warmup tasks "
            "by subtopology",
        ),
        Column("reason", TEXT, "", "reason the member or the broker gives"),
        Column("error_code", INT16, "", "error code of the response, for this member"),
        Column("error", TEXT, "", "name of error_code", stored=False),
    ),
)  # fmt: skip

BODIES = Table(
    "bodies",
    "request and response of an exchange in full",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column("api_key", INT16, "", "API key of the request"),
        Column("api", TEXT, "", API_NAME, stored=False),
        Column("api_version", INT16, "", "API version of the request"),
        Column(
            "request", TEXT, "",
            "the request's body as JSON, credentials redacted, records with their sizes (keys and "
            "values only with payload); null when there is none that can be decoded",
        ),
        Column("response", TEXT, "", "the response's body, likewise"),
    ),
    is_default=False,
)  # fmt: skip

PROBLEMS = Table(
    "problems",
    "something that did not go right",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column(
            "stage",
            TEXT,
            "",
            "capture, packets, streams, frames, messages, exchanges, tables or live",
        ),
        Column("kind", TEXT, "", "fixed word for what happened"),
        Column("time", TIME, "", "packet time, where there is one"),
        Column("packet_number", INT64, "", "frame number, where there is one"),
        Column("bytes", INT64, "bytes", "bytes concerned"),
        Column("message", TEXT, "", "what happened, in words"),
    ),
)

TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        CONNECTIONS, EXCHANGES, PARTITIONS, BATCHES, RECORDS, ERRORS, MEMBERS, BODIES, PROBLEMS,
    )
}  # fmt: skip
DEFAULT_TABLES: Final = tuple(table.name for table in TABLES.values() if table.is_default)
