"""What PushTelemetry carries (KIP-714): a packed OTLP MetricsData → its values, or its names.

Values need the package opentelemetry-proto (extra `telemetry`). Without it the names are given,
and how to have the values.
"""

from functools import cache
from typing import Any, Final

from kdissect.errors import InvalidValue
from kdissect.messages.compression import decompress
from kdissect.messages.layout_choice import Body
from kdissect.messages.metric_names import metric_names
from kdissect.messages.value_budget import charge
from kdissect.system.extras import missing_extra

# Twice what a broker takes packed by default (telemetry.max.bytes, 1 MiB). A client's hundred
# metrics are 10 KB.
UNPACKED_LIMIT: Final = 2 << 20
# Two bytes may become an empty struct, which takes 64, and a dict of 72 in a list.
RATIO: Final = 72


def decode_metrics(data: bytes, codec: int) -> Body:
    """The metrics of a push, packed with `codec`; raises DecodeError."""
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
    """The class of MetricsData; None when opentelemetry-proto is not installed."""
    try:
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ImportError:
        return None
    return MetricsData


def message_values(message: Any) -> Body:
    """The fields that are set, by name; an attribute's value is what it holds."""
    return {field.name: field_value(field, value) for field, value in message.ListFields()}


def field_value(field: Any, value: Any) -> Any:
    """One field: a message as its fields, an enum as its name when it has one."""
    if field.is_repeated:
        return [single_value(field, item) for item in value]
    return single_value(field, value)


def single_value(field: Any, value: Any) -> Any:
    """One value of a field, see `field_value`."""
    if field.message_type is not None:
        values = message_values(value)
        if field.message_type.name == "AnyValue":
            return next(iter(values.values()), None)
        return values
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else value
    return value
