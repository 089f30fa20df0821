"""Parquet files written by ourselves, read by Arrow and DuckDB."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdissect.tables import parquet_columns
from kdissect.tables.batches import ARROW_TYPES, TEXT_TYPE
from kdissect.tables.parquet_columns import DELTA, DICTIONARY, PLAIN
from kdissect.tables.parquet_file import RowGroups
from kdissect.tables.parquet_pages import deltas, packed_places, runs_of_places

TYPES = list(ARROW_TYPES.values())


def written(schema: pa.Schema, groups: Sequence[Sequence[pa.RecordBatch]]) -> bytes:
    file = io.BytesIO()
    output = RowGroups(file.write, schema)
    for batches in groups:
        for batch in batches:
            output.write(batch)
        output.end_group()
    output.end()
    return file.getvalue()


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows; times as integers, which Python's own have no nanoseconds for."""
    fields = [f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields)).to_pylist()


def assert_comes_back(schema: pa.Schema, groups: Sequence[Sequence[pa.RecordBatch]]) -> None:
    content = written(schema, groups)
    batches = [batch for group in groups for batch in group]
    expected = pa.Table.from_batches(batches, schema)
    found = pq.read_table(io.BytesIO(content))
    found.validate(full=True)
    assert found.schema.equals(schema, check_metadata=True)
    assert plain(found) == plain(expected)
    assert_statistics_are_right(content)


def assert_statistics_are_right(content: bytes) -> None:
    file = pq.ParquetFile(io.BytesIO(content))
    for i in range(file.metadata.num_row_groups):
        table = file.read_row_group(i)
        for j, name in enumerate(table.schema.names):
            column = table[name]
            if pa.types.is_dictionary(column.type):
                column = column.cast(pa.string()).cast(pa.binary())
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.int64())
            told = file.metadata.row_group(i).column(j).statistics
            assert told.null_count == column.null_count
            if told.has_min_max:
                assert {"min": told.min_raw, "max": told.max_raw} == pc.min_max(column).as_py()


def array_of(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    if arrow_type == TEXT_TYPE:
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, arrow_type)


def values_of(arrow_type: pa.DataType) -> st.SearchStrategy[Any]:
    if arrow_type == TEXT_TYPE:
        return st.text(max_size=8)
    if pa.types.is_boolean(arrow_type):
        return st.booleans()
    if pa.types.is_binary(arrow_type):
        return st.binary(max_size=8)
    largest = (1 << arrow_type.bit_width - 1) - 1
    return st.integers(0, 3) | st.integers(-largest - 1, largest)


@st.composite
def arrays(draw: st.DrawFn, arrow_type: pa.DataType) -> pa.Array:
    """Values in runs of any length, some null, cut out of a longer array."""
    runs = draw(st.lists(st.tuples(values_of(arrow_type) | st.none(), st.integers(1, 40))))
    values = [value for value, count in runs for _ in range(count)]
    skipped = draw(st.integers(0, len(values)))
    return array_of(values, arrow_type).slice(skipped)


@pytest.mark.parametrize("arrow_type", TYPES, ids=str)
@given(st.data())
@settings(max_examples=60)
def test_any_values_of_every_type_come_back(arrow_type: pa.DataType, data: st.DataObject) -> None:
    schema = pa.schema([pa.field("x", arrow_type, metadata={"unit": "ns"})], metadata={"a": "b"})
    groups = [
        [
            pa.RecordBatch.from_arrays([data.draw(arrays(arrow_type))], schema=schema)
            for _ in range(data.draw(st.integers(1, 3)))
        ]
        for _ in range(data.draw(st.integers(1, 2)))
    ]
    assert_comes_back(schema, groups)


def numbers_of(kind: str, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    generator = np.random.default_rng(7)
    made: dict[str, Any] = {
        "one value": np.full(count, -5),
        "growing by one": np.arange(count) + (1 << 40),
        "runs": np.repeat(np.arange(count // 16 + 1), 16)[:count] * 1_000_000,
        "runs of hundreds": np.repeat(np.arange(count // 300 + 1), 300)[:count] ** 3,
        "many runs": np.repeat(generator.integers(0, 1 << 50, count // 8 + 1), 8)[:count],
        "few values": generator.integers(-3, 200, count),
        "few far values": generator.choice([-70, 4, 30_000], count),
        "a byte": generator.integers(0, 1000, count) + np.arange(count) * 100,
        "two bytes": np.cumsum(generator.integers(-100, 60_000, count)),
        "four bytes": np.cumsum(generator.integers(0, 1 << 31, count)),
        "anything": generator.integers(-(1 << 63), (1 << 63) - 1, count),
    }
    found: np.ndarray[Any, np.dtype[np.int64]] = made[kind].astype(np.int64)
    return found


KINDS = (
    "one value", "growing by one", "runs", "runs of hundreds", "many runs", "few values",
    "few far values", "a byte", "two bytes", "four bytes", "anything",
)  # fmt: skip
COUNTS = (1, 2, 255, 256, 257, 258, 1024, 1025, 1026, 5000, 40_000)


@pytest.mark.parametrize("kind", KINDS)
def test_long_columns_come_back_in_arrow_and_duckdb(kind: str, tmp_path: Path) -> None:
    schema = pa.schema([("wide", pa.int64()), ("narrow", pa.int32()), ("time", TIME), ("tiny", I8)])
    path = tmp_path / "x.parquet"
    for count in COUNTS:
        values = numbers_of(kind, count)
        missing = values % 7 == 0
        columns = [
            pa.array(values),
            pa.array(values.astype(np.int32), mask=missing),
            pa.array(values, TIME, mask=missing),
            pa.array(values.astype(np.int8)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        groups = [[batch, batch.slice(count // 2)], [batch.slice(0, 1)]]
        assert_comes_back(schema, groups)
        path.write_bytes(written(schema, groups))
        with duckdb.connect() as connection:
            query = "SELECT wide, narrow, epoch_ns(time), tiny FROM read_parquet(?)"
            found = connection.execute(query, [str(path)]).fetchall()
        expected = pa.Table.from_batches([batch for group in groups for batch in group])
        assert found == [tuple(row.values()) for row in plain(expected)]


TIME = ARROW_TYPES["time"]
I8 = pa.int8()


def test_texts_that_no_dictionary_should_hold_stand_for_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = pa.schema([("x", TEXT_TYPE)])
    monkeypatch.setattr(parquet_columns, "DICTIONARY_BYTES", 1000)
    texts = [f"text {i}" * 3 for i in range(100)] + [None] + ["again"] * 50
    first = pa.RecordBatch.from_arrays([array_of(texts[:20], TEXT_TYPE)], schema=schema)
    second = pa.RecordBatch.from_arrays([array_of(texts[20:], TEXT_TYPE)], schema=schema)
    assert_comes_back(schema, [[first, second]])
    column = pq.ParquetFile(io.BytesIO(written(schema, [[first, second]]))).metadata.row_group(0)
    assert column.column(0).encodings == ("PLAIN", "RLE", "RLE_DICTIONARY")


def test_more_values_than_a_dictionary_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_columns, "DICTIONARY_LIMIT", 300)
    schema = pa.schema([("x", pa.int64())])
    batches = [
        pa.RecordBatch.from_arrays([pa.array(np.repeat(np.arange(i, i + 200), 9))], schema=schema)
        for i in (0, 100, 1000)
    ]
    assert_comes_back(schema, [batches])


def test_no_page_of_places_is_behind_another() -> None:
    # Spark 4.3 (vectorized) reads the first run of such a page as its last one.
    schema = pa.schema([("x", pa.int64())])
    kinds = ("runs", "anything", "runs", "one value")
    batches = [
        pa.RecordBatch.from_arrays([pa.array(values)], schema=schema)
        for values in ([None] * 9, *(numbers_of(kind, 500) for kind in kinds), [None] * 9)
    ]
    output = RowGroups(io.BytesIO().write, schema)
    for batch in batches:
        output.write(batch)
    assert [page.encoding for page in output.columns[0].pages] == [
        DICTIONARY, DICTIONARY, DELTA, DELTA, DELTA, PLAIN,
    ]  # fmt: skip
    assert_comes_back(schema, [batches, batches[2:], batches[:1]])


def test_pages_that_are_all_the_same_are_one() -> None:
    schema = pa.schema([("x", pa.int64()), ("nothing", pa.binary()), ("text", TEXT_TYPE)])
    batch = pa.RecordBatch.from_arrays(
        [pa.array([5] * 9), pa.nulls(9, pa.binary()), array_of(["a"] * 9, TEXT_TYPE)], schema=schema
    )
    output = RowGroups(io.BytesIO().write, schema)
    for _ in range(3):
        output.write(batch)
    assert [len(column.pages) for column in output.columns] == [1, 1, 1]
    assert_comes_back(schema, [[batch, batch, batch.slice(3)], [batch]])


def test_a_chunk_is_zstd_unless_it_is_small() -> None:
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    columns = [pa.array(numbers_of(kind, 5000)) for kind in ("anything", "growing by one")]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    group = pq.ParquetFile(io.BytesIO(written(schema, [[batch]]))).metadata.row_group(0)
    assert [group.column(i).compression for i in range(2)] == ["ZSTD", "UNCOMPRESSED"]


def test_a_file_without_rows_has_the_schema() -> None:
    schema = pa.schema([("x", pa.int64()), ("text", TEXT_TYPE)])
    assert_comes_back(schema, [])
    assert pq.ParquetFile(io.BytesIO(written(schema, []))).metadata.num_row_groups == 0


def test_long_texts_are_not_told_as_statistics() -> None:
    schema = pa.schema([("x", TEXT_TYPE)])
    batch = pa.RecordBatch.from_arrays([array_of(["a", "b" * 65], TEXT_TYPE)], schema=schema)
    group = pq.ParquetFile(io.BytesIO(written(schema, [[batch]]))).metadata.row_group(0)
    assert not group.column(0).statistics.has_min_max


def test_runs_and_places_as_the_format_has_them() -> None:
    places = np.array([1, 2], np.uint8)
    assert runs_of_places(places, np.array([3, 300])) == b"\x06\x01\xd8\x04\x02"
    assert packed_places(np.array([1, 258], np.uint16)) == b"\x03\x01\x00\x02\x01" + bytes(12)
    counts = np.full(100, 3)
    counts[50] = 70
    many = np.arange(100).astype(np.uint16)
    expected = [
        (b"\x8c\x01" if place == 50 else b"\x06") + place.to_bytes(2, "little")
        for place in range(100)
    ]
    assert runs_of_places(many, counts) == b"".join(expected)


def test_differences_as_the_format_has_them() -> None:
    head = b"\x80\x08\x04"  # blocks of 1024, 4 miniblocks
    assert deltas(np.array([7], np.int64)) == head + b"\x01\x0e"
    assert deltas(np.array([7, 8, 9], np.int64)) == head + b"\x03\x0e\x02" + bytes(4)
    assert deltas(np.array([7, 8, 6], np.int64)) == (
        head + b"\x03\x0e\x03\x08\x00\x00\x00\x03\x00" + bytes(254)
    )
