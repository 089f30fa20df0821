"""Message sets of 0.7 (seed 001, MESSAGE; facts section 4): both magics, codecs, positions."""

import gzip
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import DecompressionLimit
from kdissect.messages.batches import Budget, RecordScan
from kdissect.messages.message_set_values import decode_set
from kdissect.messages.message_sets import (
    INNER_WRAPPER_LIMIT,
    NESTING_LIMIT,
    check_set_crc,
    read_set,
    read_set_within,
    scan_set,
    set_end,
)
from tests.old_builders import GZIP, SNAPPY, message, wrapper

SOME = message(b"one") + message(b"") + message(b"three")


def read_all(data: bytes, position: int = 0, limit: int = 1 << 20) -> list[RecordScan]:
    scan = scan_set(data, 0, len(data), position)
    assert (scan.error, scan.partial_size) == (None, 0)
    return [read_set(data, batch, limit) for batch in scan.batches]


def values_of(data: bytes, position: int = 0) -> list[tuple[int, bytes | None]]:
    scans = read_all(data, position)
    assert [(scan.lost_count, scan.error) for scan in scans] == [(0, None)] * len(scans)
    return [(record.offset, record.value()) for scan in scans for record in scan.records]


def test_the_bytes_of_a_message_are_those_of_the_document() -> None:
    checksum = zlib.crc32(b"hi")
    assert message(b"hi") == struct.pack(">ibbI", 8, 1, 0, checksum) + b"hi"
    assert message(b"hi", magic=0) == struct.pack(">ibI", 7, 0, checksum) + b"hi"


def test_the_next_offset_is_the_offset_and_4_and_the_size() -> None:
    # 4 + 6 + payload each.
    assert values_of(SOME, position=1000) == [(1013, b"one"), (1023, b""), (1038, b"three")]
    (batch,) = scan_set(SOME, 0, len(SOME), 1000).batches
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (1000, 1038, 3)
    assert (batch.magic, batch.codec, batch.compressed_size) == (1, 0, 38)


def test_magic_0_has_no_attributes() -> None:
    old = message(b"one", magic=0) + message(b"two", magic=0)
    assert values_of(old) == [(12, b"one"), (24, b"two")]


def test_a_message_has_neither_key_nor_time_nor_headers() -> None:
    ((record,),) = [scan.records for scan in read_all(message(b"hi"))]
    assert (record.key(), record.time_ms, record.headers()) == (None, -1, [])


def test_runs_end_where_the_magic_changes() -> None:
    mixed = message(b"a", magic=0) + message(b"b") + message(b"c")
    found = scan_set(mixed, 0, len(mixed), 0).batches
    assert [(batch.magic, batch.record_count) for batch in found] == [(0, 1), (1, 2)]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
def test_all_messages_in_a_wrapper_have_the_offset_behind_it(codec: int) -> None:
    packed = wrapper(SOME, codec)
    end = 500 + len(packed)
    data = packed + message(b"next")
    assert values_of(data, position=500) == [
        (end, b"one"),
        (end, b""),
        (end, b"three"),
        (end + 14, b"next"),
    ]
    batch = scan_set(data, 0, len(data), 500).batches[0]
    assert (batch.codec, batch.base_offset, batch.last_offset) == (codec, 500, end)
    assert batch.record_count == -1
    read_set(data, batch)
    assert (batch.record_count, batch.uncompressed_size) == (3, len(SOME))


def test_the_codec_is_in_the_lowest_two_bits() -> None:
    packed = message(gzip.compress(SOME, mtime=0), codec=0xF0 - 0x100 | GZIP)
    assert [value for _, value in values_of(packed)] == [b"one", b"", b"three"]


def test_wrappers_in_wrappers_are_followed() -> None:
    inner = message(b"first") + wrapper(SOME, SNAPPY) + message(b"last")
    packed = wrapper(inner)
    expected = [b"first", b"one", b"", b"three", b"last"]
    assert values_of(packed) == [(len(packed), value) for value in expected]


def test_nesting_has_a_limit() -> None:
    data = message(b"x")
    for _ in range(NESTING_LIMIT):
        data = wrapper(data)
    assert values_of(data) == [(len(data), b"x")]
    (scan,) = read_all(wrapper(data))
    assert (scan.records, scan.lost_count) == ([], 0)
    assert str(scan.error) == "compressed more than 8 times over"


def test_wrappers_inside_one_have_a_limit() -> None:
    inner = wrapper(b"") * (INNER_WRAPPER_LIMIT + 1)
    (scan,) = read_all(wrapper(inner))
    assert str(scan.error) == "more than 1000 compressed messages in one"


def test_unpacking_has_a_limit_over_all_levels() -> None:
    inner = wrapper(message(bytes(600))) + wrapper(message(bytes(600)))
    (scan,) = read_all(wrapper(inner), limit=610 + len(inner))
    assert [record.value_size for record in scan.records] == [600]
    assert "unpacks to more than the limit" in str(scan.error)


def test_a_wrapper_that_does_not_unpack_has_a_reason() -> None:
    (scan,) = read_all(message(b"no gzip", codec=GZIP))
    assert (scan.records, scan.lost_count) == ([], 0)
    assert "gzip" in str(scan.error)


def test_the_checksum_is_of_the_payload_alone() -> None:
    data = message(b"good") + message(b"bad", crc=1) + wrapper(SOME)
    run, packed = scan_set(data, 0, len(data), 0).batches
    assert (check_set_crc(data, run), check_set_crc(data, packed)) == (False, True)
    other = bytearray(message(b"good"))
    other[5] = 0x40  # attributes do not count
    (batch,) = scan_set(bytes(other), 0, len(other), 0).batches
    assert check_set_crc(bytes(other), batch)


@pytest.mark.parametrize("kept", range(1, 14))
def test_the_last_message_of_a_fetch_may_be_cut_off(kept: int) -> None:
    data = SOME + message(b"lost")[:kept]
    scan = scan_set(data, 0, len(data), 0)
    assert (len(scan.batches), scan.partial_size, scan.corrupt_size) == (1, kept, 0)
    assert scan.error is None


@pytest.mark.parametrize("size", [-1, 0, 4, -(1 << 31)])
def test_a_size_below_the_smallest_message_ends_the_set(size: int) -> None:
    data = SOME + struct.pack(">i", size) + bytes(20)
    scan = scan_set(data, 0, len(data), 0)
    assert (len(scan.batches), scan.partial_size, scan.corrupt_size) == (1, 0, 24)
    assert scan.error is not None
    assert scan.error.message == f"message of {size} bytes, the smallest has 5"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (struct.pack(">ib", 9, 2) + bytes(8), "unknown magic 2"),
        (struct.pack(">ib", 5, 1) + bytes(4), "message of 5 bytes, magic 1 needs 6"),
        (message(b"", codec=3), "unknown codec 3"),
    ],
)
def test_a_message_that_does_not_hold_together_is_lost_alone(bad: bytes, reason: str) -> None:
    data = message(b"one") + bad + message(b"two")
    scan = scan_set(data, 0, len(data), 0)
    assert scan.error is not None
    assert (scan.error.message, scan.corrupt_size) == (reason, len(bad))
    assert [batch.last_offset for batch in scan.batches] == [13, 13 + len(bad) + 13]
    (inside,) = read_all(wrapper(data))
    assert [record.value() for record in inside.records] == [b"one", b"two"]
    assert inside.lost_count == 1


def test_damaged_messages_in_a_wrapper_have_a_limit() -> None:
    bad = struct.pack(">ib", 5, 7) + bytes(4)
    (scan,) = read_all(wrapper(bad * 1_001))
    assert (scan.lost_count, str(scan.error)) == (1_000, "unknown magic 7, byte 0 of 9009")


def test_positions_that_no_log_has_count_from_0() -> None:
    for position in (-1, (1 << 63) - 1):
        assert values_of(message(b"hi"), position) == [(12, b"hi")]


def test_a_set_without_a_size_ends_with_the_last_whole_message() -> None:
    # Seed 003, ProduceRequest: the length of a message_set is not stated.
    for after in (b"", struct.pack(">i", 1), struct.pack(">i", 77) + bytes(90), b"\0\0\0"):
        assert set_end(SOME + after, 0, len(SOME + after)) == len(SOME)
    wrong = message(b"x", crc=5)
    assert set_end(SOME + wrong, 0, len(SOME + wrong)) == len(SOME)


def test_a_whole_set_as_values() -> None:
    assert decode_set(message(b"hi") + b"\0\0\0", 7) == [
        {
            "magic": 1,
            "codec": "none",
            "size": 12,
            "compressed_size": 12,
            "uncompressed_size": 12,
            "base_offset": 7,
            "last_offset": 19,
            "record_count": 1,
            "crc": zlib.crc32(b"hi"),
            "crc_ok": True,
            "records": [{"offset": 19, "time_ms": -1, "key": None, "value": b"hi", "headers": []}],
        },
        {"partial_size": 3},
    ]


MESSAGES = st.builds(
    message, st.binary(max_size=20), st.sampled_from([0, 1]), st.sampled_from([0, 0, 0, 1, 2, 3])
)


@given(st.lists(MESSAGES | st.binary(max_size=12)).map(b"".join), st.integers(-(1 << 63), 1 << 62))
def test_any_bytes_give_values_and_every_byte_is_counted(data: bytes, position: int) -> None:
    scan = scan_set(data, 0, len(data), position)
    sizes = sum(batch.size for batch in scan.batches)
    assert sizes + scan.partial_size + scan.corrupt_size == len(data)
    for values in decode_set(data, position):
        assert values
    assert 0 <= set_end(data, 0, len(data)) <= len(data)


@given(st.lists(st.binary(max_size=40)), st.sampled_from([GZIP, SNAPPY]))
def test_message_sets_round_trip(payloads: list[bytes], codec: int) -> None:
    inner = b"".join(message(payload) for payload in payloads)
    assert [value for _, value in values_of(inner)] == payloads
    assert [value for _, value in values_of(wrapper(inner, codec))] == payloads


def test_too_many_messages_in_a_batch_are_refused() -> None:
    data = message(b"") * 5
    scan = read_set(data, scan_set(data, 0, len(data), 0).batches[0], 1 << 20, 3)
    assert (len(scan.records), scan.lost_count) == (3, 2)
    assert str(scan.error) == "more than 3 messages in a batch"


def test_sets_of_a_message_share_the_decompression_budget() -> None:
    data = wrapper(message(bytes(500))) * 3
    budget = Budget(1_100, 10)
    scans = [read_set_within(data, one, budget) for one in scan_set(data, 0, len(data), 0).batches]
    assert [len(scan.records) for scan in scans] == [1, 1, 0]
    assert isinstance(scans[2].error, DecompressionLimit)
    assert budget.size == 0
