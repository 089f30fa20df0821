"""Vectors of Kafka's generated messages (tools/embedded_vectors) decode to their JSON.

Records of Kafka's own topics and control records, of the newest release and of those that had other
layouts under the same version (facts 6, 10, 12).
"""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kdissect.messages.embedded import decode_principal
from kdissect.messages.internal_topics import (
    CONTROL_VALUES,
    COORDINATORS,
    METADATA,
    decode_control,
    decode_key,
    decode_metadata,
    decode_value,
    names_of,
)
from kdissect.messages.layout_choice import Body, decode_message
from kdissect.protocol.notation import load_file
from tests.exchange_builders import make_unsigned_varint

LINES = (Path(__file__).parent / "message_vectors.jsonl").read_text().splitlines()
VECTORS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
MARKER, PRINCIPAL, SNAPSHOT = "EndTxnMarker", "DefaultPrincipalData", "ProducerSnapshot"
CONTROL_TYPES = {name: kind for kind, name in CONTROL_VALUES.items()}
FILES = {
    name: file
    for file in (*COORDINATORS.values(), *METADATA.values())
    for name in load_file(f"messages/{file}")
}
# The name of ClientQuotaRecord in 2.8.
FORMER = {"QuotaRecord": "ClientQuotaRecord"}


def decoded(vector: dict[str, Any]) -> Body:
    """The message as it is in a record or request, read by the reader for that place."""
    name = FORMER.get(vector["name"], vector["name"])
    version, data = vector["version"], bytes.fromhex(vector["data"])
    int16 = struct.pack(">h", version)
    if name in CONTROL_TYPES:
        # The first field is the version (in 2.8 a small leader id), and was filled at random.
        return decode_control(int16 + data[2:], CONTROL_TYPES[name])
    if name == MARKER:
        return decode_control(int16 + data, "COMMIT")
    if name == PRINCIPAL:
        return decode_principal(int16 + data)
    if name == SNAPSHOT:  # a file of the broker's, which is on no wire
        return decode_message("storage", name, version, data)
    file = FILES[name]
    if file in METADATA.values():
        frame = 0 if vector["release"].startswith("2.8") else 1
        head = b"".join(map(make_unsigned_varint, (frame, vector["key"], version)))
        return decode_metadata(head + data, file)
    if name.endswith("Key"):
        # Until 4.0 the type was the version of the key.
        kind = vector["key"] if vector["key"] >= 0 else version
        return decode_key(struct.pack(">h", kind) + data, file)
    kinds = {key: kind for kind, key in names_of(file, "coordinator-key").items()}
    return decode_value(int16 + data, file, struct.pack(">h", kinds[f"{name[:-5]}Key"]))


def told(vector: dict[str, Any]) -> Any:
    """Kafka's JSON, adapted to `decoded`."""
    values = vector["values"]
    if vector["name"] in CONTROL_TYPES and "version" in values:
        return values | {"version": vector["version"]}
    if vector["name"] == "LeaderChangeMessage":
        return values | {"leaderId": values["leaderId"] & 0xFFFF}
    return values


def agrees(ours: Any, theirs: Any) -> bool:
    """Return whether our values contain all of Kafka's JSON, which omits tagged defaults."""
    if isinstance(theirs, dict):
        named = {name.replace("_", ""): value for name, value in ours.items()}
        return all(
            name.lower() in named and agrees(named[name.lower()], value)
            for name, value in theirs.items()
        )
    if isinstance(theirs, list):
        ours = ours or []
        return len(ours) == len(theirs) and all(map(agrees, ours, theirs))
    if isinstance(ours, dict):  # random bytes in the place of a member's subscription
        return bool(ours["undecoded"] == len(base64.b64decode(theirs)))
    if isinstance(ours, bytes):
        return base64.b64encode(ours).decode() == theirs
    return bool(ours == theirs)


def label(vector: dict[str, Any]) -> str:
    return f"{vector['release']}-{vector['name']}-{vector['version']}"


@pytest.mark.parametrize("vector", VECTORS, ids=label)
def test_a_message_is_read_as_kafkas_json_has_it(vector: dict[str, Any]) -> None:
    body = decoded(vector)
    assert agrees(body, told(vector)), (body, told(vector))


def test_every_record_of_kafkas_own_topics_has_a_vector() -> None:
    missing = set()
    for file in (*COORDINATORS.values(), *METADATA.values()):
        for kind in ("coordinator-key", "coordinator-value", "metadata"):
            missing |= set(names_of(file, kind).values())
    missing -= {FORMER.get(vector["name"], vector["name"]) for vector in VECTORS}
    # The first was removed in 3.3; the second came with 4.4, which has no jars yet.
    assert missing == {"RemoveFeatureLevelRecord", "UnregisterControllerRecord"}


def test_records_of_which_there_is_no_vector() -> None:
    assert decode_metadata(b"\x01\x10\x00\x02f\x00", "kraft-metadata") == {
        "size": 6, "type": "RemoveFeatureLevelRecord", "version": 0, "name": "f",
    }  # fmt: skip
    assert decode_metadata(b"\x01\x1d\x00\x00\x00\x00\x07\x00", "kraft-metadata") == {
        "size": 8, "type": "UnregisterControllerRecord", "version": 0, "controller_id": 7,
    }  # fmt: skip
