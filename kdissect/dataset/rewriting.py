"""Files of a dataset → others with the same rows, or some of them, to be committed by one run."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import parquet

from kdissect.dataset.delta_actions import opened_file
from kdissect.dataset.entries import Contents, FileEntry
from kdissect.dataset.runs import Dataset
from kdissect.dataset.storage import joined, upload
from kdissect.dataset.stored_columns import spark_schema
from kdissect.system.confined import PUBLIC, SECRET
from kdissect.tables.batches import TEXT_TYPE
from kdissect.tables.schemas import TABLES
from kdissect.tables.stored_rows import as_declared, believed, with_nulls
from kdissect.tables.writers import ParquetFile

BATCH_ROWS: Final = 65_536

Choice: TypeAlias = Callable[[pa.Table], pa.Table]


def all_rows(rows: pa.Table) -> pa.Table:
    """Every row."""
    return rows


class Rewriting:
    """Changes of one run: `rewrite` files, then `commit`. `what` is in the names of new files."""

    def __init__(self, dataset: Dataset, what: str) -> None:
        self.dataset = dataset
        self.what = what
        self.written: list[FileEntry] = []
        self.replaced: dict[str, FileEntry] = {}

    def rewrite(self, files: Sequence[FileEntry], choice: Choice = all_rows) -> FileEntry | None:
        """Write the chosen rows of files of one partition into one file; None: no row is left.

        The new file is open, or nameless, as the first one is.
        """
        directory = PurePosixPath(files[0].path).parent
        name = (
            f"r{self.dataset.contents.run + 1:06}-{self.dataset.token}-{self.what}-"
            f"{len(self.written):06}.parquet"
        )
        self.replaced.update({one.path: one for one in files})
        made = replace(files[0], path=str(directory / name))
        with file_place(self.dataset, made.path) as path:
            file = ParquetFile(path, schema_of(made.table), mode=self._mode())
            try:
                for one in files:
                    for rows in rows_of(self.dataset.directory, one):
                        for batch in choice(rows).to_batches():
                            file.write(batch)
                made.rows = file.rows
                if not file.rows:
                    file.discard()
                    return None
                file.finish()
                file.publish()
            except BaseException:
                file.discard()
                raise
            made.size = path.stat().st_size
        self.written.append(made)
        return made

    def commit(self, forgotten: Sequence[int] = ()) -> None:
        """Commit to all tables in one run; the taps with these numbers lose their states."""
        before = self.dataset.contents
        states = []
        taps = []
        for tap in before.taps:
            files = [one for one in tap.files if one.path not in self.replaced]
            own = {str(PurePosixPath(one.path).parent) for one in tap.files}
            files += [one for one in self.written if str(PurePosixPath(one.path).parent) in own]
            made = replace(tap, files=files)
            if tap.number in forgotten and tap.state:
                states.append(tap.state)
                made.state = ""
            taps.append(made)
        after = Contents(before.run, before.options, taps, before.broken)
        self.dataset.commit(after, [one.path for one in self.written], [*self.replaced, *states])

    def _mode(self) -> int:
        return SECRET if self.dataset.contents.options.get("payload") else PUBLIC


@contextmanager
def file_place(dataset: Dataset, name: str) -> Iterator[Path]:
    """Where a file of a run is written; in a store it is then at its final place."""
    if not dataset.is_remote:
        path = Path(dataset.run_directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="kdissect-") as directory:
        path = Path(directory, "rows.parquet")
        yield path
        if path.exists():
            upload(path, joined(dataset.directory, name))


def rows_of(
    location: str, file: FileEntry, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Rows of a file of a dataset, in parts; all columns as declared, or some of them.

    Raises DatasetError for a file of another origin.
    """
    with (
        believed(joined(location, file.path)),
        opened_file(location, file.path) as (content, _),
        parquet.ParquetFile(content) as opened,
    ):
        there = opened.schema_arrow.names
        chosen = None if columns is None else [one for one in columns if one in there]
        schema = schema_of(file.table, columns)
        for batch in opened.iter_batches(BATCH_ROWS, columns=chosen):
            yield as_declared(with_nulls(pa.Table.from_batches([batch]), schema), schema)


def schema_of(table: str, columns: Sequence[str] | None = None) -> pa.Schema:
    """Schema of rows in memory: texts are dictionaries."""
    return spark_schema(TABLES[table], columns, text=TEXT_TYPE)


def adopt(dataset: str | os.PathLike[str]) -> None:
    """Take what other programs have committed to tables since the last run into the dataset."""
    with Dataset(dataset, is_upkeep=True) as opened:
        now = {name: opened.tables.snapshot(name).version for name in opened.versions}
        if now != opened.versions:
            Rewriting(opened, "adopt").commit()
