"""Writes capture files: every kind of pcap and pcapng, from packets given as bytes."""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kdissect.capture.blocks import (
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS,
    OBSOLETE_PACKET,
    SECTION_HEADER,
    SIMPLE_PACKET,
)
from kdissect.capture.packet import Packet
from kdissect.capture.pcap import MICROSECONDS, MODIFIED, NANOSECONDS

START_NS = 1_700_000_000_000_000_000
STEP_NS = 1_000_000


class Captured(NamedTuple):
    """A packet to be written; `original_length` -1: it was captured whole."""

    data: bytes
    time_ns: int
    original_length: int = -1

    @property
    def wire_length(self) -> int:
        return len(self.data) if self.original_length < 0 else self.original_length


class Given(NamedTuple):
    """A `Packet` as a value that can be compared."""

    number: int
    time_ns: int
    link_type: int
    data: bytes
    original_length: int
    ordinal: int
    capture: int


def given(packets: Iterable[Packet]) -> list[Given]:
    """Output of the scanner as values."""
    return [
        Given(
            packet.number,
            packet.time_ns,
            packet.link_type,
            packet.data[packet.start : packet.end],
            packet.original_length,
            packet.ordinal,
            packet.capture,
        )
        for packet in packets
    ]


def expected(packets: Sequence[bytes | Captured], link_type: int = 1) -> list[Given]:
    """Expected output of a scanner for the packets of one file."""
    return [
        Given(number, packet.time_ns, link_type, packet.data, packet.wire_length, number, 0)
        for number, packet in enumerate(timed(packets), 1)
    ]


def timed(packets: Sequence[bytes | Captured]) -> list[Captured]:
    """Packets given as bytes are a millisecond apart, from `START_NS` on."""
    return [
        packet if isinstance(packet, Captured) else Captured(packet, START_NS + index * STEP_NS)
        for index, packet in enumerate(packets)
    ]


def make_pcap(
    packets: Sequence[bytes | Captured],
    magic: int = MICROSECONDS,
    order: str = "<",
    link_type: int = 1,
    snap_length: int = 262144,
) -> bytes:
    """A pcap file; `order` is ``<`` or ``>``, `magic` tells the unit or the modified format."""
    unit_ns = 1 if magic == NANOSECONDS else 1000
    written = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap_length, link_type)]
    for packet in timed(packets):
        seconds, fraction_ns = divmod(packet.time_ns, 1_000_000_000)
        lengths = len(packet.data), packet.wire_length
        written.append(struct.pack(order + "IIII", seconds, fraction_ns // unit_ns, *lengths))
        if magic == MODIFIED:
            written.append(struct.pack(order + "IHBB", 2, 0x0800, 0, 0))
        written.append(packet.data)
    return b"".join(written)


def make_pcapng(
    packets: Sequence[bytes | Captured],
    order: str = "<",
    link_type: int = 1,
    units_per_second: int = 1_000_000_000,
    resolution: int = 9,
) -> bytes:
    """A pcapng file of one section with one interface and Enhanced Packet Blocks.

    `resolution` is the if_tsresol byte for `units_per_second`.
    """
    written = [make_section_header(order)]
    written.append(make_interface_block(order, link_type, resolution=resolution))
    for packet in timed(packets):
        units = packet.time_ns * units_per_second // 1_000_000_000
        written.append(make_enhanced_packet(order, packet.data, units, packet.original_length))
    return b"".join(written)


def make_block(order: str, kind: int, content: bytes) -> bytes:
    """A block: content is padded to a multiple of 4 bytes."""
    content += bytes(-len(content) % 4)
    length = struct.pack(order + "I", len(content) + 12)
    return struct.pack(order + "I", kind) + length + content + length


def make_options(order: str, *options: tuple[int, bytes]) -> bytes:
    """Options and their end mark; empty without options."""
    written = b"".join(
        struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)
        for code, value in options
    )
    return written + bytes(4) if options else b""


def make_section_header(order: str = "<", major: int = 1, options: bytes = b"") -> bytes:
    content = struct.pack(order + "IHHq", 0x1A2B3C4D, major, 0, -1) + options
    return make_block(order, SECTION_HEADER, content)


def make_interface_block(
    order: str = "<",
    link_type: int = 1,
    snap_length: int = 0,
    resolution: int | None = None,
    offset_seconds: int | None = None,
    name: str = "",
) -> bytes:
    options: list[tuple[int, bytes]] = []
    if name:
        options.append((2, name.encode()))
    if resolution is not None:
        options.append((9, bytes((resolution,))))
    if offset_seconds is not None:
        options.append((14, struct.pack(order + "q", offset_seconds)))
    content = struct.pack(order + "HHI", link_type, 0, snap_length)
    return make_block(order, INTERFACE_DESCRIPTION, content + make_options(order, *options))


def make_enhanced_packet(
    order: str,
    data: bytes,
    units: int,
    original_length: int = -1,
    interface: int = 0,
    options: bytes = b"",
) -> bytes:
    wire = len(data) if original_length < 0 else original_length
    fields = (interface, units >> 32, units & 0xFFFFFFFF, len(data), wire)
    content = struct.pack(order + "IIIII", *fields) + data + bytes(-len(data) % 4) + options
    return make_block(order, ENHANCED_PACKET, content)


def make_obsolete_packet(order: str, data: bytes, units: int, interface: int = 0) -> bytes:
    fields = (interface, 7, units >> 32, units & 0xFFFFFFFF, len(data), len(data))
    return make_block(order, OBSOLETE_PACKET, struct.pack(order + "HHIIII", *fields) + data)


def make_simple_packet(order: str, data: bytes, original_length: int = -1) -> bytes:
    wire = len(data) if original_length < 0 else original_length
    return make_block(order, SIMPLE_PACKET, struct.pack(order + "I", wire) + data)


def make_statistics(order: str, interface: int, dropped: int) -> bytes:
    options = make_options(order, (7, struct.pack(order + "Q", dropped)))
    return make_block(
        order, INTERFACE_STATISTICS, struct.pack(order + "III", interface, 0, 0) + options
    )


def make_secrets(order: str, kind: int, content: bytes) -> bytes:
    fields = struct.pack(order + "II", kind, len(content))
    return make_block(order, DECRYPTION_SECRETS, fields + content)
