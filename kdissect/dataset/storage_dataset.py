"""A dataset in a store, where files cannot be moved and nobody can lock.

    exchanges/date=2026-11-22/tap=b1/r000001-6f1c…-t0-0.parquet   as soon as a task has made it
    _kdissect/manifest.json                                       which files are in
    _kdissect/run-6f1c…/owner.json                                who writes to it, renewed
    _kdissect/run-6f1c…/staging/…                                 what waits for other tasks

A file is written once, under a name that no other run has, and counts as soon as the manifest lists
it: the manifest's replacement, one request, is the commit. Readers go by the manifest. What a run
leaves that did not come so far, or not farther, the next one removes: all that is not listed.

A run says that it is there by a file, and looks for others' afterwards, so of two that begin at the
same time at least one sees the other, and goes. It renews the file until it ends. A run that has
not done so for `LEASE_NS` is dead; so is one whose process is not there any more, as far as this
machine can tell. One that was only asleep finds its file gone when it wants to commit, and fails.
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
# Six times as long: a store may be slow, or a machine busy.
LEASE_NS: Final = 180 * 10**9
OWNER: Final = "owner.json"
OWNER_BYTES: Final = 4096  # the names of a machine and a namespace, a number
ENDED: Final = b'{"ended": true}'
# Stores in which a file appears when its upload is over, in the place of the one that was there.
REPLACING: Final = frozenset(("s3", "gs", "gcs", "abfs", "abfss"))


class StoredDataset:
    """As `Dataset`: open for one run, a context manager."""

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
            # There was nothing to do, so nothing was written.
            remove_below(self.run_directory)
            return
        with suppress(StoreError):
            write_bytes(self.owner, ENDED)

    def commit(self, manifest: Manifest, moved: list[str], removed: list[str]) -> None:
        """Let the run count; files are where they belong already."""
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
        now_ns = seen(self.owner)[1]  # by the clock of the store
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
            # Failing is no matter as long as it works before the lease is over.
            with suppress(KdissectError):
                write_bytes(self.owner, owner_now())


def open_dataset(given: str | os.PathLike[str]) -> Dataset | StoredDataset:
    """The dataset at a path or a URI, for one run; raises OutputError where there cannot be one."""
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
    """Remove the files of tables and the states that are not in a dataset."""
    listed = {joined(location, name) for name in manifest.names()}
    for directory in [*TABLES, f"{OWN}/states"]:
        there = files_in(joined(location, directory), recursive=True)
        at_once(remove, [(one.location,) for one in there if one.location not in listed])


def living_owner(run: str, now_ns: int) -> str:
    """Who writes to a dataset since when, "" where that is over."""
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
    """Who this process is."""
    return json.dumps(this_process()).encode()
