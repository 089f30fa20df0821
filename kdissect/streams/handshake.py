"""TCP handshake: SYN and first ACK, and segments that begin another connection on known ports."""

from typing import Final

from mypy_extensions import i64

from kdissect.packets.segment import ACK, SYN, Segment
from kdissect.streams.events import ACCEPTER, OPENER, OWN_PAST, RETRANSMISSION
from kdissect.streams.receiver import Receiver
from kdissect.streams.sequence import MASK, distance

# A SYN this close before the first data seen is that connection's own, captured late.
LATE_SYN_BYTES: Final = 65_536
# Two far segments are adjacent if the second starts this near to the end of the first.
NEIGHBOUR_BYTES: Final = 1 << 20


def is_new_incarnation(receiver: Receiver, segment: Segment) -> bool:
    """Return whether a SYN begins another connection than the known one on its ports."""
    if receiver.syn_sequence >= 0:
        return segment.sequence != receiver.syn_sequence
    if receiver.next_sequence >= 0:
        return not is_just_before(receiver.position_of((segment.sequence + 1) & MASK))
    if receiver.connection.closed_by:
        return True
    peer = receiver.peer
    if peer.syn_sequence >= 0 or peer.next_sequence < 0:
        return False
    # The other side was already sending, without SYN.
    return not (segment.flags & ACK and is_just_before(peer.position_of(segment.acknowledgment)))


def is_just_before(position: i64) -> bool:
    """Return whether a stream starting at `position` can be the one first seen at 0."""
    return -LATE_SYN_BYTES <= position <= 0


def follows(segment: Segment, stray: Segment) -> bool:
    """Return whether a segment is adjacent to one set aside, and not a copy of it."""
    ahead = distance(segment.sequence, stray.sequence + stray.payload_length)
    return segment.sequence != stray.sequence and -NEIGHBOUR_BYTES <= ahead <= NEIGHBOUR_BYTES


def note_syn(receiver: Receiver, segment: Segment) -> None:
    """Process a SYN of the receiver's connection."""
    connection = receiver.connection
    peer = receiver.peer
    connection.use_history(OWN_PAST)
    is_again = receiver.syn_sequence >= 0
    if is_again:
        receiver.counts.retransmitted_segments += 1
        connection.tcp_events += RETRANSMISSION
        if receiver.direction == OPENER and receiver.peer.counts.packets == 0:
            receiver.note_wait(segment.sequence, connection.first_time_ns, segment.time_ns)
    receiver.syn_sequence = segment.sequence
    connection.set_start_seen(receiver.direction, True)
    if receiver.next_sequence < 0:
        receiver.start((segment.sequence + 1) & MASK)
    if (receiver.direction == ACCEPTER) == (segment.flags & ACK != 0):
        connection.syn_seen = True
    if receiver.direction == ACCEPTER:
        receiver.awaits_handshake = connection.handshake_rtt_ns < 0
        if not is_again and segment.flags & ACK and peer.syn_ns >= 0:
            connection.note_handshake_half(ACCEPTER, since(peer.syn_ns, segment))
        # Of two copies, it is unknown which one is answered.
        receiver.syn_ns = segment.time_ns if segment.flags & ACK and not is_again else -1
    elif peer.syn_sequence < 0:
        # Of several copies the last before the SYN-ACK is most likely the one answered.
        receiver.syn_ns = segment.time_ns


def note_handshake(receiver: Receiver, segment: Segment) -> None:
    """Process an acknowledgment as part of the handshake."""
    peer = receiver.peer
    connection = receiver.connection
    if peer.next_sequence < 0 and receiver.syn_sequence >= 0:
        is_first = segment.sequence == (receiver.syn_sequence + 1) & MASK
        # The peer's SYN was not captured, but this acknowledges it. Data acknowledged by a later
        # segment has been sent meanwhile, and may be captured after it.
        if is_first or segment.flags & SYN:
            peer.start(segment.acknowledgment)
            connection.set_start_seen(peer.direction, is_first)
    if receiver.direction != OPENER or segment.flags & SYN:
        return
    if peer.awaits_handshake:
        peer.awaits_handshake = False
        if receiver.syn_ns >= 0:
            connection.handshake_rtt_ns = since(receiver.syn_ns, segment)
        if peer.syn_ns >= 0:
            connection.note_handshake_half(OPENER, since(peer.syn_ns, segment))


def since(time_ns: i64, segment: Segment) -> i64:
    """Time from then to the segment; -1, unknown, if packets are not in order of time."""
    return max(-1, segment.time_ns - time_ns)
