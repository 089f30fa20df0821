"""Parts of a capture, as other taps would have seen it: one broker, one client, one direction.

Reads the pcapng that editcap wrote (one interface, little-endian) and writes some of its packets,
as they are or cut off.
"""

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.causes.table import View
from benchmarks.causes.truth import read_truth

ENHANCED_PACKET = 6
HEAD_SIZE = 28  # of an enhanced packet block, until the packet
ETHERNET_SIZE, IP_SIZE = 14, 20
IPV4 = b"\x08\x00"
TCP = 6
SNAPLEN = 200
SAMPLED = 10  # of so many packets one is lost


class Packet(NamedTuple):
    """A packet's block, and where it comes from and goes to: (address, port)s."""

    block: bytes
    number: int
    time_ns: int
    source: tuple[str, int]
    target: tuple[str, int]
    payload: bytes


Wanted = Callable[[Packet], bool]


def derive(capture: Path, view: View, names: dict[str, str]) -> Path:
    """Write a view of a capture beside it, with its truth."""
    kind, _, argument = view.kind.format(**names).partition(":")
    told = "-".join(re.findall(r"\w+", view.kind.format(**names | {"stem": ""})))
    made = capture.with_name(f"{capture.stem}-{told}.pcapng")
    truth = read_truth(capture)
    port = port_of(capture)
    made.write_bytes(KINDS[kind](capture, port, argument))
    truth.name, truth.view = made.stem, view.kind.format(**names)
    if view.ids is not None:
        # What names the cause in the whole is as true of a part that may not show it.
        truth.also = list(dict.fromkeys([*truth.also, *truth.ids]))
        truth.ids = list(view.ids)
    if view.entities is not None:
        truth.entities = [entity.format(**names) for entity in view.entities]
    truth.write(made)
    return made


def blocks_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and whole bytes of each block."""
    offset = 0
    while offset + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, offset)
        yield kind, data[offset : offset + length]
        offset += length


def packets_of(capture: Path) -> Iterator[Packet]:
    """The TCP packets over IPv4 of a capture."""
    number = 0
    for kind, block in blocks_of(capture.read_bytes()):
        if kind != ENHANCED_PACKET:
            continue
        number += 1
        high, low, captured, _ = struct.unpack_from("<IIII", block, 12)
        frame = block[HEAD_SIZE : HEAD_SIZE + captured]
        ip = frame[ETHERNET_SIZE:]
        if frame[12:14] != IPV4 or ip[9] != TCP:
            continue
        tcp = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4], "big")]
        source, target = struct.unpack_from(">HH", tcp)
        addresses = [".".join(map(str, ip[start : start + 4])) for start in (12, 16)]
        payload = tcp[(tcp[12] >> 4) * 4 :]
        yield Packet(
            *(block, number, high << 32 | low, (addresses[0], source), (addresses[1], target)),
            payload,
        )


def port_of(capture: Path) -> int:
    """The brokers' port: the one that most packets have."""
    counts: dict[int, int] = {}
    for packet in packets_of(capture):
        for port in (packet.source[1], packet.target[1]):
            counts[port] = counts.get(port, 0) + 1
    return max(counts, key=lambda port: counts[port])


def chosen(capture: Path, wanted: Wanted) -> bytes:
    """The capture with only the wanted packets."""
    heads = [block for kind, block in blocks_of(capture.read_bytes()) if kind != ENHANCED_PACKET]
    return b"".join([*heads, *(packet.block for packet in packets_of(capture) if wanted(packet))])


def one_direction(capture: Path, port: int, argument: str) -> bytes:
    """Only the clients' packets (`requests`) or only the brokers'."""
    to_broker = argument == "requests"
    return chosen(capture, lambda packet: (packet.target[1] == port) == to_broker)


def one_broker(capture: Path, port: int, argument: str) -> bytes:
    """View of a tap at one broker: its connections with clients and other brokers."""
    place = (argument, port)
    return chosen(capture, lambda packet: place in (packet.source, packet.target))


def one_client(capture: Path, port: int, argument: str) -> bytes:
    """Connections whose first request has this client id, or one that begins with it."""
    name, own = argument.encode(), set()
    decided = set()
    for packet in packets_of(capture):
        if packet.target[1] == port and packet.payload and packet.source not in decided:
            decided.add(packet.source)
            size = int.from_bytes(packet.payload[12:14], "big")
            if packet.payload[14 : 14 + size].startswith(name):
                own.add(packet.source)
    return chosen(capture, lambda packet: packet.source in own or packet.target in own)


def part(capture: Path, port: int, argument: str) -> bytes:
    """The part between two shares of the time: "0.5-1"."""
    del port
    times = [packet.time_ns for packet in packets_of(capture)]
    first, length = min(times), max(times) - min(times)
    start, end = (first + int(float(share) * length) for share in argument.split("-"))
    return chosen(capture, lambda packet: start <= packet.time_ns <= end)


def sampled(capture: Path, port: int, argument: str) -> bytes:
    """All but every tenth packet."""
    del port, argument
    return chosen(capture, lambda packet: packet.number % SAMPLED != 0)


def cut(capture: Path, port: int, argument: str) -> bytes:
    """Packets cut off after some bytes."""
    del port
    snaplen = int(argument or SNAPLEN)
    made = []
    for kind, block in blocks_of(capture.read_bytes()):
        if kind == ENHANCED_PACKET:
            captured, original = struct.unpack_from("<II", block, 20)
            kept = min(captured, snaplen)
            body = block[HEAD_SIZE : HEAD_SIZE + kept]
            body += bytes(-kept % 4)
            length = HEAD_SIZE + len(body) + 4
            head = block[:4] + struct.pack("<I", length) + block[8:20]
            head += struct.pack("<II", kept, original)
            block = head + body + struct.pack("<I", length)
        made.append(block)
    return b"".join(made)


KINDS: dict[str, Callable[[Path, int, str], bytes]] = {
    "direction": one_direction,
    "broker": one_broker,
    "client": one_client,
    "part": part,
    "sampled": sampled,
    "cut": cut,
}
