"""Any bytes are a value of the declared type or an EncodingError, and take little memory."""

import pickle
import random
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect.checkpoint.checkpoint  # noqa: F401  # declares all classes
from kdissect.checkpoint.codec import DECLARED
from kdissect.checkpoint.codec.exchanges import PARTITIONS
from kdissect.checkpoint.codec.streams import MARKS
from kdissect.encoding.choices import Plain
from kdissect.encoding.classes import NUMBERED, Fields, Inline, Ref, declare
from kdissect.encoding.documents import Document, dump, load
from kdissect.encoding.kinds import (
    BOOL,
    BYTES,
    INT,
    INTS,
    TEXT,
    Bytes,
    Dict,
    Kind,
    Many,
    Maybe,
    Rows,
)
from kdissect.errors import EncodingError, KdissectError
from kdissect.streams.events import Connection
from tests.encoding.documents import integer, integers, made, rooted, text

# Bytes of memory for a byte of a document: an empty set of one byte takes 216, and 8 in a list.
MEMORY_RATIO = 256
MEMORY_BASE = 64 << 10
MANY = 3000


def document(kind: Kind) -> Document:
    return Document(77, "test", 3, kind)


def refused(kind: Kind, content: bytes, why: str = "^no test: ") -> None:
    with pytest.raises(EncodingError, match=why):
        load(document(kind), content)


def spent(kind: Kind, content: bytes) -> int:
    """The peak memory of reading; the value is released."""
    tracemalloc.start()
    try:
        with suppress(EncodingError):
            load(document(kind), content)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_error_is_one_of_kdissect() -> None:
    assert issubclass(EncodingError, KdissectError)


@pytest.mark.parametrize("size", range(20))
def test_a_header_that_is_cut_short_is_refused(size: int) -> None:
    refused(INT, made(rooted(integer(5)))[:size], f"no test: {size} bytes")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"PK\x03\x04" + made(rooted(b"\x01"))[4:], "something else"),
        (made(rooted(b"\x01"), number=78), "something else"),
        (made(rooted(b"\x01"), version=4), "version 4"),
        (made(rooted(b"\x01")) + b"\0", "3 bytes of 2"),
        (made(rooted(b"\x01"))[:-1], "1 bytes of 2"),
        (made(rooted(b"\x01"))[:-1] + b"\x02", "checksum"),
        (made(b""), "middle of a value"),
        (made(rooted(b"")), "at least in 0 bytes"),
        (made(rooted(b"\x01\x01")), "1 bytes too many"),
        (made(rooted(b"\xf9")), "no integer"),
        (made(rooted(b"\xf8" + bytes(7))), "8 bytes of 7"),
    ],
)
def test_invalid_documents_are_rejected(content: bytes, why: str) -> None:
    refused(INT, content, why)


@pytest.mark.parametrize(
    ("kind", "root", "why"),
    [
        (BOOL, integer(2), "no bool"),
        (TEXT, integer(-1), "missing"),
        (BYTES, integer(-1), "missing"),
        (TEXT, integer(-2), "value 0 of 0"),
        (TEXT, integer(1 << 40), "1099511627776 bytes"),
        (TEXT, integer(-(1 << 60)), "value"),
        (TEXT, integer(2) + b"\xff\xff", "do not fit"),
        (INTS, integer(1 << 50), "items"),
        (INTS, integer(-5), "items"),
        (INTS, integer(3) + b"\xf8\1\1", "8 bytes of 2"),
        (Rows(4), integer(1) + bytes(31), "items of 32"),
        (Many(INT, set), integer(2) + integers([7, 7]), "only 1"),
        (Dict(INT, INT), integer(2) + integers([7, 1, 7, 2]), "only 1"),
        (Plain(), b"\x20", "no type 31"),
        (Plain(), (integer(5) + integer(1)) * 40 + b"\x01", "no type"),
        (Dict(Plain(), INT), integer(1) + integer(5) + integer(0) + b"\x01", "do not fit"),
        (Ref(Connection), integer(0), "no object 0 of 0"),
        (Ref(Connection), integer(-1), "no object -1"),
        (PARTITIONS, integer(0) * 2 + text("seven b") + b"\x01" + integer(0), "no rows"),
    ],
)
def test_a_value_that_is_not_of_the_declared_type_is_refused(
    kind: Kind, root: bytes, why: str
) -> None:
    refused(kind, made(rooted(root)), why)


COUNTED = (
    INTS, Many(TEXT), Many(Plain(), tuple), Dict(INT, TEXT), Rows(1), Rows(2), Rows(4), TEXT, BYTES,
)  # fmt: skip


@pytest.mark.parametrize("kind", COUNTED, ids=range(len(COUNTED)))
def test_a_count_whose_product_with_a_size_exceeds_64_bits_is_refused(kind: Kind) -> None:
    """Compiled integers wrap silently: multiplied by the size of an item, these could be small."""
    for power in range(32, 64):
        for near in (-1, 0, 1):
            for count in {(1 << power) + near, -(1 << power) + near, ((1 << power) + near) // 3}:
                if -(1 << 63) <= count < 1 << 63:
                    refused(kind, made(rooted(integer(count))))
                    refused(kind, made(rooted(integer(count) + bytes(64))))


def test_an_object_of_another_class_is_refused() -> None:
    counts = next(number for number, one in NUMBERED.items() if one.kind is not Connection)
    fields = b"\x01" * NUMBERED[counts].least
    refused(Ref(Connection), made(integer(1) + bytes([counts]) + integer(0) + fields), "is a")
    refused(INT, made(integer(1) + b"\xff" + integer(0)), "no class 255")


def test_objects_are_not_made_when_their_fields_cannot_be_there() -> None:
    numbers = bytes([2]) * 100
    refused(INT, made(integer(100) + numbers + b"\x01" * 100), "objects of")


def test_a_class_is_declared_once() -> None:
    class Own:
        __slots__ = ("x",)

    taken = next(iter(NUMBERED))
    with pytest.raises(ValueError, match="Own"):
        declare(taken, Fields(Own, ints="x"))
    with pytest.raises(ValueError, match="Own"):
        declare(256, Fields(Own, ints="x"))


DENSE: dict[str, tuple[Kind, Callable[[int], bytes]]] = {
    "lists": (Many(INTS), lambda _: b"\x01"),
    "dicts": (Many(Dict(INT, INT)), lambda _: b"\x01"),
    "sets": (Many(Many(INT, set)), lambda _: b"\x01"),
    "a set": (Many(INT, set), integer),
    "a dict": (Dict(INT, INT), lambda number: integer(number + 300) + b"\x01"),
    "plain lists": (Many(Plain()), lambda _: integer(5) + integer(0)),
    "plain dicts": (Many(Plain()), lambda _: integer(7) + integer(0)),
    "texts": (Many(TEXT), lambda number: text(f"{number:x}")),
    "byte arrays": (Many(Bytes(bytearray)), lambda _: b"\x01"),
    "integers": (INTS, lambda number: integer(number + 300)),
    "rows": (Rows(2), lambda _: bytes(16)),
    "marks": (MARKS, lambda _: bytes(56)),
    "partitions": (Many(PARTITIONS), lambda _: b"\x01\x01\x01\x01\x01"),
    **{
        f"inline {kind.__name__}": (
            Many(Maybe(Inline(layout))),
            lambda _, least=layout.least: b"\x02" + b"\x01" * max(least, 1),  # type: ignore[misc]
        )
        for kind, layout in DECLARED.items()
    },
}


@pytest.mark.parametrize("what", DENSE)
def test_many_small_values_take_a_bounded_multiple_of_their_bytes(what: str) -> None:
    kind, item = DENSE[what]
    items = b"".join(item(number) for number in range(MANY))
    content = made(rooted(integer(MANY) + items))
    assert spent(kind, content) < MEMORY_BASE + MEMORY_RATIO * len(content)


@pytest.mark.parametrize("number", NUMBERED)
def test_many_objects_take_a_bounded_multiple_of_their_bytes(number: int) -> None:
    least = NUMBERED[number].least
    numbers = bytes([number]) * MANY
    content = made(integer(MANY) + numbers + b"\x01" + b"\x01" * (MANY * least))
    assert spent(INT, content) < MEMORY_BASE + MEMORY_RATIO * len(content)


@pytest.mark.parametrize("size", [1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1])
@pytest.mark.parametrize(
    "kind", [TEXT, BYTES, INTS, Many(INT, set), Rows(7), Dict(INT, INT), MARKS, Plain()]
)
def test_a_size_that_lies_takes_no_memory(kind: Kind, size: int) -> None:
    for lead in (b"", integer(3), integer(5), integer(7)):
        content = made(rooted(lead + integer(size)))
        assert spent(kind, content) < MEMORY_BASE
    assert spent(kind, made(integer(size))) < MEMORY_BASE


@given(st.binary(max_size=400))
def test_any_content_is_a_value_or_an_error(content: bytes) -> None:
    for kind in (Plain(), MARKS, PARTITIONS, Dict(BYTES, TEXT)):
        with suppress(EncodingError):
            found = load(document(kind), made(content))
            assert load(document(kind), dump(document(kind), found)) == found or kind is PARTITIONS


class Patches:
    """Side effect that pickle would execute."""

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (Connection, "touched_by", "pickle")


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04r\xff\xff\xff\x1f.",  # 9 bytes: a place in a memo of 4 GB
        pickle.dumps(Patches()),
        pickle.dumps(Connection),
        b"ckdissect.streams.events\nConnection\n(dVtouched_by\nVpickle\nsb.",  # BUILD of a class
    ],
    ids=["memo", "reduce", "class", "build"],
)
def test_pickles_are_refused_with_any_header(content: bytes) -> None:
    for one in (content, made(content), made(rooted(content))):
        for kind in (Plain(), BYTES, Ref(Connection)):
            assert spent(kind, one) < MEMORY_BASE
            refused(kind, one)
    assert not hasattr(Connection, "touched_by")


def test_random_bytes_are_refused_or_plain() -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for _ in range(2000):
        content = made(rooted(chance.randbytes(chance.randrange(60))))
        try:
            load(document(Plain()), content)
        except EncodingError:
            continue
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
