"""Parts of a tap that are read in parallel, each by a task of the data source.

A part is some splits (docs/splits.md). Its task dissects them independently, then reads the
checkpoint after the previous part, which that part's task leaves in a staging directory; merges
the two, writes the checkpoint after its own part, and yields its rows corrected. Rows of exchanges
still open at the end, and rows whose topics got no name until the end of their part, are yielded by
the last part.

A task that finds neither a checkpoint nor a live process working on it makes it itself, from the
captures. So tasks may run in any order, one at a time, not all of them, or on hosts that share no
directory. A task only waits for earlier parts, so there are no deadlocks.
"""

import copy
import io
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kdissect.capture.packet import Packet
from kdissect.capture.splits import Split, are_in_turn, plan, read_split
from kdissect.checkpoint.boundary_state import BoundaryState
from kdissect.checkpoint.checkpoint import Checkpoint
from kdissect.checkpoint.corrections import Corrections
from kdissect.checkpoint.jobs_run import find_secrets
from kdissect.checkpoint.merger import Merger
from kdissect.checkpoint.split import SplitRun, made_columns
from kdissect.checkpoint.validation import going_on
from kdissect.dataset.planning import groups_of
from kdissect.dataset.shared_staging import LOOK_S, Staging
from kdissect.dataset.staging import most_bytes
from kdissect.dataset.storage import seen
from kdissect.errors import CaptureError, EncodingError
from kdissect.pipeline import Options, PausedCollector
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from kdissect.tables.stored_rows import as_declared, believed

STATE: Final = "state"
NAMELESS: Final = "nameless"
# Rows of one part without a topic name: at most all rows of 256 MB of captures, in Arrow.
NAMELESS_BYTES: Final = 4 << 30
# Each part contains the ranges of all, so that it can make what other tasks have not.
MOST_PARTS: Final = 256
# A tap hardly larger than a part is one task.
WORTHWHILE: Final = 1.5


@dataclass
class PartPartition(InputPartition):
    """A part of a tap: the splits ``parts[number]``; `staging` is a directory."""

    tap: str
    paths: tuple[str, ...]
    parts: tuple[tuple[Split, ...], ...]
    number: int
    staging: str

    @property
    def path(self) -> str:
        """The first capture of the part."""
        return self.parts[self.number][0].path


class LostBefore(CaptureError):
    """A part before this one is unreadable."""


def parts_of(paths: Sequence[str], size: int) -> list[tuple[Split, ...]]:
    """Parts of about `size` bytes; at most one if the captures have to be read in one pass.

    Reads large captures once, to find split positions.
    """
    total = sum(seen(path)[0] for path in paths)
    if total <= size * WORTHWHILE:
        return []
    size = max(size, -(-total // MOST_PARTS))
    try:
        splits = plan(paths, size)
    except CaptureError:
        # Reported by the task that reads it.
        return []
    if any(split.layout is None for split in splits) or not are_in_turn(splits):
        return []
    return [tuple(splits[group.start : group.stop]) for group in groups_of(splits, size)]


class Done(NamedTuple):
    """A merged part: its rows, their corrections, and the merger's own rows."""

    rows: list[Path]
    corrections: list[Corrections]
    own: list[pa.RecordBatch]
    names: dict[bytes, str]


class PartTask:
    """Work of a task; `options` are for one table."""

    def __init__(self, partition: PartPartition, options: Options, staging: Staging) -> None:
        self.parts = partition.parts
        self.number = partition.number
        self.paths = list(partition.paths)
        self.options = options
        self.staging = staging
        (self.table,) = options.tables
        self.wanted = options.columns[self.table]
        self.made = made_columns(self.wanted)
        self.last = len(self.parts) - 1

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows of the part; the last part also yields the remaining ones.

        Raises CaptureError if it is unreadable, `LostBefore` if an earlier part is.
        """
        with tempfile.TemporaryDirectory(prefix="kdissect-") as directory:
            done = self.settle(self.number, Path(directory))
            builder = self.builder(done.names, self.wanted)
            for batch in self.corrected(done):
                yield builder.take(batch)
            if self.number == self.last:
                for number in range(self.last):
                    for batch in self.nameless(number):
                        yield builder.take(batch)
                yield from builder.finish()

    def builder(self, names: dict[bytes, str], columns: Sequence[str] | None) -> BatchBuilder:
        """Builder that fills in known topic names, and holds back rows without one."""
        return BatchBuilder(TABLES[self.table], self.paths, names, columns)

    def settle(self, number: int, directory: Path) -> Done:
        """Dissect a part and merge it with the earlier ones; write the input of other tasks."""
        rows: list[Path] = []
        with self.staging.work(number), PausedCollector():
            boundaries = []
            for place, split in enumerate(self.parts[number]):
                rows.append(directory / f"{number}-{place}")
                boundaries.append(self.dissect(split, rows[-1]))
            state = self.state_before(number)
            with going_on(f"the state of part {number - 1} in {self.staging.directory}"):
                return self.put_together(number, self.merger(state), boundaries, rows)

    def put_together(
        self, number: int, merger: Merger, boundaries: Sequence[BoundaryState], rows: list[Path]
    ) -> Done:
        """Merge the boundary states of a part with the earlier ones; write the input of others."""
        corrections = [merger.add(boundary) for boundary in boundaries]
        names = dict(merger.dissector.exchanges.names)
        if number == self.last:
            merger.finish()
            names = merger.dissector.exchanges.names
            return Done(rows, corrections, self.own_rows(merger), names)
        state = merger.state().to_bytes()
        done = Done(rows, corrections, self.own_rows(merger), names)
        self.leave_nameless(number, done)
        # Last, as it marks the part as complete.
        self.staging.write(number, STATE, state)
        return done

    def dissect(self, split: Split, to: Path) -> BoundaryState:
        """Dissect a split independently; its rows go into a file."""
        run = SplitRun(split, self.options, self.paths, between=self.staging.touch)
        with pa.OSFile(str(to), "wb") as sink:
            writer: Any = None
            for _, batch in run:
                if writer is None:
                    packed = pa.ipc.IpcWriteOptions(compression="lz4")
                    writer = pa.ipc.new_stream(sink, batch.schema, options=packed)
                writer.write_batch(batch)
            if writer is not None:
                writer.close()
        return run.boundary

    def merger(self, state: Checkpoint | None) -> Merger:
        """Merger that continues from a checkpoint."""
        paths = self.paths
        return Merger(self.options, self.reread, lambda: find_secrets(paths), state)

    def reread(self, split: Split) -> Iterator[list[Packet]]:
        """Read the packets of a split again."""
        for packets in read_split(split):
            self.staging.touch()
            yield packets

    def own_rows(self, merger: Merger) -> list[pa.RecordBatch]:
        """Rows that the merger itself outputs."""
        dissector = merger.dissector
        names = dissector.exchanges.names
        builder = BatchBuilder(TABLES[self.table], self.paths, names, self.made, 0)
        return [
            builder.batch(dissector.take_rows(table))
            for table in dissector.full_tables(1)
            if table == self.table
        ]

    # Output of other tasks

    def state_before(self, number: int) -> Checkpoint | None:
        """Checkpoint after the part before this one; None before the first."""
        while number and not self.staging.has(number - 1, STATE):
            known = [one for one in range(number) if self.staging.has(one, STATE)]
            following = max(known, default=-1) + 1
            self.staging.touch()
            if self.staging.is_alive(following):
                time.sleep(LOOK_S)
            elif not self.staging.has(following, STATE):
                # A task that ended since `known` was read has written its state before.
                self.make(following)
        if number == 0:
            return None
        content = self.staging.read(number - 1, STATE, most_bytes(self.options.limits))
        state = Checkpoint.from_bytes(content)
        if not {split.path for split in state.splits} <= {*self.paths}:
            raise EncodingError(f"a state in {self.staging.directory} is of other captures")
        return state

    def nameless(self, number: int) -> list[pa.RecordBatch]:
        """Rows of a part before the last that have no topic names there."""
        if not self.has_names():
            return []
        if not self.staging.has(number, NAMELESS):
            self.make(number)
        content = self.staging.read(number, NAMELESS, NAMELESS_BYTES)
        schema = self.builder({}, self.made).schema
        with believed(f"rows in {self.staging.directory}"), pa.ipc.open_stream(content) as reader:
            table = as_declared(reader.read_all(), schema)
            table.validate(full=True)
            return list(table.to_batches())

    def make(self, number: int) -> None:
        """Do the missing work of another task."""
        with tempfile.TemporaryDirectory(prefix="kdissect-") as directory:
            try:
                self.settle(number, Path(directory))
            except CaptureError as error:
                raise LostBefore(str(error)) from error

    def leave_nameless(self, number: int, done: Done) -> None:
        """Write the rows of a part whose topics have no names yet."""
        if not self.has_names():
            return
        builder = self.builder(done.names, self.made)
        for batch in self.corrected(done):
            builder.take(batch)
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, builder.schema) as writer:
            for batch in builder.finish():
                writer.write_batch(batch)
        self.staging.write(number, NAMELESS, sink.getvalue())

    def corrected(self, done: Done) -> Iterator[pa.RecordBatch]:
        """Rows of a part with corrections applied; may be called again."""
        for path, corrections in zip(done.rows, done.corrections, strict=True):
            if not path.stat().st_size:
                continue
            # Applying them counts rows in them.
            applied = copy.deepcopy(corrections)
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    yield applied.apply(self.table, batch)
        yield from done.own

    def has_names(self) -> bool:
        """Return whether topic names are among the columns."""
        return bool({"topic", "assignment"} & set(self.wanted))
