"""A faulty capture, and which bytes of the streams it holds."""

from collections.abc import Sequence
from typing import NamedTuple

from kdissect.packets.segment import FIN, SYN
from tests.recovery.talks import Talk, TrueFrame, Wire

LOST, CAPTURED, CUT = 0, 1, 2


class Case(NamedTuple):
    """A faulty capture: `wires` in capture order are of `talks`, by number."""

    talks: Sequence[Talk]
    wires: Sequence[Wire]
    broker_port: int
    loses: bool


class Seen:
    """What a capture holds of one direction of a talk."""

    def __init__(self, length: int) -> None:
        self.state = bytearray(length)
        self.wires: list[tuple[int, Wire]] = []
        self.has_syn = False
        self.has_fin = False
        # Without SYN the stream starts with the first data seen; what lies before it is too late.
        self.start = 0
        self.payload = 0

    def add(self, number: int, wire: Wire) -> None:
        """One more packet of the direction, in the order of the capture."""
        if wire.flags & SYN:
            self.has_syn = True
        self.has_fin = self.has_fin or bool(wire.flags & FIN)
        if not wire.payload:
            return
        if not self.wires and not self.has_syn:
            self.start = wire.position
        self.payload += wire.captured_end - wire.position
        self.wires.append((number, wire))
        # The first copy of a byte counts, also when the capture cut it off.
        for at in range(max(wire.position, self.start), min(wire.end, len(self.state))):
            if self.state[at] == LOST:
                self.state[at] = CAPTURED if at < wire.captured_end else CUT

    def survives(self, start: int, end: int) -> bool:
        """Whether every byte of a part was captured."""
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
        """Bytes missing between those that were captured."""
        first, last = self.state.find(CAPTURED), self.state.rfind(CAPTURED)
        if first < 0:
            return 0
        return last + 1 - first - self.state.count(CAPTURED, first, last + 1)

    def lost(self) -> int:
        """Bytes missing in all; the ACK of a FIN that was not captured looks like one more."""
        return len(self.state) - self.state.count(CAPTURED) + (0 if self.has_fin else 1)


def seen_of(case: Case) -> list[tuple[Seen, Seen]]:
    seen = [(Seen(len(talk.streams[0])), Seen(len(talk.streams[1]))) for talk in case.talks]
    for number, wire in enumerate(case.wires, 1):
        seen[wire.talk][wire.side].add(number, wire)
    return seen
