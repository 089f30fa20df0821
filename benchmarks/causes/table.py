"""Staged recordings: classes of incidents with their truth, and quiet captures.

A class has variants, which differ in Kafka's version, the client's library or the group's
protocol. Variants with an odd number are the training half; those with an even number are held
back: they are recorded last, and their findings are not inspected while rules are written. Drawn
ones are as many again, in conditions that a seed decides (drawn.py).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

TRAINING, HELD_BACK, DRAWN, QUIET = "training", "held-back", "drawn", "quiet"
HALVES = (TRAINING, HELD_BACK, DRAWN, QUIET)
# Findings about the capture itself rather than its traffic: true of every part of it.
OF_THE_CAPTURE = ("capture-loses-packets", "messages-undecoded", "connections-encrypted")


RECORDER = "recorder"  # shape of the recorder's own scenarios


class View(NamedTuple):
    """Part of a capture, as another tap would have seen it; `kind` is one of vantage.KINDS.

    `ids` replaces those of the class where less can be known; () where the cause cannot be seen,
    and only false findings count.
    """

    kind: str
    ids: tuple[str, ...] | None = None
    entities: tuple[str, ...] | None = None


class Variant(NamedTuple):
    """One recording of a class: where, with which clients, and which parts are derived from it."""

    version: str
    shape: str
    library: str = "java"
    views: tuple[View, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012  (a NamedTuple's default, never written to)
    pace: float = 1.0  # times between two records of a producer are so many times as long
    length: float = 1.0  # so is the traffic between two acts


class Incident(NamedTuple):
    """A class of incidents.

    `ids`: findings that name the cause, one of which must come first; `also`: its consequences,
    which are true beside it; `false`: those that would be wrong. Words of `entities` must all be in
    the sentence; {stem} is the prefix of the names of a recording's clients, groups and topics.
    """

    name: str
    cause: str
    ids: tuple[str, ...]
    entities: tuple[str, ...]
    play: Callable[[Any], None]
    variants: tuple[Variant, ...]
    also: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    is_notice: bool = False  # whether a notice may name it

    def named_variants(self) -> Iterator[tuple[str, str, Variant]]:
        """Name, half and variant of each recording."""
        for number, variant in enumerate(self.variants, 1):
            yield f"{self.name}-{number}", TRAINING if number % 2 else HELD_BACK, variant


class Quiet(NamedTuple):
    """A kind of healthy traffic: no problem and no warning is wanted, notices are."""

    name: str
    what: str
    play: Callable[[Any], None]
    variants: tuple[Variant, ...]

    def named_variants(self) -> Iterator[tuple[str, str, Variant]]:
        """Name, half and variant of each recording."""
        for number, variant in enumerate(self.variants, 1):
            yield f"{self.name}-{number}", QUIET, variant
