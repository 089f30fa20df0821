"""The tables on request: bodies in full, and checksums of batches."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kdissect
from kdissect.api.dissected import dissect
from kdissect.cli.program import run
from kdissect.tables.schemas import DEFAULT_TABLES
from tests.conversation import Conversation, conversation
from tests.exchange_builders import (
    make_body,
    raw_request,
    raw_response,
    request,
    response,
)
from tests.messages.record_builders import make_batch, make_message, make_record, make_wrapper

CAPTURES = Path(__file__).parents[2] / "captures"


def saved(talk: Conversation, directory: Path) -> str:
    path = directory / "talk.pcap"
    path.write_bytes(talk.pcap())
    return str(path)


def rows(talk: Conversation, directory: Path, table: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        kdissect.read(saved(talk, directory), table=table, **options).to_arrow().to_pylist()
    )
    return found


def produced(log: bytes) -> Conversation:
    topic = {"name": "orders", "partition_data": [{"index": 3, "records": log}]}
    talk = conversation().open().client(request("Produce", 7, 1, acks=1, topic_data=[topic]))
    return talk.broker(response("Produce", 7, 1)).close()


RECORDS = [make_record(b"the-key", b"the-value", headers=[(b"name", b"the-header")])]


def test_bodies_are_json_of_both_sides(tmp_path: Path) -> None:
    talk = conversation().open().client(request("Heartbeat", 4, 1, group_id="workers"))
    talk = talk.broker(response("Heartbeat", 4, 1, error_code=27)).close()
    (row,) = rows(talk, tmp_path, "bodies")
    assert (row["api"], row["api_version"]) == ("Heartbeat", 4)
    assert json.loads(row["request"]) == {
        "group_id": "workers", "generation_id": 0, "member_id": "", "group_instance_id": None,
    }  # fmt: skip
    assert json.loads(row["response"]) == {"throttle_time_ms": 0, "error_code": 27}


@pytest.mark.parametrize("has_payload", [False, True])
def test_records_are_in_bodies_with_their_sizes_or_with_payload(
    tmp_path: Path, has_payload: bool
) -> None:
    (row,) = rows(produced(make_batch(RECORDS)), tmp_path, "bodies", payload=has_payload)
    partition = json.loads(row["request"])["topic_data"][0]["partition_data"][0]
    (record,) = partition["records"][0]["records"]
    assert ("the-" in row["request"]) == has_payload
    if has_payload:
        headers = [{"key": "name", "value": "the-header"}]
        told = (record["key"], record["value"], record["headers"])
        assert told == ("the-key", "the-value", headers)
    else:
        assert (record["key_size"], record["value_size"], record["header_count"]) == (7, 9, 1)


def test_a_null_where_the_layout_has_none_is_a_problem_and_a_note_in_the_body(
    tmp_path: Path,
) -> None:
    nulls = b"\xff\xff\0\0\0\x03\xff\xff"
    talk = conversation().open().client(request("Heartbeat", 0, 1, body=nulls))
    talk = talk.broker(response("Heartbeat", 0, 1)).close()
    run = kdissect.Run(saved(talk, tmp_path), kdissect.Options(tables=("bodies", "problems")))
    found = {name: batch.to_pylist() for name, batch in run}
    told = json.loads(found["bodies"][0]["request"])["unexpected_nulls"]
    assert [place["path"] for place in told] == ["group_id", "member_id"]
    (problem,) = found["problems"]
    text = f"null in the request at group_id, byte {told[0]['offset']}, and 1 more"
    assert (problem["kind"], problem["message"]) == ("unexpected-null", text)
    assert problem["exchange_id"] == found["bodies"][0]["exchange_id"]
    (exchange,) = dissect(saved(talk, tmp_path))
    assert problem["packet_number"] == exchange.request_packet


def test_a_body_that_is_not_there_or_not_readable_is_null(tmp_path: Path) -> None:
    talk = conversation().open().client(request("Heartbeat", 4, 1, body=b"\x08w"))
    talk = talk.broker(response("Heartbeat", 4, 1)).client(raw_request(4000, 1, 2))
    talk = talk.broker(raw_response(2)).client(request("Heartbeat", 4, 3)).close()
    found = rows(talk, tmp_path, "bodies")
    assert [(row["request"] is None, row["response"] is None) for row in found] == [
        (True, False), (True, True), (False, True),
    ]  # fmt: skip
    assert [row["api"] for row in found] == ["Heartbeat", "api-4000", "Heartbeat"]


def test_numbers_that_json_does_not_know_are_text(tmp_path: Path) -> None:
    values = [{"key": "rate", "value": float("inf")}]
    entry = {"entity": [{"entity_type": "user"}], "values": values}
    talk = conversation().open().client(request("DescribeClientQuotas", 1, 1))
    talk = talk.broker(response("DescribeClientQuotas", 1, 1, entries=[entry])).close()
    (row,) = rows(talk, tmp_path, "bodies")
    assert json.loads(row["response"])["entries"][0]["values"] == [{"key": "rate", "value": "inf"}]


def test_half_a_character_in_the_json_of_a_registry_is_not_written(tmp_path: Path) -> None:
    protocols = [{"name": "v0", "metadata": b'{"host": "\\ud800"}'}]
    body = make_body("JoinGroup", 5, "request", {"protocol_type": "sr", "protocols": protocols})
    talk = conversation().open().client(request("JoinGroup", 5, 1, body=body))
    talk = talk.broker(response("JoinGroup", 5, 1)).close()
    (row,) = rows(talk, tmp_path, "bodies")
    assert json.loads(row["request"])["protocols"][0]["metadata"]["undecoded"] == 18
    (member,) = rows(talk, tmp_path, "members")
    assert member["subscription"].startswith("18 bytes, not decoded: not JSON")


def test_bodies_are_those_that_dissect_gives() -> None:
    capture = str(CAPTURES / "quickstart.pcapng")
    table = kdissect.read(capture, table="bodies").to_arrow().to_pylist()
    shown = {exchange.exchange_id: exchange for exchange in dissect(capture)}
    assert len(table) == len(shown)
    for row in table:
        exchange = shown[row["exchange_id"]]
        for side in ("request", "response"):
            body = getattr(exchange, side)
            keys = None if row[side] is None else list(json.loads(row[side]))
            assert keys == (None if body is None else list(body))


def test_bodies_and_members_are_made_only_where_they_are_wanted() -> None:
    assert "members" in DEFAULT_TABLES
    assert "bodies" not in DEFAULT_TABLES


# Checksums

PLAIN = make_batch(RECORDS)
MESSAGES = make_message(1, b"one", offset=0) + make_message(1, b"two", offset=1)
SPOILABLE = {
    "batch": PLAIN,
    "packed batch": make_batch(RECORDS, codec=4),
    "messages of magic 0": make_message(0, b"one"),
    "messages of magic 1": MESSAGES,
    "wrapper": make_wrapper(1, 1, [MESSAGES], offset=1),
}


def spoiled(log: bytes) -> bytes:
    """One bit of the last byte is wrong."""
    return log[:-1] + bytes([log[-1] ^ 1])


@pytest.mark.parametrize("kind", SPOILABLE)
def test_a_wrong_checksum_is_reported_on_request(tmp_path: Path, kind: str) -> None:
    log = SPOILABLE[kind]
    for data, is_right in ((log, True), (spoiled(log), False)):
        assert [row["crc_ok"] for row in rows(produced(data), tmp_path, "batches")] == [None]
        checked = rows(produced(data), tmp_path, "batches", verify_crc=True)
        assert [row["crc_ok"] for row in checked] == [is_right]


def test_each_batch_has_its_own_checksum(tmp_path: Path) -> None:
    log = PLAIN + spoiled(PLAIN) + PLAIN
    checked = rows(produced(log), tmp_path, "batches", verify_crc=True)
    assert [row["crc_ok"] for row in checked] == [True, False, True]


def test_the_parts_that_brokers_rewrite_are_not_in_the_checksum(tmp_path: Path) -> None:
    # facts 6: base offset, size, leader epoch and magic are outside the CRC-32C.
    rewritten = (77).to_bytes(8, "big") + PLAIN[8:12] + (5).to_bytes(4, "big") + PLAIN[16:]
    (row,) = rows(produced(rewritten), tmp_path, "batches", verify_crc=True)
    assert (row["base_offset"], row["leader_epoch"], row["crc_ok"]) == (77, 5, True)


def test_the_command_line_verifies_checksums(tmp_path: Path) -> None:
    path = saved(produced(PLAIN + spoiled(PLAIN)), tmp_path)
    run(["table", "batches", path, "--verify-crc", "--columns=crc_ok", "-o", f"{path}.jsonl"])
    assert Path(f"{path}.jsonl").read_text() == '{"crc_ok": true}\n{"crc_ok": false}\n'
    run(["dissect", path, "-o", str(tmp_path / "out"), "--verify-crc", "--bodies"])
    table = pq.read_table(tmp_path / "out" / "batches.parquet")
    assert table["crc_ok"].to_pylist() == [True, False]
    assert (tmp_path / "out" / "bodies.parquet").exists()
