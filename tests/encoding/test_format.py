"""The bytes are those that `kdissect.encoding` describes, and values come back as they were."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.checkpoint.codec import DECLARED
from kdissect.encoding.choices import Nothing, OneOf, Plain
from kdissect.encoding.classes import Fields
from kdissect.encoding.documents import Document, dump, load
from kdissect.encoding.kinds import (
    BOOL,
    BYTES,
    INT,
    INTS,
    TEXT,
    TEXT_OR_NONE,
    Bytes,
    Dict,
    Fixed,
    Kind,
    Many,
    Maybe,
    Rows,
    named,
)
from kdissect.errors import EncodingError
from tests.encoding.documents import NULL, integer, integers, made, rooted, text

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
# Lone surrogates are in names of clients that are no UTF-8.
TEXTS = st.text(st.characters(exclude_categories=()))


class Point(NamedTuple):
    x: int
    name: str


def document(kind: Kind) -> Document:
    return Document(77, "test", 3, kind)


def again(kind: Kind, value: Any) -> Any:
    return load(document(kind), dump(document(kind), value))


@given(INT64 | st.sampled_from([-1, 0, 238, 239, NULL, -(1 << 63), (1 << 63) - 1]))
def test_an_integer_has_its_shortest_form(value: int) -> None:
    assert dump(document(INT), value) == made(rooted(integer(value)))
    assert again(INT, value) == value
    assert again(INTS, [value, 7, value]) == [value, 7, value]


@given(st.lists(INT64))
def test_integers_follow_each_other(values: list[int]) -> None:
    content = made(rooted(integer(len(values)) + integers(values)))
    assert dump(document(INTS), values) == content
    assert load(document(INTS), content) == values


def test_integers_above_64_bits_are_truncated_to_64_bits() -> None:
    # As in the compiled build, whose integers wrap around.
    assert again(INT, 1 << 63) == -(1 << 63)
    assert again(INT, (1 << 64) + 5) == 5


@given(st.lists(TEXTS))
def test_a_text_is_written_once(values: list[str]) -> None:
    known: dict[str, int] = {}
    parts = [integer(len(values))]
    for one in values:
        parts.append(integer(-2 - known[one]) if one in known else text(one))
        if one:
            known.setdefault(one, len(known))
    content = made(rooted(b"".join(parts)))
    assert dump(document(Many(TEXT)), values) == content
    assert load(document(Many(TEXT)), content) == values


def test_long_bytes_that_come_again_take_no_more_room() -> None:
    once = dump(document(Many(BYTES)), [bytes(10_000)])
    twice = dump(document(Many(BYTES)), [bytes(10_000)] * 2)
    assert len(twice) < len(once) + 4


PLAIN = st.recursive(
    st.none() | st.booleans() | INT64 | TEXTS | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers(0, 9) | TEXTS, inner)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_come_back_with_their_types(value: object) -> None:
    found = again(Plain(), value)
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BOOL, True),
        (TEXT_OR_NONE, None),
        (Bytes(bytearray), bytearray(b"abc")),
        (Maybe(INTS), None),
        (Maybe(INTS), [1, 1 << 40]),
        (Many(INT, frozenset), frozenset((5, 3, 1 << 50))),
        (Many(TEXT, set), {"b", "a"}),
        (Rows(3), [(1, NULL, -(1 << 63)), (4, 5, 6)]),
        (Dict(BYTES, TEXT), {b"id": "orders", b"": ""}),
        (Fixed(BOOL, BOOL, made=list), [True, False]),
        (named(Point, x=INT, name=TEXT), Point(3, "three")),
        (OneOf(none=(type(None), Nothing()), id=(bytes, BYTES)), b"id"),
    ],
)
def test_each_type_comes_back_as_it_was(kind: Kind, value: object) -> None:
    found = again(kind, value)
    assert found == value
    assert type(found) is type(value)


def test_equal_sets_are_equal_bytes() -> None:
    kind = document(Many(TEXT, frozenset))
    names = [f"name-{number}" for number in range(50)]
    assert dump(kind, frozenset(names)) == dump(kind, frozenset(reversed(names)))


@pytest.mark.parametrize(
    ("kind", "value"),
    [(TEXT, b"bytes"), (TEXT, None), (Fixed(INT, INT), (1, 2, 3)), (Nothing(), 1),
     (OneOf(text=(str, TEXT)), 1), (Plain(), 1.5), (Plain(), {1, 2})],
)  # fmt: skip
def test_a_value_of_another_type_is_not_written(kind: Kind, value: object) -> None:
    with pytest.raises(EncodingError):
        dump(document(kind), value)


def test_a_record_has_the_fields_of_its_class_in_their_order() -> None:
    with pytest.raises(TypeError):
        named(Point, name=TEXT, x=INT)
    with pytest.raises(TypeError):
        named(Point, x=INT)


@pytest.mark.parametrize("layout", DECLARED.values(), ids=lambda one: one.kind.__name__)
def test_every_declared_class_can_be_made_without_values(layout: Fields) -> None:
    """`object.__new__` makes none of a compiled class."""
    assert type(layout.blank()) is layout.kind
