"""Merge the packets of several files, each in its own order, by time."""

from mypy_extensions import i64

from kdissect.capture.packet import Packet


def count_until(packets: list[Packet], start: i64, time_ns: i64) -> i64:
    """Index of the first packet from `start` on that is later than `time_ns`."""
    size: i64 = len(packets)
    while start < size and packets[start].time_ns <= time_ns:
        start += 1
    return start


def number_packets(packets: list[Packet], ordinal: i64) -> None:
    """Number the packets consecutively, starting at `ordinal`."""
    for packet in packets:
        packet.ordinal = ordinal
        ordinal += 1
