"""Analyses of little data are one task; its memory and threads are those that Spark gives."""

from typing import TYPE_CHECKING

import pytest

from kdissect import KdissectError, analyse
from kdissect.analysis.engines.stored_tables import Place, StoredFile, directory_place
from kdissect.spark import single_task
from kdissect.spark.pipeline import dissect
from kdissect.spark.single_task import evaluation_of, fits, rows_by_task
from tests.spark.conftest import CAPTURES, Tables
from tests.spark.stores import DUMMY, make_bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MB = 1 << 20


def place_of(*sizes: int) -> Place:
    files = [StoredFile(f"{number}.parquet", size) for number, size in enumerate(sizes)]
    return Place("", {"exchanges": files, "batches": [StoredFile("large.parquet", 1 << 40)]})


@pytest.mark.parametrize(
    ("sizes", "is_small"),
    [
        ([], True),
        ([256 * MB], True),
        ([256 * MB, 1], False),
        ([128 * MB, 128 * MB], True),
        ([0] * 1024, True),
        ([0] * 1025, False),  # each has to be opened
    ],
)
def test_tables_fit_by_their_bytes_and_files(sizes: list[int], is_small: bool) -> None:
    assert fits([place_of(*sizes)], ["exchanges"]) == is_small
    assert not fits([place_of(*sizes)], ["exchanges", "batches"])


@pytest.mark.slow
def test_a_question_is_one_job_of_one_task(spark: "SparkSession", tables: Tables) -> None:
    directory = tables.of("incident-lagging-follower-4.3.1")
    context = spark.sparkContext
    context.setJobGroup("single", "")
    try:
        found = analyse("lag", directory, session=spark).to_arrow()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert found.equals(analyse("lag", directory).to_arrow(), check_metadata=True)
    tracker = context.statusTracker()
    stages = [
        tracker.getStageInfo(stage)
        for job in tracker.getJobIdsForGroup("single")
        for stage in tracker.getJobInfo(job).stageIds  # type: ignore[union-attr]
    ]
    assert [stage.numTasks for stage in stages if stage] == [1]


@pytest.mark.slow
def test_a_task_has_the_cores_of_spark_and_the_memory_of_the_driver(
    spark: "SparkSession", tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDISSECT_DUCKDB_MEMORY", "123MiB")
    settings = "current_setting('threads') AS threads, current_setting('memory_limit') AS memory"
    place = directory_place(tables.of("retries-4.3.1"))
    found = rows_by_task(spark, evaluation_of([place], [], None, f"SELECT {settings}"))
    assert found.to_pylist() == [{"threads": 1, "memory": "123.0 MiB"}]


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 200_000])
def test_answers_of_any_length_have_their_rows_in_order(
    count: int, spark: "SparkSession", tables: Tables
) -> None:
    place = directory_place(tables.of("retries-4.3.1"))
    sql = f"SELECT range AS number, 'é' || range AS text FROM range({count}) ORDER BY 1"  # noqa: S608
    found = rows_by_task(spark, evaluation_of([place], [], None, sql))
    assert found["number"].to_pylist() == list(range(count))
    assert found["text"].to_pylist() == [f"é{number}" for number in range(count)]
    assert found.column_names == ["number", "text"]


@pytest.mark.slow
def test_a_failure_is_an_error_of_one_line_and_not_tried_again(
    spark: "SparkSession", tables: Tables, capfd: pytest.CaptureFixture[str]
) -> None:
    place = directory_place(tables.of("retries-4.3.1"))
    context = spark.sparkContext
    context.setJobGroup("failing", "")
    try:
        with pytest.raises(KdissectError, match=r"^tables: Conversion Error: [^\n]+$"):
            rows_by_task(spark, evaluation_of([place], [], None, "SELECT CAST('x' AS INT)"))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    tracker = context.statusTracker()
    (job,) = tracker.getJobIdsForGroup("failing")
    told = tracker.getJobInfo(job)
    assert told is not None
    assert told.status == "SUCCEEDED"
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_tables_in_a_store_are_read_by_the_task(server: str, spark: "SparkSession") -> None:
    make_bucket("single", server)
    # The environment of executors has no name and password.
    name, password = DUMMY["AWS_ACCESS_KEY_ID"], DUMMY["AWS_SECRET_ACCESS_KEY"]
    there = f"s3://{name}:{password}@single/kafka?{server}"
    dissect(None, [CAPTURES / "retries-4.3.1.pcapng"], there)
    where = "tap like 'retries%' and api <> 'Metadata'"
    found = analyse("latency", there, session=spark, where=where, by=["tap", "api"]).to_arrow()
    assert found.num_rows > 1
    assert found.equals(analyse("latency", there, where=where, by=["tap", "api"]).to_arrow())


@pytest.mark.slow
def test_a_condition_that_spark_cannot_evaluate_is_refused_whatever_the_size(
    spark: "SparkSession", tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a question would fail some day, when the tables have grown."""
    errors = []
    for largest in (single_task.LARGEST, -1):
        monkeypatch.setattr(single_task, "LARGEST", largest)
        with pytest.raises(KdissectError) as caught:
            analyse("slowest", tables.of("retries-4.3.1"), session=spark, where="api glob 'F*'")
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert spark.catalog.listTables() == []
