"""TLS and PROXY headers, as far as they look like it."""

import random
import struct

from tests.hostile.wire import Talk, Wire, port_of

HELLO = struct.pack(">H", 0x0303) + bytes(32) + b"\0" + b"\0\2\x13\x01" + b"\1\0" + b"\0\0"


def record(kind: int, body: bytes) -> bytes:
    return struct.pack(">BHH", kind, 0x0303, len(body)) + body


def handshake(kind: int, body: bytes) -> bytes:
    return record(22, struct.pack(">I", kind << 24 | len(body)) + body)


def client_hello(source: random.Random) -> bytes:
    return handshake(1, HELLO[:2] + source.randbytes(32) + HELLO[34:])


def server_hello(source: random.Random) -> bytes:
    return handshake(2, b"\3\3" + source.randbytes(32) + b"\0\x13\x01\0")


def tiny_tls_records(source: random.Random, wire: Wire) -> None:
    """A session of records of a byte or none, in segments of any size."""
    talk = Talk(wire, opened=True)
    talk.client(client_hello(source))
    if source.random() < 0.7:
        talk.broker(server_hello(source))
    unit = record(source.choice((20, 21, 22, 23)), b"" if source.random() < 0.5 else b"\1")
    size = source.choice((1, 3, 1448, 60_000))
    while wire.has_room:
        talk.client(unit * 300, size)
        talk.broker(unit * 300, size)


def a_record_byte_by_byte(source: random.Random, wire: Wire) -> None:
    """The largest records in the smallest segments."""
    talk = Talk(wire, opened=True)
    talk.client(client_hello(source))
    while wire.has_room:
        talk.client(record(23, bytes(16_384)), source.choice((1, 2)))


def long_handshakes(source: random.Random, wire: Wire) -> None:
    """Handshake messages as long as they may be, a byte in each record."""
    talk = Talk(wire, opened=True)
    talk.client(client_hello(source))
    size = source.choice((20, 1448))
    message = struct.pack(">I", 11 << 24 | 200_000)
    data = message + bytes(200_000)
    while wire.has_room:
        for at in range(0, len(data), 200):
            talk.broker(b"".join(record(22, data[n : n + 1]) for n in range(at, at + 200)), size)
            if not wire.has_room:
                break


def likely_headers(source: random.Random, wire: Wire) -> None:
    """From the middle of a session on: headers of records everywhere, that never fit."""
    talk = Talk(wire, port_of(source))
    talk.client(record(23, bytes(20)))
    talk.lose(True, 50_000)
    unit = struct.pack(">BHH", 23, 0x0303, source.choice((1, 3, 2_000, 0x4800)))
    unit += bytes(source.choice((0, 2)))
    size = source.choice((1, 50, 1448))
    while wire.has_room:
        talk.client(unit * 300, size)
        if source.random() < 0.3:
            talk.lose(True, 100)


def hellos(source: random.Random, wire: Wire) -> None:
    """A session on every connection, with unknown keys."""
    number = 0
    while wire.has_room:
        number += 1
        talk = Talk(wire, number=number, opened=True)
        talk.client(client_hello(source))
        talk.broker(server_hello(source) + record(20, b"\1") + record(23, bytes(40)))
        talk.client(record(23, bytes(40)))


def unended_proxy_headers(source: random.Random, wire: Wire) -> None:
    """PROXY headers whose end never arrives, in the smallest segments."""
    head = source.choice(
        (
            b"PROXY TCP4 " + b"1" * 200,
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x03\xff",
        )
    )
    number = 0
    size = source.choice((1, 2, 40))
    while wire.has_room:
        number += 1
        talk = Talk(wire, number=number, opened=True)
        talk.client(head, size)
        count = 0
        while wire.has_room and count < 65_000:
            talk.client(bytes(500), size)
            count += 500


ENVELOPED = (
    tiny_tls_records, a_record_byte_by_byte, long_handshakes, likely_headers, hellos,
    unended_proxy_headers,
)  # fmt: skip
