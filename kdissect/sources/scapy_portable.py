"""`ScapyPortableSource`: an interface on a system other than Linux, by scapy's socket.

Untested on those systems: scapy chooses libpcap, BPF devices or Npcap. Drops are not counted.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

from kdissect.capture.packet import SECOND_NS, Packet
from kdissect.sources.interfaces import ETHERNET, RAW
from kdissect.sources.packet_source import PacketSource
from kdissect.sources.scapy_source import READ_PACKETS, listen_with_scapy

# Link types of scapy's packet classes; any other is raw IP.
NULL: Final = 0
LINK_TYPES: Final = {"Ether": ETHERNET, "Loopback": NULL}


class ScapyPortableSource(PacketSource):
    """Reads with `recv_raw`; times have the resolution that scapy provides."""

    def __init__(self, name: str, expression: str, snaplen: int, promiscuous: bool = False) -> None:
        self.names = [name]
        self.snaplen = snaplen
        self._scapy: Any = listen_with_scapy(name, promiscuous, expression)
        self._number = 1
        self._is_ending = self._has_ended = False
        self._ended_ns = 0

    def read(self, wait_s: float) -> list[Packet] | None:
        packets: list[Packet] = []
        until = time.monotonic() + (0.0 if self._is_ending else wait_s)
        while not self._has_ended and len(packets) < READ_PACKETS:
            left = 0.0 if packets else max(0.0, until - time.monotonic())
            if not self._scapy.select([self._scapy], left):
                self._has_ended = self._is_ending
                break
            kind, data, seconds = self._scapy.recv_raw()
            if data is None:
                continue
            packet = self._packet(kind, data, seconds)
            if self._is_ending and packet.time_ns > self._ended_ns:
                self._has_ended = True
                break
            packets.append(packet)
        return packets if packets or not self._has_ended else None

    def end(self) -> None:
        """Packets with later times are not returned: the socket goes on to receive."""
        self._is_ending = True
        self._ended_ns = time.time_ns()

    def close(self) -> None:
        self._scapy.close()

    def _packet(self, kind: Any, data: bytes, seconds: Any) -> Packet:
        time_ns = time.time_ns() if seconds is None else nanoseconds(seconds)
        link_type = LINK_TYPES.get(getattr(kind, "__name__", ""), RAW)
        number = self._number
        self._number += 1
        end = min(len(data), self.snaplen)
        return Packet(number, time_ns, link_type, data, 0, end, len(data), number, 0)


def nanoseconds(seconds: Any) -> int:
    """Convert a time from scapy: a decimal exactly, a float to µs, its precision."""
    if isinstance(seconds, float):
        return round(seconds * 1_000_000) * 1000
    return int(seconds * SECOND_NS)


def filter_text(ports: Iterable[int], expression: str) -> str:
    """The port filter as an expression of pcap-filter(7), and `expression`."""
    wanted = " or ".join(f"port {port}" for port in sorted(set(ports)))
    text = f"tcp and ({wanted})" if wanted else "tcp"
    return f"({text}) and ({expression})" if expression else text
