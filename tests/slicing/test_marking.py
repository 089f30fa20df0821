"""Selected packets: by time, and those delivered too early or too late."""

import pytest

from kdissect.capture.packet import Packet
from kdissect.slicing.packet_selection import LOOK_BACK, Marking, Marks
from kdissect.slicing.ranges import Endpoints, Ranges
from tests.packets.builders import make_tcp_packet

CLIENT, BROKER = ("10.0.0.1", 50_000), ("10.0.0.9", 9092)
WRAP = 1 << 32


def packet(number: int, sequence: int, size: int = 10, is_client: bool = True) -> Packet:
    """The packet at time `number`."""
    source, target = (CLIENT, BROKER) if is_client else (BROKER, CLIENT)
    data = make_tcp_packet(
        bytes(size), source=source[0], destination=target[0], source_port=source[1],
        destination_port=target[1], sequence=sequence % WRAP,
    )  # fmt: skip
    return Packet(number, number, 1, data, 0, len(data), len(data), number, 0)


def marked(packets: list[Packet], *times: tuple[int, int]) -> list[int]:
    """The numbers of the packets that are marked, of one connection."""
    endpoints = [Endpoints(1, *CLIENT, *BROKER)]
    marking = Marking(Ranges({1: list(times)}, endpoints, 1, False))
    marking.feed(packets)
    marking.finish()
    return [one.number for one in packets if one.ordinal in marking.marks]


def test_packets_are_marked_by_their_time_both_ends_included() -> None:
    packets = [packet(number, number * 10) for number in range(1, 9)]
    assert marked(packets, (2, 3), (6, 7)) == [2, 3, 6, 7]


@pytest.mark.parametrize("first", [1000, WRAP - 15])
def test_reordered_segments_captured_before_a_range_are_selected(
    first: int,
) -> None:
    # The second segment overtakes all, the first comes last.
    sequences = [first - 10, first + 10, first + 20, first, first + 30]
    packets = [packet(number, sequence) for number, sequence in enumerate(sequences, 1)]
    assert marked(packets, (4, 4)) == [2, 3, 4]


@pytest.mark.parametrize("first", [1000, WRAP - 15])
def test_segments_that_later_fill_a_hole_of_a_range_are_selected(first: int) -> None:
    sequences = [first - 10, first, first + 20, first + 30, first + 10, first + 40]
    packets = [packet(number, sequence) for number, sequence in enumerate(sequences, 1)]
    assert marked(packets, (2, 4)) == [2, 3, 4, 5]


def test_a_hole_that_is_filled_before_the_range_leaves_nothing_behind() -> None:
    sequences = [0, 20, 30, 10, 40, 50]
    packets = [packet(number, sequence) for number, sequence in enumerate(sequences, 1)]
    assert marked(packets, (6, 6)) == [6]


def test_the_other_direction_has_numbers_of_its_own() -> None:
    packets = [
        packet(1, 100),
        packet(2, 5, is_client=False),
        packet(3, 110),
        packet(4, 15, is_client=False),
    ]
    assert marked(packets, (3, 4)) == [3, 4]


def test_behind_a_hole_that_is_never_filled_not_everything_waits() -> None:
    packets = [packet(1, 0)]
    packets += [packet(number, number * 10) for number in range(3, LOOK_BACK + 10)]
    last = packets[-1].number
    found = marked([*packets, packet(last + 1, 0)], (last + 1, last + 1))
    assert found == [last + 1]


def test_a_reused_port_is_another_connection() -> None:
    packets = [packet(number, number * 10) for number in range(1, 9)]
    endpoints = [Endpoints(1, *CLIENT, *BROKER), Endpoints(5, *CLIENT, *BROKER)]
    marking = Marking(Ranges({5: [(1, 6)]}, endpoints, 1, False))
    marking.feed(packets)
    assert [number for number in range(10) if number in marking.marks] == [5, 6]


def test_marks_count_each_packet_once() -> None:
    marks = Marks()
    for ordinal in (7, 1_000_000, 7):
        marks.add(ordinal)
    assert marks.count == 2
    assert [one in marks for one in (6, 7, 8, 1_000_000, 2_000_000)] == [
        False, True, False, True, False,
    ]  # fmt: skip
