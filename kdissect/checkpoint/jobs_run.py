"""One pass over captures whose splits are dissected in several processes."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from kdissect.capture.blocks import Secrets
from kdissect.capture.files import open_captures
from kdissect.capture.splits import Split
from kdissect.checkpoint.jobs import Shared
from kdissect.checkpoint.merged_run import MergedRun
from kdissect.checkpoint.split import SplitRows
from kdissect.checkpoint.worker_pool import WorkerPool
from kdissect.pipeline import Balance, Options, PausedCollector, check_columns
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import TABLES


class JobsRun:
    """Like `Run`, for files whose splits this process and those of `pool` dissect."""

    def __init__(
        self, paths: Sequence[str], splits: list[Split], options: Options, pool: WorkerPool
    ) -> None:
        self.options = options
        for name in options.tables:
            check_columns(name, options.columns.get(name, ()))
        self.pool = pool
        shared = Shared(splits, options, paths, pool, self._names, self._count_open)
        self.rows = self._noted(shared)
        self.bytes_total = sum(Path(path).stat().st_size for path in paths)
        self.bytes_done = 0
        self.together = MergedRun(
            self.rows, options, paths, find_secrets=lambda: find_secrets(paths)
        )

    def __enter__(self) -> "JobsRun":
        return self

    def __exit__(self, *_: object) -> None:
        """End the other processes, and remove what they have written."""
        self.rows.close()
        self.pool.close()

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The Arrow schema of every table of the run."""
        return {
            name: arrow_schema(TABLES[name], self.options.columns.get(name))
            for name in self.options.tables
        }

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        with PausedCollector():
            yield from self.together

    @property
    def balance(self) -> Balance:
        """Balance of the bytes of the splits so far."""
        return self.together.balance

    def _names(self) -> dict[bytes, str]:
        return self.together.merger.dissector.exchanges.names

    def _count_open(self) -> int:
        return self.together.merger.dissector.streams.connection_count

    def _noted(self, rows: Iterable[SplitRows]) -> Generator[SplitRows, None, None]:
        for one in rows:
            split = one.boundary.split
            yield one
            del one
            self.bytes_done += split.end - split.start
            if self.options.progress is not None:
                self.options.progress(self.bytes_done, self.bytes_total)


def find_secrets(paths: Sequence[str]) -> list[Secrets]:
    """All TLS keys in the captures."""
    with open_captures(list(paths)) as capture:
        return capture.find_secrets()
