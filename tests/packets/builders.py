"""Builds packets: TCP in IPv4 or IPv6 in any link layer, field by field."""

import socket
import struct

from kdissect.capture.packet import Packet
from kdissect.packets.segment import ACK, NO_FLOW, PSH, Segment, flow_of

CLIENT = "10.0.0.1"
BROKER = "10.0.0.9"
CLIENT_V6 = "2001:db8::1"
BROKER_V6 = "2001:db8::9"
ADDRESSES = bytes(range(0x20, 0x2C))

ETHERTYPES = {4: 0x0800, 6: 0x86DD}


def make_tcp(
    payload: bytes = b"",
    source_port: int = 50000,
    destination_port: int = 9092,
    sequence: int = 1000,
    acknowledgment: int = 2000,
    flags: int = PSH | ACK,
    window: int = 501,
    options: bytes = b"",
) -> bytes:
    """A TCP header with its payload; the checksum is not filled in."""
    return (
        struct.pack(
            ">HHIIBBHHH",
            source_port,
            destination_port,
            sequence,
            acknowledgment,
            (20 + len(options)) << 2,
            flags,
            window,
            0,
            0,
        )
        + options
        + payload
    )


def make_ipv4(
    content: bytes,
    source: str = CLIENT,
    destination: str = BROKER,
    protocol: int = 6,
    options: bytes = b"",
    total_length: int = -1,
    fragment: int = 0x4000,
    identification: int = 7,
) -> bytes:
    """An IPv4 packet; `fragment` is the 16-bit field of flags and offset."""
    header_size = 20 + len(options)
    total = header_size + len(content) if total_length < 0 else total_length
    version = 0x40 | header_size >> 2
    fields = (version, 0, total, identification, fragment, 64, protocol, 0)
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    return struct.pack(">BBHHHBBH", *fields) + addresses + options + content


def make_ipv6(
    content: bytes,
    source: str = CLIENT_V6,
    destination: str = BROKER_V6,
    protocol: int = 6,
    payload_length: int = -1,
) -> bytes:
    """An IPv6 packet; `protocol` is the next header."""
    length = len(content) if payload_length < 0 else payload_length
    addresses = b"".join(socket.inet_pton(socket.AF_INET6, text) for text in (source, destination))
    return struct.pack(">IHBB", 6 << 28, length, protocol, 64) + addresses + content


def make_ethernet(
    content: bytes, ethertype: int = 0, vlans: tuple[tuple[int, int], ...] = ()
) -> bytes:
    """An Ethernet frame; `vlans` are pairs of tag type and tag."""
    tags = b"".join(struct.pack(">HH", *vlan) for vlan in vlans)
    return ADDRESSES + tags + struct.pack(">H", ethertype or ETHERTYPES[content[0] >> 4]) + content


def make_cooked(content: bytes, ethertype: int = 0, vlan: bytes = b"") -> bytes:
    """A packet of link type 113, Linux cooked v1."""
    header = struct.pack(">HHH8s", 0, 1, 6, bytes(8)) + vlan
    return header + struct.pack(">H", ethertype or ETHERTYPES[content[0] >> 4]) + content


def make_cooked2(content: bytes, ethertype: int = 0) -> bytes:
    """A packet of link type 276, Linux cooked v2."""
    fields = (ethertype or ETHERTYPES[content[0] >> 4], 0, 2, 1, 0, 6, bytes(8))
    return struct.pack(">HHIHBB8s", *fields) + content


def make_tcp_packet(
    payload: bytes = b"",
    source: str = CLIENT,
    destination: str = BROKER,
    source_port: int = 50000,
    destination_port: int = 9092,
    sequence: int = 1000,
    acknowledgment: int = 2000,
    flags: int = PSH | ACK,
    window: int = 501,
    options: bytes = b"",
) -> bytes:
    """An Ethernet frame that holds a TCP segment; IPv6 when the addresses are."""
    tcp = make_tcp(
        payload, source_port, destination_port, sequence, acknowledgment, flags, window, options
    )
    make_ip = make_ipv6 if ":" in source else make_ipv4
    return make_ethernet(make_ip(tcp, source, destination))


def make_packet(data: bytes, link_type: int = 1, original_length: int = -1) -> Packet:
    """The `Packet` of some captured bytes, in a buffer with others around it."""
    before, after = b"before", b"after"
    wire = len(data) if original_length < 0 else original_length
    end = len(before) + len(data)
    return Packet(3, 17, link_type, before + data + after, len(before), end, wire, 5, 2)


def make_flow(source: str, destination: str, source_port: int, destination_port: int) -> bytes:
    """Value of `Segment.flow` for these endpoints."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    addresses = b"".join(socket.inet_pton(family, text) for text in (source, destination))
    return addresses + struct.pack(">HH", source_port, destination_port)


def fields_of(segment: Segment | None) -> dict[str, object] | None:
    """A segment as values that can be compared; `payload` are the captured bytes."""
    if segment is None:
        return None
    flow = flow_of(segment)
    numbers = struct.unpack(">qI", flow) if len(flow) == 12 else (NO_FLOW, NO_FLOW)
    assert (segment.addresses, segment.ports) == numbers
    return {
        "number": segment.number,
        "ordinal": segment.ordinal,
        "capture": segment.capture,
        "time_ns": segment.time_ns,
        "flow": flow,
        "sequence": segment.sequence,
        "acknowledgment": segment.acknowledgment,
        "flags": segment.flags,
        "window": segment.window,
        "payload": segment.data[segment.start : segment.end],
        "payload_length": segment.payload_length,
        "ports": segment.data[segment.header : segment.header + 4],
        "ip_id": segment.ip_id,
    }
