"""Frames → bodies in full, including records, and as JSON values."""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any, Final

from mypy_extensions import i64

from kdissect.messages.bodies import decode_frame
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.embedded import ENVELOPE, NO_PROTOCOL, GroupProtocol
from kdissect.messages.enum_names import with_names
from kdissect.messages.internal_topics import CLUSTER_METADATA_ID
from kdissect.messages.layout_choice import REQUEST, RESPONSE, Body
from kdissect.messages.memberships import JOIN_GROUP
from kdissect.messages.metadata_topics import CLUSTER_METADATA
from kdissect.messages.opened_records import WITH_RECORDS, Opener, Shape, shaped
from kdissect.messages.partitions import Partitions
from kdissect.messages.value_budget import LEFT_OUT, note_of, spending
from kdissect.protocol.apis import find_api
from kdissect.protocol.primitives import read_uuid
from kdissect.protocol.readers import NO_LIMIT, ValueBudget

UUID_SIZE: Final = 16
# A record in JSON has a field of that name; other bodies have none.
OF_RECORD: Final = '"time_ms": '
# Fields where records are in nearly all bodies that have them: those are shaped at once.
RECORDS_AT: Final = frozenset({"topic_data", "responses", "request_data"})
CONTROLS: Final = bytes(range(32))


def full_body(
    key: int,
    version: int,
    data: bytes,
    is_response: bool,
    request: bytes = b"",
    names: Mapping[str, str] | None = None,
    protocol: GroupProtocol = NO_PROTOCOL,
    limit: i64 = NO_LIMIT,
    unpacking: Unpacking | None = None,
    shape: Shape | None = None,
) -> Body:
    """Like `decode_frame`, with records fields as lists of batches with their records.

    `names` are topics' names by id. Records of Kafka's own topics have their keys and values
    decoded. Enumerated numbers have their names beside them, see `with_names`. Values take about
    `limit` bytes of memory; ``left_out`` contains the number of elements omitted for that, and the
    place of the first. `unpacking` bounds the decompression of records, which are as `shape`
    returns them.
    """
    with spending(limit) as value_budget:
        body = decode_frame(key, version, data, is_response, request, protocol, keeps_records=True)
        body = _with_all_names(key, body, is_response)
        if key in WITH_RECORDS:
            unpacking = unpacking or Unpacking()
            budget = unpacking.shown_budget(len(data))
            Opener(names or {}, budget, unpacking.limit, shape).open(key, body, is_response)
            unpacking.settle(budget)
    if value_budget.left_out:
        return {**body, **note_of(int(value_budget.left_out), value_budget.path)}
    return body


def member_body(
    key: int,
    version: int,
    data: bytes,
    is_response: bool,
    protocol: GroupProtocol = NO_PROTOCOL,
    limit: i64 = NO_LIMIT,
) -> Body:
    """Like `full_body` of a group API, without what `memberships` does not read.

    That is the subscriptions in a JoinGroup response. These APIs have no records, and no numbers
    with names.
    """
    is_opened = key != JOIN_GROUP
    with spending(limit) as value_budget:
        body = decode_frame(key, version, data, is_response, b"", protocol, is_opened=is_opened)
    if value_budget.left_out:
        return {**body, **note_of(int(value_budget.left_out), value_budget.path)}
    return body


def _with_all_names(key: int, body: Body, is_response: bool) -> Body:
    """Return a body with names for its numbers, also for those of a forwarded message."""
    side = RESPONSE if is_response else REQUEST
    body = with_names(find_api(key).name, side, body)
    if key == ENVELOPE:
        field = "response_data" if is_response else "request_data"
        body[field] = _with_inner_names(body[field], side)
    return body


def topic_names(partitions: Partitions | None, learnt: Mapping[bytes, str]) -> dict[str, str]:
    """Names of the partitions' topics by id, as bodies write ids; `learnt` are all so far."""
    names: dict[str, str] = {}
    known = zip(partitions.topics, partitions.topic_ids, strict=True) if partitions else ()
    for topic, topic_id in dict.fromkeys(known):
        name = topic or learnt.get(topic_id, "")
        if name and len(topic_id) == UUID_SIZE:
            names[read_uuid(topic_id, 0)[0]] = name
    # Even if a message names another topic: its records contain credentials.
    names[CLUSTER_METADATA_ID] = CLUSTER_METADATA
    return names


def body_json(
    body: Body | None,
    has_payload: bool,
    value_budget: ValueBudget | None = None,
    is_shaped: bool = False,
) -> str:
    """Format a body of `full_body` as JSON; "" for None.

    If it `is_shaped`, its records are as they are shown.
    """
    if body is None:
        return ""
    if not is_shaped:
        if RECORDS_AT.isdisjoint(body):
            text = _encoded(body, value_budget, is_shaped=False)
            if text is not None:
                return text
        body = shaped(body, has_payload)
    text = _encoded(body, value_budget, is_shaped=True)
    if text is not None:
        return text
    return json.dumps(jsonable(body, value_budget), ensure_ascii=False)


def _encoded(body: Body, value_budget: ValueBudget | None, is_shaped: bool) -> str | None:
    """Format a body as it is; None, and nothing charged, where it has what JSON has not.

    The encoder is C and asks for bytes only, which are charged as by `jsonable`. None, too, for
    records that are not shaped.
    """
    before = None if value_budget is None else (int(value_budget.left), int(value_budget.left_out))
    text: str | None
    try:
        text = json.dumps(
            body,
            ensure_ascii=False,
            allow_nan=False,
            check_circular=False,  # decoded values are trees
            default=lambda value: _bytes_only(value, value_budget),
        )
    except (TypeError, ValueError):
        text = None
    if text is not None and not is_shaped and OF_RECORD in text:
        text = None
    if text is None and value_budget is not None and before is not None:
        value_budget.left, value_budget.left_out = before
    return text


def _bytes_only(value: Any, value_budget: ValueBudget | None) -> Any:
    if not isinstance(value, bytes):
        raise TypeError(type(value).__name__)
    return jsonable(value, value_budget)


def jsonable(value: Any, value_budget: ValueBudget | None = None) -> Any:
    """Convert a body to JSON values; bytes see `json_bytes`.

    Values that take more characters than the budget has left are ``{"left_out": size}``.
    """
    if isinstance(value, dict):
        return {str(name): jsonable(field, value_budget) for name, field in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item, value_budget) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if not isinstance(value, bytes):
        return value
    if value_budget is not None:
        # A control character becomes six characters in JSON; four bytes at most six in base64.
        cost = len(value) + 5 * (len(value) - len(value.translate(None, CONTROLS)))
        if cost > value_budget.left:
            value_budget.leave_out(1, "")
            return {LEFT_OUT: len(value)}
        value_budget.left -= cost
    return json_bytes(value)


def json_bytes(value: bytes) -> str | dict[str, str]:
    """Text if it is UTF-8, else ``{"base64": "..."}``."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _with_inner_names(forwarded: Any, side: str) -> Any:
    """Add names for the numbers of a message in an Envelope, if it could be decoded."""
    if not isinstance(forwarded, dict) or "body" not in forwarded:
        return forwarded
    return forwarded | {"body": with_names(forwarded["api"], side, forwarded["body"])}
