"""``kdissect-files``: a stream of paths of complete captures that are not in a dataset yet.

An offset has the files of its batch: ``{"batch": 7, "files": [...]}``. So a batch repeated after a
crash has the same files, independent of the directories' contents, and files that were never
planned are found again, as the dataset's manifest does not list them.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from kdissect.capture.capture_file import NO_PACKET_NS
from kdissect.dataset.complete_files import complete_files
from kdissect.dataset.entries import Manifest
from kdissect.dataset.manifest import read_manifest
from kdissect.dataset.storage import remember, seen
from kdissect.dataset.taps import first_time_of
from kdissect.errors import CaptureError
from kdissect.spark.source_stream import BATCH, Offset, end_quietly

FORMAT: Final = "kdissect-files"
FILES: Final = "files"
SCHEMA: Final = "path string"
ARROW_SCHEMA: Final = pa.schema([pa.field("path", pa.string())])


class File(NamedTuple):
    """A file as it was when it was inspected."""

    path: str
    size: int
    modified_ns: int


@dataclass
class Paths(InputPartition):
    """Files of a batch."""

    paths: tuple[str, ...]


class CaptureFiles(DataSource):
    """The source; all of its options except ``tap`` are required.

    ``sources``: paths, globs and directories as JSON. ``dataset``: its manifest lists known files.
    ``quiet_s``, ``tap``: see `complete_files`. ``max_bytes``: of a batch, except its first file.
    ``stores_secret``: result of `reached_by`, as JSON; Spark redacts options with such a name.
    """

    @classmethod
    def name(cls) -> str:
        """Name for ``format``."""
        return FORMAT

    def schema(self) -> str:
        """Schema: the only column."""
        return SCHEMA

    def streamReader(self, schema: Any) -> "CompleteFiles":  # noqa: N802  # PySpark's name
        """Reader that finds the files."""
        end_quietly()
        given = self.options
        for one in json.loads(given["stores_secret"]):
            remember(one)
        return CompleteFiles(
            json.loads(given["sources"]),
            given["dataset"],
            given.get("tap"),
            float(given["quiet_s"]),
            int(given["max_bytes"]),
        )


class CompleteFiles(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Yields each file once in its lifetime; the next instance retries failed ones."""

    def __init__(
        self, sources: Sequence[str], dataset: str, tap: str | None, quiet_s: float, max_bytes: int
    ) -> None:
        self.sources = sources
        self.dataset = dataset
        self.tap = tap
        self.quiet_s = quiet_s
        self.max_bytes = max_bytes
        self.given: set[File] = set()
        self.frozen: list[File] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Offset before the first batch."""
        return {BATCH: 0, FILES: []}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """No limit of Spark's; `max_bytes` is used instead."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the set of files; later ones are left to another run."""
        self.frozen = self.new_files()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Offset after the next batch, or `start` if there is nothing to do."""
        new = self.new_files() if self.frozen is None else self.frozen
        taken = within(new, self.max_bytes)
        if not taken:
            return start
        self.given.update(taken)
        if self.frozen is not None:
            self.frozen = self.frozen[len(taken) :]
        return {BATCH: start[BATCH] + 1, FILES: [file.path for file in taken]}

    def partitions(self, start: Offset, end: Offset) -> Sequence[Paths]:
        """One partition, with the files in `end`."""
        return [Paths(tuple(end[FILES]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the paths."""
        if isinstance(partition, Paths):
            yield pa.RecordBatch.from_pydict({"path": list(partition.paths)}, ARROW_SCHEMA)

    def new_files(self) -> list[File]:
        """Complete files that are neither in the dataset nor yielded before, by first packet time.

        So no tap waits until all files of another one are done.
        """
        found = complete_files(self.sources, self.tap, self.quiet_s, time.time())
        paths = [path for tap in found.taps for path in tap.paths]
        good = sorted((File(path, *seen(path)) for path in paths), key=first_time)
        files = [*good, *(File(one.path, *seen(one.path)) for one in found.broken)]
        known = (read_manifest(self.dataset) or Manifest()).files()
        self.given.intersection_update(files)
        return [file for file in files if file not in known and file not in self.given]


def first_time(file: File) -> int:
    """Time of its first packet; the maximum if the file has vanished."""
    try:
        return first_time_of(*file)
    except CaptureError:
        return NO_PACKET_NS


def within(files: Sequence[File], max_bytes: int) -> list[File]:
    """The first files up to `max_bytes` in total, or the first one."""
    taken: list[File] = []
    total = 0
    for file in files:
        total += file.size
        if taken and total > max_bytes:
            break
        taken.append(file)
    return taken
