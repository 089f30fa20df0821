"""Columns that a report reads of the kept tables; many are kept for findings anyway.

They are declared apart from what reads them: it is loaded after the pass, which needs the room.
"""

from typing import Final

# Of exchanges: texts that findings name, times, parts of the latency, other numbers.
NAMES: Final = ("client_id", "api", "error", "group_id", "transactional_id")
TIMES: Final = ("request_start", "request_end", "response_start", "response_end")
PARTS: Final = ("latency_ns", "upload_ns", "queue_ns", "wait_ns", "work_ns", "download_ns")
NUMBERS: Final = (
    "exchange_id", "connection_id", "api_version", "request_packet", "response_packet",
    "request_size", "response_size",
)  # fmt: skip
# Of the table of connections.
CONNECTION_NUMBERS: Final = (
    "connection_id", "exchanges", "bytes_to_broker", "bytes_to_client",
    "retransmitted_segments_to_broker", "retransmitted_segments_to_client",
    "missing_bytes_to_broker", "missing_bytes_to_client", "gaps_to_broker", "gaps_to_client",
    "handshake_rtt_ns",
)  # fmt: skip
CONNECTION_TEXTS: Final = ("protocol", "rst_by", "sasl_mechanism", "client_software_name")
# Of the lag of groups: exchanges, and tables of offsets.
LAG: Final = (
    "exchange_id", "api", "connection_id", "client_id", "group_id", "request_start",
    "response_end", "replica_id",
)  # fmt: skip
OFFSETS: Final = {
    "partitions": (
        "exchange_id", "topic", "topic_id", "partition", "committed_offset", "fetch_offset",
        "high_watermark", "base_offset", "record_count", "error_code",
    ),
    "batches": ("exchange_id", "topic", "topic_id", "partition", "last_offset"),
}  # fmt: skip
KEPT: Final[dict[str, tuple[str, ...]]] = {
    "connections": (
        "client_ip", "client_port", "broker_ip", "broker_port", *CONNECTION_NUMBERS,
        *CONNECTION_TEXTS,
    ),
    "exchanges": (
        *NAMES, *TIMES, *PARTS, *NUMBERS, "outcome", "error_code", "error_count", "replica_id",
        "missing_bytes", "decode_status", *LAG,
    ),
    "partitions": (*OFFSETS["partitions"], "record_bytes"),
    "batches": OFFSETS["batches"],
    "problems": ("stage", "time", "connection_id"),
}  # fmt: skip
# Those of scans that need few.
ENDS: Final = ("connection_id", "broker_ip", "broker_port", "exchanges")
CLIENTS: Final = ("connection_id", "client_ip")
TOPICS: Final = ("exchange_id", "topic", "topic_id")
