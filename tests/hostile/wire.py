"""Writes hostile captures of any size: packets by the ten thousand, field by field.

A `Wire` is a pcap file in the making with a size that its generator is to reach; a `Talk` is one
TCP connection on it. Nothing is checked: sequence numbers, lengths and times may lie.
"""

import random
import socket
import struct

from kdissect.packets.segment import ACK, PSH, SYN

START_US = 1_700_000_000_000_000
STEP_US = 10
ETHERNET = bytes(range(0x20, 0x2C)) + b"\x08\x00"
KNOWN_PORT = 9092
UNKNOWN_PORT = 7777
# Sizes from coalescing network cards to old modems.
SEGMENT_SIZES = (536, 1400, 1448, 8948, 30_000)


class Wire:
    """A pcap file of about `limit` bytes."""

    def __init__(self, limit: int, link_type: int = 1) -> None:
        self.limit = limit
        self.now_us = START_US
        self._parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 20, link_type)]
        self.size = len(self._parts[0])

    @property
    def has_room(self) -> bool:
        return self.size < self.limit

    @property
    def left(self) -> int:
        return max(0, self.limit - self.size)

    def raw(self, data: bytes) -> None:
        """Bytes of the file that are no record; nothing is added to a full one."""
        if self.has_room:
            self._parts.append(data)
            self.size += len(data)

    def packet(self, data: bytes, original_length: int = -1, step_us: int = STEP_US) -> None:
        self.now_us += step_us
        wire_length = len(data) if original_length < 0 else original_length
        seconds, fraction = divmod(self.now_us, 1_000_000)
        self.raw(struct.pack("<IIII", seconds, fraction, len(data), wire_length) + data)

    def file(self) -> bytes:
        return b"".join(self._parts)


class Talk:
    """One connection: `client` and `broker` send bytes in order, `segment` anything."""

    def __init__(
        self, wire: Wire, port: int = KNOWN_PORT, number: int = 0, opened: bool = False
    ) -> None:
        self.wire = wire
        self.ports = (10_000 + number % 50_000, port)
        self.addresses = (f"10.{number // 50_000 % 250}.0.1", "10.0.0.9")
        # Next sequence numbers of client and broker.
        self.next = [1_000, 70_000]
        self._ip_id = 0
        if opened:
            self.open()

    def open(self) -> None:
        self.segment(True, b"", self.next[0] - 1, flags=SYN)
        self.segment(False, b"", self.next[1] - 1, flags=SYN | ACK)
        self.segment(True, b"", self.next[0])

    def client(self, data: bytes, size: int = 1448) -> None:
        self.say(True, data, size)

    def broker(self, data: bytes, size: int = 1448) -> None:
        self.say(False, data, size)

    def say(self, is_client: bool, data: bytes, size: int = 1448) -> None:
        """The next bytes of a side, in segments of `size`."""
        side = 0 if is_client else 1
        for at in range(0, len(data), size):
            part = data[at : at + size]
            self.segment(is_client, part, self.next[side])
            self.next[side] = self.next[side] + len(part) & 0xFFFFFFFF

    def lose(self, is_client: bool, size: int) -> None:
        """Bytes that are not captured."""
        side = 0 if is_client else 1
        self.next[side] = self.next[side] + size & 0xFFFFFFFF

    def segment(
        self,
        is_client: bool,
        payload: bytes,
        sequence: int,
        flags: int = ACK | PSH,
        captured: int = 1 << 20,
        acknowledgment: int = -1,
        ip_id: int = -1,
        step_us: int = STEP_US,
    ) -> None:
        """One segment; of its payload the first `captured` bytes are in the file."""
        side = 0 if is_client else 1
        self._ip_id = self._ip_id % 0xFFFF + 1
        number = self.next[1 - side] if acknowledgment < 0 else acknowledgment
        tcp = struct.pack(
            ">HHIIBBHHH", self.ports[side], self.ports[1 - side], sequence & 0xFFFFFFFF, number,
            20 << 2, flags, 501, 0, 0,
        )  # fmt: skip
        packet = ETHERNET + ipv4(
            tcp + payload,
            self.addresses[side],
            self.addresses[1 - side],
            self._ip_id if ip_id < 0 else ip_id,
        )
        kept = len(packet) - len(payload) + min(captured, len(payload))
        self.wire.packet(packet[:kept], len(packet), step_us)


def ipv4(
    content: bytes, source: str, destination: str, ip_id: int, fragment: int = 0, protocol: int = 6
) -> bytes:
    """An IPv4 packet; `fragment` is the 16-bit field of flags and offset."""
    size = min(20 + len(content), 0xFFFF)
    header = struct.pack(">BBHHHBBH", 0x45, 0, size, ip_id, fragment, 64, protocol, 0)
    return header + socket.inet_aton(source) + socket.inet_aton(destination) + content


def sized(body: bytes) -> bytes:
    """A frame."""
    return struct.pack(">i", len(body)) + body


def request(key: int, version: int, number: int, client: bytes | None, body: bytes = b"") -> bytes:
    """A request frame with a header of version 1."""
    size = -1 if client is None else len(client)
    head = struct.pack(">hhih", key, version, number, size)
    return sized(head + (client or b"") + body)


def segment_size(source: random.Random) -> int:
    return source.choice(SEGMENT_SIZES)


def port_of(source: random.Random) -> int:
    return source.choice((KNOWN_PORT, UNKNOWN_PORT))
