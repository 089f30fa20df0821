"""The streaming source without Spark: the calls that Spark makes, in Spark's order."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxFiles

from kdissect.checkpoint.checkpoint import Checkpoint
from kdissect.checkpoint.merger import Merger
from kdissect.dataset.incremental_tap import Followed, OwnRows
from kdissect.dataset.stored_columns import spark_batch, spark_schema
from kdissect.errors import KdissectError
from kdissect.pipeline import Options
from kdissect.spark.source import KdissectDataSource
from kdissect.spark.source_stream import KdissectStreamReader, Offset
from kdissect.tables.schemas import TABLES
from tests.spark.rotated import library_rows, rotate, spark_rows
from tests.spark.stores import make_bucket

MANY = "cluster-3.9.1.pcapng"


class Query:
    """Calls a source as Spark does: `rows` of each batch, offsets as JSON between them."""

    def __init__(self, place: Path, table: str = "exchanges", **options: str) -> None:
        given = {"path": str(place / "ring"), "state": str(place / "state"), "quiet": "0"}
        self.source = KdissectDataSource({"table": table, **given, **options})
        self.table = table
        self.reader = self.begun()
        self.offsets = [self.reader.initialOffset()]
        self.rows: list[list[str]] = []

    def begun(self) -> KdissectStreamReader:
        reader = self.source.streamReader(self.source.schema())
        assert isinstance(reader, KdissectStreamReader)
        return reader

    def step(self) -> bool:
        """One batch, if there is one."""
        start = self.offsets[-1]
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        if end == start:
            return False
        if len(self.offsets) > 1:
            self.reader.commit(start)
        self.offsets.append(json.loads(json.dumps(end)))
        self.rows.append(self.read(start, end))
        return True

    def read(self, start: Offset, end: Offset) -> list[str]:
        reader = self.begun()
        batches = [
            batch for one in self.reader.partitions(start, end) for batch in reader.read(one)
        ]
        return spark_rows(self.table, batches)

    def rows_at_the_end(self, paths: Sequence[str]) -> list[str]:
        """Rows of all batches, and those that the captures' end would settle."""
        self.reader.commit(self.offsets[-1])
        return sorted([row for rows in [*self.rows, self.still_open(paths)] for row in rows])

    def still_open(self, paths: Sequence[str]) -> list[str]:
        """Rows that the captures' end would settle."""
        (place,) = (Path(self.source.options["state"])).glob("*/*.state")
        followed = Followed.from_bytes(place.read_bytes())
        table = TABLES[self.table]
        options = Options(
            tables=(self.table,), columns={self.table: [one.name for one in table.columns]}
        )
        merger = Merger(options, state=Checkpoint.from_bytes(followed.content))
        merger.finish()
        schema = spark_schema(table)
        rows = OwnRows(merger, options, paths).batches(1)
        return spark_rows(self.table, (spark_batch(batch, schema) for batch in rows))


@pytest.mark.parametrize("table", ["exchanges", "connections", "problems", "bodies"])
def test_three_files_in_three_batches_give_the_rows_of_the_library(
    table: str, tmp_path: Path
) -> None:
    paths = rotate(MANY, tmp_path / "ring", 3, seed=135)
    query = Query(tmp_path, table, maxFilesPerTrigger="1")
    while query.step():
        pass
    assert len(query.rows) == 3
    assert query.rows_at_the_end(paths) == library_rows(paths, tables=(table,)).get(table, [])
    if table == "exchanges":
        assert all(query.rows)


def test_a_file_that_comes_later_is_read_later(tmp_path: Path) -> None:
    paths = rotate(MANY, tmp_path / "ring", 3, seed=32)
    last = tmp_path / "last"
    Path(paths[2]).rename(last)
    query = Query(tmp_path)
    assert query.step()
    assert not query.step()
    last.rename(paths[2])
    assert query.step()
    assert query.offsets[2]["taps"][str(tmp_path / "ring" / "ring.pcap*")]["files"] == [paths[2]]
    assert query.rows_at_the_end(paths) == library_rows(paths, tables=("exchanges",))["exchanges"]


def test_captures_that_are_done_are_not_needed_any_more(tmp_path: Path) -> None:
    paths = rotate(MANY, tmp_path / "ring", 3, seed=135)
    expected = library_rows(paths, tables=("exchanges",))["exchanges"]
    query = Query(tmp_path, maxFilesPerTrigger="1")
    for path in paths:
        assert query.step()
        Path(path).unlink()
    assert query.rows_at_the_end(paths) == expected


def test_a_batch_that_is_done_again_has_the_same_rows(tmp_path: Path) -> None:
    rotate(MANY, tmp_path / "ring", 3, seed=34)
    query = Query(tmp_path, maxFilesPerTrigger="1")
    for number in range(3):
        assert query.step()
        start, end = query.offsets[-2:]
        assert query.read(start, end) == query.rows[number]
    # State before the last batch is kept until that batch is final.
    assert len(list((tmp_path / "state").glob("*/*.state"))) == 2
    query.reader.commit(query.offsets[-1])
    assert len(list((tmp_path / "state").glob("*/*.state"))) == 1
    with pytest.raises(KdissectError, match="begin with another checkpoint"):
        query.read(start, end)


def test_a_batch_has_as_many_files_as_it_may(tmp_path: Path) -> None:
    paths = rotate(MANY, tmp_path / "ring", 4, seed=35)
    reader = Query(tmp_path).reader
    start = reader.initialOffset()
    sizes = [Path(path).stat().st_size for path in paths]

    def files(limit: Any) -> list[str]:
        end = reader.latestOffset(start, limit)
        return [path for tap in end["taps"].values() for path in tap["files"]]

    assert files(ReadMaxFiles(2)) == paths[:2]
    assert files(ReadMaxBytes(1)) == paths[:1]
    assert files(ReadMaxBytes(sizes[0] + sizes[1])) == paths[:2]
    reader.prepareForTriggerAvailableNow()
    Path(paths[3]).with_name("ring.pcap4").write_bytes(Path(paths[3]).read_bytes())
    assert files(reader.getDefaultReadLimit()) == paths


def test_a_broken_capture_is_one_row_of_problems(tmp_path: Path) -> None:
    rotate(MANY, tmp_path / "ring", 2, seed=36)
    torn = tmp_path / "ring" / "torn.pcap"
    torn.write_bytes(b"no capture" * 20)
    query = Query(tmp_path, "problems")
    while query.step():
        pass
    told = [row for rows in query.rows for row in rows if "unreadable-capture" in row]
    assert len(told) == 1
    assert str(torn) in told[0]
    torn.write_bytes(b"no capture either" * 20)
    os.utime(torn, ns=(1, 1))
    assert query.step()
    assert len(query.rows[-1]) == 1


def test_captures_in_a_store_are_followed(server: str, tmp_path: Path) -> None:
    paths = rotate(MANY, tmp_path / "local", 3, seed=135)
    bucket = make_bucket("followed", server)
    for path in paths[:2]:
        bucket.put(path, f"ring/{Path(path).name}")
    query = Query(tmp_path, path=bucket.uri("ring"))
    assert query.step()
    bucket.put(paths[2], f"ring/{Path(paths[2]).name}")
    assert query.step()
    found = query.rows_at_the_end([bucket.at(f"ring/{Path(path).name}") for path in paths])
    expected = library_rows(paths, tables=("exchanges",))["exchanges"]
    assert found == [row.replace(f"{tmp_path}/local", bucket.at("ring")) for row in expected]


def test_stream_requires_a_state_directory(tmp_path: Path) -> None:
    source = KdissectDataSource({"path": str(tmp_path)})
    with pytest.raises(KdissectError, match=r"option\('state', DIRECTORY\)"):
        source.streamReader(source.schema())


def test_spark_is_told_how_far_the_stream_could_be(tmp_path: Path) -> None:
    rotate(MANY, tmp_path / "ring", 3, seed=35)
    query = Query(tmp_path, maxFilesPerTrigger="1")
    (chain,) = query.reader.reportLatestOffset()["taps"]
    for number in (1, 2, 3):
        assert query.step()
        told = query.reader.reportLatestOffset()
        assert told["taps"][chain]["captures"] == 3
        assert query.offsets[-1]["taps"][chain]["captures"] == number
        assert json.loads(json.dumps(told)) == told


def test_a_tap_with_many_files_does_not_hold_the_others(tmp_path: Path) -> None:
    rotate(MANY, tmp_path / "ring" / "slow", 9, seed=35)
    query = Query(tmp_path, path=str(tmp_path / "ring" / "*"), maxFilesPerTrigger="2")
    assert query.step()
    for name in ("a", "b", "c"):
        rotate(MANY, tmp_path / "ring" / name, 1, seed=36)
        assert query.step()
        files = {
            Path(path).parent.name: len(tap["files"])
            for tap in query.offsets[-1]["taps"].values()
            for path in tap["files"][:1]
        }
        assert files == {name: 1, "slow": 1}
