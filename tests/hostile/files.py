"""Capture files that are damaged, or were never sound."""

import random
import struct

from tests.hostile.wire import Talk, Wire, request

SECTION = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)


def block(kind: int, content: bytes) -> bytes:
    size = 12 + len(content)
    return struct.pack("<II", kind, size) + content + struct.pack("<I", size)


def enhanced(interface: int, number: int, data: bytes) -> bytes:
    data += bytes(-len(data) % 4)
    head = struct.pack("<IIIII", interface, 0x5E000, number, len(data), len(data))
    return block(6, head + data)


INTERFACE = block(1, struct.pack("<HHI", 1, 0, 0))


class Pcapng(Wire):
    """A pcapng file in the making."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._parts.clear()
        self.size = 0
        self.raw(SECTION + INTERFACE)


def a_packet() -> bytes:
    """Some packet."""
    wire = Wire(1 << 20)
    Talk(wire).client(request(18, 0, 1, b"c"))
    return wire.file()[40:]


def damaged_records(source: random.Random, wire: Wire) -> None:
    """Records of pcap among rubbish that looks like times of records."""
    packet = a_packet()
    seconds = wire.now_us // 1_000_000
    rubbish = struct.pack("<IIII", 0xFFFFFFFF, 0, 0xFFFFFFFF, 0)
    likely = struct.pack("<IIII", seconds, 5, source.choice((8, 600, 0xFFFFF)), 0xFFFFF)
    count = source.choice((1, 20, 1_000))
    while wire.has_room:
        wire.packet(packet)
        wire.packet(packet)
        wire.raw(rubbish + likely * count)


def likely_records(source: random.Random, wire: Wire) -> None:
    """After one damaged record nothing but possible record times."""
    wire.packet(a_packet())
    seconds = wire.now_us // 1_000_000
    wire.raw(b"\xff" * 16)
    unit = struct.pack("<I", seconds) * source.choice((1, 4))
    unit += struct.pack("<III", 5, source.choice((4, 40, 0xFFFFF)), 0xFFFFF)
    while wire.has_room:
        wire.raw(unit * 1_000)


def records_of_nothing(source: random.Random, wire: Wire) -> None:
    """Packets without a byte, or a few that hold no packet."""
    size = source.choice((0, 3, 14, 40))
    while wire.has_room:
        wire.packet(bytes(size))


def tiny_blocks(source: random.Random, wire: Pcapng) -> None:
    """The smallest blocks there are, of kinds known and unknown."""
    kinds = source.choice(((0x0BAD,), (5,), (3, 6, 2), (99,), (10,)))
    while wire.has_room:
        wire.raw(b"".join(block(source.choice(kinds), b"") for _ in range(500)))


def many_interfaces(source: random.Random, wire: Pcapng) -> None:
    """The maximum of interfaces, and packets of each."""
    number = 0
    packet = a_packet()
    drops = block(5, struct.pack("<III", 0, 0, 0) + struct.pack("<HHQ", 5, 8, 9) + bytes(4))
    while wire.has_room:
        number += 1
        wire.raw(INTERFACE + enhanced(number, number, packet))
        if source.random() < 0.5:
            wire.raw(drops)


def many_sections(source: random.Random, wire: Pcapng) -> None:
    packet = a_packet()
    while wire.has_room:
        wire.raw(SECTION + INTERFACE * source.choice((1, 5)) + enhanced(0, 1, packet))


def garbage_between_blocks(source: random.Random, wire: Pcapng) -> None:
    """Blocks, then bytes that look like the types of blocks, with sizes that lie."""
    packet = a_packet()
    size = source.choice((28, 60, 0x10000, 0xFFFFFC))
    rubbish = source.choice((b"\xff" * 9, struct.pack("<II", 6, size) * 50, b"\n\r\r\n" * 40))
    number = 0
    while wire.has_room:
        number += 1
        wire.raw(enhanced(0, number, packet) + b"\xff\xff\xff\xff" * 3 + rubbish)


def likely_blocks(source: random.Random, wire: Pcapng) -> None:
    """After one damaged block nothing but types of blocks."""
    wire.raw(b"\xff" * 16)
    size = source.choice((6, 28, 0x10000, 0xFFFFFC))
    unit = struct.pack("<II", 6, size) + bytes(source.choice((0, 3)))
    while wire.has_room:
        wire.raw(unit * 1_000)


def many_secrets(source: random.Random, wire: Pcapng) -> None:
    """Secrets of sessions that do not come, in many blocks."""
    packet = a_packet()
    while wire.has_room:
        lines = b"".join(
            b"CLIENT_RANDOM " + source.randbytes(32).hex().encode() + b" " + b"ab" * 48 + b"\n"
            for _ in range(source.choice((1, 3)))
        )
        lines += bytes(-len(lines) % 4)
        wire.raw(block(10, struct.pack("<II", 0x544C534B, len(lines)) + lines))
        wire.raw(enhanced(0, 1, packet))


PCAPS = (damaged_records, likely_records, records_of_nothing)
PCAPNGS = (
    tiny_blocks, many_interfaces, many_sections, garbage_between_blocks, likely_blocks,
    many_secrets,
)  # fmt: skip
