"""Payload of PushTelemetry (KIP-714): a compressed OTLP MetricsData → its values, or its names.

Values need the package opentelemetry-proto (extra `telemetry`). Without it the names are returned,
and how to get the values.
"""

from functools import cache
from typing import Any, Final

from kdissect.errors import InvalidValue
from kdissect.messages.compression import decompress
from kdissect.messages.layout_choice import Body
from kdissect.messages.metric_names import metric_names
from kdissect.messages.value_budget import charge
from kdissect.system.extras import missing_extra

# Twice the compressed size that a broker accepts by default (telemetry.max.bytes, 1 MiB). A
# client's hundred metrics are 10 KB.
UNPACKED_LIMIT: Final = 2 << 20
# Two bytes may become an empty struct, which takes 64, and a dict of 72 in a list.
RATIO: Final = 72


def decode_metrics(data: bytes, codec: int) -> Body:
    """Decode the metrics of a push, compressed with `codec`; raise DecodeError."""
    unpacked = decompress(codec, data, UNPACKED_LIMIT)
    charge(unpacked, RATIO)
    sizes = {"size": len(data), "unpacked_size": len(unpacked)}
    definition = metrics_definition()
    if definition is None:
        names = metric_names(unpacked)
        return {**sizes, "metric_names": names, "values": missing_extra("values", "telemetry")}
    from google.protobuf.message import DecodeError as ProtobufError

    try:
        message = definition.FromString(unpacked)
    except ProtobufError as error:
        raise InvalidValue(f"no MetricsData: {error}", offset=0, data=unpacked) from None
    return {**sizes, **message_values(message)}


@cache
def metrics_definition() -> Any:
    """The class of MetricsData; None if opentelemetry-proto is not installed."""
    try:
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ImportError:
        return None
    return MetricsData


def message_values(message: Any) -> Body:
    """Fields that are set, by name; an attribute's value is its contents."""
    return {field.name: field_value(field, value) for field, value in message.ListFields()}


def field_value(field: Any, value: Any) -> Any:
    """Convert one field: a message to its fields, an enum to its name if it has one."""
    if field.is_repeated:
        return [single_value(field, item) for item in value]
    return single_value(field, value)


def single_value(field: Any, value: Any) -> Any:
    """Convert one value of a field, see `field_value`."""
    if field.message_type is not None:
        values = message_values(value)
        if field.message_type.name == "AnyValue":
            return next(iter(values.values()), None)
        return values
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else value
    return value
