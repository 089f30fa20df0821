"""Derived columns, dictionaries, delayed rows, and the values after Arrow and pandas."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.exchanges.exchange import (
    DAMAGED,
    NO_REQUEST,
    REQUEST_FAILED,
    RESPONSE_FAILED,
    UNKNOWN_API,
    UNKNOWN_VERSION,
)
from kdissect.messages.memberships import Membership
from kdissect.messages.partitions import Partition, partitions_of
from kdissect.protocol.readers import NULL
from kdissect.tables.batches import (
    BatchBuilder,
    Shared,
    dictionary,
    distinct,
    minus,
    numbers,
    status_text,
)
from kdissect.tables.body_rows import MemberRows
from kdissect.tables.rows import ExchangeRows, PartitionRows
from kdissect.tables.schemas import TABLES
from tests.tables.test_rows import CAPTURES, START, TOPIC_ID, TOPIC_ID_TEXT, made, make_exchange

OTHER_ID = bytes(range(1, 17))


def exchanges(**columns: list[int]) -> ExchangeRows:
    """Rows of exchanges with these fields, the rest as made."""
    rows = ExchangeRows()
    for values in zip(*columns.values(), strict=True):
        exchange = make_exchange()
        for name, value in zip(columns, values, strict=True):
            setattr(exchange, name, value)
        rows.add(exchange)
    return rows


def test_durations_are_null_where_a_time_is() -> None:
    rows = exchanges(
        request_start=[START, NULL, START, START, NULL],
        request_end=[START + 1, START + 1, NULL, START + 1, NULL],
        response_start=[START + 10, START + 10, START + 10, NULL, NULL],
        response_end=[START + 30, START + 30, START + 30, NULL, START + 30],
        queue_ns=[2, 2, NULL, NULL, NULL],
        wait_ns=[3, NULL, NULL, NULL, NULL],
    )
    names = ("upload_ns", "latency_ns", "download_ns", "service_ns", "work_ns")
    assert [tuple(row[name] for name in names) for row in made("exchanges", rows)] == [
        (1, 9, 20, 7, 4), (None, 9, 20, 7, None), (None, None, 20, None, None),
        (1, None, None, None, None), (None, None, None, None, None),
    ]  # fmt: skip


def test_names_of_apis_and_errors() -> None:
    rows = exchanges(api_key=[0, 18, 9999, NULL, 0], error_code=[0, -1, 9999, NULL, 35])
    assert [(row["api"], row["error"]) for row in made("exchanges", rows)] == [
        ("Produce", None), ("ApiVersions", "UNKNOWN_SERVER_ERROR"), ("api-9999", "error-9999"),
        (None, None), ("Produce", "UNSUPPORTED_VERSION"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "ok"), (REQUEST_FAILED, "request"), (RESPONSE_FAILED, "response"),
        (REQUEST_FAILED | RESPONSE_FAILED, "request+response"), (UNKNOWN_API, "unknown-api"),
        (UNKNOWN_VERSION, "unknown-version"), (NO_REQUEST, "no-request"),
        (DAMAGED | RESPONSE_FAILED, "damaged+response"),
    ],
)  # fmt: skip
def test_decode_status_lists_undecoded_parts(status: int, text: str) -> None:
    assert status_text(status) == text
    assert made("exchanges", exchanges(status=[status, 0]))[0]["decode_status"] == text


def test_only_the_wanted_columns_are_made_in_the_order_wanted() -> None:
    builder = BatchBuilder(TABLES["exchanges"], CAPTURES, {}, ["latency_ns", "api", "capture"])
    batch = builder.batch(exchanges(api_key=[3]))
    assert batch.to_pylist() == [{"latency_ns": 100, "api": "Metadata", "capture": "b.pcap"}]
    assert batch.schema.names == ["latency_ns", "api", "capture"]


# Rows whose topic has no name yet


def partitions(*ids: tuple[str, bytes]) -> PartitionRows:
    exchange = make_exchange()
    exchange.partitions = partitions_of(
        [Partition(topic, topic_id, number) for number, (topic, topic_id) in enumerate(ids)]
    )
    rows = PartitionRows()
    rows.add(exchange)
    return rows


def test_rows_without_a_topic_name_are_held_back_until_it_is_learnt() -> None:
    names: dict[bytes, str] = {}
    builder = BatchBuilder(TABLES["partitions"], CAPTURES, names, ["topic", "partition"])
    rows = partitions(("", TOPIC_ID), ("orders", TOPIC_ID), ("", OTHER_ID), ("", bytes(16)))
    assert builder.batch(rows).to_pylist() == [
        {"topic": "orders", "partition": 1}, {"topic": None, "partition": 3},
    ]  # fmt: skip
    names[TOPIC_ID] = "orders"
    (held,) = builder.finish()
    assert held.to_pylist() == [
        {"topic": "orders", "partition": 0}, {"topic": None, "partition": 2},
    ]  # fmt: skip
    assert held.schema.field("topic").type == pa.dictionary(pa.int32(), pa.string())
    assert builder.finish() == []


def test_an_assignment_with_an_id_is_held_back_until_its_name_is_learnt() -> None:
    names: dict[bytes, str] = {}
    builder = BatchBuilder(TABLES["members"], CAPTURES, names)
    rows = MemberRows()
    for assignment in (f"orders:0 {TOPIC_ID_TEXT}:1,2", "orders:3", ""):
        rows.add(make_exchange(), Membership("assign", "g", "m", assignment=assignment))
    given_at_once = builder.batch(rows).to_pylist()
    assert [row["assignment"] for row in given_at_once] == ["orders:3", None]
    names[TOPIC_ID] = "payments"
    (held,) = builder.finish()
    assert [row["assignment"] for row in held.to_pylist()] == ["orders:0 payments:1,2"]
    assert held.schema == builder.batch(rows).schema


def test_names_learnt_before_are_filled_in_at_once() -> None:
    builder = BatchBuilder(TABLES["partitions"], CAPTURES, {TOPIC_ID: "orders"})
    batch = builder.batch(partitions(("", TOPIC_ID), ("payments", OTHER_ID)))
    assert batch["topic"].to_pylist() == ["orders", "payments"]
    assert batch["topic_id"].to_pylist()[0] == TOPIC_ID_TEXT
    assert builder.finish() == []


@pytest.mark.parametrize("limits", [{"held_limit": 2}, {"held_bytes": 1}])
@pytest.mark.parametrize("is_taken", [False, True])
def test_no_more_rows_are_held_back_than_the_limit_and_one_batch(
    limits: dict[str, int], is_taken: bool
) -> None:
    other = BatchBuilder(TABLES["partitions"], CAPTURES, {}, held_limit=0)
    builder = BatchBuilder(TABLES["partitions"], CAPTURES, {}, **limits)

    def batch_of(rows: PartitionRows) -> pa.RecordBatch:
        return builder.take(other.batch(rows)) if is_taken else builder.batch(rows)

    assert batch_of(partitions(("", TOPIC_ID), ("", TOPIC_ID))).num_rows == 0
    batch = batch_of(partitions(("", TOPIC_ID), ("", TOPIC_ID)))
    assert batch["topic"].to_pylist() == [None, None]
    assert batch["topic_id"].to_pylist() == [TOPIC_ID_TEXT] * 2
    assert [held.num_rows for held in builder.finish()] == [2]


@pytest.mark.parametrize("limits", [{"held_limit": 3}, {"held_bytes": 1}])
def test_the_tables_of_a_run_have_one_limit(limits: dict[str, int]) -> None:
    shared = Shared()
    one, other = (
        BatchBuilder(TABLES["partitions"], CAPTURES, {}, shared=shared, **limits) for _ in range(2)
    )
    nameless = (("", TOPIC_ID), ("", TOPIC_ID))
    assert one.batch(partitions(*nameless)).num_rows == 0
    is_full = "held_bytes" in limits
    assert other.batch(partitions(*nameless)).num_rows == (2 if is_full else 0)
    assert other.batch(partitions(*nameless)).num_rows == 2
    assert [held.num_rows for held in one.finish()] == [2]
    assert (shared.rows > 0) is not is_full
    assert sum(held.num_rows for held in other.finish()) == (0 if is_full else 2)
    assert (shared.rows, shared.size) == (0, 0)
    assert one.batch(partitions(*nameless)).num_rows == 0


def test_rows_are_not_held_back_without_the_topic_column() -> None:
    builder = BatchBuilder(TABLES["partitions"], CAPTURES, {}, ["partition"])
    assert builder.batch(partitions(("", TOPIC_ID))).to_pylist() == [{"partition": 0}]


# Columns

integers = st.one_of(st.just(NULL), st.integers(-(1 << 61), 1 << 61))


@given(st.lists(integers, max_size=70))
def test_integers_become_arrow_values_and_nulls(values: list[int]) -> None:
    column = numbers(np.array(values, np.int64), pa.int64())
    column.validate(full=True)
    assert column.to_pylist() == [None if value == NULL else value for value in values]


@given(st.lists(st.sampled_from([0, 1, int(NULL)]), max_size=70))
def test_flags_become_arrow_values_and_nulls(values: list[int]) -> None:
    column = numbers(np.array(values, np.int64), pa.bool_())
    column.validate(full=True)
    assert column.to_pylist() == [None if value == NULL else value == 1 for value in values]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=8), st.data())
def test_equal_texts_of_a_dictionary_become_one(texts: list[str], data: st.DataObject) -> None:
    places = st.one_of(st.just(int(NULL)), st.integers(0, len(texts) - 1))
    indices = data.draw(st.lists(places, max_size=30))
    column = dictionary(np.array(indices, np.int64), texts)
    column.validate(full=True)
    assert column.to_pylist() == [None if i == NULL else texts[i] for i in indices]
    assert len(set(column.dictionary.to_pylist())) == len(column.dictionary)


@given(st.lists(st.one_of(st.just(int(NULL)), st.integers(-(1 << 15), (1 << 15) - 1)), max_size=50))
def test_distinct_codes_and_their_places(codes: list[int]) -> None:
    found, places = distinct(np.array(codes, np.int64))
    assert [found[place] for place in places] == codes
    assert len(set(found)) == len(found)


@given(st.lists(st.tuples(integers, integers), max_size=50))
def test_a_difference_is_null_where_either_is(pairs: list[tuple[int, int]]) -> None:
    later, earlier = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    assert minus(later, earlier).tolist() == [
        NULL if NULL in pair else pair[0] - pair[1] for pair in pairs
    ]


def test_times_keep_their_nanoseconds_in_pandas() -> None:
    batch = BatchBuilder(TABLES["exchanges"], CAPTURES, {}).batch(exchanges(request_start=[START]))
    frame = pa.Table.from_batches([batch]).to_pandas()
    assert str(frame["request_start"].dtype) == "datetime64[ns, UTC]"
    assert frame["request_start"][0].value == START
    assert str(frame["client_id"].dtype) == "category"


@pytest.mark.parametrize("index", [2, -1, 1 << 31, -(1 << 31)])
@pytest.mark.parametrize("others", [[], [0, int(NULL), 1]])
def test_an_index_of_no_text_is_refused(index: int, others: list[int]) -> None:
    with pytest.raises(pa.ArrowIndexError):
        dictionary(np.array([*others, index]), ["a", "b"])
