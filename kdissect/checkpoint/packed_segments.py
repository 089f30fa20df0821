"""Many segments packed into a few bytes values: an edge of a split has thousands of them.

numbers  = 17 little-endian int64 for each segment: FIELDS
contents = flow, then bytes, of each segment
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from kdissect.packets.segment import Segment, flow_of

# number, ordinal, capture, time_ns, sequence, acknowledgment, flags, window, start, end,
# payload_length, header, ip_id, then the sizes of flow and bytes, addresses, ports
FIELDS: Final = 17


def packed_segments(segments: list[Segment]) -> tuple[bytes, bytes]:
    """Return numbers and contents of segments."""
    numbers = BytesWriter()
    contents = BytesWriter()
    for segment in segments:
        write_i64_le(numbers, segment.number)
        write_i64_le(numbers, segment.ordinal)
        write_i64_le(numbers, segment.capture)
        write_i64_le(numbers, segment.time_ns)
        write_i64_le(numbers, segment.sequence)
        write_i64_le(numbers, segment.acknowledgment)
        write_i64_le(numbers, segment.flags)
        write_i64_le(numbers, segment.window)
        write_i64_le(numbers, segment.start)
        write_i64_le(numbers, segment.end)
        write_i64_le(numbers, segment.payload_length)
        write_i64_le(numbers, segment.header)
        write_i64_le(numbers, segment.ip_id)
        write_i64_le(numbers, len(flow_of(segment)))
        write_i64_le(numbers, len(segment.data))
        write_i64_le(numbers, segment.addresses)
        write_i64_le(numbers, segment.ports)
        contents.write(segment.flow)
        contents.write(segment.data)
    return numbers.getvalue(), contents.getvalue()


def unpacked_segments(numbers: bytes, contents: bytes) -> list[Segment]:
    """Restore the segments; raise ValueError for input that `packed_segments` does not produce."""
    size: i64 = len(numbers)
    limit: i64 = len(contents)
    if size % (FIELDS * 8) != 0:
        raise ValueError(f"{size} bytes are no numbers of segments")
    segments: list[Segment] = []
    place: i64 = 0
    flow = b""
    at: i64 = 0
    while at < size:
        start = read_i64_le(numbers, at + 64)
        end = read_i64_le(numbers, at + 72)
        header = read_i64_le(numbers, at + 88)
        flow_size = read_i64_le(numbers, at + 104)
        data_size = read_i64_le(numbers, at + 112)
        # Each is at most the remaining size, so no sum of them wraps.
        if not 0 <= flow_size <= limit - place or not 0 <= data_size <= limit - place - flow_size:
            raise ValueError(f"a segment of {flow_size} and {data_size} bytes, {limit} in all")
        if not 0 <= header <= start <= end <= data_size:
            raise ValueError(f"a segment from {header} over {start} to {end}")
        if contents[place : place + flow_size] != flow:
            flow = contents[place : place + flow_size]
        place += flow_size
        data = contents[place : place + data_size]
        place += data_size
        segments.append(
            Segment(
                read_i64_le(numbers, at),
                read_i64_le(numbers, at + 8),
                read_i64_le(numbers, at + 16),
                read_i64_le(numbers, at + 24),
                flow,
                read_i64_le(numbers, at + 32),
                read_i64_le(numbers, at + 40),
                read_i64_le(numbers, at + 48),
                read_i64_le(numbers, at + 56),
                data,
                start,
                end,
                read_i64_le(numbers, at + 80),
                header,
                read_i64_le(numbers, at + 96),
                read_i64_le(numbers, at + 120),
                read_i64_le(numbers, at + 128),
            )
        )
        at += FIELDS * 8
    if place != limit:
        raise ValueError(f"{limit - place} bytes are of no segment")
    return segments
