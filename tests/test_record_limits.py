"""Records that demand more than their size: one message has a limit, whatever it contains."""

import json
import tracemalloc
from typing import Any

import pytest

from kdissect.dissection.dissector import Dissector
from kdissect.exchanges.pairing import Exchanges
from kdissect.limits import Limits
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.full_bodies import full_body
from kdissect.messages.records import (
    SHOWN_LIMIT,
    Budget,
    decode_records,
    read_within,
    scan_batches,
)
from tests.conversation import Conversation, conversation
from tests.exchange_builders import Found, found_in, request, response
from tests.messages.record_builders import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    make_batch,
    make_message,
    make_record,
    make_varint,
    make_wrapper,
)

LIMIT = 1 << 20
GOOD = make_batch([make_record(b"k", b"good")])
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


def bomb(codec: int) -> bytes:
    """A batch of one record of zeros, four times the limit."""
    return make_batch([make_record(None, bytes(4 * LIMIT))], codec=codec)


def produced(log: bytes) -> Conversation:
    topic = {"name": "orders", "partition_data": [{"index": 3, "records": log}]}
    talk = conversation().open().client(request("Produce", 7, 1, acks=1, topic_data=[topic]))
    return talk.broker(response("Produce", 7, 1)).close()


def dissected(log: bytes) -> tuple[Dissector, int]:
    """The records of a produce request within the limit, and the memory that this took."""
    stage = Exchanges(keeps_records=True)
    tables = frozenset({"records", "batches", "problems"})
    dissector = Dissector(stage, tables, limits=Limits(unpacked_bytes=LIMIT))
    packets = list(produced(log).packets())
    tracemalloc.start()
    dissector.feed(packets)
    dissector.finish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return dissector, peak


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_bomb_is_a_problem_and_the_rest_is_kept(codec: int) -> None:
    dissector, peak = dissected(GOOD + bomb(codec) + GOOD)
    assert dissector.sink.tables["records"].count == 2
    assert dissector.sink.tables["batches"].count == 3
    assert dissector.sink.problem_counts == {"corrupt-records": 1}
    assert dissector.sink.first_problem is not None
    told = f"partition 3: 1 records lost: unpacks to more than the limit of {LIMIT} bytes"
    assert dissector.sink.first_problem.message == told
    assert peak < 4 * LIMIT


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4], ids=["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_bomb_in_a_wrapper_is_one_too(magic: int, codec: int) -> None:
    good = make_message(magic, b"good")
    wrapper = make_wrapper(magic, codec, [make_message(magic, bytes(4 * LIMIT))], offset=9)
    dissector, peak = dissected(good + wrapper + good)
    assert dissector.sink.tables["records"].count == 2
    assert dissector.sink.problem_counts == {"corrupt-records": 1}
    assert peak < 4 * LIMIT


def test_many_batches_together_have_a_limit_too() -> None:
    # Each stays under the limit of one batch; together they are 16 times the message and more.
    almost = make_batch([make_record(None, bytes(LIMIT - 100))], codec=ZSTD)
    log = almost * 8
    dissector, _ = dissected(log)
    assert 1 <= dissector.sink.tables["records"].count <= (LIMIT + 16 * len(log)) // (LIMIT - 100)
    assert (
        dissector.sink.problem_counts["corrupt-records"]
        == 8 - dissector.sink.tables["records"].count
    )


def test_decompressed_bytes_are_charged_to_the_budget() -> None:
    for data, cost in ((GOOD, 0), (make_batch([make_record(None, bytes(90))], codec=GZIP), 99)):
        budget = Budget(1000, 10)
        (batch,) = scan_batches(data, 0, len(data)).batches
        assert len(read_within(data, batch, budget).records) == 1
        assert (budget.size, budget.count) == (1000 - cost, 10)


def test_a_budget_that_is_spent_gives_no_records() -> None:
    data = make_batch([make_record(None, bytes(90))], codec=GZIP)
    (batch,) = scan_batches(data, 0, len(data)).batches
    for budget in (Budget(10, 10), Budget(1000, 0)):
        scan = read_within(data, batch, budget)
        assert (scan.records, scan.lost_count) == ([], 1)
        assert scan.error is not None


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_the_old_formats_are_counted_too(magic: int) -> None:
    data = b"".join(make_message(magic, b"x", offset=place) for place in range(4))
    (batch,) = scan_batches(data, 0, len(data)).batches
    scan = read_within(data, batch, Budget(1000, 3))
    assert len(scan.records) == 3
    assert str(scan.error).startswith("more than 3 messages")


def headers_of(count: int) -> bytes:
    """A record of headers without value and with an empty name, two bytes each."""
    body = b"\x00\x00\x00" + make_varint(-1) + make_varint(-1) + make_varint(count)
    body += b"\x00\x01" * count
    return make_varint(len(body)) + body


def shown(log: bytes, count: int) -> dict[str, Any]:
    (batch,) = decode_records(log, budget=Budget(LIMIT, count))
    return batch


def test_headers_count_like_records() -> None:
    log = make_batch([make_record(b"k", b"v"), headers_of(98)])
    assert len(shown(log, 100)["records"]) == 2
    batch = shown(log, 99)
    assert len(batch["records"]) == 1
    told = (1, f"more than {SHOWN_LIMIT} records and headers in one message")
    assert (batch["lost_count"], batch["error"]) == told


def test_the_limit_of_a_body_is_that_of_all_its_partitions() -> None:
    log = make_batch([make_record(b"k", b"v")] * 2)
    data = [{"index": index, "records": log} for index in range(2)]
    frame = request("Produce", 7, 1, topic_data=[{"name": "t", "partition_data": data}])[4:]
    shown = [counts(frame, limit) for limit in range(1_300, 10_000, 50)]
    assert [1] in shown
    assert [2, 1] in shown
    assert shown[-1] == [2, 2]
    assert shown == sorted(shown)


def counts(frame: bytes, limit: int) -> list[int]:
    """Number of records shown of each batch."""
    (topic,) = full_body(0, 7, frame, False, limit=limit)["topic_data"]
    batches = [batch for part in topic["partition_data"] for batch in part["records"]]
    return [len(batch["records"]) for batch in batches if "records" in batch]


# Snapshots of the metadata log (FetchSnapshot, facts 6 and 10)

SCRAM = bytes.fromhex("01 0b 00 04") + b"ada\x01\x05salt\x05keyA\x05keyB\x00\x00\x20\x00\x00"
HEADER = make_batch(
    [make_record(b"\0\0\0\x03", b"\0\0" + (7).to_bytes(8, "big") + b"\0")], attributes=0x20
)
FOOTER = make_batch([make_record(b"\0\0\0\x04", b"\0\0\0")], attributes=0x20)
SNAPSHOT = HEADER + make_batch([make_record(None, SCRAM)], base_offset=1) + FOOTER


def snapshot(position: int, log: bytes, *, payload: bool = False) -> Found:
    ask = [{"name": "__cluster_metadata", "partitions": [{"partition": 0, "position": position}]}]
    part = {"index": 0, "position": position, "size": 900, "unaligned_records": log}
    answer = [{"name": "__cluster_metadata", "partitions": [part]}]
    talk = conversation().open().client(request("FetchSnapshot", 1, 1, topics=ask))
    talk = talk.broker(response("FetchSnapshot", 1, 1, topics=answer))
    return found_in(talk, has_payload=payload)


def piece(found: Found) -> Any:
    (body,) = found.column("response", table="bodies")
    return json.loads(body)["topics"][0]["partitions"][0]["unaligned_records"]


def test_the_first_piece_of_a_snapshot_is_batches() -> None:
    found = snapshot(0, SNAPSHOT + FOOTER[:20], payload=True)
    header, entries, footer, rest = piece(found)
    told = [batch["records"][0]["control_type"] for batch in (header, footer)]
    assert told == ["SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"]
    assert header["records"][0]["value"] == {
        "size": 11, "version": 0, "last_contained_log_timestamp": 7,
    }  # fmt: skip
    assert footer["records"][0]["value"] == {"size": 3, "version": 0}
    (entry,) = entries["records"]
    assert entry["value"]["type"] == "UserScramCredentialRecord"
    assert entry["value"]["stored_key"] == "<redacted, 4 bytes>"
    assert rest == {"partial_size": 20}
    assert found.tables["problems"] == []


def test_later_pieces_may_begin_anywhere_and_are_no_problem() -> None:
    found = snapshot(40, SNAPSHOT[40:], payload=True)
    assert piece(found) == {
        "undecoded": len(SNAPSHOT) - 40, "error": "begins at byte 40 of a snapshot",
    }  # fmt: skip
    assert found.tables["problems"] == []
    counts = found.columns("topic", "record_count", "record_bytes", table="partitions")
    assert counts == [("__cluster_metadata", None, len(SNAPSHOT) - 40)]


def test_the_table_of_records_has_no_payload_of_the_metadata_log() -> None:
    found = snapshot(0, SNAPSHOT, payload=True)
    columns = ("key_size", "value_size", "key", "value")
    assert found.columns(*columns, table="records") == [
        (4, 11, None, None), (None, len(SCRAM), None, None), (4, 3, None, None),
    ]  # fmt: skip


def test_a_capture_of_bombs_unpacks_to_no_more_than_the_floor_and_its_share() -> None:
    """100 kB of batches that unpack to 16 MB each: 885 MB, and 22 s, where the floor was 1 GiB."""
    unpacking = Unpacking()
    unpacking.captured = 100_000
    unpacked = 0
    for _ in range(55):
        budget = unpacking.budget(1_500)
        taken = min(budget.size, 16_100_000)
        budget.size -= taken
        unpacking.settle(budget)
        unpacked += taken
    assert unpacked == (256 << 20) + 100 * unpacking.captured
