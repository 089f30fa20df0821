import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.analysis.summary.arrow_columns import integers, is_set, text_groups, texts, times

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
