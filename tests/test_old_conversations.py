"""Connections that speak a protocol from before 0.8: recognition, pairing, rows."""

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdissect.exchanges.memory_budget import FRAME_COST, MemoryBudget
from kdissect.exchanges.pairing import Exchanges
from kdissect.limits import Limits
from kdissect.messages.old_protocols import KAFKA, KAFKA_07
from kdissect.messages.old_recognition import is_request_07
from kdissect.pipeline import Options, Run
from kdissect.protocol.apis import APIS
from tests.conversation import Conversation, conversation
from tests.exchange_builders import Found, found_in, request, response, sized
from tests.old_builders import (
    fetch,
    fetch_entry,
    fetched,
    listed,
    message,
    multifetch,
    multifetched,
    multiproduce,
    offsets,
    produce,
    produce_entry,
    wrapper,
)

CAPTURES = Path(__file__).parent.parent / "captures"
SET = message(b"one") + message(b"two")
REQUESTS = {
    "Produce": produce("orders", SET),
    "Fetch": fetch("orders", 0),
    "MultiFetch": multifetch(fetch_entry("orders", 0, 5, 99), fetch_entry("audit", 1, 0, 99)),
    "MultiProduce": multiproduce(
        produce_entry("orders", 0, SET), produce_entry("audit", -1, wrapper(SET))
    ),
    "Offsets": offsets("orders", -2, 1, 5),
}
ANSWERS = {
    "Fetch": fetched(SET),
    "MultiFetch": multifetched((0, SET), (0, b"")),
    "Offsets": listed([40, 0]),
}


def asked(talk: Conversation, *frames: bytes) -> Conversation:
    return talk.client(*[sized(frame) for frame in frames])


def answered(talk: Conversation, *frames: bytes) -> Conversation:
    return talk.broker(*[sized(frame) for frame in frames])


def shortly(found: Found) -> list[tuple[Any, ...]]:
    return found.columns("api", "outcome", "error", "decode_status")


def protocols(found: Found) -> list[str]:
    return found.column("protocol", "connections")


def whole_talk() -> Conversation:
    talk = conversation()
    for name, frame in REQUESTS.items():
        talk = asked(talk, frame)
        if name in ANSWERS:
            talk = answered(talk, ANSWERS[name])
    return talk


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_is_recognised(name: str) -> None:
    found = found_in(asked(conversation(), REQUESTS[name]))
    assert protocols(found) == ["kafka-0.7"]
    assert found.column("api") == [name]
    assert found.tables["problems"] == []


def test_an_exchange_of_each_kind_has_its_row() -> None:
    found = found_in(whole_talk())
    assert found.columns("api_key", "api", "outcome", "record_count", "error_code") == [
        (0, "Produce", "no_response_expected", 2, None),
        (1, "Fetch", "answered", 2, 0),
        (2, "MultiFetch", "answered", 2, 0),
        (3, "MultiProduce", "no_response_expected", 2, None),
        (4, "Offsets", "answered", None, 0),
    ]
    assert set(found.columns("api_version", "correlation_id", "client_id")) == {(None,) * 3}
    assert found.columns("fetch_class", "topic_count", "partition_count", "decode_status") == [
        (None, 1, 1, "ok"),
        ("data", 1, 1, "ok"),
        ("data", 2, 2, "ok"),
        (None, 2, 2, "ok"),
        (None, 1, 1, "ok"),
    ]
    assert found.tables["errors"] == found.tables["problems"] == []


def test_partitions_batches_and_records_are_placed_by_the_offset_asked_for() -> None:
    found = found_in(whole_talk(), has_payload=True)
    assert found.columns(
        "topic", "partition", "fetch_offset", "base_offset", "record_bytes", table="partitions"
    ) == [
        ("orders", 0, None, None, 26),
        ("orders", 0, 0, None, 26),
        ("orders", 0, 5, None, 26),
        ("audit", 1, 0, None, 0),
        ("orders", 0, None, None, 26),
        ("audit", -1, None, None, len(wrapper(SET))),
        ("orders", 1, None, 40, None),
    ]
    packed = len(wrapper(SET))
    columns = ("codec", "base_offset", "last_offset", "record_count", "timestamp_type")
    assert found.columns(*columns, table="batches") == [
        ("none", 0, 26, 2, None),
        ("none", 0, 26, 2, None),
        ("none", 5, 31, 2, None),
        ("none", 0, 26, 2, None),
        ("gzip", 0, packed, 2, None),
    ]
    assert found.columns("offset", "value", "key_size", "time", table="records")[2:8] == [
        (13, b"one", None, None),
        (26, b"two", None, None),
        (18, b"one", None, None),
        (31, b"two", None, None),
        (13, b"one", None, None),
        (26, b"two", None, None),
    ]
    assert found.column("offset", "records")[8:] == [packed, packed]


ERRORS = {
    -1: "Unknown",
    1: "OffsetOutOfRange",
    2: "InvalidMessage",
    3: "WrongPartition",
    4: "InvalidFetchSize",
    77: "error-77",
}


@pytest.mark.parametrize("code", ERRORS)
def test_errors_have_the_names_of_0_7(code: int) -> None:
    found = found_in(answered(asked(conversation(), REQUESTS["Fetch"]), fetched(error=code)))
    assert found.columns("error_code", "error", "error_count", "fetch_class") == [
        (code, ERRORS[code], 1, "error")
    ]
    columns = ("path", "code", "name", "is_retriable", "topic", "partition")
    expected = ("error_code", code, ERRORS[code], False, "orders", 0)
    assert found.columns(*columns, table="errors") == [expected]
    assert found.columns("error_code", "error", table="partitions") == [(code, ERRORS[code])]


def test_each_set_of_a_multifetch_has_its_own_error() -> None:
    talk = asked(conversation(), REQUESTS["MultiFetch"])
    found = found_in(answered(talk, multifetched((0, SET), (1, b""))))
    assert shortly(found) == [("MultiFetch", "answered", "OffsetOutOfRange", "ok")]
    assert found.columns("path", "topic", "partition", table="errors") == [
        ("responses[].error_code", "audit", 1)
    ]
    assert found.columns("topic", "error_code", "record_count", table="partitions") == [
        ("orders", 0, 2),
        ("audit", 1, 0),
    ]


def test_codes_of_0_7_and_of_later_kafka_do_not_mix() -> None:
    old = answered(asked(conversation(), REQUESTS["Fetch"]), fetched(error=3))
    new = old.close().port_reuse()
    new = new.client(request("Heartbeat", 0, 7)).broker(response("Heartbeat", 0, 7, error_code=3))
    found = found_in(new)
    assert protocols(found) == ["kafka-0.7", "kafka"]
    assert found.columns("api", "error_code", "error") == [
        ("Fetch", 3, "WrongPartition"),
        ("Heartbeat", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert found.columns("name", "is_retriable", table="errors") == [
        ("WrongPartition", False),
        ("UNKNOWN_TOPIC_OR_PARTITION", True),
    ]


def test_responses_belong_to_the_oldest_request_that_gets_one() -> None:
    talk = asked(
        conversation(),
        fetch("a", 0),
        produce("b", SET),
        offsets("c"),
        multiproduce(produce_entry("d", 0, SET)),
        fetch("e", 9),
    )
    found = found_in(answered(talk, fetched(SET), listed([3]), fetched(error=1)))
    assert shortly(found) == [
        ("Produce", "no_response_expected", None, "ok"),
        ("MultiProduce", "no_response_expected", None, "ok"),
        ("Fetch", "answered", None, "ok"),
        ("Offsets", "answered", None, "ok"),
        ("Fetch", "answered", "OffsetOutOfRange", "ok"),
    ]
    assert found.column("topic", "partitions") == ["b", "d", "a", "c", "e"]


def test_requests_without_response_are_unanswered() -> None:
    found = found_in(asked(conversation(), REQUESTS["Fetch"]).close())
    assert shortly(found) == [("Fetch", "unanswered", None, "ok")]


def test_a_lost_response_does_not_shift_those_after_it() -> None:
    talk = asked(conversation(has_acks=False), fetch("a", 0))
    talk = answered(talk, fetched(message(b"lost")))
    for topic in "bcd":
        talk = answered(asked(talk, fetch(topic, 0)), fetched(message(topic.encode())))
    found = found_in(talk.lose(5), has_payload=True)
    assert found.columns("api", "outcome") == [
        ("Fetch", None),
        *[("Fetch", "answered")] * 3,
    ]
    by_exchange = dict(found.columns("exchange_id", "topic", table="partitions"))
    said = found.columns("exchange_id", "value", table="records")
    assert [(by_exchange[exchange], value) for exchange, value in said] == [
        ("b", b"b"),
        ("c", b"c"),
        ("d", b"d"),
    ]


def test_after_loss_a_response_must_fit_the_request() -> None:
    talk = asked(conversation(has_acks=False), fetch("a", 0))
    talk = answered(talk, fetched(message(b"lost")))
    talk = asked(talk, offsets("b"), fetch("c", 0))
    talk = answered(talk, listed([7]), fetched(message(b"c")))
    found = found_in(talk.lose(5))
    assert shortly(found) == [
        ("Fetch", None, None, "ok"),
        ("Offsets", "answered", None, "ok"),
        ("Fetch", "answered", None, "ok"),
    ]


def test_a_lost_request_leaves_an_orphan() -> None:
    talk = answered(asked(conversation(has_acks=False), fetch("a", 0)), fetched(SET))
    talk = answered(asked(talk, fetch("lost", 0)), fetched(SET))
    talk = answered(asked(talk, fetch("c", 0)), fetched(SET))
    found = found_in(talk.lose(6))
    assert sorted(found.columns("api", "outcome", "decode_status"), key=str) == [
        ("Fetch", "answered", "ok"),
        ("Fetch", "answered", "ok"),
        (None, "orphan", "no-request"),
    ]
    assert found.column("topic", "partitions") == ["a", "c"]


def test_a_capture_that_starts_late_is_recognised_at_the_first_request() -> None:
    found = found_in(whole_talk().start_late(7))
    assert protocols(found) == ["kafka-0.7"]
    assert found.column("api")[-3:] == ["MultiFetch", "MultiProduce", "Offsets"]


@pytest.mark.parametrize("size", [1, 3, 7, 30])
def test_it_does_not_matter_how_the_bytes_are_delivered(size: int) -> None:
    columns = ("api", "outcome", "record_count", "error_code", "decode_status")
    whole = found_in(whole_talk())
    for talk in (
        whole_talk().split(size),
        whole_talk().double(),
        whole_talk().split(size).reorder(),
    ):
        found = found_in(talk)
        assert found.columns(*columns) == whole.columns(*columns)
        for table in ("partitions", "batches", "records"):
            there = [list(row.values())[3:] for row in found.tables[table]]
            assert there == [list(row.values())[3:] for row in whole.tables[table]]


def test_a_request_given_after_its_response_is_answered_by_it() -> None:
    talk = answered(asked(conversation(has_acks=False), fetch("a", 0)), fetched(SET))
    talk = answered(asked(talk, fetch("late", 5)), fetched(SET))
    # The second request is the last in the file, with its own time.
    found = found_in(talk.repeat(6, gap_ns=-15_000).lose(6))
    assert found.columns("outcome") == [("answered",), ("answered",)]
    assert found.column("topic", "partitions") == ["a", "late"]


def test_responses_that_wait_take_limited_memory() -> None:
    talk = answered(asked(conversation(), fetch("a", 0)), fetched(SET))
    memory_budget = MemoryBudget(Limits(waiting_bytes_in_all=2 * FRAME_COST + 100))
    found = found_in(answered(talk, *[fetched(SET)] * 6), Exchanges(memory_budget=memory_budget))
    assert memory_budget.frame_bytes == 0
    assert found.column("kind", "problems") == ["early-limit"]
    assert found.column("outcome") == ["answered"] + ["orphan"] * 6
    order = found.column("exchange_id")
    assert order == sorted(order)


def test_responses_that_no_request_comes_for_are_limited() -> None:
    talk = answered(asked(conversation(), fetch("a", 0)), fetched(SET))
    found = found_in(answered(talk, *[fetched(SET)] * (Limits().early_responses + 5)))
    assert found.column("outcome") == ["answered"] + ["orphan"] * (Limits().early_responses + 5)


def test_more_requests_than_the_limit_are_let_go() -> None:
    talk = asked(conversation(), *[fetch("a", at) for at in range(5)])
    found = found_in(talk, Exchanges(pending_limit=3))
    assert found.column("outcome") == ["unanswered"] * 5
    assert found.column("kind", "problems") == ["pending-limit"] * 2


def test_truncated_frame_keeps_its_captured_bytes() -> None:
    talk = answered(asked(conversation(), fetch("orders", 70)), fetched(SET * 20))
    found = found_in(talk.cut(30))
    assert found.columns("api", "outcome", "decode_status") == [("Fetch", "answered", "damaged")]
    assert found.columns("topic", "fetch_offset", "record_bytes", table="partitions") == [
        ("orders", 70, 520)
    ]
    assert found.tables["problems"] == []


@pytest.mark.parametrize("name", ["Produce", "MultiProduce"])
def test_a_cut_first_request_is_recognised(name: str) -> None:
    found = found_in(asked(conversation(), REQUESTS[name]).cut(24))
    assert protocols(found) == ["kafka-0.7"]
    assert found.columns("api", "decode_status") == [(name, "damaged")]


def test_a_body_that_does_not_decode_costs_its_details_only() -> None:
    talk = asked(conversation(), fetch("a", 0), b"\x00\x01\x00\x05ab", b"\x00\x09")
    found = found_in(answered(talk, fetched(SET), fetched(SET)))
    assert found.columns("api", "outcome", "decode_status") == [
        ("Fetch", "answered", "ok"),
        ("Fetch", "answered", "request"),
    ]
    assert found.column("kind", "problems") == ["undecodable-request", "bad-request-header"]


def test_corrupt_messages_are_reported() -> None:
    bad = struct.pack(">ib", 9, 5) + bytes(8)
    found = found_in(answered(asked(conversation(), fetch("a", 0)), fetched(SET + bad)))
    assert found.columns("kind", "message", table="problems") == [
        ("corrupt-records", "0.7 Fetch response: partition 0: unknown magic 5, byte 28 of 41")
    ]
    assert found.column("record_count") == [2]


def test_a_fetch_into_which_not_one_message_fits_is_no_error() -> None:
    cut = message(b"too large for the fetch")[:20]
    found = found_in(answered(asked(conversation(), fetch("a", 0, max_size=20)), fetched(cut)))
    assert found.columns("record_count", "record_bytes", "fetch_class", "decode_status") == [
        (0, 20, "data", "ok")
    ]
    assert '"message_set": [{"partial_size": 20}]' in found.column("response", "bodies")[0]
    assert found.tables["problems"] == []


def test_a_produce_that_fails_ends_the_connection() -> None:
    found = found_in(asked(conversation(), REQUESTS["Produce"]).reset(is_client=False))
    assert shortly(found) == [("Produce", "no_response_expected", None, "ok")]
    assert found.column("rst_by", "connections") == ["broker"]


def test_a_topic_with_its_size_in_characters_keeps_its_row() -> None:
    # 0.7 wrote the number of characters; outside ASCII there are more bytes than that.
    topic = "caf\u00e9".encode()
    frame = struct.pack(">hh", 1, 4) + topic + struct.pack(">iqi", 0, 0, 99)
    talk = answered(asked(conversation(), fetch("a", 0)), fetched(SET))
    found = found_in(answered(asked(talk, frame), fetched(SET)))
    assert shortly(found)[1] == ("Fetch", "answered", None, "leftover")
    assert found.column("kind", "problems") == ["leftover-request"]


def test_a_connection_can_be_declared_not_to_be_0_7() -> None:
    found = found_in(whole_talk(), Exchanges(dialect=KAFKA))
    assert "kafka-0.7" not in protocols(found)
    assert all(status != "ok" for status in found.column("decode_status"))


def test_0_7_can_be_forced_where_it_is_not_recognised() -> None:
    odd = fetch("a topic/with signs", 0)
    talk = answered(asked(conversation(), odd), fetched(SET))
    assert protocols(found_in(talk)) != ["kafka-0.7"]
    found = found_in(talk, Exchanges(dialect=KAFKA_07))
    assert protocols(found) == ["kafka-0.7"]
    assert found.columns("api", "outcome", "record_count") == [("Fetch", "answered", 2)]


def test_the_recorded_captures_are_not_0_7() -> None:
    captures = sorted(CAPTURES.glob("*.pcapng"))
    assert captures
    for capture in captures:
        if capture.name.startswith("kafka-0.7"):
            continue
        forced, free = (
            [batch for _, batch in Run(capture, Options(tables=("exchanges",), protocol=protocol))]
            for protocol in ("kafka", "auto")
        )
        assert forced == free


KEYS = st.integers(0, 4)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=300)
def test_requests_of_later_kafka_are_never_taken_for_0_7(data: st.DataObject) -> None:
    key = data.draw(KEYS)
    version = data.draw(st.integers(0, APIS[key].highest))
    correlation = data.draw(st.integers(-(1 << 31), (1 << 31) - 1))
    client = data.draw(st.text("abcXYZ019._- é", max_size=9) | st.none())
    frame = request(key, version, correlation, client)
    found = found_in(conversation().client(frame))
    assert protocols(found) == ["kafka"]


TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=40)


@pytest.mark.slow
@given(TOPICS, st.integers(-1, 500), st.integers(0, 1 << 62), st.integers(1, 1 << 30))
def test_requests_of_0_7_are_always_recognised(
    topic: str, partition: int, offset: int, size: int
) -> None:
    entry = fetch_entry(topic, partition, offset, size)
    frames = [
        fetch(topic, offset, partition, size),
        offsets(topic, -1, partition),
        produce(topic, SET, partition),
        multifetch(entry, entry),
        multiproduce(produce_entry(topic, partition, SET)),
    ]
    for frame in frames:
        assert is_request_07(frame, len(frame))
        assert not is_request_07(frame + b"\0", len(frame) + 1)
        assert not is_request_07(frame[:-1], len(frame) - 1)
        found = found_in(asked(conversation(), frame))
        assert protocols(found) == ["kafka-0.7"]


@given(st.binary(max_size=60), st.integers(-5, 100))
def test_recognition_takes_any_bytes(data: bytes, size: int) -> None:
    assert is_request_07(data, size) in (True, False)


FRAMES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([*REQUESTS.values(), *ANSWERS.values()]),
    st.builds(
        lambda frame, at, byte: frame[: at % len(frame)] + bytes([byte]) + frame[at % len(frame) :],
        st.sampled_from([*REQUESTS.values(), *ANSWERS.values()]),
        st.integers(0, 100),
        st.integers(0, 255),
    ),
)


@pytest.mark.parametrize("dialect", [1, 2, 3])
@given(st.lists(st.tuples(st.booleans(), FRAMES), max_size=12))
def test_any_frames_give_rows_or_problems(dialect: int, said: list[tuple[bool, bytes]]) -> None:
    talk = conversation()
    for is_client, frame in said:
        talk = asked(talk, frame) if is_client else answered(talk, frame)
    found = found_in(talk, Exchanges(dialect=dialect))
    sizes = [row["request_size"] or 0 for row in found.rows]
    assert sum(sizes) <= sum(len(frame) for is_client, frame in said if is_client)


def test_crc_of_a_bad_payload_is_reported(tmp_path: Path) -> None:
    bad = message(b"bad", crc=zlib.crc32(b"bad") ^ 1)
    talk = answered(
        asked(conversation(), fetch("a", 0)), fetched(SET + wrapper(SET) + bad + wrapper(bad))
    )
    capture = tmp_path / "a.pcap"
    capture.write_bytes(talk.pcap())
    options = Options(tables=("batches",), verify_crc=True)
    (batch,) = [batch for _, batch in Run(capture, options)]
    assert batch["crc_ok"].to_pylist() == [True, True, False, False]
