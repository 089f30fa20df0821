"""Messages with false counts, lengths and nesting, or with as many as fit."""

import random
import struct

from tests.exchange_builders import request as built
from tests.exchange_builders import response as answered
from tests.hostile.wire import Talk, Wire, request, sized
from tests.messages.record_builders import (
    GZIP,
    make_batch,
    make_message,
    make_record,
    make_wrapper,
)

SMALLEST_RECORD = b"\x0c\x00\x00\x00\x01\x01\x00"
FRAME = 60_000  # bytes of one message, about


def produced(talk: Talk, number: int, log: bytes, version: int = 7) -> None:
    topic = {"name": "t", "partition_data": [{"index": 0, "records": log}]}
    talk.client(built("Produce", version, number, acks=1, topic_data=[topic]))
    talk.broker(answered("Produce", version, number))


def of(wire: Wire, unit: bytes, most: int = FRAME) -> bytes:
    """The unit as often as a frame, or the wire, has room for it."""
    return unit * max(1, min(most, wire.limit // 3) // len(unit))


def tiny_records(source: random.Random, wire: Wire) -> None:
    """Batches of the smallest records, counted rightly or not."""
    talk = Talk(wire, opened=True)
    lie = source.choice((0, 1, -1))
    number = 0
    while wire.has_room:
        number += 1
        records = [SMALLEST_RECORD] * (len(of(wire, SMALLEST_RECORD)) // len(SMALLEST_RECORD))
        produced(talk, number, make_batch(records, record_count=len(records) + lie))


def varints_that_lie(source: random.Random, wire: Wire) -> None:
    """Records of a byte, of nothing, or longer than there is."""
    talk = Talk(wire, opened=True)
    unit = source.choice((b"\x00", b"\x01", b"\x02\x00", b"\x80\x80\x80\x80\x01", b"\x0c\0\0\0\1"))
    number = 0
    while wire.has_room:
        number += 1
        body = of(wire, unit)
        produced(talk, number, make_batch([body], record_count=len(body)))


def headers_of_a_record(source: random.Random, wire: Wire) -> None:
    """Records with as many headers as fit, two bytes each."""
    talk = Talk(wire, opened=True)
    number = 0
    while wire.has_room:
        number += 1
        count = len(of(wire, b"\0\1")) // 2
        produced(talk, number, make_batch([make_record(headers=[(b"", None)] * count)]))
    del source


def many_batches(source: random.Random, wire: Wire) -> None:
    """Batches without records, or of one, in a row."""
    talk = Talk(wire, opened=True)
    unit = make_batch([] if source.random() < 0.5 else [SMALLEST_RECORD])
    number = 0
    while wire.has_room:
        number += 1
        produced(talk, number, of(wire, unit))


def old_messages(source: random.Random, wire: Wire) -> None:
    """Message sets of the smallest messages, magics in turn."""
    talk = Talk(wire, opened=True)
    unit = make_message(0, b"") + make_message(source.choice((0, 1)), b"")
    number = 0
    while wire.has_room:
        number += 1
        produced(talk, number, of(wire, unit), source.choice((0, 2)))


def wrappers(source: random.Random, wire: Wire) -> None:
    """Compressed message sets in each other, many in a row."""
    talk = Talk(wire, opened=True)
    unit = make_message(1, b"x")
    for _ in range(source.choice((1, 5))):
        unit = make_wrapper(1, GZIP, [unit] * source.choice((1, 20)), offset=0)
    number = 0
    while wire.has_room:
        number += 1
        produced(talk, number, of(wire, unit), 2)


def huge_counts(source: random.Random, wire: Wire) -> None:
    """Arrays that declare more elements than there are bytes, of any API."""
    talk = Talk(wire, opened=True)
    count = source.choice((0x7FFFFFFF, 1 << 24, 0x10000))
    number = 0
    while wire.has_room:
        number += 1
        key = source.choice((0, 1, 2, 3, 8, 9, 19, 20))
        body = struct.pack(">i", count) * (len(of(wire, bytes(4), 4_000)) // 4)
        talk.client(request(key, source.choice((0, 1, 2)), number, b"c", body))
        talk.broker(sized(struct.pack(">i", number) + body))


def many_names(source: random.Random, wire: Wire) -> None:
    """Metadata with as many topics as fit, of short names or none, all different or the same."""
    talk = Talk(wire, opened=True)
    same = source.random() < 0.5
    number = 0
    while wire.has_room:
        number += 1
        count = len(of(wire, bytes(12))) // 12
        names = ["t" if same else f"{number}-{n}" for n in range(count)]
        talk.client(built("Metadata", 1, number, topics=[{"name": name} for name in names]))
        topics = [{"name": name, "error_code": 3} for name in names]
        talk.broker(answered("Metadata", 1, number, topics=topics))


def topics_in_turn(source: random.Random, wire: Wire) -> None:
    """Two topics in turn, a partition each: each change is another topic of the message."""
    talk = Talk(wire, opened=True)
    number = 0
    while wire.has_room:
        number += 1
        count = max(1, len(of(wire, bytes(40))) // 40)
        one = [{"partition_index": 1, "committed_offset": 5}]
        topics = [{"name": "ab"[n % 2], "partitions": one} for n in range(count)]
        talk.client(built("OffsetCommit", 2, number, group_id="g", topics=topics))
        rows = [{"name": "ba"[n % 2], "partitions": [{"partition_index": 1}]} for n in range(count)]
        talk.broker(answered("OffsetCommit", 2, number, topics=rows))
    del source


def members(source: random.Random, wire: Wire) -> None:
    """A group of many members with identical metadata."""
    talk = Talk(wire, opened=True)
    number = 0
    while wire.has_room:
        number += 1
        count = max(1, len(of(wire, bytes(30), 20_000)) // 30)
        talk.client(built("JoinGroup", 2, number, group_id="g", protocol_type="consumer",
                          protocols=[{"name": "range", "metadata": b"\0\0"}]))  # fmt: skip
        joined = [{"member_id": f"m{n}", "metadata": source.randbytes(9)} for n in range(count)]
        talk.broker(answered("JoinGroup", 2, number, protocol_name="range", leader="m1",
                             member_id="m1", members=joined))  # fmt: skip


def tags(source: random.Random, wire: Wire) -> None:
    """Unknown tagged fields, as many as fit."""
    talk = Talk(wire, opened=True)
    number = 0
    unit = source.choice((b"\x90\x4e\x00", b"\x00\x00"))
    while wire.has_room:
        number += 1
        body = of(wire, unit, 30_000)
        count = len(body) // len(unit)
        many = bytes((count & 127 | 128, count >> 7 & 127 | 128, count >> 14))
        talk.client(request(12, 4, number, b"c", many + body + bytes(9)))
        talk.broker(sized(struct.pack(">i", number) + many + body + bytes(9)))


def errors(source: random.Random, wire: Wire) -> None:
    """An error for each of many entities."""
    talk = Talk(wire, opened=True)
    number = 0
    code = source.choice((3, 29, 32_000))
    while wire.has_room:
        number += 1
        count = max(1, len(of(wire, bytes(20))) // 20)
        groups = [{"group_id": f"g{n}", "error_code": code} for n in range(count)]
        talk.client(built("DeleteGroups", 0, number, groups_names=[f"g{n}" for n in range(count)]))
        talk.broker(answered("DeleteGroups", 0, number, results=groups))


MESSAGES = (
    tiny_records, varints_that_lie, headers_of_a_record, many_batches, old_messages, wrappers,
    huge_counts, many_names, topics_in_turn, members, tags, errors,
)  # fmt: skip
