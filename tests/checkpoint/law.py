"""Splits put together, beside one pass over everything."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa

from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.capture.splits import plan
from kdissect.checkpoint.boundary_state import BoundaryState
from kdissect.checkpoint.checkpoint import Checkpoint
from kdissect.checkpoint.jobs_run import find_secrets
from kdissect.checkpoint.merged_run import MergedRun
from kdissect.checkpoint.merger import Merger
from kdissect.checkpoint.split import SplitRows, dissect_split
from kdissect.pipeline import Balance, Options, Run
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from tests.capture.writers import Captured
from tests.conversation import START_NS, STEP_NS
from tests.plain_rows import plain_rows

CAPTURES = Path(__file__).parents[2] / "captures"
OPTIONS = Options(tables=tuple(TABLES))


class Rows(NamedTuple):
    """Sorted rows of all tables, and the balance of bytes."""

    tables: dict[str, list[str]]
    balance: Balance


def captured(packet: Packet) -> Captured:
    return Captured(packet.data[packet.start : packet.end], packet.time_ns, packet.original_length)


def read_packets(path: str) -> list[Captured]:
    with open_captures(path) as capture:
        return [captured(packet) for batch in capture for packet in batch]


def interleaved(source: Random, each: Iterable[Sequence[Captured]]) -> list[Captured]:
    """Packets of several connections in a drawn order; those of one stay in theirs."""
    left = [list(packets) for packets in each]
    packets: list[Captured] = []
    while any(left):
        (one,) = source.choices(left, [len(some) for some in left])
        packets.append(one.pop(0)._replace(time_ns=START_NS + STEP_NS * len(packets)))
    return packets


def link_type_of(path: str) -> int:
    with open_captures(path) as capture:
        return next(iter(capture))[0].link_type


def whole(paths: Sequence[str], options: Options = OPTIONS) -> Rows:
    run = Run(list(paths), options)
    return Rows(sorted_rows(run), run.balance)


def together(paths: Sequence[str], size: int, options: Options = OPTIONS) -> tuple[Rows, Merger]:
    """The same from splits of `size` bytes, each through encoded states, as on other machines."""
    splits = plan(paths, size)

    def dissected() -> list[SplitRows]:
        made = [dissect_split(split, options, paths) for split in splits]
        return [
            SplitRows(rows.batches, BoundaryState.from_bytes(rows.boundary.to_bytes()))
            for rows in made
        ]

    both = MergedRun(
        dissected(),
        options,
        list(paths),
        find_secrets=lambda: find_secrets(paths),
    )
    return Rows(sorted_rows(both), both.balance), both.merger


def sorted_rows(run: Iterable[tuple[str, pa.RecordBatch]]) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for table, batch in run:
        rows.setdefault(table, []).extend(map(repr, plain_rows(batch)))
    return {table: sorted(found) for table, found in sorted(rows.items()) if found}


def carried_on(
    paths: Sequence[str], size: int, chance: Random, options: Options = OPTIONS
) -> tuple[Rows, list[int]]:
    """The same with a merger that is written down now and then; and the size of each state."""
    secrets = partial(find_secrets, paths)
    merger = Merger(options, find_secrets=secrets)
    made: list[tuple[str, pa.RecordBatch]] = []
    sizes = []
    for split in plan(paths, size):
        rows = dissect_split(split, options, paths)
        corrections = merger.add(BoundaryState.from_bytes(rows.boundary.to_bytes()))
        made += [(table, corrections.apply(table, batch)) for table, batch in rows.batches]
        if chance.random() < 0.7:
            content = merger.state().to_bytes()
            made += own_rows(merger, paths)
            sizes.append(len(content))
            state = Checkpoint.from_bytes(content)
            merger = Merger(options, find_secrets=secrets, state=state)
    merger.finish()
    made += own_rows(merger, paths)
    return Rows(sorted_rows(named(merger, made, paths)), merger.balance), sizes


def own_rows(merger: Merger, paths: Sequence[str]) -> list[tuple[str, pa.RecordBatch]]:
    dissector = merger.dissector
    names = dissector.exchanges.names
    made = []
    for table in dissector.full_tables(1):
        builder = BatchBuilder(TABLES[table], paths, names, None, 0)
        made.append((table, builder.batch(dissector.take_rows(table))))
    return made


def named(
    merger: Merger, made: list[tuple[str, pa.RecordBatch]], paths: Sequence[str]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows with the names that are known in the end."""
    names = merger.dissector.exchanges.names
    builders = {name: BatchBuilder(table, paths, names, None) for name, table in TABLES.items()}
    for table, batch in made:
        yield table, builders[table].take(batch)
    for table, builder in builders.items():
        for batch in builder.finish():
            yield table, batch
