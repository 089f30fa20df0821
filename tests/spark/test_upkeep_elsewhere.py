"""Compaction, deletion and live directories: as Spark reads them, and in a store."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from kdissect.dataset.compaction import compact
from kdissect.dataset.deletion import forget
from kdissect.dataset.live_rotations import ingest
from kdissect.dataset.maintenance import check
from kdissect.dataset.runs import Dataset
from kdissect.dataset.storage import files_in
from kdissect.spark.dataset_tables import read_table
from kdissect.spark.pipeline import dissect
from kdissect.tables.rotations import runs_in
from tests.dataset.test_ingest import EVERY, both, highest, live_rows
from tests.dataset.test_upkeep import clients_of, made, without
from tests.live.replays import CAPTURES, replay
from tests.spark.rotated import contents_of, dataset_rows, rotate, spark_rows
from tests.spark.stores import Bucket, make_bucket, stored_contents, stored_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bucket(server: str) -> Bucket:
    return make_bucket("upkeep", server)


def test_spark_sees_exactly_the_other_rows(spark: "SparkSession", tmp_path: Path) -> None:
    dataset = made(tmp_path)
    client = clients_of(dataset)[0]
    before = dataset_rows(dataset)
    early = read_table(spark, dataset, "exchanges")
    compact(dataset)
    # What was opened before goes on, as its files are there.
    assert spark_rows("exchanges", early.toArrow().to_batches()) == before["exchanges"]
    expected = without(before, client, "")
    forget(dataset, client=client)
    for table in contents_of(dataset).options["tables"]:
        files = DeltaTable(dataset / table).file_uris()
        plain = (
            spark.read.option("basePath", str(dataset / table)).parquet(*files) if files else None
        )
        for frame in (read_table(spark, dataset, table), plain):
            rows = [] if frame is None else spark_rows(table, frame.toArrow().to_batches())
            assert rows == expected.get(table, [])


def test_in_a_store_they_are_done_without_locks(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=3)
    dataset = bucket.uri("kafka")
    for end in (1, 2):
        dissect(None, paths[:end], dataset)
    change = Dataset._change
    steps = [lambda: compact(dataset)]

    def meanwhile(self: Dataset, *values: object) -> object:
        if not self.is_upkeep and steps:
            assert steps.pop()().made > 0
        return change(self, *values)  # type: ignore[arg-type]

    monkeypatch.setattr(Dataset, "_change", meanwhile)
    # The compaction is the first to commit, and the run goes on after it.
    assert dissect(None, paths, dataset).contents.run == 4
    near = tmp_path / "near"
    dissect(None, paths, near)
    assert stored_rows(dataset) == dataset_rows(near)
    client = clients_of(near)[0]
    expected = without(dataset_rows(near), client, "")
    assert forget(dataset, client=client).rows == forget(near, client=client).rows > 0
    assert stored_rows(dataset) == dataset_rows(near) == expected
    assert check(dataset).wrong == ()
    there = {one.location for one in files_in(bucket.at("kafka"), recursive=True)}
    tables = {one for one in there if one.endswith(".parquet") and "/kafka/runs/" not in one}
    names = {file.path for tap in stored_contents(dataset).taps for file in tap.files}
    assert tables == {bucket.at(f"kafka/{name}") for name in names}


def test_live_directories_go_into_a_store(bucket: Bucket, tmp_path: Path) -> None:
    live = tmp_path / "live"
    for count in (1, 2):
        replay(CAPTURES / "groups-4.3.1.pcapng", live, EVERY, count=40, every_s=1)
        assert ingest([live], bucket.uri("live"), tables=EVERY).rotations > 0
        first, *more = runs_in(live)
        assert len(more) == count - 1
        parts = [live_rows(one, shift=highest(first) + 1) for one in more]
        assert stored_rows(bucket.uri("live")) == both(live_rows(first), *parts)
