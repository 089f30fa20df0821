"""Frames out of streams: whole, split, holed, lost and found again."""

import random
import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import Problem
from kdissect.framing.frame_search import (
    CREDIT_EACH,
    EVENT_COST,
    EVENT_STEPS,
    FEW_BYTES,
    FIRST_CREDIT,
    FIRST_STEPS,
    IGNORE,
    LAST_EACH,
    MAX_COST,
    MORE_SHARE,
    NOT_HERE,
    PROBE_SIZE,
    STEPS_EACH,
    WAIT,
    WINDOW,
    Probe,
    Window,
)
from kdissect.framing.frames import MAX_FAILURES, Frame, Frames
from kdissect.streams.connections import Streams
from kdissect.streams.events import Chunk, Connection, End, Event, Gap
from tests.conversation import (
    DELIVERIES,
    START_NS,
    STEP_NS,
    Conversation,
    Delivery,
    conversation,
    deliveries,
)

MARK = b"\xabMRK"
"""Every body of a frame that a `MarkProbe` is to find starts so."""


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def marked(text: bytes) -> bytes:
    return frame(MARK + text)


class MarkProbe(Probe):
    """Finds frames by the mark in their body; trusts the first byte of a whole connection."""

    def find_start(self, connection: Connection, direction: int, window: Window) -> int:
        found = window.data.find(MARK, window.start + 4, window.end)
        return found - 4 if found >= 0 else NOT_HERE


class ScriptedProbe(Probe):
    """Gives its predefined answers, then NOT_HERE, and records the calls."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []

    def find_start(self, connection: Connection, direction: int, window: Window) -> int:
        self.asked.append(window.data[window.start : window.end])
        answer = self.answers.pop(0) if self.answers else NOT_HERE
        if answer == WAIT:
            return window.wait(window.start + 3, window.end + 5)
        return min(answer + window.start, window.end - 1) if answer >= 0 else answer


class Row(NamedTuple):
    """A frame as a value: packets by number, -1 for missing ones."""

    direction: int
    position: int
    data: bytes
    missing: int
    start_packet: int
    end_packet: int


class Cut:
    """All frames of some events; the balance is checked at every End."""

    def __init__(self, events: Iterable[Event], frames: Frames) -> None:
        self.frames: list[Frame] = []
        self.counts: list[tuple[tuple[int, int], tuple[int, int]]] = []
        for event in events:
            self.frames += frames.feed(event)
            if isinstance(event, End):
                framed, skipped = frames.take_counts(event.connection)
                self.counts.append((framed, skipped))
                assert [framed[side] + skipped[side] for side in (0, 1)] == [
                    counts.delivered_bytes for counts in event.connection.counts
                ]
        self.problems: list[Problem] = frames.problems
        for one in self.frames:
            assert one.missing == one.size - len(one.data)
            assert one.missing >= 0

    @property
    def rows(self) -> list[Row]:
        return [
            Row(
                one.direction, one.position, one.data, one.missing, one.start_packet,
                one.end_packet,
            )
            for one in self.frames
        ]  # fmt: skip

    def bodies(self, direction: int = 0) -> list[bytes]:
        return [one.data for one in self.frames if one.direction == direction]

    @property
    def kinds(self) -> list[str]:
        return [problem.kind for problem in self.problems]


def events_of(talk: Conversation) -> Iterator[Event]:
    streams = Streams()
    for segment in talk.segments():
        yield from streams.feed(segment)
    yield from streams.finish()


def cut(talk: Conversation, probe: Probe | None = None, **limits: int) -> Cut:
    return Cut(events_of(talk), Frames(probe or Probe(), **limits))


def bare(*pieces: bytes | int, starts: int = 0) -> list[Event]:
    """Events of one direction: bytes are a chunk, a number is a gap of that length."""
    connection = Connection(1, 0, b"", START_NS, 1)
    events: list[Event] = []
    position = starts
    for number, piece in enumerate(pieces, 1):
        where = (connection, 0, position, START_NS + number, number, number, 0)
        if isinstance(piece, int):
            events.append(Gap(*where, piece, is_acknowledged=False, is_cut=False))
            position += piece
            connection.counts[0].missing_bytes += piece
        else:
            events.append(Chunk(*where, b"<" + piece + b">", 1, 1 + len(piece)))
            position += len(piece)
            connection.counts[0].delivered_bytes += len(piece)
    return [*events, End(connection, START_NS, -1, -1, 0, "capture-end")]


REQUEST = b"a whole request"
RESPONSE = b"a whole response"


def test_frame_length_follows_its_size_field() -> None:
    (one,) = cut(conversation().client(frame(REQUEST))).frames
    assert (one.direction, one.position, one.size, one.data, one.missing) == (0, 0, 15, REQUEST, 0)
    time_ns = START_NS + 3 * STEP_NS
    assert (one.start_time_ns, one.end_time_ns) == (time_ns, time_ns)
    assert (one.start_packet, one.start_ordinal, one.start_capture, one.end_packet) == (4, 4, 0, 4)
    assert (one.index, one.tcp_events_at_start, one.tcp_events_at_end) == (0, 0, 0)
    assert one.connection.id == 1


def test_frames_that_start_in_one_packet_are_numbered() -> None:
    talk = (
        conversation().client(frame(REQUEST) * 3 + b"\x00").client(b"\x00\x00\x03abc" + frame(b""))
    )
    frames = cut(talk).frames
    assert [(one.start_packet, one.index) for one in frames] == [
        (4, 0), (4, 1), (4, 2), (4, 3), (6, 0),
    ]  # fmt: skip
    assert [one.data for one in frames] == [REQUEST] * 3 + [b"abc", b""]


def test_a_frame_over_several_packets_has_its_first_and_its_last() -> None:
    talk = conversation(has_acks=False).client(frame(b"x" * 5000))
    (row,) = cut(talk).rows
    assert row == Row(0, 0, b"x" * 5000, 0, 4, 7)


def test_retransmissions_inside_a_frame_are_the_difference_of_two_counts() -> None:
    talk = conversation(has_acks=False).client(b"\x00\x00\x00\x14" + b"x" * 12)
    (one,) = cut(talk.repeat(4).repeat(4).client(b"y" * 8)).frames
    assert (one.tcp_events_at_start, one.tcp_events_at_end) == (0, 2)


@pytest.mark.parametrize("name", DELIVERIES)
def test_every_delivery_gives_the_frames_that_were_sent(name: str) -> None:
    sent = [bytes([number]) * (number * 37 % 211) for number in range(12)]
    talk = conversation()
    for body in sent:
        talk = talk.client(frame(body)).broker(frame(body + b"!"))
    done = cut(DELIVERIES[name](talk.close()))
    assert done.bodies(0) == sent
    assert done.bodies(1) == [body + b"!" for body in sent]
    assert done.kinds == []


@given(st.lists(st.binary(max_size=50), max_size=10), deliveries())
def test_any_delivery_gives_the_frames_that_were_sent(
    bodies: list[bytes], delivery: Delivery
) -> None:
    talk = conversation().client(b"".join(frame(body) for body in bodies)).close()
    done = cut(delivery(talk))
    assert [(one.data, one.missing) for one in done.frames] == [(body, 0) for body in bodies]
    assert done.kinds == []


@given(st.lists(st.binary(max_size=50), max_size=6), st.data())
def test_frames_are_the_same_however_the_stream_is_cut_into_chunks(
    bodies: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(frame(body) for body in bodies)
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *places, len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    done = Cut(bare(*[piece for piece in pieces if piece]), Frames(Probe()))
    assert done.bodies() == bodies
    assert done.counts == [((len(stream), 0), (0, 0))]


def test_empty_frames_are_frames() -> None:
    # Raw SASL tokens may be empty (an answer of PLAIN).
    assert cut(conversation().client(frame(b"") * 4)).bodies() == [b""] * 4
    assert Cut(bare(b"\x00\x00", b"\x00\x00"), Frames(Probe())).bodies() == [b""]


def test_few_bytes_wait_until_there_are_enough_to_ask_about() -> None:
    probe = ScriptedProbe(0)
    done = Cut(bare(frame(b"abc"), frame(b"defgh"), frame(b"i")), Frames(probe))
    assert probe.asked == [frame(b"abc") + frame(b"defgh")]
    assert done.rows == [
        Row(0, 0, b"abc", 0, 1, 1), Row(0, 7, b"defgh", 0, 2, 2), Row(0, 16, b"i", 0, 3, 3),
    ]  # fmt: skip


def test_few_bytes_are_asked_about_when_no_more_come() -> None:
    probe = ScriptedProbe(0)
    assert Cut(bare(frame(b"abc")), Frames(probe)).bodies() == [b"abc"]
    assert probe.asked == [frame(b"abc")]


def test_bytes_that_the_probe_ignores_are_skipped_without_a_problem() -> None:
    done = cut(conversation().client(b"\x16\x03\x01" + b"t" * 500, b"more"), ScriptedProbe(IGNORE))
    assert done.frames == []
    assert done.counts == [((0, 0), (507, 0))]
    assert done.kinds == []


def test_a_capture_that_starts_in_a_frame_skips_to_the_next() -> None:
    talk = conversation().client(b"tail of a frame" + marked(b"one"), marked(b"two")).start_late(3)
    done = cut(talk, MarkProbe())
    assert done.bodies() == [MARK + b"one", MARK + b"two"]
    text = "15 bytes skipped until the first frame was found"
    assert done.problems == [Problem("frames", "mid-stream", text, START_NS, 1, 15, 1, -1, 0)]


def test_without_any_frame_one_problem_has_the_skipped_bytes() -> None:
    done = cut(conversation().client(*[b"nothing to see here"] * 5), MarkProbe())
    assert done.counts == [((0, 0), (95, 0))]
    assert [(problem.kind, problem.bytes) for problem in done.problems] == [("no-resync", 95)]


def test_a_hole_in_a_body_costs_only_this_frame() -> None:
    pieces = (frame(b"x" * 100)[:50], 30, b"x" * 24 + frame(b"next"), frame(b"more"))
    done = Cut(bare(*pieces), Frames(Probe()))
    assert done.rows == [
        Row(0, 0, b"x" * 46, 54, 1, 3), Row(0, 104, b"next", 0, 3, 3), Row(0, 112, b"more", 0, 4, 4)
    ]  # fmt: skip
    assert done.kinds == []
    assert done.counts == [((90, 0), (0, 0))]


def test_a_hole_to_the_very_end_of_a_body_leaves_the_next_frame_known() -> None:
    done = Cut(bare(frame(b"x" * 100)[:50], 54, frame(b"next")), Frames(Probe()))
    assert done.rows == [Row(0, 0, b"x" * 46, 54, 1, -1), Row(0, 104, b"next", 0, 3, 3)]
    assert done.frames[0].end_time_ns == -1


def test_a_cut_packet_still_gives_the_end_of_the_frame() -> None:
    talk = conversation().client(frame(b"x" * 100), frame(b"y" * 100)).cut(40)
    done = cut(talk)
    assert done.rows == [Row(0, 0, b"x" * 36, 64, 4, 4), Row(0, 104, b"y" * 36, 64, 6, 6)]
    assert done.kinds == []


def test_after_a_hole_over_a_size_field_the_probe_finds_the_next_frame() -> None:
    pieces = (marked(b"one!" * 5)[:10], 30, b"rest of something", b"junk" + marked(b"two"))
    done = Cut(bare(*pieces), Frames(MarkProbe()))
    assert done.rows == [Row(0, 0, MARK + b"on", 18, 1, -1), Row(0, 61, MARK + b"two", 0, 4, 4)]
    text = "21 bytes skipped until a frame was found again"
    assert done.problems == [Problem("frames", "resync", text, START_NS + 4, 4, 21, 1, -1, 0)]


def test_a_hole_right_behind_a_frame_loses_the_next() -> None:
    done = Cut(bare(marked(b"one one one"), 7, marked(b"two two two")), Frames(MarkProbe()))
    assert done.bodies() == [MARK + b"one one one", MARK + b"two two two"]
    assert [(problem.kind, problem.bytes) for problem in done.problems] == [("resync", 0)]


def test_hole_in_a_size_field_skips_its_captured_bytes() -> None:
    done = Cut(bare(marked(b"one one one") + b"\x00\x00", 7, marked(b"two")), Frames(MarkProbe()))
    assert done.bodies() == [MARK + b"one one one", MARK + b"two"]
    assert done.counts == [((19 + 11, 0), (2, 0))]


def test_a_hole_at_the_very_start_is_no_frame() -> None:
    done = Cut(bare(7, b"junk" + marked(b"one")), Frames(MarkProbe()))
    assert done.bodies() == [MARK + b"one"]


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 105_000_000])
def test_an_impossible_size_loses_the_direction_until_a_frame_is_found(size: int) -> None:
    bad = struct.pack(">i", size)
    pieces = (marked(b"one one one") + bad + b"junk", marked(b"two two two"))
    done = Cut(bare(*pieces), Frames(MarkProbe()))
    assert done.bodies() == [MARK + b"one one one", MARK + b"two two two"]
    assert done.problems == [
        Problem("frames", "bad-frame-size", f"size field says {size}", START_NS + 1, 1, 8, 1),
        Problem(
            "frames", "resync", "8 bytes skipped until a frame was found again", START_NS + 2, 2,
            8, 1,
        ),
    ]  # fmt: skip


def test_an_impossible_size_that_is_split_loses_nothing_silently() -> None:
    pieces = (marked(b"one one one") + b"\xff\xff", b"\xff\xff", marked(b"two two two"))
    done = Cut(bare(*pieces), Frames(MarkProbe()))
    assert done.bodies() == [MARK + b"one one one", MARK + b"two two two"]
    assert done.counts == [((38, 0), (4, 0))]


def test_the_limit_on_the_size_is_an_option() -> None:
    talk = conversation().client(frame(b"x" * 100))
    assert cut(talk, max_frame_size=100).bodies() == [b"x" * 100]
    assert cut(talk, ScriptedProbe(0), max_frame_size=99).kinds == ["bad-frame-size", "no-resync"]


def test_a_direction_that_fails_again_and_again_is_ignored() -> None:
    done = cut(conversation().client(*[b"\xff" * 100] * 10))
    assert done.kinds.count("bad-frame-size") == MAX_FAILURES
    assert done.kinds.count("not-frames") == 1
    assert len(done.problems) <= 2 * MAX_FAILURES + 1
    assert done.counts == [((0, 0), (1000, 0))]


def test_old_failures_are_forgiven_after_many_frames() -> None:
    pieces = [(marked(b"some text") * 17 + b"\xff" * 8) for _ in range(3 * MAX_FAILURES)]
    done = Cut(bare(*pieces), Frames(MarkProbe()))
    assert len(done.frames) == 3 * MAX_FAILURES * 17
    assert "not-frames" not in done.kinds


def test_frame_truncated_by_the_end_is_emitted_with_its_captured_bytes() -> None:
    done = cut(conversation().client(frame(b"x" * 100)[:54]))
    assert done.rows == [Row(0, 0, b"x" * 50, 50, 4, -1)]
    assert done.frames[0].end_time_ns == -1
    assert done.kinds == []


def test_part_of_a_size_field_at_the_end_is_skipped() -> None:
    done = cut(conversation().client(frame(REQUEST) + b"\x00\x00"))
    assert done.bodies() == [REQUEST]
    assert done.counts == [((19, 0), (2, 0))]


def test_bytes_of_all_incomplete_frames_are_bounded() -> None:
    pieces = (frame(b"x" * 300)[:104], b"x" * 100, b"x" * 100, frame(b"next"))
    done = Cut(bare(*pieces), Frames(Probe(), max_held=250))
    assert done.rows == [Row(0, 0, b"x" * 200, 100, 1, 3), Row(0, 304, b"next", 0, 4, 4)]
    assert [(problem.kind, problem.bytes) for problem in done.problems] == [
        ("frame-held-limit", 100)
    ]


def test_counts_are_taken_once() -> None:
    events = bare(frame(REQUEST))
    frames = Frames(Probe())
    for event in events:
        frames.feed(event)
    assert frames.take_counts(events[0].connection) == ((19, 0), (0, 0))
    assert frames.take_counts(events[0].connection) == ((0, 0), (0, 0))


def test_directions_and_connections_do_not_mix() -> None:
    one = conversation().client(frame(REQUEST)[:16]).broker(frame(RESPONSE)[:17])
    two = conversation(is_v6=True).client(frame(b"other " * 4)[:20]).broker(frame(RESPONSE))
    one = one.client(frame(REQUEST)[16:]).broker(frame(RESPONSE)[17:])
    two = two.client(frame(b"other " * 4)[20:])
    streams = Streams()
    later = two.segments()
    for segment in later:
        segment.ordinal += 100
    segments = sorted(one.segments() + later, key=lambda segment: segment.time_ns)
    events = [event for segment in segments for event in streams.feed(segment)]
    done = Cut(events + streams.finish(), Frames(Probe()))
    assert sorted((one.connection.id, one.direction, one.data) for one in done.frames) == [
        (1, 0, REQUEST), (1, 1, RESPONSE), (101, 0, b"other " * 4), (101, 1, RESPONSE),
    ]  # fmt: skip


ANSWERS = st.lists(st.sampled_from([IGNORE, NOT_HERE, WAIT, 0, 1, 5, 100, 10**9, -7]), max_size=20)
PIECES = st.lists(
    st.binary(min_size=1, max_size=60)
    | st.integers(1, 80)
    | st.binary(max_size=30).map(frame)
    | st.builds(lambda size: struct.pack(">i", size), st.integers(-2, 40)),
    max_size=30,
)


@given(PIECES, ANSWERS, st.integers(0, 100), st.integers(0, 100))
def test_any_bytes_gaps_and_answers_give_frames_that_balance(
    pieces: list[bytes | int], answers: list[int], max_size: int, max_held: int
) -> None:
    done = Cut(bare(*pieces), Frames(ScriptedProbe(*answers), max_size, max_held))
    assert len(done.problems) <= len(pieces) * 2 + 2 * MAX_FAILURES + 2
    positions = [one.position for one in done.frames]
    assert positions == sorted(positions)


@given(PIECES, st.integers(0, 2**32))
def test_frames_of_the_same_bytes_are_the_same_in_any_chunks_without_gaps(
    pieces: list[bytes | int], seed: int
) -> None:
    stream = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    whole = Cut(bare(stream), Frames(Probe()))
    source = random.Random(seed)
    parts: list[bytes] = []
    at = 0
    while at < len(stream):
        size = source.choice([1, 2, 3, 4, 5, 13, 14, 50])
        parts.append(stream[at : at + size])
        at += size
    split = Cut(bare(*parts), Frames(Probe()))
    # An impossible size is reported at once or byte by byte, so frames found after it may differ.
    if "bad-frame-size" not in whole.kinds and len(stream) >= PROBE_SIZE:
        assert split.bodies() == whole.bodies()
        assert split.counts == whole.counts


# Work of searches


class BusyProbe(Probe):
    """Finds nothing, wants one more byte, and claims that a look took `each` steps a byte."""

    def __init__(self, each: int = 1) -> None:
        self.each = each
        self.spans: list[int] = []
        self.limits: list[int] = []

    def find_start(self, connection: Connection, direction: int, window: Window) -> int:
        span = window.end - window.start
        self.spans.append(span)
        self.limits.append(window.limit)
        window.work += self.each * span
        return window.wait(window.start, window.end + 1)


def searched(probe: Probe, *pieces: bytes | int) -> tuple[Cut, Frames]:
    """Waiting bytes stay unknown: the stream begins before its first byte seen."""
    frames = Frames(probe)
    return Cut(bare(*pieces, starts=5), frames), frames


@pytest.mark.parametrize(("size", "each"), [(1, 1), (100, 9), (1448, 60), (1448, STEPS_EACH)])
def test_search_work_is_bounded_by_incoming_bytes(size: int, each: int) -> None:
    pieces = [b"x" * size] * min(1_000, 3 * WINDOW // size)
    probe = BusyProbe(each)
    done, frames = searched(probe, *pieces)
    total = sum(map(len, pieces))
    largest = max(probe.spans)
    # The credit, one look begun with the last of it, and the last look.
    allowed = FIRST_CREDIT + CREDIT_EACH * total + 2 * (each + 1) * largest
    assert sum(probe.spans) * each <= frames.steps <= allowed + 2 * EVENT_STEPS * len(pieces)
    assert largest <= WINDOW + size
    assert done.counts == [((0, 0), (total, 0))]


def test_few_bytes_are_looked_at_with_every_segment_more_when_an_eighth_has_come() -> None:
    probe = BusyProbe()
    searched(probe, *[b"x" * 100] * 5_000)
    few = FEW_BYTES // 100 + 1
    assert probe.spans[:few] == [100 * number for number in range(1, few + 1)]
    # The last one is at the end.
    grown = probe.spans[few - 1 : -2]
    assert len(grown) > 30
    for before, after in pairwise(grown):
        assert 0 <= after - before - before // MORE_SHARE < 100
    assert sum(grown) < (MORE_SHARE + 2) * grown[-1]


def test_final_search_may_use_the_saved_budget_and_a_little_more() -> None:
    probe = BusyProbe(STEPS_EACH)
    searched(probe, *[b"x" * 1448] * 400)
    span = 400 * 1448
    assert probe.limits[-1] <= FIRST_STEPS + max(FIRST_STEPS, CREDIT_EACH * span // 4)
    rich = BusyProbe()
    searched(rich, *[b"x" * 1448] * 30)
    assert rich.limits[-1] == FIRST_STEPS + LAST_EACH * 30 * 1448 or rich.limits[-1] > FIRST_STEPS


def test_tiny_segments_count_with_their_overhead() -> None:
    probe = BusyProbe()
    searched(probe, *[b"x"] * (MAX_COST // EVENT_COST + 3_000))
    # Beyond it only as long as a look is put off.
    assert max(probe.spans) <= (1 + 1 / MORE_SHARE) * MAX_COST / EVENT_COST + 1


def test_waiting_bytes_are_skipped_when_the_search_ends() -> None:
    probe = MarkProbe()
    frames = Frames(probe)
    frames.searches = False
    done = Cut(bare(b"x" * 99, marked(b"one") * 3, starts=5), frames)
    assert (done.rows, done.counts) == ([], [((0, 0), (99 + 3 * 11, 0))])
    assert frames.steps == 0


def test_frames_are_found_again_any_number_of_times_in_one_segment() -> None:
    unit = marked(b"") * 16 + b"\xff"
    count = 5_000
    done = Cut(bare(unit * count), Frames(MarkProbe()))
    assert len(done.frames) == 16 * count
    assert done.kinds.count("bad-frame-size") == count - 1
