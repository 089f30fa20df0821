from kdissect.capture.packet import Packet
from kdissect.sources.delay_buffer import DelayedWire
from kdissect.sources.packet_source import Counts
from tests.live.listening import Given, packet_at


def numbers(packets: list[Packet] | None) -> list[int] | None:
    return None if packets is None else [packet.number for packet in packets]


def test_packets_are_given_a_moment_after_they_came_in_order() -> None:
    now = [10.0]
    source = Given([packet_at(1, 1)], [], [packet_at(2, 2)], [packet_at(3, 3)], [])
    wire = DelayedWire(source, 0.25, lambda: now[0])
    given = []
    for at in (10.0, 10.1, 10.2, 10.26, 10.4, 10.46, 10.5):
        now[0] = at
        given.append(numbers(wire.read(0.1)))
    assert given == [[], [], [], [1], [], [2], [3]]
    assert wire.read(0.1) is None


def test_at_the_end_nothing_is_waited_for() -> None:
    wire = DelayedWire(Given([packet_at(1, 1)], [packet_at(2, 2)]), 3600)
    given = [numbers(wire.read(0)) for _ in range(5)]
    assert given == [[], [], [1], [2], None]


def test_it_waits_no_longer_than_until_packets_are_due() -> None:
    class Waiting(Given):
        def read(self, wait_s: float) -> list[Packet] | None:
            waits.append(wait_s)
            return super().read(wait_s)

    waits: list[float] = []
    wire = DelayedWire(Waiting([packet_at(1)], [], []), 0.25, lambda: 0.0)
    for _ in range(2):
        wire.read(1.0)
    wire.delay_s = 0.1
    wire.read(0.05)
    assert waits == [1.0, 0.25, 0.05]


def test_all_else_is_that_of_the_wire() -> None:
    source = Given()
    source.counted = Counts(5, 2)
    with DelayedWire(source, 1) as wire:
        assert (wire.names, wire.counts(), wire.backlog()) == (["given"], Counts(5, 2), 0.0)
        assert (wire.take_problems(), wire.take_secrets(), wire.find_secrets()) == ([], [], [])
        wire.reopen()
    assert source.is_closed
