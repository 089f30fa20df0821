"""Packed partitions equal the `Partition` objects, and stay equal through every conversion."""

from hypothesis import given
from hypothesis import strategies as st

from kdissect.messages import partitions
from kdissect.messages.batch_counts import BatchCounts
from kdissect.messages.batches import CONTROL_MASK
from kdissect.messages.extracted import FIRST_ROWS, KEPT_ROWS, FieldSink
from kdissect.messages.interner import Interner
from kdissect.messages.partitions import (
    AT_FETCH_OFFSET,
    AT_PARTITION,
    FIELDS,
    MIXED_CODEC,
    NO_ID,
    WIDTH,
    Partition,
    Partitions,
    codec_of,
    partitions_of,
    unpacked,
)
from kdissect.messages.records import scan_batches
from kdissect.protocol.readers import NULL
from tests.messages.record_builders import make_batch, make_record

NUMBERS = tuple(field.name for field in FIELDS)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
Said = tuple[str, bytes, tuple[int, ...]]
SAID = st.tuples(
    st.sampled_from(["", "orders", "payments"]),
    st.sampled_from([NO_ID, bytes(15) + b"\x07", bytes(range(16))]),
    st.tuples(*[INT64 for _ in NUMBERS]),
)


def row_of(said: Said) -> Partition:
    row = Partition(said[0], said[1], said[2][0])
    for name, value in zip(NUMBERS, said[2], strict=True):
        setattr(row, name, value)
    return row


def said_of(partitions: Partitions) -> list[Said]:
    return [
        (row.topic, row.topic_id, tuple(getattr(row, name) for name in NUMBERS))
        for row in partitions.rows()
    ]


@given(st.lists(SAID, max_size=6))
def test_rows_come_out_of_cells_as_they_went_in(said: list[Said]) -> None:
    made = partitions_of([row_of(one) for one in said])
    assert (made.count, len(made.cells)) == (len(said), len(said) * WIDTH)
    assert said_of(made) == said
    again = unpacked(made.topics, made.topic_ids, made.packed, None)
    assert said_of(again) == said


@given(st.lists(SAID, max_size=4), st.lists(SAID, max_size=4))
def test_a_row_that_is_added_is_that_of_the_others(one: list[Said], other: list[Said]) -> None:
    made = partitions_of([row_of(said) for said in one])
    others = partitions_of([row_of(said) for said in other])
    for index in range(others.count):
        made.add(others, index)
    assert said_of(made) == one + other


def test_batches_go_with_their_row() -> None:
    row = Partition("orders", NO_ID, 3)
    row.batches = scan_batches(RECORDS, 0, len(RECORDS)).batches
    row.records = RECORDS
    made = partitions_of([Partition("orders", NO_ID, 2)])
    made.add(partitions_of([row]), 0)
    assert (made.row(0).batches, made.row(0).records) == (None, b"")
    assert (made.row(1).batches, made.row(1).records) == (row.batches, RECORDS)


def test_a_row_has_a_cell_for_each_field_in_their_order() -> None:
    assert 1 + len(FIELDS) == WIDTH
    named = {name: place for name, place in vars(partitions).items() if name.startswith("AT_")}
    places = {f"AT_{name.upper()}": place for place, name in enumerate(NUMBERS, 1)}
    assert named == {"AT_TOPIC": 0} | {name: places[name] for name in named if name != "AT_TOPIC"}


def test_sink_grows_for_any_number_and_releases_large_buffers() -> None:
    sink = FieldSink(Interner(), {})
    for count in (FIRST_ROWS, FIRST_ROWS + 1, KEPT_ROWS + 1, 3):
        sink.begin()
        for number in range(count):
            row = sink.add_partition()
            if row >= 0:
                for place in range(1, WIDTH):
                    sink.cells[row + place] = NULL
                sink.cells[row + AT_PARTITION] = number
                sink.cells[row + AT_FETCH_OFFSET] = number * 2
        taken = sink.take_partitions()
        assert taken is not None
        assert [taken.count, len(taken.cells)] == [count, count * WIDTH]
        last = taken.row(count - 1)
        assert (last.partition, last.fetch_offset) == (count - 1, 2 * count - 2)
        assert len(sink.cells) >= WIDTH * count
    sink.begin()
    assert len(sink.cells) == WIDTH * FIRST_ROWS
    assert sink.take_partitions() is None


# Counts of records fields

TRANSACTIONAL = 0x10
RECORDS = make_batch([make_record(value=b"latte")])
TWO = RECORDS + make_batch([make_record(value=b"mocha"), make_record(value=b"tea")], codec=3)


def check(data: bytes, start: int, end: int) -> bool:
    """Return whether a field is counted; then the counts are those of its batches."""
    counts, scanned = BatchCounts(), BatchCounts()
    scan = scan_batches(data, start, end)
    scanned.add(scan.batches)
    if not counts.count(data, start, end):
        return False
    assert scan.error is None
    assert (counts.batches, counts.records, counts.controls, counts.codec) == (
        scanned.batches, scanned.records, scanned.controls, scanned.codec,
    )  # fmt: skip
    return True


def test_batches_are_counted_without_objects() -> None:
    counts = BatchCounts()
    assert counts.count(b"..." + TWO, 3, 3 + len(TWO))
    assert (counts.batches, counts.records, counts.codec) == (2, 3, MIXED_CODEC)
    assert counts.count(TWO, 0, len(RECORDS))
    assert (counts.batches, counts.records, counts.codec) == (1, 1, 0)
    assert counts.count(TWO, 5, 5)
    assert (counts.batches, counts.records, counts.codec) == (0, 0, NULL)
    assert codec_of(scan_batches(TWO, 0, len(TWO)).batches) == MIXED_CODEC


def test_markers_of_transactions_are_no_records() -> None:
    """Records delivered to a consumer: those of transactions without markers, aborted or not."""
    written = make_batch([make_record(), make_record()], attributes=TRANSACTIONAL)
    marker = make_batch([make_record()], attributes=TRANSACTIONAL | CONTROL_MASK)
    counts = BatchCounts()
    assert counts.count(written + marker, 0, len(written + marker))
    assert (counts.batches, counts.records, counts.controls) == (2, 2, 1)
    assert counts.count(marker, 0, len(marker))
    assert (counts.batches, counts.records, counts.controls) == (1, 0, 1)
    assert check(written + marker, 0, len(written + marker))


def test_a_field_that_is_cut_anywhere_is_counted_up_to_there() -> None:
    assert all(check(TWO, 0, size) for size in range(len(TWO) + 1))


@given(st.binary(max_size=100), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255))))
def test_any_bytes_are_counted_as_they_are_scanned_or_not_at_all(
    tail: bytes, changes: list[tuple[int, int]]
) -> None:
    changed = bytearray(TWO + tail)
    for place, value in changes:
        if place < len(changed):
            changed[place] = value
    check(bytes(changed), 0, len(changed))
    check(tail, 0, len(tail))


def test_topics_too_long_for_a_name_stay_with_their_own_body() -> None:
    sink = FieldSink(Interner(), {})
    for names in (["a", "b"], ["c" * 300], ["d" * 300]):
        data = "".join(names).encode()
        sink.begin()
        at = 0
        for name in names:
            sink.set_topic(data, at << 32 | len(name), NULL)
            sink.add_partition()
            at += len(name)
        taken = sink.take_partitions()
        assert taken is not None
        assert taken.topics == names
