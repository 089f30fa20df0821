"""Ethernet frames for the cable, to an address without a host."""

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")


def frame(number: int, size: int = 64) -> bytes:
    """A segment to a broker that contains its number."""
    text = b"%d " % number
    segment = TCP(sport=51000, dport=9092, seq=number) / Raw(text.ljust(size, b"x"))
    return bytes(ETHER / IP(src="10.77.0.2", dst="10.77.0.9") / segment)
