"""Retransmissions: which of them were needed, and how long they were not acknowledged."""

import struct
from dataclasses import replace

import pytest

from kdissect.packets.segment import ACK, SYN
from kdissect.streams.direction_counts import DirectionCounts
from tests.conversation import Conversation, Sent, conversation
from tests.streams.reading import Reading

MS = 1_000_000
SECOND = 1_000 * MS
REQUEST = b"seven"
NEEDED = {"network_lost_bytes": 5, "retransmitted_segments": 1}
NEEDLESS = {"retransmitted_segments": 1, "spurious_retransmits": 1}


def told(counts: DirectionCounts) -> dict[str, int]:
    names = ("network_lost_bytes", "retransmitted_segments", "spurious_retransmits")
    return {name: int(getattr(counts, name)) for name in names if getattr(counts, name)}


def client_of(talk: Conversation) -> DirectionCounts:
    return Reading(talk.segments()).connection.counts[0]


def repeated(isn: int = 1000, gap_ns: int = 20 * MS) -> Conversation:
    """A request that is sent again before it was acknowledged."""
    talk = conversation(has_acks=False, client_isn=isn).client(b"one", REQUEST)
    return talk.repeat(5, gap_ns=gap_ns)


def sack(*blocks: tuple[int, int]) -> bytes:
    """The option, behind two bytes of padding."""
    edges = [edge % (1 << 32) for block in blocks for edge in block]
    return b"\x01\x01" + struct.pack(f">BB{len(edges)}I", 5, 2 + 8 * len(blocks), *edges)


def answered(talk: Conversation, *blocks: tuple[int, int], gap_ns: int = 10_000) -> Conversation:
    """An ACK of all, with blocks of bytes counted from the request's first."""
    first = talk.packets_sent[4].sequence
    moved = [(first + start, first + end) for start, end in blocks]
    sent = talk._packet(False, ACK, gap_ns=gap_ns)
    return talk._add(replace(sent, options=sack(*moved)))


def test_bytes_that_the_receiver_reports_to_have_twice_were_not_lost() -> None:
    assert told(client_of(answered(repeated(), (0, 5)))) == NEEDLESS


def test_sequence_numbers_may_wrap_in_between() -> None:
    talk = repeated(isn=(1 << 32) - 6)
    assert told(client_of(answered(talk, (0, 5)))) == NEEDLESS


def test_an_acknowledgment_without_a_report_leaves_them_lost() -> None:
    assert told(client_of(repeated().ack(False))) == NEEDED


def test_a_block_beyond_what_is_acknowledged_reports_a_hole_and_no_duplicate() -> None:
    talk = repeated().client(b"a", b"b")
    first = talk.packets_sent[4].sequence
    sent = replace(talk._packet(False, ACK), acknowledgment=first + 5)
    talk = talk._add(replace(sent, options=sack((first + 6, first + 7))))
    assert told(client_of(talk)) == NEEDED


def test_a_block_within_the_next_one_is_a_duplicate_above_a_hole() -> None:
    talk = conversation(has_acks=False).client(b"one", b"two", REQUEST).repeat(6, gap_ns=20 * MS)
    first = talk.packets_sent[5].sequence
    sent = replace(talk._packet(False, ACK), acknowledgment=first - 3)
    blocks = sack((first, first + 5), (first - 1, first + 5))
    assert told(client_of(talk._add(replace(sent, options=blocks)))) == NEEDLESS
    alone = sack((first, first + 5))
    assert told(client_of(talk._add(replace(sent, options=alone)))) == NEEDED


@pytest.mark.parametrize("blocks", [((-3, 0),), ((5, 9),), ((5, 0),)])
def test_a_report_of_other_bytes_does_not_count(blocks: tuple[tuple[int, int], ...]) -> None:
    talk = repeated().client(b"more")
    assert told(client_of(answered(talk, *blocks))) == NEEDED


def test_of_a_report_of_some_bytes_only_these_were_not_lost() -> None:
    found = told(client_of(answered(repeated(), (-2, 3))))
    assert found == NEEDLESS | {"network_lost_bytes": 2}


def test_a_report_counts_once_and_soon_or_first() -> None:
    talk = answered(answered(repeated(), (0, 5)), (0, 5))
    assert told(client_of(talk)) == NEEDLESS
    # A host that stood still reports when it runs again.
    assert told(client_of(answered(repeated(), (0, 5), gap_ns=9 * SECOND))) == NEEDLESS
    late = answered(repeated().client(b"later", gap_ns=SECOND), (0, 5))
    assert told(client_of(late)) == NEEDED


@pytest.mark.parametrize("options", [b"\x05", b"\x05\x00", b"\x05\x0a\x00", b"\x00\x05\x0a\x00"])
def test_options_that_are_cut_or_wrong_report_nothing(options: bytes) -> None:
    talk = repeated()
    sent = replace(talk._packet(False, ACK), options=options.ljust(4, b"\x01"))
    assert told(client_of(talk._add(sent))) == NEEDED


def resent(talk: Conversation, number: int, *gaps_ms: int) -> Conversation:
    for gap in gaps_ms:
        talk = talk.repeat(number, gap_ns=gap * MS)
    return talk


def test_a_host_that_is_gone_acknowledges_nothing_of_what_is_sent_again() -> None:
    talk = conversation().client(b"one")
    talk = replace(talk, has_acks=False).client(REQUEST)
    talk = resent(talk, 6, 200, 400, 800, 1600)
    assert client_of(talk).unacknowledged_ns == 3 * SECOND
    # What is sent for the first time meanwhile does not shorten it.
    talk = resent(talk.client(b"more"), 6, 3_200)
    assert client_of(talk).unacknowledged_ns > 6 * SECOND


def test_an_acknowledgment_ends_the_wait() -> None:
    """As of a paused process, for which its host acknowledges."""
    talk = conversation(has_acks=False).client(b"one", REQUEST)
    talk = resent(talk, 5, 200).ack(False).client(b"later", gap_ns=5 * SECOND)
    assert client_of(resent(talk, 8, 200)).unacknowledged_ns == 200 * MS


def test_without_the_other_direction_nobody_knows() -> None:
    talk = conversation(has_acks=False).client(b"one", REQUEST)
    talk = resent(talk, 5, 200, 400, 800, 1600).one_way(True)
    assert client_of(talk).unacknowledged_ns == 0


def test_syns_that_nobody_answers_are_sent_again() -> None:
    syn = Sent(True, 1000, 0, SYN)
    again = [replace(syn, ip_id=number, gap_ns=gap * SECOND)
             for number, gap in enumerate((0, 1, 2, 4), 1)]  # fmt: skip
    counts = client_of(conversation()._with(again))
    assert (counts.unacknowledged_ns, counts.retransmitted_segments) == (7 * SECOND, 3)
