"""The Delta table `runs` of a dataset: its records, by two commits for each run.

    DATASET/runs/_delta_log/00000000000000000000.json
    DATASET/runs/000007-6f1c…-begun.parquet     records of run 7, with version 7 of `kdissect`
    DATASET/runs/000007-6f1c…-done.parquet      the record that it is done, of `kdissect-done`

The first commit of a number wins: another one fails with `Conflict`.
"""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kdissect.dataset.delta_actions import BOUNDED
from kdissect.dataset.delta_tables import (
    APPLICATION,
    ATTEMPTS,
    Conflict,
    DeltaTables,
    committed,
    conflicts,
    done_by,
    of_creation,
    told,
)
from kdissect.dataset.run_history import History, history_of
from kdissect.dataset.run_records import (
    SCHEMA,
    VALUE_BYTES,
    Record,
    done_record,
    from_parquet,
    to_parquet,
)
from kdissect.dataset.storage import is_uri, joined, read_below, write_bytes
from kdissect.dataset.store_options import delta_uri
from kdissect.errors import DatasetError, OutputError, no_such_file
from kdissect.system.confined import Below

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.schema import Schema
    from deltalake.transaction import AddAction

RUNS: Final = "runs"
IS_DONE: Final = "kdissect-done"
# Each run makes two small files; from so many on they are merged into one.
MOST_FILES: Final = 64


class RunsTable:
    """The table in the version of its last `read`, with its `records`."""

    def __init__(self, tables: DeltaTables) -> None:
        self.tables = tables
        self.location = tables.location
        self.where = joined(tables.location, RUNS)
        self._table: DeltaTable | None = None
        self._file_count = 0
        self.records: list[Record] = []

    def read(self) -> History | None:
        """What all records say, None if there is no table."""
        if not self.tables.has(RUNS):
            self._table = None
            return None
        self._table = self.tables.opened(RUNS)
        records: list[Record] = []
        files = self.tables.files(RUNS, self._table).files
        for file in files:
            records += from_parquet(self._content(file.path), joined(self.location, file.path))
        self._file_count = len(files)
        self.records = records
        return history_of(records, self.where)

    def decide(self, run: int, records: Sequence[Record]) -> None:
        """Commit the records of a run; raises Conflict if another one has its number."""
        if self._table is not None and done_by(self._table) >= run:
            raise Conflict(f"run {run} has been decided")
        with told(self.where):
            self._commit(self._table, run, records, "begun", APPLICATION)

    def done(self, run: int, versions: Mapping[str, int]) -> None:
        """Commit that a run is done, unless another process has said so."""
        for _ in range(ATTEMPTS):
            table = self.tables.opened(RUNS)
            if done_by(table, IS_DONE) >= run:
                return
            with suppress(Conflict), told(self.where):
                self._commit(table, run, [done_record(run, versions)], "done", IS_DONE)
                return
        raise OutputError(f"{self.where}: other programs write to this table all the time")

    def merge_files(self) -> None:
        """Merge the files of the table if there are many; readers of both versions go on."""
        if self._file_count < MOST_FILES:
            return
        # Others may do the same: once is enough.
        with suppress(DatasetError), told(self.where):
            self.tables.opened(RUNS).optimize.compact()

    def _content(self, name: str) -> bytes:
        content = read_below(self.location, name, VALUE_BYTES)
        if content is None:
            raise DatasetError(no_such_file(joined(self.location, name)))
        return content

    def _commit(
        self,
        table: "DeltaTable | None",
        run: int,
        records: Sequence[Record],
        event: str,
        application: str,
    ) -> None:
        name = f"{run:06}-{uuid.uuid4().hex[:12]}-{event}.parquet"
        content = to_parquet(records)
        self._write(f"{RUNS}/{name}", content)
        action = add_action(name, len(content), run, len(records))
        if table is None:
            self._create(run, action)
            return
        before = int(table.version())
        committed(table, [action], schema_of_runs(), (), run, application)
        table.update_incremental()
        self.tables.sync(RUNS, before + 1, int(table.version()))

    def _write(self, name: str, content: bytes) -> None:
        if is_uri(self.location):
            write_bytes(joined(self.location, name), content)
            return
        with Below(self.location) as below:
            below.write(name, content, is_synced=True)

    def _create(self, run: int, action: "AddAction") -> None:
        from deltalake.transaction import create_table_with_add_actions

        with conflicts():
            create_table_with_add_actions(
                delta_uri(self.where),
                schema_of_runs(),
                [action],
                mode="error",
                name=RUNS,
                description="What each run changed in the dataset, and which runs are done.",
                configuration={BOUNDED: "run"},
                storage_options=self.tables.options,
                commit_properties=of_creation(run),
            )
        self.tables.sync(RUNS, 0, 0)


def add_action(name: str, size: int, run: int, rows: int) -> "AddAction":
    """The action of the format that adds a file with records of a run."""
    from deltalake.transaction import AddAction

    bounds = {"minValues": {"run": run}, "maxValues": {"run": run}, "nullCount": {"run": 0}}
    statistics = json.dumps({"numRecords": rows, **bounds})
    return AddAction(name, size, {}, int(time.time() * 1000), True, statistics)


def schema_of_runs() -> "Schema":
    """Schema of the table."""
    from deltalake.schema import Schema

    return Schema.from_arrow(SCHEMA)
