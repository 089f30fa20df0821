"""Runs that write to a dataset: several Delta tables that change together, or not at all.

    DATASET/runs/                            what each run changed (`runs_table`)
    DATASET/exchanges/ …                     tables of rows (`delta_tables`)
    DATASET/_kdissect/states/0/NAME.state    the checkpoint that later captures continue from
    DATASET/_kdissect/run-6f1c…/             intermediate files of a run

A commit is of one table. So a run N

1. brings its files to their place, under names that only this run uses,
2. commits its records to `runs`: from here on it is decided,
3. commits to each table the files that it adds and removes, with N (``txn``),
4. commits to `runs` that N is done, with the version of each table.

Readers take the tables in the versions of the last run that is done: whole runs. A run that is
killed before 2 has not been. One that is killed later is completed, by its own records, by the
next process that opens the dataset to write: a table that has N is left alone. Of two runs with
the same number the second one fails at 2, and has changed nothing.

In a directory a lock spares a second run its work; no commit depends on it. Upkeep (`compaction`,
`deletion`) says in the lock's file that it has it, and a run then waits for it. Upkeep waits for
runs. Where there are no locks, a run that finds its number taken by one that only rewrote other
files takes the next number.
"""

import fcntl
import os
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from kdissect.dataset.delta_actions import Removed, added_file
from kdissect.dataset.delta_tables import (
    ATTEMPTS,
    Conflict,
    DeltaTables,
    check_there,
    deltalake,
)
from kdissect.dataset.entries import OWN, Contents
from kdissect.dataset.run_history import History, is_rewriting, with_files
from kdissect.dataset.run_records import Change, records_of
from kdissect.dataset.runs_table import RUNS, RunsTable
from kdissect.dataset.storage import (
    AT_ONCE,
    at_once,
    is_uri,
    joined,
    remember,
    remove,
    remove_below,
    seen,
)
from kdissect.dataset.store_options import delta_uri
from kdissect.dataset.stored_columns import spark_schema
from kdissect.errors import DatasetError, KdissectError, OutputError, StoreError, cannot_write
from kdissect.system.confined import OWNER_ONLY, Below
from kdissect.tables.schemas import TABLES

LOCK: Final = "lock"
UPKEEP: Final = b"upkeep"  # content of its file while upkeep has it
# A unit of upkeep takes seconds, a run that upkeep waits for perhaps minutes.
WAIT_S: Final = 60.0
LOOK_S: Final = 0.05
STATES: Final = "states"
OUTDATED: Final = f"{OWN}/manifest.json"  # of datasets before Delta tables
RUN: Final = re.compile(r"run-[A-Za-z0-9-]{1,200}")
STATE_NAME: Final = re.compile(r"[^/.][^/]*\.state")
TAP_NUMBER: Final = re.compile(r"\d{1,9}")
# Stores in which a file can be written on the condition that it does not exist.
STORES: Final = frozenset(("s3", "gs", "gcs", "abfs", "abfss"))


class Dataset:
    """A dataset open for one run; a context manager, which completes the run before it.

    Raises OutputError when it is not writable, or another process of this machine writes to it. A
    run waits for upkeep, and upkeep (`is_upkeep`) for runs: a minute at most.
    """

    def __init__(self, given: str | os.PathLike[str], *, is_upkeep: bool = False) -> None:
        self.is_upkeep = is_upkeep
        self.versions: dict[str, int] = {}
        location = remember(os.fspath(given))
        self.is_remote = is_uri(location)
        if self.is_remote and location.partition("://")[0] not in STORES:
            raise OutputError(
                f"{location}: a dataset can be in a directory, S3, Google Cloud Storage or Azure: "
                "elsewhere no file can be written on the condition that it does not exist"
            )
        self.directory = location if self.is_remote else str(Path(location).absolute())
        self.contents = Contents()
        self.token = uuid.uuid4().hex[:12]
        self.run_directory = joined(self.directory, OWN, f"run-{self.token}")
        self.tables = DeltaTables(self.directory)
        self.runs = RunsTable(self.tables)
        self._open = ExitStack()

    def __enter__(self) -> "Dataset":
        try:
            self._begin()
        except BlockingIOError as error:
            self._open.close()
            raise OutputError(f"{self.directory}: another run writes to this dataset") from error
        except OSError as error:
            self._open.close()
            raise cannot_write(Path(self.directory), error) from error
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._open:
            if self.is_remote:
                # What executors that are still at work write is removed by `dataset expire`.
                with suppress(StoreError):
                    remove_below(self.run_directory)
            else:
                self._own.remove_tree(f"run-{self.token}")

    def commit(self, contents: Contents, written: Sequence[str], replaced: Sequence[str]) -> None:
        """Commit the run: the files that it has written come, the `replaced` ones go.

        Both are paths in the dataset, states among them.
        """
        if not self.is_remote:
            self._bring(written)
        change = self._change(written, replaced)
        self._decide(contents, change)
        self._complete(contents.run, change, contents.options.get("tables", TABLES))
        self.contents = contents
        self._remove_states(replaced)
        self.runs.merge_files()

    def _decide(self, contents: Contents, change: Change) -> None:
        """Commit the records of the run, with the first number that no run has."""
        last = self.contents.run
        for _ in range(ATTEMPTS):
            contents.run = last + 1
            try:
                self.runs.decide(contents.run, records_of(self.contents, contents, change))
            except Conflict as error:
                last = self._after_rewriting(last, change)
                if last < 0:
                    raise OutputError(
                        f"{self.directory}: another run writes to this dataset; it was the first "
                        "to commit, and this one has changed nothing"
                    ) from error
                continue
            return
        raise OutputError(f"{self.directory}: other runs write to this dataset all the time")

    def _after_rewriting(self, last: int, change: Change) -> int:
        """Number of the last run, if all since number `last` only rewrote other files; else -1."""
        history = self.runs.read()
        if history is not None and history.pending is not None:
            self._complete(history.contents.run + 1, history.pending, history.tables)
            history = self.runs.read()
        if history is None:
            return -1
        since = [one for one in self.runs.records if one.run > last]
        needed = {one.path for one in change.removed}
        return history.contents.run if is_rewriting(since, needed, self.runs.where) else -1

    def _begin(self) -> None:
        deltalake()
        delta_uri(self.directory)  # before anything is made
        if not self.is_remote:
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            self._lock()
        refuse_outdated(self.directory)
        history = self.runs.read()
        if history is not None and history.pending is not None:
            self._complete(history.contents.run + 1, history.pending, history.tables)
            history = self.runs.read()
        if history is not None:
            self.contents = contents_at(self.tables, history)
            self.versions = history.versions
        if not self.is_remote:
            self._remove_left()
            self._own.make_new(f"run-{self.token}", OWNER_ONLY)

    def _lock(self) -> None:
        self._below = self._open.enter_context(Below(self.directory))
        self._below.make_directory(OWN)
        self._own = self._open.enter_context(self._below.inside(OWN))
        lock = self._own.open_file(LOCK, os.O_RDWR | os.O_CREAT)
        self._open.callback(os.close, lock)
        take_lock(lock, self.is_upkeep)
        with suppress(FileExistsError):
            # States contain raw bytes of messages.
            self._own.make_new(STATES, OWNER_ONLY)

    def _bring(self, written: Sequence[str]) -> None:
        """Bring files of tasks to their place, and on disk."""
        try:
            with self._own.inside(f"run-{self.token}") as made:
                for name in written:
                    made.sync(name)
                    made.move(name, self._below)
        except FileNotFoundError as error:
            raise OutputError(
                f"{self.directory}: {error.filename}: is gone: another run writes to this dataset, "
                "on a machine that does not share locks with this one"
            ) from error
        for directory in directories_of(written):
            self._below.sync_names(directory)

    def _change(self, written: Iterable[str], replaced: Iterable[str]) -> Change:
        """Files that tables gain and lose; raises DatasetError where others have rewritten them."""
        new = [path for path in written if not path.startswith(f"{OWN}/")]
        with ThreadPoolExecutor(AT_ONCE if self.is_remote else 1) as pool:
            added = [*pool.map(partial(added_file, self.directory), new)]
        removed = [
            Removed(path.partition("/")[0], path)
            for path in replaced
            if not path.startswith(f"{OWN}/")
        ]
        change = Change(added, removed)
        for table in {one.table for one in removed}:
            where = joined(self.directory, table)
            check_there(where, self.tables.snapshot(table), change.of(table)[1])
        return change

    def _complete(self, run: int, change: Change, tables: Iterable[str]) -> None:
        """Commit a run to all tables, and that it is done; safe to repeat."""
        names = {
            *tables,
            *(one.table for one in change.added),
            *(one.table for one in change.removed),
        }
        versions = {
            name: self.tables.commit(name, run, *change.of(name))
            for name in TABLES
            if name in names
        }
        self.runs.done(run, versions)

    def _remove_states(self, replaced: Iterable[str]) -> None:
        states = [name for name in replaced if name.startswith(f"{OWN}/")]
        if self.is_remote:
            at_once(remove, [(joined(self.directory, name),) for name in states])
            return
        for name in states:
            self._below.remove(name)

    def _remove_left(self) -> None:
        """Remove states and intermediate files that killed runs left: raw bytes of messages."""
        states = {tap.state for tap in self.contents.taps}
        for number in self._own.directories(STATES, TAP_NUMBER):
            for name in self._own.names(f"{STATES}/{number}", STATE_NAME):
                if f"{OWN}/{STATES}/{number}/{name}" not in states:
                    self._own.remove(f"{STATES}/{number}/{name}")
        for run in self._own.directories("", RUN):
            self._own.remove_tree(run)


def take_lock(lock: int, is_upkeep: bool) -> None:
    """Lock the file, and mark it if the holder is upkeep; BlockingIOError if another holds it."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_short = os.pread(lock, len(UPKEEP), 0) == UPKEEP
            if not (is_upkeep or is_short) or time.monotonic() > end:
                raise
            time.sleep(LOOK_S)
            continue
        break
    if os.fstat(lock).st_size:
        os.ftruncate(lock, 0)
    if is_upkeep:
        os.pwrite(lock, UPKEEP, 0)


def read_contents(dataset: str | os.PathLike[str]) -> Contents | None:
    """Contents of a dataset at a path or URI after its last run, None if there is none.

    Raises DatasetError for logs and records that kdissect would not write.
    """
    location = remember(os.fspath(dataset))
    history = history_in(location)
    return None if history is None else contents_at(DeltaTables(location), history)


def history_in(location: str) -> History | None:
    """What the records of a dataset say, None if no run of it is done."""
    try:
        refuse_outdated(location)
        history = RunsTable(DeltaTables(location)).read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DatasetError(f"{location}: {error.strerror}") from error
    return history if history is not None and history.contents.run else None


def known_captures(dataset: str | os.PathLike[str]) -> set[tuple[str, int, int]]:
    """Path, size and modification time of all captures of a dataset; reads no table of rows."""
    history = history_in(remember(os.fspath(dataset)))
    return set() if history is None else history.contents.files()


def contents_in(dataset: str | os.PathLike[str]) -> Contents:
    """Contents of a dataset; raises KdissectError if there is none."""
    contents = read_contents(dataset)
    if contents is None:
        location = remember(os.fspath(dataset))  # without a password
        raise KdissectError(f"{location} is no dataset: it has no table {RUNS}")
    return contents


def contents_at(tables: DeltaTables, history: History) -> Contents:
    """Contents after the last run that is done, with the files of all tables."""
    versions = history.versions
    with ThreadPoolExecutor(AT_ONCE if is_uri(tables.location) else 1) as pool:
        found = [*pool.map(lambda name: tables.snapshot(name, versions[name]), versions)]
    files = {name: one.files for name, one in zip(versions, found, strict=True)}
    contents = with_files(history, files, tables.location)
    contents.mixed = {
        name: one.columns
        for name, one in zip(versions, found, strict=True)
        if one.is_mixed or {*spark_schema(TABLES[name]).names} - {*one.columns}
    }
    return contents


def refuse_outdated(location: str) -> None:
    """Raise DatasetError for a dataset that was written before there were Delta tables."""
    if is_uri(location):
        is_outdated = seen(joined(location, OUTDATED))[0] >= 0
    else:
        with Below(location) as below:
            is_outdated = below.is_file(OUTDATED)
    if is_outdated:
        raise DatasetError(
            f"{location}: was written by an earlier version of kdissect ({OUTDATED}), which is not "
            "converted: dissect its captures into another directory"
        )


def directories_of(files: Iterable[str]) -> list[str]:
    """Directories of these files, and those above, "" for the root; inner ones first."""
    found = {str(parent) for file in files for parent in PurePosixPath(file).parents}
    return sorted(("" if one == "." else one for one in found), reverse=True)
