"""Readers of values: a tree of them is one layout (see `layouts`), built once and cached.

    read(data, offset)           → value, next offset     every field, as plain Python values
    read_within(data, offset, budget)                     the same, until the budget is spent
    skip(data, offset)           → next offset            bounds checked, nothing built
    end_of(data, offset)         → next offset, FAILED    like skip, for bytes that may not fit
    project(data, offset, sink)  → next offset            only requested fields

All end at the same offset; `skip` and `project` do not parse tags that were not requested, so they
may accept bytes that `read` rejects. Offsets count from the start of `data`, whose end is the end
of the message. Errors get their path while they unwind. Arrays and structs are in `structures`.
"""

from typing import Final

from librt.strings import read_i16_be, read_i32_be
from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from kdissect.errors import DecodeError
from kdissect.protocol.primitives import (
    check_offset,
    read_bool,
    read_bytes,
    read_compact_bytes,
    read_compact_length,
    read_compact_string,
    read_float64,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_length16,
    read_length32,
    read_string,
    read_uint16,
    read_uint32,
    read_uuid,
)

# Without the type, compiled code would box it where it is used with an i64.
NULL: Final[i64] = -(1 << 62)
FAILED: Final[i64] = -1  # result of a decode for a body that it leaves to the tree
VARIABLE: Final = -1  # fixed_size of types without one
FIRST_SLOTS: Final = 64
NO_LIMIT: Final[i64] = 1 << 62
# Approximate bytes of memory: of an integer, None or empty bytes and its place in a list; of an
# empty str with its bytes and their places in a dict.
VALUE_BYTES: Final = 40
TEXT_BYTES: Final = 96


class Shape:
    """A struct of a layout that yields rows; passed to `Sink.row`.

    `path` is like ``responses[].partitions[]``, "" for the body. `slots` and `names` are indexed by
    role number: the slot of the role's value and the snake_case name of the field, 0 and "" for
    roles that the struct does not have.
    """

    __slots__ = ("kind", "path", "slots", "names")

    def __init__(self, kind: i64, path: str, slots: list[int], names: list[str]) -> None:
        self.kind = kind
        self.path = path
        self.slots = packed(slots)
        self.names = names


def packed(numbers: list[int]) -> vec[i64]:
    """The numbers packed side by side, so that none has to be unboxed on use."""
    result = vec[i64]()
    for number in numbers:
        result = append(result, number)
    return result


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink:
    """Receives a projected decode: values in `slots`, and a call of `row` at the end of structs.

    Slot 0 is always NULL. Integers and bools are stored as they are; strings, bytes and records as
    span ``offset << 32 | length``; uuid and float64 as their offset; counted arrays as their count.
    Null is NULL. With `takes_fast_paths`, only for sinks that support fast paths, bodies are read
    by generated code where there is any (see `plans.GeneratedRead`).
    """

    def __init__(self) -> None:
        self.takes_fast_paths: bool = False
        self.slots: vec[i64] = vec[i64]([NULL] * FIRST_SLOTS)

    def begin(self) -> None:
        """Discard the results of the body so far: it is read again. No effect here."""

    def row(self, shape: Shape, data: bytes) -> None:
        """The struct of `shape` has been read; its values are in the slots. Ignored here."""


@mypyc_attr(acyclic=True)
class ValueBudget:
    """Remaining memory for the values of a message, in bytes.

    A value that was begun is read to its end, so the bound may be exceeded slightly. Elements of
    arrays, and tags, that did not fit are counted in `left_out`; `path` is that of the first one.
    """

    __slots__ = ("left", "left_out", "path")

    def __init__(self, left: i64 = NO_LIMIT) -> None:
        self.left = left
        self.left_out: i64 = 0
        self.path = ""

    def leave_out(self, count: i64, step: str) -> None:
        """Count skipped elements; `step` is the last step of the first one's path."""
        if self.left_out == 0:
            self.path = step
        self.left_out += count

    def within(self, step: str) -> None:
        """Prepend `step` to the path: a struct or array that contains the first one."""
        joint = "" if self.path.startswith("[") else "."
        self.path = f"{step}{joint}{self.path}"


def text_bytes(text: str) -> i64:
    r"""Maximum memory of a text, in bytes.

    >>> text_bytes("abcd"), text_bytes("ab\U0001f600")
    (100, 108)
    """
    size: i64 = len(text)
    return TEXT_BYTES + (size if text.isascii() else 4 * size)


class Reader:
    """Reads one type. `min_size` bytes at least, always `fixed_size` unless that is VARIABLE.

    This base reads a type that takes no bytes and has no value.
    """

    def __init__(self, min_size: i64 = 0, fixed_size: i64 = VARIABLE) -> None:
        self.min_size = min_size
        self.fixed_size = fixed_size

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        """Value at `offset` and the offset after it."""
        return None, offset

    def read_within(self, data: bytes, offset: i64, budget: ValueBudget) -> tuple[object, i64]:
        """Like `read`; the memory of the value is deducted from the budget."""
        budget.left -= VALUE_BYTES
        return self.read(data, offset)

    def skip(self, data: bytes, offset: i64) -> i64:
        """Offset after the value at `offset`."""
        return offset

    def end_of(self, data: bytes, offset: i64) -> i64:
        """Like `skip`; FAILED in place of an error, which takes as long as a hundred bytes."""
        try:
            return self.skip(data, offset)
        except DecodeError:
            return FAILED

    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        """Like `skip`, after passing requested fields to `sink`; none unless overridden."""
        return self.skip(data, offset)


def end_behind(data: bytes, start: i64, length: i64) -> i64:
    """Offset after so many bytes from `start` on; FAILED if fewer are left, or it is below null."""
    if length < 0:
        return start if length == -1 else FAILED
    return start + length if start + length <= len(data) else FAILED


class FixedReader(Reader):
    """Type of fixed size."""

    def __init__(self, size: i64) -> None:
        super().__init__(size, size)

    def skip(self, data: bytes, offset: i64) -> i64:
        check_offset(data, offset, self.fixed_size, "value")
        return offset + self.fixed_size

    def end_of(self, data: bytes, offset: i64) -> i64:
        end = offset + self.fixed_size
        return end if end <= len(data) else FAILED


class BoolReader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_bool(data, offset)


class Int8Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_int8(data, offset)


class Int16Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_int16(data, offset)


class Uint16Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_uint16(data, offset)


class Int32Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_int32(data, offset)


class Uint32Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_uint32(data, offset)


class Int64Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_int64(data, offset)


class Float64Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_float64(data, offset)


class UuidReader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_uuid(data, offset)


class StringReader(Reader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_string(data, offset)

    def read_within(self, data: bytes, offset: i64, budget: ValueBudget) -> tuple[object, i64]:
        text, end = read_string(data, offset)
        budget.left -= VALUE_BYTES if text is None else text_bytes(text)
        return text, end

    def skip(self, data: bytes, offset: i64) -> i64:
        length, start = read_length16(data, offset)
        return start + length if length > 0 else start

    def end_of(self, data: bytes, offset: i64) -> i64:
        if offset + 2 > len(data):
            return FAILED
        return end_behind(data, offset + 2, i64(read_i16_be(data, offset)))


class BytesReader(Reader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_bytes(data, offset)

    def skip(self, data: bytes, offset: i64) -> i64:
        length, start = read_length32(data, offset)
        return start + length if length > 0 else start

    def end_of(self, data: bytes, offset: i64) -> i64:
        if offset + 4 > len(data):
            return FAILED
        return end_behind(data, offset + 4, i64(read_i32_be(data, offset)))


class CompactReader(Reader):
    """Compact strings, bytes and records, when only their extent is needed."""

    def skip(self, data: bytes, offset: i64) -> i64:
        length, start = read_compact_length(data, offset)
        return start + length if length > 0 else start

    def end_of(self, data: bytes, offset: i64) -> i64:
        if offset >= len(data):
            return FAILED
        byte: i64 = data[offset]
        if byte < 128:
            return end_behind(data, offset + 1, byte - 1)
        return super().end_of(data, offset)


class CompactStringReader(CompactReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_compact_string(data, offset)

    def read_within(self, data: bytes, offset: i64, budget: ValueBudget) -> tuple[object, i64]:
        text, end = read_compact_string(data, offset)
        budget.left -= VALUE_BYTES if text is None else text_bytes(text)
        return text, end


class CompactBytesReader(CompactReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_compact_bytes(data, offset)
