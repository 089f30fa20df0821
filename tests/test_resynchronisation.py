"""Frames found again: in mid-segment, behind holes, among lookalikes."""

import random
from collections import Counter

import pytest

from kdissect.exchanges.pairing import Exchanges
from kdissect.framing.frame_search import WINDOW
from tests.conversation import Conversation, conversation
from tests.exchange_builders import Found, found_in, request, response, sized
from tests.test_exchanges import beaten, fetch, fetched, heartbeat, outcomes, produce, produced

MSS = 1448


def pipelined(count: int, value_size: int) -> Conversation:
    """Produce requests sent without waiting, then all their answers; in segments of MSS."""
    source = random.Random(count)
    sent = b"".join(produce(number, source.randbytes(value_size)) for number in range(1, count + 1))
    answers = b"".join(produced(number) for number in range(1, count + 1))
    return conversation(has_acks=False).client(sent).broker(answers).split(MSS)


def answered(found: Found) -> list[int]:
    return [number for number, outcome in outcomes(found) if outcome == "answered"]


def kinds(found: Found) -> Counter[str]:
    return Counter(row["kind"] for row in found.tables["problems"])


@pytest.mark.parametrize("start", [3, 4, 5, 7, 10, 20])
def test_a_start_inside_a_request_finds_the_next_one_wherever_it_starts(start: int) -> None:
    found = found_in(pipelined(20, 3000).start_late(start))
    size = len(produce(1, bytes(3000)))
    lost = -(-(start - 3) * MSS // size)
    assert answered(found) == list(range(lost + 1, 21))
    assert kinds(found) <= Counter({"mid-stream": 2})


def test_the_bytes_skipped_before_the_first_frame_are_reported() -> None:
    found = found_in(pipelined(20, 3000).start_late(4))
    size = len(produce(1, bytes(3000)))
    (row,) = [row for row in found.tables["problems"] if row["bytes"] == size - MSS]
    assert row["kind"] == "mid-stream"


@pytest.mark.slow
def test_requests_larger_than_the_search_buffer_are_found() -> None:
    found = found_in(pipelined(3, WINDOW + 5000).start_late(4))
    assert answered(found) == [2, 3]


@pytest.mark.parametrize("lost", range(4, 40, 5))
def test_one_lost_segment_costs_at_most_the_requests_it_held(lost: int) -> None:
    found = found_in(pipelined(20, 3000).lose(lost))
    size = len(produce(1, bytes(3000)))
    first, last = (lost - 4) * MSS // size + 1, ((lost - 3) * MSS - 1) // size + 1
    assert set(range(1, 21)) - set(answered(found)) <= set(range(first, last + 1))
    assert {number for number, _ in outcomes(found)} <= set(range(1, 21))


def test_kafka_traffic_inside_records_is_not_taken_for_the_connections() -> None:
    inner = b"".join(request("Heartbeat", 4, number, group_id="inner") for number in range(90, 99))
    padding = bytes(range(256)) * 40
    sent = [produce(number, padding + inner + padding) for number in range(1, 9)]
    answers = [produced(number) for number in range(1, 9)]
    talk = conversation(has_acks=False).client(b"".join(sent)).broker(b"".join(answers)).split(MSS)
    for start in range(3, 40):
        found = found_in(talk.start_late(start), Exchanges(ports=frozenset()))
        assert set(found.column("api")) <= {"Produce", None}, start
        assert max(answered(found), default=8) == 8


def test_answers_inside_records_are_not_taken_for_the_connections() -> None:
    inner = b"".join(beaten(number) for number in range(1, 9)) + bytes(3 * MSS)
    talk = conversation(has_acks=False).client(*(fetch(number, {0: 5}) for number in range(1, 9)))
    body = [
        fetched(n, {0: {"records": request("Heartbeat", 4, 1, body=inner)}}) for n in range(1, 9)
    ]
    talk = talk.broker(b"".join(body)).split(MSS)
    for lost in range(12, 24):
        found = found_in(talk.lose(lost))
        sizes = {row["response_size"] for row in found.rows if row["outcome"] == "answered"}
        assert sizes <= {len(body[0]) - 4}
        assert len(answered(found)) >= 6


@pytest.mark.parametrize("snaplen", [96 - 66, 128 - 66, 256 - 66])
def test_packets_cut_short_still_tell_of_every_exchange(snaplen: int) -> None:
    talk = conversation(has_acks=False)
    for number in range(1, 6):
        talk = talk.client(produce(number, b"x" * 5000)).broker(produced(number))
        talk = talk.client(heartbeat(100 + number)).broker(beaten(100 + number))
    whole = found_in(talk.split(MSS))
    for start in (0, 3):
        found = found_in(talk.split(MSS).start_late(start).cut(snaplen))
        names = ("api", "api_version", "client_id", "correlation_id", "outcome", "request_size",
                 "response_size", "latency_ns")  # fmt: skip
        assert found.columns(*names) == whole.columns(*names)


@pytest.mark.parametrize("size", [12, 15, 20])
def test_a_few_bytes_of_each_packet_are_enough_from_the_start_on(size: int) -> None:
    talk = conversation(has_acks=False)
    for number in range(1, 4):
        talk = talk.client(produce(number, b"x" * 3000)).broker(produced(number))
    found = found_in(talk.split(MSS).cut(size))
    assert found.columns("api", "correlation_id", "outcome") == [
        ("Produce", number, "answered") for number in range(1, 4)
    ]


def test_a_hole_of_known_length_does_not_lose_the_position() -> None:
    found = found_in(pipelined(3, 10_000).lose(5))
    assert answered(found) == [1, 2, 3]
    assert kinds(found) == Counter()


def test_zeros_with_ids_of_requests_among_them_are_no_answers() -> None:
    talk = conversation(has_acks=False).client(*(heartbeat(number) for number in range(1, 9)))
    zeros = b"".join(number.to_bytes(8, "big") + bytes(24) for number in range(1, 9)) * 8
    talk = talk.broker(sized(bytes(4) + zeros) + b"".join(beaten(number) for number in range(1, 9)))
    found = found_in(talk.split(100).lose(12))
    for row in found.rows:
        assert row["outcome"] != "answered" or row["response_size"] == len(beaten(1)) - 4


def test_bytes_that_are_never_found_to_be_frames_are_counted() -> None:
    source = random.Random(7)
    talk = conversation(has_acks=False).client(source.randbytes(WINDOW + 5000))
    found = found_in(talk.start_late(4))
    assert found.rows == []
    assert [(row["kind"], row["bytes"]) for row in found.tables["problems"]] == [
        ("no-resync", WINDOW + 5000 - MSS)
    ]


def test_requests_at_the_captured_end_of_a_connection_are_found() -> None:
    # One request that ends nowhere near its segment's end, and nothing behind it.
    tail = produce(1, b"x" * 4000)[-700:]
    talk = conversation(has_acks=False).client(bytes(10), tail + heartbeat(2) + heartbeat(3)[:9])
    found = found_in(talk.broker(beaten(2)).start_late(4))
    assert outcomes(found) == [(2, "answered")]
    assert response("Heartbeat", 4, 2) == beaten(2)
