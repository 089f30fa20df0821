"""Requests of a client of the soak, byte by byte; versions that a Kafka of today still takes."""

import struct

from tests.messages.record_builders import make_batch, make_record

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
VERSIONS = {PRODUCE: 3, FETCH: 4, METADATA: 4, API_VERSIONS: 0}
CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 2
ACKS, TIMEOUT_MS = 1, 5000
PARTITION = 0


def framed(api: int, version: int, correlation_id: int, client_id: str, body: bytes) -> bytes:
    """A request with its header and size."""
    header = struct.pack(">hhi", api, version, correlation_id) + text(client_id)
    return struct.pack(">i", len(header) + len(body)) + header + body


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def produce(topic: str, value_size: int) -> bytes:
    """One record with a value of so many bytes."""
    batch = make_batch([make_record(value=b"v" * value_size)])
    head = struct.pack(">hhii", -1, ACKS, TIMEOUT_MS, 1) + text(topic)
    return head + struct.pack(">iii", 1, PARTITION, len(batch)) + batch


def fetch(topic: str, offset: int, wait_ms: int, max_size: int) -> bytes:
    """From an offset; the broker waits so long for a record."""
    head = struct.pack(">iiiibi", -1, wait_ms, 1, max_size, 0, 1) + text(topic)
    return head + struct.pack(">iiqi", 1, PARTITION, offset, max_size)


def metadata(topic: str) -> bytes:
    """Metadata request for one topic without creating it."""
    return struct.pack(">i", 1) + text(topic) + b"\0"


def create_topic(topic: str) -> bytes:
    """A topic of one partition."""
    head = struct.pack(">i", 1) + text(topic) + struct.pack(">ihii", 1, 1, 0, 0)
    return head + struct.pack(">ib", TIMEOUT_MS, 0)
