"""Spans of the OpenTelemetry SDK: as OTLP, to a file or over HTTP to a collector.

    json    a line for each batch: an ExportTraceServiceRequest as OTLP's JSON
    proto   4 bytes length, big-endian, then the same as protobuf

Both are the formats of the collector's file exporter and its OTLP file receiver.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final, Protocol
from urllib.parse import urlsplit

from kdissect.errors import InvalidArgument, OutputError
from kdissect.spans.contexts import TraceContext
from kdissect.spans.describing import Description, Value
from kdissect.spans.otlp_json import json_line
from kdissect.system.extras import MissingExtra
from kdissect.system.version import __version__

JSON: Final = "json"
TRACES_PATH: Final = "/v1/traces"
TIMEOUT_SECONDS: Final = 10.0
SAMPLED: Final = 1


class Target(Protocol):
    """Accepts spans of the SDK in batches; raises OutputError."""

    def send(self, spans: Sequence[Any]) -> None: ...


class FileTarget:
    """An OTLP file."""

    def __init__(self, file: IO[bytes], format_: str = JSON) -> None:
        require()
        self._file = file
        self._is_json = format_ == JSON

    def send(self, spans: Sequence[Any]) -> None:
        """Append one message."""
        if self._is_json:
            self._file.write(json_line(spans))
            return
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        encoded = encode_spans(spans).SerializeToString()
        self._file.write(struct.pack(">I", len(encoded)) + encoded)


class EndpointTarget:
    """An OTLP receiver over HTTP; failed requests are retried for 10 seconds.

    Headers, certificates and compression are set by OpenTelemetry's environment variables.
    """

    def __init__(self, url: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        require()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(f"{url!r} is no endpoint; write it like http://localhost:4318")
        if parts.path in ("", "/"):
            url = parts._replace(path=TRACES_PATH).geturl()
        self._url = url
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=timeout_seconds)

    def send(self, spans: Sequence[Any]) -> None:
        """Send one request, and wait for its response."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise OutputError(f"{self._url} did not take the spans")


def require() -> None:
    """Raise KdissectError when the SDK is missing."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError as error:
        raise MissingExtra("OpenTelemetry export", "otel") from error


class SpanMaker:
    """Makes spans of the SDK; with `has_parts` a child span for each part of an exchange."""

    def __init__(self, has_parts: bool = False) -> None:
        require()
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._has_parts = has_parts
        self._longest_value = longest_value()
        self._scope = InstrumentationScope("kdissect", __version__)
        self._resources: dict[str, Any] = {}

    def spans(self, described: Description) -> Iterator[Any]:
        """The span of an exchange, then those of its parts."""
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        resource = self._resource(described.capture)
        own = TraceContext(described.trace_id, described.span_id, SAMPLED)
        failed = Status(StatusCode.ERROR, described.failure)
        yield ReadableSpan(
            name=described.name,
            context=context(own, False),
            parent=None if described.parent is None else context(described.parent, True),
            resource=resource,
            attributes={
                name: shortened(value, self._longest_value)
                for name, value in described.attributes.items()
            },
            events=[Event(name, {}, time_ns) for name, time_ns in described.events],
            links=[Link(context(link, True)) for link in described.links],
            kind=SpanKind.CLIENT,
            status=failed if described.failure else Status(StatusCode.UNSET),
            start_time=described.start_ns,
            end_time=described.end_ns,
            instrumentation_scope=self._scope,
        )
        for part in described.parts if self._has_parts else ():
            yield ReadableSpan(
                name=part.name,
                context=context(TraceContext(described.trace_id, part.span_id, SAMPLED), False),
                parent=context(own, False),
                resource=resource,
                start_time=part.start_ns,
                end_time=part.end_ns,
                instrumentation_scope=self._scope,
            )

    def _resource(self, capture: str) -> Any:
        from opentelemetry.sdk.resources import Resource

        if capture not in self._resources:
            self._resources[capture] = Resource(
                {
                    "service.name": "kdissect",
                    "service.version": __version__,
                    "kdissect.capture": capture,
                }
            )
        return self._resources[capture]


def longest_value() -> int | None:
    """Characters of an attribute's value by OpenTelemetry's environment variables, None: any."""
    from opentelemetry.sdk.trace import SpanLimits

    try:
        longest: int | None = SpanLimits().max_span_attribute_length
    except ValueError as error:
        raise InvalidArgument(str(error)) from error
    return longest


def shortened(value: Value, most: int | None) -> Value:
    """A text, or the texts of a list, of at most `most` characters; other values as they are."""
    if isinstance(value, str):
        return value[:most]
    return [text[:most] for text in value] if isinstance(value, list) else value


def context(of: TraceContext, is_remote: bool) -> Any:
    """A context as an SDK object."""
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(of.trace_id, of.span_id, is_remote, TraceFlags(of.flags))
