"""Facts about records (6, 7), forwarded requests (10) and internal topics (12) together."""

import json
import struct
import uuid
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.messages.records import decode_records, read_records, scan_batches
from tests.conversation import Conversation, conversation
from tests.exchange_builders import Found, found_in, request, response
from tests.messages.record_builders import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    compress,
    make_batch,
    make_message,
    make_record,
    make_wrapper,
)

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcapng"))


def offsets(log: bytes) -> list[int]:
    return [
        int(record.offset)
        for batch in scan_batches(log, 0, len(log)).batches
        for record in read_records(log, batch).records
    ]


# Message sets


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_and_plain_messages_may_be_mixed(magic: int) -> None:
    # facts 6: 0.8-era captures have several wrappers in one set, and plain messages between them.
    def inner(*places: int) -> list[bytes]:
        first = 0 if magic else places[0]
        return [make_message(magic, b"v", offset=first + at) for at in range(len(places))]

    log = make_message(magic, b"v", offset=10) + make_wrapper(magic, GZIP, inner(11, 12), offset=12)
    log += make_wrapper(magic, SNAPPY, inner(13), offset=13)
    log += make_message(magic, b"v", offset=14) + make_wrapper(magic, LZ4, inner(15, 16), offset=16)
    assert offsets(log) == [10, 11, 12, 13, 14, 15, 16]
    assert [batch["codec"] for batch in decode_records(log)] == [
        "none", "gzip", "snappy", "none", "lz4",
    ]  # fmt: skip


def test_a_lost_last_message_leaves_the_offsets_of_the_others_right() -> None:
    # facts 6: the wrapper has the offset of the LAST message inside, damaged or not.
    inner = [make_message(1, b"value", offset=at) for at in range(3)]
    damaged = inner[2][:30] + b"\x7f" + inner[2][31:]  # the size of the value
    for last in (damaged, inner[2][:-1]):
        assert offsets(make_wrapper(1, GZIP, [*inner[:2], last], offset=102)) == [100, 101]


def wrapper_of(magic: int, inner: bytes) -> bytes:
    return make_wrapper(magic, GZIP, [make_message(magic, b"fine", offset=0), inner], offset=1)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrong_checksum_inside_a_wrapper_is_reported(magic: int) -> None:
    # The wrapper's own checksum is right: the producer packed damaged data.
    good = make_message(magic, b"one", offset=1)
    for inner, is_right in ((good, True), (good[:-1] + b"!", False)):
        log = wrapper_of(magic, inner)
        assert [batch["crc_ok"] for batch in decode_records(log)] == [is_right]
        found = found_in(produced(log), verifies_crc=True)
        assert found.column("crc_ok", table="batches") == [is_right]


def produced(log: bytes) -> Conversation:
    topic = {"name": "orders", "partition_data": [{"index": 3, "records": log}]}
    talk = conversation().open().client(request("Produce", 7, 1, acks=1, topic_data=[topic]))
    return talk.broker(response("Produce", 7, 1)).close()


@pytest.mark.parametrize("version", [0, 3, 11, 12, 17])
@pytest.mark.parametrize("log", [None, b""])
def test_no_records_and_empty_records_are_the_same(version: int, log: bytes | None) -> None:
    # facts 6: length 0 and null records both mean nothing.
    name = {"topic_id": uuid.UUID(int=9)} if version > 12 else {"topic": "orders"}
    answer = [{**name, "partitions": [{"partition_index": 0, "records": log}]}]
    talk = conversation().open().client(request("Fetch", version, 1))
    found = found_in(talk.broker(response("Fetch", version, 1, responses=answer)))
    assert found.tables["problems"] == []
    assert found.tables["batches"] == []
    assert found.column("batch_count", table="partitions") in ([0], [None])


def test_gzip_of_any_operating_system_is_read() -> None:
    # facts 7: byte 9 of the header is 0 (Java) or 255 (others).
    packed = compress(GZIP, make_record(None, b"v"))
    for system in (b"\x00", b"\xff"):
        log = make_batch([make_record(None, b"v")], packed=packed[:9] + system + packed[10:])
        log = log[:22] + b"\x01" + log[23:]  # the codec, which `packed` does not set
        (batch,) = scan_batches(log, 0, len(log)).batches
        assert [record.value() for record in read_records(log, batch).records] == [b"v"]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_more_records_than_a_packed_batch_can_hold_are_no_count(codec: int) -> None:
    # The lie would be in every sum over record counts.
    log = make_batch([make_record(None, b"v")], codec=codec, record_count=0x7FFF_FFFF)
    found = found_in(produced(log + make_batch([make_record(None, b"v")], codec=codec)))
    assert found.column("record_count", table="partitions") == [1]
    assert found.column("record_count") == [1]
    (problem,) = found.tables["problems"]
    assert problem["kind"] == "corrupt-records"
    assert "2147483647 records in" in problem["message"]


@pytest.mark.slow
def test_a_hundred_thousand_empty_records_fit_into_few_packed_bytes() -> None:
    log = make_batch([make_record()] * 100_000, codec=ZSTD)
    assert len(log) < 200
    found = found_in(produced(log))
    assert found.column("record_count") == [100_000]
    assert found.tables["problems"] == []


# Control batches


def test_a_control_record_of_an_unknown_type_is_a_record_without_name() -> None:
    # facts 6: unknown types are to be skipped.
    log = make_batch([make_record(b"\0\0\0\x63", b"\0\0later")], attributes=0x20)
    ((record,),) = (batch["records"] for batch in shown(produced(log)))
    assert (record["control_type"], record["value"]) == (
        99, {"undecoded": 7, "error": "unknown control record 99"},
    )  # fmt: skip


def shown(talk: Conversation) -> list[dict[str, Any]]:
    (body,) = found_in(talk, has_payload=True).column("request", table="bodies")
    batches: list[dict[str, Any]] = json.loads(body)["topic_data"][0]["partition_data"][0][
        "records"
    ]
    return batches


# Topics that are known by their ids

OFFSETS = uuid.UUID(int=0x1234)
OFFSET_KEY = bytes.fromhex("0001 0001 67 0001 74 00000003")
TOMBSTONE = make_batch([make_record(OFFSET_KEY, None)])


def fetched(talk: Conversation, number: int) -> Conversation:
    answer = [{"topic_id": OFFSETS, "partitions": [{"partition_index": 0, "records": TOMBSTONE}]}]
    talk = talk.client(request("Fetch", 13, number))
    return talk.broker(response("Fetch", 13, number, responses=answer))


def fetched_records(found: Found) -> list[Any]:
    bodies = [
        json.loads(row["response"]) for row in found.tables["bodies"] if row["api"] == "Fetch"
    ]
    return [
        record["key"]
        for body in bodies
        for batch in body["responses"][0]["partitions"][0]["records"]
        for record in batch["records"]
    ]


def test_an_internal_topic_known_by_its_id_is_opened() -> None:
    # facts 12: a follower of 2.8 or newer fetches by id; Metadata has its name.
    named = [{"name": "__consumer_offsets", "topic_id": OFFSETS}]
    talk = conversation().open().client(request("Metadata", 12, 1))
    talk = talk.broker(response("Metadata", 12, 1, topics=named))
    (key,) = fetched_records(found_in(fetched(talk, 2), has_payload=True))
    told = {"size": 12, "type": "OffsetCommit", "group": "g", "topic": "t", "partition": 3}
    assert key == told


def test_topic_name_learned_later_decodes_earlier_fetches(tmp_path: Path) -> None:
    named = [{"name": "__consumer_offsets", "topic_id": OFFSETS}]
    talk = fetched(conversation().open(), 1).client(request("Metadata", 12, 2))
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.broker(response("Metadata", 12, 2, topics=named)).pcap())
    first, _ = kdissect.dissect(path)
    (topic,) = first.response["responses"]
    (record,) = topic["partitions"][0]["records"][0]["records"]
    assert record["key"]["type"] == "OffsetCommit"


# Forwarded requests


def test_a_forwarding_that_fails_has_no_answer_inside() -> None:
    # facts 10: ResponseData is null with ErrorCode set when the forwarding itself failed.
    body = kdissect.decode("Envelope", 0, "response", b"\x00" + struct.pack(">h", 41) + b"\x00")
    assert body == {"response_data": None, "error_code": 41}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (bytes([10, 0, 0, 4]), "10.0.0.4"),
        (bytes(15) + b"\x01", "::1"),
        (b"odd", b"odd"),
    ],
)
def test_the_address_of_a_forwarded_client_is_text(raw: bytes, text: str | bytes) -> None:
    # facts 10: 4 or 16 raw bytes.
    data = b"\x01\x00" + bytes([len(raw) + 1]) + raw + b"\x00"
    assert kdissect.decode("Envelope", 0, "request", data)["client_host_address"] == text


def test_a_forwarded_correlation_id_does_not_touch_the_pairing() -> None:
    inner = request("CreateTopics", 5, 77)[4:]
    talk = conversation().open().client(request("Envelope", 0, 1, request_data=inner))
    talk = talk.client(request("Envelope", 0, 77, request_data=inner))
    talk = talk.broker(response("Envelope", 0, 1), response("Envelope", 0, 77))
    assert found_in(talk).columns("correlation_id", "outcome") == [
        (1, "answered"), (77, "answered"),
    ]  # fmt: skip


# Real captures

LEFT_OPAQUE = {"key", "value", "records", "unaligned_records"}
# A snapshot in four pieces: all but the first begin within a batch.
PIECES = {
    "quorum-4.3.1": {
        "FetchSnapshot.response.topics.partitions.unaligned_records: "
        f"{{'undecoded': {size}, 'error': 'begins at byte {position} of a snapshot'}}"
        for position, size in ((3000, 3000), (6000, 3000), (9000, 1431))
    }
}


def found_opaque(value: Any, path: str = "") -> set[str]:
    """Paths of unopened bytes, and the marks that they could not be opened."""
    if isinstance(value, list):
        return {found for item in value for found in found_opaque(item, path)}
    if isinstance(value, bytes):
        return {path} if value else set()
    if not isinstance(value, dict):
        return set()
    if "undecoded" in value or "corrupt_size" in value or "lost_count" in value:
        return {f"{path}: {value}"}
    return {
        found
        for name, field in value.items()
        if name not in LEFT_OPAQUE or not isinstance(field, bytes)
        for found in found_opaque(field, f"{path}.{name}")
    }


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_nothing_in_a_real_capture_is_left_unopened(capture: Path) -> None:
    opaque = set()
    for exchange in kdissect.dissect(capture):
        for side in ("request", "response"):
            if exchange.decode_status == "ok":
                opaque |= found_opaque(exchange.body(side), f"{exchange.api}.{side}")
    assert opaque == PIECES.get(capture.stem, set())


def test_every_checksum_in_real_captures_is_right() -> None:
    table = kdissect.read(list(map(str, CAPTURES)), table="batches", verify_crc=True).to_arrow()
    kinds = {(row["magic"], row["codec"]) for row in table.select(["magic", "codec"]).to_pylist()}
    assert {magic for magic, _ in kinds} == {0, 1, 2}
    assert {codec for _, codec in kinds} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert set(table["crc_ok"].to_pylist()) == {True}
