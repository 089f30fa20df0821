"""Records packed into columns: the same as records read one by one, or none of them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.messages.batches import Batch, Budget
from kdissect.messages.record_columns import RecordColumns, ns_of_ms, pack_records, read_longer
from kdissect.messages.records import pack_within, read_records, read_within, scan_batches
from tests.messages.record_builders import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    make_batch,
    make_message,
    make_record,
    make_varint,
)

TWO = (make_record(b"a", b"1"), make_record(b"b", None, offset_delta=1, time_delta=7))
Row = tuple[int, ...]


def only_batch(data: bytes) -> Batch:
    (batch,) = scan_batches(data, 0, len(data)).batches
    return batch


def numbers(packed: bytes, width: str) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // struct.calcsize(width)}{width}", packed)


def rows(columns: RecordColumns) -> list[Row]:
    wide = [numbers(column.getvalue(), "q") for column in (columns.offsets, columns.times)]
    sizes = (columns.key_sizes, columns.value_sizes, columns.header_counts)
    return list(zip(*wide, *(numbers(column.getvalue(), "i") for column in sizes), strict=True))


def one_by_one(data: bytes, budget: Budget | None = None) -> list[Row]:
    batch = only_batch(data)
    scan = read_records(data, batch) if budget is None else read_within(data, batch, budget)
    return [
        (r.offset, ns_of_ms(r.time_ms), r.key_size, r.value_size, r.header_count)
        for r in scan.records
    ]


def packed(data: bytes) -> list[Row]:
    """The rows of a batch with intact records only."""
    columns = RecordColumns()
    scan = pack_within(data, only_batch(data), Budget(1 << 20, 1 << 20), columns)
    assert (scan.records, scan.lost_count, scan.error) == ([], 0, None)
    assert scan.packed_count == len(rows(columns))
    return rows(columns)


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_records_of_every_codec_are_packed(codec: int) -> None:
    data = make_batch(TWO, codec=codec, base_offset=5, base_time=1_000)
    assert packed(data) == [(5, 1_000_000_000, 1, 1, 0), (6, 1_007_000_000, 1, -1, 0)]


def test_the_brokers_time_is_that_of_every_record() -> None:
    data = make_batch(TWO, attributes=0x08, max_time=2_000)
    assert [row[1] for row in packed(data)] == [2_000_000_000, 2_000_000_000]


def test_sizes_of_more_than_a_byte() -> None:
    headers = [(b"n" * 70, b"v" * 300)] * 70
    data = make_batch([make_record(b"k" * 64, b"v" * 20_000, headers=headers, time_delta=1 << 40)])
    assert packed(data) == one_by_one(data)
    assert packed(data)[0][2:] == (64, 20_000, 70)


optional_bytes = st.binary(max_size=200) | st.none()


@given(
    st.sampled_from([0, LZ4]),
    st.integers(-(2**62), 2**62),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(
        st.tuples(
            st.integers(-(2**31), 2**31 - 1),
            st.integers(-(2**63), 2**63 - 1) | st.integers(-1000, 1000),
            optional_bytes,
            optional_bytes,
            st.lists(st.tuples(st.binary(max_size=80), optional_bytes), max_size=2),
        ),
        max_size=6,
    ),
)
def test_packed_records_equal_records_read_one_by_one(
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
    assert_the_same(data)


def assert_the_same(data: bytes) -> None:
    """Packed into columns and read one by one: the same records, loss, reasons and budget."""
    for batch in scan_batches(data, 0, len(data)).batches:
        columns = RecordColumns()
        columns.add(1, 2, 3, 4, 5)
        budget, other = Budget(10_000, 5), Budget(10_000, 5)
        found = pack_within(data, batch, budget, columns)
        (again,) = [
            one for one in scan_batches(data, 0, len(data)).batches if one.start == batch.start
        ]
        expected = read_within(data, again, other)
        for record in found.records:
            columns.add(
                record.offset, record.time_ms, record.key_size, record.value_size,
                record.header_count,
            )  # fmt: skip
        assert rows(columns) == [
            (1, 2_000_000, 3, 4, 5),
            *(
                (r.offset, ns_of_ms(r.time_ms), r.key_size, r.value_size, r.header_count)
                for r in expected.records
            ),
        ]
        assert found.packed_count in (0, len(expected.records))
        assert (found.lost_count, str(found.error)) == (expected.lost_count, str(expected.error))
        assert budget.size == other.size
        assert budget.count == other.count - found.packed_count


@given(st.binary(max_size=60), st.sampled_from([0, ZSTD]), st.integers(0, 8))
def test_any_record_bytes_are_packed_as_they_are_read(body: bytes, codec: int, count: int) -> None:
    assert_the_same(make_batch([body], codec=codec, record_count=count))


@given(st.data())
def test_records_with_a_changed_byte_are_packed_as_they_are_read(data: st.DataObject) -> None:
    headers = [(b"h" * 70, b"1"), (b"", None)]
    plain = [*TWO, make_record(None, b"v" * 90, headers=headers, offset_delta=2)]
    changed = bytearray(b"".join(plain))
    for place in data.draw(st.lists(st.integers(0, len(changed) - 1), max_size=3)):
        changed[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    assert_the_same(make_batch([bytes(changed)], record_count=data.draw(st.integers(1, 5))))


LIES = {
    "a record that ends early": TWO[0][:1] + TWO[0][2:] + b"\x00",
    "a record of nothing": b"\x00" * 8,
    "a size below zero": b"\x01" * 8,
    "a size spelt in six bytes": b"\x8e\x80\x80\x80\x80\x00" + TWO[0][1:],
    "an offset of 33 bits": make_varint(10) + b"\x00\x00" + make_varint(1 << 32) + b"\x01\x01\x00",
    "a time of nine bytes": make_varint(14) + b"\x00" + make_varint(1 << 62) + b"\x00\x01\x01\x00",
    "a key of minus two bytes": make_varint(6) + b"\x00\x00\x00\x03\x01\x00",
    "a value of minus two bytes": make_varint(6) + b"\x00\x00\x00\x01\x03\x00",
    "a key that goes on behind": make_varint(6) + b"\x00\x00\x00\x40\x01\x00",
    "minus one headers": make_varint(6) + b"\x00\x00\x00\x01\x01\x01",
    "a header that is not there": make_varint(6) + b"\x00\x00\x00\x01\x01\x02",
    "bytes behind the last header": make_varint(7) + b"\x00\x00\x00\x01\x01\x00\x00",
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_with_a_lie_leaves_nothing_in_the_columns(lie: str) -> None:
    data = make_batch([TWO[0], LIES[lie], TWO[1]])
    columns = RecordColumns()
    batch = only_batch(data)
    assert not pack_records(data, batch.records_start, batch.end, batch, columns)
    assert rows(columns) == []
    assert_the_same(data)


def test_fewer_or_more_records_than_there_are_leave_nothing() -> None:
    for count in (1, 3):
        assert_the_same(make_batch(TWO, record_count=count))


def test_a_batch_of_more_records_than_the_budget_has_is_read_one_by_one() -> None:
    columns = RecordColumns()
    data = make_batch(TWO)
    scan = pack_within(data, only_batch(data), Budget(1000, 1), columns)
    assert (scan.packed_count, len(scan.records), rows(columns)) == (0, 1, [])
    assert str(scan.error) == "batch of more than 1 records"


def test_messages_of_the_old_formats_are_read_one_by_one() -> None:
    data = make_message(1, b"x") + make_message(1, b"y", offset=1)
    scan = pack_within(data, only_batch(data), Budget(1000, 9), RecordColumns())
    assert (scan.packed_count, len(scan.records)) == (0, 2)


@given(st.integers(-(2**55), 2**55 - 1))
def test_varints_of_several_bytes(value: int) -> None:
    written = make_varint(value)
    if len(written) > 1:
        assert read_longer(written, 1, written[0]) == value * 16 + len(written) - 1


def test_a_varint_of_more_than_eight_bytes_is_none() -> None:
    assert read_longer(b"\x80" * 7 + b"\x01", 1, 0x80) == (1 << 48) * 16 + 7
    for zeros in (8, 9):
        assert read_longer(b"\x80" * zeros + b"\x01", 1, 0x80) == 8
