"""Records of Kafka's own topics, MirrorMaker's, and control batches: key and value bytes → values.

    coordinators      key: int16 type, fields      value: int16 version, fields, or a tombstone
    __cluster_metadata, __remote_log_metadata      varint frame version, varint type,
                                                   varint version, fields
    MirrorMaker 2     key: fields      value: int16 version (not of offset syncs), fields
    control batches   COMMIT and ABORT: int16 version, fields; else fields that start with a version

Undecodable contents become their size and the error, never bytes: they may contain credentials. Of
MirrorMaker's topics they stay bytes, because any topic may have such a name.
"""

from functools import cache, lru_cache
from typing import Any, Final

from kdissect.errors import DecodeError, UnknownApi
from kdissect.messages.embedded import opened
from kdissect.messages.group_protocols import ASSIGNMENT, SUBSCRIPTION, opened_member
from kdissect.messages.layout_choice import LAYOUT, Body, decode_message
from kdissect.messages.metadata_topics import CLUSTER_METADATA
from kdissect.messages.redaction import redacted
from kdissect.protocol.notation import load_file
from kdissect.protocol.primitives import read_int16, read_unsigned_varint

CLUSTER_METADATA_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"  # always, in every cluster
COORDINATORS: Final = {
    "__consumer_offsets": "group-coordinator",
    "__transaction_state": "transaction-coordinator",
    "__share_group_state": "share-coordinator",
}
METADATA: Final = {CLUSTER_METADATA: "kraft-metadata", "__remote_log_metadata": "storage"}
# Layouts by the end of the topic's name: "east.heartbeats" is the copy of another cluster's.
MIRROR_TOPICS: Final = {
    ".checkpoints.internal": "MirrorCheckpoint",
    ".heartbeats": "MirrorHeartbeat",
    ".internal": "MirrorOffsetSync",
}
OFFSET_SYNCS: Final = "mm2-offset-syncs."
CONTROL_VALUES: Final = {
    "LEADER_CHANGE": "LeaderChangeMessage",
    "SNAPSHOT_HEADER": "SnapshotHeaderRecord",
    "SNAPSHOT_FOOTER": "SnapshotFooterRecord",
    "KRAFT_VERSION": "KRaftVersionRecord",
    "KRAFT_VOTERS": "VotersRecord",
}
PREVIEW: Final = "2.8"  # the release that wrote metadata in frames of version 0


def opened_record(record: Body, topic: str | None) -> Body:
    """Decode key and value of a record from `records`, if they are Kafka's own.

    Credentials are redacted.
    """
    key, value = record["key"], record["value"]
    if "control_type" in record:
        kind = record["control_type"]
        return record | {"value": opened(value, decode_control, kind)}
    if topic in COORDINATORS:
        file = COORDINATORS[topic]
        values = {
            "key": opened(key, decode_key, file),
            "value": opened(value, decode_value, file, key),
        }
    elif topic in METADATA:
        body = opened(value, decode_metadata, METADATA[topic])
        values = {"value": body and redacted(body.get("type", ""), LAYOUT, body)}
    else:
        return record | opened_mirror(key, value, mirror_layout(topic or ""))
    return record | values


@lru_cache(256)
def is_opened(topic: str) -> bool:
    """Return whether the records of a topic of this name are decoded."""
    return topic in COORDINATORS or topic in METADATA or bool(mirror_layout(topic))


def mirror_layout(topic: str) -> str:
    """Layout, without "Key" and "Value", of a topic of MirrorMaker 2; "" for other topics."""
    for end, name in MIRROR_TOPICS.items():
        if f".{topic}".endswith(end):
            is_sync = name == "MirrorOffsetSync"
            return "" if is_sync and not topic.startswith(OFFSET_SYNCS) else name
    return ""


def opened_mirror(key: bytes | None, value: bytes | None, name: str) -> Body:
    """Decode key and value of a MirrorMaker record if both fit the layout `name`, else nothing."""
    if not name or key is None:
        return {}
    try:
        opened_key = {"size": len(key), **decode_message("mirror", f"{name}Key", 0, key)}
        if value is None:
            return {"key": opened_key}
        version, offset = (0, 0) if name == "MirrorOffsetSync" else read_int16(value, 0)
        values = decode_message("mirror", f"{name}Value", int(version), value, int(offset))
    except DecodeError:
        return {}
    return {"key": opened_key, "value": {"size": len(value), **values}}


def decode_control(data: bytes, kind: str | int) -> Body:
    """Decode the value of a control record; raise DecodeError."""
    version = int(read_int16(data, 0)[0])
    if kind in ("ABORT", "COMMIT"):
        marker = decode_message("embedded", "EndTxnMarker", version, data, 2)
        return {"size": len(data), "version": version, **marker}
    if kind not in CONTROL_VALUES:
        raise UnknownApi(f"unknown control record {kind!r}", data=data)
    name = CONTROL_VALUES[str(kind)]
    return {"size": len(data), **decode_message("embedded", name, version, data)}


def decode_key(data: bytes, file: str) -> Body:
    """Decode a coordinator's key; raise DecodeError."""
    name, offset = record_name(data, file)
    definition = load_file(f"messages/{file}")[f"{name}Key"]
    values = decode_message(file, f"{name}Key", min(definition.versions), data, offset)
    return {"size": len(data), "type": name, **values}


def decode_value(data: bytes, file: str, key: bytes | None) -> Body:
    """Decode a coordinator's value, whose type is in its key; raise DecodeError."""
    name = record_name(key or b"", file)[0]
    version, offset = read_int16(data, 0)
    values = decode_message(file, f"{name}Value", int(version), data, int(offset))
    if name == "GroupMetadata":
        names = (values["protocol_type"], values["protocol"])
        for member in values["members"] or ():
            member["subscription"] = opened_member(member["subscription"], SUBSCRIPTION, *names)
            member["assignment"] = opened_member(member["assignment"], ASSIGNMENT, *names)
    return {"size": len(data), "version": int(version), **values}


def decode_metadata(data: bytes, file: str) -> Body:
    """Decode a record of the KRaft log or of remote storage, not redacted; raise DecodeError."""
    frame, offset = read_unsigned_varint(data, 0)
    kind, offset = read_unsigned_varint(data, offset)
    version, offset = read_unsigned_varint(data, offset)
    name = names_of(file, "metadata").get(int(kind))
    if frame > 1 or name is None:
        raise UnknownApi(f"unknown metadata record {kind} in frame version {frame}", data=data)
    first = PREVIEW if frame == 0 else ""
    values = decode_message(file, name, int(version), data, int(offset), first)
    return {"size": len(data), "type": name, "version": int(version), **values}


def record_name(key: bytes, file: str) -> tuple[str, int]:
    """Name of the type of a coordinator's key, without "Key", and the offset of its fields."""
    kind, offset = read_int16(key, 0)
    name = names_of(file, "coordinator-key").get(int(kind))
    if name is None:
        raise UnknownApi(f"unknown record type {kind}", data=key)
    return name.removesuffix("Key"), int(offset)


@cache
def names_of(file: str, kind: str) -> dict[int, str]:
    """Definitions of one kind by their number."""
    definitions: Any = load_file(f"messages/{file}").values()
    names = {entry.key: entry.name for entry in definitions if entry.kind == kind}
    if file == "group-coordinator" and kind == "coordinator-key":
        # 3.9 and 4.0 had a type whose definition has its number as version.
        names[9] = "ShareGroupPartitionMetadataKey"
    return names
