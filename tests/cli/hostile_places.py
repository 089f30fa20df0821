"""Every place for text in messages, each with a hostile text that contains its number.

The schema is walked: requests and responses of every API, layouts that releases changed in place,
messages inside messages (of group members, Envelopes, pushed metrics), records of Kafka's own
topics, and the protocols from before 0.8.
"""

import json
import random
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)

from kdissect.messages.batches import CONTROL_TYPES
from kdissect.messages.internal_topics import COORDINATORS, METADATA
from kdissect.messages.old_protocols import MESSAGE_SET, OLD_APIS, PROTOCOLS, TO_THE_END, Field
from kdissect.protocol.apis import APIS, request_header_version
from kdissect.protocol.notation import load_file
from kdissect.protocol.specs import FieldSpec, MessageSpec, snake_case
from tests.cli.test_hostile_text import HARMFUL, STARTS
from tests.exchange_builders import INTEGERS, make_struct, request, response, sized
from tests.hostile_captures import Talk
from tests.messages.record_builders import make_batch, make_record
from tests.old_builders import message, string16
from tests.seeds import SEED

SIDES = ("request", "response")
LAYOUT: Final = "layout"
AT_ONCE = 6  # harmful characters in a text
ERROR_CODES = (0, 3, 15, 25, 58)
STRINGS, BYTES, RECORDS = "string", "bytes", "records"
TEXTS = (STRINGS, BYTES)
APIS_BY_NAME = {api.name: api for api in APIS.values()}
FORWARDED = 6  # APIs drawn
CONTROL = 1 << 5  # of a batch's attributes
OLD_PORT = 9100  # and the numbers of the protocols behind it
# Requests whose own fields may be credentials; a client id of theirs with such a character may have
# the wrong length, and begin in it.
WITH_CREDENTIALS = (
    "AlterConfigs", "AlterUserScramCredentials", "CreateTopics", "Envelope",
    "ExpireDelegationToken", "IncrementalAlterConfigs", "RenewDelegationToken", "SaslAuthenticate",
)  # fmt: skip
UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ufffd\ud800-\udfff]")
DECODE_AS = tuple(
    word
    for number, name in enumerate(PROTOCOLS[1:], 1)
    for word in ("--decode-as", f"{OLD_PORT + number}={name}")
)
MIRRORED = {
    "MirrorCheckpoint": "east.checkpoints.internal",
    "MirrorHeartbeat": "east.heartbeats",
    "MirrorOffsetSync": "mm2-offset-syncs.east.internal",
}
CONTROLS = {
    "LEADER_CHANGE": "LeaderChangeMessage",
    "SNAPSHOT_HEADER": "SnapshotHeaderRecord",
    "SNAPSHOT_FOOTER": "SnapshotFooterRecord",
    "KRAFT_VERSION": "KRaftVersionRecord",
    "KRAFT_VOTERS": "VotersRecord",
}

Said = tuple[bytes, bytes]
Known = Mapping[str, Any]
NOTHING: Known = {}


class Place(NamedTuple):
    """A field of a message: ``Fetch request v12 topics.topic``; `message` may be an inner one."""

    message: str
    version: int
    side: str
    path: str
    type: str


class Texts:
    """Gives each field a text that has its number, and remembers which field that is."""

    def __init__(self) -> None:
        self.chance = random.Random(SEED)
        self.places: list[Place] = []
        self.given: set[str] = set()
        # Numbers in messages that are withheld: their client id may reach over credentials.
        self.withheld: set[int] = set()

    def text(self, place: Place) -> str:
        """Formula start, harmful characters in turn, number, and the same at the end."""
        number = len(self.places)
        self.places.append(place)
        harmful = "".join(HARMFUL[(AT_ONCE * number + at) % len(HARMFUL)] for at in range(AT_ONCE))
        self.given.update(harmful)
        return f"{self.chance.choice(STARTS)}{harmful}<{number}>{self.chance.choice(HARMFUL)}"

    def values(self, api: str, version: int, side: str) -> dict[str, Any]:
        fields = APIS_BY_NAME[api].definition().layouts[side].fields
        return self.struct(fields, Place(api, version, side, "", ""))

    def struct(
        self, fields: tuple[FieldSpec, ...], place: Place, known: Known = NOTHING
    ) -> dict[str, Any]:
        """Values of the fields; of those that are not `known`, all with texts have some."""
        return dict(known) | {
            snake_case(field.name): self.field(field, within(place, field))
            for field in fields
            if place.version in field.versions and snake_case(field.name) not in known
            and (field.is_array or field.is_struct or field.type in (STRINGS, BYTES, RECORDS)
                 or field.name in ("ErrorCode", "Acks"))
        }  # fmt: skip

    def field(self, field: FieldSpec, place: Place) -> Any:
        if field.is_array:
            return [self.one(field, place)] if field.type in TEXTS or field.is_struct else []
        return self.one(field, place)

    def one(self, field: FieldSpec, place: Place) -> Any:
        if field.is_struct:
            return self.struct(field.fields, place)
        if field.type == STRINGS:
            return self.text(place)
        if field.type == BYTES:
            return self.text(place).encode()
        if field.type == RECORDS:
            key, value, name, content = (self.text(place).encode() for _ in range(4))
            return make_batch([make_record(key, value, headers=[(name, content)])])
        # Without acknowledgements a Produce has no response.
        return -1 if field.name == "Acks" else self.chance.choice(ERROR_CODES)

    def body(self, spec: MessageSpec, place: Place, known: Known = NOTHING) -> bytes:
        """The bytes of a layout with a text in each place, see `struct`."""
        values = self.struct(spec.fields, place, known)
        return make_struct(spec.fields, place.version, place.version in spec.flexible, values)

    def inner(self, file: str, name: str, version: int, known: Known = NOTHING) -> bytes:
        """The same of a message that is inside others."""
        spec = load_file(f"messages/{file}")[name].layouts[LAYOUT]
        return self.body(spec, Place(name, version, LAYOUT, "", ""), known)


def within(place: Place, field: FieldSpec) -> Place:
    path = f"{place.path}.{field.name}" if place.path else field.name
    return place._replace(path=path, type=field.type)


def talks(texts: Texts) -> Iterator[Talk]:
    """A connection for each exchange: a login is not followed by others on the same one."""
    number = 0
    for said in (of_apis, of_variants, of_members, of_envelopes, of_metrics, of_records):
        for asked, answered in said(texts):
            number += 1
            talk = Talk(port=20_000 + number, begin_ns=number * 1_000_000_000)
            talk.client(request("ApiVersions", 0, 1)).broker(response("ApiVersions", 0, 1))
            yield talk.client(asked).broker(answered)
    for port, asked, answered in of_old(texts):
        number += 1
        talk = Talk(20_000 + number, number * 1_000_000_000, broker_port=port)
        talk.client(asked)
        yield talk.broker(answered) if answered else talk


def of_apis(texts: Texts) -> Iterator[Said]:
    for api in APIS_BY_NAME:
        for version in drawn_versions(api, texts.chance):
            first = len(texts.places)
            client = None
            if request_header_version(APIS_BY_NAME[api].key, version):
                client = texts.text(Place(api, version, "request", "client id", STRINGS))
            yield exchange_of(texts, api, version, client)
            if api in WITH_CREDENTIALS and UNFIT.search(client or ""):
                texts.withheld.update(range(first, len(texts.places)))
                yield exchange_of(texts, api, version, "plain")


def exchange_of(texts: Texts, api: str, version: int, client: str | None) -> Said:
    """A request and its response with texts in all places."""
    asked, answered = (texts.values(api, version, side) for side in SIDES)
    return request(api, version, 2, client, **asked), response(api, version, 2, **answered)


def drawn_versions(api: str, chance: random.Random) -> list[int]:
    """The newest version that both sides have, and one more."""
    layouts = APIS_BY_NAME[api].definition().layouts
    versions = sorted(layouts["request"].versions & layouts["response"].versions)
    return sorted({versions[-1], chance.choice(versions)})


def of_variants(texts: Texts) -> Iterator[Said]:
    """Bodies in layouts that were changed in place, with an empty one of the other side."""
    for name, side, spec in variants():
        version = max(spec.versions)
        body = {side: texts.body(spec, Place(variant_name(name, spec), version, side, "", ""))}
        yield (
            request(name, version, 2, body=body.get("request")),
            response(name, version, 2, body=body.get("response")),
        )


def variants() -> Iterator[tuple[str, str, MessageSpec]]:
    for name, api in APIS_BY_NAME.items():
        for side, spec in api.definition().variants:
            yield name, side, spec


def variant_name(api: str, spec: MessageSpec) -> str:
    return f"{api} of {spec.releases[0]}"


def of_members(texts: Texts) -> Iterator[Said]:
    """Subscriptions and assignments in every place where members and coordinators send them."""
    for kind, name in (
        ("consumer", "range"), ("consumer", "sticky"), ("consumer", "stream"),
        ("connect", "sessioned"), ("sr", "v0"),
    ):  # fmt: skip
        protocol = {"protocol_type": kind, "protocol_name": name}
        offered = [{"name": name, "metadata": subscription(texts, kind, name)}]
        joined = [{"member_id": "m", "metadata": subscription(texts, kind, name)}]
        yield (
            request("JoinGroup", 9, 2, protocol_type=kind, protocols=offered),
            response("JoinGroup", 9, 2, leader="m", member_id="m", members=joined, **protocol),
        )
        sent = [{"member_id": "m", "assignment": assignment(texts, kind, name)}]
        yield (
            request("SyncGroup", 5, 2, assignments=sent, **protocol),
            response("SyncGroup", 5, 2, assignment=assignment(texts, kind, name), **protocol),
        )
        member = {
            "member_metadata": subscription(texts, kind, name),
            "member_assignment": assignment(texts, kind, name),
        }
        group = {"protocol_type": kind, "protocol_data": name, "members": [member]}
        yield (
            request("DescribeGroups", 5, 2, groups=["g"]),
            response("DescribeGroups", 5, 2, groups=[group]),
        )


def subscription(texts: Texts, kind: str, name: str) -> bytes:
    if kind == "sr":
        return json_text(texts)
    if kind == "connect":
        before = assignment(texts, kind, name)
        return int16(2) + texts.inner("connect", "ConnectSubscription", 2, {"allocation": before})
    known = {}
    if name == "sticky":
        known["user_data"] = texts.inner("assignor", "StickyAssignorUserData", 1)
    if name == "stream":
        known["user_data"] = texts.inner("streams", "SubscriptionInfoData", 11, {"version": 11})
    return int16(3) + texts.inner("embedded", "ConsumerProtocolSubscription", 3, known)


def assignment(texts: Texts, kind: str, name: str) -> bytes:
    if kind == "sr":
        return json_text(texts)
    if kind == "connect":
        return int16(2) + texts.inner("connect", "ConnectAssignment", 2)
    known = {"user_data": streams_assignment(texts)} if name == "stream" else {}
    return int16(3) + texts.inner("embedded", "ConsumerProtocolAssignment", 3, known)


def json_text(texts: Texts) -> bytes:
    name, value = (texts.text(Place("sr", 0, LAYOUT, what, STRINGS)) for what in ("key", "value"))
    return json.dumps({name: value}, ensure_ascii=False).encode()


def streams_assignment(texts: Texts) -> bytes:
    """AssignmentInfo of version 10, which the schema does not have."""
    topology, topic, host = (
        texts.text(Place("AssignmentInfo", 10, LAYOUT, path, STRINGS))
        for path in ("topology", "topic", "host")
    )
    named = topology.encode("utf-16-be")
    task = int32(0, 0, len(named) // 2) + named
    at_host = int32(1) + string16(host) + int32(9092, 1, 0, 0)
    tasks = int32(10, 10, 1) + task + int32(0)
    return tasks + int32(1, 0) + string16(topic) + at_host + int32(0, 0) + bytes(8)


def of_envelopes(texts: Texts) -> Iterator[Said]:
    """Forwarded requests of drawn APIs with their principals, and the responses."""
    forwardable = sorted(APIS_BY_NAME.keys() - {"Envelope"})
    for api in texts.chance.sample(forwardable, FORWARDED):
        version = drawn_versions(api, texts.chance)[-1]
        inner = [
            texts.struct(layout.fields, Place(f"forwarded {api}", version, side, "", ""))
            for side, layout in APIS_BY_NAME[api].definition().layouts.items()
        ]
        asked = request(api, version, 7, "shop", **inner[0])[4:]
        answered = response(api, version, 7, **inner[1])[4:]
        principal = int16(0) + texts.inner("embedded", "DefaultPrincipalData", 0)
        yield (
            request("Envelope", 0, 2, request_data=asked, request_principal=principal),
            response("Envelope", 0, 2, response_data=answered),
        )


def of_metrics(texts: Texts) -> Iterator[Said]:
    name, unit, key, value = (
        texts.text(Place("MetricsData", 0, LAYOUT, path, STRINGS))
        for path in ("name", "unit", "key", "value")
    )
    label = KeyValue(key=key, value=AnyValue(string_value=value))
    gauge = Gauge(data_points=[NumberDataPoint(as_int=1, attributes=[label])])
    scope = ScopeMetrics(metrics=[Metric(name=name, unit=unit, gauge=gauge)])
    pushed = MetricsData(resource_metrics=[ResourceMetrics(scope_metrics=[scope])])
    asked = request("PushTelemetry", 0, 2, metrics=pushed.SerializeToString())
    yield asked, response("PushTelemetry", 0, 2)


def of_records(texts: Texts) -> Iterator[Said]:
    """Records of Kafka's own topics and MirrorMaker's, and of control batches, as fetched."""
    for topic, file in COORDINATORS.items():
        definitions = load_file(f"messages/{file}")
        for key in definitions.values():
            if key.name.endswith("Key"):
                name = key.name.removesuffix("Key") + "Value"
                version = max(definitions[name].versions)
                # One has its number as version.
                number = key.key if key.kind == "coordinator-key" else min(key.versions)
                record = make_record(
                    int16(number) + texts.inner(file, key.name, min(key.versions)),
                    int16(version) + texts.inner(file, name, version),
                )
                yield fetched(topic, make_batch([record]))
    for topic, file in METADATA.items():
        for record_type in load_file(f"messages/{file}").values():
            if record_type.kind == "metadata":
                version = max(record_type.versions)
                frame = bytes((1, record_type.key, version))
                value = frame + texts.inner(file, record_type.name, version)
                yield fetched(topic, make_batch([make_record(None, value)]))
    for name, topic in MIRRORED.items():
        head = b"" if name == "MirrorOffsetSync" else int16(0)
        value = head + texts.inner("mirror", f"{name}Value", 0)
        key = texts.inner("mirror", f"{name}Key", 0)
        yield fetched(topic, make_batch([make_record(key, value)]))
    for control, name in CONTROLS.items():
        key = int16(0, CONTROL_TYPES.index(control))
        version = max(load_file("messages/embedded")[name].versions)
        value = texts.inner("embedded", name, version, {"version": version})
        yield fetched("log", make_batch([make_record(key, value)], attributes=CONTROL))


def fetched(topic: str, records: bytes) -> Said:
    partitions = [{"records": records, "high_watermark": 9}]
    return (
        request("Fetch", 12, 2, topics=[{"topic": topic, "partitions": [{}]}]),
        response("Fetch", 12, 2, responses=[{"topic": topic, "partitions": partitions}]),
    )


def of_old(texts: Texts) -> Iterator[tuple[int, bytes, bytes]]:
    """Exchanges of the protocols before 0.8, with the port that each is spoken at."""
    for protocol, apis in OLD_APIS.items():
        for api in apis.values():
            asked = Place(old_name(protocol, api.name), 0, "request", "", "")
            answered = asked._replace(side="response")
            bodies = [
                old_body(texts, fields, place, api.key)
                for fields, place in ((api.request, asked), (api.response, answered))
            ]
            yield OLD_PORT + protocol, sized(bodies[0]), sized(bodies[1]) if api.response else b""


def old_name(protocol: int, api: str) -> str:
    return f"{PROTOCOLS[protocol]} {api}"


def old_body(texts: Texts, fields: tuple[Field, ...], place: Place, key: int) -> bytes:
    """The fields with a text in each string, and a message in each set."""
    sets = {
        field.size: message(texts.text(old_place(place, field)).encode())
        for field in fields
        if field.type == MESSAGE_SET
    }
    ahead = {field.size: field.size_ahead for field in fields}
    body = b""
    for field in fields:
        at = old_place(place, field)
        if field.count_type not in ("", TO_THE_END):
            body += struct.pack(INTEGERS[field.count_type], 1)
        if field.fields:
            body += old_body(texts, field.fields, at, key)
        elif field.type == MESSAGE_SET:
            body += sets[field.size]
        elif field.type == STRINGS:
            body += string16(texts.text(at))
        elif field.name in sets:
            body += struct.pack(INTEGERS[field.type], len(sets[field.name]) + ahead[field.name])
        else:
            known = {"request_type": key, "request_type_id": key, "correlation_id": 2}
            body += struct.pack(INTEGERS[field.type], known.get(field.name, 0))
    return body


def old_place(place: Place, field: Field) -> Place:
    path = f"{place.path}.{field.name}" if place.path else field.name
    return place._replace(path=path, type=field.type)


def int16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}h", *values)


def int32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)
