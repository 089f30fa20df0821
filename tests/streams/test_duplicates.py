"""Packets that the capture holds twice, against packets that were sent twice."""

from dataclasses import replace
from random import Random

import pytest

from kdissect.packets.segment import Segment
from kdissect.streams.connections import Streams
from kdissect.streams.duplicates import (
    RECENT_SEGMENTS,
    SAME_HEADER_NS,
    SAME_ID_NS,
    SAME_TIMESTAMP_NS,
    DuplicatePackets,
    Mark,
    copied_mark,
    has_timestamps,
    mark_of,
)
from kdissect.streams.events import ZERO_WINDOW
from tests.conversation import START_NS, conversation
from tests.packets.builders import make_flow, make_tcp
from tests.seeds import SEED
from tests.streams.reading import Reading

TIMESTAMPS = b"\x01\x01\x08\x0a\x00\x00\x00\x05\x00\x00\x00\x03"
LATER_TIMESTAMPS = b"\x01\x01\x08\x0a\x00\x00\x00\x06\x00\x00\x00\x03"
SACK_PERMITTED = b"\x04\x02\x01\x01"
FLOW = make_flow("10.0.0.1", "10.0.0.9", 50_000, 9092)


def seen(
    time_ns: int = 0,
    payload: bytes = b"payload",
    ip_id: int = 7,
    options: bytes = b"",
    captured: int = 1 << 20,
    flags: int = 24,
    window: int = 501,
) -> Segment:
    tcp = make_tcp(payload, options=options, flags=flags, window=window)[:captured]
    start = min(20 + len(options), len(tcp))
    return Segment(
        1, 1, 0, START_NS + time_ns, FLOW, 1000, 2000, flags, window, b"<" + tcp, 1 + start,
        1 + len(tcp), len(payload), 1, ip_id,
    )  # fmt: skip


def is_copy(one: Segment, other: Segment) -> bool:
    copies = DuplicatePackets()
    copies.add(one, 1)
    return copies.has(other, 1)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"ip_id": 7}, SAME_ID_NS),
        ({"ip_id": 7, "options": TIMESTAMPS}, SAME_ID_NS),
        ({"ip_id": 0, "options": TIMESTAMPS}, SAME_TIMESTAMP_NS),
        ({"ip_id": -1, "options": TIMESTAMPS}, SAME_TIMESTAMP_NS),
        ({"ip_id": 0}, SAME_HEADER_NS),
        ({"ip_id": -1, "options": SACK_PERMITTED}, SAME_HEADER_NS),
    ],
    ids=["id", "id and timestamps", "timestamps", "IPv6 timestamps", "nothing", "other option"],
)
def test_a_copy_is_the_same_packet_within_the_time_its_marks_allow(
    fields: dict[str, object], limit: int
) -> None:
    assert is_copy(seen(**fields), seen(limit, **fields))  # type: ignore[arg-type]
    assert not is_copy(seen(**fields), seen(limit + 1, **fields))  # type: ignore[arg-type]
    assert is_copy(seen(limit, **fields), seen(**fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        seen(ip_id=8),
        seen(ip_id=0),
        seen(payload=b"payload!"),
        seen(flags=16),
        seen(window=502),
    ],
    ids=["id", "no id", "length", "flags", "window"],
)
def test_one_difference_makes_another_packet(other: Segment) -> None:
    assert not is_copy(seen(), other)
    assert not is_copy(other, seen())


def test_a_packet_sent_again_has_later_timestamps() -> None:
    one = seen(ip_id=-1, options=TIMESTAMPS)
    assert not is_copy(one, seen(ip_id=-1, options=LATER_TIMESTAMPS))


@pytest.mark.parametrize("captured", [32, 36])
def test_copies_may_be_cut_at_different_lengths(captured: int) -> None:
    whole = seen(options=TIMESTAMPS)
    cut = seen(options=TIMESTAMPS, captured=captured)
    assert is_copy(whole, cut)
    assert is_copy(cut, whole)


def test_the_checksum_may_differ_because_the_network_card_fills_it_in_late() -> None:
    one = seen()
    one.data = one.data[:17] + b"\xbe\xef" + one.data[19:]
    assert is_copy(one, seen())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (b"", False),
        (TIMESTAMPS, True),
        (SACK_PERMITTED + TIMESTAMPS, True),
        (b"\x00\x00\x08\x0a", False),
        (b"\x05\x00\x08\x0a", False),
        (b"\x01\x01\x01\x05", False),
        (b"\x05\xff\x08\x0a", False),
    ],
)
def test_the_timestamps_option_is_found_behind_others(options: bytes, expected: bool) -> None:
    assert has_timestamps(seen(options=options)) is expected


def test_the_blocks_of_a_selective_acknowledgment_tell_packets_apart() -> None:
    blocks = TIMESTAMPS + b"\x01\x01\x05\x0a" + bytes(7)
    assert is_copy(seen(ip_id=0, options=blocks + b"\x08"), seen(ip_id=0, options=blocks + b"\x08"))
    assert not is_copy(
        seen(ip_id=0, options=blocks + b"\x08"), seen(ip_id=0, options=blocks + b"\x09")
    )


def test_a_packet_with_the_same_header_and_other_bytes_is_no_copy() -> None:
    talk = conversation().client(b"first")
    other = talk._with([*talk.packets_sent, replace(talk.packets_sent[3], payload=b"other")])
    reading = Reading(other.segments())
    assert reading.connection.counts[0].duplicate_packets == 0
    assert reading.kinds == ["overlap-disagrees"]


def test_only_the_latest_segments_are_remembered_each_of_its_stream() -> None:
    copies = DuplicatePackets()
    copies.add(seen(), 1)
    for _ in range(RECENT_SEGMENTS - 1):
        copies.add(seen(), 2)
    assert copies.has(seen(), 1)
    assert not copies.has(seen(), 3)
    copies.add(seen(), 2)
    assert not copies.has(seen(), 1)


@pytest.mark.parametrize("is_v6", [False, True])
def test_duplicated_packets_do_not_change_measurements(
    is_v6: bool,
) -> None:
    talk = conversation(is_v6=is_v6, has_acks=False)
    talk = talk.client(b"request").ack(False, gap_ns=300_000)
    talk = talk.broker(b"response").ack(True, gap_ns=70_000)
    talk = talk.client(b"more").ack(False, window=0).ack(False).close()
    once = Reading(talk.segments()).connection
    twice = Reading(talk.double().segments()).connection
    # The copies are 10 µs apart, so is everything else.
    for one, two, size in zip(once.counts, twice.counts, (11, 8), strict=True):
        assert (two.packets, two.duplicate_packets) == (2 * one.packets, one.packets)
        assert (two.duplicate_bytes, two.duplicate_packet_bytes) == (size, size)
        assert (two.retransmitted_segments, two.out_of_order_segments) == (0, 0)
        assert two.zero_windows == one.zero_windows
    # Full windows are reported for both, retransmissions for none.
    assert twice.tcp_events == once.tcp_events == ZERO_WINDOW
    assert twice.handshake_rtt_ns == once.handshake_rtt_ns + 20_000
    assert [one >= 0 for one in twice.min_rtt_ns] == [True, True]


def test_a_copy_that_comes_after_other_packets_is_one_all_the_same() -> None:
    talk = conversation(has_acks=False).client(b"one", b"two").ack(False).client(b"three")
    seen_twice = [*talk.packets_sent[3:7], *talk.packets_sent[3:7]]
    reading = Reading(talk._with([*talk.packets_sent[:3], *seen_twice]).segments())
    assert reading.both() == (b"onetwothree", b"")
    assert [counts.duplicate_packets for counts in reading.connection.counts] == [3, 1]
    assert reading.connection.tcp_events == 0


def test_a_copy_behind_a_hole_is_neither_held_nor_out_of_order() -> None:
    talk = conversation(has_acks=False).client(b"one", b"two", b"three").lose(4)
    segments = talk.double().segments()
    streams = Streams()
    for segment in segments:
        assert streams.feed(segment) == []
    (connection,) = streams.connections
    counts = connection.counts[0]
    assert (counts.duplicate_packets, counts.duplicate_packet_bytes) == (4, 8)
    assert (counts.out_of_order_segments, counts.retransmitted_segments) == (0, 0)


def test_a_retransmission_is_no_copy_and_its_own_copy_is() -> None:
    talk = conversation().client(b"one").repeat(4)
    again = talk._with([*talk.packets_sent, talk.packets_sent[-1]])
    counts = Reading(again.segments()).connection.counts[0]
    assert (counts.retransmitted_segments, counts.duplicate_packets) == (1, 1)
    assert (counts.duplicate_bytes, counts.duplicate_packet_bytes) == (6, 3)


def test_the_same_acknowledgment_sent_three_times_is_three_packets() -> None:
    talk = conversation(has_acks=False).client(b"one").ack(False).ack(False).ack(False)
    assert Reading(talk.segments()).connection.counts[1].duplicate_packets == 0
    assert Reading(talk.double().segments()).connection.counts[1].duplicate_packets == 4


def latest_copy(added: dict[int, Mark], count: int, wanted: Mark, limit: int, oldest: int) -> int:
    """What `DuplicatePackets.find` returns, found by looking at every segment remembered."""
    fields = ("stream", "numbers", "identity", "state", "options")
    return max(
        (
            at
            for at, mark in added.items()
            if at >= max(oldest, count - RECENT_SEGMENTS)
            and mark.stream == wanted.stream
            and all(getattr(mark, name) == getattr(wanted, name) for name in fields)
            and abs(mark.time_ns - wanted.time_ns) <= limit
        ),
        default=-1,
    )


@pytest.mark.parametrize("case", range(4))
def test_a_copy_is_found_among_all_segments_remembered_whatever_else_was_done(case: int) -> None:
    random = Random(f"{SEED} {case}")
    copies = DuplicatePackets()
    added: dict[int, Mark] = {}
    # Streams of one chain and of others, on both sides of its width.
    streams = [random.randrange(4) + RECENT_SEGMENTS * random.randrange(3) for _ in range(5)]
    for step in range(300):
        segment = seen(step * 1000, ip_id=0, window=random.randrange(3), options=TIMESTAMPS)
        stream = random.choice(streams)
        done = random.random()
        if done < 0.6:
            added[copies.count] = mark_of(segment, stream)
            copies.add(segment, stream)
        elif done < 0.75:
            copies.skip()
        elif done < 0.8:
            copies.jump(copies.count + random.choice([1, 30, RECENT_SEGMENTS, 5000]))
        elif done < 0.85 and copies.count > 0:
            at = max(0, copies.count - random.randrange(1, 2 * RECENT_SEGMENTS))
            copies.put([(at, mark_of(segment, stream))])
            if at >= copies.count - RECENT_SEGMENTS:
                added[at] = mark_of(segment, stream)
        elif done < 0.87:
            placed = [(at, copied_mark(mark)) for at, mark in copies.placed()]
            copies.refill(copies.count, placed)
        wanted = mark_of(segment, stream)
        oldest = random.choice([0, copies.count - RECENT_SEGMENTS, copies.count - 5])
        found = copies.find(wanted, SAME_TIMESTAMP_NS, oldest)
        assert found == latest_copy(added, copies.count, wanted, SAME_TIMESTAMP_NS, oldest)
