"""Bytes among which the start of a frame is searched: plausible everywhere, believable nowhere."""

import random
import struct

from tests.hostile.wire import KNOWN_PORT, Talk, Wire, port_of, request, segment_size, sized

PIECE = 30_000  # bytes sent in one go
# Requests with next to nothing in them: key, version, client, body.
SMALL_REQUESTS = (
    (18, 0, None, b""),  # ApiVersions v0
    (18, 2, None, b""),
    (18, 0, b"", b""),
    (16, 0, None, b""),  # ListGroups v0
    (3, 0, None, bytes(4)),  # Metadata v0
    (3, 1, b"c", b"\xff\xff\xff\xff"),
    (12, 0, b"a", b"\0\1g\0\0\0\1\0\1m"),  # Heartbeat v0
    (11, 9, b"", b""),  # JoinGroup without a body: cannot be
    (60, 0, None, b"\0\1\0"),
    (501, 0, b"q", b"xy"),
)


def repeat(talk: Talk, is_client: bool, unit: bytes, size: int) -> None:
    """The same bytes until the wire is full."""
    piece = unit * (PIECE // len(unit) + 1)
    while talk.wire.has_room:
        talk.say(is_client, piece, size)


def api_versions(source: random.Random, wire: Wire) -> None:
    """14 bytes of ApiVersions v0 again and again, on a connection opened before the capture."""
    del source
    repeat(Talk(wire), True, request(18, 0, 1, None)[:14].ljust(14, b"\0"), 1448)


def api_versions_without_client(source: random.Random, wire: Wire) -> None:
    """The 12 bytes that are all of one where the client id is left out."""
    repeat(Talk(wire, port_of(source)), True, sized(struct.pack(">hhi", 18, 0, 1) + b"\xff\xff"),
           segment_size(source))  # fmt: skip


def small_requests(source: random.Random, wire: Wire) -> None:
    """One small request of any API, ten to forty bytes of it, in either direction."""
    key, version, client, body = source.choice(SMALL_REQUESTS)
    unit = request(key, version, source.choice((0, 1, 1 << 20)), client, body)
    talk = Talk(wire, port_of(source))
    repeat(talk, source.random() < 0.7, unit, segment_size(source))


def mixed_requests(source: random.Random, wire: Wire) -> None:
    """Small requests of all kinds in a row, sizes that lie among them."""
    talk = Talk(wire, port_of(source))
    size = segment_size(source)
    while wire.has_room:
        units = []
        for _ in range(500):
            key, version, client, body = source.choice(SMALL_REQUESTS)
            unit = request(key, version, source.randrange(1 << 16), client, body)
            lie = struct.pack(">i", len(unit) - 4 + source.choice((0, 0, 0, 1, 14)))
            units.append(lie + unit[4:])
        talk.client(b"".join(units), size)


def zeros(source: random.Random, wire: Wire) -> None:
    talk = Talk(wire, port_of(source))
    repeat(talk, source.random() < 0.5, bytes(1), segment_size(source))


def zeros_on_an_unknown_port(source: random.Random, wire: Wire) -> None:
    del source
    repeat(Talk(wire, 7777), True, bytes(1), 1400)


def zeros_both_ways(source: random.Random, wire: Wire) -> None:
    talk = Talk(wire, port_of(source))
    size = segment_size(source)
    while wire.has_room:
        talk.client(bytes(8 * size), size)
        talk.broker(bytes(8 * size), size)


def growing_chains(source: random.Random, wire: Wire) -> None:
    """Headers that lead to each other, each frame a little larger than the one before."""
    talk = Talk(wire, port_of(source))
    size = segment_size(source)
    step = source.choice((1, 4, 12))
    number = 0
    while wire.has_room:
        number += 1
        body = bytes(number % 400 * step)
        talk.client(request(3, source.choice((0, 1, 4)), number, None, body), size)


def every_offset_a_start(source: random.Random, wire: Wire) -> None:
    """Headers of large frames, one every few bytes."""
    key, version = source.choice(((0, 0), (3, 1), (18, 0), (1, 4)))
    large = source.choice((5_000, 60_000, 0x40000, 0x60000))
    client = source.choice((b"", b"\xff\xff", b"\0\1c"))
    unit = struct.pack(">ihhi", large, key, version, source.randrange(256)) + client
    repeat(Talk(wire, port_of(source)), True, unit, segment_size(source))


def chains_that_meet(source: random.Random, wire: Wire) -> None:
    """Small frames of a few sizes at every fourth byte: chains that run into each other."""
    talk = Talk(wire, port_of(source))
    size = segment_size(source)
    while wire.has_room:
        units = []
        for _ in range(2_000):
            units.append(struct.pack(">ihh", source.choice((12, 16, 20, 28)), 18, 0))
        talk.client(b"".join(units), size)


def long_bodies(source: random.Random, wire: Wire) -> None:
    """Metadata requests inside each other, whose empty names can be read to the end."""
    unit = struct.pack(">ihhihi", 0x30000, 3, 1, 1, 0, 0x8000) + bytes(source.choice((2, 14, 46)))
    repeat(Talk(wire, port_of(source)), True, unit, segment_size(source))


def nested_strings(source: random.Random, wire: Wire) -> None:
    """Two-byte lengths that reach far: much is read for each guess."""
    unit = (
        struct.pack(">ihhih", 0x20000, 3, source.choice((0, 1)), 7, 0)
        + struct.pack(">i", 0x7FFF)
        + b"\0\2ab" * source.choice((1, 5, 20))
    )
    repeat(Talk(wire, port_of(source)), True, unit, segment_size(source))


def tiny_segments(source: random.Random, wire: Wire) -> None:
    """A byte or a few in each segment."""
    talk = Talk(wire, port_of(source))
    size = source.choice((1, 2, 5))
    unit = source.choice((bytes(1), request(18, 0, 1, None), b"\0\0\1\0\0\3\0\1"))
    piece = unit * (2_000 // len(unit) + 1)
    while wire.has_room:
        talk.client(piece, size)


def losses(source: random.Random, wire: Wire) -> None:
    """Every other segment is lost."""
    talk = Talk(wire, port_of(source))
    size = source.choice((20, 100, 1448))
    unit = source.choice((request(18, 0, 1, None), request(12, 0, 5, b"c", b"\0\1g"), bytes(9)))
    data = unit * (PIECE // len(unit))
    is_client = source.random() < 0.6
    while wire.has_room:
        for at in range(0, len(data), size):
            talk.say(is_client, data[at : at + size], size)
            talk.lose(is_client, size)


def found_and_lost(source: random.Random, wire: Wire) -> None:
    """Good frames, rubbish, good frames: the start is searched again and again."""
    talk = Talk(wire, opened=source.random() < 0.5)
    good = [request(12, 0, number, b"client", b"\0\1g\0\0\0\1\0\1m") for number in range(1, 18)]
    count = source.choice((1, 16, 17))
    rubbish = source.choice((b"\xff" * 5, b"\x7f\xff\xff\xff", b"\xff" * 900, bytes(3) + b"\xff"))
    size = segment_size(source)
    while wire.has_room:
        talk.client((b"".join(good[:count]) + rubbish) * 60, size)


def found_and_lost_in_one_segment(source: random.Random, wire: Wire) -> None:
    """The same in segments as large as they get."""
    talk = Talk(wire)
    good = [request(18, 0, number, b"c", b"") for number in range(1, 18)]
    unit = b"".join(good) + b"\xff" * source.choice((1, 4, 9))
    while wire.has_room:
        data = unit * (60_000 // len(unit))
        talk.client(data, len(data))


def asked(talk: Talk, numbers: list[int], key: int = 18, version: int = 0) -> None:
    """Requests that wait, in the order of their ids."""
    for number in numbers:
        talk.client(request(key, version, number, b"c", b""))


def answers_unaligned(source: random.Random, wire: Wire) -> None:
    """Plausible responses to the waiting requests, repeated after a loss."""
    talk = Talk(wire, opened=True)
    numbers = [source.choice((1, 1 << 16, 1 << 20)) + n for n in range(source.choice((1, 10, 70)))]
    asked(talk, numbers)
    talk.lose(False, 100)
    body = source.choice((b"\0\0\0\0\0\0", b"\0\x23\0\0\0\0", bytes(30)))
    units = [sized(struct.pack(">i", number) + body) for number in numbers]
    repeat(talk, False, b"".join(units), segment_size(source) - 1)


def answers_everywhere(source: random.Random, wire: Wire) -> None:
    """The id of a waiting request at every fourth byte, which reads as a size too."""
    talk = Talk(wire, opened=True)
    number = source.choice((16, 64, 4_096, 0x10000, 0x40000))
    asked(talk, [number] * source.choice((1, 2, 40)), *source.choice(((18, 0), (3, 1), (1, 4))))
    talk.lose(False, 33)
    repeat(talk, False, struct.pack(">i", number), segment_size(source))


def answers_alone(source: random.Random, wire: Wire) -> None:
    """Only the broker's side was captured: frames that may be responses of too many APIs."""
    talk = Talk(wire, port_of(source))
    size = source.choice((20, 60, 400, 1448))
    number = 0
    while wire.has_room:
        for _ in range(200):
            number += source.choice((1, 1, 1, 5000))
            talk.broker(sized(struct.pack(">i", number) + bytes(size - 8)), size)


def large_answers_alone(source: random.Random, wire: Wire) -> None:
    """The same, each segment the start of frames of many segments."""
    talk = Talk(wire, port_of(source))
    large = source.choice((5_000, 30_000, 100_000))
    number = 0
    while wire.has_room:
        number += 1
        head = struct.pack(">iiihi", large, number, 0, 0, source.choice((0, 5)))
        talk.broker(head + bytes(300 - len(head)), 300)


def mutated_captures(source: random.Random, wire: Wire) -> None:
    """Small exchanges with bytes changed, from the middle on."""
    talk = Talk(wire, source.choice((KNOWN_PORT, 7777)))
    rate = source.choice((50, 500))
    number = 0
    while wire.has_room:
        there, back = bytearray(), bytearray()
        for _ in range(50):
            number += 1
            there += request(12, 0, number, b"client", b"\0\1g\0\0\0\1\0\1m")
            back += sized(struct.pack(">ih", number, 0))
        for data in (there, back):
            for _ in range(len(data) // rate):
                data[source.randrange(len(data))] = source.choice((0, 1, 18, 255))
        talk.client(bytes(there), 700)
        talk.broker(bytes(back), 300)


SEARCHES = (
    api_versions, api_versions_without_client, small_requests, mixed_requests, zeros,
    zeros_on_an_unknown_port, zeros_both_ways, growing_chains, every_offset_a_start,
    chains_that_meet, long_bodies, nested_strings, tiny_segments, losses, found_and_lost,
    found_and_lost_in_one_segment, answers_unaligned, answers_everywhere, answers_alone,
    large_answers_alone, mutated_captures,
)  # fmt: skip
