"""``kdissect-files``: a stream of paths of complete captures that are not in a dataset yet."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from kdissect.dataset.new_files import FILES, NewFiles, Offset, first_offset
from kdissect.dataset.storage import remember
from kdissect.spark.source_stream import end_quietly

FORMAT: Final = "kdissect-files"
SCHEMA: Final = "path string"
ARROW_SCHEMA: Final = pa.schema([pa.field("path", pa.string())])


@dataclass
class Paths(InputPartition):
    """Files of a batch."""

    paths: tuple[str, ...]


class CaptureFiles(DataSource):
    """The source; all of its options except ``tap`` are required.

    ``sources``: paths, globs and directories as JSON. ``dataset``: it has the known files.
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
            NewFiles(
                json.loads(given["sources"]),
                given["dataset"],
                given.get("tap"),
                float(given["quiet_s"]),
                int(given["max_bytes"]),
            )
        )


class CompleteFiles(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Yields the batches of `NewFiles` to Spark."""

    def __init__(self, files: NewFiles) -> None:
        self.files = files

    def initialOffset(self) -> Offset:  # noqa: N802
        """Offset before the first batch."""
        return first_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """No limit of Spark's; `max_bytes` is used instead."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the set of files; later ones are left to another run."""
        self.files.freeze()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Offset after the next batch, or `start` if there is nothing to do."""
        return self.files.next_batch(start)

    def partitions(self, start: Offset, end: Offset) -> Sequence[Paths]:
        """One partition, with the files in `end`."""
        return [Paths(tuple(end[FILES]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the paths."""
        if isinstance(partition, Paths):
            yield pa.RecordBatch.from_pydict({"path": list(partition.paths)}, ARROW_SCHEMA)
