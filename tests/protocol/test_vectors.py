"""Messages that kio wrote, of every layout it can write (tools/make_vectors.py)."""

import base64
import json
from pathlib import Path

import pytest

from kdissect.errors import DecodeError
from kdissect.messages.bodies import decode_body
from kdissect.protocol.apis import APIS, find_api
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.notation import load_file, read_index
from kdissect.protocol.plans import Role, build_projection
from kdissect.protocol.readers import NULL, Sink
from kdissect.protocol.specs import MessageSpec

VECTORS = [
    (name, version, base64.b64decode(raw), expected)
    for _, name, version, raw, expected in map(
        json.loads, (Path(__file__).parent / "vectors.jsonl").read_text("utf-8").splitlines()
    )
]
MESSAGE_FILES = {row[0]: row[1] for row in read_index("messages")}
# In Kafka 4.4, newer than any kio.
NOT_IN_KIO = {
    ("ApiVersions", 5), ("DeleteGroups", 3), ("TxnOffsetCommit", 6), ("StreamsGroupHeartbeat", 1),
    ("StreamsGroupDescribe", 1), ("UnregisterController", 0),
    ("StreamsGroupTopologyDescriptionUpdate", 0),
}  # fmt: skip


def spec_of(name: str) -> MessageSpec:
    if name in MESSAGE_FILES:
        return load_file(f"messages/{MESSAGE_FILES[name]}")[name].layouts["layout"]
    role = "request" if name.endswith("Request") else "response"
    return find_api(name[: -len(role)]).definition().layouts[role]


def comparable(value: object) -> object:
    """A decoded value as the vectors write it: bytes as ``hex:``, fields in order."""
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return [(name, comparable(item)) for name, item in value.items()]
    return value


def test_vectors_cover_every_api_version_of_the_releases_that_kio_knows() -> None:
    covered = {(name, version) for name, version, _, _ in VECTORS}
    missing = {
        (api.name, version)
        for api in APIS.values()
        for version in range(api.lowest, api.highest + 1)
        for role in ("Request", "Response")
        if (api.name + role, version) not in covered
    }
    assert missing == NOT_IN_KIO


def test_every_vector_is_read_exactly() -> None:
    for name, version, raw, expected in VECTORS:
        values, end = build_reader(spec_of(name), version).read(raw, 0)
        assert (name, version, comparable(values)) == (name, version, comparable(expected))
        assert (name, version, end) == (name, version, len(raw))


def test_every_body_is_decoded_by_name_and_direction() -> None:
    for name, version, raw, expected in VECTORS:
        if name in MESSAGE_FILES:
            continue
        direction = "request" if name.endswith("Request") else "response"
        values = decode_body(name[: -len(direction)], version, direction, raw)
        assert comparable(values) == comparable(expected)


def test_skip_ends_where_read_ends_in_front_of_other_bytes() -> None:
    for name, version, raw, _ in VECTORS:
        reader = build_reader(spec_of(name), version)
        assert (name, version, reader.skip(b"??" + raw, 2)) == (name, version, len(raw) + 2)
        assert reader.read(b"??" + raw + b"!", 2)[1] == len(raw) + 2


def test_a_projection_of_every_field_ends_where_read_ends() -> None:
    sink = Sink()
    for name, version, raw, _ in VECTORS:
        plan = build_projection(
            spec_of(name), version, lambda _field, _path: Role(0), lambda _roles, _body: 1, 1
        )
        assert (name, version, plan.run(b"??" + raw, 2, sink)) == (name, version, len(raw) + 2)
        assert sink.slots[0] == NULL


def test_a_projection_of_nothing_ends_where_read_ends() -> None:
    sink = Sink()
    for name, version, raw, _ in VECTORS:
        plan = build_projection(
            spec_of(name), version, lambda _field, _path: None, lambda _roles, _body: 0, 0
        )
        assert (name, version, plan.run(raw, 0, sink)) == (name, version, len(raw))


def test_a_vector_cut_anywhere_is_a_decode_error_in_all_three_ways() -> None:
    sink = Sink()
    for name, version, raw, _ in VECTORS[::7]:
        reader = build_reader(spec_of(name), version)
        plan = build_projection(
            spec_of(name), version, lambda _field, _path: Role(0), lambda _roles, _body: 1, 1
        )
        for size in range(len(raw)):
            with pytest.raises(DecodeError):
                reader.read(raw[:size], 0)
            with pytest.raises(DecodeError):
                reader.skip(raw[:size], 0)
            with pytest.raises(DecodeError):
                plan.run(raw[:size], 0, sink)
