"""Frames of the protocols before 0.8 → plain values, by the layouts of `old_protocols`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kdissect.errors import DecodeError, InvalidValue, Truncated
from kdissect.messages.batches import Budget
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
from kdissect.messages.records import shown_budget
from kdissect.protocol.primitives import (
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_string,
    truncated,
)

READERS: Final[dict[str, Callable[[bytes, int], tuple[Any, int]]]] = {
    "int8": read_int8,
    "int16": read_int16,
    "int32": read_int32,
    "int64": read_int64,
    "string": read_string,
}
SMALLEST: Final = 2  # bytes of the smallest element of any array


class SetSpan(NamedTuple):
    """Where in a frame a message set lies; `ends_frame`: it ends where the frame does."""

    start: int
    end: int
    ends_frame: bool = False


class OldRead(NamedTuple):
    """What was read of a frame: all of it up to `end`, or what stood before the `error`."""

    body: Body
    end: int
    error: DecodeError | None


def decode_old(protocol: str, api: str | int, direction: str, data: bytes) -> Body:
    """A frame of Kafka 0.7 or of a 2012 draft, without its size field. Raises DecodeError.

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
    read = read_old(fields, data)
    if read.error is not None:
        raise read.error
    check_end(read, data)
    if direction == REQUEST and next(iter(read.body.values())) != known.key:
        raise InvalidValue(f"not a request of key {known.key}", offset=0, data=data, length=2)
    return {name: with_bytes(value, data) for name, value in read.body.items()}


def read_old(fields: Sequence[Field], data: bytes) -> OldRead:
    """The fields of a frame from its first byte on; never raises."""
    body: Body = {}
    try:
        return OldRead(body, _read_struct(fields, data, 0, body, True), None)
    except DecodeError as error:
        return OldRead(body, len(data), error)


def check_end(read: OldRead, data: bytes) -> None:
    """Raise InvalidValue unless the frame was read to its last byte."""
    left = len(data) - read.end
    if left:
        raise InvalidValue(f"{left} bytes left over", offset=read.end, data=data, length=left)


def full_old_body(
    protocol: int, key: int, data: bytes, is_response: bool, request: bytes = b""
) -> Body:
    """The body of a frame in full: message sets as lists of batches with their records.

    Positions in a response count from the offsets that its `request` asks for. Bytes behind the
    last field are counted in ``trailing_size``. Raises DecodeError.
    """
    api = find_old_api(protocol, key)
    read = read_old(api.response if is_response else api.request, data)
    if read.error is not None:
        raise read.error
    positions = asked_positions(read_old(api.request, request).body) if is_response else []
    body: Body = _with_sets(read.body, data, positions, shown_budget(len(data)))
    if read.end < len(data):
        body["trailing_size"] = len(data) - read.end
    return body


def asked_positions(request: Body) -> list[int]:
    """The offsets that a fetch request asks for, in the order of its entries."""
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
    """A body with its message sets as bytes."""
    if isinstance(value, SetSpan):
        return data[value.start : value.end]
    if isinstance(value, dict):
        return {name: with_bytes(field, data) for name, field in value.items()}
    return [with_bytes(item, data) for item in value] if isinstance(value, list) else value


def _with_sets(value: Any, data: bytes, positions: list[int], budget: Budget) -> Any:
    """A body with its message sets opened; the nth of them starts at the nth position."""
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


def _read_struct(
    fields: Sequence[Field], data: bytes, offset: int, into: Body, is_last: bool
) -> int:
    """Read the fields into `into`, which keeps them when a later one fails; gives the next offset.

    `is_last`: nothing comes behind these fields.
    """
    for field in fields:
        try:
            offset = _read_field(field, data, offset, into, is_last and field is fields[-1])
        except DecodeError as error:
            raise error.within(field.name) from None
    return offset


def _read_field(field: Field, data: bytes, offset: int, into: Body, is_last: bool) -> int:
    if field.count_type:
        return _read_array(field, data, offset, into, is_last)
    if field.type == MESSAGE_SET:
        end = _end_of_set(field, data, offset, into, is_last)
        ends_frame = field.size == TO_THE_END or (not field.size and is_last)
        into[field.name] = SetSpan(offset, end, ends_frame)
        return end
    into[field.name], offset = READERS[field.type](data, offset)
    return offset


def _read_array(field: Field, data: bytes, offset: int, into: Body, is_last: bool) -> int:
    count, offset = _read_count(field, data, offset)
    items: list[Any] = []
    into[field.name] = items
    while len(items) < count if count >= 0 else offset < len(data):
        try:
            if field.fields:
                item: Body = {}
                items.append(item)
                is_end = is_last and len(items) == count
                offset = _read_struct(field.fields, data, offset, item, is_end)
            else:
                value, offset = READERS[field.type](data, offset)
                items.append(value)
        except DecodeError as error:
            raise error.within(f"[{len(items) - bool(field.fields)}]") from None
    return offset


def _read_count(field: Field, data: bytes, offset: int) -> tuple[int, int]:
    """How many elements follow, -1 for as many as there are, and the next offset."""
    if field.count_type == TO_THE_END:
        return -1, offset
    count, start = READERS[field.count_type](data, offset)
    if count < 0:
        raise InvalidValue(f"count {count}", offset=offset, data=data, length=start - offset)
    # A count from the wire may say 2^31 - 1, each of which would cost a dict.
    if count > (len(data) - start) // SMALLEST:
        left = len(data) - start
        raise Truncated(f"{count} elements, only {left} bytes left", offset=offset, data=data)
    return count, start


def _end_of_set(field: Field, data: bytes, offset: int, into: Body, is_last: bool) -> int:
    if field.size == TO_THE_END:
        return len(data)
    if not field.size:
        # What ends the frame ends the set, with a message that is cut off in it.
        return len(data) if is_last else set_end(data, offset, len(data))
    size = into[field.size] - field.size_ahead
    if size < 0:
        raise InvalidValue(f"size {into[field.size]}", offset=offset, data=data)
    if size > len(data) - offset:
        raise truncated(data, offset, size, "message set")
    return int(offset + size)
