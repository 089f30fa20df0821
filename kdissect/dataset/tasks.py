"""Tasks of executors on splits of taps; each may run twice, or on two hosts at once.

    dissect_part   a split         → its rows and its boundary state in the run's staging directory
    merge_tap      boundary states → corrections of each split's rows; the rows left open, and the
                                     checkpoint after the last split
    publish        some splits     → Parquet files with their corrected rows
    rename         rows of earlier runs → the same with the topic names known now
    settle_tap     a tap with few rows → the last three, one after the other; else merge_tap alone
    bring_in       a tap with one new split → all of these, one after the other

Output is written atomically, under a name that does not depend on the process that wrote it. Longer
than other modules: the steps of a run, with the files that they exchange.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.parquet import ParquetFile

from kdissect.capture.blocks import Secrets
from kdissect.capture.packet import Packet
from kdissect.capture.splits import Split, read_split
from kdissect.checkpoint.boundary_state import BoundaryState
from kdissect.checkpoint.checkpoint import Checkpoint
from kdissect.checkpoint.corrections import Corrections
from kdissect.checkpoint.jobs_run import find_secrets
from kdissect.checkpoint.merger import Merger
from kdissect.checkpoint.spill_transfer import packed, unpacked
from kdissect.checkpoint.split import SplitRun
from kdissect.checkpoint.validation import going_on
from kdissect.dataset import late_topic_names
from kdissect.dataset.entries import OWN, FileEntry
from kdissect.dataset.late_topic_names import renamed
from kdissect.dataset.planning import Work
from kdissect.dataset.publishing import Output
from kdissect.dataset.staging import (
    STAGING,
    Staged,
    make_whole,
    names_bytes,
    names_in,
    read_part,
    read_staged,
)
from kdissect.dataset.storage import seen
from kdissect.dataset.storage_captures import local_copies, local_copy
from kdissect.dataset.stored_columns import spark_schema
from kdissect.errors import CaptureError, EncodingError, Problem
from kdissect.pipeline import Options, PausedCollector
from kdissect.protocol.primitives import uuid_text
from kdissect.system.confined import PUBLIC, SECRET, Below
from kdissect.tables.batches import TEXT_TYPE, builders_of
from kdissect.tables.schemas import TABLES
from kdissect.tables.stored_rows import as_declared, believed, check_rows, with_nulls

SETTLED: Final = "settled"  # rows that the merger output before the end
BEGUN_ANEW: Final = "tap-begun-anew"  # kind of the problem row of a state that was not continued
OPEN: Final = "open"  # its output at the end, as nothing followed


class Task(NamedTuple):
    """Common parameters of a run's tasks; picklable."""

    dataset: str
    run_directory: str
    run: int
    options: Options
    works: Mapping[int, Work]
    # For a dataset in a store: distinguishes files of this run from a dead run of the same number.
    token: str = ""
    # Settings to reach stores, see `storage.reached_by`.
    stores: tuple[str, ...] = ()
    # Of a run, see `spark.second_attempt`: each has intermediate files of its own.
    attempt: int = 0

    def of_tap(self, number: int) -> "Task":
        """The same for tasks of one work, without the others and without history."""
        return self._replace(works={number: self.works[number].for_task()})

    def staged(self, work: Work, part: str) -> Path:
        """Staging directory of a split's rows, or of other parts of a tap."""
        tap = f"{work.tap.number}-{self.attempt}" if self.attempt else str(work.tap.number)
        return Path(self.run_directory, STAGING, tap, part)

    def made(self, path: str) -> Path:
        """Path of a dataset file until the run is committed."""
        return Path(self.run_directory, path)

    def stored(self, path: str) -> Path:
        """Path of a file in the dataset."""
        return Path(self.dataset, path)

    def there(self, path: Path) -> Path:
        """Path of this or another task's output, to be read now."""
        return path

    def part(self, work: Work, name: str) -> bytes:
        """Intermediate file of a tap from this or another task; raises DatasetError."""
        path = self.there(self.staged(work, name))
        return read_part(path, self.run_directory, self.options.limits)

    def state_path(self, work: Work) -> str:
        """Path in the dataset of a tap's state after its new captures."""
        return f"{OWN}/states/{work.tap.number}/{self.run:06}{self.token}.state"


def dissect_part(task: Task, place: tuple[int, int]) -> dict[str, int]:
    """Dissect one split independently; returns the size of its boundary state and its rows."""
    work = task.works[place[0]]
    split = work.splits[place[1]]
    staged = Staged(task.staged(work, str(place[1])))
    with local_copy(split.path, split.start, split.end) as copy:
        run = SplitRun(split, task.options, work.paths, copy=copy)
        for table, batch in run:
            staged.write(table, batch)
    boundary = packed(run.boundary.to_bytes())
    make_whole(task.staged(work, f"{place[1]}.boundary"), boundary)
    staged.publish()
    return {"boundary_bytes": len(boundary), "row_bytes": staged.size}


class Merged(NamedTuple):
    """A tap after its new captures: the balance of its bytes, and the capture's clock.

    `is_new`: it did not continue the state before, see `begun`. `oldest` is the number of the first
    capture that its state refers to, see `Checkpoint.oldest_capture`.
    """

    balance: dict[str, Any]
    latest_ns: int
    is_new: bool
    oldest: int = 0


def merge_tap(task: Task, place: tuple[int]) -> Merged:
    """Merge the splits of a tap."""
    work = task.works[place[0]]
    with PausedCollector():
        merger, is_new = begun(task, work)
        rows = MergedRows(merger, task, work)
        settled = Staged(task.staged(work, SETTLED))
        for number in range(len(work.splits)):
            boundary = boundary_of(task, work, number)
            with going_on(
                f"boundary state {number} of tap {work.tap.name}, or what was before it,"
            ):
                corrections = merger.add(boundary)
            make_whole(task.staged(work, f"{number}.corrections"), corrections.to_bytes())
            rows.write(settled, task.options.batch_rows)
        oldest = end_tap(task, work, rows, settled)
    return merged(merger, is_new, oldest)


def end_tap(task: Task, work: Work, rows: "MergedRows", settled: Staged) -> int:
    """Write the state after the captures of a tap, and the rows that are open then.

    Returns the number of the first capture that the state refers to.
    """
    with going_on(f"the last boundary state of tap {work.tap.name}"):
        checkpoint = rows.merger.state()
        state = checkpoint.to_bytes()
        rows.write(settled, 1)
        rows.merger.finish()
    still_open = Staged(task.staged(work, OPEN))
    rows.write(still_open, 1)
    make_whole(task.staged(work, "names"), names_bytes(dict(rows.names)))
    make_whole(task.made(task.state_path(work)), state)
    settled.publish()
    still_open.publish()
    return checkpoint.oldest_capture()


def merged(merger: Merger, is_new: bool, oldest: int) -> Merged:
    """What is known of a tap when its merger is finished."""
    latest_ns = int(merger.dissector.streams.clock.now_ns)
    return Merged(asdict(merger.balance), latest_ns, is_new, oldest)


def boundary_of(task: Task, work: Work, number: int) -> BoundaryState:
    """Boundary state of a split; raises EncodingError if it belongs to another split."""
    boundary = BoundaryState.from_bytes(unpacked(task.part(work, f"{number}.boundary")))
    if boundary.split != work.splits[number]:
        raise EncodingError(
            f"the boundary state of split {number} of tap {work.tap.name} is of another one"
        )
    return boundary


def begun(task: Task, work: Work) -> tuple[Merger, bool]:
    """Merger with the tap's state in the dataset, and whether it could not be continued.

    That is so where the state needs packets (of TLS that was decrypted) of a capture that is gone:
    then connections that were open begin anew, which is a problem row.
    """
    try:
        return resumed(task, work), not work.tap.state
    except CaptureError as error:
        paths = [work.paths[number] for number in work.following]
        merger = Merger(task.options, read_again, lambda: secrets_in(paths))
        text = f"tap {work.tap.name}: {error}; its open connections begin anew"
        merger.dissector.add_problems(
            [Problem("capture", BEGUN_ANEW, text, capture=work.following.start)]
        )
        return merger, True


def resumed(task: Task, work: Work) -> Merger:
    """Merger with the tap's state; raises CaptureError where that needs a capture that is gone."""
    state = None
    if work.tap.state:
        path = task.there(task.stored(work.tap.state))
        state = Checkpoint.from_bytes(read_part(path, task.dataset, task.options.limits))
    known = [] if state is None else [split.path for split in state.splits]
    if not {*known} <= {*work.paths}:
        raise EncodingError(f"the state of tap {work.tap.name} is of other captures")
    new = [work.paths[number] for number in work.following]
    paths = [*dict.fromkeys([*(path for path in known if seen(path)[0] >= 0), *new])]
    with going_on(f"the state of tap {work.tap.name}"):
        return Merger(task.options, read_again, lambda: secrets_in(paths), state)


class MergedRows:
    """Rows that the merger itself outputs."""

    def __init__(self, merger: Merger, task: Task, work: Work) -> None:
        self.merger = merger
        self.dissector = merger.dissector
        self.names = merger.dissector.exchanges.names
        self.builders = builders_of(task.options.tables, work.paths, self.names, {}, held_limit=0)

    def write(self, staged: Staged, row_limit: int) -> None:
        """Write the rows of tables that have `row_limit` of them."""
        for name in self.dissector.full_tables(row_limit):
            batch = self.builders[name].batch(self.dissector.take_rows(name))
            if batch.num_rows:
                staged.write(name, batch)


def read_again(split: Split) -> Iterator[list[Packet]]:
    """Packets of a split, wherever its capture is."""
    with local_copy(split.path, split.start, split.end) as copy:
        yield from read_split(split, copy=copy)


def secrets_in(paths: Sequence[str]) -> Sequence[Secrets]:
    """All TLS keys that captures contain, wherever they are."""
    with local_copies(paths) as copies:
        return find_secrets(list(copies))


def publish(task: Task, place: tuple[int, int, int]) -> list[FileEntry]:
    """Write the corrected rows of the splits ``first`` to ``end``; from -1: what is still open."""
    number, first, end = place
    work = task.works[number]
    name = OPEN if first < 0 else f"{first:06}"
    names = names_in(task.part(work, "names"))
    builders = builders_of(task.options.tables, work.paths, names, {})
    with outputs(task, work, name, first < 0) as (output, nameless):
        for table, batch in staged_rows(task, work, range(first, end)):
            output.write(table, builders[table].take(batch))
        for table, builder in builders.items():
            for batch in builder.finish():
                nameless.write(table, batch)
    return output.entries + nameless.entries


def rename(task: Task, place: tuple[int]) -> list[FileEntry]:
    """Rewrite rows of earlier runs with topic names that have become known since."""
    work = task.works[place[0]]
    names = names_in(task.part(work, "names"))
    by_id = {uuid_text(raw): name for raw, name in names.items()}
    with outputs(task, work, "renamed") as (output, nameless):
        for file in work.nameless:
            rows = renamed(stored_rows(task, file), by_id)
            is_late = late_topic_names.nameless(rows)
            for to, chosen in ((output, pc.invert(is_late)), (nameless, is_late)):
                for batch in rows.filter(chosen).to_batches():
                    to.write_made(file.table, file.date, batch)
    return output.entries + nameless.entries


def stored_rows(task: Task, file: FileEntry) -> pa.Table:
    """Rows of a file in the dataset; raises DatasetError for a file of another origin."""
    path = task.there(task.stored(file.path))
    schema = spark_schema(TABLES[file.table], text=TEXT_TYPE)
    with (
        believed(str(path)),
        Below(task.dataset) as below,
        os.fdopen(below.open_file(file.path), "rb") as content,
        ParquetFile(content) as parquet,
    ):
        check_rows(parquet, file.rows, str(path))
        return as_declared(with_nulls(parquet.read(), schema), schema)


@contextmanager
def outputs(
    task: Task, work: Work, name: str, is_open: bool = False
) -> Iterator[tuple[Output, Output]]:
    """Output for rows, and for those with topics known only by id."""
    directory, mode = task.run_directory, mode_of(task)
    late = f"{name}-nameless"
    with (
        Output(directory, work, file_name(task, work, name), is_open, mode=mode) as output,
        Output(directory, work, file_name(task, work, late), is_open, True, mode) as nameless,
    ):
        yield output, nameless


def staged_rows(
    task: Task, work: Work, numbers: Iterable[int]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of splits, corrected by the merge; with the first split also those of the merger."""
    for number in numbers:
        if number < 0:
            yield from rows_of(task, work, OPEN)
            continue
        if number == 0:
            yield from rows_of(task, work, SETTLED)
            if not work.splits:
                return  # read in one pass
        corrections = Corrections.from_bytes(task.part(work, f"{number}.corrections"))
        for table, batch in rows_of(task, work, str(number)):
            yield table, corrections.apply(table, batch)


def rows_of(task: Task, work: Work, part: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of a part as they were staged."""
    return read_staged(task.there(task.staged(work, part)), task.run_directory)


class BroughtIn(NamedTuple):
    """Result of a tap that one task has processed, from its splits or from what they staged."""

    files: list[FileEntry]
    merged: Merged
    sizes: dict[str, int]


def settle_tap(task: Task, place: tuple[int, int]) -> BroughtIn:
    """Merge the splits of a tap and, if the second number is not 0, publish all its rows, too."""
    number, publishes = place
    work = task.works[number]
    done = merge_tap(task, (number,))
    files = []
    if publishes:
        files += publish(task, (number, 0, len(work.splits)))
        files += publish(task, (number, -1, 0))
        if work.nameless:
            files += rename(task, (number,))
    return BroughtIn(files, done, {"boundary_bytes": 0, "row_bytes": 0})


def bring_in(task: Task, place: tuple[int]) -> BroughtIn:
    """Do all work of a tap with one new split, which cannot be parallelized."""
    sizes = dissect_part(task, (place[0], 0))
    return settle_tap(task, (place[0], 1))._replace(sizes=sizes)


def mode_of(task: Task) -> int:
    """Mode of files with rows: with payload readable by their owner only."""
    return SECRET if task.options.payload else PUBLIC


def file_name(task: Task, work: Work, part: str) -> str:
    """Name of a Parquet file, unique among the runs of the dataset."""
    return f"r{task.run:06}{task.token}-t{work.tap.number}-{part}.parquet"
