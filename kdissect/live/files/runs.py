"""Runs: each process locks its own directory for life; recovery of ended ones."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kdissect.errors import OutputError
from kdissect.live.files.disk_errors import is_full
from kdissect.system.confined import Below
from kdissect.tables.rotations import (
    GONE,
    MAKING,
    OPEN,
    TOPICS,
    check_links,
    hidden_in,
    rotations_in,
    runs_in,
    time_name,
)
from kdissect.tables.spool import sync

HIDDEN = (OPEN, MAKING, GONE)


class Run:
    """A run locked by this process."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def spools(self) -> list[Path]:
        """Directories of spools whose rotations are missing or not known to be complete."""
        return list(hidden_in(self.path, OPEN))

    def close(self) -> None:
        """Release it; without rotations it is removed."""
        if self._lock >= 0:
            with suppress(OSError):
                self.path.rmdir()
            os.close(self._lock)
            self._lock = -1


def make_run(directory: Path, now_ns: int, mode: int) -> Run:
    """Create a run in a directory, creating that if needed; raises OutputError."""
    try:
        directory.mkdir(mode, parents=True, exist_ok=True)
        with locked(directory):
            path = new_directory(directory, time_name(now_ns), mode)
            sync(directory)
            lock = lock_of(path)
    except OSError as error:
        do = "make room" if is_full(error) else "let this user write there"
        text = f"cannot write tables to {directory}: {error.strerror or error}"
        raise OutputError(f"{text}; use another directory, or {do}") from error
    if lock < 0:
        raise OutputError(f"cannot lock {path}: tables of a live capture need a local file system")
    return Run(path, lock)


def new_directory(directory: Path, name: str, mode: int) -> Path:
    """Create a directory of that name, or of the next free one."""
    count = 1
    while True:
        path = directory / (name if count == 1 else f"{name}-{count}")
        try:
            path.mkdir(mode)
        except FileExistsError:
            count += 1
        else:
            return path


def left_runs(directory: Path) -> list[Run]:
    """Runs whose process has ended and that need recovery, locked.

    Partial removals are completed, and empty runs are removed.
    """
    found = []
    with locked(directory), Below(directory) as below:
        check_links(directory)
        # Partial files of names; any process that writes them holds the lock.
        for half in directory.glob(f".{TOPICS}-*"):
            half.unlink(missing_ok=True)
        for path in runs_in(directory):
            if not any(hidden_in(path, prefix) for prefix in HIDDEN) and rotations_in(path):
                continue
            lock = lock_of(path)
            if lock < 0:
                continue
            run = Run(path, lock)
            for prefix in (MAKING, GONE):
                for one in hidden_in(path, prefix):
                    below.remove_tree(f"{path.name}/{one.name}")
            if run.spools():
                found.append(run)
            else:
                run.close()
    return found


def remove_if_empty(directory: Path, run: Path) -> None:
    """Remove a run that is empty and has no process."""
    with locked(directory):
        lock = lock_of(run)
        if lock >= 0:
            Run(run, lock).close()


def lock_of(path: Path) -> int:
    """Open file that locks a directory until it is closed; -1 if another process has the lock.

    The system releases it when the process ends, however it ends.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return -1
    return file


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other processes from making, taking over or removing runs meanwhile; held briefly."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
