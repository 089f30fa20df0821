"""Frames → bodies in full, including records, and as JSON values."""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any, Final

from kdissect.messages.bodies import decode_frame
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.embedded import ENVELOPE, NO_PROTOCOL, GroupProtocol
from kdissect.messages.enum_names import with_names
from kdissect.messages.internal_topics import CLUSTER_METADATA_ID, opened_record
from kdissect.messages.layout_choice import LAYOUT, REQUEST, RESPONSE, Body
from kdissect.messages.memberships import JOIN_GROUP
from kdissect.messages.metadata_topics import CLUSTER_METADATA
from kdissect.messages.partitions import Partitions
from kdissect.messages.records import Budget, decode_records
from kdissect.messages.value_budget import LEFT_OUT, note_of, spending
from kdissect.protocol.apis import find_api
from kdissect.protocol.primitives import read_uuid
from kdissect.protocol.readers import NO_LIMIT, ValueBudget

UUID_SIZE: Final = 16
RECORDS_FIELDS: Final = ("records", "unaligned_records")
RECORD_FIELDS: Final = frozenset({"offset", "time_ms", "key", "value", "headers"})
# A record in JSON has a field of that name; other bodies have none.
OF_RECORD: Final = '"time_ms": '
# Fields where records are in nearly all bodies that have them: those are shaped at once.
RECORDS_AT: Final = frozenset({"topic_data", "responses", "request_data"})
# APIs with fields of `RECORDS_FIELDS`, or with another API inside.
WITH_RECORDS: Final = frozenset({0, 1, ENVELOPE, 59, 78})
CONTROLS: Final = bytes(range(32))
HIDDEN: Final = ("key", "value", "headers")  # of a record, unless payload is requested


def full_body(
    key: int,
    version: int,
    data: bytes,
    is_response: bool,
    request: bytes = b"",
    names: Mapping[str, str] | None = None,
    protocol: GroupProtocol = NO_PROTOCOL,
    limit: int = NO_LIMIT,
    unpacking: Unpacking | None = None,
) -> Body:
    """Like `decode_frame`, with records fields as lists of batches with their records.

    `names` are topics' names by id. Records of Kafka's own topics have their keys and values
    decoded. Enumerated numbers have their names beside them, see `with_names`. Values take about
    `limit` bytes of memory; ``left_out`` contains the number of elements omitted for that, and the
    place of the first. `unpacking` bounds the decompression of records.
    """
    with spending(limit) as value_budget:
        body = decode_frame(key, version, data, is_response, request, protocol, keeps_records=True)
        body = _opened(key, body, is_response, names or {}, len(data), unpacking or Unpacking())
    if value_budget.left_out:
        return {**body, **note_of(int(value_budget.left_out), value_budget.path)}
    return body


def member_body(
    key: int,
    version: int,
    data: bytes,
    is_response: bool,
    protocol: GroupProtocol = NO_PROTOCOL,
    limit: int = NO_LIMIT,
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


def _opened(
    key: int,
    body: Body,
    is_response: bool,
    names: Mapping[str, str],
    size: int,
    unpacking: Unpacking,
) -> Body:
    """Return a body with names for its numbers, and its records decoded."""
    side = RESPONSE if is_response else REQUEST
    body = with_names(find_api(key).name, side, body)
    if key == ENVELOPE:
        field = "response_data" if is_response else "request_data"
        body[field] = _with_inner_names(body[field], side)
    if key not in WITH_RECORDS:
        return body
    budget = unpacking.shown_budget(size)
    opened: Body = _Opener(names, budget, unpacking.limit).opened("", body, None)
    unpacking.settle(budget)
    return opened


def topic_names(partitions: Partitions | None, learnt: Mapping[bytes, str]) -> dict[str, str]:
    """Names of the partitions' topics by id, as bodies write ids; `learnt` are all so far."""
    names: dict[str, str] = {}
    known = zip(partitions.topics, partitions.topic_ids, strict=True) if partitions else ()
    for topic, topic_id in known:
        name = topic or learnt.get(topic_id, "")
        if name and len(topic_id) == UUID_SIZE:
            names[read_uuid(topic_id, 0)[0]] = name
    # Even if a message names another topic: its records contain credentials.
    names[CLUSTER_METADATA_ID] = CLUSTER_METADATA
    return names


def body_json(body: Body | None, has_payload: bool, value_budget: ValueBudget | None = None) -> str:
    """Format a body of `full_body` as JSON; "" for None."""
    if body is None:
        return ""
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


def shaped(value: Any, has_payload: bool) -> Any:
    """Return a body with each record as shown: with its payload, or its sizes."""
    if isinstance(value, list):
        return [shaped(item, has_payload) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() >= RECORD_FIELDS:
        return _with_headers(value) if has_payload else _with_sizes(value)
    return {name: shaped(field, has_payload) for name, field in value.items()}


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


class _Opener:
    """Replaces the records fields of one body by their batches, within the body's budget."""

    def __init__(self, names: Mapping[str, str], budget: Budget, limit: int) -> None:
        self.names = names
        self.budget = budget
        self.limit = limit

    def opened(self, name: str, value: Any, topic: str | None) -> Any:
        """Decode every records field in the field `name`, of the topic `topic`."""
        if isinstance(value, dict):
            named = value.get("topic") or value.get("name")
            topic = named or self.names.get(value.get("topic_id", ""), topic)
            if value.get("unaligned_records") and value.get("position"):
                value = value | {"unaligned_records": _not_aligned(value)}
            return {inner: self.opened(inner, field, topic) for inner, field in value.items()}
        if isinstance(value, list):
            return [self.opened(name, item, topic) for item in value]
        if name not in RECORDS_FIELDS or not isinstance(value, bytes):
            return value
        batches = decode_records(value, self.limit, self.budget)
        return [_with_opened(batch, topic) for batch in batches]


def _not_aligned(partition: Body) -> Body:
    """Mark that the second and later pieces of a snapshot may begin within a batch."""
    size = len(partition["unaligned_records"])
    return {"undecoded": size, "error": f"begins at byte {partition['position']} of a snapshot"}


def _with_opened(batch: dict[str, Any], topic: str | None) -> dict[str, Any]:
    if "records" not in batch:
        return batch
    records = [_with_record_names(opened_record(record, topic)) for record in batch["records"]]
    return batch | {"records": records}


def _with_record_names(record: Body) -> Body:
    """Add names for the numbers of a metadata log record, according to its type."""
    value = record["value"]
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return record
    return record | {"value": with_names(value["type"], LAYOUT, value)}


def _with_inner_names(forwarded: Any, side: str) -> Any:
    """Add names for the numbers of a message in an Envelope, if it could be decoded."""
    if not isinstance(forwarded, dict) or "body" not in forwarded:
        return forwarded
    return forwarded | {"body": with_names(forwarded["api"], side, forwarded["body"])}


def _with_headers(record: dict[str, Any]) -> dict[str, Any]:
    headers = [{"key": name, "value": content} for name, content in record["headers"]]
    return record | {"headers": headers}


def _with_sizes(record: dict[str, Any]) -> dict[str, Any]:
    sizes = {name: field for name, field in record.items() if name not in HIDDEN}
    for name in ("key", "value"):
        content = record[name]
        sizes[f"{name}_size"] = _content_size(content)
    sizes["header_count"] = len(record["headers"])
    return sizes


def _content_size(content: Any) -> int | None:
    """Bytes of a key or value; a decoded one contains its size."""
    if isinstance(content, dict):
        size: int = content["undecoded"] if "undecoded" in content else content["size"]
        return size
    return None if content is None else len(content)
