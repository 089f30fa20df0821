"""`Segment`: output of the packets stage, one TCP segment."""

from typing import Final

from mypy_extensions import i64, mypyc_attr

FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
PSH: Final = 0x08
ACK: Final = 0x10

NO_FLOW: Final[i64] = -1


@mypyc_attr(acyclic=True, free_list_len=1)
class Segment:
    """One TCP segment: ``data[start:end]`` is its captured payload.

    `flow` is source address, destination address, source port, destination port as on the wire: 12
    bytes for IPv4, 36 for IPv6; it is the key of one direction of a connection. It may be b"" until
    `flow_of` is called. For IPv4 it is also in two numbers, `addresses` and `ports`, else NO_FLOW.
    `payload_length` is declared by the IP header; larger than ``end - start`` if the capture
    truncated the packet. `sequence` and `acknowledgment` are the raw 32-bit numbers, `flags` the
    flag byte, `window` the unscaled window. Times and numbers are those of the packet. `header` is
    the index of the TCP header in `data`; `ip_id` the identification of the IPv4 packet, -1 for
    IPv6.
    """

    __slots__ = (
        "number", "ordinal", "capture", "time_ns", "flow", "sequence", "acknowledgment", "flags",
        "window", "data", "start", "end", "payload_length", "header", "ip_id", "addresses", "ports",
    )  # fmt: skip

    def __init__(
        self,
        number: i64,
        ordinal: i64,
        capture: i64,
        time_ns: i64,
        flow: bytes,
        sequence: i64,
        acknowledgment: i64,
        flags: i64,
        window: i64,
        data: bytes,
        start: i64,
        end: i64,
        payload_length: i64,
        header: i64,
        ip_id: i64,
        addresses: i64 = NO_FLOW,
        ports: i64 = NO_FLOW,
    ) -> None:
        self.number = number
        self.ordinal = ordinal
        self.capture = capture
        self.time_ns = time_ns
        self.flow = flow
        self.sequence = sequence
        self.acknowledgment = acknowledgment
        self.flags = flags
        self.window = window
        self.data = data
        self.start = start
        self.end = end
        self.payload_length = payload_length
        self.header = header
        self.ip_id = ip_id
        self.addresses = addresses
        self.ports = ports


def flow_of(segment: Segment) -> bytes:
    """Flow of a segment, extracted on first use."""
    if not segment.flow:
        # IPv4 without options: the addresses end where the TCP header starts.
        segment.flow = segment.data[segment.header - 8 : segment.header + 4]
    return segment.flow


def copied(segment: Segment) -> Segment:
    """Copy of the segment."""
    return Segment(
        segment.number, segment.ordinal, segment.capture, segment.time_ns, segment.flow,
        segment.sequence, segment.acknowledgment, segment.flags, segment.window, segment.data,
        segment.start, segment.end, segment.payload_length, segment.header, segment.ip_id,
        segment.addresses, segment.ports,
    )  # fmt: skip
