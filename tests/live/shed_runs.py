"""Dissections in which less is made from some packets on, beside one in which all is."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kdissect.capture.blocks import Secrets
from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.pipeline import Options, add_secrets, make_dissector
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES

CAPTURES = Path(__file__).parents[2] / "captures"
OPTIONS = Options(tables=tuple(TABLES))
ALWAYS = ("exchanges", "errors", "members", "connections")


class Captured(NamedTuple):
    """The packets of a capture, and the secrets in it."""

    names: list[str]
    packets: list[Packet]
    secrets: list[Secrets]


class Shed(NamedTuple):
    """Rows of each table as text, in order, and the shed counters."""

    rows: dict[str, list[str]]
    shed: dict[str, int]


@cache
def captured(name: str) -> Captured:
    with open_captures(str(CAPTURES / name)) as capture:
        packets = [packet for batch in capture for packet in batch]
        return Captured(list(capture.names), packets, capture.find_secrets())


@cache
def whole(name: str, options: tuple[str, ...] = tuple(TABLES)) -> Shed:
    return dissected(name, (), Options(tables=options))


def dissected(name: str, changes: Sequence[tuple[int, int]], options: Options = OPTIONS) -> Shed:
    """Dissect a capture; from packet `changes[n][0]` on with detail `changes[n][1]`."""
    taken = captured(name)
    dissector = make_dissector(options, collects=False, keeps_frames=False)
    add_secrets(dissector.tls.keys, taken.secrets)
    at = 0
    for place, level in sorted(changes):
        place = min(place, len(taken.packets))
        dissector.feed(taken.packets[at:place])
        dissector.set_detail(level)
        at = place
    dissector.feed(taken.packets[at:])
    dissector.finish()
    names = dissector.exchanges.names
    rows = {}
    for table in options.tables:
        builder = BatchBuilder(TABLES[table], taken.names, names)
        made = [builder.batch(dissector.take_rows(table)), *builder.finish()]
        rows[table] = [repr(row) for batch in made for row in batch.to_pylist()]
    return Shed(rows, dissector.detail.shed.counts())
