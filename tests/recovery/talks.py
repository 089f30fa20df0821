"""Recorded connections as segments that can be lost, cut and retransmitted, and their truth.

A `Talk` is one whole connection of a committed capture. Its truth is kdissect's result when nothing
is missing (which other tests hold against side-cars and tshark); the frames of its streams are
counted here, from the size fields alone.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.exchanges.pairing import Exchanges
from kdissect.messages.field_mapping import fact_plans
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import ACK, FIN, PSH, SYN, Segment, flow_of
from tests.exchange_builders import Found, Row, found_in
from tests.packets.builders import make_ethernet, make_ipv4, make_tcp

CAPTURES = Path(__file__).parents[2] / "captures"
START_NS = 1_700_000_000_000_000_000
HEADERS = 54  # bytes of Ethernet, IPv4 and TCP headers before the payload
BROKER_PORT = 9092
FIRST_PORT = 40_000  # of the clients
LARGEST_SEGMENT = 65_000  # an IPv4 packet holds 65 535 bytes
TABLES = ("partitions", "batches", "records", "errors")

CLIENT, BROKER = 0, 1  # sides; a direction is named after the side that sends


class Wire(NamedTuple):
    """One TCP segment of a talk; `position` is the stream position of its first byte.

    The capture holds the first `captured` bytes of the payload. `acknowledged` is a position in the
    other direction's stream; both are -1 for the byte that is the SYN. `ip_id` counts the packets
    that were sent, so a packet that is captured twice has the same one, and a retransmission
    another. `number` is the packet's in the whole capture, which a faulty capture keeps; a
    retransmission has its own.
    """

    talk: int
    side: int
    position: int
    acknowledged: int
    flags: int
    window: int
    payload: bytes
    time_ns: int
    captured: int = 1 << 30
    ip_id: int = 0
    number: int = 0

    @property
    def end(self) -> int:
        return self.position + len(self.payload)

    @property
    def captured_end(self) -> int:
        return self.position + min(len(self.payload), self.captured)


@dataclass(frozen=True)
class TrueFrame:
    """One frame of a stream; `position` is that of its size field."""

    position: int
    size: int

    @property
    def end(self) -> int:
        return self.position + 4 + self.size


@dataclass(frozen=True)
class TrueExchange:
    """An exchange of a clean talk: its frames, its row, and its rows in other tables."""

    request: TrueFrame
    response: TrueFrame | None
    row: Row
    rows: dict[str, list[Row]]


@dataclass(frozen=True)
class Talk:
    """One connection of a clean capture, from SYN on; `name` gives its origin."""

    name: str
    wires: tuple[Wire, ...]

    @cached_property
    def streams(self) -> tuple[bytes, bytes]:
        """Bytes sent by each side."""
        return stream_of(self.wires, CLIENT), stream_of(self.wires, BROKER)

    @cached_property
    def frames(self) -> tuple[list[TrueFrame], list[TrueFrame]]:
        """The frames of each side, whole ones only."""
        return frames_of(self.streams[CLIENT]), frames_of(self.streams[BROKER])

    @cached_property
    def found(self) -> Found:
        """Rows when nothing is missing."""
        return dissect(packets_of(numbered(self.wires)))

    @cached_property
    def truth(self) -> list[TrueExchange]:
        """Every exchange, in order of the requests."""
        return true_exchanges(self.found)

    @cached_property
    def size(self) -> int:
        return len(self.streams[0]) + len(self.streams[1])


def stream_of(wires: Iterable[Wire], side: int) -> bytes:
    stream = bytearray()
    for wire in wires:
        if wire.side == side and wire.payload and wire.end > len(stream):
            assert wire.position <= len(stream), "a clean talk has no holes"
            stream += wire.payload[len(stream) - wire.position :]
    return bytes(stream)


def frames_of(stream: bytes) -> list[TrueFrame]:
    frames = []
    at = 0
    while at + 4 <= len(stream):
        size = int.from_bytes(stream[at : at + 4], "big", signed=True)
        frame = TrueFrame(at, size)
        if size < 0 or frame.end > len(stream):
            break
        frames.append(frame)
        at = frame.end
    return frames


@cache
def plans() -> Any:
    return fact_plans()


def dissect(packets: Sequence[Packet]) -> Found:
    """All tables of packets."""
    stage = Exchanges()
    stage.bodies.plans = plans()
    return found_in(packets, stage, has_payload=True)


def true_exchanges(found: Found) -> list[TrueExchange]:
    rows = {row["exchange_id"]: row for row in found.rows}
    others: dict[int, dict[str, list[Row]]] = {}
    for table in TABLES:
        for row in found.tables[table]:
            others.setdefault(row["exchange_id"], {}).setdefault(table, []).append(row)
    exchanges = []
    for exchange in found.exchanges:
        request, response = exchange.request_frame, exchange.response_frame
        assert request is not None
        exchanges.append(
            TrueExchange(
                TrueFrame(request.position, request.size),
                None if response is None else TrueFrame(response.position, response.size),
                rows[exchange.exchange_id],
                others.get(exchange.exchange_id, {}),
            )
        )
    return sorted(exchanges, key=lambda exchange: exchange.request.position)


# Packets


def packets_of(wires: Iterable[Wire], broker_port: int = BROKER_PORT) -> list[Packet]:
    """Wires as captured packets, with their numbers."""
    return [packet_of(wire, broker_port) for wire in wires]


def packet_of(wire: Wire, broker_port: int) -> Packet:
    ends = [("10.0.0.1", FIRST_PORT + wire.talk), ("10.0.0.9", broker_port)]
    (source, source_port), (target, target_port) = ends if wire.side == CLIENT else ends[::-1]
    tcp = make_tcp(
        wire.payload, source_port, target_port,
        sequence_of(wire.talk, wire.side, wire.position),
        sequence_of(wire.talk, 1 - wire.side, wire.acknowledged) if wire.flags & ACK else 0,
        wire.flags, wire.window,
    )  # fmt: skip
    # An id of 0 carries no information.
    data = make_ethernet(make_ipv4(tcp, source, target, identification=1 + wire.ip_id % 0xFFFF))
    captured = min(len(data), HEADERS + wire.captured)
    number = wire.number
    return Packet(number, wire.time_ns, 1, data, 0, captured, len(data), number, 0)


def numbered(wires: Iterable[Wire]) -> list[Wire]:
    """Wires as packets that are sent one after the other: each has another IP id and number."""
    return [wire._replace(ip_id=number, number=number + 1) for number, wire in enumerate(wires)]


def sequence_of(talk: int, side: int, position: int) -> int:
    """The sequence number of a stream position; some streams pass 2**32."""
    initial = (0xFFFFF000, 0x10000, 0x7FFFFE00)[talk % 3] + side * 0x1234567
    return (initial + 1 + position) & 0xFFFFFFFF


def merged(talks: Sequence[Talk], starts_ns: Sequence[int]) -> list[Wire]:
    """Talks at the same time, each beginning at its time; number n gets client port 40000 + n."""
    wires = []
    for number, (talk, start) in enumerate(zip(talks, starts_ns, strict=True)):
        first = talk.wires[0].time_ns
        wires += [
            wire._replace(talk=number, time_ns=START_NS + start + wire.time_ns - first)
            for wire in talk.wires
        ]
    return numbered(sorted(wires, key=lambda wire: wire.time_ns))


# Talks of captures


def recorded(name: str) -> list[Talk]:
    """The whole connections of a capture that carry data and have no oddities."""
    decoder = PacketDecoder()
    by_flow: dict[bytes, list[list[Segment]]] = {}
    for packets in open_captures(str(CAPTURES / name)):
        for packet in packets:
            segment = decoder.decode(packet)
            if segment is None:
                continue
            key = min(flow_of(segment), reverse(flow_of(segment)))
            connections = by_flow.setdefault(key, [[]])
            if segment.flags & (SYN | ACK) == SYN and connections[-1]:
                connections.append([])
            connections[-1].append(segment)
    talks = []
    for connections in by_flow.values():
        for segments in connections:
            talk = talk_of(f"{name}#{segments[0].number}", segments)
            if talk is not None:
                talks.append(talk)
    return talks


def reverse(flow: bytes) -> bytes:
    size = (len(flow) - 4) // 2
    return flow[size : 2 * size] + flow[:size] + flow[-2:] + flow[-4:-2]


def talk_of(name: str, segments: Sequence[Segment]) -> Talk | None:
    """The talk of a connection's segments; None when its start is missing or it has no frames."""
    if len(segments) < 4 or segments[0].flags & (SYN | ACK) != SYN:
        return None
    if segments[1].flags & (SYN | ACK) != SYN | ACK:
        return None
    client = flow_of(segments[0])
    initial = (segments[0].sequence, segments[1].sequence)
    wires = []
    for segment in segments:
        side = CLIENT if flow_of(segment) == client else BROKER
        wires.append(
            Wire(
                0,
                side,
                ((segment.sequence - initial[side]) & 0xFFFFFFFF) - 1,
                ((segment.acknowledgment - initial[1 - side]) & 0xFFFFFFFF) - 1,
                segment.flags,
                segment.window,
                segment.data[segment.start : segment.end],
                segment.time_ns,
            )
        )
    talk = Talk(name, tuple(wires))
    return talk if is_clean(talk) else None


def is_clean(talk: Talk) -> bool:
    """Both streams are whole and end with a frame, and kdissect finds nothing odd in them."""
    try:
        streams = talk.streams
    except AssertionError:
        return False
    for stream, frames in zip(streams, talk.frames, strict=True):
        if not frames or frames[-1].end != len(stream):
            return False
    found = talk.found
    if found.tables["problems"] or len(found.tables["connections"]) != 1:
        return False
    return bool(found.exchanges) and all(one.request_frame for one in found.exchanges)


@cache
def talks_in(name: str) -> tuple[Talk, ...]:
    """The talks of a capture, read once."""
    return tuple(recorded(name))


# Talks made of recorded frames


def generated(talk: Talk, mss: int, source: random.Random) -> Talk:
    """The frames of a talk in new segments, of a pipelining client and a broker with delayed ACKs.

    Frames keep their order within each direction, and a response stays behind its request.
    """
    messages = timed_frames(talk)
    wires = [
        Wire(0, CLIENT, -1, -1, SYN, 501, b"", START_NS),
        Wire(0, BROKER, -1, 0, SYN | ACK, 501, b"", START_NS + 40_000),
        Wire(0, CLIENT, 0, 0, ACK, 501, b"", START_NS + 80_000),
    ]
    now = START_NS + 80_000
    at = [0, 0]
    previous = messages[0][0]
    for time_ns, side, frame in messages:
        now += min(time_ns - previous, 50_000_000) + source.randrange(5_000, 50_000)
        previous = time_ns
        data = talk.streams[side][frame.position : frame.end]
        for count, start in enumerate(range(0, len(data), mss), 1):
            part = data[start : start + mss]
            is_last = start + mss >= len(data)
            flags = ACK | PSH if is_last else ACK
            wires.append(Wire(0, side, at[side], at[1 - side], flags, 501, part, now))
            at[side] += len(part)
            now += 2_000
            if count % 2 == 0 or is_last:
                wires.append(Wire(0, 1 - side, at[1 - side], at[side], ACK, 501, b"", now))
    for side, fin in ((CLIENT, 0), (BROKER, 1)):
        now += 20_000
        flags = FIN | ACK
        wires.append(Wire(0, side, at[side], at[1 - side] + fin, flags, 501, b"", now))
    wires.append(Wire(0, CLIENT, at[CLIENT] + 1, at[BROKER] + 1, ACK, 501, b"", now + 20_000))
    return Talk(f"{talk.name}@{mss}", tuple(wires))


def timed_frames(talk: Talk) -> list[tuple[int, int, TrueFrame]]:
    """Every frame with the time of its last byte and its side, in the order of those times."""
    found = []
    for side in (CLIENT, BROKER):
        wires = [wire for wire in talk.wires if wire.side == side and wire.payload]
        for frame in talk.frames[side]:
            last = next(wire for wire in wires if wire.end >= frame.end)
            found.append((last.time_ns, side, frame))
    return sorted(found, key=lambda entry: entry[0])
