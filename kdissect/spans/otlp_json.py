"""Spans of the SDK as a line of OTLP's JSON (opentelemetry-proto, "JSON Protobuf Encoding").

An ExportTraceServiceRequest: ids in hex, 64-bit numbers as strings, enums as numbers, default
values omitted. Protobuf's own JSON encoder has the same result and takes four times as
long; a test compares them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

# Of `flags`: remoteness of the context is known, and it is remote (opentelemetry-proto, SpanFlags).
HAS_IS_REMOTE: Final = 0x100
IS_REMOTE: Final = 0x200
# SpanKind of the protocol, whose numbering starts differently from the SDK's.
KIND_OFFSET: Final = 1

Json = dict[str, Any]


def json_line(spans: Iterable[Any]) -> bytes:
    """The spans, grouped by resource and scope."""
    groups: dict[tuple[int, int], list[Any]] = {}
    for span in spans:
        groups.setdefault((id(span.resource), id(span.instrumentation_scope)), []).append(span)
    message = {"resourceSpans": [_resource_spans(group) for group in groups.values()]}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _resource_spans(spans: Sequence[Any]) -> Json:
    first = spans[0]
    scope = first.instrumentation_scope
    return {
        "resource": {"attributes": _attributes(first.resource.attributes)},
        "scopeSpans": [
            {
                "scope": {"name": scope.name, "version": scope.version},
                "spans": [_span(span) for span in spans],
            }
        ],
    }


def _span(span: Any) -> Json:
    context, parent = span.context, span.parent
    found: Json = {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
    }
    if parent is not None:
        found["parentSpanId"] = f"{parent.span_id:016x}"
    found |= {
        "name": span.name,
        "kind": span.kind.value + KIND_OFFSET,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
    }
    if span.attributes:
        found["attributes"] = _attributes(span.attributes)
    if span.events:
        found["events"] = [
            {"timeUnixNano": str(event.timestamp), "name": event.name} for event in span.events
        ]
    if span.links:
        found["links"] = [_link(link.context) for link in span.links]
    status = {"message": span.status.description} if span.status.description else {}
    if span.status.status_code.value:
        status["code"] = span.status.status_code.value
    return {**found, "status": status, "flags": _flags(parent)}


def _link(context: Any) -> Json:
    return {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        "flags": _flags(context),
    }


def _flags(context: Any) -> int:
    return HAS_IS_REMOTE | (IS_REMOTE if context is not None and context.is_remote else 0)


def _attributes(attributes: Mapping[str, Any]) -> list[Json]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Any) -> Json:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"arrayValue": {"values": [_value(one) for one in value]}}
