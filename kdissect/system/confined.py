"""Files below a directory, by untrusted names: from logs, records of runs, listings of stores.

Any process that can write to a dataset or to the directory of a live capture can create any name
and any link there. So names are checked, each part of a name is opened below the directory before
it, and no symbolic link is followed: files removed, renamed, written or read are below the
directory. The directory itself is chosen by the user, and may be reached by links.
"""

import errno
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Final

from kdissect.errors import DatasetError
from kdissect.system.file_names import (
    by_parent,
    checked_name,
    checked_parts,
    joined,
    parent_of,
    shortened,
)

PUBLIC: Final = 0o666  # less what the umask takes away
SECRET: Final = 0o600  # payload, packets, and messages as they were captured
OWNER_ONLY: Final = 0o700  # directories of such files
IN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK opening a FIFO in place of a file would block forever.
IN_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MISSING: Final = -1


@contextmanager
def replacing(path: Path, mode: int = PUBLIC) -> Iterator[IO[bytes]]:
    """A new file that replaces `path` when it is completely written. Raises OSError.

    Its temporary name cannot be guessed and it is created exclusively: in a directory writable by
    others, existing entries are neither followed nor overwritten.
    """
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with os.fdopen(os.open(partial, NEW_FILE, mode), "wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


class Below:
    """Files below a directory; a context manager. Raises OSError, and DatasetError for links."""

    def __init__(self, path: str | os.PathLike[str], directory: int = -1) -> None:
        self.path = Path(path)
        if directory < 0:
            directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._directory = directory

    def __enter__(self) -> "Below":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory."""
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def inside(self, name: str) -> "Below":
        """A directory below it, to be closed by the caller."""
        with self._opened(name) as directory:
            return Below(self.path / name, os.dup(directory))

    def is_file(self, name: str) -> bool:
        """Return whether a regular file exists; DatasetError for anything else of that name."""
        return self.sizes([name])[name] != MISSING

    def sizes(self, names: Iterable[str]) -> Mapping[str, int]:
        """Sizes of regular files, MISSING for those that do not exist."""
        found = {}
        for parent, lasts in by_parent(names).items():
            try:
                with self._opened(parent) as directory:
                    for last in lasts:
                        found[joined(parent, last)] = self._size(directory, joined(parent, last))
            except FileNotFoundError:
                found |= {joined(parent, last): MISSING for last in lasts}
        return found

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a regular file for reading, or as `flags` specify."""
        with self._parent(name) as (directory, last):
            try:
                file = os.open(last, IN_FILE | flags, PUBLIC, dir_fd=directory)
            except OSError as error:
                raise self._open_error(error, name) from error
        mode = os.fstat(file).st_mode
        if stat.S_ISREG(mode):
            return file
        os.close(file)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path / name))
        raise self._no_file(name)

    def read(self, name: str, limit: int) -> bytes:
        """Content of a file; DatasetError if it has more than `limit` bytes."""
        with os.fdopen(self.open_file(name), "rb") as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise DatasetError(f"{self.path / name}: more than {limit} bytes")
        return content

    def write(self, name: str, content: bytes, *, is_synced: bool = False) -> None:
        """Write a file atomically, creating its directory."""
        self.make_directory(parent_of(name))
        with self._parent(name) as (directory, last):
            temporary = f".{last}-{uuid.uuid4().hex}"
            try:
                made = os.open(temporary, NEW_FILE, PUBLIC, dir_fd=directory)
                with os.fdopen(made, "wb") as file:
                    file.write(content)
                    file.flush()
                    if is_synced:
                        os.fsync(file.fileno())
                os.replace(temporary, last, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise
            if is_synced:
                os.fsync(directory)

    def make_directory(self, name: str) -> None:
        """Create a directory and its parents, as far as missing."""
        directory = os.dup(self._directory)
        done = ""
        try:
            for part in checked_parts(name):
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=directory)
                done = joined(done, part)
                inner = self._open_directory(part, directory, done)
                os.close(directory)
                directory = inner
        finally:
            os.close(directory)

    def make_new(self, name: str, mode: int) -> None:
        """Create a directory; raises FileExistsError."""
        with self._parent(name) as (directory, last):
            os.mkdir(last, mode, dir_fd=directory)

    def move(self, name: str, to: "Below") -> None:
        """Move a regular file to the same name below another directory, if it exists."""
        if not self.is_file(name):
            return
        to.make_directory(parent_of(name))
        with self._parent(name) as (source, last), to._parent(name) as (destination, _):
            os.replace(last, last, src_dir_fd=source, dst_dir_fd=destination)

    def sync(self, name: str) -> None:
        """Sync a regular file to disk."""
        file = self.open_file(name)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def sync_names(self, name: str) -> None:
        """Sync the names in a directory to disk; "" is this one."""
        with self._opened(name) as directory:
            os.fsync(directory)

    def rename(self, name: str, new: str) -> None:
        """Rename a file or a directory within its directory, if the new name is free."""
        with self._parent(name) as (directory, last):
            if parent_of(name) != parent_of(new):
                raise DatasetError(f"{shortened(new)} is in another directory than {name}")
            os.rename(last, new.rpartition("/")[2], src_dir_fd=directory, dst_dir_fd=directory)

    def remove(self, name: str) -> None:
        """Remove a regular file, if it exists."""
        if self.is_file(name):
            with self._parent(name) as (directory, last), suppress(FileNotFoundError):
                os.unlink(last, dir_fd=directory)

    def remove_tree(self, name: str) -> None:
        """Remove a directory with everything below it, as far as possible."""
        with suppress(FileNotFoundError), self._parent(name) as (directory, last):
            os.close(self._open_directory(last, directory, name))
            shutil.rmtree(last, ignore_errors=True, dir_fd=directory)

    def directories(self, name: str, pattern: re.Pattern[str]) -> list[str]:
        """Subdirectories with matching names, sorted; DatasetError for links among them."""
        modes = self._modes(name, pattern)
        for one, mode in modes.items():
            if stat.S_ISLNK(mode):
                raise self._link(joined(name, one))
        return [one for one, mode in modes.items() if stat.S_ISDIR(mode)]

    def inodes(self, pattern: re.Pattern[str], limit: int) -> list[tuple[str, int]]:
        """Entries with matching names, and their inodes, of the first `limit` of the directory."""
        with os.scandir(self._directory) as entries:
            return [
                (one.name, one.inode())
                for one in islice(entries, limit)
                if pattern.fullmatch(one.name)
            ]

    def names(self, name: str, pattern: re.Pattern[str]) -> list[str]:
        """Regular files in a directory with matching names, sorted."""
        return [one for one, mode in self._modes(name, pattern).items() if stat.S_ISREG(mode)]

    def files(self, name: str) -> dict[str, int]:
        """Regular files below a directory with their sizes; links are skipped."""
        found: dict[str, int] = {}
        try:
            with self._opened(name) as directory:
                for place, _, names, at in os.fwalk(".", dir_fd=directory, follow_symlinks=False):
                    for one in names:
                        status = os.lstat(one, dir_fd=at)
                        if stat.S_ISREG(status.st_mode):
                            inside = os.path.normpath(f"{place}/{one}")
                            found[joined(name, inside)] = status.st_size
        except FileNotFoundError:
            return {}
        return found

    def check(self, name: str) -> None:
        """Raise DatasetError if it is neither a regular file nor a directory of such.

        Raises FileNotFoundError where nothing has the name.
        """
        with self._parent(name) as (parent, last):
            if not stat.S_ISDIR(os.lstat(last, dir_fd=parent).st_mode):
                self._size(parent, name)
                return
            with self._opened(name) as directory:
                for place, _, names, at in os.fwalk(".", dir_fd=directory, follow_symlinks=False):
                    for one in names:
                        self._size(at, joined(name, os.path.normpath(f"{place}/{one}")))

    def _modes(self, name: str, pattern: re.Pattern[str]) -> dict[str, int]:
        """Entries of a directory with matching names, sorted."""
        with self._opened(name) as directory:
            with os.scandir(directory) as entries:
                there = sorted(one.name for one in entries if pattern.fullmatch(one.name))
            return {one: os.lstat(one, dir_fd=directory).st_mode for one in there}

    @contextmanager
    def _parent(self, name: str) -> Iterator[tuple[int, str]]:
        """Open the directory of a name; return it and the last part of the name."""
        *parents, last = checked_name(name).split("/")
        with self._opened("/".join(parents)) as directory:
            yield directory, last

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        """Open a directory, by way of all its parents."""
        directory = os.dup(self._directory)
        done = ""
        try:
            for part in checked_parts(name):
                done = joined(done, part)
                inner = self._open_directory(part, directory, done)
                os.close(directory)
                directory = inner
            yield directory
        finally:
            os.close(directory)

    def _open_directory(self, part: str, directory: int, name: str) -> int:
        try:
            return os.open(part, IN_DIRECTORY, dir_fd=directory)
        except OSError as error:
            raise self._open_error(error, name) from error

    def _size(self, directory: int, name: str) -> int:
        try:
            status = os.lstat(name.rpartition("/")[2], dir_fd=directory)
        except FileNotFoundError:
            return MISSING
        if stat.S_ISLNK(status.st_mode):
            raise self._link(name)
        if not stat.S_ISREG(status.st_mode):
            raise self._no_file(name)
        return status.st_size

    def _open_error(self, error: OSError, name: str) -> Exception:
        """Exception for a part of a name that could not be opened."""
        path = self.path / name
        if error.errno == errno.ELOOP or path.is_symlink():
            return self._link(name)
        if error.errno == errno.ENOTDIR:
            return DatasetError(f"{path}: is no directory")
        if error.errno in (errno.ENXIO, errno.ENODEV):
            return self._no_file(name)
        return error

    def _link(self, name: str) -> DatasetError:
        return DatasetError(f"{self.path / name}: is a symbolic link, which is not followed")

    def _no_file(self, name: str) -> DatasetError:
        return DatasetError(f"{self.path / name}: is no regular file")


def open_regular(path: Path) -> int:
    """Open a regular file for reading; DatasetError for a link or anything else of that name."""
    with Below(path.parent) as below:
        return below.open_file(path.name)
