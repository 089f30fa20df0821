"""Trace contexts in record headers: ``traceparent`` as defined by W3C Trace Context.

    traceparent = version "-" trace id "-" parent id "-" flags, of 2, 32, 16 and 2 hex digits

Other headers, keys and values of a record are not read.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from kdissect.messages.batches import Budget, Record
from kdissect.messages.partitions import Partition
from kdissect.messages.record_slices import read_slices

HEADER: Final = b"traceparent"
# A later version may have more after a further dash; ff is invalid as a version.
TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?", re.DOTALL
)
# The SDK's limit on links of a span; further records are not unpacked.
MAXIMUM_CONTEXTS: Final = 128
WITH_HEADERS: Final = 2  # magic


class TraceContext(NamedTuple):
    """The span context in which a record was sent."""

    trace_id: int
    span_id: int
    flags: int


def read_traceparent(value: bytes) -> TraceContext | None:
    """The context in a header's value; None when invalid.

    >>> read_traceparent(b"00-0000000000000000000000000000000a-00000000000000b7-01")
    TraceContext(trace_id=10, span_id=183, flags=1)
    """
    match = TRACEPARENT.fullmatch(value)
    if match is None or (value[:2] == b"00" and len(value) != match.end(3)):
        return None
    trace_id, span_id, flags = (int(match[group], 16) for group in (1, 2, 3))
    return TraceContext(trace_id, span_id, flags) if trace_id and span_id else None


def contexts_of(
    partitions: Iterable[Partition], budget: Budget, limit: int
) -> tuple[TraceContext, ...]:
    """The distinct contexts of an exchange's records, in order, up to the limit.

    `budget` and `limit` bound the unpacked data, see `messages.records`.
    """
    found: dict[TraceContext, None] = {}
    for partition in partitions:
        for batch in partition.batches or ():
            if batch.magic != WITH_HEADERS or batch.is_control:
                continue
            if batch.codec == 0 and HEADER not in partition.records[batch.start : batch.end]:
                continue
            for scan in read_slices(partition.records, batch, budget, limit):
                for context in filter(None, map(context_in, scan.records)):
                    found[context] = None
                    if len(found) == MAXIMUM_CONTEXTS:
                        return tuple(found)
    return tuple(found)


def context_in(record: Record) -> TraceContext | None:
    """The context in a record."""
    return context_of(record.headers()) if record.header_count else None


def context_of(headers: Iterable[tuple[bytes, bytes | None]]) -> TraceContext | None:
    """The context in the last header of that name, which is the one that clients use."""
    values = [value for name, value in headers if name == HEADER]
    return read_traceparent(values[-1]) if values and values[-1] is not None else None
