"""Assignment of segments to connections, and their beginning and end."""

from dataclasses import replace

import pytest

from kdissect.packets.segment import Segment
from kdissect.streams.connections import LINGER_NS, Streams, reverse_flow
from kdissect.streams.events import ACCEPTER, OPENER, End, Event, Gap
from tests.conversation import (
    BROKER_PORT,
    CLIENT_PORT,
    START_NS,
    Conversation,
    conversation,
)
from tests.packets.builders import BROKER, CLIENT, make_flow
from tests.streams.reading import Reading

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
CLIENT_FLOW = make_flow(CLIENT, BROKER, CLIENT_PORT, BROKER_PORT)
FAR = 1 << 30
TALK = conversation().client(b"abc").broker(b"def")


def read(talk: Conversation, streams: Streams | None = None) -> Reading:
    return Reading(talk.segments(), streams)


def ends(events: list[Event]) -> list[tuple[int, str]]:
    return [(event.connection.id, event.reason) for event in events if isinstance(event, End)]


def syns(count: int, gap_ns: int = 0) -> list[Segment]:
    """A SYN each of as many connections."""
    return [
        Segment(
            number, number, 0, number * gap_ns,
            make_flow(CLIENT, BROKER, 10_000 + number, 9092), 1, 0, 2, 501, bytes(20), 20, 20, 0, 0,
            number,
        )
        for number in range(1, count + 1)
    ]  # fmt: skip


def test_the_reverse_of_a_flow_is_the_other_direction() -> None:
    assert reverse_flow(CLIENT_FLOW) == make_flow(BROKER, CLIENT, BROKER_PORT, CLIENT_PORT)
    there, back = ("2001:db8::1", "2001:db8::2")
    assert reverse_flow(make_flow(there, back, 1, 2)) == make_flow(back, there, 2, 1)


def test_a_connection_is_known_by_its_first_packet_and_its_opener() -> None:
    connection = read(conversation().client(b"hello").close()).connection
    assert (connection.id, connection.capture, connection.first_packet) == (1, 0, 1)
    assert connection.flow == CLIENT_FLOW
    assert (connection.first_time_ns, connection.last_time_ns) == (START_NS, START_NS + 70_000)
    assert connection.syn_seen
    assert connection.handshake_rtt_ns == 20_000
    assert connection.closed_by == "fin"
    assert [counts.packets for counts in connection.counts] == [5, 3]
    assert [counts.fin_seen for counts in connection.counts] == [True, True]
    assert [counts.rst_seen for counts in connection.counts] == [False, False]


def test_without_syn_the_sender_of_the_first_segment_is_the_opener() -> None:
    reading = read(conversation().client(b"ab").broker(b"cd").start_late(4))
    assert reading.connection.flow == reverse_flow(CLIENT_FLOW)
    assert not reading.connection.syn_seen
    assert reading.connection.handshake_rtt_ns == -1
    assert reading.both() == (b"cd", b"")


def test_the_receiver_of_a_syn_ack_is_the_opener() -> None:
    reading = read(conversation().client(b"ab").broker(b"cd").lose(1))
    assert reading.connection.flow == CLIENT_FLOW
    assert reading.connection.syn_seen
    assert reading.both() == (b"ab", b"cd")


def test_bytes_before_the_syn_ack_is_seen_have_their_positions_by_the_handshakes_ack() -> None:
    talk = conversation(has_acks=False).broker(b"lost", b"seen").lose(2, 4)
    assert read(talk).heard(1).gaps == [(0, 4, "lost")]


def test_a_later_acknowledgment_does_not_set_the_start_after_a_lost_syn() -> None:
    # Without SYN-ACK and the first ACK; the last acknowledges bytes that are captured after it.
    talk = conversation(has_acks=False).client(b"ask").broker(b"said").ack(is_client=True)
    last = len(talk.segments())
    reading = read(talk.delay(last - 1).lose(2, 3))
    assert reading.both() == (b"ask", b"said")


def test_data_in_the_syn_is_the_first_of_the_stream() -> None:
    segments = conversation().client(b"abc").segments()
    segments[0].data, segments[0].start, segments[0].end = b"early", 0, 5
    segments[0].payload_length = 5
    segments[3].sequence += 5
    assert Reading(segments).both() == (b"earlyabc", b"")


def test_a_syn_sent_again_begins_nothing_new() -> None:
    talk = conversation().client(b"abc")
    again = talk._with([replace(talk.packets_sent[0], ip_id=99), *talk.packets_sent])
    reading = read(again)
    assert reading.both() == (b"abc", b"")
    assert reading.connection.tcp_events == 1
    assert reading.connection.handshake_rtt_ns == 20_000


def test_both_sides_may_open_at_once() -> None:
    talk = conversation().client(b"abc").broker(b"def")
    segments = talk.segments()
    segments[1].flags = 2
    reading = Reading(segments)
    assert reading.both() == (b"abc", b"def")
    assert reading.connection.flow == CLIENT_FLOW


def test_a_syn_captured_after_the_first_data_belongs_to_it() -> None:
    talk = conversation().client(b"abc").broker(b"def")
    packets = talk.packets_sent
    shown = talk._with([packets[3], packets[0], packets[1], *packets[4:]])
    reading = read(shown)
    assert reading.both() == (b"abc", b"def")
    assert reading.connection.syn_seen


def test_after_fin_late_copies_are_still_of_the_connection() -> None:
    talk = conversation().client(b"abc").close().repeat(4, gap_ns=LINGER_NS - 1)
    reading = read(talk)
    assert reading.events_before_finish == 1
    assert reading.ends == [(1, "fin")]
    assert reading.connection.tcp_events == 1


def test_a_closed_connection_ends_when_it_has_been_silent_for_a_while() -> None:
    talk = conversation().client(b"abc").close()
    reading = read(talk.port_reuse(opened=False).ack(True, gap_ns=LINGER_NS))
    assert reading.ends == [(1, "fin"), (9, "capture-end")]


def test_fins_that_come_before_the_data_close_when_the_data_is_there() -> None:
    talk = conversation(has_acks=False).client(b"abc").broker(b"def").close().delay(4).delay(4)
    reading = read(talk)
    assert reading.both() == (b"abc", b"def")
    assert reading.ends == [(1, "fin")]


def test_one_fin_does_not_close() -> None:
    talk = conversation().client(b"abc").close()
    assert read(talk.lose(7, 8)).ends == [(1, "capture-end")]


def test_a_reset_closes() -> None:
    reading = read(conversation().client(b"abc").reset(is_client=False))
    assert reading.ends == [(1, "rst")]
    assert [counts.rst_seen for counts in reading.connection.counts] == [False, True]
    assert reading.connection.counts[1].zero_windows == 0


@pytest.mark.parametrize(
    ("talk", "direction"),
    [
        (TALK.close(), OPENER),
        (TALK.close(is_client=False), ACCEPTER),
        (TALK.reset(is_client=False), ACCEPTER),
        # Later ones change nothing: a closed side resets data that still arrives.
        (TALK.close(is_client=False).reset(), ACCEPTER),
        (TALK.close().reset(is_client=False), OPENER),
        (TALK, -1),
    ],
)
def test_sender_of_the_first_fin_or_reset_ends_the_connection(
    talk: Conversation, direction: int
) -> None:
    assert read(talk).connection.ended_by == direction


def test_data_in_flight_when_the_reset_was_sent_is_given() -> None:
    assert read(conversation().client(b"abc").reset().broker(b"def")).both() == (b"abc", b"def")


def test_the_text_in_a_reset_is_not_of_the_stream() -> None:
    segments = conversation().client(b"abc").reset().segments()
    segments[-1].data, segments[-1].start, segments[-1].end = b"no!", 0, 3
    segments[-1].payload_length = 3
    reading = Reading(segments)
    assert reading.both() == (b"abc", b"")
    assert reading.connection.counts[0].duplicate_bytes == 3


def test_a_refused_connection_has_an_end_too() -> None:
    talk = conversation()
    refused = talk._with(list(talk.packets_sent[:1])).reset(is_client=False)
    assert read(refused).ends == [(1, "rst")]


def test_another_syn_on_the_same_ports_begins_another_connection() -> None:
    talk = conversation().client(b"old").port_reuse().client(b"new")
    reading = read(talk)
    assert reading.ends == [(1, "reuse"), (6, "capture-end")]
    assert [reading.both(one) for one in reading.connections] == [(b"old", b""), (b"new", b"")]


def test_ports_are_reused_after_fin_before_the_old_connection_is_forgotten() -> None:
    reading = read(conversation().client(b"old").close().port_reuse().client(b"new"))
    assert reading.ends == [(1, "fin"), (9, "capture-end")]
    assert [reading.both(one) for one in reading.connections] == [(b"old", b""), (b"new", b"")]


def test_reuse_delivers_the_held_bytes_of_the_old_connection() -> None:
    talk = conversation(has_acks=False).client(b"lost", b"held").lose(4).port_reuse()
    reading = read(talk)
    old = reading.connections[0]
    assert reading.heard(0, old).text == b"____held"


def test_two_far_segments_in_a_row_begin_another_connection_without_syn() -> None:
    talk = conversation(has_acks=False).client(b"old").broker(b"old too")
    talk = talk.port_reuse(opened=False).client(b"new", b"newer").broker(b"reply")
    reading = read(talk)
    assert reading.ends == [(1, "reuse"), (6, "capture-end")]
    assert [reading.both(one) for one in reading.connections] == [
        (b"old", b"old too"),
        (b"newnewer", b"reply"),
    ]
    assert reading.kinds == []


def test_one_far_segment_is_reported_and_ignored() -> None:
    talk = conversation(has_acks=False).client(b"old").broker(b"old too")
    segments = talk.client(b"stray").client(b"more").segments()
    segments[5].sequence += FAR
    segments[5].acknowledgment += FAR
    segments[6].sequence -= 5
    reading = Reading(segments)
    assert reading.both() == (b"oldmore", b"old too")
    assert reading.kinds == ["out-of-window"]
    assert reading.connection.counts[0].duplicate_bytes == 5


def test_a_far_segment_and_its_copy_are_no_new_connection() -> None:
    segments = conversation(has_acks=False).client(b"abc").client(b"stray").double().segments()
    for segment in segments[8:]:
        segment.sequence += FAR
        segment.acknowledgment += FAR
    reading = Reading(segments)
    assert reading.ends == [(1, "capture-end")]
    assert reading.kinds == ["out-of-window"]
    assert reading.connection.counts[0].duplicate_packets == 4


def test_a_jump_forward_with_the_right_acknowledgment_is_a_pause_of_the_capture() -> None:
    segments = conversation(has_acks=False).broker(b"x").client(b"before", b"after").segments()
    segments[5].sequence += FAR
    reading = Reading(segments)
    assert reading.ends == [(1, "capture-end")]
    (gap,) = [event for event in reading.events if isinstance(event, Gap)]
    assert (gap.position, gap.length, gap.is_acknowledged) == (6, FAR, False)


def test_silence_ends_a_connection() -> None:
    talk = conversation().client(b"abc").ack(True, gap_ns=15 * MINUTE)
    reading = read(talk)
    assert reading.ends == [(1, "idle"), (6, "capture-end")]


def test_a_little_less_silence_does_not() -> None:
    talk = conversation().client(b"abc").ack(True, gap_ns=15 * MINUTE - 1)
    assert read(talk).ends == [(1, "capture-end")]


def test_other_connections_packets_end_the_silent_ones() -> None:
    streams = Streams(idle_ns=MINUTE)
    events = [event for segment in syns(6, gap_ns=30 * SECOND) for event in streams.feed(segment)]
    # That so much time has passed is certain when another packet confirms it.
    assert ends(events) == [(1, "idle"), (2, "idle"), (3, "idle")]
    assert ends(streams.advance(0)) == []
    later = syns(7, gap_ns=30 * SECOND)[6]
    later.time_ns -= 30 * SECOND - 1
    assert ends(streams.feed(later)) == [(4, "idle")]
    assert [connection.id for connection in streams.connections] == [5, 6, 7]


def test_a_clock_that_ran_ahead_does_not_stop_the_search_for_silent_ones() -> None:
    segments = syns(6, gap_ns=30 * SECOND)
    segments[0].time_ns = 10**18
    streams = Streams(idle_ns=MINUTE)
    events = [event for segment in segments for event in streams.feed(segment)]
    # The first one is silent since the clock is right.
    assert ends(events) == [(1, "idle"), (2, "idle"), (3, "idle")]
    assert [problem.kind for problem in streams.problems] == ["clock-step"]


def test_when_there_are_too_many_the_longest_silent_ends() -> None:
    streams = Streams(max_connections=32)
    segments = syns(33, gap_ns=1)
    events = [event for segment in segments[:32] for event in streams.feed(segment)]
    assert events == []
    events = streams.feed(segments[32])
    assert ends(events) == [(1, "limit"), (2, "limit")]
    assert [problem.kind for problem in streams.problems] == ["connection-limit"]
    assert len(streams.connections) == 31


def test_end_of_capture_closes_open_connections() -> None:
    streams = Streams()
    for segment in syns(3):
        streams.feed(segment)
    assert [connection.id for connection in streams.connections] == [1, 2, 3]
    assert ends(streams.finish()) == [(1, "capture-end"), (2, "capture-end"), (3, "capture-end")]
    assert streams.connections == []
    assert streams.finish() == []


def test_a_socket_connected_to_itself_is_a_connection() -> None:
    flow = make_flow(CLIENT, CLIENT, 9092, 9092)
    segments = conversation().client(b"abc").segments()
    for segment in segments:
        segment.flow = flow
    assert Reading(segments).ends[-1][1] == "capture-end"


def test_ipv6_connections_are_kept_apart_from_ipv4_ones() -> None:
    four = conversation().client(b"four").segments()
    six = conversation(is_v6=True).client(b"six").segments()
    for segment in six:
        segment.ordinal += 100
    mixed = [segment for pair in zip(four, six, strict=True) for segment in pair]
    reading = Reading(mixed)
    assert [reading.both(one) for one in reading.connections] == [(b"four", b""), (b"six", b"")]


def test_times_that_go_back_a_little_do_no_harm() -> None:
    segments = conversation().client(b"abc").broker(b"def").close().segments()
    for index, segment in enumerate(segments):
        segment.time_ns -= (index % 3) * 15_000
    reading = Reading(segments)
    assert reading.both() == (b"abc", b"def")
    assert reading.ends == [(1, "fin")]


def test_closed_connections_that_linger_are_not_open() -> None:
    streams = Streams()
    for segment in conversation().client(b"abc").broker(b"def").segments():
        streams.feed(segment)
    assert (streams.connection_count, streams.open_count) == (1, 1)
    streams = Streams()
    for segment in conversation().client(b"abc").broker(b"def").close().segments():
        streams.feed(segment)
    assert (streams.connection_count, streams.open_count) == (1, 0)


def test_connections_are_counted_those_of_a_socket_with_itself_too() -> None:
    streams = Streams()
    for number, segment in enumerate(syns(5), 1):
        streams.feed(segment)
        assert streams.connection_count == number == len(streams.connections)
    own = make_flow(CLIENT, CLIENT, 7, 7)
    streams.feed(Segment(9, 9, 0, 9, own, 1, 0, 2, 501, bytes(20), 20, 20, 0, 0, 9))
    assert streams.connection_count == 6 == len(streams.connections)
    streams.finish()
    assert streams.connection_count == 0 == len(streams.connections)
