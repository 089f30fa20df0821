"""Details of a request from before 0.8 and its response, put on their exchange."""

from typing import Final

from kdissect.errors import Problem
from kdissect.exchanges.connection_state import frame_problem
from kdissect.exchanges.exchange import (
    DAMAGED,
    FETCH_DATA,
    FETCH_EMPTY,
    FETCH_ERROR,
    LEFTOVER,
    REQUEST_FAILED,
    RESPONSE_FAILED,
    UNKNOWN_API,
    Exchange,
)
from kdissect.exchanges.latency_parts import service_ns
from kdissect.framing.frames import Frame
from kdissect.messages.old_bodies import OldRead, read_old
from kdissect.messages.old_extracted import OldFields
from kdissect.messages.old_protocols import FETCH, MULTIFETCH, PROTOCOLS, OldApi
from kdissect.messages.partitions import partitions_of
from kdissect.messages.request_fields import RequestFields
from kdissect.protocol.readers import NULL

MS: Final = 1_000_000
UNKEPT_BATCHES: Final = "batches without row"


def take_request(api: OldApi, exchange: Exchange, fields: OldFields, frame: Frame) -> list[Problem]:
    """Fill in the request's fields; return a description of its errors."""
    read = read_old(api.request, frame.data, int(fields.sink.limit))
    fields.missing = frame.missing
    fields.read_request(read, frame.data)
    exchange.api_version = read.body.get("version_id", NULL)
    exchange.correlation_id = read.body.get("correlation_id", NULL)
    exchange.client_id = read.body.get("client_id")
    exchange.asked = RequestFields()
    exchange.asked.acks = fields.acks
    exchange.asked.max_wait_ms = fields.max_wait_ms
    exchange.asked.min_bytes = fields.min_bytes
    exchange.topic_count = len({row.topic for row in fields.rows})
    exchange.record_count = fields.record_count
    exchange.record_bytes = fields.record_bytes
    exchange.partitions = partitions_of(fields.rows) if fields.rows else None
    if frame.is_cut:
        forget_counts(exchange)
    if exchange.status & UNKNOWN_API:
        return []
    return check_side(api, exchange, fields, frame, read, REQUEST_FAILED)


def take_response(
    api: OldApi, exchange: Exchange, fields: OldFields, frame: Frame
) -> list[Problem]:
    """Fill in the response's fields; `fields` are the request's. Return its errors."""
    read = read_old(api.response, frame.data, int(fields.sink.limit))
    fields.missing = frame.missing
    fields.corrupt_records = ""
    fields.read_response(exchange.dialect, read, frame.data)
    exchange.partitions = partitions_of(fields.rows) if fields.rows else None
    exchange.record_count = fields.record_count
    exchange.record_bytes = fields.record_bytes
    is_whole = read.error is None and not frame.is_cut
    if fields.errors:
        exchange.errors = fields.errors
    if fields.errors or is_whole:
        exchange.error_count = len(fields.errors)
        exchange.error_code = fields.errors[0].code if fields.errors else 0
    if is_whole and api.key in (FETCH, MULTIFETCH):
        settle_fetch(exchange)
    if frame.is_cut:
        forget_counts(exchange)
    return check_side(api, exchange, fields, frame, read, RESPONSE_FAILED)


def forget_counts(exchange: Exchange) -> None:
    """Clear the counts of a side with a hole, which are unknown, as is the wait of a fetch."""
    exchange.topic_count = NULL
    exchange.error_count = NULL
    exchange.record_count = NULL
    exchange.record_bytes = NULL
    if exchange.asked.max_wait_ms != NULL:
        exchange.wait_ns = NULL


def check_side(
    api: OldApi, exchange: Exchange, fields: OldFields, frame: Frame, read: OldRead, failed: int
) -> list[Problem]:
    """Set the status of a side; return a description of its errors. `failed` is its status bit."""
    if frame.missing:
        exchange.status |= DAMAGED
        return []
    side = "request" if failed == REQUEST_FAILED else "response"
    name = f"{PROTOCOLS[exchange.dialect]} {api.name} {side}"
    problems: list[tuple[str, str]] = []
    left = len(frame.data) - read.end
    if read.error is not None:
        exchange.status |= failed
        problems.append((f"undecodable-{side}", f"cannot decode {name}: {read.error}"))
    elif left:
        exchange.status |= LEFTOVER
        text = f"{name}: {left} bytes left over at byte {read.end} of {len(frame.data)}"
        problems.append((f"leftover-{side}", text))
    if read.left_out or fields.unkept_batches:
        counts = ((read.left_out, "elements left out"), (fields.unkept_batches, UNKEPT_BATCHES))
        texts = ", ".join(f"{count} {what}" for count, what in counts if count)
        problems.append(("decoded-limit", f"{name}: {texts}"))
        fields.unkept_batches = 0
    if fields.corrupt_records:
        problems.append(("corrupt-records", f"{name}: {fields.corrupt_records}"))
    return [frame_problem(frame, kind, text, exchange.exchange_id) for kind, text in problems]


def settle_fetch(exchange: Exchange) -> None:
    """Set how a fetch ended, and how long it waited for data: 0.7 never waits."""
    if exchange.error_count > 0:
        exchange.fetch_class = FETCH_ERROR
    elif exchange.record_bytes > 0:
        exchange.fetch_class = FETCH_DATA
    else:
        exchange.fetch_class = FETCH_EMPTY
        if exchange.asked.max_wait_ms > 0:
            service = service_ns(exchange)
            exchange.wait_ns = (
                NULL if service == NULL else min(service, exchange.asked.max_wait_ms * MS)
            )
