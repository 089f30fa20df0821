"""Spools → a rotation: complete Parquet files that appear together in their own directory."""

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

# Bytes of a row group in memory: one is written while the next is read.
GROUP_SIZE: Final = 64 << 20


class Sealed(NamedTuple):
    """Spools of a finished rotation; `balance` is None if the process was killed.

    A row group of its files has `group_size` bytes in memory, None: GROUP_SIZE.
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
        """Name of the rotation."""
        return self.spools.name.removeprefix(OPEN)

    @property
    def run(self) -> Path:
        """Directory of the run."""
        return self.spools.parent


class Publisher(DiskWorker):
    """Publishes sealed rotations, in order, and calls `after` for each."""

    def __init__(self, trouble: DiskTrouble, after: Callable[[], object]) -> None:
        super().__init__("rotations", trouble)
        self.queue: list[Sealed] = []
        self._after = after

    def add(self, sealed: Sealed) -> None:
        """Add a rotation to publish."""
        self.queue.append(sealed)
        self.wake()

    def has_work(self) -> bool:
        """Return whether rotations are pending."""
        return bool(self.queue)

    def work(self) -> None:
        """Publish all pending rotations."""
        while self.queue:
            for problem in made_or_left(self.queue[0]):
                self.trouble.add(problem)
            done = self.queue[0].done
            if done is not None:
                done()
            self._after()
            self.queue.pop(0)


def made_or_left(sealed: Sealed) -> list[Problem]:
    """Publish; rotations of an earlier process that fail stay in place and are reported."""
    try:
        return publish(sealed)
    except Exception as error:
        if sealed.balance is not None or is_full(error):
            raise
        text = f"{sealed.spools} cannot be made a rotation: {error}; it is left there"
        return [Problem("tables", "unreadable-spools", text)]


def publish(sealed: Sealed) -> list[Problem]:
    """Publish a rotation and remove its spools; returns the losses of damaged ones.

    It can be repeated after an interruption at any step: the rotation is complete once it has its
    final name, and then its spools are obsolete. Raises OutputError and OSError.
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
    """Write all files of a rotation; returns the number of rows, and the losses."""
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
    """Write a file of rows, with the topic names known by now; returns the number of rows."""
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
    """Rows of a spool; ids of connections that ended are added to `ended`."""
    for batch in reader:
        if table == "connections":
            ended.update(ints_of(batch["connection_id"]).tolist())
        yield batch


def still_open(sealed: Sealed, reader: SpoolReader, ended: set[int]) -> Iterator[pa.RecordBatch]:
    """Connections that are still open, as far as known.

    A process that was killed did not report them at the end: then those it reported last, except
    those that have ended since.
    """
    found = list(reader) or last_open(sealed)
    for batch in found:
        is_open = ~np.isin(ints_of(batch["connection_id"]), list(ended))
        yield batch if is_open.all() else batch.filter(mask(is_open))


def last_open(sealed: Sealed) -> list[pa.RecordBatch]:
    """Open connections reported by the previous rotation."""
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
    """Damage of a spool, as a problem."""
    if not reader.damage:
        return []
    return [Problem("tables", "damaged-spool", reader.damage, bytes=reader.lost_bytes)]
