"""Merge the packets of several files, each in its own order, by time."""

from mypy_extensions import i64

from kdissect.capture.packet import Packet


def count_until(packets: list[Packet], start: i64, time_ns: i64) -> i64:
    """Index of the first packet from `start` on that is later than `time_ns`."""
    size: i64 = len(packets)
    while start < size and packets[start].time_ns <= time_ns:
        start += 1
    return start


def count_within(packets: list[Packet], start: i64, count: i64, size: i64) -> i64:
    """Index behind at most `count` packets from `start` on: those until they have `size` bytes."""
    end: i64 = min(len(packets), start + count)
    while start < end and size > 0:
        packet = packets[start]
        size -= packet.end - packet.start
        start += 1
    return start


def number_packets(packets: list[Packet], ordinal: i64) -> None:
    """Number the packets consecutively, starting at `ordinal`."""
    for packet in packets:
        packet.ordinal = ordinal
        ordinal += 1
