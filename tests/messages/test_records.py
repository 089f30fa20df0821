"""Batches of magic 2 and their records: what is decoded, and the cost of a false value."""

import struct
from collections.abc import Sequence

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import DecompressionLimit
from kdissect.messages.batches import Batch, BatchScan, Record, RecordScan
from kdissect.messages.records import (
    DAMAGED_RECORD_LIMIT,
    OFFSET_MAX,
    check_crc,
    decode_records,
    read_records,
    scan_batches,
)
from tests.messages.record_builders import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    crc32c,
    make_batch,
    make_message,
    make_record,
    make_varint,
    make_wrapper,
    text_of,
)

TIME = 1_700_000_000_000
MAX_TIME = 1_700_000_000_999
CODECS = (0, GZIP, SNAPPY, LZ4, ZSTD)
TWO = (make_record(b"a", b"1"), make_record(b"b", b"2", offset_delta=1, time_delta=7))

HEADER_FIELDS = (
    "start", "end", "records_start", "compressed_size", "uncompressed_size", "magic", "attributes",
    "codec", "timestamp_type", "base_offset", "last_offset", "record_count", "base_time_ms",
    "max_time_ms", "producer_id", "producer_epoch", "base_sequence", "leader_epoch", "crc", "size",
    "is_transactional", "is_control", "has_delete_horizon",
)  # fmt: skip


def fields(batch: Batch) -> dict[str, object]:
    return {name: getattr(batch, name) for name in HEADER_FIELDS}


def only_batch(data: bytes) -> Batch:
    scan = scan_batches(data, 0, len(data))
    assert (scan.error, scan.partial_size, len(scan.batches)) == (None, 0, 1)
    return scan.batches[0]


def read(data: bytes) -> RecordScan:
    return read_records(data, only_batch(data))


def rows(records: Sequence[Record]) -> list[tuple[object, ...]]:
    return [
        (record.offset, record.time_ms, record.key(), record.value(), record.headers())
        for record in records
    ]


def assert_every_byte_is_counted(scan: BatchScan, size: int) -> None:
    assert sum(batch.size for batch in scan.batches) + scan.corrupt_size + scan.partial_size == size


# Scanning


def test_a_batch_has_every_field_of_its_header() -> None:
    data = make_batch(
        TWO, base_offset=40, producer=(4000, 3, 17), leader_epoch=5, attributes=0x08 | 0x10
    )
    assert fields(only_batch(data)) == {
        "start": 0, "end": len(data), "records_start": 61, "compressed_size": len(data) - 61,
        "uncompressed_size": len(data) - 61, "magic": 2, "attributes": 0x18, "codec": 0,
        "timestamp_type": 1, "base_offset": 40, "last_offset": 41, "record_count": 2,
        "base_time_ms": TIME, "max_time_ms": MAX_TIME, "producer_id": 4000, "producer_epoch": 3,
        "base_sequence": 17, "leader_epoch": 5, "crc": crc32c(data[21:]), "size": len(data),
        "is_transactional": True, "is_control": False, "has_delete_horizon": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "flags"),
    [(0x10, (True, False, False)), (0x20, (False, True, False)), (0x40, (False, False, True))],
)
def test_the_attributes_are_flags(attributes: int, flags: tuple[bool, bool, bool]) -> None:
    batch = only_batch(make_batch(TWO, attributes=attributes))
    assert (batch.is_transactional, batch.is_control, batch.has_delete_horizon) == flags


def test_a_compacted_batch_keeps_the_span_of_its_offsets() -> None:
    batch = only_batch(make_batch(TWO[1:], base_offset=100, last_offset_delta=9))
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (100, 109, 1)


def test_an_emptied_batch_is_a_batch() -> None:
    data = make_batch((), base_offset=100, last_offset_delta=9, base_time=-1)
    batch = only_batch(data)
    assert (batch.record_count, batch.base_time_ms, batch.last_offset) == (0, -1, 109)
    assert (read(data).records, read(data).error) == ([], None)


@pytest.mark.parametrize("sign", [1, -1])
def test_offsets_that_no_delta_can_be_added_to_are_no_offsets(sign: int) -> None:
    """One of them would be NULL, which means no offset."""
    limit = sign * int(OFFSET_MAX)
    batch = only_batch(make_batch(TWO, base_offset=limit))
    assert (batch.base_offset, batch.last_offset) == (limit, limit + 1)
    for offset in (limit + sign, sign << 62):
        data = make_batch(TWO, base_offset=offset)
        scan = scan_batches(data, 0, len(data))
        assert not scan.batches
        assert f"base offset {offset}" in str(scan.error)


def test_nothing_is_no_batches() -> None:
    scan = scan_batches(b"", 0, 0)
    assert (scan.batches, scan.partial_size, scan.error) == ([], 0, None)


def test_batches_lie_anywhere_in_the_bytes() -> None:
    field = make_batch(TWO) + make_batch(TWO, base_offset=2)
    scan = scan_batches(b"before" + field + b"after", 6, 6 + len(field))
    assert [(batch.start, batch.end, batch.base_offset) for batch in scan.batches] == [
        (6, 6 + len(field) // 2, 0),
        (6 + len(field) // 2, 6 + len(field), 2),
    ]
    assert rows(read_records(b"before" + field, scan.batches[1]).records)[1][0] == 3


def test_all_three_formats_stand_in_one_field() -> None:
    parts = [
        make_batch(TWO),
        make_message(0, b"x", offset=2),
        make_message(0, b"y", offset=3),
        make_message(1, b"z", offset=4),
        make_wrapper(1, GZIP, [make_message(1, b"w")], offset=5),
        make_message(1, b"z", offset=6),
        make_batch(TWO, base_offset=7, codec=ZSTD),
    ]
    data = b"".join(parts)
    scan = scan_batches(data, 0, len(data))
    assert [(batch.magic, batch.codec, batch.last_offset) for batch in scan.batches] == [
        (2, 0, 1), (0, 0, 3), (1, 0, 4), (1, GZIP, 5), (1, 0, 6), (2, ZSTD, 8),
    ]  # fmt: skip
    assert [check_crc(data, batch) for batch in scan.batches] == [True] * 6
    assert_every_byte_is_counted(scan, len(data))


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_an_entry_cut_anywhere_is_partial_and_no_error(magic: int) -> None:
    first = make_batch(TWO)
    second = make_batch(TWO) if magic == 2 else make_message(magic, b"value")
    for size in range(len(second)):
        scan = scan_batches(first + second, 0, len(first) + size)
        assert (len(scan.batches), scan.partial_size, scan.error) == (1, size, None)


@pytest.mark.parametrize("size", [-0x80000000, -1, 0, 13])
def test_a_size_that_no_entry_has_ends_the_scan(size: int) -> None:
    first = make_batch(TWO)
    data = first + struct.pack(">qi", 2, size) + bytes(60)
    scan = scan_batches(data, 0, len(data))
    assert text_of(scan.error) == f"entry of {size} bytes, the smallest has 14"
    assert (len(scan.batches), scan.corrupt_size, scan.partial_size) == (1, 72, 0)


@pytest.mark.parametrize(
    ("at", "bad", "message"),
    [
        (16, b"\x03", "unknown magic 3"),
        (16, b"\xff", "unknown magic 255"),
        (0, b"\x7f" + b"\xff" * 7, "base offset 9223372036854775807"),
        (57, b"\xff" * 4, "-1 records in 16 bytes"),
        (57, b"\x00\x00\x00\x11", "17 records in 16 bytes"),
        (57, b"\x7f\xff\xff\xff", "2147483647 records in 16 bytes"),
    ],
)
def test_a_corrupt_entry_is_lost_alone(at: int, bad: bytes, message: str) -> None:
    good = make_batch([make_record(b"a", b"1"), make_record()])
    data = good + good[:at] + bad + good[at + len(bad) :] + good
    scan = scan_batches(data, 0, len(data))
    assert [batch.start for batch in scan.batches] == [0, 2 * len(good)]
    assert (text_of(scan.error), scan.corrupt_size) == (message, len(good))
    assert scan.error is not None
    assert scan.error.offset == len(good)


def test_a_batch_smaller_than_its_header_is_corrupt() -> None:
    short = make_batch(TWO)[:60]
    short = short[:8] + struct.pack(">i", 48) + short[12:]
    scan = scan_batches(short, 0, 60)
    assert text_of(scan.error) == "record batch of 60 bytes, its header alone has 61"


# Checksums


def test_crc_32c_of_the_standards_check_value() -> None:
    assert google_crc32c.value(b"123456789") == crc32c(b"123456789") == 0xE3069283


def test_the_hardware_library_is_the_one_in_use() -> None:
    assert google_crc32c.implementation == "c"


def test_a_changed_byte_after_the_checksum_is_noticed_one_before_it_is_not() -> None:
    data = make_batch(TWO)
    for at in range(len(data)):
        if 8 <= at < 12 or at in (16, *range(57, 61)):
            continue  # another size, magic or count: another batch, or none
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        batch = scan_batches(changed, 0, len(changed)).batches[0]
        assert check_crc(changed, batch) is (at < 17)


# Records


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_out_of_every_codec(codec: int) -> None:
    records = [
        make_record(b"key", b"value" * 100, headers=[(b"trace", b"\x01"), (b"trace", None)]),
        make_record(None, b"", offset_delta=1, time_delta=-1),
        make_record(b"", None, offset_delta=5, time_delta=300, headers=[(b"", b"")]),
    ]
    data = make_batch(records, codec=codec, base_offset=1 << 40, last_offset_delta=5)
    batch = only_batch(data)
    scan = read_records(data, batch)
    assert rows(scan.records) == [
        (1 << 40, TIME, b"key", b"value" * 100, [(b"trace", b"\x01"), (b"trace", None)]),
        ((1 << 40) + 1, TIME - 1, None, b"", []),
        ((1 << 40) + 5, TIME + 300, b"", None, [(b"", b"")]),
    ]
    assert [(record.key_size, record.value_size) for record in scan.records] == [
        (3, 500), (-1, 0), (0, -1),
    ]  # fmt: skip
    assert [record.header_count for record in scan.records] == [2, 0, 1]
    assert (scan.lost_count, scan.error) == (0, None)
    assert batch.uncompressed_size == len(b"".join(records))


def test_log_append_time_is_every_records_time() -> None:
    data = make_batch(TWO, attributes=0x08)
    assert [record.time_ms for record in read(data).records] == [MAX_TIME, MAX_TIME]


def test_with_a_delete_horizon_times_still_count_from_the_base() -> None:
    data = make_batch(TWO, attributes=0x40, base_time=5_000)
    assert [record.time_ms for record in read(data).records] == [5_000, 5_007]


@pytest.mark.parametrize(
    ("delta", "time"),
    [(0, 1000), (-(2**63), 1000 - 2**63), (2**63 - 1001, 2**63 - 1), (-(2**31), 1000 - 2**31)],
)
def test_times_reach_to_the_ends_of_64_bits(delta: int, time: int) -> None:
    data = make_batch([make_record(time_delta=delta)], base_time=1000)
    assert [record.time_ms for record in read(data).records] == [time]


@pytest.mark.parametrize(("base", "delta"), [(1000, 2**63 - 1000), (-1000, 999 - 2**63)])
def test_a_time_past_64_bits_loses_its_record(base: int, delta: int) -> None:
    data = make_batch([make_record(time_delta=delta), TWO[1]], base_time=base)
    scan = read(data)
    assert [record.offset for record in scan.records] == [1]
    assert text_of(scan.error) == f"time {base} + {delta} is past the end of time"


@pytest.mark.parametrize("delta", [-(2**31), 2**31 - 1])
def test_offsets_reach_to_the_ends_of_32_bits(delta: int) -> None:
    data = make_batch([make_record(offset_delta=delta)], base_offset=2**40)
    assert [record.offset for record in read(data).records] == [2**40 + delta]


def damaged(body: bytes) -> bytes:
    """A record of `body`, which may be anything."""
    return make_varint(len(body)) + body


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (damaged(b""), "varint goes on past the end"),
        (damaged(b"\x00\x00\x00\x01\x01"), "varint goes on past the end"),
        (make_record(b"a", b"1", extra=b"??"), "2 bytes after the last header"),
        (damaged(b"\x00\x00\x00\x03\x01\x00"), "-2 bytes, 2 left"),
        (damaged(b"\x00\x00\x00\x06ab\x01"), "varint goes on past the end"),
        (damaged(b"\x00\x00\x00\x08ab\x01"), "4 bytes, 3 left"),
        (damaged(b"\x00\x00\x00\x01\x7e"), "63 bytes, 0 left"),
        (damaged(b"\x00\x00\x00\x01\x01\x01"), "-1 headers in 0 bytes"),
        (damaged(b"\x00\x00\x00\x01\x01\x04\x00\x00\x00"), "2 headers in 3 bytes"),
        (damaged(b"\x00\x00\x00\x01\x01\x02\x01\x00"), "header without a name"),
        (damaged(b"\x00\x00\x00\x01\x01\x02\x04\x00"), "2 bytes, 1 left"),
        (damaged(b"\x00" + b"\x80" * 10 + b"\x00" * 5), "varlong of more than 64 bits"),
        (damaged(b"\x00" + b"\xff" * 9 + b"\x02" + b"\x00" * 4), "varlong of more than 64 bits"),
        (damaged(b"\x00\x00" + b"\x80" * 5 + b"\x00" * 4), "varint does not fit 32 bits"),
        (damaged(b"\x00\x00\xff\xff\xff\xff\x1f\x01\x01\x00"), "varint does not fit 32 bits"),
    ],
)
def test_a_damaged_record_is_lost_alone(record: bytes, message: str) -> None:
    scan = read(make_batch([TWO[0], record, make_record(b"c", offset_delta=2)]))
    assert [record.key() for record in scan.records] == [b"a", b"c"]
    assert (scan.lost_count, text_of(scan.error)) == (1, message)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (make_varint(-1), "record of -1 bytes, 9 left"),
        (make_varint(10), "record of 10 bytes, 9 left"),
        (make_varint(2**31 - 1), "record of 2147483647 bytes, 9 left"),
        (b"\xff\xff\xff\xff\xff\x01", "varint does not fit 32 bits"),
    ],
)
def test_a_record_whose_size_lies_loses_the_rest_of_the_batch(size: bytes, message: str) -> None:
    scan = read(make_batch([TWO[0], size, TWO[1]]))
    assert len(TWO[1]) == 9
    assert [record.key() for record in scan.records] == [b"a"]
    assert (scan.lost_count, text_of(scan.error)) == (2, message)


def test_fewer_records_than_declared_are_lost() -> None:
    scan = read(make_batch(TWO, codec=GZIP, record_count=5))
    assert [record.key() for record in scan.records] == [b"a", b"b"]
    assert (scan.lost_count, text_of(scan.error)) == (3, "varint goes on past the end")


def test_bytes_after_the_declared_records_are_an_error() -> None:
    scan = read(make_batch(TWO, record_count=1))
    assert [record.key() for record in scan.records] == [b"a"]
    assert (scan.lost_count, text_of(scan.error)) == (0, f"{len(TWO[1])} bytes after 1 records")


def test_a_batch_that_does_not_unpack_loses_all_its_records() -> None:
    scan = read(make_batch(TWO, codec=GZIP, packed=b"no gzip"))
    assert (scan.records, scan.lost_count) == ([], 2)
    assert text_of(scan.error).startswith("gzip: ")


def test_a_batch_that_unpacks_to_too_much_is_an_error() -> None:
    data = make_batch([make_record(value=bytes(100_000))], codec=GZIP)
    scan = read_records(data, only_batch(data), 1000)
    assert (scan.records, scan.lost_count) == ([], 1)
    assert isinstance(scan.error, DecompressionLimit)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_batch_of_an_unknown_codec_is_a_batch_without_records(codec: int) -> None:
    data = make_batch(TWO, codec=codec)
    assert (only_batch(data).codec, only_batch(data).uncompressed_size) == (codec, -1)
    assert text_of(read(data).error) == f"unknown codec {codec}"


def test_a_batch_of_nothing_but_damage_is_given_up() -> None:
    count = 10 * DAMAGED_RECORD_LIMIT
    scan = read(make_batch([bytes(7 * count)], record_count=count))
    assert (scan.records, scan.lost_count) == ([], count)
    assert text_of(scan.error) == "varint goes on past the end"


# Control batches and show


@pytest.mark.parametrize(
    ("key", "control_type"),
    [
        (b"\x00\x00\x00\x00", 0),
        (b"\x00\x00\x00\x01", 1),
        (b"\x00\x00\xff\xff", 0xFFFF),
        (b"\x00\x00\x00", -1),
        (None, -1),
    ],
)
def test_the_key_of_a_control_record_has_its_type(key: bytes | None, control_type: int) -> None:
    (record,) = read(make_batch([make_record(key, b"")], attributes=0x20)).records
    assert record.control_type() == control_type


def test_show_gets_a_whole_field_as_plain_values() -> None:
    commit = make_record(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07")
    strange = make_record(b"\x00\x00\x00\x63", b"", offset_delta=1)
    data = make_batch([commit, strange], attributes=0x30, base_offset=9, producer=(7, 0, -1))
    assert decode_records(data + data[:30]) == [
        {
            "magic": 2, "codec": "none", "size": len(data), "compressed_size": len(data) - 61,
            "uncompressed_size": len(data) - 61, "base_offset": 9, "last_offset": 10,
            "record_count": 2, "base_time_ms": TIME, "max_time_ms": MAX_TIME, "timestamp_type": 0,
            "crc": crc32c(data[21:]), "crc_ok": True, "attributes": 0x30, "leader_epoch": -1,
            "producer_id": 7, "producer_epoch": 0, "base_sequence": -1, "is_transactional": True,
            "is_control": True, "has_delete_horizon": False,
            "records": [
                {
                    "offset": 9, "time_ms": TIME, "key": b"\x00\x00\x00\x01",
                    "value": b"\x00\x00\x00\x00\x00\x07", "headers": [], "control_type": "COMMIT",
                },
                {
                    "offset": 10, "time_ms": TIME, "key": b"\x00\x00\x00\x63", "value": b"",
                    "headers": [], "control_type": 0x63,
                },
            ],
        },
        {"partial_size": 30},
    ]  # fmt: skip


def test_show_describes_corruption() -> None:
    bad = make_batch(TWO, codec=GZIP, packed=b"no gzip")
    decoded = decode_records(bad + bytes(40))
    assert [batch.get("error", "")[:4] for batch in decoded] == ["gzip", "entr"]
    assert (decoded[0]["records"], decoded[0]["lost_count"]) == ([], 2)
    assert decoded[1]["corrupt_size"] == 40


# Any records come back; any bytes give values or errors

optional_bytes = st.none() | st.binary(max_size=200)
int64 = st.integers(-(2**63), 2**63 - 1)


@given(
    st.sampled_from(CODECS),
    st.integers(0, 2**60),
    st.integers(0, 2**50),
    st.lists(
        st.tuples(
            st.integers(0, 2**31 - 1),
            st.integers(-(2**50), 2**50),
            optional_bytes,
            optional_bytes,
            st.lists(st.tuples(st.binary(max_size=20), optional_bytes), max_size=3),
        ),
        max_size=8,
    ),
)
def test_any_records_come_back(
    codec: int,
    base_offset: int,
    base_time: int,
    contents: list[tuple[int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]],
) -> None:
    records = [
        make_record(key, value, offset_delta=offset, time_delta=time, headers=headers)
        for offset, time, key, value, headers in contents
    ]
    data = make_batch(records, codec=codec, base_offset=base_offset, base_time=base_time)
    scan = read(data)
    assert rows(scan.records) == [
        (base_offset + offset, base_time + time, key, value, headers)
        for offset, time, key, value, headers in contents
    ]
    assert (scan.lost_count, scan.error) == (0, None)


def assert_values_or_errors(data: bytes) -> None:
    scan = scan_batches(data, 0, len(data))
    assert_every_byte_is_counted(scan, len(data))
    for batch in scan.batches:
        check_crc(data, batch)
        found = read_records(data, batch, 10_000)
        assert (found.lost_count == 0) or (found.error is not None)
        for record in found.records:
            assert len(record.headers()) == record.header_count
            assert len(record.key() or b"") == max(record.key_size, 0)
            assert len(record.value() or b"") == max(record.value_size, 0)
            record.control_type()
    decode_records(data, 10_000)


@given(st.binary(max_size=400))
def test_any_bytes_give_values_or_errors(data: bytes) -> None:
    assert_values_or_errors(data)


@given(st.binary(max_size=60), st.sampled_from(CODECS), st.integers(0, 8))
def test_any_record_bytes_give_values_or_errors(body: bytes, codec: int, count: int) -> None:
    assert_values_or_errors(make_batch([body], codec=codec, record_count=count))
    assert_values_or_errors(make_batch([], codec=codec, record_count=count, packed=body))


@given(
    st.sampled_from(
        [
            make_batch(TWO) * 2,
            make_batch(TWO, codec=GZIP) + make_batch(TWO, codec=SNAPPY),
            make_batch(TWO, codec=LZ4) + make_batch(TWO, codec=ZSTD),
            make_message(0, b"a", key=b"k") + make_message(1, b"b") * 3,
            make_wrapper(0, LZ4, [make_message(0, b"a")] * 3, offset=2),
            make_wrapper(1, SNAPPY, [make_message(1, b"a")] * 3, offset=2),
        ]
    ),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    st.integers(0, 400),
)
def test_any_changes_of_a_field_give_values_or_errors(
    field: bytes, changes: list[tuple[int, int]], size: int
) -> None:
    changed = bytearray(field)
    for at, byte in changes:
        changed[at % len(changed)] = byte
    assert_values_or_errors(bytes(changed))
    assert_values_or_errors(bytes(changed[:size]))
