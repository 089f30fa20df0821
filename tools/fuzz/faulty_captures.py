"""Fuzzing of whole captures that knows their structure: inputs are edits of a small clean capture.

    input = a byte that chooses the capture, then edits
    edit  = place, kind, where, value       (a byte each)

The place is a packet, segment or block of the capture; what kind, where and value do stands at
`edit_bytes` and `edit_segment`. So a mutation of the input is a flipped header field, a wrong
length, a jump of a sequence number, a lost or repeated packet, never only noise.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from io import BytesIO
from itertools import pairwise
from typing import Final

import kdissect
from kdissect.capture.packet import Packet
from kdissect.errors import CaptureError
from kdissect.packets.segment import ACK, FIN, PSH, RST, SYN
from kdissect.pipeline import Options
from kdissect.tables.schemas import TABLES
from tests.capture.writers import Captured, make_pcap, make_pcapng
from tests.conversation import Conversation, Sent, conversation
from tests.exchange_builders import request, response
from tests.messages.record_builders import make_batch, make_record
from tests.packets.builders import (
    BROKER,
    CLIENT,
    make_cooked,
    make_cooked2,
    make_ethernet,
    make_ipv4,
    make_ipv6,
    make_tcp,
)

EDITS: Final = 40  # of one input; more tell nothing new and take long
MARKS: Final = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 31)  # exponents of jumps
LAG_NS: Final = 1 << 60
FLAGS: Final = (SYN, ACK, FIN, RST, PSH, 0, SYN | ACK, FIN | ACK)


@dataclass
class Piece:
    """A part of a capture that edits may change; `lag_ns` comes on top of its time."""

    data: bytes
    time_ns: int = 0
    link_type: int = 1
    cut: int = 0
    lag_ns: int = 0


@dataclass
class Edited:
    """Segments with the fields that are not of `Sent`."""

    sent: Sent
    more_length: int = 0
    lag_ns: int = field(default=0)


def edits(data: bytes) -> Iterator[bytes]:
    """The edits of an input, after the byte that chooses."""
    for start, end in pairwise(range(1, min(len(data), 1 + 4 * EDITS) + 1, 4)):
        yield data[start:end]


def jump(value: int) -> int:
    """A distance: mostly small, sometimes of a power of two, either way."""
    size = value & 0x7F
    size = size if size < 64 else (1 << MARKS[size % len(MARKS)]) + (size >> 4 & 3) - 1
    return -size if value & 0x80 else size


def later(lag_ns: int, where: int, value: int) -> int:
    """The lag and some ns to minutes or years more or less; times stay within 64 bits."""
    return min(max(-LAG_NS, lag_ns + jump(where) * 1000 ** (value % 4)), LAG_NS)


@cache
def talk() -> Conversation:
    """Two connections' worth of messages: pipelined, large, with records, closed at the end."""
    batch = make_batch([make_record(b"key", b"value" * 20) for _ in range(3)])
    records = [{"name": "orders", "partition_data": [{"index": 0, "records": batch}]}]
    said = conversation()
    said = said.client(request("ApiVersions", 0, 1)).broker(response("ApiVersions", 0, 1))
    said = said.client(request("Metadata", 1, 2, topics=[{"name": "orders"}]))
    said = said.broker(response("Metadata", 1, 2))
    said = said.client(
        request("Produce", 3, 3, acks=1, topic_data=records), request("Heartbeat", 0, 4)
    )
    said = said.broker(response("Produce", 3, 3), response("Heartbeat", 0, 4))
    return said.split(120).close().port_reuse().client(request("Metadata", 1, 5))


@cache
def streams() -> tuple[tuple[Captured, ...], ...]:
    """The same segments in several wrappings, as captured packets."""
    inner = [
        (
            time_ns,
            make_tcp(
                sent.payload,
                *((50_000, 9092) if sent.is_client else (9092, 50_000)),
                sent.sequence,
                sent.acknowledgment,
                sent.flags,
                sent.window,
            ),
            sent.is_client,
        )
        for _, time_ns, sent in talk()._timed()
    ]
    return tuple(
        tuple(
            Captured(frame, time_ns)
            for time_ns, tcp, is_client in inner
            for frame in frames_of(wrap(tcp, is_client))
        )
        for _, wrap in WRAPPINGS
    )


def frames_of(wrapped: bytes | tuple[bytes, ...]) -> tuple[bytes, ...]:
    return (wrapped,) if isinstance(wrapped, bytes) else wrapped


def ipv4(tcp: bytes, is_client: bool) -> bytes:
    ends = (CLIENT, BROKER) if is_client else (BROKER, CLIENT)
    return make_ipv4(tcp, *ends)


def ipv6(tcp: bytes, is_client: bool) -> bytes:
    return make_ipv6(tcp, *(("::1", "::9") if is_client else ("::9", "::1")))


def udp(content: bytes, port: int) -> bytes:
    length = (8 + len(content)).to_bytes(2, "big")
    return b"\xc0\x00" + port.to_bytes(2, "big") + length + b"\0\0" + content


def vxlan(tcp: bytes, is_client: bool) -> bytes:
    header = b"\x08\0\0\0\0\0\x07\0"
    content = udp(header + make_ethernet(ipv4(tcp, is_client)), 4789)
    return make_ethernet(make_ipv4(content, protocol=17))


def geneve(tcp: bytes, is_client: bool) -> bytes:
    header = b"\x01\0\x65\x58\0\0\x07\0" + b"\0\x01\0\0"
    content = udp(header + make_ethernet(ipv4(tcp, is_client)), 6081)
    return make_ethernet(make_ipv4(content, protocol=17))


def gre(tcp: bytes, is_client: bool) -> bytes:
    return make_ethernet(make_ipv4(b"\x20\0\x08\0\0\0\0\x07" + ipv4(tcp, is_client), protocol=47))


def erspan(tcp: bytes, is_client: bool) -> bytes:
    header = b"\x10\0\x88\xbe\0\0\0\x01" + b"\x10\x01\0\x07\0\0\0\0"
    content = header + make_ethernet(ipv4(tcp, is_client))
    return make_ethernet(make_ipv4(content, protocol=47))


def nested(tcp: bytes, is_client: bool) -> bytes:
    return make_ethernet(make_ipv4(make_ipv6(ipv4(tcp, is_client), protocol=4), protocol=41))


def mpls(tcp: bytes, is_client: bool) -> bytes:
    return make_ethernet(b"\0\x01\x01\x40" + ipv4(tcp, is_client), ethertype=0x8847)


def pppoe(tcp: bytes, is_client: bool) -> bytes:
    content = ipv4(tcp, is_client)
    size = (2 + len(content)).to_bytes(2, "big")
    return make_ethernet(b"\x11\0\0\x07" + size + b"\0\x21" + content, ethertype=0x8864)


def hop_by_hop(tcp: bytes, is_client: bool) -> bytes:
    ends = ("::1", "::9") if is_client else ("::9", "::1")
    return make_ethernet(make_ipv6(b"\x06\0\x01\x04\0\0\0\0" + tcp, *ends, protocol=0))


def fragment(tcp: bytes, is_client: bool) -> bytes:
    ends = ("::1", "::9") if is_client else ("::9", "::1")
    return make_ethernet(make_ipv6(b"\x06\0\0\x01\0\0\0\x07" + tcp, *ends, protocol=44))


def fragments_v4(tcp: bytes, is_client: bool) -> tuple[bytes, ...]:
    """Fragments of 48 bytes of an IPv4 packet; each packet has an identification of its own."""
    ends = (CLIENT, BROKER) if is_client else (BROKER, CLIENT)
    number = zlib.crc32(tcp) & 0xFFFF
    return tuple(
        make_ethernet(
            make_ipv4(
                tcp[at : at + 48],
                *ends,
                fragment=at // 8 | (0x2000 if at + 48 < len(tcp) else 0),
                identification=number,
            )
        )
        for at in range(0, len(tcp), 48)
    )


def fragments_v6(tcp: bytes, is_client: bool) -> tuple[bytes, ...]:
    """The same of an IPv6 packet, with extension headers."""
    ends = ("::1", "::9") if is_client else ("::9", "::1")
    number = zlib.crc32(tcp).to_bytes(4, "big")
    return tuple(
        make_ethernet(
            make_ipv6(
                b"\x06\0"
                + (at | (at + 48 < len(tcp))).to_bytes(2, "big")
                + number
                + tcp[at : at + 48],
                *ends,
                protocol=44,
            )
        )
        for at in range(0, len(tcp), 48)
    )


def vxlan_fragments(tcp: bytes, is_client: bool) -> tuple[bytes, ...]:
    """Fragments inside a tunnel whose packets are fragmented, too."""
    return tuple(
        frame
        for inner in fragments_v4(tcp, is_client)
        for frame in fragments_of_udp(udp(b"\x08\0\0\0\0\0\x07\0" + inner, 4789))
    )


def fragments_of_udp(content: bytes) -> tuple[bytes, ...]:
    number = zlib.crc32(content) & 0xFFFF
    return tuple(
        make_ethernet(
            make_ipv4(
                content[at : at + 64],
                protocol=17,
                fragment=at // 8 | (0x2000 if at + 64 < len(content) else 0),
                identification=number,
            )
        )
        for at in range(0, len(content), 64)
    )


Wrap = Callable[[bytes, bool], bytes | tuple[bytes, ...]]
WRAPPINGS: Final[tuple[tuple[int, Wrap], ...]] = (
    (1, lambda tcp, is_client: make_ethernet(ipv4(tcp, is_client))),
    (1, lambda tcp, is_client: make_ethernet(ipv6(tcp, is_client))),
    (1, lambda tcp, is_client: make_ethernet(ipv4(tcp, is_client), vlans=((0x8100, 7),))),
    (113, lambda tcp, is_client: make_cooked(ipv4(tcp, is_client))),
    (276, lambda tcp, is_client: make_cooked2(ipv6(tcp, is_client))),
    (101, ipv4),
    (0, lambda tcp, is_client: b"\x02\0\0\0" + ipv4(tcp, is_client)),
    (1, vxlan),
    (1, geneve),
    (1, gre),
    (1, erspan),
    (1, nested),
    (1, mpls),
    (1, pppoe),
    (1, hop_by_hop),
    (1, fragment),
    (1, fragments_v4),
    (1, fragments_v6),
    (1, vxlan_fragments),
)


def edited_packets(data: bytes) -> list[Packet]:
    """Captured packets in one of the wrappings, after the edits of an input."""
    choice = data[0] % len(WRAPPINGS) if data else 0
    link_type = WRAPPINGS[choice][0]
    pieces = [Piece(one.data, one.time_ns, link_type) for one in streams()[choice]]
    for place, kind, where, value in edits(data):
        edit_bytes(pieces, place % max(len(pieces), 1), kind, where, value)
    return packets_of(pieces)


def edit_bytes(pieces: list[Piece], at: int, kind: int, where: int, value: int) -> None:
    """One edit of packets or blocks; `where` is an offset in the piece."""
    if not pieces:
        return
    piece = pieces[at]
    data = piece.data
    kind %= 12
    if kind < 3 and where < len(data):
        changed = (value, data[where] ^ value, (data[where] + jump(value)) & 0xFF)[kind]
        data = data[:where] + bytes([changed]) + data[where + 1 :]
    elif kind == 3:
        data = data[:where]
    elif kind == 4:
        data = data[: max(0, len(data) - value)]
    elif kind == 5:
        data = data[:where] + bytes([value]) * (value % 16) + data[where:]
    elif kind == 6:
        data = data[:where] + data[where + value % 32 :]
    elif kind == 10:
        piece.link_type = value if where & 1 else (0, 1, 12, 101, 113, 127, 228, 276)[value & 7]
    pieces[at] = replace(piece, data=data)
    if kind == 7:
        del pieces[at]
    elif kind == 8:
        pieces.insert((at + jump(value)) % (len(pieces) + 1), replace(piece))
    elif kind == 9:
        pieces.insert((at + jump(value)) % len(pieces), pieces.pop(at))
    elif kind == 10:
        pieces[at].cut += value
    elif kind == 11:
        pieces[at].lag_ns = later(piece.lag_ns, where, value)


def packets_of(pieces: list[Piece]) -> list[Packet]:
    return [
        Packet(
            number,
            piece.time_ns + piece.lag_ns,
            piece.link_type,
            piece.data,
            0,
            len(piece.data),
            len(piece.data) + piece.cut,
            number,
            0,
        )
        for number, piece in enumerate(pieces, 1)
    ]


def edited_segments(data: bytes) -> list[Packet]:
    """The segments of a conversation as packets, after the edits of an input."""
    shapes = (talk(), talk().split(7), talk().reorder(), talk().overlap(30))
    chosen = shapes[data[0] % len(shapes) if data else 0]
    sent = [Edited(one) for one in chosen.packets_sent]
    for place, kind, where, value in edits(data):
        edit_segment(sent, place % max(len(sent), 1), kind, where, value)
    pieces = []
    now = 1_700_000_000_000_000_000
    for one in sent:
        now = min(now + one.sent.gap_ns, 2 * LAG_NS)
        pieces.append(Piece(packet_of(one), now + one.lag_ns))
    return packets_of(pieces)


def edit_segment(segments: list[Edited], at: int, kind: int, where: int, value: int) -> None:
    """One edit of a segment's fields, or of the order of segments."""
    if not segments:
        return
    one = segments[at]
    sent = one.sent
    kind %= 12
    if kind == 0:
        sent = replace(sent, sequence=(sent.sequence + jump(value)) & 0xFFFFFFFF)
    elif kind == 1:
        sent = replace(sent, acknowledgment=(sent.acknowledgment + jump(value)) & 0xFFFFFFFF)
    elif kind == 2:
        sent = replace(sent, flags=FLAGS[value % len(FLAGS)] if where & 1 else value & 0x3F)
    elif kind == 3:
        sent = replace(sent, window=value if where & 1 else 0)
    elif kind == 4:
        sent = replace(sent, payload=sent.payload[: len(sent.payload) - value % 130])
    elif kind == 5:
        payload = bytearray(sent.payload)
        if where < len(payload):
            payload[where] = value
        sent = replace(sent, payload=bytes(payload))
    elif kind == 6:
        sent = replace(sent, gap_ns=max(0, later(0, where, value)))
    elif kind == 7 and where & 1:
        one.more_length += jump(value)
    elif kind == 7:
        sent = replace(sent, ip_id=value & 3)
    elif kind == 8:
        one.lag_ns = later(one.lag_ns, where, value)
    one.sent = sent
    if kind == 9:
        del segments[at]
    elif kind == 10:
        segments.insert((at + jump(value)) % (len(segments) + 1), replace(one))
    elif kind == 11:
        segments.insert((at + jump(value)) % len(segments), segments.pop(at))


def packet_of(one: Edited) -> bytes:
    """A segment as an Ethernet packet whose IP header may declare another length."""
    sent = one.sent
    ends = (50_000, 9092) if sent.is_client else (9092, 50_000)
    tcp = make_tcp(sent.payload, *ends, sent.sequence, sent.acknowledgment, sent.flags, sent.window)
    addresses = (CLIENT, BROKER) if sent.is_client else (BROKER, CLIENT)
    length = min(max(0, 20 + len(tcp) + one.more_length), 0xFFFF)
    packet = make_ipv4(tcp, *addresses, total_length=length, identification=sent.ip_id & 0xFFFF)
    return make_ethernet(packet)


@cache
def blocks() -> tuple[tuple[bytes, ...], ...]:
    """Capture files in their blocks or records."""
    packets = list(streams()[0])
    pcap = make_pcap(packets)
    records = [pcap[:24]]
    at = 24
    for one in packets:
        records.append(pcap[at : at + 16 + len(one.data)])
        at += 16 + len(one.data)
    found = [tuple(records)]
    for order, name in (("<", "little"), (">", "big")):
        pcapng = make_pcapng(packets, order)
        parts = []
        at = 0
        while at < len(pcapng):
            size = int.from_bytes(pcapng[at + 4 : at + 8], name)  # type: ignore[arg-type]
            parts.append(pcapng[at : at + size])
            at += size
        found.append(tuple(parts))
    return tuple(found)


def fuzz_blocks(data: bytes) -> None:
    """Edits of the blocks of a pcapng file or the records of a pcap file."""
    if not data:
        return
    pieces = [Piece(block) for block in blocks()[data[0] % 3]]
    for place, kind, where, value in edits(data):
        edit_bytes(pieces, place % max(len(pieces), 1), kind, where, value)
    raw = b"".join(piece.data for piece in pieces)
    try:
        run = kdissect.Run(BytesIO(raw), Options(tables=tuple(TABLES), payload=True))
        for _, batch in run:
            batch.validate(full=True)
    except CaptureError:
        return
    balance = run.balance
    accounted = balance.framed_bytes + balance.skipped_bytes + balance.duplicate_bytes
    assert accounted == balance.payload_bytes, balance
