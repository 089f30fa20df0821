import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.analysis.summary.arrow_columns import (
    groups,
    integers,
    is_set,
    names_and_places,
    reduced,
    text_groups,
    texts,
    times,
)

INTEGERS = st.lists(st.none() | st.integers(-(1 << 15), (1 << 15) - 1), max_size=20)
TEXTS = st.lists(st.none() | st.sampled_from(["", "a", "b", "orders"]), max_size=20)
TYPES = [pa.int16(), pa.int32(), pa.int64(), pa.timestamp("ns", "UTC")]


def behind(array: pa.Array) -> pa.RecordBatch:
    """A batch whose column `x` begins inside its buffers."""
    before = pa.concat_arrays([array.slice(0, 3), array])
    return pa.RecordBatch.from_arrays([before], ["x"]).slice(min(3, len(array)))


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(values=INTEGERS)
def test_integers_and_times_are_those_of_the_column(
    kind: pa.DataType, values: list[int | None]
) -> None:
    batch = behind(pa.array(values, pa.int64()).cast(kind, safe=False))
    assert integers(batch, "x", -7).tolist() == [-7 if one is None else one for one in values]
    assert times(batch, "x").tolist() == [one for one in values if one is not None]
    assert is_set(batch, "x").tolist() == [one is not None for one in values]


@pytest.mark.parametrize("is_encoded", [True, False])
@given(values=TEXTS)
def test_texts_are_those_of_the_column(is_encoded: bool, values: list[str | None]) -> None:
    array = pa.array(values, pa.string())
    batch = behind(array.dictionary_encode() if is_encoded else array)
    assert texts(batch, "x").tolist() == values
    found: list[str | None] = [""] * len(values)
    for text, rows in text_groups(batch, "x"):
        for row in rows.tolist():
            found[row] = text
    assert found == values
    if is_encoded:
        assert is_set(batch, "x").tolist() == [one is not None for one in values]


@pytest.mark.parametrize("is_encoded", [True, False])
@given(values=TEXTS)
def test_places_are_those_of_the_texts_that_occur(
    is_encoded: bool, values: list[str | None]
) -> None:
    array = pa.array(values, pa.string())
    batch = behind(array.dictionary_encode() if is_encoded else array)
    names, places = names_and_places(batch, "x")
    assert [names[place] for place in places.tolist()] == [one or "" for one in values]
    assert len(names) == len(set(values))


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2), st.integers(-9, 1 << 40)))


@given(ROWS)
def test_rows_are_reduced_as_arrow_groups_them(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(3)]
    *keys, values = columns
    table = pa.table(dict(zip("abc", columns, strict=True)))
    for how, name in ((np.add, "sum"), (np.maximum, "max"), (np.minimum, "min")):
        found, results = reduced(how, values, *keys)
        theirs = (
            table.group_by(["a", "b"])
            .aggregate([("c", name)])
            .sort_by([("a", "ascending"), ("b", "ascending")])
        )
        assert found == [(row["a"], row["b"]) for row in theirs.to_pylist()]
        assert results == theirs[f"c_{name}"].to_pylist()


@given(st.lists(st.integers(0, 70_000)))
def test_groups_have_each_row_once_in_order(values: list[int]) -> None:
    array = np.array(values, np.int64)
    found = {int(value): rows.tolist() for value, rows in groups(array)}
    expected: dict[int, list[int]] = {}
    for row, value in enumerate(values):
        expected.setdefault(value, []).append(row)
    assert found == expected
    assert list(found) == sorted(expected)
