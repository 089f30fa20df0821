"""Parts of a capture, like captures of fewer hosts or of less time: cut by dpkt, block by block.

Blocks of a pcapng file that are no packets (interfaces, TLS secrets) are in every part.
"""

import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import dpkt

from tests.seeds import SEED

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
LINKS = {
    0: dpkt.loopback.Loopback, 1: dpkt.ethernet.Ethernet, 101: dpkt.ip.IP, 113: dpkt.sll.SLL,
    276: dpkt.sll2.SLL2,
}  # fmt: skip
SYN, SYN_ACK = dpkt.tcp.TH_SYN, dpkt.tcp.TH_SYN | dpkt.tcp.TH_ACK
VXLAN_PORT, VXLAN_BYTES = 4789, 8

End = tuple[bytes, int]


class Block(NamedTuple):
    """A block of a pcapng file; `ends` are source and destination of a TCP packet."""

    data: bytes
    is_packet: bool = False
    ends: tuple[End, End] | None = None
    opens: bool = False  # the first SYN of a connection

    @property
    def connection(self) -> frozenset[End]:
        return frozenset(self.ends or ())


Wanted = Callable[[Block], bool]


def blocks_of(capture: Path) -> Iterator[Block]:
    data = capture.read_bytes()
    links: list[int] = []
    offset = 0
    while offset < len(data):
        kind, length = struct.unpack_from("<II", data, offset)
        block = data[offset : offset + length]
        offset += length
        if kind == SECTION:
            links.clear()
        elif kind == INTERFACE:
            links.append(struct.unpack_from("<H", block, 8)[0])
        if kind != PACKET:
            yield Block(block)
            continue
        interface, _, _, captured = struct.unpack_from("<IIII", block, 8)
        yield packet_block(block, block[28 : 28 + captured], links[interface])


def packet_block(block: bytes, packet: bytes, link: int) -> Block:
    layers = list(layers_of(packet, link))
    for ip, tcp in pairwise(layers):
        if isinstance(tcp, dpkt.tcp.TCP):
            ends = (ip.src, tcp.sport), (ip.dst, tcp.dport)
            return Block(block, True, ends, tcp.flags & SYN_ACK == SYN)
    return Block(block, True)


def layers_of(data: bytes, link: int) -> Iterator[dpkt.Packet]:
    try:
        layer = LINKS[link](data)
    except dpkt.UnpackError:
        return
    while isinstance(layer, dpkt.Packet):
        yield layer
        if isinstance(layer, dpkt.udp.UDP) and layer.dport == VXLAN_PORT:
            yield from layers_of(layer.data[VXLAN_BYTES:], 1)
            return
        layer = layer.data


class Parts:
    """The parts of a capture by name; brokers are the ends that are connected to."""

    def __init__(self, capture: Path) -> None:
        self.blocks = list(blocks_of(capture))
        self.packets = sum(block.is_packet for block in self.blocks)
        self.brokers = {block.ends[1] for block in self.blocks if block.opens and block.ends}
        seen = Counter(block.connection for block in self.blocks if block.ends)
        # The largest first.
        self.connections = [connection for connection, _ in seen.most_common()]

    def write(self, part: Path, wanted: Wanted) -> None:
        part.write_bytes(
            b"".join(block.data for block in self.blocks if not block.is_packet or wanted(block))
        )

    def to_broker(self, block: Block) -> bool:
        return bool(block.ends and block.ends[1] in self.brokers)

    def to_client(self, block: Block) -> bool:
        return bool(block.ends and block.ends[0] in self.brokers)

    def of(self, broker: End) -> Wanted:
        """Packets from or to a broker's address."""
        return lambda block: bool(block.ends and broker in block.ends)

    def only(self, connection: frozenset[End]) -> Wanted:
        return lambda block: block.connection == connection

    def tenth(self, is_last: bool) -> Wanted:
        """The first or the last tenth of the packets."""
        few = self.packets // 10
        return self.between(self.packets - few, self.packets) if is_last else self.between(0, few)

    def between(self, first: int, behind: int) -> Wanted:
        """The packets at these places."""
        packets = [block.data for block in self.blocks if block.is_packet]
        chosen = {id(data) for data in packets[first:behind]}
        return lambda block: id(block.data) in chosen


def drawn_part(capture: Path, place: Path) -> Path:
    """The whole capture, or packets of one broker, of some connections or of some time."""
    chance = random.Random(f"{SEED} {capture.name}")
    parts = Parts(capture)
    kinds: list[Any] = [None, None, parts.tenth(is_last=chance.random() < 0.5)]
    if parts.brokers:
        kinds.append(parts.of(chance.choice(sorted(parts.brokers))))
    some = {one for one in parts.connections if chance.random() < 0.6}
    kinds.append(lambda block: block.connection in some)
    first = chance.randrange(parts.packets)
    kinds.append(parts.between(first, first + parts.packets // 3))
    if (wanted := chance.choice(kinds)) is None:
        return capture
    parts.write(place / "part.pcapng", wanted)
    return place / "part.pcapng"
