"""Captures as rotated files, and datasets compared with the library's rows."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from kdissect.capture.files import open_captures
from kdissect.capture.pcap import NANOSECONDS
from kdissect.dataset.entries import Contents, table_files
from kdissect.dataset.runs import read_contents
from kdissect.exchanges.connection_state import EXCHANGES_PER_PACKET
from kdissect.pipeline import Options, Run
from kdissect.tables.ids import TAP_BITS
from kdissect.tables.schemas import TABLES, TIME
from tests.capture.writers import Captured, make_pcap
from tests.plain_rows import plain_rows

CAPTURES = Path(__file__).parents[2] / "captures"
ALL = tuple(TABLES)

Rows = dict[str, list[str]]


def link_type_of(capture: Path) -> int:
    with open_captures(capture) as opened:
        return next(iter(opened))[0].link_type


def packets_of(capture: Path) -> list[Captured]:
    with open_captures(capture) as opened:
        return [
            Captured(packet.data[packet.start : packet.end], packet.time_ns, packet.original_length)
            for batch in opened
            for packet in batch
        ]


def rotate(capture: str, directory: Path, count: int, seed: int) -> list[str]:
    """The capture as `count` files of a ring buffer, cut anywhere."""
    packets = packets_of(CAPTURES / capture)
    cuts = sorted(random.Random(seed).sample(range(1, len(packets)), count - 1))
    link_type = link_type_of(CAPTURES / capture)
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, (first, end) in enumerate(zip([0, *cuts], [*cuts, len(packets)], strict=True)):
        path = directory / f"ring.pcap{number}"
        path.write_bytes(make_pcap(packets[first:end], magic=NANOSECONDS, link_type=link_type))
        paths.append(str(path))
    return paths


def library_rows(
    paths: Sequence[str], tap: int = 0, tables: Sequence[str] = ALL, **options: Any
) -> Rows:
    """Rows of the library for one tap, with the ids of a dataset."""
    rows: Rows = {}
    with Run(list(paths), Options(tables=tables, **options)) as run:
        for table, batch in run:
            found = plain_rows(batch)
            rows.setdefault(table, []).extend(repr(as_spark(table, row, tap)) for row in found)
    return {table: sorted(found) for table, found in sorted(rows.items())}


def as_spark(table: str, row: dict[str, object], tap: int) -> dict[str, object]:
    """A row of the library with times as numbers, and moved ids."""
    made: dict[str, object] = {}
    for column in TABLES[table].columns:
        value = row[column.name]
        if column.type == TIME:
            made[column.name + "_ns"] = value
        elif column.name in ("connection_id", "exchange_id") and value is not None:
            factor = int(EXCHANGES_PER_PACKET) if column.name == "exchange_id" else 1
            made[column.name] = value + (tap << TAP_BITS) * factor  # type: ignore[operator]
        else:
            made[column.name] = value
    return made


def dataset_rows(dataset: Path, tap: str | None = None) -> Rows:
    """Rows in the Parquet files that a dataset has now."""
    contents = read_contents(dataset) or Contents()
    directory = None if tap is None else f"tap={tap}"
    rows: Rows = {}
    for table in TABLES:
        files = [dataset / name for name in sorted(table_files(contents, table))]
        chosen = [file for file in files if directory in (None, file.parent.name)]
        found = spark_rows(table, (pa.parquet.ParquetFile(file).read() for file in chosen))
        if found:
            rows[table] = found
    return dict(sorted(rows.items()))


def spark_rows(table: str, batches: Iterable[pa.Table | pa.RecordBatch]) -> list[str]:
    """Rows as Spark has them, like `library_rows`; the microseconds agree with the nanoseconds."""
    found = []
    for batch in batches:
        for row in plain_rows(batch):
            made = {}
            for column in TABLES[table].columns:
                value = row[column.name]
                if column.type == TIME:
                    ns = row[column.name + "_ns"]
                    assert (value is None) == (ns is None)
                    assert ns is None or value == (ns + 500) // 1000
                    made[column.name + "_ns"] = ns
                else:
                    made[column.name] = value
            found.append(repr(made))
    return sorted(found)


def contents_of(dataset: Path) -> Contents:
    """The contents, with counts equal to those of the files."""
    contents = read_contents(dataset)
    assert contents is not None
    for tap in contents.taps:
        for file in tap.files:
            assert pa.parquet.read_metadata(dataset / file.path).num_rows == file.rows
    return contents
