"""Messages of every layout that Kafka, kio and kafka-python wrote (tools/make_vectors).

Oracles for the facts' sections 1 (types, tag sections, null), 2 (headers), 12 (records of
internal topics), 15 (variants) and 18 (what kio covers).
"""

import base64
import json
import lzma
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kdissect.errors import DecodeError
from kdissect.messages.bodies import decode_body
from kdissect.protocol.apis import APIS
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.notation import SCHEMA_DIRECTORY, load_file
from kdissect.protocol.plans import Role, build_projection
from kdissect.protocol.readers import NULL, Sink
from kdissect.protocol.specs import MessageSpec, message_name


class Vector(NamedTuple):
    """A message; `releases` is "" for the newest layout, else those of the variant."""

    writer: str
    name: str
    version: int
    releases: str
    raw: bytes
    values: dict[str, Any]


def read_vectors() -> list[Vector]:
    path = Path(__file__).parent / "vectors.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Vector(*row[:4], base64.b64decode(row[4]), row[5]) for row in rows]


@cache
def all_layouts() -> dict[tuple[str, str], MessageSpec]:
    """Every layout of the schema by name and releases, see `Vector`."""
    layouts = {}
    for path in SCHEMA_DIRECTORY.glob("*/*.txt"):
        file = path.relative_to(SCHEMA_DIRECTORY).with_suffix("").as_posix()
        for definition in load_file(file).values():
            for role, spec in (*definition.layouts.items(), *definition.variants):
                name = message_name(definition.name, role)
                layouts[name, " ".join(spec.releases)] = spec
    return layouts


def spec_of(name: str, releases: str = "") -> MessageSpec:
    return all_layouts()[name, releases]


ALL_VECTORS = read_vectors()
# For tests that would take too long with all: a full and a random one of each newest layout and
# writer.
VECTORS = [
    (vector.name, vector.version, vector.raw, vector.values)
    for index, vector in enumerate(ALL_VECTORS)
    if index % 10 in (1, 2) and not vector.releases
]


def comparable(value: object) -> object:
    """A decoded value as the vectors write it: bytes as ``hex:``, fields in order."""
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return [(str(name), comparable(item)) for name, item in value.items()]
    return value


def test_every_layout_and_variant_has_ten_vectors_of_kafka_itself() -> None:
    every = {
        (name, version, releases)
        for (name, releases), spec in all_layouts().items()
        for version in spec.versions
    }
    # From an old client library's fixtures; no release of Kafka writes it.
    every -= {layout for layout in every if layout[0] == "ApiVersionsResponse" and layout[2]}
    of_kafka = Counter(each[1:4] for each in ALL_VECTORS if each.writer.startswith("kafka "))
    assert len(every) == 934
    assert of_kafka == dict.fromkeys(every, 10)


def test_kio_is_the_second_oracle_of_all_but_the_newest_api_versions() -> None:
    """Facts, section 18: layouts that kio 0.5.0 and 0.6.5 do not cover are those of 4.4."""
    by_layout = Counter(each[1:4] for each in ALL_VECTORS if each.writer.startswith("kio"))
    assert set(by_layout.values()) == {10}
    of_kio = {(name, version) for name, version, _ in by_layout}
    bodies = {
        (api.name, version)
        for api in APIS.values()
        for version in range(api.lowest, api.highest + 1)
        if (api.name + "Request", version) not in of_kio
    }
    assert bodies == {
        ("ApiVersions", 5), ("DeleteGroups", 3), ("TxnOffsetCommit", 6),
        ("StreamsGroupHeartbeat", 1), ("StreamsGroupDescribe", 1), ("UnregisterController", 0),
        ("StreamsGroupTopologyDescriptionUpdate", 0),
    }  # fmt: skip


def test_kafka_python_is_a_third_oracle_of_client_messages() -> None:
    layouts = Counter(each[1:4] for each in ALL_VECTORS if each.writer.startswith("kafka-python"))
    assert len(layouts) == 515
    assert sum(layouts.values()) == 1956
    assert ("FetchResponse", 17, "") in layouts


def test_every_vector_is_read_and_skipped_exactly() -> None:
    for _, name, version, releases, raw, expected in ALL_VECTORS:
        reader = build_reader(spec_of(name, releases), version)
        values, end = reader.read(raw, 0)
        assert (name, version, comparable(values)) == (name, version, comparable(expected))
        assert (name, version, end) == (name, version, len(raw))
        assert (name, version, reader.skip(raw, 0)) == (name, version, len(raw))


def test_every_body_is_decoded_by_name_and_direction() -> None:
    """Also those in the layout of a variant, unless their bytes fit the newest layout."""
    apis = {message_name(api.name, side): (api.name, side) for api in APIS.values()
            for side in ("request", "response")}  # fmt: skip
    for _, name, version, releases, raw, expected in ALL_VECTORS:
        if name in apis and not releases:
            api, side = apis[name]
            assert comparable(decode_body(api, version, side, raw)) == comparable(expected)


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
    for name, version, raw, _ in VECTORS[::19]:
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
