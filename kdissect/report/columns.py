"""Columns that a report reads of the kept tables; many are kept for findings anyway."""

from typing import Final

from kdissect.report.connections import SHOWN, TEXTS
from kdissect.report.lag import COLUMNS, OFFSETS
from kdissect.report.rows import NUMBERS, PARTS, TIMES
from kdissect.report.rows import TEXTS as NAMES

KEPT: Final[dict[str, tuple[str, ...]]] = {
    "connections": ("client_ip", "client_port", "broker_ip", "broker_port", *SHOWN, *TEXTS),
    "exchanges": (
        *NAMES, *TIMES, *PARTS, *NUMBERS, "outcome", "error_code", "error_count", "replica_id",
        "missing_bytes", "decode_status", *COLUMNS,
    ),
    "partitions": (*OFFSETS["partitions"], "record_bytes"),
    "batches": OFFSETS["batches"],
    "problems": ("stage", "time", "connection_id"),
}  # fmt: skip
# Those of scans that need few.
ENDS: Final = ("connection_id", "broker_ip", "broker_port", "exchanges")
CLIENTS: Final = ("connection_id", "client_ip")
TOPICS: Final = ("exchange_id", "topic", "topic_id")
