"""Chunk | Gap | End → Frame: cuts the size-delimited frames out of the byte streams.

    frame = int32 size, then `size` bytes          (both directions, Kafka 0.7 to today)

Knows nothing of what is inside a frame; a `Probe` given by the user tells likely frame starts when
the position of the next size field is not known (capture began in mid-connection, bytes were lost).
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.streams.events import Connection


@mypyc_attr(acyclic=True)
class Frame:
    """One frame of one direction of a connection.

    `data` is the body without the size field: all `size` bytes of it, or, when `missing` > 0, the
    bytes before the first hole (`missing` = size - len(data)). `position` is the stream position
    of the size field. Start is the packet that holds the first byte of the size field, end the one
    that holds the last byte of the body; `end_time_ns` is -1 when that packet was not captured.
    `index` counts the frames that start in the same packet from 0. `retransmits_*` are the
    connection's running count of retransmitted segments at start and end.
    """

    __slots__ = (
        "connection", "direction", "position", "size", "data", "missing", "start_time_ns",
        "start_packet", "start_ordinal", "start_capture", "index", "end_time_ns", "end_packet",
        "retransmits_at_start", "retransmits_at_end",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        direction: i64,
        position: i64,
        size: i64,
        data: bytes,
        missing: i64,
        start_time_ns: i64,
        start_packet: i64,
        start_ordinal: i64,
        start_capture: i64,
        index: i64,
        end_time_ns: i64,
        end_packet: i64,
        retransmits_at_start: i64,
        retransmits_at_end: i64,
    ) -> None:
        self.connection = connection
        self.direction = direction
        self.position = position
        self.size = size
        self.data = data
        self.missing = missing
        self.start_time_ns = start_time_ns
        self.start_packet = start_packet
        self.start_ordinal = start_ordinal
        self.start_capture = start_capture
        self.index = index
        self.end_time_ns = end_time_ns
        self.end_packet = end_packet
        self.retransmits_at_start = retransmits_at_start
        self.retransmits_at_end = retransmits_at_end


IGNORE: Final = -2  # Probe.find_start: this direction holds no frames at all
NOT_HERE: Final = -1  # Probe.find_start: no frame starts in these bytes


class Probe:
    """Tells where frames start; this one trusts any size, the exchanges stage knows better."""

    def find_start(self, connection: Connection, direction: i64, data: bytes, start: i64, end: i64) -> i64:
        """Index in ``data[start:end]`` where a frame's size field starts, or NOT_HERE or IGNORE.

        Asked for the first bytes of every direction of every connection, and for each chunk while
        the next frame's position is not known.
        """
        return start
