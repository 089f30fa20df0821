"""Segments, fragments and connections that no honest network brings."""

import random
import struct

from kdissect.packets.segment import ACK, FIN, PSH, RST, SYN
from tests.hostile.wire import ETHERNET, Talk, Wire, ipv4, request, sized

FAR = 2_000_000
SECOND_US = 1_000_000


def backwards(source: random.Random, wire: Wire) -> None:
    """Segments in reverse order, the first of them last."""
    talk = Talk(wire, opened=True)
    size = source.choice((1, 7, 100))
    start = talk.next[0]
    count = wire.left // (70 + size)
    for number in range(count, -1, -1):
        talk.segment(True, bytes(size), start + number * size)


def first_one_missing(source: random.Random, wire: Wire) -> None:
    """All behind one hole."""
    talk = Talk(wire, opened=True)
    size = source.choice((1, 7, 100))
    talk.lose(True, 50)
    while wire.has_room:
        talk.client(bytes(size), size)


def every_other_missing(source: random.Random, wire: Wire) -> None:
    """Holes between all segments, and in front; nothing is acknowledged."""
    talk = Talk(wire, opened=True)
    talk.lose(True, 50)
    size = source.choice((1, 9))
    while wire.has_room:
        talk.client(bytes(size), size)
        talk.lose(True, size)


def shuffled(source: random.Random, wire: Wire) -> None:
    """Pieces of a few MB in any order, with holes."""
    talk = Talk(wire, opened=True)
    start = talk.next[0]
    while wire.has_room:
        at = source.randrange(1, FAR)
        talk.segment(True, bytes(source.choice((1, 3))), start + at)


def tiny_overlaps(source: random.Random, wire: Wire) -> None:
    """Each segment repeats all but a byte of the one before, behind a hole or not."""
    talk = Talk(wire, opened=True)
    if source.random() < 0.5:
        talk.lose(True, 9)
    size = source.choice((4, 50))
    start = talk.next[0]
    number = 0
    while wire.has_room:
        number += 1
        talk.segment(True, bytes(size), start + number)


def filled_by_large_ones(source: random.Random, wire: Wire) -> None:
    """Single bytes with holes between, then segments over all of them, most of it cut off."""
    talk = Talk(wire, opened=True)
    start = talk.next[0] + 50
    captured = source.choice((0, 20))
    half = wire.left // 2
    at = 0
    while wire.left > half:
        talk.segment(True, b"x", start + at)
        at += 2
    while wire.has_room:
        first = source.randrange(max(1, at))
        talk.segment(True, bytes(30_000), start + first, captured=captured)


def filled_whole(source: random.Random, wire: Wire) -> None:
    """The same with segments that were captured whole."""
    talk = Talk(wire, opened=True)
    start = talk.next[0] + 50
    while wire.has_room:
        base = source.randrange(FAR)
        for at in range(0, 400, 2):
            talk.segment(True, b"x", start + base + at)
        talk.segment(True, bytes(401), start + base)


def copies(source: random.Random, wire: Wire) -> None:
    """One packet again and again, as if captured twice."""
    talk = Talk(wire, opened=True)
    payload = request(12, 0, 1, b"c", b"\0\1g\0\0\0\1\0\1m")
    sequence = talk.next[0]
    ip_id = source.choice((0, 7))
    while wire.has_room:
        talk.segment(True, payload, sequence, ip_id=ip_id)


def sent_again_otherwise(source: random.Random, wire: Wire) -> None:
    """Retransmissions with other bytes."""
    talk = Talk(wire, opened=True)
    sequence = talk.next[0]
    talk.client(bytes(1448))
    while wire.has_room:
        talk.segment(True, source.randbytes(source.choice((1, 60, 1448))), sequence)


def acknowledged_ahead(source: random.Random, wire: Wire) -> None:
    """The other side acknowledges bytes that were never sent: holes given up immediately."""
    talk = Talk(wire, opened=True)
    step = source.choice((2, 1000))
    while wire.has_room:
        talk.lose(True, step)
        talk.segment(False, b"", talk.next[1], flags=ACK, step_us=30_000)
        talk.client(b"x")


def old_holes(source: random.Random, wire: Wire) -> None:
    """Many holes that grow too old together."""
    talk = Talk(wire, opened=True)
    while wire.has_room:
        for _ in range(200):
            talk.lose(True, 3)
            talk.client(b"xy")
        step = 31 * SECOND_US if source.random() < 0.1 else 10
        talk.segment(True, b"z", talk.next[0] + 5, step_us=step)


def syns(source: random.Random, wire: Wire) -> None:
    """A flood of SYNs."""
    del source
    number = 0
    while wire.has_room:
        talk = Talk(wire, number=number)
        talk.segment(True, b"", 1, flags=SYN)
        number += 1


def ports_used_again(source: random.Random, wire: Wire) -> None:
    """One connection after the other on the same ports."""
    while wire.has_room:
        talk = Talk(wire)
        talk.next = [source.randrange(1 << 32), source.randrange(1 << 32)]
        talk.open()
        talk.client(request(18, 0, 1, b"c"))


def half_requests(source: random.Random, wire: Wire) -> None:
    """Connections from before the capture, each with the beginning of a possible request."""
    number = 0
    body = source.choice((bytes(40), struct.pack(">ihhih", 5000, 3, 1, 1, 1) + b"c", bytes(13)))
    while wire.has_room:
        Talk(wire, number=number).client(body)
        number += 1


def closed_at_once(source: random.Random, wire: Wire) -> None:
    """Connections that end as they begin."""
    number = 0
    flags = source.choice((RST, FIN | ACK, SYN | FIN))
    while wire.has_room:
        talk = Talk(wire, number=number, opened=True)
        talk.segment(True, b"", talk.next[0], flags=flags)
        talk.segment(False, b"", talk.next[1], flags=flags)
        number += 1


def clock_that_jumps(source: random.Random, wire: Wire) -> None:
    """Times that go to the future and back, with many connections open."""
    step = source.choice((SECOND_US, 300 * SECOND_US))
    number = 0
    while wire.has_room:
        number += 1
        talk = Talk(wire, number=number)
        if number % 2:
            talk.segment(True, b"x", 5)
            continue
        talk.segment(True, b"", 5, flags=SYN, step_us=-20_000 * SECOND_US)
        wire.now_us += 20_000 * SECOND_US + step // 1000


def clock_to_and_fro(source: random.Random, wire: Wire) -> None:
    """A clock that is set back and forth repeatedly, over many open connections.

    Two packets of each time, so that it is no single wrong one; by less and more than the time
    after which silent or closed connections end.
    """
    # Drawn first, so that a larger capture of a seed is of the same kind.
    by = source.choice((2, 11, 290, 310, 4_000)) * SECOND_US
    is_alone = source.random() < 0.3
    half = wire.left // 2
    number = 0
    while wire.left > half:
        talk = Talk(wire, number=number, opened=True)
        if source.random() < 0.3:
            talk.segment(True, b"", talk.next[0], flags=RST)
        number += 1
    start = wire.now_us
    while wire.has_room:
        number += 1
        for _ in range(1 if is_alone else 2):
            Talk(wire, number=source.randrange(number)).segment(True, b"", 1_000, flags=ACK)
        wire.now_us = start + (by if number % 2 else 0) + number


def a_second_a_packet(source: random.Random, wire: Wire) -> None:
    """A pause between all packets, with connections that stay open."""
    step = source.choice((1, 2, 11)) * SECOND_US
    number = 0
    while wire.has_room:
        number += 1
        talk = Talk(wire, number=number % 5_000)
        talk.segment(True, b"", number, flags=ACK, step_us=step)


def far_segments(source: random.Random, wire: Wire) -> None:
    """Sequence numbers all over the place."""
    talk = Talk(wire, opened=True)
    while wire.has_room:
        talk.segment(True, bytes(9), source.randrange(1 << 32))


def repeated_acknowledgments(source: random.Random, wire: Wire) -> None:
    """The same acknowledgment on and on, and windows that open and close."""
    talk = Talk(wire, opened=True)
    talk.client(bytes(100))
    while wire.has_room:
        talk.segment(False, b"", talk.next[1], flags=ACK, acknowledgment=talk.next[0] - 50)
        talk.segment(True, b"", talk.next[0] - 1, flags=ACK, ip_id=source.randrange(1 << 16))


# IP fragments


def fragment(wire: Wire, ip_id: int, start: int, data: bytes, has_more: bool) -> None:
    field = (0x2000 if has_more else 0) | start // 8
    wire.packet(ETHERNET + ipv4(data, "10.0.0.1", "10.0.0.9", ip_id, field))


def tcp_of(size: int) -> bytes:
    """A TCP segment that fills an IP packet."""
    head = struct.pack(">HHIIBBHHH", 50_000, 9092, 1, 1, 20 << 2, ACK | PSH, 501, 0, 0)
    return head + sized(bytes(size))[: size - 20]


def fragments_of_eight_bytes(source: random.Random, wire: Wire) -> None:
    """Packets of 64 KB in fragments of 8 bytes: forwards, backwards, or the last one first."""
    whole = tcp_of(64_000)
    order = list(range(0, len(whole), 8))
    kind = source.choice(("forwards", "backwards", "last first", "shuffled"))
    if kind == "backwards":
        order.reverse()
    elif kind == "last first":
        order = [order[-1], *order[:-1]]
    elif kind == "shuffled":
        source.shuffle(order)
    ip_id = 0
    while wire.has_room:
        ip_id += 1
        for at in order:
            fragment(wire, ip_id & 0xFFFF, at, whole[at : at + 8], at + 8 < len(whole))
            if not wire.has_room:
                break


def fragments_without_end(source: random.Random, wire: Wire) -> None:
    """First fragments of packets that never come."""
    size = source.choice((8, 800))
    ip_id = 0
    while wire.has_room:
        ip_id += 1
        fragment(wire, ip_id & 0xFFFF, source.choice((0, 8)), bytes(size), True)


def fragments_that_overlap(source: random.Random, wire: Wire) -> None:
    """Fragments with holes between, and others over all of them, with most of it cut off."""
    del source
    ip_id = 1
    at = 0
    while wire.has_room:
        if at < 40_000:
            fragment(wire, ip_id, at, bytes(8), True)
            at += 16
            continue
        field = 0x2000 | 1
        data = ETHERNET + ipv4(bytes(48_000), "10.0.0.1", "10.0.0.9", ip_id, field)
        wire.packet(data[:60], len(data))


def tunnels(source: random.Random, wire: Wire) -> None:
    """IP in IP in IP, as deep as it goes, in fragments too."""
    inner = ipv4(tcp_of(60), "10.0.0.1", "10.0.0.9", 7)
    for _ in range(source.choice((3, 14, 40))):
        inner = ipv4(inner, "10.0.0.1", "10.0.0.9", 7, protocol=4)
    while wire.has_room:
        wire.packet(ETHERNET + inner)


SEGMENTS = (
    backwards, first_one_missing, every_other_missing, shuffled, tiny_overlaps,
    filled_by_large_ones, filled_whole, copies, sent_again_otherwise, acknowledged_ahead,
    old_holes, syns, ports_used_again, half_requests, closed_at_once, clock_that_jumps,
    clock_to_and_fro,
    a_second_a_packet, far_segments, repeated_acknowledgments, fragments_of_eight_bytes,
    fragments_without_end, fragments_that_overlap, tunnels,
)  # fmt: skip
