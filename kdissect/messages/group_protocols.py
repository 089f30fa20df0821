"""Opaque bytes that members of a group exchange through the coordinator (JoinGroup, SyncGroup).

The protocol type determines their format, and the protocol's name that of the user data in them:

    consumer   int16 version, ConsumerProtocolSubscription or ConsumerProtocolAssignment
    connect    int16 version, ConnectSubscription or ConnectAssignment
    sr         JSON text (schema registries)
"""

import json
from typing import Any, Final

from kdissect.errors import DecodeError, InvalidValue, UnknownApi
from kdissect.messages.layout_choice import Body, body_readers, decode_message, noted
from kdissect.messages.streams_assignment import decode_streams_assignment
from kdissect.messages.value_budget import charge, current, note_of
from kdissect.protocol.primitives import read_int16, read_int32

CONSUMER: Final = "consumer"
CONNECT: Final = "connect"
SCHEMA_REGISTRY: Final = "sr"
SUBSCRIPTION: Final = "Subscription"
ASSIGNMENT: Final = "Assignment"
NEWEST_CONSUMER: Final = 3  # newer ones add fields at its end
STREAMS: Final = "stream"
# '{"":1},' becomes a dict in a list, of 190 bytes; as much again for a rewritten list of numbers.
JSON_RATIO: Final = 48
# A schema registry has two levels. Values are walked by recursion, some calls for each level.
JSON_LEVELS: Final = 64
# Older requests and responses do not contain the type; these names belong to one.
CONNECT_PROTOCOLS: Final = frozenset({"default", "compatible", "sessioned"})


def opened_member(
    data: bytes | None, part: str, protocol_type: str | None, name: str | None
) -> Any:
    """Decode a member's subscription or assignment (`part`), with its size.

    None and b"" (a member without one) stay. Undecodable bytes become their size and the error.
    """
    if not data:
        return data
    try:
        kind = protocol_type or (CONNECT if name in CONNECT_PROTOCOLS else CONSUMER)
        values = decode_member(data, part, kind, name)
        return {"size": len(data), **({} if protocol_type else {"read_as": kind}), **values}
    except DecodeError as error:
        return {"undecoded": len(data), "error": str(error)}


def decode_member(data: bytes, part: str, protocol_type: str, name: str | None) -> Body:
    """Decode `data` of the protocol type; raise DecodeError."""
    if protocol_type == SCHEMA_REGISTRY:
        return {"json": decode_json(data)}
    if protocol_type == CONNECT:
        version = read_int16(data, 0)[0]
        body = decode_message("connect", f"Connect{part}", version, data, 2)
        if body.get("allocation"):
            # The worker's previous assignment (KIP-415), with its own version.
            body["allocation"] = opened_member(body["allocation"], ASSIGNMENT, CONNECT, name)
        return {"version": version, **body}
    if protocol_type == CONSUMER:
        return decode_consumer(data, part, name)
    raise UnknownApi(f"unknown group protocol {protocol_type!r}", data=data)


def decode_consumer(data: bytes, part: str, name: str | None) -> Body:
    """Decode a consumer's subscription or assignment; fields missing at its end are left out."""
    version, offset = read_int16(data, 0)
    if version < 0:
        raise InvalidValue(f"version {version}", offset=0, data=data, length=2)
    known = min(int(version), NEWEST_CONSUMER)
    layouts = body_readers("messages/embedded", f"ConsumerProtocol{part}", "layout", known)
    reader = layouts[0].reader
    values: Body = {"version": int(version)}
    value_budget = current()
    before = value_budget.left_out
    for field_name, field in zip(reader.names, reader.fields, strict=True):
        # Some clients leave out the fields behind the topics.
        if offset == len(data) and len(values) > 1:
            break
        try:
            values[field_name], offset = field.read_within(data, offset, value_budget)
        except DecodeError as error:
            error.within(field_name)
            raise
    if offset < len(data):
        values["trailing_size"] = len(data) - int(offset)
    if value_budget.left_out > before:
        values |= note_of(int(value_budget.left_out - before), "")
    values = noted(layouts[0], values, data, 2)
    if values.get("user_data"):
        values["user_data"] = opened_user_data(values["user_data"], part, name)
    return values


def opened_user_data(data: bytes, part: str, name: str | None) -> Body:
    """Decode the user data of the assignor `name` in a subscription or assignment, or its size."""
    try:
        return {"size": len(data), **decode_user_data(data, part, name)}
    except DecodeError as error:
        return {"undecoded": len(data), "error": str(error)}


def decode_user_data(data: bytes, part: str, name: str | None) -> Body:
    """Decode the user data of Kafka's own assignors; raise DecodeError."""
    if name == STREAMS and part == ASSIGNMENT:
        return decode_streams_assignment(data)
    if name == STREAMS:
        version = read_int32(data, 0)[0]
        return decode_message("streams", "SubscriptionInfoData", int(version), data)
    if name == "cooperative-sticky" and part == SUBSCRIPTION:
        return decode_message("assignor", "CooperativeStickyAssignorUserData", 0, data)
    if name == "sticky" and part == SUBSCRIPTION:
        try:
            return decode_message("assignor", "StickyAssignorUserData", 1, data)
        except DecodeError:
            return decode_message("assignor", "StickyAssignorUserData", 0, data)
    raise UnknownApi(f"user data of assignor {name!r} is not known", data=data)


def decode_json(data: bytes) -> Any:
    """Decode the JSON of a schema registry; raise InvalidValue."""
    charge(data, JSON_RATIO)
    try:
        value = json.loads(data)
        # An escape may stand for half a character, which cannot be written as UTF-8.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"not JSON: {error}", offset=0, data=data) from None
    if is_deeper(value, JSON_LEVELS):
        raise InvalidValue(f"JSON of more than {JSON_LEVELS} levels", offset=0, data=data)
    return value


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether arrays and objects are nested deeper than `levels`.

    >>> is_deeper([{"a": 1}], 2), is_deeper([{"a": []}], 2)
    (False, True)
    """
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(is_deeper(one, levels - 1) for one in inner)
