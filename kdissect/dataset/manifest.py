"""Manifest of a dataset, and atomic commits: all files of a run become visible, or none.

    DATASET/exchanges/date=2026-11-22/tap=broker-1/r000001-t0-0.parquet
    DATASET/_kdissect/manifest.json          what is in it
    DATASET/_kdissect/states/0/000001.state  the checkpoint that later captures continue from
    DATASET/_kdissect/run-000002-6f1c.../    output of a run until it is committed

A run writes into a directory that readers ignore. When all files are complete it writes
``commit.json``: the new manifest, files to be moved and files to be removed. From then on the run
is committed: the next process that opens the dataset finishes what is left to do. A run without
``commit.json`` has no effect.
"""

import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

from kdissect.dataset.entries import OWN, Manifest, state_tap, table_place
from kdissect.dataset.storage import is_uri, joined, read_bytes, remember
from kdissect.errors import DatasetError, KdissectError, OutputError, cannot_write
from kdissect.system import strict_json
from kdissect.system.confined import OWNER_ONLY, Below
from kdissect.system.file_names import shortened

MANIFEST: Final = "manifest.json"
COMMIT: Final = "commit.json"
LOCK: Final = "lock"
STATES: Final = "states"
RUN: Final = re.compile(r"run-[A-Za-z0-9-]{1,200}")
# A capture takes 1.5 kB with its files, so this holds 170 000 captures: 20 taps, one file an hour,
# for a year.
MANIFEST_BYTES: Final = 256 << 20
# The manifest, and names of moved and removed files.
COMMIT_BYTES: Final = 2 * MANIFEST_BYTES


class Dataset:
    """A dataset open for one run; a context manager, which locks out other writers.

    Raises OutputError when another process writes to it, or it is not writable.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = Manifest()
        self.run_directory = directory / OWN
        self.token = ""  # the directory's name is unique, so file names need not be
        self._run = ""
        self._open = ExitStack()

    def __enter__(self) -> "Dataset":
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._begin()
        except BlockingIOError as error:
            self._open.close()
            raise OutputError(f"{self.directory}: another run writes to this dataset") from error
        except OSError as error:
            self._open.close()
            raise cannot_write(self.directory, error) from error
        except KdissectError:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._open:
            if self._run and not self._own.is_file(joined(self._run, COMMIT)):
                self._own.remove_tree(self._run)

    def commit(self, manifest: Manifest, moved: list[str], removed: list[str]) -> None:
        """Commit the run: files of its directory are moved to the same place in the dataset."""
        manifest.run = self.manifest.run + 1
        manifest_bytes(manifest, str(self.directory))
        content = {"manifest": manifest.to_json(), "moved": moved, "removed": removed}
        with self._own.inside(self._run) as made:
            for name in moved:
                made.sync(name)
        self._own.write(joined(self._run, COMMIT), as_bytes(content), is_synced=True)
        self._apply(self._run)

    def _begin(self) -> None:
        self._below = self._open.enter_context(Below(self.directory))
        self._below.make_directory(OWN)
        self._own = self._open.enter_context(self._below.inside(OWN))
        lock = self._own.open_file(LOCK, os.O_RDWR | os.O_CREAT)
        self._open.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._recover()
        self._run = f"run-{self.manifest.run + 1:06}-{uuid.uuid4().hex[:12]}"
        # Files may contain login data. Table files are moved out of it.
        self._own.make_new(self._run, OWNER_ONLY)
        with suppress(FileExistsError):
            self._own.make_new(STATES, OWNER_ONLY)
        self.run_directory = self.directory / OWN / self._run

    def _recover(self) -> None:
        """Finish committed runs, and discard the others."""
        self.manifest = self._read() or Manifest()
        for run in self._own.directories("", RUN):
            if self._own.is_file(joined(run, COMMIT)):
                self._apply(run)
            else:
                self._own.remove_tree(run)

    def _apply(self, run: str) -> None:
        """Apply a commit; safe to repeat after an interruption at any step."""
        name = joined(run, COMMIT)
        commit = Commit(self._own.read(name, COMMIT_BYTES), str(self._own.path / name))
        # Otherwise all but the last step was done before.
        if commit.manifest.run != self.manifest.run:
            commit.check(self.manifest)
            with self._own.inside(run) as made:
                for moved in commit.moved:
                    made.move(moved, self._below)
            for directory in directories_of(commit.moved):
                self._below.sync_names(directory)
            for removed in commit.removed:
                self._below.remove(removed)
            content = manifest_bytes(commit.manifest, str(self.directory))
            self._own.write(MANIFEST, content, is_synced=True)
            self.manifest = commit.manifest
        # First the file that announces pending work, so that no partial state remains.
        self._own.remove(name)
        self._own.remove_tree(run)

    def _read(self) -> Manifest | None:
        if not self._own.is_file(MANIFEST):
            return None
        content = self._own.read(MANIFEST, MANIFEST_BYTES)
        return manifest_of(content, str(self._own.path / MANIFEST))


class Commit:
    """Content of a run's ``commit.json``; raises DatasetError for invalid content."""

    def __init__(self, content: bytes, where: str) -> None:
        made = strict_json.mapping(strict_json.parsed(content, where), where)
        if made.keys() != {"manifest", "moved", "removed"}:
            raise DatasetError(f"{where}: no commit")
        self.where = where
        try:
            self.manifest = Manifest.from_json(made["manifest"])
            self.moved = files_in(made["moved"])
            self.removed = files_in(made["removed"])
        except DatasetError as error:
            raise DatasetError(f"{where}: {error}") from error

    def check(self, before: Manifest) -> None:
        """Raise DatasetError if it does not follow the given manifest."""
        if self.manifest.run != before.run + 1:
            raise DatasetError(f"{self.where}: run {self.manifest.run} behind run {before.run}")
        known, names = before.names(), self.manifest.names()
        strange = [one for one in self.moved if one not in names or one in known]
        strange += [one for one in self.removed if one in names or one not in known]
        if strange:
            raise DatasetError(f"{self.where}: {shortened(strange[0])} is no file of the run")


def files_in(value: Any) -> list[str]:
    """Check a list of table and state file names; raises DatasetError."""
    return [checked_file(one) for one in strict_json.items(value, "a list of files")]


def directories_of(files: Iterable[str]) -> list[str]:
    """Directories of these files, and those above, "" for the root; inner ones first."""
    found = {str(parent) for file in files for parent in PurePosixPath(file).parents}
    return sorted(("" if one == "." else one for one in found), reverse=True)


def checked_file(name: Any) -> str:
    """Check the name of a table or state file; raises DatasetError for others."""
    text = strict_json.text(name, "a file's name")
    if text.startswith(f"{OWN}/"):
        state_tap(text)
    else:
        table_place(text)
    return text


def read_manifest(dataset: str | os.PathLike[str]) -> Manifest | None:
    """Read the manifest of a dataset at a path or URI, None if it does not exist.

    Raises DatasetError for a manifest that kdissect would not write.
    """
    location = remember(os.fspath(dataset))
    where = joined(location, OWN, MANIFEST)
    if is_uri(location):
        content = read_bytes(where, MANIFEST_BYTES)
        return None if content is None else manifest_of(content, where)
    try:
        with Below(location) as below:
            found = below.read(joined(OWN, MANIFEST), MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DatasetError(f"{where}: {error.strerror}") from error
    return manifest_of(found, where)


def manifest_of(content: bytes, where: str) -> Manifest:
    """Parse a manifest file's content; raises DatasetError, which names the file."""
    made = strict_json.parsed(content, where)
    try:
        return Manifest.from_json(made)
    except DatasetError as error:
        raise DatasetError(f"{where}: {error}") from error


def manifest_bytes(manifest: Manifest, where: str) -> bytes:
    """Serialize a manifest; raises OutputError if it would exceed what can be read back."""
    content = as_bytes(manifest.to_json())
    if len(content) > MANIFEST_BYTES:
        raise OutputError(f"{where}: its manifest is full; bring captures into another dataset")
    return content


def as_bytes(value: dict[str, Any]) -> bytes:
    """Serialize a value as JSON."""
    return json.dumps(value, indent=1).encode()


def manifest_in(dataset: str | os.PathLike[str]) -> Manifest:
    """Read the manifest of a dataset; raises KdissectError if it does not exist."""
    manifest = read_manifest(dataset)
    if manifest is None:
        location = remember(os.fspath(dataset))  # without a password
        raise KdissectError(f"{location} is no dataset: it has no manifest")
    return manifest
