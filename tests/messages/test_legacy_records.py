"""Message sets of magic 0 and 1: runs, wrappers, their offsets and times."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import DecompressionLimit
from kdissect.messages.batches import Batch
from kdissect.messages.records import check_crc, decode_records, read_records, scan_batches
from tests.messages.record_builders import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    compress,
    make_message,
    make_wrapper,
    text_of,
)

TIME = 1_400_000_000_000
APPEND = 0x08
LEGACY_CODECS = (GZIP, SNAPPY, LZ4)


def only_batch(data: bytes) -> Batch:
    scan = scan_batches(data, 0, len(data))
    assert (scan.error, scan.partial_size, len(scan.batches)) == (None, 0, 1)
    return scan.batches[0]


def offsets_of(data: bytes) -> list[int]:
    scan = read_records(data, only_batch(data))
    assert (scan.lost_count, scan.error) == (0, None)
    return [record.offset for record in scan.records]


def crc_of(message: bytes) -> int:
    (crc,) = struct.unpack_from(">I", message, 12)
    assert isinstance(crc, int)
    return crc


# Plain messages


def test_plain_messages_in_a_row_are_one_batch() -> None:
    parts = [make_message(1, b"x", offset=7 + n, time=TIME + (5, 9, 1)[n]) for n in range(3)]
    data = b"".join(parts)
    batch = only_batch(data)
    expected = {
        "start": 0, "end": len(data), "records_start": 0, "compressed_size": len(data),
        "uncompressed_size": len(data), "magic": 1, "attributes": 0, "codec": 0,
        "timestamp_type": 0, "base_offset": 7, "last_offset": 9, "record_count": 3,
        "base_time_ms": TIME + 5, "max_time_ms": TIME + 9, "producer_id": -1, "producer_epoch": -1,
        "base_sequence": -1, "leader_epoch": -1, "crc": crc_of(parts[0]),
    }  # fmt: skip
    assert {name: getattr(batch, name) for name in expected} == expected
    assert (batch.is_transactional, batch.is_control, batch.has_delete_horizon) == (False,) * 3


def test_messages_of_magic_0_have_no_time() -> None:
    data = make_message(0, b"value", key=b"key", offset=7)
    batch = only_batch(data)
    assert (batch.base_time_ms, batch.max_time_ms, batch.timestamp_type) == (-1, -1, -1)
    (record,) = read_records(data, batch).records
    assert (record.offset, record.time_ms, record.key(), record.value(), record.headers()) == (
        7, -1, b"key", b"value", [],
    )  # fmt: skip


def test_another_timestamp_type_or_magic_begins_another_batch() -> None:
    parts = [
        make_message(1, b"x"),
        make_message(1, b"x", attributes=APPEND),
        make_message(1, b"x", attributes=APPEND),
        make_message(0, b"x"),
    ]
    scan = scan_batches(b"".join(parts), 0, len(b"".join(parts)))
    assert [(batch.magic, batch.timestamp_type, batch.record_count) for batch in scan.batches] == [
        (1, 0, 1), (1, 1, 2), (0, -1, 1),
    ]  # fmt: skip


def test_a_corrupt_entry_ends_a_run() -> None:
    message = make_message(0, b"x")
    bad = message[:16] + b"\x09" + message[17:]
    data = message + message + bad + message
    scan = scan_batches(data, 0, len(data))
    assert [batch.record_count for batch in scan.batches] == [2, 1]
    assert (text_of(scan.error), scan.corrupt_size) == ("unknown magic 9", len(bad))


@pytest.mark.parametrize("magic", [0, 1])
def test_nulls_and_empties_differ(magic: int) -> None:
    data = make_message(magic, None) + make_message(magic, b"", key=b"")
    records = read_records(data, only_batch(data)).records
    assert [(record.key(), record.value()) for record in records] == [(None, None), (b"", b"")]


def test_a_message_of_magic_1_too_small_for_its_time_is_corrupt() -> None:
    data = struct.pack(">qiIbb", 0, 14, 0, 1, 0) + bytes(8)
    scan = scan_batches(data, 0, len(data))
    assert text_of(scan.error) == "message of 14 bytes, magic 1 needs 22"


def change(message: bytes, at: int, size: int) -> bytes:
    return message[:at] + struct.pack(">i", size) + message[at + 4 :]


@pytest.mark.parametrize(
    ("at", "size", "message"),
    [
        (18, -2, "key of -2 bytes, 6 left"),
        (18, 7, "key of 7 bytes, 6 left"),
        (18, 0x7FFFFFFF, "key of 2147483647 bytes, 6 left"),
        (25, -2, "value of -2 bytes, 3 left"),
        (25, 2, "value of 2 bytes, 3 left"),
        (25, 4, "value of 4 bytes, 3 left"),
        (25, -1, "value of -1 bytes, 3 left"),
    ],
)
def test_a_message_whose_sizes_lie_is_lost_alone(at: int, size: int, message: str) -> None:
    good = make_message(0, b"val", key=b"key")
    data = good + change(good, at, size) + good
    batch = only_batch(data)
    scan = read_records(data, batch)
    assert [record.start for record in scan.records] == [12, 2 * len(good) + 12]
    assert (batch.record_count, scan.lost_count, text_of(scan.error)) == (3, 1, message)


# Wrappers


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_is_one_batch_completed_by_its_content(magic: int, codec: int) -> None:
    inside = [make_message(magic, b"v%d" % n, offset=n, time=TIME + n) for n in range(3)]
    data = make_wrapper(magic, codec, inside, offset=2, time=TIME + 2)
    batch = only_batch(data)
    packed_size = len(data) - (26 if magic == 0 else 34)
    times = (-1, -1) if magic == 0 else (-1, TIME + 2)
    assert (batch.magic, batch.codec, batch.compressed_size) == (magic, codec, packed_size)
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (-1, 2, -1)
    assert (batch.base_time_ms, batch.max_time_ms) == times
    assert batch.uncompressed_size == (len(b"".join(inside)) if codec == SNAPPY else -1)
    assert check_crc(data, batch)
    scan = read_records(data, batch)
    assert [(record.offset, record.value()) for record in scan.records] == [
        (0, b"v0"), (1, b"v1"), (2, b"v2"),
    ]  # fmt: skip
    assert (batch.base_offset, batch.record_count) == (0, 3)
    assert batch.base_time_ms == (-1 if magic == 0 else TIME)
    assert batch.uncompressed_size == len(b"".join(inside))


def test_offsets_inside_magic_0_are_absolute() -> None:
    inside = [make_message(0, b"", offset=offset) for offset in (100, 103, 104)]
    assert offsets_of(make_wrapper(0, GZIP, inside, offset=104)) == [100, 103, 104]


def test_offsets_inside_magic_1_end_at_the_wrappers() -> None:
    inside = [make_message(1, b"", offset=offset) for offset in (0, 3, 4)]
    assert offsets_of(make_wrapper(1, GZIP, inside, offset=104)) == [100, 103, 104]


def test_a_wrapper_offset_of_0_leaves_the_offsets_as_they_are() -> None:
    inside = [make_message(1, b"", offset=offset) for offset in range(3)]
    assert offsets_of(make_wrapper(1, GZIP, inside, offset=0)) == [0, 1, 2]


def test_a_wrapper_offset_below_the_last_one_inside_is_corrupt() -> None:
    inside = [make_message(1, b"", offset=offset) for offset in range(3)]
    data = make_wrapper(1, GZIP, inside, offset=1)
    scan = read_records(data, only_batch(data))
    assert (scan.records, scan.lost_count) == ([], 3)
    assert text_of(scan.error) == "compressed message has offset 1, the last message inside 2"


def test_a_key_on_the_wrapper_changes_nothing() -> None:
    packed = compress(GZIP, make_message(1, b"v"))
    data = make_message(1, packed, key=b"key", attributes=GZIP, offset=9)
    assert offsets_of(data) == [9]


def test_log_append_time_of_the_wrapper_overrules_those_inside() -> None:
    inside = [make_message(1, b"", offset=n, time=TIME + n) for n in range(2)]
    data = make_wrapper(1, GZIP, inside, offset=1, attributes=APPEND, time=TIME + 99)
    batch = only_batch(data)
    assert [record.time_ms for record in read_records(data, batch).records] == [TIME + 99] * 2
    assert (batch.timestamp_type, batch.base_time_ms, batch.max_time_ms) == (
        1, TIME + 99, TIME + 99,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (make_message(1, None, attributes=GZIP), "compressed message without a value"),
        (change(make_message(1, b"abc", attributes=GZIP), 30, 4), "value of 4 bytes, 3 left"),
        (change(make_message(1, b"abc", attributes=GZIP), 26, -2), "key of -2 bytes, 3 left"),
        (change(make_message(1, b"abc", attributes=GZIP), 26, 4), "key of 4 bytes, 3 left"),
    ],
)
def test_a_wrapper_that_has_no_value_is_corrupt(message: bytes, reason: str) -> None:
    scan = scan_batches(message, 0, len(message))
    assert (scan.batches, scan.corrupt_size) == ([], len(message))
    assert text_of(scan.error) == reason


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (
            make_wrapper(1, GZIP, [make_message(1, b"")], offset=1),
            "compressed message inside a compressed message",
        ),
        (make_message(0, b"12345678", offset=1), "message of magic 0 among those of magic 1"),
        (struct.pack(">qiIbb", 1, 14, 0, 1, 0) + bytes(8), "message ends early"),
    ],
)
def test_invalid_message_in_a_wrapper_is_lost_alone(inner: bytes, reason: str) -> None:
    inside = [make_message(1, b"a"), inner, make_message(1, b"c", offset=2)]
    data = make_wrapper(1, GZIP, inside, offset=12)
    batch = only_batch(data)
    scan = read_records(data, batch)
    assert [(record.offset, record.value()) for record in scan.records] == [(10, b"a"), (12, b"c")]
    assert (batch.record_count, scan.lost_count, text_of(scan.error)) == (3, 1, reason)


@pytest.mark.parametrize("cut", [1, 20, 30])
def test_a_message_cut_off_in_a_wrapper_is_lost(cut: int) -> None:
    inside = make_message(0, b"a", offset=5) + make_message(0, b"value", offset=6)[:-cut]
    data = make_message(0, compress(GZIP, inside), attributes=GZIP, offset=6)
    scan = read_records(data, only_batch(data))
    assert [record.offset for record in scan.records] == [5]
    assert (scan.lost_count, text_of(scan.error)) == (1, "message ends early")


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_a_message_of_no_size_in_a_wrapper_loses_the_rest(size: int) -> None:
    inside = make_message(0, b"a") + change(make_message(0, b"b"), 8, size)
    data = make_message(0, compress(GZIP, inside), attributes=GZIP)
    scan = read_records(data, only_batch(data))
    assert (len(scan.records), text_of(scan.error)) == (1, "message ends early")


def test_zstd_is_not_of_the_old_formats() -> None:
    data = make_wrapper(1, ZSTD, [make_message(1, b"")], offset=0)
    scan = read_records(data, only_batch(data))
    assert text_of(scan.error) == "zstd in message format 1, which does not know it"


def test_a_wrapper_that_unpacks_to_too_much_is_an_error() -> None:
    data = make_wrapper(1, GZIP, [make_message(1, bytes(10_000))], offset=0)
    scan = read_records(data, only_batch(data), 1000)
    assert isinstance(scan.error, DecompressionLimit)


def test_a_wrapper_of_nothing_is_empty() -> None:
    data = make_wrapper(1, GZIP, [], offset=4)
    batch = only_batch(data)
    scan = read_records(data, batch)
    assert (scan.records, scan.error, batch.record_count) == ([], None, 0)


# Checksums and show


@pytest.mark.parametrize("magic", [0, 1])
def test_a_changed_byte_in_any_message_of_a_run_is_noticed(magic: int) -> None:
    parts = [make_message(magic, b"value", offset=n) for n in range(3)]
    data = b"".join(parts)
    assert check_crc(data, only_batch(data))
    for at in range(len(parts[0]), 2 * len(parts[0])):
        if at - len(parts[0]) < 12 or at - len(parts[0]) in (16, 17):
            continue  # an offset, which is not covered, or another size, magic or codec
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert not check_crc(changed, only_batch(changed))


def test_show_prints_the_fields_of_old_formats() -> None:
    data = make_message(0, b"v", key=b"k", offset=3)
    assert decode_records(data) == [
        {
            "magic": 0, "codec": "none", "size": 28, "compressed_size": 28,
            "uncompressed_size": 28, "base_offset": 3, "last_offset": 3, "record_count": 1,
            "base_time_ms": -1, "max_time_ms": -1, "timestamp_type": -1, "crc": crc_of(data),
            "crc_ok": True,
            "records": [
                {"offset": 3, "time_ms": -1, "key": b"k", "value": b"v", "headers": []}
            ],
        }
    ]  # fmt: skip


# Any messages come back

optional_bytes = st.none() | st.binary(max_size=100)


@given(
    st.sampled_from((0, 1)),
    st.sampled_from((0, *LEGACY_CODECS)),
    st.integers(0, 2**60),
    st.lists(
        st.tuples(optional_bytes, optional_bytes, st.integers(-1, 2**60)), min_size=1, max_size=6
    ),
)
def test_any_messages_come_back(
    magic: int, codec: int, base: int, contents: list[tuple[bytes | None, bytes | None, int]]
) -> None:
    is_relative = magic == 1 and codec != 0
    inside = [
        make_message(magic, value, key=key, offset=n if is_relative else base + n, time=time)
        for n, (key, value, time) in enumerate(contents)
    ]
    last = base + len(contents) - 1
    wrapper = make_wrapper(magic, codec, inside, offset=last) if codec else b"".join(inside)
    scan = read_records(wrapper, only_batch(wrapper))
    first = 0 if is_relative and last == 0 else base
    assert [
        (record.offset, record.time_ms, record.key(), record.value()) for record in scan.records
    ] == [
        (first + n, -1 if magic == 0 else time, key, value)
        for n, (key, value, time) in enumerate(contents)
    ]
    assert (scan.lost_count, scan.error) == (0, None)
