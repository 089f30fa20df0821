"""Records fields of a decoded body → lists of batches, each with its records as values."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from mypy_extensions import i64

from kdissect.messages.embedded import ENVELOPE
from kdissect.messages.enum_names import with_names
from kdissect.messages.internal_topics import is_opened, opened_record
from kdissect.messages.layout_choice import LAYOUT, REQUEST, RESPONSE, Body
from kdissect.messages.records import Budget, decode_records
from kdissect.protocol.apis import find_api
from kdissect.protocol.specs import FieldSpec, snake_case

RECORDS: Final = "records"
UNALIGNED: Final = "unaligned_records"  # of snapshots
RECORDS_FIELDS: Final = (RECORDS, UNALIGNED)
RECORD_FIELDS: Final = frozenset({"offset", "time_ms", "key", "value", "headers"})
# Produce, Fetch, a forwarded API of any kind, FetchSnapshot, ShareFetch.
WITH_RECORDS: Final = frozenset({0, 1, ENVELOPE, 59, 78})
HIDDEN: Final = ("key", "value", "headers")  # of a record, unless payload is requested

# How a record is shown: `with_headers` or `with_sizes`.
Shape = Callable[[Body], Body]
# Fields of a struct with records somewhere inside, by name; a field of records has none itself.
Places = dict[str, "Places"]


class Opener:
    """Replaces the records fields of one body, in place, by their batches.

    `names` are topics' names by id, as bodies write them; `budget` is that of the whole body.
    Records are as `shape` returns them.
    """

    def __init__(
        self, names: Mapping[str, str], budget: Budget, limit: i64, shape: Shape | None
    ) -> None:
        self.names = names
        self.budget = budget
        self.limit = limit
        self.shape = shape

    def open(self, key: i64, body: Body, is_response: bool) -> None:
        """Decode all records of a body of API `key`."""
        if key == ENVELOPE:
            self._open_forwarded(body, None)
        else:
            self._open_struct(places_of(int(key), is_response), body, None)

    def _open_struct(self, places: Places, struct: Body, topic: str | None) -> None:
        """Decode the records at `places` in a struct inside the topic `topic`."""
        topic = self._enter(struct, topic)
        for name, inner in places.items():
            value = struct.get(name)
            if isinstance(value, bytes):
                struct[name] = self.batches(value, topic)
            elif isinstance(value, list):
                for item in value:
                    if isinstance(item, dict):
                        self._open_struct(inner, item, topic)
            elif isinstance(value, dict):
                self._open_struct(inner, value, topic)

    def _open_forwarded(self, value: Any, topic: str | None) -> None:
        """Decode the records anywhere in a struct or an array."""
        if isinstance(value, list):
            for item in value:
                self._open_forwarded(item, topic)
        elif isinstance(value, dict):
            topic = self._enter(value, topic)
            for name, field in value.items():
                if name in RECORDS_FIELDS and isinstance(field, bytes):
                    value[name] = self.batches(field, topic)
                else:
                    self._open_forwarded(field, topic)

    def _enter(self, struct: Body, topic: str | None) -> str | None:
        """Return the topic of a struct; pieces of a snapshot that are not aligned are marked."""
        if struct.get(UNALIGNED) and struct.get("position"):
            struct[UNALIGNED] = _not_aligned(struct)
        named = struct.get("topic") or struct.get("name")
        if isinstance(named, str):
            return named
        return self.names.get(struct.get("topic_id", ""), topic)

    def batches(self, data: bytes, topic: str | None) -> list[Body]:
        batches = decode_records(data, self.limit, self.budget)
        is_own = topic is not None and is_opened(topic)
        for batch in batches:
            records: Any = batch.get(RECORDS)
            if records is not None:
                batch[RECORDS] = [self._record(record, topic, is_own) for record in records]
        return batches

    def _record(self, record: Body, topic: str | None, is_own: bool) -> Body:
        """Return a record as shown, with its contents decoded where its topic is Kafka's own."""
        if is_own or "control_type" in record:
            record = _with_record_names(opened_record(record, topic))
        return record if self.shape is None else self.shape(record)


@cache
def places_of(key: int, is_response: bool) -> Places:
    """Where records are in the body of an API, in any of its versions and layouts."""
    definition = find_api(key).definition()
    side = RESPONSE if is_response else REQUEST
    specs = [definition.layouts[side]]
    specs += [spec for role, spec in definition.variants if role == side]
    found: Places = {}
    for spec in specs:
        _add_places(found, spec.fields)
    return found


def _add_places(found: Places, fields: tuple[FieldSpec, ...]) -> None:
    for field in fields:
        name = snake_case(field.name)
        if name in RECORDS_FIELDS:
            found.setdefault(name, {})
        elif field.is_struct:
            inner = found.get(name, {})
            _add_places(inner, field.fields)
            if inner:
                found[name] = inner


def shaped(value: Any, has_payload: bool) -> Any:
    """Return a body with each record as shown: with its payload, or its sizes."""
    if isinstance(value, list):
        return [shaped(item, has_payload) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() >= RECORD_FIELDS:
        return with_headers(value) if has_payload else with_sizes(value)
    return {name: shaped(field, has_payload) for name, field in value.items()}


def with_headers(record: Body) -> Body:
    """Return a record with each of its headers as a struct."""
    headers = [{"key": name, "value": content} for name, content in record["headers"]]
    return record | {"headers": headers}


def with_sizes(record: Body) -> Body:
    """Return a record without payload: the sizes of key and value, and the number of headers."""
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


def _not_aligned(partition: Body) -> Body:
    """Mark that the second and later pieces of a snapshot may begin within a batch."""
    size = len(partition[UNALIGNED])
    return {"undecoded": size, "error": f"begins at byte {partition['position']} of a snapshot"}


def _with_record_names(record: Body) -> Body:
    """Add names for the numbers of a metadata log record, according to its type."""
    value = record["value"]
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return record
    return record | {"value": with_names(value["type"], LAYOUT, value)}
