"""Tables kept for possible later queries: in memory while small, else in files."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from kdissect.tables.writers import ParquetDirectory

# Bound on all tables in memory: 40 000 exchanges with their associated rows. A batch that waits
# holds all columns, wanted or not, as they are one matrix.
KEPT_BYTES: Final = 8_000_000
# The same for each file, where the rows of a row group wait.
GROUP_BYTES: Final = 4_000_000


class KeptTables:
    """Collects record batches into a directory of Parquet files, which is removed at the end.

    `columns` are the wanted columns of each table; other columns and tables are ignored.
    """

    def __init__(self, columns: Mapping[str, Sequence[str]], limit: int = KEPT_BYTES) -> None:
        self.columns = columns
        self.limit = limit
        self.size = 0
        self.rows = 0
        self.waiting: list[tuple[str, pa.RecordBatch]] = []
        self.made: Path | None = None
        self.output: ParquetDirectory | None = None

    def __enter__(self) -> "KeptTables":
        return self

    def __exit__(self, *_: object) -> None:
        if self.made is not None:
            shutil.rmtree(self.made, ignore_errors=True)

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        """Keep a batch of the table."""
        if table not in self.columns:
            return
        batch = batch.select(list(self.columns[table]))
        self.rows += batch.num_rows
        if self.output is not None:
            self.output.write(table, batch)
            return
        self.waiting.append((table, batch))
        self.size += batch.nbytes
        if self.size > self.limit:
            self._open()

    def files(self) -> Path:
        """Return the directory, with a file for every table; no batch can be added afterwards."""
        output = self.output or self._open()
        output.__exit__(None, None, None)
        return output.directory

    def _open(self) -> "ParquetDirectory":
        from kdissect.tables.batches import arrow_schema
        from kdissect.tables.schemas import TABLES
        from kdissect.tables.writers import ParquetDirectory

        self.made = Path(tempfile.mkdtemp(prefix="kdissect-"))
        schemas = {name: arrow_schema(TABLES[name], list(of)) for name, of in self.columns.items()}
        directory = self.made / "tables"
        self.output = ParquetDirectory(directory, schemas, group_size=GROUP_BYTES)
        for table, batch in self.waiting:
            self.output.write(table, batch)
        self.waiting = []
        return self.output
