"""Network events and losses of the capture are distinguished and counted by direction."""

from dataclasses import replace

import pytest

from kdissect.packets.segment import ACK, FIN, copied
from kdissect.streams.connections import Streams
from kdissect.streams.direction_counts import DirectionCounts
from kdissect.streams.events import RETRANSMISSION, ZERO_WINDOW
from tests.conversation import Conversation, conversation
from tests.streams.reading import Reading

MS = 1_000_000
SECOND = 1_000_000_000
SYMPTOMS = (
    "missing_bytes", "capture_lost_bytes", "missing_cut_bytes", "network_lost_bytes",
    "retransmitted_segments", "fast_retransmits", "spurious_retransmits", "out_of_order_segments",
    "duplicate_acks", "zero_windows", "zero_window_ns", "window_probes", "keepalives",
)  # fmt: skip


def told(counts: DirectionCounts) -> dict[str, int]:
    """Non-zero TCP analysis counts of a direction."""
    found = {name: int(getattr(counts, name)) for name in SYMPTOMS}
    return {name: count for name, count in found.items() if count}


def read(talk: Conversation) -> tuple[dict[str, int], dict[str, int]]:
    """The symptoms of the client's direction and of the broker's."""
    client, broker = Reading(talk.segments()).connection.counts
    return told(client), told(broker)


def asked_again(talk: Conversation, number: int, times: int) -> Conversation:
    """The broker acknowledges everything before packet `number` repeatedly, 100 µs apart."""
    for _ in range(times):
        sent = replace(
            talk._packet(False, ACK), acknowledgment=talk.packets_sent[number - 1].sequence
        )
        talk = talk._add(replace(sent, gap_ns=100_000))
    return talk


def test_a_clean_conversation_has_no_symptoms() -> None:
    talk = conversation().client(b"request" * 1000).broker(b"response" * 1000).close()
    assert read(talk) == ({}, {})


def test_acknowledged_missing_bytes_were_lost_by_the_capture() -> None:
    talk = conversation().client(b"one", b"seven", b"three")
    assert read(talk.lose(6)) == ({"missing_bytes": 5, "capture_lost_bytes": 5}, {})


def test_unacknowledged_bytes_may_be_lost_by_network_or_capture() -> None:
    talk = conversation(has_acks=False).client(b"one", b"seven", b"three")
    assert read(talk.lose(5)) == ({"missing_bytes": 5}, {})


def test_of_a_hole_that_is_acknowledged_in_part_only_the_part_is_the_captures_loss() -> None:
    talk = conversation(has_acks=False).client(b"one", b"seven", b"three")
    sent = replace(talk._packet(False, ACK), acknowledgment=talk.packets_sent[4].sequence + 2)
    client, _ = read(talk._add(sent).lose(5))
    assert client == {"missing_bytes": 5, "capture_lost_bytes": 2}


def test_bytes_cut_by_the_snaplen_count_as_neither() -> None:
    talk = conversation().client(b"seven bytes").cut(4)
    assert read(talk) == ({"missing_bytes": 7, "missing_cut_bytes": 7}, {})


def test_a_hole_that_a_retransmission_fills_was_lost_by_the_network() -> None:
    talk = conversation(has_acks=False).client(b"one", b"seven", b"three")
    client, broker = read(talk.repeat(5, gap_ns=200 * MS).lose(5))
    assert client == {"network_lost_bytes": 5, "retransmitted_segments": 1}
    assert broker == {}


def test_a_hole_that_fills_at_once_was_overtaken() -> None:
    talk = conversation(has_acks=False).client(b"one", b"seven", b"three").delay(5)
    assert read(talk) == ({"out_of_order_segments": 1}, {})


def test_duplicate_acks_that_ask_for_it_make_it_a_fast_retransmission() -> None:
    talk = conversation(has_acks=False).client(b"one", b"seven", b"a", b"b", b"c")
    talk = asked_again(talk, 5, 4)
    client, broker = read(talk.repeat(5).lose(5))
    assert client == {
        "network_lost_bytes": 5, "retransmitted_segments": 1, "fast_retransmits": 1,
    }  # fmt: skip
    assert broker == {"duplicate_acks": 3}


def test_lost_behind_the_tap_it_is_a_fast_retransmission_too() -> None:
    talk = conversation(has_acks=False).client(b"one", b"seven", b"a", b"b", b"c")
    client, broker = read(asked_again(talk, 5, 4).repeat(5))
    assert client == {
        "network_lost_bytes": 5, "retransmitted_segments": 1, "fast_retransmits": 1,
    }  # fmt: skip
    assert broker == {"duplicate_acks": 3}


def test_duplicate_acks_long_ago_ask_for_nothing() -> None:
    talk = conversation(has_acks=False).client(b"one", b"seven", b"a", b"b", b"c")
    client, _ = read(asked_again(talk, 5, 4).repeat(5, gap_ns=200 * MS))
    assert client == {"network_lost_bytes": 5, "retransmitted_segments": 1}


def test_one_duplicate_ack_before_a_round_trip_is_over_is_of_an_overtaken_segment() -> None:
    talk = conversation(has_acks=False).client(b"one", b"seven", b"a", b"b")
    # The round trip of the handshake is 20 µs: 10 µs after the hole is too soon.
    seen = talk.packets_sent
    first, again = asked_again(talk, 5, 2).packets_sent[-2:]
    quick = [replace(one, gap_ns=3_000) for one in (first, again, seen[4])]
    packets = [*seen[:4], replace(seen[5], gap_ns=3_000), *quick, seen[6]]
    client, broker = read(talk._with(packets))
    assert client == {"out_of_order_segments": 1}
    assert broker == {"duplicate_acks": 1}


def test_a_segment_that_was_acknowledged_before_is_sent_again_for_nothing() -> None:
    talk = conversation().client(b"one", b"seven")
    assert read(talk.repeat(6)) == ({"retransmitted_segments": 1, "spurious_retransmits": 1}, {})


def test_the_acknowledgment_may_come_with_data() -> None:
    talk = conversation(has_acks=False).client(b"request").broker(b"response")
    assert read(talk.repeat(4)) == ({"retransmitted_segments": 1, "spurious_retransmits": 1}, {})


def test_an_acknowledgment_with_another_window_is_no_duplicate() -> None:
    talk = conversation().client(b"one", b"two").lose(7)
    sent = talk.packets_sent[4]
    again = [replace(sent, window=sent.window + more, ip_id=50 + more) for more in (1, 2, 3)]
    assert read(talk._add(*again).ack(False)) == ({}, {})


def test_an_acknowledgment_of_everything_is_no_duplicate() -> None:
    talk = conversation().client(b"one").ack(False).ack(False).client(b"two")
    assert read(talk) == ({}, {})


@pytest.mark.parametrize("payload", [b"", b"\x00"])
def test_keepalives_and_their_answers_are_keepalives_only(payload: bytes) -> None:
    talk = conversation().client(b"one").keepalive(True, payload).ack(False)
    talk = talk.keepalive(True, payload).ack(False).client(b"two")
    assert read(talk) == ({"keepalives": 2}, {})


def test_a_full_window_lasts_until_a_segment_opens_it() -> None:
    talk = conversation(has_acks=False).client(b"one").ack(False, window=0)
    talk = talk.keepalive(True).ack(False, window=0, gap_ns=5 * MS).ack(False, gap_ns=2 * MS)
    reading = Reading(talk.segments())
    client, broker = reading.connection.counts
    assert told(client) == {"window_probes": 1}
    assert told(broker) == {"zero_windows": 2, "zero_window_ns": 7 * MS + 10_000}
    assert reading.connection.tcp_events == 2 * ZERO_WINDOW


def test_a_window_that_stays_full_is_counted_until_the_last_segment() -> None:
    talk = conversation(has_acks=False).client(b"one").ack(False, window=0)
    talk = talk.ack(False, window=0, gap_ns=SECOND).reset()
    assert read(talk)[1] == {"zero_windows": 2, "zero_window_ns": SECOND + 10_000}


def test_probes_with_a_byte_are_counted_and_the_byte_is_not_lost() -> None:
    talk = conversation(has_acks=False).client(b"one").ack(False, window=0)
    talk = talk.client(b"P").ack(False, window=0)
    probe = len(talk.packets_sent) - 1
    talk = talk.repeat(probe).ack(False, window=0).repeat(probe).ack(False)
    client, broker = read(talk.repeat(probe, b"Probed bytes"))
    assert client == {"window_probes": 3}
    assert broker == {"zero_windows": 3, "zero_window_ns": 60_000}


def test_both_directions_are_counted_apart() -> None:
    talk = conversation(has_acks=False).client(b"one").broker(b"two", b"three", b"four")
    client, broker = read(talk.repeat(6, gap_ns=300 * MS).lose(6).repeat(4))
    assert client == {"retransmitted_segments": 1, "spurious_retransmits": 1}
    assert broker == {"network_lost_bytes": 5, "retransmitted_segments": 1}
    reading = Reading(talk.repeat(6, gap_ns=300 * MS).lose(6).repeat(4).segments())
    assert reading.connection.tcp_events == 2 * RETRANSMISSION


def timed(*gaps_ns: int) -> Conversation:
    """A handshake whose SYN-ACK and ACK arrive so many ns after the previous packet."""
    talk = conversation().client(b"one")
    head = [
        replace(sent, gap_ns=gap)
        for sent, gap in zip(talk.packets_sent, (0, *gaps_ns), strict=False)
    ]
    return talk._with([*head, *talk.packets_sent[len(head) :]])


def test_the_handshake_measures_the_way_to_both_sides_of_the_tap() -> None:
    connection = Reading(timed(400_000, 30_000).segments()).connection
    assert connection.handshake_rtt_ns == 430_000
    assert connection.handshake_half_ns == (30_000, 400_000)


def test_without_the_syn_it_measures_the_way_to_the_opener_alone() -> None:
    connection = Reading(timed(400_000, 30_000).lose(1).segments()).connection
    assert connection.handshake_rtt_ns == -1
    assert connection.handshake_half_ns == (30_000, -1)


def test_a_syn_ack_sent_again_leaves_the_way_to_the_opener_open() -> None:
    talk = timed(400_000, 30_000)
    one, two, *rest = talk.packets_sent
    again = replace(two, gap_ns=SECOND, ip_id=99)
    connection = Reading(talk._with([one, two, again, *rest]).segments()).connection
    assert connection.handshake_rtt_ns == SECOND + 430_000
    assert connection.handshake_half_ns == (-1, 400_000)


def test_round_trips_behind_a_fin_are_the_same_by_the_fast_and_the_slow_path() -> None:
    """Bytes behind a FIN are of another connection, or of a SYN-ACK that was damaged."""
    talk = conversation()
    for number in range(20):
        talk = talk.client(b"request").broker(b"response" * (number + 1))
    packets = list(talk.packets_sent)
    packets[1] = replace(packets[1], flags=packets[1].flags | FIN)
    segments = replace(talk, packets_sent=tuple(packets)).segments()
    fast, slow = Streams(), Streams()
    for segment in segments:
        fast.feed(segment)
        slow.feed_with_care(copied(segment))
    (one,), (other,) = fast.connections, slow.connections
    assert min(one.min_rtt_ns) >= 0
    assert one.min_rtt_ns == other.min_rtt_ns
