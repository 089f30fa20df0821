"""The tables of captures/kafka-0.7.pcapng against the logs of its clients of 0.7."""

import hashlib
import json
from pathlib import Path
from typing import Any

import kdissect
from kdissect.messages.old_recognition import is_request_07

CAPTURES = Path(__file__).parents[2] / "captures"
CAPTURE = CAPTURES / "old" / "kafka-0.7.pcapng"
SIDECAR = json.loads(CAPTURE.with_suffix(".json").read_text(encoding="utf-8"))
HEADERS = {0: 9, 1: 10}  # size to checksum, by magic
Row = dict[str, Any]


def sidecar(table: str) -> list[Row]:
    columns = SIDECAR[table]["columns"]
    return [dict(zip(columns, row, strict=True)) for row in SIDECAR[table]["rows"]]


def rows(table: str, **options: Any) -> list[Row]:
    found: list[Row] = kdissect.read(CAPTURE, table=table, **options).to_arrow().to_pylist()
    return found


def test_the_side_car_describes_its_capture() -> None:
    data = CAPTURE.read_bytes()
    described = {"file": CAPTURE.name, "sha256": hashlib.sha256(data).hexdigest()}
    assert SIDECAR["capture"] == described | {"size": len(data)}


def test_every_connection_is_recognised_and_every_frame_decoded() -> None:
    assert [row["protocol"] for row in rows("connections")] == ["kafka-0.7", "kafka-0.7"]
    assert {row["decode_status"] for row in rows("exchanges")} == {"ok"}
    assert rows("problems") == []


def test_each_operation_of_the_clients_is_an_exchange() -> None:
    apis = [(row["api"].lower(), row["error_code"] or None) for row in rows("exchanges")]
    told = [(row["operation"], row["error"]) for row in sidecar("operations")]
    assert sorted(apis, key=str) == sorted(told, key=str)
    assert {row["outcome"] for row in rows("exchanges")} == {"answered", "no_response_expected"}


def test_requests_match_the_clients_configuration() -> None:
    bodies = [exchange.request for exchange in kdissect.dissect(CAPTURE, where="api = 'Fetch'")]
    asked = [
        (body["topic"], body["partition"], body["offset"], body["max_size"]) for body in bodies
    ]
    told = [row["arguments"] for row in sidecar("operations") if row["operation"] == "fetch"]
    names = ("topic", "partition", "offset", "size")
    assert asked == [tuple(arguments[name] for name in names) for arguments in told]


def test_produced_records_are_in_the_table() -> None:
    requests = {row["exchange_id"] for row in rows("exchanges") if "Produce" in row["api"]}
    sent = [
        (row["topic"], row["partition"], hashlib.sha256(row["value"]).hexdigest())
        for row in rows("records", payload=True)
        if row["exchange_id"] in requests
    ]
    told = [(row["topic"], row["partition"], row["value_sha256"]) for row in sidecar("produced")]
    assert sorted(sent) == sorted(told)


def test_fetched_records_follow_the_offsets_that_clients_received() -> None:
    magics = {row["topic"]: row["magic"] for row in rows("batches")}
    answered = {row["exchange_id"] for row in rows("exchanges") if "Fetch" in row["api"]}
    found = [
        (row["topic"], row["partition"], row["offset"], hashlib.sha256(row["value"]).hexdigest())
        for row in rows("records", payload=True)
        if row["exchange_id"] in answered and row["topic"] != "packed"
    ]
    told = [
        (
            row["topic"],
            row["partition"],
            row["offset"] + HEADERS[magics[row["topic"]]] + row["value_size"],
            row["value_sha256"],
        )
        for row in sidecar("consumed")
        if row["topic"] != "packed"
    ]
    assert sorted(found) == sorted(told)


def test_compressed_messages_are_opened_where_the_clients_leave_them_packed() -> None:
    starts = [row["offset"] for row in sidecar("consumed") if row["topic"] == "packed"]
    batches = [row for row in rows("batches") if row["topic"] == "packed"]
    assert [(row["codec"], row["base_offset"]) for row in batches] == [
        ("gzip", starts[0]),
        ("snappy", starts[1]),
    ]
    records = [row for row in rows("records", payload=True) if row["topic"] == "packed"]
    assert [row["value"] for row in records] == [b"packed one", b"packed two"] * 2
    assert [row["offset"] for row in records] == [
        row["last_offset"] for row in batches for _ in range(2)
    ]


def test_every_checksum_of_the_clients_is_right() -> None:
    assert {row["crc_ok"] for row in rows("batches", verify_crc=True)} == {True}


def test_the_offsets_that_were_listed_are_those_the_clients_were_given() -> None:
    bodies = [exchange.response for exchange in kdissect.dissect(CAPTURE, where="api = 'Offsets'")]
    assert [body["offsets"] for body in bodies] == [row["offsets"] for row in sidecar("listed")]


def test_no_request_of_the_other_captures_could_be_one_of_0_7() -> None:
    for capture in (CAPTURE, *CAPTURES.glob("*.pcapng")):
        frames = [exchange.raw_frame("request") for exchange in kdissect.dissect(capture)]
        found = {is_request_07(frame, len(frame)) for frame in frames if frame}
        assert found == {capture == CAPTURE}, capture.name
