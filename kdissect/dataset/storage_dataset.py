"""A dataset in a store, which has neither renames nor locks.

    exchanges/date=2026-11-22/tap=b1/r000001-6f1c…-t0-0.parquet   as soon as a task has written it
    _kdissect/manifest.json                                       which files are in
    _kdissect/run-6f1c…/owner.json                                lease of the writer, renewed
    _kdissect/run-6f1c…/staging/…                                 intermediate files for other tasks

A file is written once, under a name that no other run uses, and is part of the dataset once the
manifest lists it: replacing the manifest, one request, is the commit. Readers use the manifest.
Files that a run leaves unlisted, at whatever stage it ended, are removed by the next run.

A run announces itself by a file, and looks for those of others afterwards, so of two runs that
start at the same time at least one sees the other, and stops. It renews the file until it ends. A
run that has not done so for `LEASE_NS` is dead; so is one whose process has ended, as far as this
host can see. A run that was only suspended finds its file gone at commit, and fails.
"""

import json
import os
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from kdissect.dataset.entries import OWN, Manifest
from kdissect.dataset.manifest import MANIFEST, Dataset, manifest_bytes, read_manifest
from kdissect.dataset.storage import (
    at_once,
    directories_in,
    files_in,
    is_uri,
    joined,
    read_bytes,
    remember,
    remove,
    remove_below,
    seen,
    write_bytes,
)
from kdissect.dataset.writer_identity import is_over, process_in, this_process
from kdissect.errors import KdissectError, OutputError, StoreError
from kdissect.tables.schemas import TABLES
from kdissect.text.escape import escaped

RENEWED_EVERY_S: Final = 30.0
# Six times as long: a store may be slow, or a host busy.
LEASE_NS: Final = 180 * 10**9
OWNER: Final = "owner.json"
OWNER_BYTES: Final = 4096  # host and namespace names, a number
ENDED: Final = b'{"ended": true}'
# Stores in which an upload replaces the existing file atomically, when it is complete.
REPLACING: Final = frozenset(("s3", "gs", "gcs", "abfs", "abfss"))


class StoredDataset:
    """Like `Dataset`: open for one run, a context manager."""

    def __init__(self, location: str) -> None:
        self.directory = location
        self.own = joined(location, OWN)
        self.token = uuid.uuid4().hex[:12]
        self.run_directory = joined(self.own, f"run-{self.token}")
        self.owner = joined(self.run_directory, OWNER)
        self.manifest = Manifest()
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None
        self._is_done = False

    def __enter__(self) -> "StoredDataset":
        try:
            self._begin()
        except BaseException:
            with suppress(StoreError):
                remove_below(self.run_directory)
            raise
        self._renewing = threading.Thread(target=self._renew, daemon=True)
        self._renewing.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join()
        if self._is_done:
            return
        if kind is None:
            # Nothing was written, as there was no work.
            remove_below(self.run_directory)
            return
        with suppress(StoreError):
            write_bytes(self.owner, ENDED)

    def commit(self, manifest: Manifest, moved: list[str], removed: list[str]) -> None:
        """Commit the run; its files are in their final place already."""
        if seen(self.owner)[0] < 0 or self._manifest().run != self.manifest.run:
            raise OutputError(
                f"{self.directory}: another run took this one for dead, as it did not renew "
                f"{OWNER} for {LEASE_NS // 10**9} s; nothing was changed"
            )
        manifest.run = self.manifest.run + 1
        content = manifest_bytes(manifest, self.directory)
        write_bytes(joined(self.own, MANIFEST), content)
        self._is_done = True
        self.manifest = manifest
        at_once(remove, [(joined(self.directory, name),) for name in removed])
        remove_below(self.run_directory)

    def _begin(self) -> None:
        write_bytes(self.owner, owner_now())
        now_ns = seen(self.owner)[1]  # by the store's clock
        dead = []
        for run in directories_in(self.own, "run-"):
            if run == self.run_directory:
                continue
            living = living_owner(run, now_ns)
            if living:
                raise OutputError(f"{self.directory}: another run writes to this dataset: {living}")
            dead.append(run)
        self.manifest = self._manifest()
        if dead:
            remove_unlisted(self.directory, self.manifest)
        for run in dead:
            remove_below(run)

    def _manifest(self) -> Manifest:
        return read_manifest(self.directory) or Manifest()

    def _renew(self) -> None:
        while not self._ended.wait(RENEWED_EVERY_S):
            # A failure does not matter as long as a retry succeeds before the lease expires.
            with suppress(KdissectError):
                write_bytes(self.owner, owner_now())


def open_dataset(given: str | os.PathLike[str]) -> Dataset | StoredDataset:
    """Open the dataset at a path or URI for one run; raises OutputError if that is not possible."""
    location = remember(os.fspath(given))
    if not is_uri(location):
        return Dataset(Path(location).absolute())
    if location.partition("://")[0] not in REPLACING:
        raise OutputError(
            f"{location}: a dataset can be in a directory, S3, Google Cloud Storage or Azure: "
            "elsewhere its manifest cannot be replaced in one step"
        )
    return StoredDataset(location)


def remove_unlisted(location: str, manifest: Manifest) -> None:
    """Remove table and state files that are not listed in the manifest."""
    listed = {joined(location, name) for name in manifest.names()}
    for directory in [*TABLES, f"{OWN}/states"]:
        there = files_in(joined(location, directory), recursive=True)
        at_once(remove, [(one.location,) for one in there if one.location not in listed])


def living_owner(run: str, now_ns: int) -> str:
    """Writer of a run and since when, "" if it has ended."""
    owner = joined(run, OWNER)
    modified_ns = seen(owner)[1]
    if modified_ns < 0 or now_ns - modified_ns >= LEASE_NS:
        return ""
    content = read_bytes(owner, OWNER_BYTES)
    if content is None:
        return ""
    if content == ENDED or is_over(said := process_in(content, owner)):
        return ""
    ago = (now_ns - modified_ns) // 10**9
    left = (LEASE_NS - now_ns + modified_ns) // 10**9
    return (
        f"process {said['process']} on {escaped(said['host'])}, {ago} s ago; "
        f"if it is dead, that is known in {left} s"
    )


def owner_now() -> bytes:
    """Writer identity of this process."""
    return json.dumps(this_process()).encode()
