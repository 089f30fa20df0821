"""Intermediate files shared by tasks of the data source, in a directory, preferably a shared one.

    BASE/kdissect-HASH/000007.state       checkpoint after part 7 of a tap
                       000007.nameless    its rows with topics known only by id
                       000007.alive       lock of the process that works on it, touched regularly

HASH is derived from captures, options and columns, so other tasks use another directory. Files
appear atomically, and do not depend on the process that makes them: a task that finds neither a
file nor a live process working on it makes the file itself.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kdissect.dataset.writer_identity import is_over, process_in, this_process
from kdissect.errors import DatasetError, OutputError, cannot_write
from kdissect.system.confined import OWNER_ONLY, SECRET, Below
from kdissect.tables.spool import write_whole

# A process that has not touched its file for so long is considered dead; a mistake costs time only.
STALE_S: Final = 20.0
TOUCHED_S: Final = 1.0
LOOK_S: Final = 0.05
# Directories not written to for so long are removed.
KEPT_S: Final = 86_400.0
PREFIX: Final = "kdissect-"
NAME_SIZE: Final = 32  # hexadecimal digits
ALIVE_BYTES: Final = 4096  # host and namespace names, two numbers


def default_base() -> Path:
    """Default base of such directories; private to this user."""
    return Path(tempfile.gettempdir(), f"kdissect-staging-{os.getuid()}")


def is_ours(directory: Path) -> bool:
    """Return whether it is a directory owned by this user, and not a symbolic link."""
    status = directory.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def directory_of(base: Path, *what: object) -> Path:
    """Directory for tasks that have all of `what` in common."""
    digest = hashlib.sha256(repr(what).encode()).hexdigest()
    return base / f"{PREFIX}{digest[:NAME_SIZE]}"


def remove_old(base: Path, now: float) -> None:
    """Remove directories of tasks that ended long ago."""
    for directory in base.glob(PREFIX + "[0-9a-f]" * NAME_SIZE):
        try:
            if now - directory.lstat().st_mtime > KEPT_S:
                shutil.rmtree(directory)
        except OSError:
            # Another process removes it too.
            continue


class Staging:
    """Such a directory; raises OutputError if it cannot be made, or belongs to another user."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.me = json.dumps({**this_process(), "token": uuid.uuid4().hex})
        self.working: set[int] = set()
        self._touched = 0.0
        # Per part: last observed status of its file, and since when.
        self._seen: dict[int, tuple[int, float]] = {}
        try:
            directory.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
            directory.mkdir(mode=OWNER_ONLY, exist_ok=True)
            own = [directory, *([directory.parent] if directory.parent == default_base() else [])]
            strange = [one for one in own if not is_ours(one)]
        except OSError as error:
            raise cannot_write(directory, error) from error
        if strange:
            raise OutputError(f"{strange[0]}: of another user, or a link")

    def has(self, part: int, kind: str) -> bool:
        """Return whether the file exists."""
        with Below(self.directory) as below:
            return below.is_file(self._path(part, kind).name)

    def read(self, part: int, kind: str, limit: int) -> bytes:
        """Read a whole file; raises DatasetError beyond `limit` bytes, or for a symbolic link."""
        with Below(self.directory) as below:
            return below.read(self._path(part, kind).name, limit)

    def write(self, part: int, kind: str, content: bytes) -> None:
        """Write a file; raises OutputError on failure."""
        path = self._path(part, kind)
        try:
            write_whole(path, content, mode=SECRET)
        except OSError as error:
            raise cannot_write(path, error) from error

    @contextmanager
    def work(self, part: int) -> Iterator[None]:
        """Mark a part as being worked on by this process."""
        self.working.add(part)
        self.write(part, "alive", self.me.encode())
        try:
            yield
        finally:
            self.working.discard(part)
            if self._who(part) == self.me.encode():
                self._path(part, "alive").unlink(missing_ok=True)

    def touch(self) -> None:
        """Refresh the marks; call often while working."""
        now = time.monotonic()
        if now - self._touched < TOUCHED_S:
            return
        self._touched = now
        for part in self.working:
            path = self._path(part, "alive")
            # Another process that works on it has written its identity, and touches the file.
            with suppress(FileNotFoundError):
                os.utime(path, follow_symlinks=False)

    def is_alive(self, part: int) -> bool:
        """Return whether another process appears to be working on a part."""
        path = self._path(part, "alive")
        who = self._who(part)
        try:
            if who in (b"", self.me.encode()) or is_over(process_in(who, str(path))):
                return False
            touched = path.lstat().st_mtime_ns
        except (OSError, DatasetError):
            return False
        # Clocks of other hosts may differ, so only changes of the file count.
        before, since = self._seen.get(part, (-1, 0.0))
        now = time.monotonic()
        if touched != before:
            self._seen[part] = touched, now
            return True
        return now - since < STALE_S

    def _who(self, part: int) -> bytes:
        """Writer identity in a part's file, b"" if there is none."""
        try:
            return self.read(part, "alive", ALIVE_BYTES)
        except (OSError, DatasetError):
            return b""

    def _path(self, part: int, kind: str) -> Path:
        return self.directory / f"{part:06}.{kind}"
