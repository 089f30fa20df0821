"""Trace contexts of records: which headers carry one, and of which records."""

import pytest

from kdissect.messages.partitions import Partition
from kdissect.messages.records import make_budget, scan_batches
from kdissect.spans.contexts import (
    MAXIMUM_CONTEXTS,
    TraceContext,
    contexts_of,
    read_traceparent,
)
from tests.messages.record_builders import GZIP, make_batch, make_message, make_record

TRACE = 0x0AF7651916CD43DD8448EB211C80319C
SPAN = 0xB7AD6B7169203331
LIMIT = 1 << 20
CONTROL = 1 << 5


def header(trace_id: int = TRACE, span_id: int = SPAN) -> bytes:
    return f"00-{trace_id:032x}-{span_id:016x}-01".encode()


def traced(*values: bytes | None, name: bytes = b"traceparent") -> bytes:
    return make_record(b"k", b"v", headers=[(b"shop", b"north"), *[(name, one) for one in values]])


def found(*fields: bytes) -> tuple[TraceContext, ...]:
    """The contexts in the records fields of as many partitions."""
    partitions = []
    for number, field in enumerate(fields):
        partition = Partition("orders", bytes(16), number)
        partition.batches = scan_batches(field, 0, len(field)).batches
        partition.records = field
        partitions.append(partition)
    size = sum(map(len, fields))
    return contexts_of(partitions, make_budget(size, LIMIT), LIMIT)


def test_a_traceparent_is_read() -> None:
    assert read_traceparent(header()) == TraceContext(TRACE, SPAN, 1)


def test_a_later_version_may_have_more_behind_it() -> None:
    assert read_traceparent(b"01" + header()[2:] + b"-more") == TraceContext(TRACE, SPAN, 1)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        header()[:-1],
        header().upper(),
        header() + b"-more",
        b"ff" + header()[2:],
        header(0),
        header(TRACE, 0),
        header() + b"\n",
        b"\xff" * 55,
    ],
)
def test_invalid_traceparent_is_none(value: bytes) -> None:
    assert read_traceparent(value) is None


@pytest.mark.parametrize("codec", [0, GZIP])
def test_each_context_of_the_records_is_found_once_in_order(codec: int) -> None:
    records = [traced(header(2)), make_record(b"k", b"v"), traced(header(1)), traced(header(2))]
    batch = make_batch(records, codec=codec)
    other = make_batch([traced(header(3))], codec=codec)
    expected = tuple(TraceContext(trace_id, SPAN, 1) for trace_id in (2, 1, 3))
    assert found(batch, other) == expected


def test_the_last_header_of_the_name_counts() -> None:
    assert found(make_batch([traced(header(1), header(2))])) == (TraceContext(2, SPAN, 1),)
    assert found(make_batch([traced(header(1), None)])) == ()
    assert found(make_batch([traced(header(1), name=b"TraceParent")])) == ()


def test_a_text_like_it_in_key_or_value_is_none() -> None:
    record = make_record(b"traceparent", header(), headers=[(b"a", b"b")])
    assert found(make_batch([record])) == ()


def test_control_batches_and_old_formats_have_none() -> None:
    assert found(make_batch([traced(header())], attributes=CONTROL)) == ()
    assert found(make_message(1, b"traceparent" + header())) == ()


def test_of_very_many_the_first_are_taken() -> None:
    records = [traced(header(number)) for number in range(1, MAXIMUM_CONTEXTS + 10)]
    contexts = found(make_batch(records))
    assert [one.trace_id for one in contexts] == list(range(1, MAXIMUM_CONTEXTS + 1))


def test_damaged_records_cost_their_contexts_only() -> None:
    broken = traced(header(2)).replace(b"\x16traceparent", b"\x7ftraceparent")
    contexts = found(make_batch([traced(header(1)), broken, traced(header(3))]))
    assert [one.trace_id for one in contexts] == [1, 3]
