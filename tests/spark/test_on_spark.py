import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import kdissect
from kdissect.capture.pcap import NANOSECONDS
from kdissect.dataset import tasks
from kdissect.errors import KdissectError, OutputError
from kdissect.spark.arrow_rows import to_arrow
from kdissect.spark.dataset_tables import read_table
from kdissect.spark.pipeline import dissect
from kdissect.spark.task_runners import on_spark
from kdissect.tables.schemas import DEFAULT_TABLES
from tests.capture.writers import make_pcap
from tests.spark.rotated import (
    ALL,
    CAPTURES,
    dataset_rows,
    library_rows,
    packets_of,
    rotate,
    spark_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = "cluster-3.9.1.pcapng"
pytestmark = pytest.mark.slow


def test_executors_bring_captures_into_a_dataset(spark: "SparkSession", tmp_path: Path) -> None:
    paths = rotate(MANY, tmp_path / "ring", 4, seed=21)
    dataset = tmp_path / "dataset"
    first = dissect(spark, paths[:3], dataset, tables=ALL, split_size=100_000)
    assert dataset_rows(dataset) == library_rows(paths[:3])
    second = dissect(spark, paths, dataset, tables=ALL, split_size=100_000)
    assert dataset_rows(dataset) == library_rows(paths)
    assert (first.captures, second.captures) == (3, 1)


def test_small_captures_share_tasks(spark: "SparkSession", tmp_path: Path) -> None:
    names = ("groups-4.3.1.pcapng", "sasl-4.3.1.pcapng")
    for number in range(40):
        place = tmp_path / f"broker-{number:02}" / "ring.pcap"
        place.parent.mkdir()
        packets = packets_of(CAPTURES / names[number % 2])[number : number + 30]
        place.write_bytes(make_pcap(packets, magic=NANOSECONDS, link_type=1))
    context = spark.sparkContext
    context.setJobGroup("small captures", "")
    try:
        dissect(spark, [str(tmp_path / "*" / "ring.pcap")], tmp_path / "dataset", tables=ALL)
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("small captures")]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        # Inspected by one task, and brought in by another.
        assert [stage.numTasks for stage in stages if stage] == [1, 1]
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    dissect(None, [str(tmp_path / "*" / "ring.pcap")], tmp_path / "here", tables=ALL)
    rows = dataset_rows(tmp_path / "dataset")
    assert rows == dataset_rows(tmp_path / "here")
    assert len(rows["connections"]) >= 40


@pytest.mark.parametrize(("few", "jobs"), [(64 << 20, 3), (0, 4)])
def test_few_rows_are_published_by_the_task_that_merges(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, jobs: int
) -> None:
    monkeypatch.setattr("kdissect.spark.steps.FEW_ROW_BYTES", few)
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=73)
    context = spark.sparkContext
    group = f"at most {few} bytes"
    context.setJobGroup(group, "")
    try:
        dissect(spark, paths, tmp_path / "dataset", tables=ALL)
        assert len(context.statusTracker().getJobIdsForGroup(group)) == jobs
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert dataset_rows(tmp_path / "dataset") == library_rows(paths)


def test_a_task_that_dies_is_done_again(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=22)
    monkeypatch.setattr("kdissect.spark.steps.FEW_ROW_BYTES", 0)
    dissected, published = tasks.dissect_part, tasks.publish
    monkeypatch.setattr(
        "kdissect.spark.steps.dissect_part", dying_once(dissected, tmp_path / "one")
    )
    monkeypatch.setattr("kdissect.spark.steps.publish", dying_once(published, tmp_path / "two"))
    dissect(spark, paths, tmp_path / "dataset", tables=ALL)
    assert dataset_rows(tmp_path / "dataset") == library_rows(paths)
    assert (tmp_path / "one").exists()
    assert (tmp_path / "two").exists()


def dying_once(function: Callable[..., Any], mark: Path) -> Callable[..., Any]:
    """The first time the process ends when all is done, before its result arrives."""

    def died(*values: Any) -> Any:
        answer = function(*values)
        if not mark.exists():
            mark.touch()
            os._exit(1)
        return answer

    return died


def test_exception_in_a_task_is_raised_once(spark: "SparkSession") -> None:
    def refuse(value: int) -> int:
        raise KdissectError(f"no {value}")

    with pytest.raises(KdissectError, match=r"^no 1$"):
        on_spark(spark)(refuse, [1])


def test_permanent_failures_are_reported_in_one_line(spark: "SparkSession") -> None:
    def refuse(value: int) -> int:
        raise OutputError(f"cannot write {value}: No space left on device")

    with pytest.raises(KdissectError, match=r"^Spark: cannot write 1: No space left on device$"):
        on_spark(spark)(refuse, [1])


def test_spark_reads_the_dataset(spark: "SparkSession", tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "7", 2, seed=23)
    dataset = tmp_path / "dataset"
    torn = tmp_path / "torn.pcap"
    torn.write_bytes(b"no capture" * 20)
    dissect(None, [*paths, torn], dataset, tap=r"(\d+|torn)[^/]*/?[^/]*$")
    expected = library_rows(paths, tables=DEFAULT_TABLES)
    for table in DEFAULT_TABLES:
        found = spark_rows(table, to_arrow(read_table(spark, dataset, table)).to_batches())
        told = [row for row in found if "unreadable-capture" not in row]
        assert told == expected.get(table, [])
        assert len(found) - len(told) == (table == "problems")
    frame = read_table(spark, dataset)
    plain = spark.read.parquet(str(dataset / "exchanges"))
    assert sorted(frame.select("exchange_id", "request_start").collect()) == sorted(
        plain.select("exchange_id", "request_start").collect()
    )
    # A name that looks like a number is one, unless its type is given.
    assert {row.tap for row in frame.select("tap").distinct().collect()} == {"7"}
    assert frame.where("tap = '8'").count() == 0
    assert read_table(spark, dataset, "records").collect() == []
    with pytest.raises(KdissectError, match="is no dataset"):
        read_table(spark, tmp_path)


@pytest.fixture
def registered(spark: "SparkSession") -> "SparkSession":
    from kdissect.spark.source import KdissectDataSource

    spark.dataSource.register(KdissectDataSource)
    return spark


@pytest.mark.parametrize("table", ALL)
def test_the_source_gives_the_rows_of_the_library(
    registered: "SparkSession", table: str, tmp_path: Path
) -> None:
    paths = rotate(MANY, tmp_path / "ring", 3, seed=24)
    frame = registered.read.format("kdissect").option("table", table).load(str(tmp_path / "ring"))
    found = spark_rows(table, to_arrow(frame).to_batches())
    assert found == library_rows(paths, tables=(table,)).get(table, [])


def test_columns_and_filters_are_those_asked_for(
    registered: "SparkSession", tmp_path: Path
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=25)
    frame = (
        registered.read.format("kdissect")
        .schema("tap string, exchange_id bigint, request_start_ns bigint")
        .load(paths)
    )
    whole = kdissect.read(paths, columns=["exchange_id", "request_start"]).to_arrow().to_pylist()
    expected = sorted((row["exchange_id"], row["request_start"].value) for row in whole)
    found = sorted((row.exchange_id, row.request_start_ns) for row in frame.collect())
    assert found == expected
    middle = expected[len(expected) // 2]
    chosen = frame.where(f"request_start_ns >= {middle[1]} and tap = 'ring'")
    assert sorted((row.exchange_id, row.request_start_ns) for row in chosen.collect()) == [
        row for row in expected if row[1] >= middle[1]
    ]


def test_a_broken_capture_is_a_row_of_problems(registered: "SparkSession", tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=26)
    (tmp_path / "ring" / "torn.pcap").write_bytes(b"no capture" * 20)
    reader = registered.read.format("kdissect")
    problems = reader.option("table", "problems").load(str(tmp_path / "ring")).collect()
    assert [(row.kind, Path(row.capture).name) for row in problems] == [
        ("unreadable-capture", "torn.pcap")
    ]
    rows = reader.option("table", "exchanges").load(str(tmp_path / "ring")).count()
    assert rows == len(library_rows(paths)["exchanges"])


def test_a_plain_session_reads_tables_with_microseconds(
    spark: "SparkSession", tmp_path: Path
) -> None:
    plain = spark.newSession()
    plain.conf.set("spark.sql.legacy.parquet.nanosAsLong", "false")
    for unit in ("ns", "us"):
        kdissect.write("captures/quickstart.pcapng", tmp_path / unit, timestamps=unit)
    expected = pyarrow.parquet.read_table(tmp_path / "ns" / "exchanges.parquet")
    read = plain.read.parquet(str(tmp_path / "us" / "exchanges.parquet"))
    starts = [row.request_start_ns for row in read.orderBy("exchange_id").collect()]
    in_order = expected.sort_by("exchange_id")["request_start"]
    assert starts == in_order.cast(pa.int64()).to_pylist()
    with pytest.raises(Exception, match="NANOS"):  # why there are two units
        plain.read.parquet(str(tmp_path / "ns" / "exchanges.parquet")).collect()
