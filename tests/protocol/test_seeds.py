"""The five documents that the project was asked to implement: each layout they draw, decoded.

Every case names its seed and section, and has the layout in the notation of `encoded`, written down
from the document by hand; the bytes come from that alone, not from kdissect. Names differ between
the documents and Kafka's sources, so values are compared in the order of the wire. Where a document
and the released Kafka differ, the case notes it.
"""

import itertools
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kdissect
from kdissect.errors import DecodeError
from kdissect.messages.bodies import decode_frame, decode_request
from kdissect.messages.compression import decompress
from kdissect.messages.layout_choice import decode_body
from kdissect.messages.message_set_values import decode_set
from kdissect.messages.old_protocols import KAFKA_07_APIS
from kdissect.messages.records import decode_records
from kdissect.protocol.apis import find_api
from kdissect.protocol.error_codes import error_codes
from tests.old_builders import message, string16, wrapper

SIZES = {"i8": ">b", "i16": ">h", "i32": ">i", "i64": ">q"}
Case = tuple[str, str, int, str, str]  # section, API, version, direction, layout


def encoded(layout: str) -> tuple[bytes, list[Any]]:
    """Bytes and values of a layout: fields with blanks between them, arrays of two in brackets.

    i8 to i64 are integers, s a string with an int16 size, b bytes with an int32 size, [] an array
    with an int32 count, = a given value as in ``i16=3``. All values are distinct.
    """
    data, values, rest = _fields(re.findall(r"\[|\]|[^\s\[\]]+", layout), itertools.count(1))
    assert rest == []
    return data, values


def _fields(words: list[str], counter: Iterator[int]) -> tuple[bytes, list[Any], list[str]]:
    data, values = b"", []
    while words and words[0] != "]":
        word, *words = words
        if word == "[":
            inner, items = words, []
            data += struct.pack(">i", 2)
            for _ in range(2):
                content, item, words = _fields(inner, counter)
                data += content
                items.append(item[0] if len(item) == 1 else item)
            words = words[1:]
            values.append(items)
            continue
        kind, _, fixed = word.partition("=")
        content, value = _field(kind, int(fixed) if fixed else next(counter))
        data += content
        values.append(value)
    return data, values, words


def _field(kind: str, number: int) -> tuple[bytes, Any]:
    if kind == "s":
        return string16(f"text-{number}"), f"text-{number}"
    if kind == "b":
        return struct.pack(">i", 3) + b"%03d" % number, b"%03d" % number
    return struct.pack(SIZES[kind], number), number


def in_order(value: Any) -> Any:
    """A decoded body without its names; an array of structs of one field is one of that field."""
    if isinstance(value, dict):
        return [in_order(field) for field in value.values()]
    if isinstance(value, list):
        items = [in_order(item) for item in value]
        return [item[0] if isinstance(item, list) and len(item) == 1 else item for item in items]
    return value


# Seed 000, "A Guide To The Kafka Protocol", of the time of 0.9.
GUIDE: list[Case] = [
    ("Topic Metadata Request", "Metadata", 0, "request", "[s]"),
    ("Metadata Response", "Metadata", 0, "response",
     "[i32 s i32] [i16 s [i16 i32 i32 [i32] [i32]]]"),
    ("Produce Request", "Produce", 0, "request", "i16 i32 [s [i32 b]]"),
    ("Produce Response", "Produce", 0, "response", "[s [i32 i16 i64]]"),
    ("Fetch Request", "Fetch", 0, "request", "i32 i32 i32 [s [i32 i64 i32]]"),
    ("Fetch Response", "Fetch", 0, "response", "[s [i32 i16 i64 b]]"),
    ("Offset Request", "ListOffsets", 0, "request", "i32 [s [i32 i64 i32]]"),
    ("Offset Response", "ListOffsets", 0, "response", "[s [i32 i16 [i64]]]"),
    ("Group Coordinator Request", "GroupCoordinator", 0, "request", "s"),
    ("Group Coordinator Response", "GroupCoordinator", 0, "response", "i16 i32 s i32"),
    ("Offset Commit Request v0", "OffsetCommit", 0, "request", "s [s [i32 i64 s]]"),
    ("Offset Commit Request v1", "OffsetCommit", 1, "request", "s i32 s [s [i32 i64 i64 s]]"),
    # The guide has 0.8.3, a number that was never released; it came with 0.9.0.
    ("Offset Commit Request v2", "OffsetCommit", 2, "request", "s i32 s i64 [s [i32 i64 s]]"),
    ("Offset Commit Response", "OffsetCommit", 0, "response", "[s [i32 i16]]"),
    ("Offset Commit Response", "OffsetCommit", 1, "response", "[s [i32 i16]]"),
    ("Offset Commit Response", "OffsetCommit", 2, "response", "[s [i32 i16]]"),
    ("Offset Fetch Request", "OffsetFetch", 0, "request", "s [s [i32]]"),
    ("Offset Fetch Response", "OffsetFetch", 0, "response", "[s [i32 i64 s i16]]"),
    ("Join Group Request", "JoinGroup", 0, "request", "s i32 s s [s b]"),
    ("Join Group Response", "JoinGroup", 0, "response", "i16 i32 s s s [s b]"),
    ("SyncGroup Request", "SyncGroup", 0, "request", "s i32 s [s b]"),
    ("Sync Group Response", "SyncGroup", 0, "response", "i16 b"),
    ("Heartbeat Request", "Heartbeat", 0, "request", "s i32 s"),
    ("Heartbeat Response", "Heartbeat", 0, "response", "i16"),
    ("LeaveGroup Request", "LeaveGroup", 0, "request", "s s"),
    ("LeaveGroup Response", "LeaveGroup", 0, "response", "i16"),
    ("ListGroups Request", "ListGroups", 0, "request", ""),
    ("ListGroups Response", "ListGroups", 0, "response", "i16 [s s]"),
    ("DescribeGroups Request", "DescribeGroups", 0, "request", "[s]"),
    ("DescribeGroups Response", "DescribeGroups", 0, "response", "[i16 s s s s [s s s b b]]"),
]  # fmt: skip

# Seed 002, the generated listing of a trunk between 0.9.0.0 and 0.10.0.0. Where it leaves the
# elements of an array open (topics, isr, replicas, group ids, offsets) they are those of 000.
LISTING: list[Case] = [
    ("Produce API", "Produce", 0, "request", "i16 i32 [s [i32 b]]"),
    ("Produce API", "Produce", 1, "request", "i16 i32 [s [i32 b]]"),
    ("Produce API", "Produce", 2, "request", "i16 i32 [s [i32 b]]"),
    ("Produce API", "Produce", 0, "response", "[s [i32 i16 i64]]"),
    ("Produce API", "Produce", 1, "response", "[s [i32 i16 i64]] i32"),
    ("Produce API", "Produce", 2, "response", "[s [i32 i16 i64 i64]] i32"),
    ("Fetch API", "Fetch", 0, "request", "i32 i32 i32 [s [i32 i64 i32]]"),
    ("Fetch API", "Fetch", 1, "request", "i32 i32 i32 [s [i32 i64 i32]]"),
    ("Fetch API", "Fetch", 2, "request", "i32 i32 i32 [s [i32 i64 i32]]"),
    ("Fetch API", "Fetch", 0, "response", "[s [i32 i16 i64 b]]"),
    ("Fetch API", "Fetch", 1, "response", "i32 [s [i32 i16 i64 b]]"),
    ("Fetch API", "Fetch", 2, "response", "i32 [s [i32 i16 i64 b]]"),
    ("Offsets API", "Offsets", 0, "request", "i32 [s [i32 i64 i32]]"),
    ("Offsets API", "Offsets", 0, "response", "[s [i32 i16 [i64]]]"),
    ("Metadata API", "Metadata", 0, "request", "[s]"),
    ("Metadata API", "Metadata", 0, "response",
     "[i32 s i32] [i16 s [i16 i32 i32 [i32] [i32]]]"),
    ("LeaderAndIsr API", "LeaderAndIsr", 0, "request",
     "i32 i32 [s i32 i32 i32 i32 [i32] i32 [i32]] [i32 s i32]"),
    ("LeaderAndIsr API", "LeaderAndIsr", 0, "response", "i16 [s i32 i16]"),
    ("StopReplica API", "StopReplica", 0, "request", "i32 i32 i8=1 [s i32]"),
    ("StopReplica API", "StopReplica", 0, "response", "i16 [s i32 i16]"),
    ("UpdateMetadata API", "UpdateMetadata", 0, "request",
     "i32 i32 [s i32 i32 i32 i32 [i32] i32 [i32]] [i32 s i32]"),
    ("UpdateMetadata API", "UpdateMetadata", 1, "request",
     "i32 i32 [s i32 i32 i32 i32 [i32] i32 [i32]] [i32 [i32 s i16]]"),
    ("UpdateMetadata API", "UpdateMetadata", 0, "response", "i16"),
    ("UpdateMetadata API", "UpdateMetadata", 1, "response", "i16"),
    ("ControlledShutdown API", "ControlledShutdown", 1, "request", "i32"),
    ("ControlledShutdown API", "ControlledShutdown", 1, "response", "i16 [s i32]"),
    ("OffsetCommit API", "OffsetCommit", 0, "request", "s [s [i32 i64 s]]"),
    ("OffsetCommit API", "OffsetCommit", 1, "request", "s i32 s [s [i32 i64 i64 s]]"),
    ("OffsetCommit API", "OffsetCommit", 2, "request", "s i32 s i64 [s [i32 i64 s]]"),
    ("OffsetCommit API", "OffsetCommit", 0, "response", "[s [i32 i16]]"),
    ("OffsetCommit API", "OffsetCommit", 1, "response", "[s [i32 i16]]"),
    ("OffsetCommit API", "OffsetCommit", 2, "response", "[s [i32 i16]]"),
    ("OffsetFetch API", "OffsetFetch", 0, "request", "s [s [i32]]"),
    ("OffsetFetch API", "OffsetFetch", 1, "request", "s [s [i32]]"),
    ("OffsetFetch API", "OffsetFetch", 0, "response", "[s [i32 i64 s i16]]"),
    ("OffsetFetch API", "OffsetFetch", 1, "response", "[s [i32 i64 s i16]]"),
    ("GroupCoordinator API", "GroupCoordinator", 0, "request", "s"),
    ("GroupCoordinator API", "GroupCoordinator", 0, "response", "i16 i32 s i32"),
    ("JoinGroup API", "JoinGroup", 0, "request", "s i32 s s [s b]"),
    ("JoinGroup API", "JoinGroup", 0, "response", "i16 i32 s s s [s b]"),
    ("Heartbeat API", "Heartbeat", 0, "request", "s i32 s"),
    ("Heartbeat API", "Heartbeat", 0, "response", "i16"),
    ("LeaveGroup API", "LeaveGroup", 0, "request", "s s"),
    ("LeaveGroup API", "LeaveGroup", 0, "response", "i16"),
    ("SyncGroup API", "SyncGroup", 0, "request", "s i32 s [s b]"),
    ("SyncGroup API", "SyncGroup", 0, "response", "i16 b"),
    ("DescribeGroups API", "DescribeGroups", 0, "request", "[s]"),
    ("DescribeGroups API", "DescribeGroups", 0, "response", "[i16 s s s s [s s s b b]]"),
    ("ListGroups API", "ListGroups", 0, "request", ""),
    ("ListGroups API", "ListGroups", 0, "response", "i16 [s s]"),
]  # fmt: skip

# Seed 004, the comparison of two revisions of the guide, of the time of 0.8.1.
EARLY_GUIDE: list[Case] = [
    ("Offset Response", "ListOffsets", 0, "response", "[s [i32 i16 [i64]]]"),
    ("Offset Commit Request", "OffsetCommit", 0, "request", "s [s [i32 i64 s]]"),
    ("Offset Commit Response", "OffsetCommit", 0, "response", "[s [i32 i16]]"),
    ("Offset Fetch Request", "OffsetFetch", 0, "request", "s [s [i32]]"),
    ("Offset Fetch Response", "OffsetFetch", 0, "response", "[s [i32 i64 s i16]]"),
]

CASES = [
    pytest.param(*case[1:], id=f"{seed}-{case[0]}-{case[3]}-v{case[2]}")
    for seed, cases in (("000", GUIDE), ("002", LISTING), ("004", EARLY_GUIDE))
    for case in cases
]


@pytest.mark.parametrize(("api", "version", "direction", "layout"), CASES)
def test_the_layout_of_the_document_decodes(
    api: str, version: int, direction: str, layout: str
) -> None:
    data, values = encoded(layout)
    assert in_order(decode_body(api, version, direction, data)) == values
    for wrong in (data + b"\0", data[:-1]) if data else (b"\0",):
        with pytest.raises(DecodeError):
            decode_body(api, version, direction, wrong)


def test_the_notation_makes_the_described_bytes() -> None:
    assert encoded("i16 [s [i32]] b i8=1") == (
        b"\0\1"
        b"\0\0\0\2"
        b"\0\6text-2" b"\0\0\0\2" b"\0\0\0\3" b"\0\0\0\4"
        b"\0\6text-5" b"\0\0\0\2" b"\0\0\0\6" b"\0\0\0\7"
        b"\0\0\0\3" b"008"
        b"\1",
        [1, [["text-2", [3, 4]], ["text-5", [6, 7]]], b"008", 1],
    )  # fmt: skip


# Seed 000, "Requests" and "Responses"; seed 002, "Headers"; seed 004 repeats them.


def test_the_header_of_requests_and_responses() -> None:
    frame = struct.pack(">hhi", 12, 0, 4711) + string16("shop") + encoded("s i32 s")[0]
    header, body = decode_request(frame)
    assert header == {
        "api_key": 12, "api_version": 0, "correlation_id": 4711, "client_id": "shop",
    }  # fmt: skip
    assert in_order(body) == ["text-1", 2, "text-3"]
    answer = decode_frame(12, 0, struct.pack(">ih", 4711, 27), is_response=True)
    assert answer == {"error_code": 27}


def test_a_length_of_minus_1_is_null() -> None:
    # Seed 000, "Variable Length Primitives"; seed 002 has the client id as NULLABLE_STRING.
    frame = struct.pack(">hhih", 16, 0, 1, -1)
    assert decode_request(frame)[0]["client_id"] is None


# Seed 000, "Message sets", "Compression": magic 0 with a codec in the lowest two bits.


def guide_message(
    offset: int, key: bytes | None, value: bytes | None, attributes: int = 0
) -> bytes:
    sized = [
        struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
        for part in (key, value)
    ]
    content = struct.pack(">bb", 0, attributes) + b"".join(sized)
    checked = struct.pack(">I", zlib.crc32(content)) + content
    return struct.pack(">qi", offset, len(checked)) + checked


def guide_records(data: bytes) -> list[tuple[Any, Any, Any]]:
    return [
        (record["offset"], record["key"], record["value"])
        for batch in decode_records(data)
        for record in batch["records"]  # type: ignore[attr-defined]
        if batch["crc_ok"]
    ]


def test_a_message_set_of_the_guide() -> None:
    data = guide_message(7, None, b"one") + guide_message(8, b"k", None)
    assert guide_records(data) == [(7, None, b"one"), (8, b"k", None)]


@pytest.mark.parametrize("codec", [1, 2])
def test_a_compressed_message_set_of_the_guide(codec: int) -> None:
    inner = guide_message(5, b"a", b"b") + guide_message(6, None, b"c")
    packed = wrapper(inner, codec)[10:]  # data packed by 0.7 is packed the same way
    assert decompress(codec, packed) == inner
    assert guide_records(guide_message(6, None, packed, codec)) == [
        (5, b"a", b"b"),
        (6, None, b"c"),
    ]


def test_the_metadata_of_consumers() -> None:
    # Seed 000, "Join Group Request": ProtocolType consumer, ProtocolMetadata.
    metadata = b"\0\0" + struct.pack(">i", 1) + string16("orders") + struct.pack(">i", -1)
    data = (
        string16("workers") + struct.pack(">i", 6000) + string16("") + string16("consumer")
        + struct.pack(">i", 1) + string16("range") + struct.pack(">i", len(metadata)) + metadata
    )  # fmt: skip
    (protocol,) = kdissect.decode("JoinGroup", 0, "request", data)["protocols"]
    opened = protocol["metadata"]
    assert (opened["version"], opened["topics"], opened["user_data"]) == (0, ["orders"], None)


def test_the_assignment_of_consumers() -> None:
    # Seed 000, "SyncGroup Request": MemberAssignment.
    assignment = (
        b"\0\0" + struct.pack(">i", 1) + string16("orders") + struct.pack(">iii", 2, 0, 1)
        + struct.pack(">i", -1)
    )  # fmt: skip
    data = struct.pack(">hi", 0, len(assignment)) + assignment
    opened = kdissect.decode("SyncGroup", 0, "response", data)["assignment"]
    assert opened["version"] == 0
    assert opened["assigned_partitions"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert opened["user_data"] is None


# Api keys.

KEYS_002 = (
    "Produce", "Fetch", "Offsets", "Metadata", "LeaderAndIsr", "StopReplica", "UpdateMetadata",
    "ControlledShutdown", "OffsetCommit", "OffsetFetch", "GroupCoordinator", "JoinGroup",
    "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups",
)  # fmt: skip
KEYS_000 = {
    "Produce": 0, "Fetch": 1, "Offsets": 2, "Metadata": 3, "OffsetCommit": 8, "OffsetFetch": 9,
    "GroupCoordinator": 10, "JoinGroup": 11, "Heartbeat": 12, "LeaveGroup": 13, "SyncGroup": 14,
    "DescribeGroups": 15, "ListGroups": 16,
}  # fmt: skip


def test_the_keys_are_those_of_the_documents() -> None:
    assert [find_api(name).key for name in KEYS_002] == list(range(17))
    assert {name: find_api(name).key for name in KEYS_000} == KEYS_000


def test_the_commit_keys_of_004_were_never_released() -> None:
    # 004 has OffsetCommit 6 and OffsetFetch 7, as builds of 2013 before 0.8.0 did.
    assert [find_api(key).name for key in (6, 7)] == ["UpdateMetadata", "ControlledShutdown"]


# Error codes: seed 002 has Java's names, some of which Kafka changed later; 000 and 004 Scala's.

RENAMED = {
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "GROUP_LOAD_IN_PROGRESS": "COORDINATOR_LOAD_IN_PROGRESS",
    "GROUP_COORDINATOR_NOT_AVAILABLE": "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR_FOR_GROUP": "NOT_COORDINATOR",
}
ERRORS_002 = (
    "UNKNOWN", "NONE", "OFFSET_OUT_OF_RANGE", "CORRUPT_MESSAGE", "UNKNOWN_TOPIC_OR_PARTITION",
    "INVALID_FETCH_SIZE", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT",
    "BROKER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "MESSAGE_TOO_LARGE",
    "STALE_CONTROLLER_EPOCH", "OFFSET_METADATA_TOO_LARGE", "NETWORK_EXCEPTION",
    "GROUP_LOAD_IN_PROGRESS", "GROUP_COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR_FOR_GROUP",
    "INVALID_TOPIC_EXCEPTION", "RECORD_LIST_TOO_LARGE", "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "INVALID_REQUIRED_ACKS", "ILLEGAL_GENERATION",
    "INCONSISTENT_GROUP_PROTOCOL", "INVALID_GROUP_ID", "UNKNOWN_MEMBER_ID",
    "INVALID_SESSION_TIMEOUT", "REBALANCE_IN_PROGRESS", "INVALID_COMMIT_OFFSET_SIZE",
    "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
    "INVALID_TIMESTAMP",
)  # fmt: skip
RETRIABLE_002 = {2, 3, 5, 6, 7, 13, 14, 15, 16, 19, 20}


def test_the_errors_are_those_of_the_documents() -> None:
    named = {code: RENAMED.get(name, name) for code, name in enumerate(ERRORS_002, -1)}
    assert {code: error_codes()[code].name for code in range(-1, 33)} == named


def test_the_same_errors_may_be_retried() -> None:
    # Since 2.x clients may retry REPLICA_NOT_AVAILABLE (9), too, which 002 denies.
    retriable = {code for code in range(-1, 33) if error_codes()[code].is_retriable}
    assert retriable == RETRIABLE_002 | {9}


# Seed 001, the wire format of 0.7. MULTIFETCH and MULTIPRODUCE are named but not drawn there, and
# a common header with topic and partition is, which those two do not have.


def check_07(api: str, direction: str, data: bytes, expected: dict[str, Any]) -> None:
    assert kdissect.decode_old("0.7", api, direction, data) == expected
    if direction == "request":
        with pytest.raises(DecodeError):
            kdissect.decode_old("0.7", api, direction, data + b"\0")
        with pytest.raises(DecodeError):
            kdissect.decode_old("0.7", api, direction, data[:-1])


def test_the_request_types_of_001() -> None:
    assert {api.name.upper(): api.key for api in KAFKA_07_APIS} == {
        "PRODUCE": 0, "FETCH": 1, "MULTIFETCH": 2, "MULTIPRODUCE": 3, "OFFSETS": 4,
    }  # fmt: skip


def test_the_produce_request_of_001() -> None:
    messages = message(b"one") + message(b"two", magic=0)
    header = struct.pack(">h", 0) + struct.pack(">h", 6) + b"orders" + struct.pack(">i", 3)
    check_07(
        "PRODUCE",
        "request",
        header + struct.pack(">i", len(messages)) + messages,
        {
            "request_type": 0,
            "topic": "orders",
            "partition": 3,
            "message_set_size": len(messages),
            "message_set": messages,
        },
    )


def test_the_fetch_request_of_001() -> None:
    header = struct.pack(">h", 1) + struct.pack(">h", 6) + b"orders" + struct.pack(">i", 3)
    check_07(
        "FETCH",
        "request",
        header + struct.pack(">qi", 1 << 40, 65_536),
        {"request_type": 1, "topic": "orders", "partition": 3, "offset": 1 << 40,
         "max_size": 65_536},
    )  # fmt: skip


@pytest.mark.parametrize("time", [-1, -2, 1_300_000_000_000])
def test_the_offsets_request_of_001(time: int) -> None:
    header = struct.pack(">h", 4) + struct.pack(">h", 6) + b"orders" + struct.pack(">i", 3)
    check_07(
        "OFFSETS",
        "request",
        header + struct.pack(">qi", time, 10),
        {"request_type": 4, "topic": "orders", "partition": 3, "time": time, "max_offsets": 10},
    )


def test_the_fetch_response_of_001() -> None:
    messages = message(b"one") + message(b"cut off")[:9]
    check_07(
        "FETCH",
        "response",
        struct.pack(">h", 0) + messages,
        {"error_code": 0, "message_set": messages},
    )
    check_07("FETCH", "response", b"\0\1", {"error_code": 1, "message_set": b""})


def test_the_offsets_response_of_001() -> None:
    check_07(
        "OFFSETS",
        "response",
        struct.pack(">hi", 0, 2) + struct.pack(">qq", 900, 0),
        {"error_code": 0, "offsets": [900, 0]},
    )


def test_a_produce_has_no_response_in_001() -> None:
    with pytest.raises(DecodeError, match="Produce has no response"):
        kdissect.decode_old("0.7", "Produce", "response", b"\0\0")


@pytest.mark.parametrize("codec", [0, 1, 2])
def test_the_messages_of_001(codec: int) -> None:
    inner = message(b"payload")
    data = wrapper(inner, codec) if codec else inner
    (batch,) = decode_set(data)
    assert (batch["magic"], batch["crc_ok"]) == (1, True)
    assert batch["codec"] == ("none", "gzip", "snappy")[codec]
    (record,) = batch["records"]  # type: ignore[misc]
    assert record["value"] == b"payload"


# Seed 003, "New Wire Format Proposal". Its FetchRequest has version_id and correlation_id in the
# opposite order to its table of common fields, whose order is decoded.


HEADER_003 = struct.pack(">hhi", 0, 5, 4711) + string16("shop")
COMMON_003 = {"version_id": 5, "correlation_id": 4711, "client_id": "shop"}
SET_003 = message(b"one") + message(b"two")


def data_003(*topics: tuple[str, list[tuple[int, bytes]]]) -> bytes:
    """[topic_data_struct] of 003."""
    parts = [struct.pack(">h", len(topics))]
    for topic, partitions in topics:
        parts += [string16(topic), struct.pack(">h", len(partitions))]
        parts += [struct.pack(">i", partition) + messages for partition, messages in partitions]
    return b"".join(parts)


DATA_003 = data_003(("orders", [(0, SET_003), (7, b"")]), ("audit", [(1, SET_003)]))
VALUES_003 = [
    {"topic": "orders", "partition_data": [
        {"partition": 0, "message_set": SET_003}, {"partition": 7, "message_set": b""}]},
    {"topic": "audit", "partition_data": [{"partition": 1, "message_set": SET_003}]},
]  # fmt: skip


def test_the_produce_request_of_003() -> None:
    data = HEADER_003 + struct.pack(">bi", -1, 1500) + DATA_003
    assert kdissect.decode_old("proposal", "Produce", "request", data) == {
        "request_type_id": 0, **COMMON_003, "required_acks": -1, "ack_timeout": 1500,
        "data": VALUES_003,
    }  # fmt: skip


def test_the_produce_response_of_003() -> None:
    data = struct.pack(">ihh", 4711, 5, 0) + struct.pack(">hhhh", 3, -1, -1, 3)
    data += struct.pack(">hqqq", 3, 10, 20, -1)
    assert kdissect.decode_old("proposal", "Produce", "response", data) == {
        "correlation_id": 4711, "version_id": 5, "error_code": 0, "errors": [-1, -1, 3],
        "offsets": [10, 20, -1],
    }  # fmt: skip


def test_the_fetch_request_of_003() -> None:
    data = struct.pack(">hhi", 1, 5, 4711) + string16("shop") + struct.pack(">iii", -1, 100, 1)
    data += struct.pack(">h", 1) + string16("orders")
    data += struct.pack(">hii", 2, 0, 1) + struct.pack(">hii", 2, 500, 600)
    assert kdissect.decode_old("proposal", "Fetch", "request", data) == {
        "request_type_id": 1, **COMMON_003, "replica_id": -1, "max_wait": 100, "min_bytes": 1,
        "topic_offsets": [{"topic": "orders", "partitions": [0, 1], "offsets": [500, 600]}],
    }  # fmt: skip


def test_the_fetch_response_of_003() -> None:
    data = struct.pack(">ihh", 4711, 5, 1) + DATA_003
    assert kdissect.decode_old("proposal", "Fetch", "response", data) == {
        "correlation_id": 4711, "version_id": 5, "error_code": 1, "data": VALUES_003,
    }  # fmt: skip


def test_the_example_of_003_shows_counts_of_two_bytes() -> None:
    # "Request Details": [{id:int32, name:string},...]
    data = struct.pack(">ihh", 1, 0, 0) + struct.pack(">hh", 1, -1) + struct.pack(">hq", 1, 9)
    body = kdissect.decode_old("proposal", "Produce", "response", data)
    assert (body["errors"], body["offsets"]) == ([-1], [9])


NOT_DECODED: list[Callable[[], object]] = [
    lambda: kdissect.decode_old("0.8", "Fetch", "request", b""),
    lambda: kdissect.decode_old("0.7", "Metadata", "request", b""),
    lambda: kdissect.decode_old("proposal", "MultiFetch", "request", b""),
    lambda: kdissect.decode_old("0.7", "Fetch", "request", b"\0\4\0\1a" + bytes(16)),
]


@pytest.mark.parametrize("call", NOT_DECODED)
def test_missing_input_is_an_error(call: Callable[[], object]) -> None:
    with pytest.raises(DecodeError):
        call()
