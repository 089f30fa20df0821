from kdissect.capture.packet import Packet
from kdissect.sources.delay_buffer import DelayBuffer
from kdissect.sources.packet_source import Counts
from tests.live.listening import Given, packet_at


def numbers(packets: list[Packet] | None) -> list[int] | None:
    return None if packets is None else [packet.number for packet in packets]


def test_packets_are_given_a_moment_after_they_came_in_order() -> None:
    now = [10.0]
    source = Given([packet_at(1, 1)], [], [packet_at(2, 2)], [packet_at(3, 3)], [])
    packet_source = DelayBuffer(source, 0.25, lambda: now[0])
    given = []
    for at in (10.0, 10.1, 10.2, 10.26, 10.4, 10.46, 10.5):
        now[0] = at
        given.append(numbers(packet_source.read(0.1)))
    assert given == [[], [], [], [1], [], [2], [3]]
    assert packet_source.read(0.1) is None


def test_at_the_end_nothing_is_waited_for() -> None:
    packet_source = DelayBuffer(Given([packet_at(1, 1)], [packet_at(2, 2)]), 3600)
    given = [numbers(packet_source.read(0)) for _ in range(5)]
    assert given == [[], [], [1], [2], None]


def test_it_waits_no_longer_than_until_packets_are_due() -> None:
    class Waiting(Given):
        def read(self, wait_s: float) -> list[Packet] | None:
            waits.append(wait_s)
            return super().read(wait_s)

    waits: list[float] = []
    packet_source = DelayBuffer(Waiting([packet_at(1)], [], []), 0.25, lambda: 0.0)
    for _ in range(2):
        packet_source.read(1.0)
    packet_source.delay_s = 0.1
    packet_source.read(0.05)
    assert waits == [1.0, 0.25, 0.05]


def test_all_else_is_that_of_the_wire() -> None:
    source = Given()
    source.counted = Counts(5, 2)
    with DelayBuffer(source, 1) as packet_source:
        assert (packet_source.names, packet_source.counts(), packet_source.backlog()) == (
            ["given"],
            Counts(5, 2),
            0.0,
        )
        assert (
            packet_source.take_problems(),
            packet_source.take_secrets(),
            packet_source.find_secrets(),
        ) == ([], [], [])
        packet_source.reopen()
    assert source.is_closed
