"""Spools → a rotation: complete Parquet files that appear together in a directory of their own."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from kdissect.errors import Problem
from kdissect.live.files.disk_errors import DiskTrouble, is_full
from kdissect.live.files.disk_worker import DiskWorker
from kdissect.live.files.spools import DIRECTORY_MODES, FILE_MODES
from kdissect.system.confined import Below
from kdissect.tables.batches import BatchBuilder, arrow_schema, ints_of, mask
from kdissect.tables.rotations import BALANCE, MAKING, OPEN, OPEN_CONNECTIONS, SPOOL, rotations_in
from kdissect.tables.schemas import TABLES
from kdissect.tables.spool import SpoolReader, sync, write_whole
from kdissect.tables.stored_rows import as_declared, believed
from kdissect.tables.writers import ParquetFile

# Of a row group in memory: one is written while the next is read.
GROUP_SIZE: Final = 64 << 20


class Sealed(NamedTuple):
    """Spools that are a rotation to be; `balance` is None where a process was killed.

    A row group of its files has `group_size` bytes in memory, GROUP_SIZE when that is None.
    """

    spools: Path
    tables: Sequence[str]
    names: Mapping[bytes, str]
    balance: Mapping[str, Any] | None
    is_secret: bool
    done: Callable[[], None] | None = None
    group_size: int | None = None

    @property
    def name(self) -> str:
        """Of the rotation."""
        return self.spools.name.removeprefix(OPEN)

    @property
    def run(self) -> Path:
        """The directory of the run."""
        return self.spools.parent


class Publisher(DiskWorker):
    """Makes rotations of what is sealed, in order, and calls `after` when one is there."""

    def __init__(self, trouble: DiskTrouble, after: Callable[[], object]) -> None:
        super().__init__("rotations", trouble)
        self.queue: list[Sealed] = []
        self._after = after

    def add(self, sealed: Sealed) -> None:
        """One more to make."""
        self.queue.append(sealed)
        self.wake()

    def has_work(self) -> bool:
        """Whether some are not made yet."""
        return bool(self.queue)

    def work(self) -> None:
        """Make all that are there."""
        while self.queue:
            for problem in made_or_left(self.queue[0]):
                self.trouble.add(problem)
            done = self.queue[0].done
            if done is not None:
                done()
            self._after()
            self.queue.pop(0)


def made_or_left(sealed: Sealed) -> list[Problem]:
    """Publish; what a process before has left, and cannot be, stays where it is and is told."""
    try:
        return publish(sealed)
    except Exception as error:
        if sealed.balance is not None or is_full(error):
            raise
        text = f"{sealed.spools} cannot be made a rotation: {error}; it is left there"
        return [Problem("tables", "unreadable-spools", text)]


def publish(sealed: Sealed) -> list[Problem]:
    """Make the rotation and take its spools away; gives what was lost of damaged ones.

    Whenever this ends before its end, it can be done again: the rotation is there when it has its
    name, and then its spools are of no use. Raises OutputError and OSError.
    """
    problems: list[Problem] = []
    if not sealed.spools.exists():
        return problems
    with Below(sealed.run) as run:
        if not (sealed.run / sealed.name).exists():
            making = f"{MAKING}{sealed.name}"
            run.remove_tree(making)
            run.make_new(making, DIRECTORY_MODES[sealed.is_secret])
            try:
                rows, problems = write_tables(sealed, sealed.run / making)
                if rows:
                    sync(sealed.run / making)
                    run.rename(making, sealed.name)
                    sync(sealed.run)
            finally:
                run.remove_tree(making)
        run.remove_tree(sealed.spools.name)
    return problems


def write_tables(sealed: Sealed, to: Path) -> tuple[int, list[Problem]]:
    """Write all files of a rotation; gives how many rows they have, and what was lost."""
    rows = 0
    problems = []
    spooled = [path.name.removesuffix(SPOOL) for path in sealed.spools.glob(f"*{SPOOL}")]
    there = {*sealed.tables, *spooled}
    ended: set[int] = set()
    for table in [name for name in TABLES if name in there]:
        reader = SpoolReader(sealed.spools / f"{table}{SPOOL}")
        rows += write_table(sealed, to, table, noted(reader, table, ended))
        problems += damage_of(reader)
    if "connections" in there:
        reader = SpoolReader(sealed.spools / f"{OPEN_CONNECTIONS}{SPOOL}")
        write_table(sealed, to, OPEN_CONNECTIONS, still_open(sealed, reader, ended))
        problems += damage_of(reader)
    if sealed.balance is not None:
        content = json.dumps(sealed.balance).encode()
        write_whole(to / BALANCE, content, is_synced=True, mode=FILE_MODES[sealed.is_secret])
    return rows, problems


def write_table(sealed: Sealed, to: Path, table: str, batches: Iterator[pa.RecordBatch]) -> int:
    """Write a file of rows, with the names of topics that are known by now; gives how many."""
    declared = TABLES["connections" if table == OPEN_CONNECTIONS else table]
    builder = BatchBuilder(declared, (), dict(sealed.names), held_limit=0)
    first = next(batches, None)
    file = ParquetFile(
        to / f"{table}.parquet",
        builder.schema if first is None else first.schema,
        group_size=sealed.group_size or GROUP_SIZE,
        mode=FILE_MODES[sealed.is_secret],
        is_synced=True,
    )
    try:
        if first is not None:
            file.write(builder.named(first))
        for batch in batches:
            file.write(builder.named(batch))
        file.finish()
        file.publish()
    except BaseException:
        file.discard()
        raise
    return file.rows


def noted(reader: SpoolReader, table: str, ended: set[int]) -> Iterator[pa.RecordBatch]:
    """The rows of a spool; ids of connections are noted, which ended."""
    for batch in reader:
        if table == "connections":
            ended.update(ints_of(batch["connection_id"]).tolist())
        yield batch


def still_open(sealed: Sealed, reader: SpoolReader, ended: set[int]) -> Iterator[pa.RecordBatch]:
    """The connections that are open, as far as is known.

    A process that was killed did not tell it at the end: then those that it told of last, and that
    have not ended since.
    """
    found = list(reader) or last_open(sealed)
    for batch in found:
        is_open = ~np.isin(ints_of(batch["connection_id"]), list(ended))
        yield batch if is_open.all() else batch.filter(mask(is_open))


def last_open(sealed: Sealed) -> list[pa.RecordBatch]:
    """What the rotation before has told."""
    before = [one for one in rotations_in(sealed.run) if one.name < sealed.name]
    if not before:
        return []
    schema = arrow_schema(TABLES["connections"])
    with suppress(FileNotFoundError), Below(before[-1]) as below:
        opened = below.open_file(f"{OPEN_CONNECTIONS}.parquet")
        with os.fdopen(opened, "rb") as file, believed(str(before[-1])):
            rows = as_declared(parquet.read_table(file), schema)
            return [batch for batch in rows.to_batches() if batch.num_rows]
    return []


def damage_of(reader: SpoolReader) -> list[Problem]:
    """What is wrong with a spool, as a problem."""
    if not reader.damage:
        return []
    return [Problem("tables", "damaged-spool", reader.damage, bytes=reader.lost_bytes)]
