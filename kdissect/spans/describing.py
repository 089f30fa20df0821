"""An exchange as a span: its identity, name, times and attributes, as plain values.

Names are those of OpenTelemetry's conventions for messaging and Kafka where defined, else
``kdissect.`` and the column's. This module does not use the SDK.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from kdissect.api.dissected import DissectedExchange
from kdissect.protocol.primitives import uuid_text
from kdissect.spans.contexts import TraceContext
from kdissect.text.escape import escaped_within

Value = str | int | bool | list[str]

# messaging.operation.type of the APIs that transfer messages.
OPERATIONS: Final = {
    "Produce": "send",
    "MultiProduce": "send",
    "Fetch": "receive",
    "MultiFetch": "receive",
    "ShareFetch": "receive",
    "OffsetCommit": "settle",
    "TxnOffsetCommit": "settle",
    "ShareAcknowledge": "settle",
}
COLUMNS: Final = (
    "api_version", "correlation_id", "connection_id", "exchange_id", "outcome", "latency_ns",
    "upload_ns", "queue_ns", "wait_ns", "work_ns", "download_ns", "rtt_ns", "request_size",
    "response_size", "record_bytes", "acks", "transactional_id", "fetch_class", "request_packet",
    "response_packet", "decode_status",
)  # fmt: skip
# Of these only nonzero values.
COUNTS: Final = (
    "error_code", "error_count", "throttle_ms", "retransmits", "zero_windows", "missing_bytes",
    "topic_count", "partition_count",
)  # fmt: skip
# Parts of an exchange in order; the first begins with the request.
PARTS: Final = ("upload", "queue", "wait", "work", "download")
LONGEST_TEXT: Final = 1024  # characters
MOST_TOPICS: Final = 16
UNANSWERED: Final = "unanswered"
TRACE_ID_SIZE: Final = 16
SPAN_ID_SIZE: Final = 8


class Part(NamedTuple):
    """A timed part of an exchange."""

    name: str
    span_id: int
    start_ns: int
    end_ns: int


class Description(NamedTuple):
    """A span. `parent` is its parent context, `links` its related ones.

    `failure` is "" on success. `events` are times with names.
    """

    trace_id: int
    span_id: int
    parent: TraceContext | None
    links: Sequence[TraceContext]
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    failure: str
    events: Sequence[tuple[str, int]]
    parts: Sequence[Part]
    capture: str


def describe(exchange: DissectedExchange, contexts: Sequence[TraceContext]) -> Description:
    """The span of an exchange whose records have these contexts.

    A Produce with exactly one is a child of it, like its client's own span; all others link.
    """
    columns = exchange.columns
    digest = identity_of(columns)
    is_child = columns["api"] == "Produce" and len(contexts) == 1
    trace_id = int.from_bytes(digest[:TRACE_ID_SIZE], "big") or 1
    start, end = times_of(columns)
    failure = failure_of(columns)
    topics = topics_of(exchange)
    return Description(
        trace_id=contexts[0].trace_id if is_child else trace_id,
        span_id=span_id_of(digest),
        parent=contexts[0] if is_child else None,
        links=() if is_child else contexts,
        name=clean(f"{api_of(columns)} {topics[0][0]}" if len(topics) == 1 else api_of(columns)),
        start_ns=start,
        end_ns=end,
        attributes=attributes_of(columns, topics, failure),
        failure=failure,
        events=events_of(columns),
        parts=parts_of(columns, digest),
        capture=clean(str(columns["capture"])),
    )


def identity_of(columns: Mapping[str, Any]) -> bytes:
    """Identity of the exchange among all others, the same in every reading.

    Not the file's name, nor the packets' numbers: a slice and a renamed file have the same
    exchanges. The place in the packet is the same in both.
    """
    ends = [columns[f"{side}_{what}"] for side in ("client", "broker") for what in ("ip", "port")]
    start, end = times_of(columns)
    own = (columns["api_key"], columns["correlation_id"], columns["exchange_id"] % 100_000)
    return sha256(repr((ends, start, end, own)).encode()).digest()


def span_id_of(digest: bytes, part: str = "") -> int:
    """The id of the span, or of a part of it."""
    return int.from_bytes(sha256(digest + part.encode()).digest()[:SPAN_ID_SIZE], "big") or 1


def times_of(columns: Mapping[str, Any]) -> tuple[int, int]:
    """From the first byte of the request to the last of the response, as far as known."""
    names = ("request_start", "request_end", "response_start", "response_end")
    times = [columns[name] for name in names if columns[name] is not None]
    return min(times), max(times)


def failure_of(columns: Mapping[str, Any]) -> str:
    """The name of the error, or that the response is missing."""
    if columns["outcome"] == UNANSWERED:
        return UNANSWERED
    return str(columns["error"] or columns["error_code"]) if columns["error_code"] else ""


def api_of(columns: Mapping[str, Any]) -> str:
    return str(columns["api"] or "response")


def topics_of(exchange: DissectedExchange) -> list[tuple[str, list[int]]]:
    """The topics and their partitions, in the order of the exchange."""
    found: dict[str, list[int]] = {}
    for partition in exchange.partitions:
        name = partition.topic or uuid_text(partition.topic_id)
        found.setdefault(name, []).append(partition.partition)
    return list(found.items())


def attributes_of(
    columns: Mapping[str, Any], topics: Sequence[tuple[str, list[int]]], failure: str
) -> dict[str, Value]:
    """The attributes; missing values are left out."""
    api = api_of(columns)
    is_ipv6 = ":" in columns["broker_ip"]
    found: dict[str, Any] = {
        "messaging.system": "kafka",
        "messaging.operation.name": api,
        "messaging.operation.type": OPERATIONS.get(api),
        "messaging.client.id": columns["client_id"],
        "messaging.consumer.group.name": columns["group_id"],
        "messaging.batch.message_count": columns["record_count"],
        "server.address": columns["broker_ip"],
        "server.port": columns["broker_port"],
        "client.address": columns["client_ip"],
        "client.port": columns["client_port"],
        "network.peer.address": columns["broker_ip"],
        "network.peer.port": columns["broker_port"],
        "network.transport": "tcp",
        "network.type": "ipv6" if is_ipv6 else "ipv4",
        "error.type": failure or None,
    }
    if len(topics) == 1:
        found["messaging.destination.name"] = topics[0][0]
        if len(topics[0][1]) == 1:
            found["messaging.destination.partition.id"] = str(topics[0][1][0])
    elif topics:
        found["kdissect.topics"] = [clean(name) for name, _ in topics[:MOST_TOPICS]]
    found |= {f"kdissect.{name}": columns[name] for name in COLUMNS}
    found |= {f"kdissect.{name}": columns[name] or None for name in COUNTS}
    return {
        name: clean(value) if isinstance(value, str) else value
        for name, value in found.items()
        if value is not None and value != ""
    }


def events_of(columns: Mapping[str, Any]) -> list[tuple[str, int]]:
    """End of the request and start of the response, where both are known."""
    if columns["latency_ns"] is None:
        return []
    return [
        ("kdissect.request.sent", columns["request_end"]),
        ("kdissect.response.started", columns["response_start"]),
    ]


def parts_of(columns: Mapping[str, Any], digest: bytes) -> list[Part]:
    """The consecutive timed parts; none without the times of a response."""
    if columns["latency_ns"] is None:
        return []
    at = columns["request_start"]
    found = []
    for name in PARTS:
        duration = columns[f"{name}_ns"] or 0
        if duration > 0:
            found.append(Part(name, span_id_of(digest, name), at, at + duration))
        at += duration
    return found


def clean(text: str) -> str:
    """A text from the wire for a viewer of spans: escaped, with bounded length."""
    return escaped_within(text, LONGEST_TEXT)
