"""Batches of aborted transactions are marked as a read_committed fetch tells them."""

import struct
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kdissect.messages.aborted_batches import mark_aborted
from kdissect.messages.records import scan_batches
from tests.conversation import conversation
from tests.exchange_builders import Row, found_in, request, response
from tests.messages.record_builders import make_batch, make_record

TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1


def data_batch(producer: int, base: int, count: int = 2, attributes: int = TRANSACTIONAL) -> bytes:
    records = [make_record(b"k", b"v", offset_delta=at) for at in range(count)]
    return make_batch(records, base_offset=base, attributes=attributes, producer=(producer, 0, 0))


def marker(producer: int, base: int, kind: int) -> bytes:
    record = make_record(struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 1))
    attributes = TRANSACTIONAL | CONTROL
    return make_batch([record], base_offset=base, attributes=attributes, producer=(producer, 0, -1))


def marked(log: bytes, aborted: Sequence[tuple[int, int]]) -> list[int]:
    """`aborted` are producer ids and first offsets."""
    batches = scan_batches(log, 0, len(log)).batches
    mark_aborted(log, batches, [at[0] for at in aborted], [at[1] for at in aborted])
    return [int(batch.aborted) for batch in batches]


def test_a_transaction_is_aborted_from_its_first_offset_up_to_its_marker() -> None:
    log = data_batch(7, 0) + marker(7, 2, COMMIT) + data_batch(7, 3) + data_batch(7, 5)
    log += marker(7, 7, ABORT) + data_batch(7, 8)
    assert marked(log, [(7, 3)]) == [0, -1, 1, 1, -1, 0]
    assert marked(log, []) == [0, -1, 0, 0, -1, 0]


def test_transactions_of_several_producers_may_lie_between_each_other() -> None:
    log = data_batch(1, 0) + data_batch(2, 2) + data_batch(3, 4, attributes=0) + data_batch(1, 6)
    log += marker(2, 8, COMMIT) + marker(1, 9, ABORT) + data_batch(2, 10) + marker(2, 12, ABORT)
    assert marked(log, [(2, 10), (1, 0)]) == [1, 0, -1, 1, -1, -1, 1, -1]


def test_a_transaction_that_began_before_the_fetch_and_one_that_goes_on_behind_it() -> None:
    log = data_batch(1, 100) + marker(1, 102, ABORT) + data_batch(1, 103)
    assert marked(log, [(1, 40), (1, 103)]) == [1, -1, 1]


def test_only_the_marker_of_the_same_producer_ends_a_transaction() -> None:
    log = data_batch(1, 0) + marker(2, 2, ABORT) + marker(1, 3, COMMIT) + data_batch(1, 4)
    assert marked(log, [(1, 0)]) == [1, -1, -1, 1]


def test_a_marker_that_cannot_be_read_ends_nothing() -> None:
    attributes = TRANSACTIONAL | CONTROL
    broken = make_batch(
        [make_record(b"\0")], base_offset=2, attributes=attributes, producer=(1, 0, 0)
    )
    log = data_batch(1, 0) + broken + data_batch(1, 3)
    assert marked(log, [(1, 0)]) == [1, -1, 1]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["data", ABORT, COMMIT])), max_size=12),
    st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 30)), max_size=5),
)
def test_marks_are_those_of_a_consumer(
    steps: list[tuple[int, str | int]], aborted: list[tuple[int, int]]
) -> None:
    """The filter as Kafka's consumer has it: a queue by first offset, a set of producers."""
    log, expected = b"", []
    queue, open_producers = sorted((first, producer) for producer, first in aborted), set()
    for number, (producer, kind) in enumerate(steps):
        base = number * 2
        last = base + (1 if kind == "data" else 0)
        log += data_batch(producer, base) if kind == "data" else marker(producer, base, int(kind))
        while queue and queue[0][0] <= last:
            open_producers.add(queue.pop(0)[1])
        if kind == ABORT:
            open_producers.discard(producer)
        expected.append((1 if producer in open_producers else 0) if kind == "data" else -1)
    assert marked(log, aborted) == expected


def fetched(version: int, *partitions: Row) -> list[tuple[object, ...]]:
    """is_aborted of batches and of records by partition."""
    topic = {"topic": "orders", "partitions": list(partitions)}
    talk = conversation().open().client(request("Fetch", version, 1))
    talk = talk.broker(response("Fetch", version, 1, responses=[topic])).close()
    found = found_in(talk)
    return [
        found.columns("partition", "base_offset", "is_aborted", table="batches"),
        found.columns("partition", "offset", "is_aborted", table="records"),
    ]  # type: ignore[return-value]


def test_the_tables_say_it_of_each_partition_by_itself() -> None:
    log = data_batch(7, 0, 1) + marker(7, 1, ABORT) + data_batch(7, 2, 1)
    plain = data_batch(-1, 0, 1, attributes=0)
    begun = [{"producer_id": 7, "first_offset": 0}]
    batches, records = fetched(
        11,
        {"partition_index": 0, "aborted_transactions": begun, "records": log},
        {"partition_index": 1, "aborted_transactions": [], "records": log},
        {"partition_index": 2, "aborted_transactions": None, "records": log + plain},
    )
    told = [
        (0, 0, True), (0, 1, False), (0, 2, False),
        (1, 0, False), (1, 1, False), (1, 2, False),
        (2, 0, None), (2, 1, False), (2, 2, None), (2, 0, False),
    ]  # fmt: skip
    assert batches == told
    assert records == told


def test_before_version_4_no_field_marks_aborted_batches() -> None:
    batches, _ = fetched(3, {"partition_index": 0, "records": data_batch(7, 0, 1)})
    assert batches == [(0, 0, None)]
