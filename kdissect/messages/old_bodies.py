"""Frames of the protocols before 0.8 → plain values, by the layouts of `old_protocols`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kdissect.errors import DecodeError, InvalidValue, Truncated, left_over
from kdissect.limits import DECODED_BYTES
from kdissect.messages.batches import Budget
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.interner import LONGEST_TEXT
from kdissect.messages.layout_choice import REQUEST, RESPONSE, Body
from kdissect.messages.message_set_values import decode_set
from kdissect.messages.message_sets import set_end
from kdissect.messages.old_protocols import (
    MESSAGE_SET,
    TO_THE_END,
    Field,
    find_old_api,
    find_protocol,
)
from kdissect.messages.value_budget import note_of, spending
from kdissect.protocol.primitives import (
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_string,
    truncated,
)
from kdissect.protocol.readers import NO_LIMIT, VALUE_BYTES, ValueBudget

READERS: Final[dict[str, Callable[[bytes, int], tuple[Any, int]]]] = {
    "int8": read_int8,
    "int16": read_int16,
    "int32": read_int32,
    "int64": read_int64,
    "string": read_string,
}
SMALLEST: Final = 2  # bytes of the smallest element of any array
# Approximate bytes of memory: of an element with its fields, of its row in the tables, and of a
# byte of its text.
STRUCT_BYTES: Final = 768
TEXT_RATIO: Final = 4


class SetSpan(NamedTuple):
    """Position of a message set in a frame; `ends_frame`: it ends where the frame does."""

    start: int
    end: int
    ends_frame: bool = False


class OldRead(NamedTuple):
    """Result of reading a frame: all of it up to `end`, or the fields before the `error`.

    `left_out` elements of arrays had no room.
    """

    body: Body
    end: int
    error: DecodeError | None
    left_out: int = 0


def decode_old(protocol: str, api: str | int, direction: str, data: bytes) -> Body:
    """Decode a frame of Kafka 0.7 or of a 2012 draft, without its size field. Raises DecodeError.

    `protocol` is "0.7", "proposal" or "trunk-2012", `api` a key or a name, `direction` "request" or
    "response". The fields of the header are in the body; message sets stay bytes (`read_set` of
    `kdissect.messages.message_sets` opens them).
    """
    known = find_old_api(find_protocol(protocol), api)
    if direction not in (REQUEST, RESPONSE):
        raise ValueError(f"direction is request or response, not {direction!r}")
    fields = known.request if direction == REQUEST else known.response
    if not fields:
        raise InvalidValue(f"{known.name} has no response in {protocol}", offset=0, data=data)
    read = read_old(fields, data, NO_LIMIT)
    if read.error is not None:
        raise read.error
    check_end(read, data)
    if direction == REQUEST and next(iter(read.body.values())) != known.key:
        raise InvalidValue(f"not a request of key {known.key}", offset=0, data=data, length=2)
    return {name: with_bytes(value, data) for name, value in read.body.items()}


def read_old(fields: Sequence[Field], data: bytes, limit: int = DECODED_BYTES) -> OldRead:
    """Read the fields of a frame from its first byte on, in about `limit` bytes; never raises."""
    reader = _OldReader(data, limit)
    body: Body = {}
    try:
        end = reader.struct(fields, 0, body, True)
        return OldRead(body, end, None, int(reader.value_budget.left_out))
    except DecodeError as error:
        return OldRead(body, len(data), error, int(reader.value_budget.left_out))


def check_end(read: OldRead, data: bytes) -> None:
    """Raise InvalidValue unless the frame was read to its last byte."""
    if read.end != len(data):
        raise left_over(read.end, data)


def full_old_body(
    protocol: int,
    key: int,
    data: bytes,
    is_response: bool,
    request: bytes = b"",
    limit: int = NO_LIMIT,
    unpacking: Unpacking | None = None,
) -> Body:
    """Decode the body of a frame in full: message sets as lists of batches with their records.

    Positions in a response count from the offsets in its `request`. Bytes behind the last field are
    counted in ``trailing_size``; `limit` and `unpacking` see `full_bodies`. Raises DecodeError.
    """
    unpacking = unpacking or Unpacking()
    api = find_old_api(protocol, key)
    read = read_old(api.response if is_response else api.request, data, limit)
    if read.error is not None:
        raise read.error
    positions = asked_positions(read_old(api.request, request, limit).body) if is_response else []
    budget = unpacking.shown_budget(len(data))
    with spending(limit) as value_budget:
        body: Body = _with_sets(read.body, data, positions, budget)
    unpacking.settle(budget)
    left_out = read.left_out + int(value_budget.left_out)
    if left_out:
        body |= note_of(left_out, "")
    if read.end < len(data):
        body["trailing_size"] = len(data) - read.end
    return body


def asked_positions(request: Body) -> list[int]:
    """Requested offsets of a fetch request, in the order of its entries."""
    if "offset" in request:
        return [request["offset"]]
    fetches = request.get("fetches", ())
    positions: list[int] = [entry["offset"] for entry in fetches if "offset" in entry]
    for topic in request.get("topic_offsets", ()):
        positions += topic.get("offsets", ())
    return positions


def set_spans(value: Any) -> Iterator[SetSpan]:
    """The message sets in a body."""
    if isinstance(value, SetSpan):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from set_spans(inner)


def with_bytes(value: Any, data: bytes) -> Any:
    """Return a body with its message sets as bytes."""
    if isinstance(value, SetSpan):
        return data[value.start : value.end]
    if isinstance(value, dict):
        return {name: with_bytes(field, data) for name, field in value.items()}
    return [with_bytes(item, data) for item in value] if isinstance(value, list) else value


def _with_sets(value: Any, data: bytes, positions: list[int], budget: Budget) -> Any:
    """Return a body with its message sets decoded; the nth of them starts at the nth position."""
    if isinstance(value, SetSpan):
        position = positions.pop(0) if positions else 0
        return decode_set(data[value.start : value.end], position, budget)
    if isinstance(value, dict):
        if "initial_offset" in value:
            positions = [value["initial_offset"]]
        return {name: _with_sets(field, data, positions, budget) for name, field in value.items()}
    if isinstance(value, list):
        return [_with_sets(item, data, positions, budget) for item in value]
    return value


class _OldReader:
    """Reads the fields of one frame; every method returns the next offset."""

    def __init__(self, data: bytes, limit: int) -> None:
        self.data = data
        self.value_budget = ValueBudget(min(limit, NO_LIMIT))

    def struct(self, fields: Sequence[Field], offset: int, into: Body, is_last: bool) -> int:
        """Read the fields into `into`, which keeps them if a later one fails.

        `is_last`: nothing follows these fields.
        """
        for field in fields:
            try:
                offset = self.field(field, offset, into, is_last and field is fields[-1])
            except DecodeError as error:
                raise error.within(field.name) from None
        return offset

    def field(self, field: Field, offset: int, into: Body, is_last: bool) -> int:
        if field.count_type:
            return self.array(field, offset, into, is_last)
        if field.type == MESSAGE_SET:
            end = _end_of_set(field, self.data, offset, into, is_last)
            ends_frame = field.size == TO_THE_END or (not field.size and is_last)
            into[field.name] = SetSpan(offset, end, ends_frame)
            return end
        into[field.name], offset = READERS[field.type](self.data, offset)
        return offset

    def array(self, field: Field, offset: int, into: Body, is_last: bool) -> int:
        data = self.data
        count, offset = _read_count(field, data, offset)
        items: list[Any] = []
        into[field.name] = items
        number = 0
        while number < count if count >= 0 else offset < len(data):
            is_end = is_last and number + 1 == count
            try:
                offset = self.element(field, offset, items, number, is_end)
            except DecodeError as error:
                raise error.within(f"[{number}]") from None
            number += 1
        return offset

    def element(
        self, field: Field, offset: int, items: list[Any], number: int, is_end: bool
    ) -> int:
        """Read an element and, if there is room for it, add it to the items."""
        has_room = self.value_budget.left > 0
        if not has_room:
            self.value_budget.leave_out(1, f"[{number}]")
        if not field.fields:
            value, offset = READERS[field.type](self.data, offset)
            self.value_budget.left -= VALUE_BYTES
            if has_room:
                items.append(value)
            return offset
        item: Body = {}
        if has_room:
            items.append(item)
        before = offset
        offset = self.struct(field.fields, offset, item, is_end)
        self.value_budget.left -= STRUCT_BYTES + TEXT_RATIO * min(offset - before, LONGEST_TEXT)
        return offset


def _read_count(field: Field, data: bytes, offset: int) -> tuple[int, int]:
    """Number of elements, -1 for all up to the end, and the next offset."""
    if field.count_type == TO_THE_END:
        return -1, offset
    count, start = READERS[field.count_type](data, offset)
    if count < 0:
        raise InvalidValue(f"count {count}", offset=offset, data=data, length=start - offset)
    # A count from the wire may be 2^31 - 1, and each element would cost a dict.
    if count > (len(data) - start) // SMALLEST:
        left = len(data) - start
        raise Truncated(f"{count} elements, only {left} bytes left", offset=offset, data=data)
    return count, start


def _end_of_set(field: Field, data: bytes, offset: int, into: Body, is_last: bool) -> int:
    if field.size == TO_THE_END:
        return len(data)
    if not field.size:
        # The end of the frame ends the set, with a truncated message in it.
        return len(data) if is_last else set_end(data, offset, len(data))
    size = into[field.size] - field.size_ahead
    if size < 0:
        raise InvalidValue(f"size {into[field.size]}", offset=offset, data=data)
    if size > len(data) - offset:
        raise truncated(data, offset, size, "message set")
    return int(offset + size)
