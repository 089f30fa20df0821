"""Several interfaces as one packet source: order of time, late packets, and numbers."""

import os

import pytest

from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.sources.interface_source import InterfaceSource
from kdissect.sources.multiplexer import Multiplexer
from kdissect.sources.packet_source import Counts

HOLD_NS = 100


class Scripted(InterfaceSource):
    """Gives packets with these times, a list at a time."""

    def __init__(self, capture: int, *batches: list[int]) -> None:
        self.names = [f"eth{capture}"]
        self.capture = capture
        self.batches = list(batches)
        self.calls: list[str] = []
        self.number = 0
        self.room, self.end = os.pipe()

    needs_polling = False

    def fileno(self) -> int:
        return self.room

    def check(self) -> None:
        self.calls.append("check")

    def reopen(self) -> None:
        self.calls.append("reopen")

    def close(self) -> None:
        self.calls.append("close")
        os.close(self.room)
        os.close(self.end)

    def take(self) -> list[Packet]:
        return [self.packet(time_ns) for time_ns in self.batches.pop(0)] if self.batches else []

    def packet(self, time_ns: int) -> Packet:
        self.number += 1
        return Packet(self.number, time_ns, 1, b"", 0, 0, 0, self.number, self.capture)

    def counts(self) -> Counts:
        return Counts(10 + self.capture, self.capture)

    def backlog(self) -> float:
        return self.capture / 2

    def take_problems(self) -> list[Problem]:
        return [Problem("capture", "interface-gone", self.names[0], capture=self.capture)]


def test_interfaces_are_checked_where_another_one_has_packets_all_the_time() -> None:
    quiet = Scripted(0)
    source = Multiplexer([quiet, Scripted(1, [1], [2])], HOLD_NS)
    for _ in range(2):
        source.read(0)
    assert quiet.calls == ["check", "check"]
    source.close()


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


def reads(
    clock: Clock, packet_sources: list[Scripted], *moments: int
) -> list[list[tuple[int, int, int]]]:
    """Capture, time and ordinal of the packets of each read, at these moments."""
    found = []
    with Multiplexer(packet_sources, HOLD_NS, clock) as together:
        for moment in moments:
            clock.now = moment
            packets = together.read(0)
            assert packets is not None
            found.append([(one.capture, one.time_ns, one.ordinal) for one in packets])
    return found


def test_packets_wait_for_earlier_ones_of_others() -> None:
    packet_sources = [Scripted(0, [5, 7, 9], []), Scripted(1, [], [6, 8, 10])]
    assert reads(Clock(), packet_sources, 0, 60, 99, 100, 159, 160) == [
        [],
        [],
        [],
        [(0, 5, 1), (1, 6, 2), (0, 7, 3), (1, 8, 4), (0, 9, 5)],
        [],
        [(1, 10, 6)],
    ]


def test_equal_times_keep_the_order_of_each_interface() -> None:
    packet_sources = [Scripted(0, [5, 5]), Scripted(1, [5, 4])]
    assert reads(Clock(), packet_sources, 0, 100) == [
        [],
        [(1, 4, 1), (0, 5, 2), (0, 5, 3), (1, 5, 4)],
    ]


def test_a_clock_that_is_set_back_holds_nothing_for_long() -> None:
    packet_sources = [Scripted(0, [1000], [20], [21])]
    assert reads(Clock(), packet_sources, 0, 50, 100, 150, 250) == [
        [],
        [],
        [(0, 20, 1), (0, 21, 2), (0, 1000, 3)],
        [],
        [],
    ]


def test_multiplexer_forwards_queries_to_all_sources() -> None:
    packet_sources = [Scripted(0), Scripted(1)]
    together = Multiplexer(packet_sources)
    assert together.names == ["eth0", "eth1"]
    assert together.counts() == Counts(21, 1)
    assert together.backlog() == 0.5
    assert [problem.capture for problem in together.take_problems()] == [0, 1]
    together.reopen()
    together.close()
    assert [packet_source.calls for packet_source in packet_sources] == [["reopen", "close"]] * 2


@pytest.mark.parametrize("hung_up", [0, 1])
def test_multiplexer_checks_the_source_that_hangs_up(hung_up: int) -> None:
    packet_sources = [Scripted(0), Scripted(1)]
    with Multiplexer(packet_sources) as together:
        # A pipe without a writer hangs up, as a socket without its interface does.
        os.close(packet_sources[hung_up].end)
        packet_sources[hung_up].end = os.dup(packet_sources[hung_up].room)
        together.read(5)
    assert packet_sources[hung_up].calls == ["check", "close"]
    assert packet_sources[1 - hung_up].calls == ["close"]
