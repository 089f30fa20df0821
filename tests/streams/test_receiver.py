"""One direction: duplicates, overlaps, holes and limits, case by case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import Problem
from kdissect.packets.segment import Segment
from kdissect.streams.connections import Streams
from kdissect.streams.events import ZERO_WINDOW, Chunk, Event, Gap
from kdissect.streams.reassembly_buffer import (
    MAX_PASSED,
    PIECE_COST,
    ReassemblyBudget,
    ReassemblyBuffer,
)
from tests.conversation import START_NS, Conversation, conversation
from tests.streams.reading import Reading

MS = 1_000_000
SECOND = 1_000_000_000


def read(talk: Conversation, streams: Streams | None = None) -> Reading:
    return Reading(talk.segments(), streams)


def feed(talk: Conversation, streams: Streams | None = None) -> tuple[Streams, list[Event]]:
    """Output before the end."""
    streams = streams or Streams()
    return streams, [event for segment in talk.segments() for event in streams.feed(segment)]


def texts(events: list[Event]) -> list[str]:
    """Chunks and gaps, in order, readable."""
    found = []
    for event in events:
        if isinstance(event, Chunk):
            found.append(event.data[event.start : event.end].decode())
        elif isinstance(event, Gap):
            found.append(f"gap of {event.length}")
    return found


def test_a_chunk_is_delivered_at_once_with_its_packet_number() -> None:
    _, events = feed(conversation().client(b"hello"))
    (chunk,) = events
    assert isinstance(chunk, Chunk)
    assert (chunk.direction, chunk.position, chunk.packet, chunk.ordinal) == (0, 0, 4, 4)
    assert (chunk.time_ns, chunk.capture) == (START_NS + 30_000, 0)
    assert chunk.connection.id == 1


def test_positions_go_on_where_sequence_numbers_wrap_around() -> None:
    talk = conversation(client_isn=2**32 - 4).client(b"abc", b"def", b"ghi")
    reading = read(talk)
    assert reading.both() == (b"abcdefghi", b"")
    positions = [event.position for event in reading.events if isinstance(event, Chunk)]
    assert positions == [0, 3, 6]


def test_positions_go_on_beyond_32_bits() -> None:
    streams = Streams()
    (first, *_) = conversation().client(b"x").segments()
    streams.feed(first)
    step = 1 << 30
    size = 1 << 16
    sequence = first.sequence + 1
    segment = conversation().client(b"y" * size).segments()[3]
    segment.data, segment.start, segment.end = b"y" * size, 0, size
    segment.payload_length = step
    for _ in range(5):
        segment.sequence = sequence % (1 << 32)
        events = streams.feed(segment)
        sequence += step
    assert [event.position for event in events] == [4 * step, 4 * step + size]


def test_a_retransmission_is_counted_and_not_given_again() -> None:
    reading = read(conversation().client(b"one", b"two").repeat(4).repeat(6))
    assert reading.both() == (b"onetwo", b"")
    counts = reading.connection.counts[0]
    assert (counts.retransmitted_segments, counts.duplicate_bytes) == (2, 6)
    assert (counts.payload_bytes, counts.delivered_bytes) == (12, 6)
    assert reading.connection.tcp_events == 2
    assert reading.kinds == []


def test_an_overlap_gives_only_the_new_bytes() -> None:
    talk = conversation().client(b"abcd", b"efgh").overlap(2).lose(5)
    reading = read(talk)
    assert texts(reading.events) == ["abcd", "efgh"]
    assert reading.connection.counts[0].retransmitted_segments == 1
    assert reading.connection.counts[0].duplicate_bytes == 2


def test_of_two_copies_the_first_is_kept_and_the_disagreement_told() -> None:
    reading = read(conversation().client(b"first").repeat(4, b"other"))
    assert reading.both() == (b"first", b"")
    text = "a retransmission has other bytes than the first copy, which is kept"
    assert reading.problems == [
        Problem("streams", "overlap-disagrees", text, START_NS + 50_000, 6, 5, 1, -1, 0)
    ]


def test_buffered_bytes_win_over_later_copies() -> None:
    talk = conversation(has_acks=False).client(b"ab", b"CD", b"ef")
    reading = read(talk.repeat(4, b"xxcdef").lose(4))
    assert texts(reading.events) == ["xx", "CD", "ef"]
    assert reading.kinds == ["overlap-disagrees"]


def test_disagreements_do_not_flood() -> None:
    talk = conversation().client(b"first")
    for _ in range(50):
        talk = talk.repeat(4, b"other")
    assert read(talk).kinds == ["overlap-disagrees"] * 8


def test_early_bytes_wait_for_the_hole_before_them() -> None:
    talk = conversation(has_acks=False).client(b"one", b"two", b"three")
    _, events = feed(talk.lose(4))
    assert texts(events) == []
    reading = read(talk.delay(4))
    assert texts(reading.events) == ["one", "two", "three"]
    assert [event.packet for event in reading.events[:3]] == [6, 4, 5]
    counts = reading.connection.counts[0]
    assert (counts.out_of_order_segments, counts.retransmitted_segments) == (1, 0)


def test_a_hole_is_given_up_when_it_has_been_acknowledged_for_a_while() -> None:
    talk = conversation(has_acks=False).client(b"one", b"two").ack(False).lose(4)
    assert texts(feed(talk)[1]) == []
    assert texts(feed(talk.ack(False, gap_ns=19 * MS))[1]) == []
    _, events = feed(talk.ack(False, gap_ns=20 * MS))
    assert texts(events) == ["gap of 3", "two"]
    gap = events[0]
    assert isinstance(gap, Gap)
    assert (gap.is_acknowledged, gap.is_cut, gap.position) == (True, False, 0)


def test_data_that_was_captured_after_its_acknowledgment_leaves_no_gap() -> None:
    talk = conversation(has_acks=False).client(b"one", b"two").ack(False)
    shown = talk.delay(4).ack(False, gap_ns=SECOND)
    assert texts(feed(shown)[1]) == ["one", "two"]


def test_a_lost_last_segment_is_known_by_its_acknowledgment() -> None:
    talk = conversation().client(b"one", b"two").lose(6).ack(False, gap_ns=SECOND)
    reading = read(talk)
    assert reading.events_before_finish == 2
    assert texts(reading.events) == ["one", "gap of 3"]
    assert reading.heard(0).gaps == [(3, 3, "acknowledged")]


def test_a_single_acknowledged_byte_is_taken_for_a_fin_that_was_not_captured() -> None:
    talk = conversation().client(b"one").ack(False, ahead=1).ack(False, gap_ns=SECOND, ahead=1)
    assert read(talk).both() == (b"one", b"")


def test_an_acknowledgment_that_a_later_one_takes_back_opens_no_gap() -> None:
    talk = conversation().client(b"one").ack(False, ahead=5000)
    for _ in range(4):
        talk = talk.ack(False, gap_ns=SECOND)
    assert read(talk.client(b"two")).both() == (b"onetwo", b"")


def test_an_acknowledgment_far_beyond_any_window_is_not_believed() -> None:
    talk = conversation().client(b"one")
    for _ in range(4):
        talk = talk.ack(False, gap_ns=SECOND, ahead=1 << 27)
    assert read(talk.client(b"two")).both() == (b"onetwo", b"")


def test_where_one_direction_was_captured_a_hole_is_given_up_after_half_a_minute() -> None:
    talk = conversation().client(b"one", b"two", b"three").one_way(is_client=True).lose(3)
    talk = talk.ack(True, gap_ns=29 * SECOND)
    assert texts(feed(talk)[1]) == []
    _, events = feed(talk.ack(True, gap_ns=SECOND))
    assert texts(events) == ["gap of 3", "two", "three"]


def test_a_hole_is_given_up_when_too_much_waits_behind_it() -> None:
    # A piece of 10 bytes costs 170: the sixth is one too many.
    talk = conversation(has_acks=False).client(*[b"ten bytes."] * 6).lose(4)
    streams, events = feed(talk, Streams(max_held=1000))
    assert texts(events) == []
    assert streams.held_cost == 850
    talk = conversation(has_acks=False).client(*[b"ten bytes."] * 7).lose(4)
    streams, events = feed(talk, Streams(max_held=1000))
    assert texts(events) == ["gap of 10", *["ten bytes."] * 6]
    assert [problem.kind for problem in streams.problems] == ["held-limit"]
    assert streams.held_cost == 0


def test_the_limit_on_all_connections_together_is_paid_by_the_one_that_reaches_it() -> None:
    quiet = conversation(has_acks=False).client(b"a" * 500, b"b" * 500).lose(4)
    busy = conversation(has_acks=False, is_v6=True).client(b"c" * 500, b"d" * 500).lose(4)
    streams = Streams(max_held_in_all=1000)
    assert texts(feed(quiet, streams)[1]) == []
    assert texts(feed(busy, streams)[1]) == ["gap of 500", "d" * 500]
    assert texts(streams.finish()) == ["gap of 500", "b" * 500]


def test_buffered_bytes_do_not_keep_the_capture_buffer_alive() -> None:
    segments = conversation(has_acks=False).client(b"one", b"two").lose(4).segments()
    streams = Streams()
    for segment in segments:
        streams.feed(segment)
    (chunk,) = [event for event in streams.finish() if isinstance(event, Chunk)]
    assert chunk.data == b"two"


def test_a_cut_payload_is_a_chunk_and_a_gap_and_positions_stay_right() -> None:
    reading = read(conversation().client(b"abcdef", b"ghijkl").cut(4))
    assert texts(reading.events) == ["abcd", "gap of 2", "ghij", "gap of 2"]
    assert reading.heard(0).gaps == [(4, 2, "cut"), (10, 2, "cut")]
    counts = reading.connection.counts[0]
    assert (counts.wire_bytes, counts.payload_bytes) == (12, 8)
    assert (counts.cut_bytes, counts.missing_bytes, counts.gaps) == (4, 4, 2)


def test_a_payload_cut_to_nothing_is_a_gap() -> None:
    assert texts(read(conversation().client(b"abcdef").cut(0)).events) == ["gap of 6"]


def test_cut_payloads_out_of_order_come_out_in_order() -> None:
    talk = conversation(has_acks=False).client(b"abcdef", b"ghijkl", b"mnopqr")
    reading = read(talk.cut(4).shuffle_data([2, 0, 1]))
    assert texts(reading.events) == ["abcd", "gap of 2", "ghij", "gap of 2", "mnop", "gap of 2"]
    assert reading.heard(0).gaps == [(4, 2, "cut"), (10, 2, "cut"), (16, 2, "cut")]


def test_bytes_before_the_first_ones_seen_are_reported_once_and_not_delivered() -> None:
    talk = conversation(has_acks=False).client(b"one", b"two", b"three")
    reading = read(talk.start_late(3).shuffle_data([2, 1, 0]))
    assert reading.both() == (b"three", b"")
    assert reading.connection.counts[0].duplicate_bytes == 6
    assert reading.connection.counts[0].retransmitted_segments == 0
    assert reading.kinds == ["before-start"]


@pytest.mark.parametrize("payload", [b"", b"\x00"])
def test_a_keepalive_is_no_retransmission(payload: bytes) -> None:
    reading = read(conversation().client(b"one").keepalive(True, payload).client(b"two"))
    assert reading.both() == (b"onetwo", b"")
    assert reading.connection.tcp_events % ZERO_WINDOW == 0
    assert reading.connection.counts[0].duplicate_bytes == len(payload)
    assert reading.kinds == []


def test_a_zero_window_is_counted_and_its_probes_are_no_retransmissions() -> None:
    talk = conversation(has_acks=False).client(b"one").ack(False, window=0)
    talk = talk.client(b"P").ack(False, window=0)
    probe = len(talk.packets_sent) - 1
    talk = talk.repeat(probe).ack(False, window=0).repeat(probe).ack(False)
    reading = read(talk.repeat(probe, b"Probed bytes"))
    assert reading.both() == (b"oneProbed bytes", b"")
    assert reading.connection.tcp_events % ZERO_WINDOW == 0
    assert reading.connection.counts[1].zero_windows == 3


def test_round_trips_are_measured_from_data_to_its_acknowledgment_on_each_side() -> None:
    talk = conversation(has_acks=False)
    talk = talk.client(b"request").ack(False, gap_ns=300_000)
    talk = talk.broker(b"response").ack(True, gap_ns=70_000)
    talk = talk.client(b"request").ack(False, gap_ns=200_000)
    talk = talk.broker(b"response").ack(True, gap_ns=90_000)
    assert read(talk).connection.min_rtt_ns == (70_000, 200_000)


def test_retransmitted_data_measures_no_round_trip() -> None:
    talk = conversation(has_acks=False).client(b"request").repeat(4).ack(False)
    assert read(talk).connection.min_rtt_ns == (-1, -1)


def test_everything_twice_gives_everything_once() -> None:
    talk = conversation().client(b"one").broker(b"two").close()
    reading = read(talk.double())
    assert reading.both() == (b"one", b"two")
    assert reading.connection.counts[0].duplicate_bytes == 3
    assert reading.kinds == []


def behind_a_hole(pieces: int, step: int = 2) -> tuple[Streams, list[Segment]]:
    """Bytes with holes between them, behind a hole; and segments like them for any place."""
    streams = Streams()
    talk = conversation(has_acks=False).client(b"x")
    *handshake, one = talk.segments()
    for segment in handshake:
        streams.feed(segment)

    def at(place: int, length: int, captured: int) -> Segment:
        return Segment(
            9, 9, 0, START_NS, one.flow, one.sequence + 10 + place, one.acknowledgment, one.flags,
            501, bytes(20 + captured), 20, 20 + captured, length, 0, 9,
        )  # fmt: skip

    for number in range(pieces):
        streams.feed(at(number * step, 1, 1))
    return streams, [at(0, 2 * pieces * step, captured) for captured in (0, 50)]


def test_a_segment_cut_short_fills_no_more_holes_than_it_may_pass_pieces() -> None:
    streams, (empty, short) = behind_a_hole(1_000)
    before = streams.held_cost
    streams.feed(empty)
    assert (streams.held_cost - before) // PIECE_COST == MAX_PASSED
    streams.feed(short)
    assert (streams.held_cost - before) // PIECE_COST <= MAX_PASSED + 50


def test_pieces_that_were_given_out_are_let_go() -> None:
    streams, _ = behind_a_hole(500)
    held = streams.held_cost
    events = streams.finish()
    assert held == 500 * (PIECE_COST + 1)
    assert streams.held_cost == 0
    assert len(texts(events)) == 2 * 500


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=60))
def test_buffered_bytes_are_delivered_once_and_in_order(parts: list[tuple[int, int]]) -> None:
    held = ReassemblyBuffer(ReassemblyBudget(1 << 20))
    there: dict[int, int] = {}
    gone = 0
    for number, (start, length) in enumerate(parts):
        position = max(start, gone)
        if start + length <= gone:
            continue
        segment = Segment(
            number, 1, 0, 0, b"", 0, 0, 0, 0, bytes([number]) * length, 0, length, length, 0, 0
        )
        held.insert(segment, start, position)
        for place in range(position, start + length):
            there.setdefault(place, number)
        if number % 7 == 6 and not held.is_empty:
            first = held.first()
            gone = first.position + first.length
            held.drop_first(1)
    pieces = held.pieces[held.head :]
    found = {p.position + n: byte for p in pieces for n, byte in enumerate(p.data)}
    assert found == {place: number for place, number in there.items() if place >= gone}
    assert [p.position for p in pieces] == sorted(p.position for p in pieces)
    assert held.cost == sum(PIECE_COST + len(p.data) for p in pieces)
