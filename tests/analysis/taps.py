"""Captures of several clients and brokers, message by message at the times that a test names."""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kdissect
from kdissect.packets.segment import ACK, FIN, PSH, RST, SYN
from kdissect.rules.finding import Finding
from tests.capture.writers import Captured, make_pcap
from tests.exchange_builders import request, response
from tests.packets.builders import make_tcp_packet

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000
NANOSECONDS = 0xA1B23C4D
PORT = 9092
MSS = 1448
ID_AT = 18  # in an Ethernet frame with IPv4


@dataclass
class Tap:
    """Packets as they were captured; `directions` are those that the tap saw."""

    packets: list[tuple[int, bytes]] = field(default_factory=list)
    directions: tuple[bool, ...] = (True, False)

    def add(self, at_ms: float, is_client: bool, data: bytes) -> None:
        if is_client in self.directions:
            self.packets.append((START_NS + round(at_ms * MS), data))

    def findings(self, directory: Path, **how: Any) -> dict[str, Finding]:
        """Texts about them, by id."""
        path = directory / "tap.pcap"
        packets = [Captured(data, time_ns) for time_ns, data in sorted(self.packets)]
        path.write_bytes(make_pcap(packets, magic=NANOSECONDS, link_type=1))
        return {one.id: one for one in kdissect.findings(path, **how)}


class Talk:
    """A connection of a client at a broker; `opens` says whether its handshake was captured.

    The tap is at the client, `trip_ms` from the broker and back.
    """

    def __init__(
        self, tap: Tap, client: str, number: int, broker: int = 1, at_ms: float = 0,
        opens: bool = True, trip_ms: float = 0.005,
    ) -> None:  # fmt: skip
        self.tap, self.client_id, self.trip_ms = tap, client, trip_ms
        self.ends = (f"10.0.1.{number % 250 + 1}", f"10.0.0.{broker}", 40_000 + number, PORT)
        self.sequences = {True: 1_000, False: 70_000}
        self.correlation = 0
        if opens:
            self._packet(at_ms, True, SYN)
            self._packet(at_ms + trip_ms, False, SYN | ACK)
            self._packet(at_ms + trip_ms + 0.01, True, ACK)

    def ask(self, at_ms: float, api: str, version: int, **values: Any) -> int:
        """A request; its correlation id."""
        self.correlation += 1
        self.say(at_ms, True, request(api, version, self.correlation, self.client_id, **values))
        return self.correlation

    def answer(self, at_ms: float, api: str, version: int, number: int, **values: Any) -> None:
        self.say(at_ms, False, response(api, version, number, **values))

    def call(
        self, at_ms: float, took_ms: float, api: str, version: int,
        asked: dict[str, Any] | None = None, told: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """A request and its response."""
        number = self.ask(at_ms, api, version, **(asked or {}))
        self.answer(at_ms + took_ms, api, version, number, **(told or {}))

    def say(self, at_ms: float, is_client: bool, payload: bytes) -> None:
        self._packet(at_ms, is_client, PSH | ACK, payload)
        self._packet(at_ms + (self.trip_ms if is_client else 0.005), not is_client, ACK)

    def answer_slowly(
        self, at_ms: float, took_ms: float, api: str, version: int, number: int, **values: Any
    ) -> None:
        """A response whose segments come in evenly over some time."""
        payload = response(api, version, number, **values)
        pieces = [payload[at : at + MSS] for at in range(0, len(payload), MSS)]
        for place, piece in enumerate(pieces):
            self.say(at_ms + took_ms * place / max(1, len(pieces) - 1), False, piece)

    def ask_twice(
        self, at_ms: float, again_ms: float, api: str, version: int, **values: Any
    ) -> int:
        """A request that the network loses once."""
        self.correlation += 1
        payload = request(api, version, self.correlation, self.client_id, **values)
        self._packet(at_ms, True, PSH | ACK, payload, identification=8)
        self.sequences[True] -= len(payload)
        self.say(again_ms, True, payload)
        return self.correlation

    def say_again(
        self, is_client: bool, payload: bytes, *at_ms: float, acknowledged_ms: float = 0
    ) -> None:
        """Bytes that are sent several times; their host acknowledges them at last, or never."""
        for place, each_ms in enumerate(at_ms):
            self._packet(each_ms, is_client, PSH | ACK, payload, identification=100 + place)
            self.sequences[is_client] -= len(payload)
        self.sequences[is_client] += len(payload)
        if acknowledged_ms:
            self._packet(acknowledged_ms, not is_client, ACK)

    def report_twice(self, at_ms: float, is_client: bool, size: int) -> None:
        """An ACK that says that the last bytes came twice (D-SACK)."""
        end = self.sequences[not is_client]
        option = struct.pack(">BBBBII", 1, 1, 5, 10, end - size, end)
        self._packet(at_ms, is_client, ACK, options=option)

    def end(self, at_ms: float, is_client: bool, is_reset: bool = False) -> None:
        """One side closes or resets; the other one closes, too."""
        self._packet(at_ms, is_client, RST if is_reset else FIN | ACK)
        if not is_reset:
            self._packet(at_ms + 0.01, not is_client, FIN | ACK)
            self._packet(at_ms + 0.02, is_client, ACK)

    def _packet(
        self, at_ms: float, is_client: bool, flags: int, payload: bytes = b"",
        identification: int = 7, window: int = 501, options: bytes = b"",
    ) -> None:  # fmt: skip
        """A packet; one that is sent again has another identification, unlike a captured copy."""
        client, broker, client_port, port = self.ends
        ways = {
            True: (client, broker, client_port, port),
            False: (broker, client, port, client_port),
        }
        source, destination, source_port, destination_port = ways[is_client]
        data = make_tcp_packet(
            payload, source, destination, source_port, destination_port,
            self.sequences[is_client], self.sequences[not is_client], flags, window, options,
        )  # fmt: skip
        data = data[:ID_AT] + identification.to_bytes(2) + data[ID_AT + 2 :]
        self.tap.add(at_ms, is_client, data)
        self.sequences[is_client] += len(payload) + bool(flags & (SYN | FIN))
