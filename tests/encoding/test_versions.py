"""A document's version is raised when the encoding of anything in it changes."""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any

import pytest

from kdissect.checkpoint import boundary_state, checkpoint, corrections
from kdissect.dataset import incremental_tap, staging, task_results
from kdissect.encoding.classes import LAYOUTS, Fields, Inline, attribute_names
from kdissect.encoding.documents import Document
from kdissect.encoding.kinds import BYTES, INT, TEXT, Dict, Fixed, Many, Maybe
from kdissect.exchanges.connection_state import Positions

DOCUMENTS = (
    boundary_state.DOCUMENT,
    checkpoint.DOCUMENT,
    corrections.DOCUMENT,
    incremental_tap.DOCUMENT,
    staging.NAMES_DOCUMENT,
    task_results.DOCUMENT,
)
# Number of the document → its current version → fingerprint of its encoding.
FINGERPRINTS: dict[int, dict[int, int]] = {
    1: {18: 0xB63B22F1},
    2: {13: 0xB6D12D71},
    3: {1: 0xB0A8E898},
    4: {1: 0x5388240B},
    5: {1: 0xE4F46D0C},
    6: {2: 0x6AF74B0D, 3: 0xF184258E},
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_changed_encoding_has_a_new_version(document: Document) -> None:
    found = fingerprint(document.root)
    known = FINGERPRINTS[document.number]
    assert known.get(document.version) == found, (
        f"The encoding of document {document.number} ({document.name}) changed: raise its version, "
        f"now {document.version}, and put the new one in FINGERPRINTS with {found:#010x}"
    )


@pytest.mark.parametrize(
    "other",
    [
        Inline(Fields(Positions, ints="a c", bools="d", e=TEXT)),
        Inline(Fields(Positions, ints="b a", bools="d", e=TEXT)),
        Inline(Fields(Positions, ints="a b", bools="d f", e=TEXT)),
        Inline(Fields(Positions, ints="a b", bools="d", e=BYTES)),
        Inline(Fields(Positions, ints="a b", bools="d", e=Maybe(TEXT))),
        Inline(Fields(Positions, ints="a b", bools="d", e=TEXT, f=INT)),
        Inline(Fields(Positions, ints="a b", bools="d", e=TEXT, left_out={"f": None})),
    ],
)
def test_a_fingerprint_covers_names_order_and_types(other: Inline) -> None:
    one = Inline(Fields(Positions, ints="a b", bools="d", e=TEXT))
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(Dict(INT, Many(one))) != fingerprint(Dict(INT, Many(other)))
    # With each type in it described before.
    first = (INT, TEXT, BYTES, Maybe(TEXT))
    assert fingerprint(Fixed(*first, one)) != fingerprint(Fixed(*first, other))


def fingerprint(root: Any) -> int:
    """CRC of the names and types that a type encodes, with those of the classes it refers to."""
    return zlib.crc32("\n".join(described(root, {})).encode())


def described(one: Any, seen: dict[int, int]) -> Iterator[str]:
    """Lines that describe a type; functions that convert values do not change the encoding."""
    if isinstance(one, type):
        yield one.__qualname__
        if one in LAYOUTS:
            yield from described(LAYOUTS[one], seen)
    elif isinstance(one, Struct):
        yield one.format
    elif isinstance(one, str | int | None):
        yield repr(one)
    elif isinstance(one, dict):
        for key, value in one.items():
            yield from (*described(key, seen), *described(value, seen))
    elif isinstance(one, frozenset):
        for kind in sorted(one, key=lambda kind: kind.__qualname__):
            yield from described(kind, seen)
    elif isinstance(one, tuple | list):
        for item in one:
            yield from described(item, seen)
    elif type(one).__qualname__.startswith("vec["):
        yield type(one).__qualname__  # a blank value: compiled code has one of them, plain many
    elif id(one) in seen:
        yield f"type {seen[id(one)]} above"
    elif not callable(one):
        seen[id(one)] = len(seen)
        yield type(one).__qualname__
        # `_make` is how objects are made, not how they are encoded.
        for name in sorted(attribute_names(one) - {"_make"}):
            yield from (name, *described(getattr(one, name), seen))
