"""A faulty capture, and which bytes of the streams it holds."""

from collections.abc import Sequence
from typing import NamedTuple

from kdissect.packets.segment import ACK, FIN, SYN
from kdissect.streams.acknowledged import REORDER_NS
from tests.recovery.talks import Talk, TrueFrame, Wire

LOST, CAPTURED, CUT, LATE = 0, 1, 2, 3


class Case(NamedTuple):
    """A faulty capture: `wires` in capture order are of `talks`, by number.

    `whole` are the same packets before anything happened to them.
    """

    talks: Sequence[Talk]
    wires: Sequence[Wire]
    broker_port: int
    loses: bool
    mixes: bool = False
    whole: Sequence[Wire] = ()

    @property
    def skips_sessions(self) -> bool:
        """Return whether values from fetch sessions may differ."""
        return self.loses or self.mixes


class Seen:
    """Captured part of one direction of a talk."""

    def __init__(self, length: int) -> None:
        self.state = bytearray(length)
        self.wires: list[tuple[int, Wire]] = []
        self.has_syn = False
        # Start of the stream for an observer of this part only: at its SYN, else at its first byte.
        self.start = -1
        self.has_fin = False
        self.payload = 0
        # Positions up to which the receiver acknowledged, and when it first did.
        self.acknowledged: list[tuple[int, int]] = []

    def add(self, number: int, wire: Wire) -> None:
        """One more packet of the direction, in the order of the capture."""
        if wire.flags & SYN:
            self.has_syn = True
        if self.start < 0 and (wire.payload or wire.flags & (SYN | FIN)):
            self.start = 0 if wire.flags & SYN else wire.position
        if wire.flags & FIN:
            self.has_fin = True
        if not wire.payload:
            return
        self.payload += wire.captured_end - wire.position
        self.wires.append((number, wire))
        late_end = self.late_end(wire.time_ns)
        # The first copy of a byte counts, also when the capture cut it off.
        for at in range(max(wire.position, self.start), min(wire.end, len(self.state))):
            if self.state[at] == LOST:
                is_captured = at < wire.captured_end
                self.state[at] = LATE if at < late_end else CAPTURED if is_captured else CUT

    def acknowledge(self, position: int, time_ns: int) -> None:
        """The other side acknowledges all bytes before a position."""
        if not self.acknowledged or position > self.acknowledged[-1][0]:
            self.acknowledged.append((position, time_ns))

    def late_end(self, time_ns: int) -> int:
        """The position before which bytes come too late: acknowledged so long ago that nothing
        waits for them any more."""
        settled = (end for end, time in self.acknowledged if time <= time_ns - REORDER_NS)
        return max(settled, default=0)

    def is_late(self, position: int) -> bool:
        return self.state[position] == LATE

    def survives(self, start: int, end: int) -> bool:
        """Return whether every byte of a part was captured."""
        return self.state.count(CAPTURED, start, end) == end - start

    def is_intact(self, frame: TrueFrame) -> bool:
        return self.survives(frame.position, frame.end)

    def packet_of(self, position: int) -> tuple[int, Wire] | None:
        """The first packet that had a byte on the wire, with its number."""
        for number, wire in self.wires:
            if wire.position <= position < wire.end:
                return number, wire
        return None

    def time_of(self, position: int) -> int | None:
        packet = self.packet_of(position)
        return None if packet is None else packet[1].time_ns

    def lost_inside(self) -> int:
        """Bytes surely missing between those that were captured."""
        first, last = self.state.find(CAPTURED), self.state.rfind(CAPTURED)
        if first < 0:
            return 0
        return self.state.count(LOST, first, last) + self.state.count(CUT, first, last)

    def lost(self) -> int:
        """Bytes missing in all; the ACK of a FIN that was not captured looks like one more."""
        return len(self.state) - self.state.count(CAPTURED) + (0 if self.has_fin else 1)


def seen_of(case: Case) -> list[tuple[Seen, Seen]]:
    seen = [(Seen(len(talk.streams[0])), Seen(len(talk.streams[1]))) for talk in case.talks]
    for wire in case.wires:
        seen[wire.talk][wire.side].add(wire.number, wire)
        if wire.flags & ACK:
            seen[wire.talk][1 - wire.side].acknowledge(wire.acknowledged, wire.time_ns)
    return seen
