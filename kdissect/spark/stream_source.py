"""``kdissect-files``: a stream of the paths of captures that are complete and not in a dataset yet.

An offset has the files of its batch: ``{"batch": 7, "files": [...]}``. So a batch that is done
again after a crash has the same files, whatever is in the directories then, and what was never
planned is found again, as the dataset's manifest does not have it.
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

FORMAT: Final = "kdissect-files"
BATCH: Final = "batch"
FILES: Final = "files"
SCHEMA: Final = "path string"
ARROW_SCHEMA: Final = pa.schema([pa.field("path", pa.string())])

Offset = dict[str, Any]


class File(NamedTuple):
    """A file as it was when it was looked at."""

    path: str
    size: int
    modified_ns: int


@dataclass
class Paths(InputPartition):
    """The files of a batch."""

    paths: tuple[str, ...]


class CaptureFiles(DataSource):
    """The source; all of its options are needed but ``tap``.

    ``sources``: paths, globs and directories as JSON. ``dataset``: whose manifest says what is in.
    ``quiet_s``, ``tap``: see `complete_files`. ``max_bytes``: of a batch, but for its first file.
    ``stores_secret``: what `reached_by` gave, as JSON; Spark shows no option that is called so.
    """

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return FORMAT

    def schema(self) -> str:
        """The only column."""
        return SCHEMA

    def streamReader(self, schema: Any) -> "CompleteFiles":  # noqa: N802  # PySpark's name
        """What finds the files."""
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
    """Gives each file once while it lives; what failed is tried again by the next one."""

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
        """Before the first batch."""
        return {BATCH: 0, FILES: []}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """None of Spark's: `max_bytes` is our own."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes from now on is for another run."""
        self.frozen = self.new_files()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The next batch, or `start` when there is nothing to do."""
        new = self.new_files() if self.frozen is None else self.frozen
        taken = within(new, self.max_bytes)
        if not taken:
            return start
        self.given.update(taken)
        if self.frozen is not None:
            self.frozen = self.frozen[len(taken) :]
        return {BATCH: start[BATCH] + 1, FILES: [file.path for file in taken]}

    def partitions(self, start: Offset, end: Offset) -> Sequence[Paths]:
        """One, with the files that `end` was made with."""
        return [Paths(tuple(end[FILES]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The paths."""
        if isinstance(partition, Paths):
            yield pa.RecordBatch.from_pydict({"path": list(partition.paths)}, ARROW_SCHEMA)

    def new_files(self) -> list[File]:
        """Complete files that the dataset has not, and that were not given, by their first times.

        So no tap waits until all of another one are done.
        """
        found = complete_files(self.sources, self.tap, self.quiet_s, time.time())
        paths = [path for tap in found.taps for path in tap.paths]
        good = sorted((File(path, *seen(path)) for path in paths), key=first_time)
        files = [*good, *(File(one.path, *seen(one.path)) for one in found.broken)]
        known = (read_manifest(self.dataset) or Manifest()).files()
        self.given.intersection_update(files)
        return [file for file in files if file not in known and file not in self.given]


def first_time(file: File) -> int:
    """Of its first packet; of one that has vanished meanwhile, never."""
    try:
        return first_time_of(*file)
    except CaptureError:
        return NO_PACKET_NS


def within(files: Sequence[File], max_bytes: int) -> list[File]:
    """The first files that have so many bytes together, or the first one."""
    taken: list[File] = []
    total = 0
    for file in files:
        total += file.size
        if taken and total > max_bytes:
            break
        taken.append(file)
    return taken
