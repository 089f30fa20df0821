"""Table schemas: every column's name, type, unit, meaning and source, declared once.

The Arrow schema, the code that writes rows (`writers_source`), the Spark schema and docs/tables.md
are all derived from here. A `stored` column is one packed integer a row (text is an index into the
batch's dictionary); the others are computed a column at a time when a batch is closed
(`batches.py`). Columns of requests' fields are declared in `messages.request_fields`, those of
partitions in `messages.partitions`.
"""

from typing import Final, NamedTuple

from kdissect.messages.columns import (
    BINARY,
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    TEXT,
    TIME,
    Column,
)
from kdissect.messages.partitions import FIELDS as PARTITION_FIELDS
from kdissect.messages.request_fields import FIELDS, RequestField

__all__ = [
    "BINARY", "BOOL", "INT8", "INT16", "INT32", "INT64", "TEXT", "TIME", "Column", "Table",
    "CONNECTIONS", "EXCHANGES", "PARTITIONS", "BATCHES", "RECORDS", "ERRORS", "MEMBERS", "BODIES",
    "PROBLEMS", "TABLES", "DEFAULT_TABLES",
]  # fmt: skip


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


CAPTURE = Column(
    "capture", TEXT, "", "file or interface the row's first packet came from", source="x.capture"
)
CONNECTION_ID = Column(
    "connection_id", INT64, "",
    "the connection: number of its first packet (counted on over all files of the run)",
    source="x.connection_id",
)  # fmt: skip
API_NAME: Final = (
    "API name; api-N for a key N that is not known; Vendor-Name for one of a vendor's, where "
    "ApiVersions on this connection said whose the broker is"
)
EXCHANGE_ID = Column(
    "exchange_id", INT64, "",
    "the exchange: number of its first packet times 100 000, plus its place in that packet",
    source="x.exchange_id",
)  # fmt: skip


def _both_ways(name: str, unit: str, meaning: str, source: str) -> tuple[Column, Column]:
    """Columns of both directions: `counts` and `way` in `source` are those of each."""
    to_broker = source.format(counts="c.to_broker", way="c.up")
    to_client = source.format(counts="c.to_client", way="c.down")
    return (
        Column(f"{name}_to_broker", INT64, unit, f"{meaning}, client to broker", source=to_broker),
        Column(f"{name}_to_client", INT64, unit, f"{meaning}, broker to client", source=to_client),
    )


def _request_column(field: RequestField) -> Column:
    """The column of a request's field."""
    value = f"x.asked.{field.name}"
    if field.is_text:
        return field.column._replace(source=f"own.index_or_null({value})")
    sources = {"": value, "-1": f"or_null({value})", "negative": f"count_or_null({value})"}
    return field.column._replace(source=sources[field.none])


REQUEST_COLUMNS: Final = [_request_column(field) for field in FIELDS if field.column.meaning]
PARTITION_COLUMNS: Final = [field.column for field in PARTITION_FIELDS]


CONNECTIONS = Table(
    "connections",
    "a TCP connection",
    (
        CAPTURE._replace(source="c.connection.capture"),
        CONNECTION_ID._replace(source="c.connection.id"),
        Column(
            "client_ip", TEXT, "", "address of the client side",
            source="own.index(c.address(c.up))",
        ),
        Column("client_port", INT32, "", "TCP port of the client side", source="c.port(c.up)"),
        Column(
            "broker_ip", TEXT, "", "address of the broker side",
            source="own.index(c.address(c.down))",
        ),
        Column("broker_port", INT32, "", "TCP port of the broker side", source="c.port(c.down)"),
        Column(
            "broker_side_by", TEXT, "", "how the sides were told apart: user, syn, port or content",
            source="own.index_or_null(c.state.broker_side_by)",
        ),
        Column(
            "proxied_client_ip", TEXT, "",
            "address of the client behind a proxy, when a PROXY protocol header says it",
            source="own.index_or_null(c.proxied_address())",
        ),
        Column(
            "proxied_client_port", INT32, "", "TCP port of the client behind a proxy",
            source="c.state.proxied_port",
        ),
        Column(
            "first_time", TIME, "", "time of the first packet",
            source="c.connection.first_time_ns",
        ),
        Column(
            "last_time", TIME, "", "time of the last packet",
            source="c.connection.last_time_ns",
        ),
        Column(
            "first_packet", INT64, "", "frame number of the first packet",
            source="c.connection.first_packet",
        ),
        Column(
            "syn_seen", BOOL, "", "the capture holds the start of the connection",
            source="1 if c.connection.syn_seen else 0",
        ),
        Column(
            "fin_seen", BOOL, "", "a FIN was seen, either way",
            source="1 if c.to_broker.fin_seen or c.to_client.fin_seen else 0",
        ),
        Column(
            "rst_by", TEXT, "", "side that reset the connection: client, broker; null if none",
            source="own.index_or_null(c.rst_by())",
        ),
        Column(
            "ended_by", TEXT, "",
            "side of the first FIN or RST in the capture: client, broker; null if there is none, "
            "or where the other side's may be missing",
            source="own.index_or_null(c.ended_by())",
        ),
        Column(
            "closed_by", TEXT, "", "why the row ends: fin, rst, reuse, idle, limit, capture-end",
            source="own.index_or_null(c.connection.closed_by)",
        ),
        *_both_ways("packets", "", "TCP segments", source="{counts}.packets"),
        *_both_ways(
            "bytes", "bytes", "payload on the wire as the IP headers declare it, repeats included",
            source="{counts}.wire_bytes",
        ),
        *_both_ways(
            "payload_bytes", "bytes", "captured TCP payload",
            source="{counts}.payload_bytes",
        ),
        *_both_ways(
            "retransmitted_bytes", "bytes",
            "captured payload that had been seen before, duplicate packets aside",
            source="retransmitted_bytes({counts})",
        ),
        *_both_ways(
            "network_lost_bytes", "bytes",
            "payload sent again before it was acknowledged: the network lost it, before the tap "
            "or behind it",
            source="{counts}.network_lost_bytes",
        ),
        *_both_ways(
            "missing_bytes", "bytes", "payload the capture does not hold",
            source="{counts}.missing_bytes",
        ),
        *_both_ways(
            "capture_lost_bytes", "bytes",
            "part of missing_bytes that the receiver acknowledged: the capture lost it, not the "
            "network",
            source="{counts}.capture_lost_bytes",
        ),
        *_both_ways(
            "cut_bytes", "bytes", "part of missing_bytes that a snaplen cut off",
            source="{counts}.missing_cut_bytes",
        ),
        *_both_ways(
            "framed_bytes", "bytes",
            "payload cut into frames, size fields and PROXY headers included",
            source="c.framed[{way}]",
        ),
        *_both_ways(
            "skipped_bytes", "bytes", "payload that could not be cut into frames",
            source="c.skipped[{way}]",
        ),
        *_both_ways(
            "tls_bytes", "bytes", "payload that is TLS's own: handshakes, headers, tags",
            source="0 if c.facts is None else c.facts.tls_bytes[{way}]",
        ),
        *_both_ways(
            "encrypted_bytes", "bytes", "payload inside TLS that was not decrypted",
            source="0 if c.facts is None else c.facts.encrypted_bytes[{way}]",
        ),
        *_both_ways("gaps", "", "holes in the payload", source="{counts}.gaps"),
        *_both_ways(
            "retransmitted_segments", "",
            "segments that repeat bytes, or bring what was lost before the tap; keepalives and "
            "window probes aside",
            source="{counts}.retransmitted_segments",
        ),
        *_both_ways(
            "fast_retransmits", "", "those that two or more duplicate ACKs asked for",
            source="{counts}.fast_retransmits",
        ),
        *_both_ways(
            "spurious_retransmits", "", "those with nothing that was not acknowledged",
            source="{counts}.spurious_retransmits",
        ),
        *_both_ways(
            "duplicate_acks", "", "ACKs by which the sender said again what it is missing",
            source="{counts}.duplicate_acks",
        ),
        *_both_ways(
            "duplicate_packets", "", "packets captured once more; nothing else counts them",
            source="{counts}.duplicate_packets",
        ),
        *_both_ways(
            "duplicate_packet_bytes", "bytes", "captured payload of duplicate packets",
            source="{counts}.duplicate_packet_bytes",
        ),
        *_both_ways(
            "out_of_order_segments", "", "segments that came after later ones",
            source="{counts}.out_of_order_segments",
        ),
        *_both_ways(
            "zero_windows", "", "segments by which the sender said its window is full",
            source="{counts}.zero_windows",
        ),
        *_both_ways(
            "zero_window_ns", "ns", "time that the window of the sender was full",
            source="{counts}.zero_window_ns",
        ),
        *_both_ways(
            "window_probes", "", "segments that ask whether a full window is open again",
            source="{counts}.window_probes",
        ),
        *_both_ways(
            "keepalives", "", "segments that ask whether the other side is there",
            source="{counts}.keepalives",
        ),
        Column(
            "handshake_rtt_ns", INT64, "ns", "SYN to the ACK of the SYN-ACK",
            source="or_null(c.connection.handshake_rtt_ns)",
        ),
        Column(
            "handshake_rtt_broker_ns", INT64, "ns",
            "part of it between the tap and the broker side",
            source="or_null(c.connection.handshake_half_ns[c.down])",
        ),
        Column(
            "handshake_rtt_client_ns", INT64, "ns",
            "part of it between the tap and the client side",
            source="or_null(c.connection.handshake_half_ns[c.up])",
        ),
        Column(
            "min_rtt_broker_ns", INT64, "ns", "smallest data to ACK time, tap to broker side",
            source="or_null(c.connection.min_rtt_ns[c.down])",
        ),
        Column(
            "min_rtt_client_ns", INT64, "ns", "smallest data to ACK time, tap to client side",
            source="or_null(c.connection.min_rtt_ns[c.up])",
        ),
        Column(
            "exchanges", INT64, "", "exchanges of the connection",
            source="c.state.exchange_count",
        ),
        Column(
            "protocol", TEXT, "",
            "kafka, kafka-0.7, tls, http, http2, ssh, zookeeper, rmi, postgresql, mysql, redis, "
            "amqp, mqtt, dns, proxy (a PROXY header alone), other, or none (no payload); "
            "excluded, kafka-proposal and kafka-trunk-2012 only when asked for (docs/ports.md)",
            source="own.index_or_null(c.state.protocol)",
        ),
        Column(
            "tls_version", TEXT, "", "SSL 3.0 to TLS 1.3, as the server chose",
            source="NULL if c.facts is None else own.index_or_null(c.facts.version)",
        ),
        Column(
            "tls_sni", TEXT, "", "TLS server name, when the client sent one",
            source="NULL if c.facts is None else own.index_or_null(c.facts.server_name)",
        ),
        Column(
            "tls_alpn", TEXT, "", "protocol the server chose by ALPN",
            source="NULL if c.facts is None else own.index_or_null(c.facts.alpn)",
        ),
        Column(
            "tls_cipher", TEXT, "", "cipher suite the server chose, by IANA's name",
            source="NULL if c.facts is None else own.index_or_null(c.facts.cipher)",
        ),
        Column(
            "tls_resumed", BOOL, "", "the session goes on from an earlier handshake",
            source="NULL if c.facts is None else flag_or_null(c.facts.is_resumed)",
        ),
        Column(
            "tls_undecrypted", TEXT, "",
            "why nothing of TLS was decrypted: no hellos, no ClientHello, no ServerHello, no "
            "secrets, wrong secrets, unsupported, limit, loss",
            source="NULL if c.facts is None else own.index_or_null(c.facts.undecrypted)",
        ),
        Column(
            "sasl_mechanism", TEXT, "", "SASL mechanism",
            source="own.index_or_null(c.state.login.mechanism)",
        ),
        Column(
            "sasl_user", TEXT, "", "SASL user name, where it travels in clear",
            source="own.index_or_null(c.state.login.user)",
        ),
        Column(
            "sasl_outcome", TEXT, "",
            "ok, failed, or none (no SASL was seen); null when the capture does not tell",
            source="own.index_or_null(c.state.login.outcome)",
        ),
        Column(
            "sasl_logins", INT64, "",
            "authentications that came to an end; the columns before are of the last one",
            source="c.state.login.count",
        ),
        Column(
            "client_software_name", TEXT, "", "client library, from ApiVersions v3+",
            source="own.index_or_null(c.state.software_name)",
        ),
        Column(
            "client_software_version", TEXT, "", "its version, from ApiVersions v3+",
            source="own.index_or_null(c.state.software_version)",
        ),
    ),
)  # fmt: skip

EXCHANGES = Table(
    "exchanges",
    "a request and what became of it",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column(
            "api_key", INT16, "", "API key of the request; its type in Kafka 0.7",
            source="api_code(x)",
        ),
        Column("api", TEXT, "", API_NAME, stored=False),
        Column(
            "api_version", INT16, "", "API version of the request; null in Kafka 0.7",
            source="x.api_version",
        ),
        Column(
            "correlation_id", INT32, "", "correlation id; null in Kafka 0.7",
            source="x.correlation_id",
        ),
        Column(
            "client_id", TEXT, "", "client id of the request header",
            source="own.index_or_none(x.client_id)",
        ),
        Column(
            "outcome", TEXT, "",
            "answered, unanswered (connection or capture ended first), no_response_expected "
            "(produce with acks=0), orphan (a response whose request was not captured); null when"
            " the response may be among what was not captured",
            source="x.outcome if x.outcome else NULL",
        ),
        Column(
            "request_start", TIME, "", "packet with the first byte of the request",
            source="x.request_start",
        ),
        Column(
            "request_end", TIME, "", "packet with the last byte of the request",
            source="x.request_end",
        ),
        Column(
            "response_start", TIME, "", "packet with the first byte of the response",
            source="x.response_start",
        ),
        Column(
            "response_end", TIME, "", "packet with the last byte of the response",
            source="x.response_end",
        ),
        Column("latency_ns", INT64, "ns", "response_start - request_end", stored=False),
        Column("upload_ns", INT64, "ns", "request_end - request_start", stored=False),
        Column("download_ns", INT64, "ns", "response_end - response_start", stored=False),
        Column(
            "queue_ns", INT64, "ns",
            "part of latency spent behind earlier requests of the connection: response_end of the"
            " previous answer - request_end, within 0 and latency; null when that answer may not "
            "have been captured",
            source="x.queue_ns",
        ),
        Column("service_ns", INT64, "ns", "latency - queue", stored=False),
        Column(
            "wait_ns", INT64, "ns",
            "part of service it asked for: long poll, join wait; null when that was not captured, "
            "or the response is an error that may have ended a wait",
            source="x.wait_ns",
        ),
        Column("work_ns", INT64, "ns", "service - wait", stored=False),
        Column(
            "throttle_ms", INT32, "ms", "throttle time the broker states",
            source="x.throttle_ms",
        ),
        Column(
            "request_size", INT64, "bytes", "size field of the request",
            source="x.request_size",
        ),
        Column(
            "response_size", INT64, "bytes", "size field of the response",
            source="x.response_size",
        ),
        Column(
            "error_code", INT16, "",
            "top-level error code; when that is 0 or absent, the first other code in the response",
            source="code_in(x.dialect, x.error_code)",
        ),
        Column("error", TEXT, "", "name of error_code", stored=False),
        Column(
            "error_count", INT32, "",
            "error codes other than 0 anywhere in the response; null when not all of it was "
            "captured",
            source="x.error_count",
        ),
        *REQUEST_COLUMNS,
        Column(
            "topic_count", INT32, "",
            "topics named in request or response, whichever has more; null when not all of both "
            "was captured",
            source="x.topic_count",
        ),
        Column(
            "partition_count", INT32, "",
            "partitions named in request or response: its rows in `partitions`, and those that a "
            "message has beyond the limit on what it may become; null as topic_count",
            source="partition_count(x)",
        ),
        Column(
            "record_count", INT64, "",
            "records carried, as the batch headers count them, without those of control batches",
            source="x.record_count",
        ),
        Column(
            "record_bytes", INT64, "bytes", "size of the records fields, as on the wire",
            source="x.record_bytes",
        ),
        Column(
            "fetch_class", TEXT, "",
            "Fetch and ShareFetch: data (answered at once), waited (long poll that data ended), "
            "empty (less than min_bytes came back), error",
            source="x.fetch_class if x.fetch_class else NULL",
        ),
        Column(
            "retransmits", INT32, "", "segments of the connection retransmitted meanwhile",
            source="x.retransmits",
        ),
        Column(
            "zero_windows", INT32, "",
            "segments of the connection that said a window is full, meanwhile",
            source="x.zero_windows",
        ),
        Column(
            "rtt_ns", INT64, "ns",
            "smallest TCP round trip of the connection known when the response was there, both "
            "sides of the tap together: by the handshake, and by data and its ACK; so much of "
            "latency at least is the network's when the capture is the client's",
            source="or_null(x.rtt_ns)",
        ),
        Column(
            "missing_bytes", INT64, "bytes",
            "bytes of request and response that the capture does not hold, inside the frames "
            "whose size is known",
            source="x.missing_bytes",
        ),
        Column(
            "request_packet", INT64, "", "frame number of request_start",
            source="x.request_packet",
        ),
        Column(
            "response_packet", INT64, "", "frame number of response_start",
            source="x.response_packet",
        ),
        Column(
            "decode_status", TEXT, "",
            "ok, or joined with +: request, response (not decoded to its end, see problems), "
            "leftover (bytes behind the last field), variant:R (in the layout that release R had "
            "under this version; no-throttle-time: ApiVersions without its last field, as some "
            "brokers answer), unknown-api, unknown-version (only the header is decoded), damaged "
            "(bytes were not captured), clock-set (the capture's clock was set meanwhile: "
            "durations are null), no-request (an orphan response), response-not-captured (not one"
            " packet of the broker's direction was)",
            source="x.status",
        ),
        Column(
            "candidates", TEXT, "",
            "of an orphan: the APIs and versions that its bytes may be, the likeliest first",
            source="own.index_or_null(x.candidates)",
        ),
        Column(
            "certainty", INT8, "%",
            "how certain the API is: 100 where the request says it; of an orphan, the share of "
            "its first candidate, 0 when there is none",
            source="x.certainty",
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
        Column(
            "topic", TEXT, "", "topic name, from the message or learnt for the topic id",
            source="own.index_or_null(partitions.topics[topic])",
        ),
        Column(
            "topic_id", TEXT, "", "topic id as Kafka writes it (22 characters of base64)",
            source="topic_ids.index_or_null(partitions.topic_ids[topic])",
        ),
        *PARTITION_COLUMNS[:2],
        Column("error", TEXT, "", "name of error_code", stored=False),
        *PARTITION_COLUMNS[2:],
    ),
)  # fmt: skip

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
        Column(
            "topic", TEXT, "", "topic name, from the message or learnt for the topic id",
            source="own.index_or_null(p.topic)",
        ),
        Column("topic_id", TEXT, "", "topic id", source="topic_ids.index_or_null(p.topic_id)"),
        Column("partition", INT32, "", "partition index", source="p.partition"),
        Column("magic", INT8, "", "record format: 0, 1 or 2", source="batch.magic"),
        Column("codec", TEXT, "", "none, gzip, snappy, lz4 or zstd", source="batch.codec"),
        Column(
            "compressed_size", INT64, "bytes", "size of the records part on the wire",
            source="batch.compressed_size",
        ),
        Column(
            "uncompressed_size", INT64, "bytes",
            "size of the records part unpacked, as its codec states it; known of every batch when"
            " records are asked for too",
            source="count_or_null(batch.uncompressed_size)",
        ),
        Column(
            "record_count", INT64, "", "records; null for a wrapper that was not unpacked",
            source="count_or_null(batch.record_count)",
        ),
        Column(
            "base_offset", INT64, "",
            "first offset (in a produce request: relative); Kafka 0.7: position of the first byte",
            source="batch.base_offset",
        ),
        Column(
            "last_offset", INT64, "",
            "last offset the batch stands for; Kafka 0.7: position behind the last byte",
            source="batch.last_offset",
        ),
        Column(
            "base_time", TIME, "", "first record's timestamp (ms resolution)",
            source="ns_of_ms(batch.base_time_ms)",
        ),
        Column(
            "max_time", TIME, "", "largest timestamp (ms resolution)",
            source="ns_of_ms(batch.max_time_ms)",
        ),
        Column(
            "timestamp_type", TEXT, "", "create or append",
            source="count_or_null(batch.timestamp_type)",
        ),
        Column(
            "producer_id", INT64, "", "producer id; null without idempotence",
            source="count_or_null(batch.producer_id)",
        ),
        Column(
            "producer_epoch", INT16, "", "producer epoch",
            source="batch.producer_epoch if batch.producer_id >= 0 else NULL",
        ),
        Column(
            "base_sequence", INT32, "", "sequence number of the first record",
            source="batch.base_sequence if batch.producer_id >= 0 else NULL",
        ),
        Column(
            "leader_epoch", INT32, "", "partition leader epoch in the batch header",
            source="batch.leader_epoch",
        ),
        Column(
            "is_transactional", BOOL, "", "part of a transaction",
            source="1 if batch.is_transactional else 0",
        ),
        Column(
            "is_control", BOOL, "", "control batch (transaction marker, leader change ...)",
            source="1 if batch.is_control else 0",
        ),
        Column("is_aborted", BOOL, "", ABORTED_MEANING, source="aborted_or_null(batch)"),
        Column(
            "crc", INT64, "",
            "checksum in the header, 0 to 2^32 - 1; of a run of plain messages that of the first:"
            " a batch that is sent again has the same",
            source="batch.crc",
        ),
        Column("crc_ok", BOOL, "", "checksum is right; null when not verified", source="crc_ok"),
    ),
)  # fmt: skip

RECORDS = Table(
    "records",
    "a record",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column(
            "topic", TEXT, "", "topic name, from the message or learnt for the topic id",
            source="own.index_or_null(p.topic)",
        ),
        Column("topic_id", TEXT, "", "topic id", source="topic_ids.index_or_null(p.topic_id)"),
        Column("partition", INT32, "", "partition index", source="p.partition"),
        Column(
            "offset", INT64, "",
            "offset (in a produce request: relative); Kafka 0.7: position in bytes behind the "
            "message, or behind the compressed message that it is in",
        ),
        Column("time", TIME, "", "timestamp (ms resolution)"),
        Column("key_size", INT32, "bytes", "size of the key; null for no key"),
        Column("value_size", INT32, "bytes", "size of the value; null for a tombstone"),
        Column("header_count", INT32, "", "record headers"),
        Column("is_aborted", BOOL, "", ABORTED_MEANING, source="aborted"),
        Column("key", BINARY, "", "the key (only with payload)", stored=False),
        Column(
            "value", BINARY, "",
            "the value (only with payload; never of the metadata log, which has credentials)",
            stored=False,
        ),
        Column("headers", BINARY, "", "the headers as JSON (only with payload)", stored=False),
    ),
    is_default=False,
)  # fmt: skip

ERRORS = Table(
    "errors",
    "an error code other than 0 anywhere in a response, or a record that it concerns",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column(
            "path", TEXT, "", "field of the response, like responses[].partitions[].error_code",
            source="own.index(error.path)",
        ),
        Column("code", INT16, "", "error code", source="code_in(x.dialect, error.code)"),
        Column("name", TEXT, "", "its name", stored=False),
        Column("is_retriable", BOOL, "", "clients may retry it", stored=False),
        Column(
            "message", TEXT, "", "error message beside the code",
            source="own.index_or_null(error.message)",
        ),
        Column("topic", TEXT, "", "topic concerned", source="own.index_or_null(error.topic)"),
        Column(
            "topic_id", TEXT, "", "topic id concerned",
            source="topic_ids.index_or_null(error.topic_id)",
        ),
        Column("partition", INT32, "", "partition concerned", source="error.partition"),
        Column(
            "group_id", TEXT, "", "group concerned",
            source="own.index_or_null(error.group or x.asked.group_id)",
        ),
        Column(
            "resource", TEXT, "",
            "other thing concerned: what a config or ACL is for, user, member, record, ...",
            source="own.index_or_null(error.resource)",
        ),
    ),
)  # fmt: skip

MEMBERS = Table(
    "members",
    "something that happened to a member of a group; heartbeats that change nothing are no rows",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column(
            "time", TIME, "", "packet with the first byte of the request",
            source="x.request_start",
        ),
        Column(
            "client_id", TEXT, "", "client id of the request header",
            source="own.index_or_none(x.client_id)",
        ),
        Column("group_id", TEXT, "", "group", source="own.index_or_null(m.group_id)"),
        Column(
            "member_id", TEXT, "", "member, as the response names it where it does",
            source="own.index_or_null(m.member_id)",
        ),
        Column(
            "group_instance_id", TEXT, "", "static member's own name",
            source="own.index_or_null(m.group_instance_id)",
        ),
        Column(
            "generation", INT32, "",
            "generation of the group; member epoch in groups of the new protocols",
            source="int_or_null(m.generation)",
        ),
        Column(
            "event", TEXT, "",
            "join, leave, sync (a member gets its assignment), assign (the leader or the broker "
            "assigns), heartbeat (one that is answered with an error), owned and subscribe (a "
            "member says what it owns or wants), epoch (the member's epoch changes)",
            source="own.index(m.event)",
        ),
        Column(
            "protocol", TEXT, "", "assignor: the group's choice, else the member's first",
            source="own.index_or_null(m.protocol)",
        ),
        Column(
            "is_leader", BOOL, "", "the member leads the group (classic groups)",
            source="flag_or_null(m.is_leader)",
        ),
        Column(
            "subscription", TEXT, "",
            "topics and /patterns/ with blanks between; a Connect worker's URL and config offset",
            source="own.index_or_null(m.subscription)",
        ),
        Column(
            "assignment", TEXT, "",
            "like orders:0,1 payments:2; connectors with tasks; active, standby and warmup tasks "
            "by subtopology",
            source="own.index_or_null(m.assignment)",
        ),
        Column(
            "reason", TEXT, "", "reason the member or the broker gives",
            source="own.index_or_null(m.reason)",
        ),
        Column(
            "error_code", INT16, "", "error code of the response, for this member",
            source="int_or_null(m.error_code)",
        ),
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
        Column("api_key", INT16, "", "API key of the request", source="api_code(x)"),
        Column("api", TEXT, "", API_NAME, stored=False),
        Column("api_version", INT16, "", "API version of the request", source="x.api_version"),
        Column(
            "request", TEXT, "",
            "the request's body as JSON, credentials redacted, records with their sizes (keys and"
            " values only with payload); null when there is none that can be decoded",
            source="own.index_or_null(request)",
        ),
        Column(
            "response", TEXT, "", "the response's body, likewise",
            source="own.index_or_null(response)",
        ),
    ),
    is_default=False,
)  # fmt: skip

PROBLEMS = Table(
    "problems",
    "something that did not go right",
    (
        CAPTURE._replace(source="problem.capture"),
        CONNECTION_ID._replace(source="or_null(problem.connection_id)"),
        EXCHANGE_ID._replace(source="or_null(problem.exchange_id)"),
        Column(
            "stage", TEXT, "",
            "capture, packets, streams, frames, messages, exchanges, tables or live",
            source="own.index(problem.stage)",
        ),
        Column("kind", TEXT, "", "fixed word for what happened", source="own.index(problem.kind)"),
        Column(
            "time", TIME, "", "packet time, where there is one",
            source="or_null(problem.time_ns)",
        ),
        Column(
            "packet_number", INT64, "", "frame number, where there is one",
            source="or_null(problem.packet_number)",
        ),
        Column("bytes", INT64, "bytes", "bytes concerned", source="problem.bytes"),
        Column("message", TEXT, "", "what happened, in words", source="own.index(problem.message)"),
    ),
)  # fmt: skip

TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        CONNECTIONS, EXCHANGES, PARTITIONS, BATCHES, RECORDS, ERRORS, MEMBERS, BODIES, PROBLEMS,
    )
}  # fmt: skip
DEFAULT_TABLES: Final = tuple(table.name for table in TABLES.values() if table.is_default)
