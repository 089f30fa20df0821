"""Credentials are taken out of messages, by the list of them in the schema."""

import copy
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kdissect.errors import DecodeError
from kdissect.messages.bodies import decode, decode_frame
from kdissect.messages.named_messages import decode_message
from kdissect.messages.redaction import (
    KINDS,
    Secrets,
    has_secrets,
    is_secret_config,
    listed,
    only_records,
    redacted,
)
from kdissect.protocol.apis import APIS
from kdissect.protocol.notation import load_file, read_index
from kdissect.protocol.specs import Definition, FieldSpec
from tests.exchange_builders import make_body, make_struct
from tests.messages.record_builders import make_batch, make_record

FILES = ("kraft-metadata", "group-coordinator", "share-coordinator", "storage", "embedded")
# Fields that would be credentials by their names, were they not ids, names or flags.
HARMLESS = {
    "TokenId", "TokenAuthenticated", "Tokens", "TokenRequesterPrincipalType",
    "TokenRequesterPrincipalName", "CredentialInfos",
}  # fmt: skip
SUSPICIOUS = ("password", "secret", "token", "hmac", "salt", "auth", "credential", "storedkey",
              "serverkey", "proof")  # fmt: skip
# Structs of a name and a text that are no configs of Kafka: they contain no credentials.
NO_CONFIGS = {"TopicConfigs", "ClientTags", "LastAssignmentConfigs"}
LISTED = [tuple(row) for row in read_index("secrets")]

Place = tuple[str, str, str]


def definitions() -> Iterator[Definition]:
    for api in APIS.values():
        yield api.definition()
    for file in FILES:
        yield from load_file(f"messages/{file}").values()


def places() -> Iterator[tuple[Place, FieldSpec, tuple[FieldSpec, ...]]]:
    """Every field of every layout by message, side and path, with its siblings."""
    for definition in definitions():
        layouts = [*definition.layouts.items(), *definition.variants]
        for side, spec in layouts:
            yield from inside((definition.name, side, ""), spec.fields)


def inside(
    place: Place, fields: tuple[FieldSpec, ...]
) -> Iterator[tuple[Place, FieldSpec, tuple[FieldSpec, ...]]]:
    name, side, path = place
    for field in fields:
        here = (name, side, f"{path}.{field.name}".lstrip("."))
        yield here, field, fields
        yield from inside(here, field.fields)


def test_every_listed_field_is_in_the_schema() -> None:
    known = {place for place, _, _ in places()}
    assert [row for row in LISTED if row[:3] not in known] == []
    assert {row[3] for row in LISTED} == set(KINDS)


def test_every_field_that_sounds_like_a_credential_is_listed() -> None:
    told = {row[:3] for row in LISTED}
    missing = [
        place
        for place, field, _ in places()
        if any(word in field.name.lower() for word in SUSPICIOUS)
        and field.name not in HARMLESS
        and not field.name.endswith("AuthorizedOperations")
        and place not in told
    ]
    assert missing == []


def test_every_value_of_a_config_is_listed() -> None:
    told = {row[:3] for row in LISTED if row[3] == "config"}
    found = {
        place
        for place, field, siblings in places()
        if field.name == "Value"
        and field.type == "string"
        and any(sibling.name == "Name" for sibling in siblings)
        and place[2].split(".")[-2:-1] not in ([name] for name in NO_CONFIGS)
    }
    assert found == told


def test_every_field_of_records_or_of_a_forwarded_message_is_listed() -> None:
    told = {row[:3] for row in LISTED if row[3] in ("records", "message")}
    found = {
        place
        for place, field, _ in places()
        if field.type == "records"
        or (place[0] == "Envelope" and field.type == "bytes" and field.name != "ClientHostAddress")
    }
    assert found == told


def test_configs_typed_as_password_in_any_release_are_hidden() -> None:
    passwords = {name for name, type_, *_ in read_index("configs") if type_ == "password"}
    assert passwords == {
        # Of brokers, clients and Connect, Kafka 0.10.2 to 4.4, from their documentation.
        "ssl.keystore.password", "ssl.key.password", "ssl.truststore.password", "ssl.keystore.key",
        "ssl.keystore.certificate.chain", "ssl.truststore.certificates", "sasl.jaas.config",
        "password.encoder.secret", "password.encoder.old.secret", "delegation.token.secret.key",
        "delegation.token.master.key", "zookeeper.ssl.keystore.password",
        "zookeeper.ssl.truststore.password", "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        # Strings in its code, with salted keys in them.
        "SCRAM-SHA-256", "SCRAM-SHA-512",
    }  # fmt: skip
    assert all(is_secret_config(name) for name in passwords)
    assert all(is_secret_config(f"listener.name.internal.{name}") for name in passwords)


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.internal.scram-sha-256.sasl.jaas.config", "SCRAM-SHA-512",
        "azure.blob.storage.account", "azure.key", "basic.auth.user.info", "pwd", "encryption.key",
        "confluent.license", "retention.ms ", "Retention.ms", "retention.ms\0", "", None, 3,
        "listener.name.retention.ms", "listener.name..retention.ms", "name.a.retention.ms",
        "listener.name.a.b.retention.ms", "listener.name.a.b.ssl.protocol", "x.sasl.login.class",
        "listener.name.a.b.c.sasl.login.class", "config.providers.vault.param.token",
        "kafka.controller.KafkaController",
    ],
)  # fmt: skip
def test_configs_that_kafka_does_not_know_are_hidden(name: object) -> None:
    assert is_secret_config(name)


@given(st.text())
def test_any_other_name_is_hidden(name: str) -> None:
    known = {row[0] for row in read_index("configs")}
    assume(name not in known)
    assert is_secret_config(name)


@pytest.mark.parametrize(
    "name",
    [
        # Brokers (also of ZooKeeper), topics, groups, client metrics, Connect's workers.
        "retention.ms", "cleanup.policy", "log.segment.bytes", "listeners", "zookeeper.connect",
        "delegation.token.max.lifetime.ms", "ssl.keystore.location", "sasl.kerberos.service.name",
        "leader.replication.throttled.replicas", "leader.replication.throttled.rate",
        "consumer.session.timeout.ms", "share.auto.offset.reset", "interval.ms", "match", "metrics",
        "remote.storage.enable", "message.format.version", "offset.storage.topic",
        "process.roles", "node.id", "group.coordinator.rebalance.protocols",
        "listener.name.internal.ssl.keystore.location",
        "listener.name.internal.plain.sasl.login.callback.handler.class",
        "listener.name.external.scram-sha-256.connections.max.reauth.ms",
    ],
)  # fmt: skip
def test_configs_that_kafka_knows_and_calls_no_password_are_shown(name: str) -> None:
    assert not is_secret_config(name)


@pytest.mark.parametrize("api", ["DescribeConfigs", "IncrementalAlterConfigs", "AlterConfigs"])
def test_levels_of_loggers_are_shown_and_nothing_else_of_them(api: str) -> None:
    side, structs = (
        ("response", "results") if api == "DescribeConfigs" else ("request", "resources")
    )
    configs = [
        {"name": "kafka.server.KafkaApis", "value": "DEBUG"},
        {"name": "root", "value": "hunter2"},
    ]
    for type_, shown in ((8, "DEBUG"), (4, "<redacted, 5 bytes>")):
        body = {structs: [{"resource_type": type_, "resource_name": "1", "configs": configs}]}
        found = redacted(api, side, body)[structs][0]["configs"]
        assert [config["value"] for config in found] == [shown, "<redacted, 7 bytes>"]


def test_values_of_configs_with_passwords_are_taken_out_and_others_stay() -> None:
    configs = [
        {"name": "ssl.keystore.password", "value": "hunter2"},
        {"name": "retention.ms", "value": "1000"},
        {"name": "odd", "is_sensitive": True, "value": "x",
         "synonyms": [{"name": "stranger", "value": "y"}]},
        {"name": "sasl.jaas.config", "value": None},
    ]  # fmt: skip
    body = redacted("DescribeConfigs", "response", {"results": [{"configs": configs}]})
    assert body == {"results": [{"configs": [
        {"name": "ssl.keystore.password", "value": "<redacted, 7 bytes>"},
        {"name": "retention.ms", "value": "1000"},
        {"name": "odd", "is_sensitive": True, "value": "<redacted, 1 bytes>",
         "synonyms": [{"name": "stranger", "value": "<redacted, 1 bytes>"}]},
        {"name": "sasl.jaas.config", "value": None},
    ]}]}  # fmt: skip


def test_a_topic_with_a_secret_name_keeps_its_harmless_configs() -> None:
    topic = {"name": "tokens", "configs": [{"name": "retention.ms", "value": "1"}]}
    assert redacted("CreateTopics", "request", {"topics": [topic]}) == {"topics": [topic]}


def test_the_decoded_message_is_left_as_it_is() -> None:
    body = {"auth_bytes": b"\0me\0pass"}
    assert redacted("SaslAuthenticate", "request", body) == {"auth_bytes": "<redacted, 8 bytes>"}
    assert body == {"auth_bytes": b"\0me\0pass"}


def test_a_message_that_is_not_listed_is_given_back() -> None:
    body = {"group_id": "g"}
    assert redacted("Heartbeat", "request", body) is body


def test_tags_that_no_layout_knows_have_no_content() -> None:
    body = {"auth_bytes": b"", "unknown_tags": {7: b"pass"}}
    assert redacted("SaslAuthenticate", "request", body) == {
        "auth_bytes": "<redacted, 0 bytes>",
        "unknown_tags": {7: "<redacted, 4 bytes>"},
    }


def secret_values(api: str, side: str) -> dict[str, Any]:
    """Values of a body with SECRET in each credential of it."""
    values: dict[str, Any] = {}
    for path in [row[2] for row in LISTED if row[:2] == (api, side) and row[3] == "credential"]:
        at, (*structs, field) = values, snake(path)
        for struct in structs:
            at = at.setdefault(struct, [{}])[0]
        at[field] = b"SECRET"
    return values


def snake(path: str) -> list[str]:
    from kdissect.protocol.specs import snake_case

    return [snake_case(step) for step in path.split(".")]


CREDENTIALS = sorted({row[:2] for row in LISTED if row[3] == "credential" and row[1] != "layout"})


@pytest.mark.parametrize(("api", "side"), CREDENTIALS)
def test_a_decoded_credential_is_a_mark_in_every_version(api: str, side: str) -> None:
    definition = next(found.definition() for found in APIS.values() if found.name == api)
    for version in sorted(definition.layouts[side].versions):
        data = make_body(api, version, side, secret_values(api, side))
        body = decode(api, version, side, data)
        assert "<redacted, 6 bytes>" in repr(body)
        assert b"SECRET" in data
        assert "SECRET" not in repr(body)


@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize("api", sorted({row[0] for row in LISTED if row[1] != "layout"}))
def test_an_error_in_a_message_with_credentials_has_no_bytes(api: str, side: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(api, 0 if api != "ShareFetch" else 1, side, b"\x00\x00\x00\x7fhunter2")
    if has_secrets(api, side):
        assert (caught.value.data, caught.value.size, caught.value.hexdump()) == (b"", 11, "")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", sorted({row[0] for row in LISTED if row[1] == "layout"}))
def test_a_listed_record_is_redacted_by_name_too(name: str) -> None:
    spec = load_file("messages/kraft-metadata")[name].layouts["layout"]
    values = {snake(field.name)[0]: b"SECRET" for field in spec.fields if field.type == "bytes"}
    values |= {"name": "sasl.jaas.config", "value": "SECRET"} if name == "ConfigRecord" else {}
    body = decode_message(name, 0, make_struct(spec.fields, 0, True, values))
    assert "<redacted, 6 bytes>" in repr(body)
    assert "SECRET" not in repr(body)
    with pytest.raises(DecodeError) as caught:
        decode_message(name, 0, b"\x7fhunter2")
    assert caught.value.data == b""


METADATA_ID = uuid.UUID(int=1)


@pytest.mark.parametrize(
    ("api", "version", "topics"),
    [
        ("Fetch", 4, {"topic": "__cluster_metadata"}),
        ("Fetch", 17, {"topic_id": METADATA_ID}),
        ("FetchSnapshot", 1, {"name": "__cluster_metadata"}),
    ],
)
def test_records_of_the_metadata_log_do_not_stay_bytes(
    api: str, version: int, topics: dict[str, Any]
) -> None:
    records = make_batch([make_record(value=b"hunter2")])
    field = "unaligned_records" if api == "FetchSnapshot" else "records"
    partitions = [{field: records}]
    name = "topics" if api == "FetchSnapshot" else "responses"
    data = make_body(api, version, "response", {name: [topics | {"partitions": partitions}]})
    assert b"hunter2" in data
    assert b"hunter2".hex() not in repr(decode(api, version, "response", data))
    assert "hunter2" not in repr(decode(api, version, "response", data))


def test_records_of_other_topics_stay_bytes() -> None:
    topic = {"topic": "orders", "partitions": [{"records": b"x" * 61}]}
    data = make_body("Fetch", 4, "response", {"responses": [topic]})
    body = decode("Fetch", 4, "response", data)
    assert body["responses"][0]["partitions"][0]["records"] == b"x" * 61


@pytest.mark.slow
@given(st.sampled_from(sorted(listed())), st.data())
def test_redacting_any_value_raises_nothing(key: tuple[str, str], data: st.DataObject) -> None:
    """The decoder gives structs as dicts, but no list of the schema is trusted with it."""
    names = st.sampled_from(["value", "name", "configs", "results", "topics", "hmac", "topic_id"])
    leaves = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
    trees = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(names, inner))
    body = data.draw(st.dictionaries(names, trees))
    assert redacted(*key, body).keys() == body.keys()


def test_an_unknown_api_may_hold_secrets() -> None:
    assert has_secrets(9999, "request")
    with pytest.raises(DecodeError) as caught:
        decode_frame(9999, 0, b"\0\0\0\x01hunter2", is_response=True)
    assert "hunter2" not in caught.value.hexdump()


@given(st.data())
def test_kept_records_leave_no_content_of_unknown_tags_beside_them(data: st.DataObject) -> None:
    message, side = data.draw(st.sampled_from(sorted(only_records())))

    def struct(secrets: Secrets) -> Any:
        fields: dict[str, Any] = dict.fromkeys(secrets.kinds, b"r")
        for name, inner in secrets.structs.items():
            fields[name] = data.draw(st.sampled_from(([], [struct(inner), struct(inner)], None)))
        if data.draw(st.booleans()):
            fields["unknown_tags"] = {9: b"secret", 77: b""}
        return fields

    body = struct(listed()[message, side])
    before = copy.deepcopy(body)
    shown = redacted(message, side, body, keeps_records=True)
    assert "b'secret'" not in repr(shown)
    hidden = repr({9: "<redacted, 6 bytes>", 77: "<redacted, 0 bytes>"})
    assert repr(shown) == repr(before).replace(repr({9: b"secret", 77: b""}), hidden)
