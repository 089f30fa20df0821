"""Conversations that read like a transcript, and every way a capture may show them.

    conversation().client(b"request").broker(b"response").split(3).double().segments()

A conversation is a list of packets, `sent` the bytes each side sent. Every step gives a new
conversation: `client` to `port_reuse` add packets at the end, `lose` to `vlan` change those that
are there. Packets are 10 µs apart unless told otherwise.
"""

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from hypothesis import strategies as st

from kdissect.capture.packet import Packet
from kdissect.packets.segment import ACK, FIN, PSH, RST, SYN, Segment
from tests.capture.writers import Captured, make_pcap
from tests.packets.builders import (
    BROKER,
    BROKER_V6,
    CLIENT,
    CLIENT_V6,
    make_ethernet,
    make_flow,
    make_ipv4,
    make_ipv6,
    make_tcp,
)

START_NS = 1_700_000_000_000_000_000
STEP_NS = 10_000
MSS = 1448
WINDOW = 501
CLIENT_PORT = 50_000
BROKER_PORT = 9092


@dataclass(frozen=True)
class Sent:
    """One packet; `sequence` and `acknowledgment` are raw, `gap_ns` is since the one before.

    `ip_id` tells a packet that was sent again from one that was captured again.
    """

    is_client: bool
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes = b""
    window: int = WINDOW
    gap_ns: int = STEP_NS
    captured_limit: int = 1 << 30
    ip_id: int = 0
    options: bytes = b""  # of TCP, padded to words

    @property
    def captured(self) -> bytes:
        return self.payload[: self.captured_limit]


class Streams(NamedTuple):
    """Bytes sent by the two sides of one incarnation."""

    client: bytes
    broker: bytes


@dataclass(frozen=True)
class Conversation:
    packets_sent: tuple[Sent, ...] = ()
    sent: tuple[Streams, ...] = ()
    client_isn: int = 1000
    broker_isn: int = 70_000
    has_acks: bool = True
    is_v6: bool = False
    vlans: tuple[tuple[int, int], ...] = ()

    # Steps that add packets.

    def client(self, *messages: bytes, gap_ns: int = STEP_NS) -> "Conversation":
        """The client sends each message in segments of MSS at most; the broker acknowledges."""
        return self._say(True, messages, gap_ns)

    def broker(self, *messages: bytes, gap_ns: int = STEP_NS) -> "Conversation":
        return self._say(False, messages, gap_ns)

    def ack(
        self, is_client: bool, window: int = WINDOW, gap_ns: int = STEP_NS, ahead: int = 0
    ) -> "Conversation":
        """A pure acknowledgment of all the other side sent, and `ahead` bytes more."""
        sent = self._packet(is_client, ACK, window=window, gap_ns=gap_ns)
        beyond = (sent.acknowledgment + ahead) % (1 << 32)
        return self._add(replace(sent, acknowledgment=beyond))

    def keepalive(self, is_client: bool, payload: bytes = b"") -> "Conversation":
        """A probe of the last byte that was sent, with any byte in it or none."""
        probe = self._packet(is_client, ACK, payload)
        return self._add(replace(probe, sequence=(probe.sequence - 1) % (1 << 32)))

    def close(self, is_client: bool = True) -> "Conversation":
        """FIN of one side, FIN of the other, ACK."""
        first = self._packet(is_client, FIN | ACK)
        second = self._packet(not is_client, FIN | ACK)
        acknowledged = (first.sequence + 1) % (1 << 32)
        second = replace(second, acknowledgment=acknowledged)
        last = replace(
            first,
            flags=ACK,
            sequence=acknowledged,
            acknowledgment=(second.sequence + 1) % (1 << 32),
        )
        return self._add(first, second, last)

    def reset(self, is_client: bool = True) -> "Conversation":
        return self._add(self._packet(is_client, RST, window=0))

    def open(self) -> "Conversation":
        """The three packets of the handshake."""
        syn = Sent(True, self.client_isn, 0, SYN)
        syn_ack = Sent(False, self.broker_isn, (self.client_isn + 1) % (1 << 32), SYN | ACK)
        return self._add(syn, syn_ack, self._packet(True, ACK))

    def port_reuse(
        self, client_isn: int = 900_000_000, broker_isn: int = 2_500_000_000, opened: bool = True
    ) -> "Conversation":
        """Another connection begins on the same addresses and ports."""
        reused = replace(
            self,
            sent=(*self.sent, Streams(b"", b"")),
            client_isn=client_isn,
            broker_isn=broker_isn,
        )
        return reused.open() if opened else reused

    # Steps that change packets on the wire and in the capture.

    def lose(self, *numbers: int) -> "Conversation":
        """The capture lacks these packets, counted from 1."""
        lost = {number - 1 for number in numbers}
        assert lost <= set(range(len(self.packets_sent)))
        kept = [sent for index, sent in enumerate(self.packets_sent) if index not in lost]
        return self._with(kept)

    def lose_where(self, is_lost: Callable[[Sent], bool]) -> "Conversation":
        return self._with([sent for sent in self.packets_sent if not is_lost(sent)])

    def one_way(self, is_client: bool) -> "Conversation":
        """Only the packets of one side were captured."""
        return self.lose_where(lambda sent: sent.is_client is not is_client)

    def start_late(self, count: int = 3) -> "Conversation":
        """The capture begins after the first `count` packets; 3 are the handshake."""
        return self._with(list(self.packets_sent[count:]))

    def reorder(self) -> "Conversation":
        """Each two neighbours of one direction that hold data change places."""
        packets = list(self.packets_sent)
        at = 0
        while at + 1 < len(packets):
            one, two = packets[at], packets[at + 1]
            if one.payload and two.payload and one.is_client == two.is_client:
                packets[at], packets[at + 1] = two, one
                at += 1
            at += 1
        return self._with(packets)

    def shuffle(self, source: random.Random) -> "Conversation":
        """All but SYN and RST in any order."""
        places = [
            index for index, sent in enumerate(self.packets_sent) if not sent.flags & (SYN | RST)
        ]
        order = source.sample(places, len(places))
        packets = list(self.packets_sent)
        for place, origin in zip(places, order, strict=True):
            packets[place] = self.packets_sent[origin]
        return self._with(packets)

    def shuffle_data(self, order: list[int]) -> "Conversation":
        """The packets with data in this order: indices among them."""
        places = [index for index, sent in enumerate(self.packets_sent) if sent.payload]
        packets = list(self.packets_sent)
        for place, origin in zip(places, order, strict=True):
            packets[place] = self.packets_sent[places[origin]]
        return self._with(packets)

    def double(self) -> "Conversation":
        """Every packet twice, as when two interfaces are captured."""
        return self._with([sent for sent in self.packets_sent for _ in range(2)])

    def repeat(
        self, number: int, payload: bytes | None = None, gap_ns: int = STEP_NS
    ) -> "Conversation":
        """The packet, counted from 1, sent once more at the end, perhaps with another payload."""
        sent = replace(self.packets_sent[number - 1], gap_ns=gap_ns)
        return self._add(sent if payload is None else replace(sent, payload=payload))

    def delay(self, number: int) -> "Conversation":
        """The packet, counted from 1, comes last."""
        return self.repeat(number).lose(number)

    def split(self, size: int) -> "Conversation":
        """No segment has more than `size` bytes."""
        return self._cut_up(lambda payload: list(range(size, len(payload), size)))

    def resegment(self, source: random.Random) -> "Conversation":
        """Segments are cut at random places."""
        return self._cut_up(
            lambda payload: (
                sorted(source.sample(range(1, len(payload)), source.randrange(8)))
                if len(payload) > 8
                else []
            )
        )

    def overlap(self, size: int) -> "Conversation":
        """Each segment begins `size` bytes earlier; packets must still be in order, and once."""
        said: dict[bool, bytes] = {True: b"", False: b""}
        packets: list[Sent] = []
        for sent in self.packets_sent:
            if sent.flags & SYN:
                said[sent.is_client] = b""
            before = said[sent.is_client][-size:] if sent.payload else b""
            sequence = (sent.sequence - len(before)) % (1 << 32)
            packets.append(replace(sent, sequence=sequence, payload=before + sent.payload))
            said[sent.is_client] += sent.payload
        return self._with(packets)

    def cut(self, size: int) -> "Conversation":
        """The capture keeps only the first `size` bytes of each payload (snaplen)."""
        return self._with([replace(sent, captured_limit=size) for sent in self.packets_sent])

    def vlan(self, tag: int) -> "Conversation":
        return replace(self, vlans=(*self.vlans, (0x8100, tag)))

    # Output.

    @property
    def client_bytes(self) -> bytes:
        return self.sent[-1].client

    @property
    def broker_bytes(self) -> bytes:
        return self.sent[-1].broker

    def segments(self) -> list[Segment]:
        """Segments as from the packets stage, in buffers with other bytes around."""
        flow, back = self._flows()
        return [
            Segment(
                number, number, 0, time_ns, flow if sent.is_client else back,
                sent.sequence, sent.acknowledgment, sent.flags, sent.window,
                b"<<" + bytes(20) + sent.options + sent.captured + b">>", start,
                start + len(sent.captured), len(sent.payload), 2,
                -1 if self.is_v6 else sent.ip_id,
            )
            for number, time_ns, sent in self._timed()
            for start in [22 + len(sent.options)]
        ]  # fmt: skip

    def captured(self) -> list[Captured]:
        """Ethernet packets for a capture file."""
        return [
            Captured(data[: len(data) - len(sent.payload) + len(sent.captured)], time_ns, len(data))
            for _, time_ns, sent in self._timed()
            for data in [self._frame(sent)]
        ]

    def packets(self) -> list[Packet]:
        """Packets as from the capture stage."""
        return [
            Packet(
                number, one.time_ns, 1, one.data, 0, len(one.data), one.original_length, number, 0
            )
            for number, one in enumerate(self.captured(), 1)
        ]

    def pcap(self) -> bytes:
        """A capture file with nanoseconds."""
        return make_pcap(self.captured(), magic=0xA1B23C4D)

    # How it is made.

    def _say(self, is_client: bool, messages: tuple[bytes, ...], gap_ns: int) -> "Conversation":
        after = self
        for message in messages:
            for start in range(0, len(message), MSS):
                part = message[start : start + MSS]
                sent = after._packet(is_client, ACK | PSH, part, gap_ns=gap_ns)
                after = after._add(sent)._heard(is_client, part)
            if self.has_acks:
                after = after._add(after._packet(not is_client, ACK))
        return after

    def _packet(
        self,
        is_client: bool,
        flags: int,
        payload: bytes = b"",
        window: int = WINDOW,
        gap_ns: int = STEP_NS,
    ) -> Sent:
        client = (self.client_isn + 1 + len(self.client_bytes)) % (1 << 32)
        broker = (self.broker_isn + 1 + len(self.broker_bytes)) % (1 << 32)
        here, there = (client, broker) if is_client else (broker, client)
        return Sent(is_client, here, there, flags, payload, window, gap_ns)

    def _add(self, *sent: Sent) -> "Conversation":
        latest = max((one.ip_id for one in self.packets_sent), default=0)
        added = [replace(one, ip_id=ip_id) for ip_id, one in enumerate(sent, latest + 1)]
        return replace(self, packets_sent=(*self.packets_sent, *added))

    def _heard(self, is_client: bool, part: bytes) -> "Conversation":
        client, broker = self.sent[-1]
        now = Streams(client + part, broker) if is_client else Streams(client, broker + part)
        return replace(self, sent=(*self.sent[:-1], now))

    def _with(self, packets: list[Sent]) -> "Conversation":
        return dataclasses.replace(self, packets_sent=tuple(packets))

    def _cut_up(self, places: Callable[[bytes], list[int]]) -> "Conversation":
        packets: list[Sent] = []
        for sent in self.packets_sent:
            for start, end in pairwise([0, *places(sent.payload), len(sent.payload)]):
                sequence = (sent.sequence + start) % (1 << 32)
                packets.append(replace(sent, sequence=sequence, payload=sent.payload[start:end]))
        return self._with(packets)

    def _timed(self) -> list[tuple[int, int, Sent]]:
        timed: list[tuple[int, int, Sent]] = []
        now = START_NS - STEP_NS
        for number, sent in enumerate(self.packets_sent, 1):
            now += sent.gap_ns
            timed.append((number, now, sent))
        return timed

    def _flows(self) -> tuple[bytes, bytes]:
        client, broker = (CLIENT_V6, BROKER_V6) if self.is_v6 else (CLIENT, BROKER)
        return (
            make_flow(client, broker, CLIENT_PORT, BROKER_PORT),
            make_flow(broker, client, BROKER_PORT, CLIENT_PORT),
        )

    def _frame(self, sent: Sent) -> bytes:
        here, there = (CLIENT_PORT, BROKER_PORT) if sent.is_client else (BROKER_PORT, CLIENT_PORT)
        client, broker = (CLIENT_V6, BROKER_V6) if self.is_v6 else (CLIENT, BROKER)
        source, destination = (client, broker) if sent.is_client else (broker, client)
        tcp = make_tcp(
            sent.payload,
            here,
            there,
            sent.sequence,
            sent.acknowledgment,
            sent.flags,
            sent.window,
            sent.options,
        )
        if self.is_v6:
            return make_ethernet(make_ipv6(tcp, source, destination), vlans=self.vlans)
        packet = make_ipv4(tcp, source, destination, identification=sent.ip_id & 0xFFFF)
        return make_ethernet(packet, vlans=self.vlans)


def conversation(
    client_isn: int = 1000,
    broker_isn: int = 70_000,
    has_acks: bool = True,
    is_v6: bool = False,
) -> Conversation:
    """A conversation after its handshake."""
    begun = Conversation((), (Streams(b"", b""),), client_isn, broker_isn, has_acks, is_v6)
    return begun.open()


Delivery = Callable[[Conversation], Conversation]
"""A way the same bytes may be delivered, all of them at least once."""

DELIVERIES: dict[str, Delivery] = {
    "whole": lambda talk: talk,
    "byte by byte": lambda talk: talk.split(1),
    "small segments": lambda talk: talk.split(7),
    "reordered": lambda talk: talk.split(50).reorder(),
    "doubled": lambda talk: talk.double(),
    "overlapping": lambda talk: talk.split(20).overlap(13),
    "shuffled": lambda talk: talk.split(100).shuffle(random.Random(1)),
    "shuffled, doubled and overlapping": lambda talk: (
        talk.split(100).overlap(60).double().shuffle(random.Random(2))
    ),
}


@st.composite
def deliveries(draw: st.DrawFn) -> Delivery:
    """Any of them: cut anywhere, overlapping, doubled, in any order."""
    source = draw(st.randoms(use_true_random=False))
    size = draw(st.integers(1, 64))
    steps: dict[str, Delivery] = {
        "split": lambda talk: talk.split(size),
        "resegment": lambda talk: talk.resegment(source),
        "overlap": lambda talk: talk.overlap(size),
        "double": lambda talk: talk.double(),
        "reorder": lambda talk: talk.reorder(),
        "shuffle": lambda talk: talk.shuffle(source),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(steps))))

    def deliver(talk: Conversation) -> Conversation:
        for name, step in steps.items():
            talk = step(talk) if name in chosen else talk
        return talk

    return deliver
