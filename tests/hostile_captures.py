"""Captures of large messages, made in linear time: whole segments of 60 KB, perhaps compressed."""

import gzip
from collections.abc import Iterable, Iterator

import zstandard

from kdissect.packets.segment import ACK, SYN
from tests.capture.writers import Captured, make_pcap
from tests.conversation import START_NS, STEP_NS
from tests.packets.builders import make_ethernet, make_ipv4, make_tcp

SEGMENT = 60_000
NANOSECONDS = 0xA1B23C4D
BROKER_PORT = 9092


class Talk:
    """The packets of one connection; `begin_ns` after the start of the capture."""

    def __init__(
        self,
        port: int = 50_000,
        begin_ns: int = 0,
        segment: int = SEGMENT,
        broker_port: int = BROKER_PORT,
    ) -> None:
        self.ports = (port, broker_port)
        self.segment = segment
        self.now_ns = START_NS + begin_ns
        self.next = [1000, 5000]
        self.packets: list[Captured] = []
        self._add(0, SYN)
        self._add(1, SYN | ACK)

    def client(self, frame: bytes) -> "Talk":
        """The client sends a frame."""
        return self._say(0, frame)

    def broker(self, frame: bytes) -> "Talk":
        return self._say(1, frame)

    def _say(self, side: int, frame: bytes) -> "Talk":
        for start in range(0, len(frame), self.segment):
            self._add(side, ACK, frame[start : start + self.segment])
        return self

    def _add(self, side: int, flags: int, payload: bytes = b"") -> None:
        tcp = make_tcp(
            payload, self.ports[side], self.ports[1 - side], self.next[side] % 2**32,
            self.next[1 - side] % 2**32, flags,
        )  # fmt: skip
        addresses = ("10.0.0.1", "10.0.0.9")
        packet = make_ipv4(tcp, addresses[side], addresses[1 - side])
        self.packets.append(Captured(make_ethernet(packet), self.now_ns))
        self.now_ns += STEP_NS
        self.next[side] += len(payload) + (1 if flags & SYN else 0)


def capture_of(talks: Iterable[Talk]) -> bytes:
    """A pcap with the packets of all connections in the order of time."""
    packets = [packet for talk in talks for packet in talk.packets]
    packets.sort(key=lambda packet: packet.time_ns)
    return make_pcap(packets, magic=NANOSECONDS)


def packed(capture: bytes, suffix: str) -> bytes:
    """The capture as a file that ends with `suffix`: .pcap, .pcap.gz or .pcap.zst."""
    if suffix == ".pcap.gz":
        return gzip.compress(capture, 9, mtime=0)
    return zstandard.compress(capture, 19) if suffix == ".pcap.zst" else capture


def numbered(start: int = 1) -> Iterator[int]:
    """Correlation ids."""
    while True:
        yield start
        start += 1
