"""Captures replayed through a watcher, a few packets at a time, and the tables that come of it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from kdissect.capture.packet import Packet
from kdissect.live.files.rotation import RotatedTables
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.sources.recorded_source import RecordedSource
from kdissect.tables.batches import arrow_schema
from kdissect.tables.rotations import OPEN_CONNECTIONS, rotations_in, runs_in
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES

CAPTURES = Path(__file__).parent.parent.parent / "captures"
EVERY = tuple(TABLES)


class SlicedWire(RecordedSource):
    """A capture that releases a few packets at a time."""

    def __init__(self, source: Path, count: int) -> None:
        super().__init__(source)
        self._slices = slices(iter(self.capture), count)

    def read(self, wait_s: float) -> list[Packet] | None:
        return next(self._slices, None)


def slices(batches: Iterator[list[Packet]], count: int) -> Iterator[list[Packet]]:
    for packets in batches:
        for at in range(0, len(packets), count):
            yield packets[at : at + count]


def by_packets() -> int:
    """A stopped clock: time is that of the packets only."""
    return 0


def replay(
    capture: Path,
    directory: Path,
    tables: Sequence[str] = DEFAULT_TABLES,
    count: int = 200,
    options: dict[str, Any] | None = None,
    **rotating: Any,
) -> Watcher:
    """Replay a capture into a directory."""
    files = RotatedTables(directory, tables=tables, **rotating)
    with SlicedWire(capture, count) as packet_source:
        watcher = Watcher(packet_source, [files], Options(**(options or {})), by_packets)
        watcher.run()
    return watcher


def files_of(run: Path, table: str) -> list[Path]:
    """The files that have a table of a run, by the rule of connections."""
    found = [one / f"{table}.parquet" for one in rotations_in(run)]
    if table == "connections" and found:
        found.append(found[-1].with_name(f"{OPEN_CONNECTIONS}.parquet"))
    return [path for path in found if path.exists()]


def read_run(run: Path, table: str) -> pa.Table:
    """All rows of a table of a run."""
    tables = [parquet.ParquetFile(path).read() for path in files_of(run, table)]
    return pa.concat_tables(tables) if tables else arrow_schema(TABLES[table]).empty_table()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, with all columns."""
    plain = [column.cast(plain_type(column.type)).to_pylist() for column in table.columns]
    return sorted(zip(*plain, strict=True), key=repr)


def plain_type(of: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(of):
        return of.value_type
    return pa.int64() if pa.types.is_timestamp(of) else of


def only_run(directory: Path) -> Path:
    (run,) = runs_in(directory)
    return run


def everything_in(directory: Path) -> list[str]:
    """All files and directories, as paths in it."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
