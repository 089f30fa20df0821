"""What tasks of the data source leave for each other: files in a directory, best a shared one.

    BASE/kdissect-HASH/000007.state       what is known behind part 7 of a tap
                       000007.nameless    its rows of which only the topic's id is known
                       000007.alive       somebody works on it: who, and touched again and again

HASH stands for captures, options and columns, so other tasks have another directory. Files appear
whole, and are the same whoever makes them: who finds none, and nobody at work, makes them himself.
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
from kdissect.errors import DatasetError, OutputError
from kdissect.system.confined import OWNER_ONLY, SECRET, Below
from kdissect.tables.spool import write_whole

# Who has not touched his file for so long is taken for dead; that he is not costs time only.
STALE_S: Final = 20.0
TOUCHED_S: Final = 1.0
LOOK_S: Final = 0.05
# Directories that nobody has written to for so long are removed.
KEPT_S: Final = 86_400.0
PREFIX: Final = "kdissect-"
NAME_SIZE: Final = 32  # hexadecimal digits
ALIVE_BYTES: Final = 4096  # the names of a machine and a namespace, two numbers


def default_base() -> Path:
    """Where such directories are when nobody says it: of this user alone."""
    return Path(tempfile.gettempdir(), f"kdissect-staging-{os.getuid()}")


def is_ours(directory: Path) -> bool:
    """Whether it is a directory of this user, and no link to one."""
    status = directory.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def directory_of(base: Path, *what: object) -> Path:
    """The directory for tasks that have all this in common."""
    digest = hashlib.sha256(repr(what).encode()).hexdigest()
    return base / f"{PREFIX}{digest[:NAME_SIZE]}"


def remove_old(base: Path, now: float) -> None:
    """Remove directories of tasks that are long over."""
    for directory in base.glob(PREFIX + "[0-9a-f]" * NAME_SIZE):
        try:
            if now - directory.lstat().st_mtime > KEPT_S:
                shutil.rmtree(directory)
        except OSError:
            # Another one removes it too.
            continue


class Staging:
    """Such a directory; raises OutputError where it cannot be made, or is of somebody else."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.me = json.dumps({**this_process(), "token": uuid.uuid4().hex})
        self.working: set[int] = set()
        self._touched = 0.0
        # By part: what its file looked like, and since when.
        self._seen: dict[int, tuple[int, float]] = {}
        try:
            directory.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
            directory.mkdir(mode=OWNER_ONLY, exist_ok=True)
            own = [directory, *([directory.parent] if directory.parent == default_base() else [])]
            strange = [one for one in own if not is_ours(one)]
        except OSError as error:
            raise OutputError(f"cannot write {directory}: {error.strerror}") from error
        if strange:
            raise OutputError(f"{strange[0]}: of another user, or a link")

    def has(self, part: int, kind: str) -> bool:
        """Whether there is such a file."""
        with Below(self.directory) as below:
            return below.is_file(self._path(part, kind).name)

    def read(self, part: int, kind: str, limit: int) -> bytes:
        """All of a file; raises DatasetError when it has more than `limit` bytes, or is a link."""
        with Below(self.directory) as below:
            return below.read(self._path(part, kind).name, limit)

    def write(self, part: int, kind: str, content: bytes) -> None:
        """Make a file; raises OutputError where that fails."""
        path = self._path(part, kind)
        try:
            write_whole(path, content, mode=SECRET)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from error

    @contextmanager
    def work(self, part: int) -> Iterator[None]:
        """Let the others know that this one works on a part."""
        self.working.add(part)
        self.write(part, "alive", self.me.encode())
        try:
            yield
        finally:
            self.working.discard(part)
            if self._who(part) == self.me.encode():
                self._path(part, "alive").unlink(missing_ok=True)

    def touch(self) -> None:
        """To be called often: the work goes on."""
        now = time.monotonic()
        if now - self._touched < TOUCHED_S:
            return
        self._touched = now
        for part in self.working:
            path = self._path(part, "alive")
            # Who else works on it has his name there now, and touches it.
            with suppress(FileNotFoundError):
                os.utime(path, follow_symlinks=False)

    def is_alive(self, part: int) -> bool:
        """Whether somebody else works on a part, as far as one sees."""
        path = self._path(part, "alive")
        who = self._who(part)
        try:
            if who in (b"", self.me.encode()) or is_over(process_in(who, str(path))):
                return False
            touched = path.lstat().st_mtime_ns
        except (OSError, DatasetError):
            return False
        # Clocks of other machines may differ, so it is looked at whether anything changes.
        before, since = self._seen.get(part, (-1, 0.0))
        now = time.monotonic()
        if touched != before:
            self._seen[part] = touched, now
            return True
        return now - since < STALE_S

    def _who(self, part: int) -> bytes:
        """What the file of a part says that somebody works on, b"" where that is nothing."""
        try:
            return self.read(part, "alive", ALIVE_BYTES)
        except (OSError, DatasetError):
            return b""

    def _path(self, part: int, kind: str) -> Path:
        return self.directory / f"{part:06}.{kind}"
