"""In any delivery, the same bytes come out; missing ones are reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.packets.segment import Segment
from kdissect.streams.connections import Streams
from tests.conversation import DELIVERIES, Conversation, Delivery, conversation, deliveries
from tests.streams.reading import Reading

MESSAGES = st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=60)), max_size=8)
ISNS = st.sampled_from([0, 1000, 2**31 - 20, 2**32 - 1, 2**32 - 30]) | st.integers(0, 2**32 - 1)


def say(talk: Conversation, messages: list[tuple[bool, bytes]]) -> Conversation:
    for is_client, message in messages:
        talk = talk.client(message) if is_client else talk.broker(message)
    return talk


@pytest.mark.parametrize("name", DELIVERIES)
def test_every_delivery_gives_the_bytes_that_were_sent(name: str) -> None:
    talk = conversation(client_isn=2**32 - 100)
    for number in range(6):
        talk = talk.client(bytes([number]) * 83).broker(bytes([number + 100]) * 59)
    reading = Reading(DELIVERIES[name](talk.close()).segments())
    assert reading.both() == (talk.client_bytes, talk.broker_bytes)
    assert reading.kinds == []
    assert reading.ends == [(1, "fin")]


@given(MESSAGES, ISNS, ISNS, deliveries(), st.booleans())
def test_any_delivery_gives_the_bytes_that_were_sent(
    messages: list[tuple[bool, bytes]],
    client_isn: int,
    broker_isn: int,
    delivery: Delivery,
    has_acks: bool,
) -> None:
    talk = say(conversation(client_isn, broker_isn, has_acks), messages)
    reading = Reading(delivery(talk.close()).segments())
    assert reading.both() == (talk.client_bytes, talk.broker_bytes)
    assert reading.kinds == []
    assert reading.ends == [(1, "fin")]


@given(MESSAGES, deliveries(), st.data())
def test_where_packets_are_lost_gaps_say_so_and_the_rest_is_right(
    messages: list[tuple[bool, bytes]], delivery: Delivery, data: st.DataObject
) -> None:
    talk = say(conversation(), messages)
    shown = delivery(talk)
    lost = data.draw(st.sets(st.integers(4, max(4, len(shown.packets_sent)))))
    lost &= set(range(4, len(shown.packets_sent) + 1))
    reading = Reading(shown.lose(*lost).segments())
    for direction, sent in enumerate((talk.client_bytes, talk.broker_bytes)):
        heard = reading.heard(direction)
        assert len(heard.text) <= len(sent)
        assert all(
            got == was or got == ord("_") for got, was in zip(heard.text, sent, strict=False)
        )


SEGMENTS = st.builds(
    lambda *fields: fields,
    st.booleans(),
    st.sampled_from([0, 100, 2**32 - 5]) | st.integers(0, 2**32 - 1),
    st.integers(-50, 120),
    st.sampled_from([0, 100]) | st.integers(0, 2**32 - 1),
    st.integers(0, 63),
    st.sampled_from([0, 1, 501]),
    st.binary(max_size=40),
    st.integers(0, 20),
    st.sampled_from([0, 1000, 10**7, 5 * 10**9, 10**12, -(10**6), -(10**12)]),
)
"""is_client, sequence and an offset to it, acknowledgment, flags, window, payload, cut, time."""


def make_segments(
    fields: list[tuple[bool, int, int, int, int, int, bytes, int, int]],
) -> list[Segment]:
    talk = conversation().client(b"x").broker(b"y").segments()
    flows = {True: talk[0].flow, False: talk[1].flow}
    made = []
    now = 0
    for number, one in enumerate(fields, 1):
        is_client, sequence, offset, acknowledgment, flags, window, payload, cut, later = one
        # Packets that are captured twice share it.
        ip_id = number // 2
        now += later
        made.append(
            Segment(
                number, number, 0, now, flows[is_client], (sequence + offset) % 2**32,
                acknowledgment, flags, window, bytes(20) + payload, 20, 20 + len(payload),
                len(payload) + cut, 0, ip_id,
            )
        )  # fmt: skip
    return made


@given(st.lists(SEGMENTS, max_size=40))
def test_any_segments_give_events_that_keep_the_laws(
    fields: list[tuple[bool, int, int, int, int, int, bytes, int, int]],
) -> None:
    Reading(make_segments(fields))


@given(st.lists(SEGMENTS, max_size=40), st.integers(0, 2000), st.integers(0, 2000))
def test_buffered_bytes_never_exceed_the_limits(
    fields: list[tuple[bool, int, int, int, int, int, bytes, int, int]], each: int, in_all: int
) -> None:
    streams = Streams(max_held=each, max_held_in_all=in_all, max_connections=1)
    events = []
    for segment in make_segments(fields):
        events += streams.feed(segment)
        assert streams.held_cost <= min(in_all, 2 * each)
    events += streams.finish()
    assert streams.held_cost == 0
