"""A tap in parts that are read in parallel, each by a task of the data source.

A part is some splits (docs/splits.md). Its task dissects them alone, then takes the state behind
the part before it, which that part's task leaves in a staging directory; puts the two together,
leaves the state behind its own part, and gives its rows corrected. What is open at the end, and
rows whose topics got no name until the end of their part, are given by the last part.

Who finds no state and nobody who works on it makes it himself, from the captures. So tasks may run
in any order, one at a time, not all of them, or on machines that share no directory. Nobody waits
for a part behind his own, so they never wait for each other.
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
from kdissect.capture.splits import Split, plan, read_split
from kdissect.checkpoint.boundary_state import BoundaryState
from kdissect.checkpoint.checkpoint import Checkpoint
from kdissect.checkpoint.corrections import Corrections
from kdissect.checkpoint.jobs_run import find_secrets
from kdissect.checkpoint.merger import Merger
from kdissect.checkpoint.split import SplitRun, made_columns
from kdissect.checkpoint.validation import going_on
from kdissect.dataset.planning import are_apart, groups_of
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
# Rows of one part without a topic's name: at most all of a part of 256 MB of captures, in Arrow.
NAMELESS_BYTES: Final = 4 << 30
# Each part has the places of all, so that it can make what others have not.
MOST_PARTS: Final = 256
# A tap that is hardly larger than a part is one task.
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
        """The first capture that it reads."""
        return self.parts[self.number][0].path


class LostBefore(CaptureError):
    """A part before this one cannot be read."""


def parts_of(paths: Sequence[str], size: int) -> list[tuple[Split, ...]]:
    """Parts of about `size` bytes; one at most where the captures have to be read in one go.

    Reads large captures once, to find places to cut.
    """
    total = sum(seen(path)[0] for path in paths)
    if total <= size * WORTHWHILE:
        return []
    size = max(size, -(-total // MOST_PARTS))
    try:
        splits = plan(paths, size)
    except CaptureError:
        # Who reads it tells.
        return []
    if not are_apart(splits):
        return []
    return [tuple(splits[group.start : group.stop]) for group in groups_of(splits, size)]


class Done(NamedTuple):
    """A part put behind those before it: its rows, how they are corrected, the merger's own."""

    rows: list[Path]
    corrections: list[Corrections]
    own: list[pa.RecordBatch]
    names: dict[bytes, str]


class PartTask:
    """What a task does; `options` are for one table."""

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
        """The rows of the part, and with the last one what was left over.

        Raises CaptureError where it cannot be read, `LostBefore` where one before it cannot.
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
        """What gives rows the names that are known, and holds back those that have none."""
        return BatchBuilder(TABLES[self.table], self.paths, names, columns)

    def settle(self, number: int, directory: Path) -> Done:
        """Dissect a part and put it behind those before it; leave what others need of it."""
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
        """Put the boundary states of a part behind those before it; leave what others need of
        it.
        """
        corrections = [merger.add(boundary) for boundary in boundaries]
        names = dict(merger.dissector.exchanges.names)
        if number == self.last:
            merger.finish()
            names = merger.dissector.exchanges.names
            return Done(rows, corrections, self.own_rows(merger), names)
        state = merger.state().to_bytes()
        done = Done(rows, corrections, self.own_rows(merger), names)
        self.leave_nameless(number, done)
        # Last, as it says that all is there.
        self.staging.write(number, STATE, state)
        return done

    def dissect(self, split: Split, to: Path) -> BoundaryState:
        """Dissect a split alone; its rows go into a file."""
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
        """What goes on with a state."""
        paths = self.paths
        return Merger(self.options, self.reread, lambda: find_secrets(paths), state)

    def reread(self, split: Split) -> Iterator[list[Packet]]:
        """The packets of a split again."""
        for packets in read_split(split):
            self.staging.touch()
            yield packets

    def own_rows(self, merger: Merger) -> list[pa.RecordBatch]:
        """The rows that the merger gives itself."""
        dissector = merger.dissector
        names = dissector.exchanges.names
        builder = BatchBuilder(TABLES[self.table], self.paths, names, self.made, 0)
        return [
            builder.batch(dissector.take_rows(table))
            for table in dissector.full_tables(1)
            if table == self.table
        ]

    # What others leave

    def state_before(self, number: int) -> Checkpoint | None:
        """The state behind the part before this one; None before the first."""
        while number and not self.staging.has(number - 1, STATE):
            known = [one for one in range(number) if self.staging.has(one, STATE)]
            following = max(known, default=-1) + 1
            self.staging.touch()
            if self.staging.is_alive(following):
                time.sleep(LOOK_S)
            elif not self.staging.has(following, STATE):
                # A task that ended since `known` was read has left its state first.
                self.make(following)
        if number == 0:
            return None
        content = self.staging.read(number - 1, STATE, most_bytes(self.options.limits))
        state = Checkpoint.from_bytes(content)
        if not {split.path for split in state.splits} <= {*self.paths}:
            raise EncodingError(f"a state in {self.staging.directory} is of other captures")
        return state

    def nameless(self, number: int) -> list[pa.RecordBatch]:
        """The rows of a part before the last that have no names there."""
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
        """Do for another task what it has not done."""
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
        """The rows of a part as they are in the whole; may be asked for again."""
        for path, corrections in zip(done.rows, done.corrections, strict=True):
            if not path.stat().st_size:
                continue
            # They count rows while they are applied.
            applied = copy.deepcopy(corrections)
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    yield applied.apply(self.table, batch)
        yield from done.own

    def has_names(self) -> bool:
        """Whether names of topics are among the columns."""
        return bool({"topic", "assignment"} & set(self.wanted))
