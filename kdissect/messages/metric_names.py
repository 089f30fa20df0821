"""Metric names in a telemetry push, read from OTLP's protobuf without its definitions.

    MetricsData 1: ResourceMetrics 2: ScopeMetrics 2: Metric 1: name

A field is a varint, number << 3 | wire type, and then: 0 a varint, 1 eight bytes, 2 a varint size
and as many bytes, 5 four bytes. Types 3 and 4 (groups) have not been written since protobuf 2.
"""

from collections.abc import Iterator
from typing import Final

from kdissect.errors import InvalidValue, Truncated

SIZED: Final = 2
FIXED_SIZES: Final = {1: 8, 5: 4}
VARINT_LIMIT: Final = 10  # bytes: 64 bits, 7 a byte
PATH: Final = (1, 2, 2, 1)  # field numbers from MetricsData down to the name


def metric_names(data: bytes) -> list[str]:
    """Names of all metrics in `data`, in its order; raises DecodeError."""
    spans = [(0, len(data))]
    for wanted in PATH:
        spans = [
            (start, end)
            for outer_start, outer_end in spans
            for number, start, end in iter_sized(data, outer_start, outer_end)
            if number == wanted
        ]
    return [data[start:end].decode("utf-8", "backslashreplace") for start, end in spans]


def iter_sized(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of each length-delimited field of ``data[start:end]``."""
    while start < end:
        at = start
        tag, start = read_varint64(data, start, end)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            _, start = read_varint64(data, start, end)
            continue
        size = FIXED_SIZES.get(wire_type, 0)
        if wire_type == SIZED:
            size, start = read_varint64(data, start, end)
        elif not size:
            raise InvalidValue(f"protobuf wire type {wire_type}", offset=at, data=data)
        if size > end - start:
            text = f"protobuf field of {size} bytes, {end - start} left"
            raise Truncated(text, offset=at, data=data)
        if wire_type == SIZED:
            yield number, start, start + size
        start += size


def read_varint64(data: bytes, start: int, end: int) -> tuple[int, int]:
    r"""Read an unsigned varint; also return the position after it; raises DecodeError.

    >>> read_varint64(b"\x96\x01", 0, 2)
    (150, 2)
    """
    value = 0
    for place in range(min(VARINT_LIMIT, end - start)):
        byte = data[start + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, start + place + 1
    raise Truncated("protobuf varint ends early", offset=start, data=data)
