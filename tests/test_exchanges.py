"""Pairing, and the columns of an exchange, case by case, through all stages."""

import base64
import dataclasses
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.exchanges.exchange import NO_REQUEST, OUTCOMES
from kdissect.exchanges.layout_fit import EXACT, NOT, LayoutFit
from kdissect.exchanges.pairing import Exchanges
from kdissect.exchanges.partition_merge import merge_partitions
from kdissect.limits import Limits
from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.partitions import NO_ID, Partition, partitions_of
from kdissect.protocol.readers import NULL
from tests.conversation import STEP_NS, Conversation, conversation
from tests.exchange_builders import (
    ORDERS,
    PAYMENTS,
    Found,
    found_in,
    make_body,
    raw_request,
    raw_response,
    request,
    response,
    sized,
    string16,
)
from tests.messages.record_builders import make_batch, make_record

MS = 1_000_000
BROKER_ENDPOINT = bytes([10, 0, 0, 9]) + (9092).to_bytes(2, "big")
CLIENT_ENDPOINT = bytes([10, 0, 0, 1]) + (50_000).to_bytes(2, "big")


def heartbeat(correlation_id: int, group: str = "workers") -> bytes:
    return request("Heartbeat", 4, correlation_id, group_id=group)


def beaten(correlation_id: int, error_code: int = 0) -> bytes:
    return response("Heartbeat", 4, correlation_id, error_code=error_code)


def batch(*values: bytes, **fields: Any) -> bytes:
    records = [make_record(b"key", value, offset_delta=i) for i, value in enumerate(values)]
    return make_batch(records, **fields)


def produce(
    correlation_id: int, *values: bytes, acks: int = -1, version: int = 7, **fields: Any
) -> bytes:
    partition = {"index": 0, "records": batch(*values)}
    topic = {"name": "orders", "partition_data": [partition]}
    return request("Produce", version, correlation_id, acks=acks, topic_data=[topic], **fields)


def produced(
    correlation_id: int, base_offset: int = 0, error_code: int = 0, **fields: Any
) -> bytes:
    partition = {"index": 0, "error_code": error_code, "base_offset": base_offset}
    topic = {"name": "orders", "partition_responses": [partition]}
    return response("Produce", 7, correlation_id, responses=[topic], **fields)


def fetch(correlation_id: int, offsets: dict[int, int], version: int = 11, **fields: Any) -> bytes:
    """Requests partitions of orders at these offsets."""
    partitions = [
        {"partition": partition, "fetch_offset": offset} for partition, offset in offsets.items()
    ]
    topic: dict[str, Any] = {"partitions": partitions}
    topic |= {"topic_id": ORDERS} if version >= 13 else {"topic": "orders"}
    values = {"max_wait_ms": 500, "min_bytes": 1, **fields}
    return request("Fetch", version, correlation_id, topics=[topic] if offsets else [], **values)


def fetched(
    correlation_id: int, partitions: dict[int, dict[str, Any]], version: int = 11, **fields: Any
) -> bytes:
    rows = [{"partition_index": index, **values} for index, values in partitions.items()]
    topic: dict[str, Any] = {"partitions": rows}
    topic |= {"topic_id": ORDERS} if version >= 13 else {"topic": "orders"}
    return response("Fetch", version, correlation_id, responses=[topic] if rows else [], **fields)


def outcomes(found: Found) -> list[tuple[int, str]]:
    return found.columns("correlation_id", "outcome")


# Pairing


def test_a_request_and_its_response_are_one_exchange() -> None:
    talk = conversation().client(heartbeat(7)).broker(beaten(7), gap_ns=3 * MS)
    (row,) = found_in(talk.close()).rows
    start = 1_700_000_000_000_000_000
    times = {name: row.pop(name).value - start for name in (
        "request_start", "request_end", "response_start", "response_end",
    )}  # fmt: skip
    assert times == {
        "request_start": 3 * STEP_NS, "request_end": 3 * STEP_NS,
        "response_start": 4 * STEP_NS + 3 * MS, "response_end": 4 * STEP_NS + 3 * MS,
    }  # fmt: skip
    assert row == {
        "capture": "test.pcap", "connection_id": 1, "exchange_id": 400_000, "api_key": 12,
        "api": "Heartbeat", "api_version": 4, "correlation_id": 7, "client_id": "shop",
        "outcome": "answered", "latency_ns": 3 * MS + STEP_NS, "upload_ns": 0, "download_ns": 0,
        "queue_ns": 0, "service_ns": 3 * MS + STEP_NS, "wait_ns": 0,
        "work_ns": 3 * MS + STEP_NS, "throttle_ms": 0, "request_size": 30, "response_size": 12,
        "error_code": 0, "error": None, "error_count": 0, "acks": None, "group_id": "workers",
        "transactional_id": None, "producer_id": None, "producer_epoch": None,
        "transaction_timeout_ms": None, "is_commit": None, "replica_id": None, "rack_id": None,
        "topic_count": 0, "partition_count": 0, "record_count": None,
        "record_bytes": None, "fetch_class": None, "retransmits": 0, "zero_windows": 0,
        "rtt_ns": 2 * STEP_NS, "missing_bytes": 0, "request_packet": 4, "response_packet": 6,
        "decode_status": "ok",
        "candidates": None, "certainty": 100,
    }  # fmt: skip


def test_pipelined_requests_are_answered_in_order() -> None:
    talk = conversation().client(*map(heartbeat, (1, 2, 3))).broker(*map(beaten, (1, 2, 3)))
    assert outcomes(found_in(talk)) == [(1, "answered"), (2, "answered"), (3, "answered")]


def test_several_frames_in_one_packet_have_ids_of_their_own() -> None:
    talk = conversation().client(heartbeat(1) + heartbeat(2)).broker(beaten(1) + beaten(2))
    assert found_in(talk).columns("exchange_id", "request_packet", "response_packet") == [
        (400_000, 4, 6), (400_001, 4, 6),
    ]  # fmt: skip


def test_a_constant_correlation_id_is_answered_first_in_first_out() -> None:
    talk = conversation().client(produce(0, b"a"), heartbeat(0), produce(0, b"b"))
    talk = talk.broker(produced(0, 5), beaten(0, 27), produced(0, 6))
    found = found_in(talk)
    assert found.columns("api", "outcome", "error_code") == [
        ("Produce", "answered", 0), ("Heartbeat", "answered", 27), ("Produce", "answered", 0),
    ]  # fmt: skip
    assert found.column("base_offset", "partitions") == [5, 6]


def test_after_a_lost_response_the_id_repairs_the_order() -> None:
    talk = conversation(has_acks=False)
    for number in range(1, 5):
        talk = talk.client(heartbeat(number)).broker(beaten(number))
    found = found_in(talk.lose(7))  # the second answer
    assert outcomes(found) == [
        (1, "answered"), (2, None), (3, "answered"), (4, "answered"),
    ]  # fmt: skip


def test_a_response_whose_request_was_lost_is_an_orphan() -> None:
    talk = conversation(has_acks=False)
    for number in range(1, 4):
        talk = talk.client(heartbeat(number)).broker(beaten(number))
    found = found_in(talk.lose(6))
    assert sorted(outcomes(found)) == [(1, "answered"), (2, "orphan"), (3, "answered")]
    (orphan,) = [row for row in found.rows if row["outcome"] == "orphan"]
    assert orphan["decode_status"] == "no-request"
    assert {name for name, value in orphan.items() if value is not None} == {
        "capture", "connection_id", "exchange_id", "correlation_id", "outcome", "response_start",
        "response_end", "download_ns", "response_size", "retransmits", "zero_windows", "rtt_ns",
        "missing_bytes", "response_packet", "decode_status",
        "candidates", "certainty",
    }  # fmt: skip


def test_orphan_lists_candidates_most_likely_first() -> None:
    talk = conversation(has_acks=False).client(heartbeat(1)).broker(beaten(1))
    talk = talk.client(heartbeat(2)).broker(beaten(2, 27)).client(heartbeat(3)).broker(beaten(3))
    (orphan,) = [row for row in found_in(talk.lose(6)).rows if row["outcome"] == "orphan"]
    assert orphan["candidates"] == (
        "Heartbeat 4, Produce 1-8, ApiVersions 3-5, AddOffsetsToTxn 3-4, EndTxn 3-4, "
        "PushTelemetry 0, UpdateRaftVoter 0"
    )
    assert orphan["certainty"] == 76
    assert orphan["api"] is None


def test_an_orphan_that_can_be_of_one_api_only_is_read() -> None:
    rows = {0: {"error_code": 3}, 1: {"high_watermark": 10, "records": batch(b"a", b"b")}}
    talk = conversation(has_acks=False).client(fetch(1, {0: 5, 1: 5})).broker(fetched(1, rows))
    talk = talk.client(heartbeat(2)).broker(beaten(2))
    found = found_in(talk.lose(4))
    (orphan,) = [row for row in found.rows if row["outcome"] == "orphan"]
    names = ("api", "api_version", "candidates", "certainty", "error", "record_count")
    assert [orphan[name] for name in names] == [
        "Fetch", 11, "Fetch 11", 100, "UNKNOWN_TOPIC_OR_PARTITION", 2,
    ]  # fmt: skip
    assert found.columns("topic", "partition", "error_code", table="partitions") == [
        ("orders", 0, 3), ("orders", 1, 0)
    ]  # fmt: skip


def test_responses_alone_are_framed_and_read_from_any_packet_on() -> None:
    rows = {0: {"high_watermark": 10, "records": batch(b"a" * 900)}}
    talk = conversation(has_acks=False)
    for number in range(1, 20):
        talk = talk.client(fetch(number, {0: 5})).broker(fetched(number, rows))
    alone = talk.one_way(is_client=False)
    assert found_in(alone).columns("api", "outcome", "correlation_id") == [
        ("Fetch", "orphan", number) for number in range(1, 20)
    ]
    for stage in (Exchanges(), Exchanges(ports=frozenset())):
        found = found_in(alone.split(400).start_late(5), stage)
        found_ids = found.column("correlation_id")
        assert found_ids == list(range(20 - len(found_ids), 20))
        assert len(found_ids) >= 15
        assert set(found.column("api")) == {"Fetch"}
        assert found.column("protocol", "connections") == ["kafka"]


def test_of_requests_alone_it_is_not_known_whether_they_were_answered() -> None:
    talk = conversation(has_acks=False)
    for number in range(1, 20):
        talk = talk.client(heartbeat(number)).broker(beaten(number))
    found = found_in(talk.one_way(is_client=True), Exchanges(pending_limit=5))
    assert found.columns("correlation_id", "outcome", "decode_status") == [
        (number, None, "response-not-captured") for number in range(1, 20)
    ]
    assert len(found.tables["problems"]) == 1


def test_a_request_given_after_its_response_is_answered_by_it() -> None:
    talk = conversation(has_acks=False)
    for number in range(1, 5):
        talk = talk.client(heartbeat(number)).broker(beaten(number, number))
    # The second request is the last in the file, with its own time.
    late = talk.repeat(6, gap_ns=-45_000).lose(6)
    found = found_in(late)
    assert found.columns("correlation_id", "outcome", "error_code") == [
        (number, "answered", number) for number in (1, 2, 3, 4)
    ]
    assert set(found.column("queue_ns")) == {0}


def test_captured_in_the_wrong_order_they_are_one_exchange_unless_all_ids_are_the_same() -> None:
    talk = conversation(has_acks=False).broker(beaten(1)).client(heartbeat(1))
    found = found_in(talk)
    assert found.columns("outcome", "latency_ns", "queue_ns") == [("answered", None, None)]
    talk = conversation(has_acks=False).client(heartbeat(0)).broker(beaten(0), beaten(0))
    found = found_in(talk.client(heartbeat(0)).broker(beaten(0)))
    assert sorted(outcomes(found)) == [(0, "answered"), (0, "answered"), (0, "orphan")]


def test_a_response_is_an_orphan_as_soon_as_a_later_request_is_there() -> None:
    talk = conversation().broker(beaten(8)).client(heartbeat(9), gap_ns=30 * MS)
    talk = talk.broker(beaten(7), beaten(9))
    assert outcomes(found_in(talk)) == [(8, "orphan"), (9, "answered"), (7, "orphan")]


EARLY = Limits().early_responses


def test_no_more_responses_wait_for_their_requests_than_the_limit() -> None:
    talk = conversation(has_acks=False).broker(*map(beaten, range(EARLY + 2)))
    found = found_in(talk.client(heartbeat(0)))
    assert sorted(outcomes(found)) == [
        (0, "orphan"), (0, "unanswered"), *((n, "orphan") for n in range(1, EARLY + 2)),
    ]  # fmt: skip


def test_produce_with_acks_0_expects_no_response() -> None:
    talk = conversation().client(produce(1, b"a", acks=0), heartbeat(2)).broker(beaten(2))
    found = found_in(talk)
    assert outcomes(found) == [(1, "no_response_expected"), (2, "answered")]
    assert found.columns("acks", "record_count", "latency_ns")[0] == (0, 1, None)
    assert found.column("base_offset", "partitions") == [None]


def test_requests_that_wait_at_the_end_are_unanswered() -> None:
    talk = conversation().client(heartbeat(1), heartbeat(2)).broker(beaten(1))
    for ended in (talk, talk.close(), talk.reset()):
        assert outcomes(found_in(ended)) == [(1, "answered"), (2, "unanswered")]


def test_no_more_requests_wait_than_the_limit() -> None:
    talk = conversation().client(*map(heartbeat, range(5))).broker(beaten(3), beaten(4))
    found = found_in(talk, Exchanges(pending_limit=3))
    assert outcomes(found) == [
        (0, "unanswered"), (1, "unanswered"), (2, "unanswered"), (3, "answered"), (4, "answered"),
    ]  # fmt: skip
    text = "more than 3 requests wait on one connection; the oldest are let go"
    assert found.columns("kind", "message", table="problems") == [("pending-limit", text)]


def test_answered_requests_are_forgotten() -> None:
    talk = conversation(has_acks=False)
    for number in range(200):
        talk = talk.client(heartbeat(number)).broker(beaten(number))
    found = found_in(talk, Exchanges(pending_limit=1))
    assert found.column("outcome") == ["answered"] * 200
    assert found.tables["problems"] == []


def test_a_reused_port_is_another_connection_with_its_own_requests() -> None:
    talk = conversation().client(heartbeat(1)).port_reuse().client(heartbeat(1)).broker(beaten(1))
    found = found_in(talk)
    assert found.columns("connection_id", "outcome") == [(1, "unanswered"), (6, "answered")]


# Headers and layouts with a rule of their own


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_an_unsupported_api_versions_request_is_answered_in_the_oldest_layout(version: int) -> None:
    entry = {"api_key": 18, "min_version": 0, "max_version": 2}
    body = make_body("ApiVersions", 0, "response", {"error_code": 35, "api_keys": [entry]})
    talk = conversation().client(request("ApiVersions", version, 1))
    found = found_in(talk.broker(response("ApiVersions", version, 1, body=body)))
    assert found.columns("api_version", "error", "error_count", "decode_status") == [
        (version, "UNSUPPORTED_VERSION", 1, "ok")
    ]
    assert found.tables["problems"] == []


def test_other_errors_of_api_versions_come_in_the_layout_asked_for() -> None:
    talk = conversation().client(request("ApiVersions", 3, 1))
    found = found_in(talk.broker(response("ApiVersions", 3, 1, error_code=42)))
    assert found.columns("error", "decode_status") == [("INVALID_REQUEST", "ok")]


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    talk = conversation().client(request("ControlledShutdown", 0, 5, broker_id=3))
    left = {"topic_name": "orders", "partition_index": 2}
    found = found_in(talk.broker(response("ControlledShutdown", 0, 5, remaining_partitions=[left])))
    assert found.columns("api", "client_id", "correlation_id", "decode_status") == [
        ("ControlledShutdown", None, 5, "ok")
    ]
    assert found.columns("topic", "partition", table="partitions") == [("orders", 2)]


def test_an_empty_client_id_is_not_null() -> None:
    talk = conversation().client(
        request("Heartbeat", 0, 1, client_id=""), request("Heartbeat", 0, 2, client_id=None)
    )
    assert found_in(talk).column("client_id") == ["", None]


# Undecodable messages


def test_an_unknown_api_key_keeps_its_row() -> None:
    talk = conversation().client(heartbeat(1)).broker(beaten(1))
    talk = talk.client(raw_request(9999, 3, 2, b"secret")).broker(raw_response(2, b"answer"))
    found = found_in(talk)
    assert found.columns("api_key", "api", "outcome", "decode_status", "error_code")[1] == (
        9999, "api-9999", "answered", "unknown-api", None,
    )  # fmt: skip


def test_an_unknown_version_keeps_its_row() -> None:
    talk = conversation().client(request("Heartbeat", 4, 1)).broker(beaten(1))
    talk = talk.client(sized(struct.pack(">hhi", 12, 6, 2) + string16("shop") + b"\x00\x01"))
    found = found_in(talk.broker(raw_response(2, b"\x00??")))
    assert found.columns("api", "api_version", "client_id", "outcome", "decode_status")[1] == (
        "Heartbeat", 6, "shop", "answered", "unknown-version",
    )  # fmt: skip
    assert found.tables["problems"] == []


def test_a_request_that_does_not_decode_costs_its_details_only() -> None:
    body = make_body("Heartbeat", 4, "request", {"group_id": "workers"})
    talk = conversation().client(request("Heartbeat", 4, 1, body=body[:12])).broker(beaten(1, 27))
    found = found_in(talk)
    assert found.columns(
        "api", "client_id", "group_id", "outcome", "error_code", "decode_status"
    ) == [("Heartbeat", "shop", "workers", "answered", 27, "request")]
    (problem,) = found.tables["problems"]
    assert (problem["stage"], problem["kind"]) == ("exchanges", "undecodable-request")
    assert problem["exchange_id"] == found.rows[0]["exchange_id"]
    assert problem["packet_number"] == found.rows[0]["request_packet"]
    assert problem["message"].startswith("cannot decode Heartbeat request v4: ")
    assert "member_id" in problem["message"]


def test_a_response_that_does_not_decode_costs_its_details_only() -> None:
    talk = conversation().client(heartbeat(1)).broker(raw_response(1, b"\x00\x00\x00"))
    talk = talk.client(heartbeat(2)).broker(beaten(2))
    found = found_in(talk)
    assert found.columns("outcome", "group_id", "error_code", "error_count", "decode_status") == [
        ("answered", "workers", None, None, "response"), ("answered", "workers", 0, 0, "ok"),
    ]  # fmt: skip
    assert found.columns("kind", "exchange_id", table="problems") == [
        ("undecodable-response", found.rows[0]["exchange_id"])
    ]


def test_fields_before_a_decode_error_of_a_response_are_kept() -> None:
    body = make_body("Fetch", 11, "response", {"throttle_time_ms": 250, "error_code": 70})
    talk = conversation().client(fetch(1, {0: 5})).broker(response("Fetch", 11, 1, body=body[:-1]))
    assert found_in(talk).columns("throttle_ms", "error_code", "error_count", "wait_ns") == [
        (250, 70, 1, None)
    ]


def test_bytes_left_over_are_a_problem_and_cost_nothing_else() -> None:
    body = make_body("Heartbeat", 4, "request", {"group_id": "workers"}) + b"more"
    talk = conversation().client(request("Heartbeat", 4, 1, body=body))
    found = found_in(talk.broker(sized(beaten(1, 27)[4:] + b"!")))
    assert found.columns("group_id", "error_code", "decode_status") == [("workers", 27, "leftover")]
    assert found.columns("kind", "message", table="problems") == [
        ("leftover-request", "Heartbeat request v4: 4 bytes left over at byte 30 of 34"),
        ("leftover-response", "Heartbeat response v4: 1 bytes left over at byte 12 of 13"),
    ]


def test_a_header_that_cannot_be_read_is_a_problem() -> None:
    talk = conversation().client(heartbeat(1)).broker(beaten(1)).client(sized(b"\x00\x0c\x00"))
    found = found_in(talk.client(heartbeat(2)).broker(beaten(2)))
    assert outcomes(found) == [(1, "answered"), (2, "answered")]
    assert found.column("kind", "problems") == ["bad-request-header"]


def test_corrupt_records_are_a_problem_and_cost_nothing_else() -> None:
    broken = batch(b"a")[:16] + b"\x09" + batch(b"a")[17:]
    partition = {"index": 0, "records": broken}
    topic = {"name": "orders", "partition_data": [partition]}
    talk = conversation().client(request("Produce", 7, 1, acks=1, topic_data=[topic]))
    found = found_in(talk.broker(produced(1, 3)))
    assert found.columns("topic", "partition", "base_offset", table="partitions") == [
        ("orders", 0, 3)
    ]
    assert found.column("decode_status") == ["ok"]
    assert "corrupt-records" in found.column("kind", "problems")


# Bytes that were not captured


def test_frame_with_a_hole_is_paired_and_keeps_fields_before_it() -> None:
    talk = conversation(has_acks=False).client(produce(1, b"x" * 4000)).broker(produced(1, 9))
    found = found_in(talk.lose(5))  # the second of three segments
    assert found.columns("outcome", "client_id", "acks", "decode_status") == [
        ("answered", "shop", -1, "damaged")
    ]
    assert found.columns("topic", "base_offset", table="partitions") == [("orders", 9)]
    assert "undecodable-request" not in found.column("kind", "problems")


def test_a_damaged_produce_with_acks_0_still_expects_no_response() -> None:
    talk = conversation(has_acks=False).client(produce(1, b"x" * 4000, acks=0), heartbeat(2))
    found = found_in(talk.broker(beaten(2)).lose(5))
    assert outcomes(found) == [(1, "no_response_expected"), (2, "answered")]


def test_a_damaged_response_does_not_say_that_there_was_no_error() -> None:
    rows = {0: {"records": batch(b"x" * 4000), "high_watermark": 9}}
    talk = conversation(has_acks=False).client(fetch(1, {0: 0})).broker(fetched(1, rows))
    found = found_in(talk.lose(6))
    assert found.columns(
        "outcome", "error_code", "error_count", "fetch_class", "wait_ns", "decode_status"
    ) == [("answered", None, None, None, None, "damaged")]


@pytest.mark.parametrize("snap", [16, 20, 30, 40])
def test_a_capture_of_headers_alone_still_shows_the_exchanges(snap: int) -> None:
    talk = conversation(has_acks=False)
    for number in range(1, 4):
        talk = talk.client(produce(number, b"x" * 100, acks=1)).broker(produced(number))
    found = found_in(talk.cut(snap))
    assert found.columns("api", "correlation_id", "outcome", "decode_status") == [
        ("Produce", number, "answered", "damaged") for number in (1, 2, 3)
    ]
    shown = None if snap < 18 else "shop"
    assert set(found.column("client_id")) == {shown}


# Which side is the broker


def without_handshake(talk: Conversation) -> Conversation:
    return talk.start_late(3)


def mirrored(talk: Conversation) -> Conversation:
    """The other side has the known port: data sent to it is taken as sent by it."""
    swapped = [
        dataclasses.replace(sent, is_client=not sent.is_client) for sent in talk.packets_sent
    ]
    return dataclasses.replace(talk, packets_sent=tuple(swapped))


PLAIN_TALK = conversation().client(heartbeat(1)).broker(beaten(1)).client(heartbeat(2)).broker(
    beaten(2)
)  # fmt: skip


def side_of(found: Found) -> list[tuple[Any, ...]]:
    names = ("broker_side_by", "broker_ip", "broker_port", "client_port", "syn_seen")
    return found.columns(*names, table="connections")


def test_the_side_that_was_called_is_the_broker() -> None:
    assert side_of(found_in(PLAIN_TALK)) == [("syn", "10.0.0.9", 9092, 50_000, True)]
    assert side_of(found_in(mirrored(PLAIN_TALK))) == [("syn", "10.0.0.1", 50_000, 9092, True)]


def test_without_the_handshake_the_known_port_is_the_broker() -> None:
    found = found_in(without_handshake(PLAIN_TALK))
    assert side_of(found) == [("port", "10.0.0.9", 9092, 50_000, False)]
    assert outcomes(found) == [(1, "answered"), (2, "answered")]


def test_without_a_known_port_the_side_that_sends_requests_is_the_client() -> None:
    found = found_in(without_handshake(PLAIN_TALK), Exchanges(ports=frozenset()))
    assert side_of(found) == [("content", "10.0.0.9", 9092, 50_000, False)]
    assert outcomes(found) == [(1, "answered"), (2, "answered")]


def test_user_options_win() -> None:
    talk = without_handshake(mirrored(PLAIN_TALK))
    stage = Exchanges(brokers=frozenset({CLIENT_ENDPOINT}))
    assert side_of(found_in(talk, stage)) == [("user", "10.0.0.1", 50_000, 9092, False)]
    both = Exchanges(brokers=frozenset({CLIENT_ENDPOINT, BROKER_ENDPOINT}))
    assert side_of(found_in(PLAIN_TALK, both)) == [("syn", "10.0.0.9", 9092, 50_000, True)]


def test_a_capture_that_starts_between_request_and_response_goes_on_with_the_next() -> None:
    late = PLAIN_TALK.start_late(5)  # the first packet is the first answer
    for stage in (Exchanges(), Exchanges(ports=frozenset())):
        found = found_in(late, stage)
        assert outcomes(found) == [(2, "answered")]
        (row,) = found.tables["connections"]
        assert row["skipped_bytes_to_client"] == len(beaten(1))


def test_a_capture_that_starts_inside_a_message_finds_the_next_one() -> None:
    talk = conversation(has_acks=False).client(produce(1, b"x" * 5000)).broker(produced(1))
    talk = talk.client(heartbeat(2)).broker(beaten(2)).client(heartbeat(3)).broker(beaten(3))
    found = found_in(talk.start_late(5))
    answered = [row for row in outcomes(found) if row[1] == "answered"]
    assert answered == [(2, "answered"), (3, "answered")]


@pytest.mark.parametrize("size", [1, 5, 13, 14, 20])
def test_a_start_in_mid_connection_does_not_depend_on_segments(size: int) -> None:
    talk = without_handshake(PLAIN_TALK).split(size)
    for stage in (Exchanges(), Exchanges(ports=frozenset())):
        assert outcomes(found_in(talk, stage)) == [(1, "answered"), (2, "answered")]


@pytest.mark.parametrize("padding", [b"", bytes(4), bytes(8)])
def test_an_old_client_with_zeros_behind_its_request_is_found_in_mid_connection(
    padding: bytes,
) -> None:
    talk = conversation().client(request("ApiVersions", 0, 7, body=padding))
    talk = without_handshake(talk.broker(response("ApiVersions", 0, 7)))
    for stage in (Exchanges(), Exchanges(ports=frozenset())):
        assert outcomes(found_in(talk, stage)) == [(7, "answered")]


@pytest.mark.parametrize("padding", [bytes(9), b"\0\0\0\1", b"plan"])
def test_other_bytes_behind_a_request_are_no_padding(padding: bytes) -> None:
    data = request("ApiVersions", 0, 7, body=padding)[4:]
    assert LayoutFit(fact_plans()).request(data, len(data)) == NOT
    exact = request("ApiVersions", 0, 7)[4:]
    assert LayoutFit(fact_plans()).request(exact, len(exact)) == EXACT


# Fetch


def test_a_fetch_session_remembers_the_offsets_that_a_request_leaves_out() -> None:
    talk = conversation()
    talk = talk.client(fetch(1, {0: 10, 1: 20}, session_epoch=0))
    talk = talk.broker(
        fetched(1, {0: {"high_watermark": 10}, 1: {"high_watermark": 20}}, session_id=5)
    )
    talk = talk.client(fetch(2, {}, session_id=5, session_epoch=1))
    talk = talk.broker(
        fetched(2, {1: {"high_watermark": 21, "records": batch(b"a")}}, session_id=5)
    )
    talk = talk.client(fetch(3, {1: 21}, session_id=5, session_epoch=2))
    talk = talk.broker(
        fetched(3, {0: {"high_watermark": 11, "records": batch(b"b")}}, session_id=5)
    )
    found = found_in(talk)
    names = ("exchange_id", "partition", "fetch_offset", "high_watermark", "record_count")
    rows = found.columns(*names, table="partitions")
    first, second, third = found.column("exchange_id")
    assert rows == [
        (first, 0, 10, 10, 0), (first, 1, 20, 20, 0), (second, 1, 20, 21, 1),
        (third, 0, 10, 11, 1), (third, 1, 21, None, None),
    ]  # fmt: skip
    assert found.column("partition_count") == [2, 1, 2]


def test_a_new_fetch_session_forgets_the_offsets_of_the_old_one() -> None:
    talk = conversation().client(fetch(1, {0: 10}, session_epoch=0)).broker(fetched(1, {}))
    talk = talk.client(fetch(2, {1: 20}, session_epoch=0))
    talk = talk.broker(fetched(2, {0: {"high_watermark": 3}}))
    assert found_in(talk).columns("partition", "fetch_offset", table="partitions")[1:] == [
        (0, None), (1, 20),
    ]  # fmt: skip


def test_partitions_that_leave_a_session_are_no_rows() -> None:
    forgotten = [{"topic": "orders", "partitions": [0, 1]}]
    talk = conversation().client(fetch(1, {2: 5}, forgotten_topics_data=forgotten))
    found = found_in(talk.broker(fetched(1, {2: {"high_watermark": 5}})))
    assert found.columns("partition", "fetch_offset", table="partitions") == [(2, 5)]
    assert found.column("topic_count") == [1]


def test_pipelined_fetches_have_the_offsets_they_asked_for() -> None:
    talk = conversation().client(fetch(1, {0: 10}, version=4), fetch(2, {0: 15}, version=4))
    rows = {0: {"high_watermark": 20}}
    found = found_in(talk.broker(fetched(1, rows, version=4), fetched(2, rows, version=4)))
    assert found.column("fetch_offset", "partitions") == [10, 15]


FETCH_ENDS = {
    "data that was there": (5, 500, batch(b"a"), 0, "data", 0),
    "data that came": (10, 30, batch(b"a"), 0, "waited", 30),
    "nothing": (10, 501, b"", 0, "empty", 500),
    "nothing, too soon": (10, 100, b"", 0, "empty", 100),
    "an error": (10, 30, b"", 1, "error", None),
}


@pytest.mark.parametrize("name", FETCH_ENDS)
def test_a_long_poll_ends_with(name: str) -> None:
    offset, latency_ms, records, error_code, fetch_class, wait_ms = FETCH_ENDS[name]
    talk = conversation(has_acks=False)
    # Before, the high watermark was 10.
    talk = talk.client(fetch(1, {0: 0})).broker(fetched(1, {0: {"high_watermark": 10}}))
    answer = {"records": records, "error_code": error_code, "high_watermark": 11}
    talk = talk.client(fetch(2, {0: offset})).broker(
        fetched(2, {0: answer}), gap_ns=latency_ms * MS
    )
    row = found_in(talk).rows[1]
    assert row["latency_ns"] == latency_ms * MS
    expected = (None, None) if wait_ms is None else (wait_ms * MS, (latency_ms - wait_ms) * MS)
    assert (row["fetch_class"], row["wait_ns"], row["work_ns"]) == (fetch_class, *expected)


def test_less_than_min_bytes_is_empty() -> None:
    rows = {0: {"records": batch(b"a"), "high_watermark": 10}}
    talk = conversation(has_acks=False).client(fetch(1, {0: 9}, min_bytes=5000))
    row = found_in(talk.broker(fetched(1, rows), gap_ns=510 * MS)).rows[0]
    assert (row["fetch_class"], row["wait_ns"], row["work_ns"]) == ("empty", 500 * MS, 10 * MS)


# Times


def test_queue_service_wait_and_work_add_up_to_the_latency() -> None:
    talk = conversation(has_acks=False).client(heartbeat(1))  # ends at 0
    talk = talk.client(heartbeat(2), gap_ns=1 * MS)  # at 1
    talk = talk.client(request("JoinGroup", 5, 3, group_id="g", protocol_type="c"), gap_ns=1 * MS)
    talk = talk.broker(beaten(1), gap_ns=8 * MS)  # at 10
    talk = talk.broker(beaten(2), gap_ns=5 * MS)  # at 15
    talk = talk.broker(response("JoinGroup", 5, 3), gap_ns=600 * MS)  # at 615
    names = ("latency_ns", "queue_ns", "service_ns", "wait_ns", "work_ns")
    found = found_in(talk)
    assert [tuple(value // MS for value in row) for row in found.columns(*names)] == [
        (10, 0, 10, 0, 10), (14, 9, 5, 0, 5), (613, 13, 600, 600, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("api", "version", "error_code", "wait_ms"),
    [
        ("JoinGroup", 5, 0, 40), ("SyncGroup", 3, 0, 40), ("SyncGroup", 3, 27, 40),
        # Refused immediately, so it was the coordinator's time.
        ("JoinGroup", 5, 79, 0), ("JoinGroup", 5, 25, 0), ("JoinGroup", 5, 14, 0),
        ("SyncGroup", 3, 22, 0), ("SyncGroup", 3, 25, 0),
        # Immediately, or when the group or the member moved in the meantime.
        ("JoinGroup", 5, 16, None), ("SyncGroup", 3, 16, None), ("JoinGroup", 5, 82, None),
    ],
)  # fmt: skip
def test_a_group_api_that_is_refused_at_once_did_not_wait(
    api: str, version: int, error_code: int, wait_ms: int | None
) -> None:
    talk = conversation(has_acks=False).client(request(api, version, 1, group_id="g"))
    talk = talk.broker(response(api, version, 1, error_code=error_code), gap_ns=40 * MS)
    (row,) = found_in(talk).rows
    expected = None if wait_ms is None else wait_ms * MS
    assert row["wait_ns"] == expected
    assert row["work_ns"] == (None if expected is None else 40 * MS - expected)


def test_a_request_sent_after_the_answer_before_it_did_not_queue() -> None:
    talk = conversation(has_acks=False)
    for number in (1, 2):
        talk = talk.client(heartbeat(number), gap_ns=7 * MS).broker(beaten(number), gap_ns=3 * MS)
    assert found_in(talk).columns("queue_ns", "service_ns") == [(0, 3 * MS), (0, 3 * MS)]


def test_answers_that_come_in_one_packet_queued_for_all_of_their_latency() -> None:
    talk = conversation(has_acks=False).client(heartbeat(1)).client(heartbeat(2), gap_ns=MS)
    found = found_in(talk.broker(beaten(1) + beaten(2), gap_ns=4 * MS))
    assert found.columns("latency_ns", "queue_ns", "work_ns") == [
        (5 * MS, 0, 5 * MS), (4 * MS, 4 * MS, 0),
    ]  # fmt: skip


def test_upload_and_download_are_from_the_first_to_the_last_packet() -> None:
    talk = conversation(has_acks=False).client(produce(1, b"x" * 4000), gap_ns=2 * MS)
    rows = {0: {"records": batch(b"y" * 4000)}}
    talk = talk.broker(produced(1)).client(fetch(2, {0: 0})).broker(fetched(2, rows), gap_ns=3 * MS)
    assert found_in(talk).columns("upload_ns", "download_ns", "latency_ns") == [
        (4 * MS, 0, STEP_NS), (0, 6 * MS, 3 * MS),
    ]  # fmt: skip


def test_retransmitted_segments_are_counted_on_the_exchanges_they_happen_in() -> None:
    talk = conversation().client(heartbeat(1)).broker(beaten(1)).client(heartbeat(2))
    talk = talk.repeat(8).broker(beaten(2)).client(heartbeat(3))
    assert found_in(talk).column("retransmits") == [0, 1, 0]


def test_full_windows_are_counted_on_the_exchanges_they_happen_in() -> None:
    talk = conversation().client(heartbeat(1)).broker(beaten(1)).client(heartbeat(2))
    talk = talk.ack(False, window=0).ack(False).broker(beaten(2)).client(heartbeat(3))
    assert found_in(talk).columns("retransmits", "zero_windows") == [(0, 0), (0, 1), (0, 0)]


def test_the_round_trip_of_an_exchange_is_the_smallest_known_when_it_was_answered() -> None:
    talk = conversation().client(heartbeat(1)).broker(beaten(1))
    found = found_in(talk)
    (connection,) = found.tables["connections"]
    parts = [
        min(connection[f"handshake_rtt_{side}_ns"], connection[f"min_rtt_{side}_ns"] or 10**9)
        for side in ("broker", "client")
    ]
    assert found.column("rtt_ns") == [sum(parts)]
    late = found_in(
        conversation(has_acks=False).client(heartbeat(1)).broker(beaten(1)).start_late(3)
    )
    assert late.column("rtt_ns") in ([None], [late.tables["connections"][0]["min_rtt_broker_ns"]])


def test_bytes_that_were_not_captured_are_counted_on_their_exchange() -> None:
    talk = conversation(has_acks=False).client(heartbeat(1)).broker(beaten(1))
    talk = talk.client(heartbeat(2)).broker(beaten(2)).client(heartbeat(3)).broker(beaten(3))
    found = found_in(talk.cut(30))
    cut = len(heartbeat(1)) - 30
    assert cut > 0
    assert found.columns("outcome", "missing_bytes") == [("answered", cut)] * 3


# Details


def test_group_and_transactional_id_are_those_of_the_request() -> None:
    partition = {"partition_index": 3, "committed_offset": 77}
    topics = [{"name": "orders", "partitions": [partition]}]
    commit = request("OffsetCommit", 8, 1, group_id="workers", topics=topics)
    talk = conversation().client(commit, produce(2, b"a", transactional_id="tx-1"))
    answer = [{"name": "orders", "partitions": [{"partition_index": 3, "error_code": 25}]}]
    talk = talk.broker(response("OffsetCommit", 8, 1, topics=answer), produced(2))
    found = found_in(talk)
    assert found.columns("group_id", "transactional_id", "error_code") == [
        ("workers", None, 25), (None, "tx-1", 0),
    ]  # fmt: skip
    names = ("topic", "partition", "committed_offset", "error")
    assert found.columns(*names, table="partitions")[0] == ("orders", 3, 77, "UNKNOWN_MEMBER_ID")
    assert found.columns("path", "topic", "partition", "group_id", table="errors") == [
        ("topics[].partitions[].error_code", "orders", 3, "workers")
    ]


def test_the_error_code_is_the_one_at_the_top_else_the_first() -> None:
    rows = {0: {"error_code": 1}, 1: {"error_code": 6}}
    talk = conversation().client(fetch(1, {0: 5, 1: 5}), fetch(2, {0: 5}))
    talk = talk.broker(fetched(1, rows), fetched(2, {0: {"error_code": 1}}, error_code=70))
    found = found_in(talk)
    assert found.columns("error", "error_count") == [
        ("OFFSET_OUT_OF_RANGE", 2), ("FETCH_SESSION_ID_NOT_FOUND", 2),
    ]  # fmt: skip
    assert found.columns("path", "code", "partition", table="errors") == [
        ("responses[].partitions[].error_code", 1, 0),
        ("responses[].partitions[].error_code", 6, 1),
        ("responses[].partitions[].error_code", 1, 0),
        ("error_code", 70, None),
    ]


def test_api_versions_names_the_clients_software() -> None:
    fields = {"client_software_name": "librdkafka", "client_software_version": "2.4.0"}
    talk = conversation().client(request("ApiVersions", 3, 1, **fields))
    names = ("client_software_name", "client_software_version")
    assert found_in(talk).columns(*names, table="connections") == [("librdkafka", "2.4.0")]


def metadata(correlation_id: int, *topics: tuple[str, Any]) -> tuple[bytes, bytes]:
    """Request and response of Metadata that name topics and their ids."""
    rows = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    return (
        request("Metadata", 12, correlation_id, topics=None),
        response("Metadata", 12, correlation_id, topics=rows),
    )


def test_topics_known_by_id_are_named_when_the_name_is_learnt_later() -> None:
    rows = {0: {"high_watermark": 9, "error_code": 1, "records": batch(b"a", b"b")}}
    talk = conversation().client(fetch(1, {0: 5}, version=13)).broker(fetched(1, rows, version=13))
    asked, told = metadata(2, ("orders", ORDERS), ("payments", PAYMENTS))
    found = found_in(talk.client(asked).broker(told))
    topic_id = base64.urlsafe_b64encode(ORDERS.bytes).decode().rstrip("=")
    for table in ("partitions", "batches", "errors"):
        assert set(found.columns("topic", "topic_id", table=table)) == {("orders", topic_id)}
    assert found.columns("topic", "topic_id", table="records") == [("orders", topic_id)] * 2
    assert found.columns("partition", "fetch_offset", "high_watermark", table="partitions") == [
        (0, 5, 9)
    ]


def test_a_name_learnt_between_request_and_response_does_not_make_two_rows() -> None:
    asked, told = metadata(1, ("orders", ORDERS))
    talk = conversation().client(asked, fetch(2, {0: 5}, version=13)).broker(told)
    talk = talk.broker(fetched(2, {0: {"high_watermark": 9}}, version=13))
    assert found_in(talk).columns(
        "topic", "fetch_offset", "high_watermark", table="partitions"
    ) == [("orders", 5, 9)]


def test_a_topic_id_that_is_never_named_keeps_its_row() -> None:
    talk = conversation().client(fetch(1, {0: 5}, version=13))
    assert found_in(talk).columns("topic", "partition", table="partitions") == [(None, 0)]


# Rows of request and response put together


def partition(topic: str, number: int, topic_id: bytes = NO_ID, **fields: int) -> Partition:
    row = Partition(topic, topic_id, number)
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def merged(asked: list[Partition], answered: list[Partition]) -> list[tuple[Any, ...]]:
    return [
        (row.topic, row.partition, row.fetch_offset, row.error_code)
        for row in merge_partitions(partitions_of(asked), partitions_of(answered)).rows()
    ]


def test_rows_of_request_and_response_are_put_together_in_any_order() -> None:
    asked = [partition("a", 0, fetch_offset=1), partition("a", 1, fetch_offset=2),
             partition("b", 0, fetch_offset=3), partition("c", 0, fetch_offset=4)]  # fmt: skip
    answered = [partition("a", 0, error_code=0), partition("b", 0, error_code=6),
                partition("a", 1, error_code=7), partition("d", 0, error_code=8)]  # fmt: skip
    assert merged(asked, answered) == [
        ("a", 0, 1, 0), ("b", 0, 3, 6), ("a", 1, 2, 7), ("d", 0, NULL, 8), ("c", 0, 4, NULL),
    ]  # fmt: skip


def test_a_partition_asked_for_twice_is_two_rows() -> None:
    asked = [partition("a", 0, fetch_offset=1), partition("b", 0, fetch_offset=2),
             partition("a", 0, fetch_offset=3)]  # fmt: skip
    answered = [partition("b", 0, error_code=6), partition("a", 0, error_code=0)]
    assert merged(asked, answered) == [("b", 0, 2, 6), ("a", 0, 1, 0), ("a", 0, 3, NULL)]


def test_rows_with_and_without_a_name_are_the_same_partition_by_their_id() -> None:
    asked = [partition("", 0, ORDERS.bytes, fetch_offset=1), partition("b", 0, fetch_offset=2)]
    answered = [partition("b", 0, PAYMENTS.bytes, error_code=6),
                partition("a", 0, ORDERS.bytes, error_code=0)]  # fmt: skip
    assert merged(asked, answered) == [("b", 0, 2, 6), ("a", 0, 1, 0)]


# Anything at all


def frames() -> st.SearchStrategy[bytes]:
    """Frames of a client or broker: right ones, near ones, and any bytes."""
    ids = st.integers(-2, 3)
    near = st.builds(
        lambda key, version, number, rest: raw_request(key, version, number, rest),
        st.integers(-1, 96), st.integers(0, 19), ids, st.binary(max_size=60),
    )  # fmt: skip
    return st.one_of(
        st.builds(heartbeat, ids),
        st.builds(beaten, ids),
        st.builds(lambda number, acks: produce(number, b"v", acks=acks), ids, st.integers(0, 1)),
        st.builds(lambda number: shake_frame("PLAIN", number), ids),
        near,
        st.builds(raw_response, ids, st.binary(max_size=60)),
        st.builds(sized, st.binary(max_size=40)),
        st.binary(max_size=40),
    )


def shake_frame(mechanism: str, correlation_id: int) -> bytes:
    return request("SaslHandshake", 0, correlation_id, mechanism=mechanism)


@given(st.lists(st.tuples(st.booleans(), frames()), max_size=12), st.data())
def test_any_bytes_give_rows_or_problems(
    said: list[tuple[bool, bytes]], data: st.DataObject
) -> None:
    talk = conversation()
    for is_client, message in said:
        if message:
            talk = talk.client(message) if is_client else talk.broker(message)
    lost = data.draw(st.sets(st.integers(1, len(talk.packets_sent)), max_size=2))
    found = found_in(talk.lose(*lost))
    ids = found.column("exchange_id")
    assert len(set(ids)) == len(ids)
    for row in found.rows:
        assert row["outcome"] in (*OUTCOMES[1:], None)
    assert all(problem["kind"] for problem in found.tables["problems"])


def test_an_orphan_is_marked_as_having_no_request() -> None:
    (orphan,) = found_in(conversation().broker(beaten(1))).exchanges
    assert orphan.status == NO_REQUEST
