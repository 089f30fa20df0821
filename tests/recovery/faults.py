"""Faults of captures: each takes packets in capture order and returns others.

Times never go back: packets that arrive late have a later time. A fault depends on the wires and on
`source` only, so a seed determines everything.
"""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from kdissect.packets.segment import FIN, PSH, SYN
from tests.recovery.talks import BROKER, CLIENT, HEADERS, LARGEST_SEGMENT, Wire, numbered

LATE_NS = 2_000_000  # of packets that overtake each other: less than kdissect waits for
TWIN_NS = 300_000  # between the copies of a packet

Fault = Callable[[list[Wire], random.Random], list[Wire]]


class FaultClass(NamedTuple):
    """Faults that are judged alike.

    `loses` tells whether bytes may be missing afterwards, `mixes` whether packets may overtake each
    other, after which fetch sessions differ, too. `drawn` gives the faults of one case, in the
    order in which they happen to a packet.
    """

    drawn: Callable[[random.Random], Sequence[Fault]]
    loses: bool = True
    mixes: bool = False
    is_odd_port: bool = False


# Nothing is lost


def untouched(wires: list[Wire], _source: random.Random) -> list[Wire]:
    return wires


def doubled(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Some or all packets twice, as two interfaces or a SPAN port both ways show them."""
    share = source.choice((0.05, 0.5, 1.0))
    copies = [
        wire._replace(time_ns=wire.time_ns + source.randrange(TWIN_NS))
        for wire in wires
        if source.random() < share
    ]
    return sorted([*wires, *copies], key=lambda wire: wire.time_ns)


def reordered(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Packets come up to 2 ms later; those that open a connection stay where they are."""
    share = source.choice((0.05, 0.5, 1.0))
    return sorted(
        (
            wire._replace(time_ns=wire.time_ns + source.randrange(LATE_NS))
            if source.random() < share and not wire.flags & SYN
            else wire
            for wire in wires
        ),
        key=lambda wire: wire.time_ns,
    )


def sent_again(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Some segments are sent again though they arrived, perhaps with the bytes around them."""
    share = source.choice((0.05, 0.3))
    more = []
    last = max((wire.number for wire in wires), default=0)
    for wire in wires:
        if wire.payload and source.random() < share:
            start = source.randrange(len(wire.payload)) if source.random() < 0.5 else 0
            late = source.choice((3_000_000, 40_000_000, 250_000_000, 3_000_000_000))
            more.append(
                wire._replace(
                    position=wire.position + start,
                    payload=wire.payload[start:],
                    time_ns=wire.time_ns + late,
                    ip_id=len(wires) + len(more),
                    number=last + 1 + len(more),
                )
            )
    return sorted([*wires, *more], key=lambda wire: wire.time_ns)


def resegmented(wires: list[Wire], source: random.Random) -> list[Wire]:
    """No segment has more than some number of bytes."""
    mss = source.choice((1460, 536, 100, 40, 7, source.randrange(4, 1500)))
    return numbered(split for wire in wires for split in cut_into(wire, mss))


def cut_into(wire: Wire, mss: int) -> list[Wire]:
    """A segment as several; a FIN goes with the last."""
    if len(wire.payload) <= mss:
        return [wire]
    splits = []
    for start, end in pairwise([*range(0, len(wire.payload), mss), len(wire.payload)]):
        is_last = end == len(wire.payload)
        flags = wire.flags if is_last else wire.flags & ~(FIN | PSH)
        splits.append(
            wire._replace(
                payload=wire.payload[start:end], position=wire.position + start, flags=flags
            )
        )
    return splits


def coalesced(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Neighbours of one direction become one segment, as receive offload makes them.

    A segment waits for those after it, so it comes at the time of the last.
    """
    share = source.choice((0.5, 1.0))
    waiting: dict[int, Wire] = {}
    found: list[Wire] = []
    for wire in wires:
        before = waiting.pop(wire.talk, None)
        if before is not None:
            joins = (
                wire.payload
                and wire.side == before.side
                and wire.position == before.end
                and not wire.flags & SYN
                and len(before.payload) + len(wire.payload) <= LARGEST_SEGMENT
                and source.random() < share
            )
            if joins:
                wire = wire._replace(
                    payload=before.payload + wire.payload, position=before.position
                )
            else:
                found.append(before)
        if wire.payload and not wire.flags & FIN:
            waiting[wire.talk] = wire
        else:
            found.append(wire)
    return sorted([*found, *waiting.values()], key=lambda wire: wire.time_ns)


# Bytes are lost


def one_lost(wires: list[Wire], source: random.Random) -> list[Wire]:
    """One packet with data is missing."""
    places = [at for at, wire in enumerate(wires) if wire.payload]
    lost = source.choice(places) if places else -1
    return [wire for at, wire in enumerate(wires) if at != lost]


def randomly_lost(wires: list[Wire], source: random.Random) -> list[Wire]:
    share = source.choice((0.001, 0.01, 0.05, 0.2, 0.5))
    return [wire for wire in wires if source.random() >= share]


def bursts_lost(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Runs of packets are missing, as when a capture buffer is full."""
    found: list[Wire] = []
    at = 0
    share = source.choice((0.005, 0.02))
    while at < len(wires):
        if source.random() < share:
            at += source.randrange(2, 40)
            continue
        found.append(wires[at])
        at += 1
    return found


def one_side_lost(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Packets of one direction are missing, none of the other."""
    side = source.randrange(2)
    share = source.choice((0.05, 0.2, 0.5))
    return [wire for wire in wires if wire.side != side or source.random() >= share]


def snapped(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Only the first bytes of each packet are kept."""
    size = source.choice((96, 128, 256, source.randrange(HEADERS, 600)))
    return [wire._replace(captured=size - HEADERS) for wire in wires]


def requests_only(wires: list[Wire], _source: random.Random) -> list[Wire]:
    return [wire for wire in wires if wire.side == CLIENT]


def responses_only(wires: list[Wire], _source: random.Random) -> list[Wire]:
    return [wire for wire in wires if wire.side == BROKER]


def started_late(wires: list[Wire], source: random.Random) -> list[Wire]:
    """The capture starts at any packet."""
    return wires[source.randrange(max(len(wires), 1)) :]


def ended_early(wires: list[Wire], source: random.Random) -> list[Wire]:
    """The capture ends at any packet."""
    return wires[: source.randrange(max(len(wires), 1)) + 1]


def without_handshake(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Drop the beginning of the connections; each starts at any of its packets."""
    talks = {wire.talk for wire in wires}
    skipped = {talk: source.choice((3, 3, source.randrange(3, 30))) for talk in sorted(talks)}
    found = []
    for wire in wires:
        skipped[wire.talk] -= 1
        if skipped[wire.talk] < 0:
            found.append(wire)
    return found


def combined(source: random.Random) -> Sequence[Fault]:
    """Two to four of them, in the order in which they happen to a packet."""
    chosen = source.sample(range(len(IN_ORDER)), source.randrange(2, 5))
    return [IN_ORDER[at] for at in sorted(chosen)]


IN_ORDER: tuple[Fault, ...] = (
    coalesced,
    resegmented,
    sent_again,
    doubled,
    reordered,
    randomly_lost,
    bursts_lost,
    one_side_lost,
    snapped,
    started_late,
    ended_early,
)


# Faults that make other packets of the same bytes: the result equals that of the whole capture.
SEGMENTING = (coalesced, resegmented)
LOSSLESS = (coalesced, resegmented, sent_again, doubled, reordered)


def always(*faults: Fault) -> Callable[[random.Random], Sequence[Fault]]:
    """These faults, without drawing."""
    return lambda _: faults


CLASSES: dict[str, FaultClass] = {
    "untouched": FaultClass(always(untouched), loses=False),
    "doubled": FaultClass(always(doubled), loses=False),
    "sent again": FaultClass(always(sent_again), loses=False),
    "reordered": FaultClass(always(reordered), loses=False, mixes=True),
    "re-segmented": FaultClass(always(resegmented), loses=False),
    "coalesced": FaultClass(always(coalesced), loses=False),
    "all that loses nothing": FaultClass(always(*LOSSLESS), loses=False, mixes=True),
    "one packet lost": FaultClass(always(one_lost)),
    "packets lost": FaultClass(always(randomly_lost)),
    "bursts lost": FaultClass(always(bursts_lost)),
    "one direction lossy": FaultClass(always(one_side_lost)),
    "snaplen": FaultClass(always(snapped)),
    "requests only": FaultClass(always(requests_only)),
    "responses only": FaultClass(always(responses_only)),
    "started late": FaultClass(always(started_late)),
    "ended early": FaultClass(always(ended_early)),
    "no handshake": FaultClass(always(without_handshake)),
    "no handshake, odd port": FaultClass(always(without_handshake), is_odd_port=True),
    "combined": FaultClass(combined),
    "combined, odd port": FaultClass(combined, is_odd_port=True),
}
