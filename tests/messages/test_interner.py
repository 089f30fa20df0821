"""Texts and ids depend on their bytes alone, not on earlier ones."""

from hypothesis import given
from hypothesis import strategies as st

from kdissect.messages.interner import RECENT_SIZE, Interner

# Many with the same last byte and size, which share a place.
RAWS = st.binary(max_size=4) | st.sampled_from([b"a" * size + b"z" for size in range(120)])


@given(st.lists(RAWS), st.integers(1, 5))
def test_a_text_is_that_of_its_bytes(raws: list[bytes], limit: int) -> None:
    interner = Interner(limit, 200)
    for raw in raws:
        assert interner.text(bytes(raw)) == raw.decode("utf-8", "backslashreplace")
    assert len(interner.texts) <= limit


@given(st.lists(st.integers(0, 3), max_size=30))
def test_an_id_is_the_same_bytes(numbers: list[int]) -> None:
    interner = Interner()
    for number in numbers:
        topic_id = bytes(14) + bytes([number // 2, number % 2])
        assert interner.topic_id(b".." + topic_id, 2) == topic_id


def test_the_same_object_stands_for_equal_bytes() -> None:
    interner = Interner()
    name, topic_id = b"orders-of-today", bytes(range(16))
    assert interner.text(name[:]) is interner.text(bytes([*name]))
    assert interner.topic_id(topic_id, 0) is interner.topic_id(b"." + topic_id, 1)


def test_truncated_id_keeps_its_captured_bytes() -> None:
    interner = Interner()
    assert interner.topic_id(bytes(range(20)), 8) == bytes(range(8, 20))
    assert interner.topic_id(bytes(20), 20) == b""


def test_long_texts_are_not_interned() -> None:
    interner = Interner(limit=1)
    long = b"x" * (RECENT_SIZE + 1)
    interner.text(long)
    interner.text(b"y")
    assert long not in interner.raws
    assert list(interner.texts) == [b"y"]
