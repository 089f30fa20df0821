"""Segments are processed the same by the fast path, which takes the common ones, and the slow one.

The merger of splits replays by the slow path what one pass takes by the fast one.
"""

import random
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

from kdissect.capture.files import open_captures
from kdissect.encoding.classes import attribute_names
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import Segment, copied
from kdissect.streams.connections import Streams
from kdissect.streams.events import Connection, Event
from tests.checkpoint.mutations import fresh_seed

CAPTURES: Final = sorted((Path(__file__).parent.parent.parent / "captures").glob("*.pcapng"))
DAMAGED_SHARE: Final = 0.03
STEPS: Final = (-1448, -1, 1, 7, 1448, 1 << 20)


def damaged(path: Path, source: random.Random) -> list[Segment]:
    """Segments of a capture, some with another flag, number or window."""
    decoder = PacketDecoder()
    with open_captures(str(path)) as capture:
        decoded = [decoder.decode(packet) for packet in chain.from_iterable(capture)]
    segments = [copied(segment) for segment in decoded if segment is not None]
    for segment in segments:
        if source.random() < DAMAGED_SHARE:
            kind = source.randrange(4)
            if kind == 0:
                segment.flags ^= 1 << source.randrange(6)
            elif kind == 1:
                segment.sequence = (segment.sequence + source.choice(STEPS)) & 0xFFFFFFFF
            elif kind == 2:
                moved = segment.acknowledgment + source.choice(STEPS)
                segment.acknowledgment = moved & 0xFFFFFFFF
            else:
                segment.window = source.choice((0, 1, 65535))
    return segments


def facts(events: list[Event]) -> dict[int, dict[str, Any]]:
    """By id of each connection all that is known of it, and counted by direction."""
    found: dict[int, dict[str, Any]] = {}
    for event in events:
        connection: Connection = event.connection
        parts = {"": connection, "0.": connection.counts[0], "1.": connection.counts[1]}
        found[connection.id] = {
            prefix + name: getattr(part, name)
            for prefix, part in parts.items()
            for name in attribute_names(part) - {"counts"}
        }
    return found


@pytest.mark.slow
def test_damaged_segments_are_counted_the_same_by_both_paths() -> None:
    seed, source = fresh_seed()
    for _ in range(25):
        path = source.choice(CAPTURES)
        state = source.getstate()
        fast, slow = Streams(), Streams()
        by_fast: list[Event] = []
        by_slow: list[Event] = []
        for segment in damaged(path, source):
            by_fast += fast.feed(segment)
        source.setstate(state)
        for segment in damaged(path, source):
            by_slow += slow.feed_with_care(segment)
        found = facts(by_fast + fast.finish())
        assert found == facts(by_slow + slow.finish()), f"{path.name}, seed {seed}"
        assert len(found) > 0
