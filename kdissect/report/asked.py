"""Sequence diagrams that a caller asks for, beside those that a page has anyway."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """Connections by id, and exchanges by the number of a packet, to draw."""

    connections: tuple[int, ...] = ()
    packets: tuple[int, ...] = ()
