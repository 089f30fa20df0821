"""Analyses of little data are one task; its memory and threads are bounded."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from kdissect import KdissectError, analyse
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines import duckdb_tables
from kdissect.analysis.engines.duckdb_tables import buckets_of, sql_of
from kdissect.analysis.engines.ibis_tables import declared_tables
from kdissect.analysis.engines.stored_tables import Place, StoredFile, directory_place
from kdissect.api.engine_choice import LIMIT
from kdissect.spark.pipeline import dissect
from kdissect.spark.single_task import (
    LARGEST,
    SETTING,
    answered,
    cores,
    evaluation_of,
    fits,
    largest_in,
    rows_by_task,
)
from kdissect.spark.spark_tables import configured
from kdissect.sql import separate_statements
from kdissect.sql.spilled_percentiles import keep
from kdissect.tables.schemas import TABLES, TIME
from tests.analysis.made_tables import write_tables
from tests.seeds import SEED
from tests.spark.conftest import CAPTURES, Tables
from tests.spark.stores import DUMMY, make_bucket

if TYPE_CHECKING:
    from pyspark import SparkJobInfo
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
    assert not fits([place_of(*sizes)], ["exchanges"], largest=0)
    assert fits([place_of(*sizes)], ["exchanges"], largest=512 * MB)


@contextmanager
def jobs_of(spark: "SparkSession", group: str) -> "Iterator[list[SparkJobInfo]]":
    """Jobs that ran in the context, when it has ended."""
    context: Any = spark.sparkContext
    found: list[SparkJobInfo] = []
    context.setJobGroup(group, "")
    try:
        yield found
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    # Otherwise a job that has ended may still be running for the tracker.
    context._jsc.sc().listenerBus().waitUntilEmpty()
    tracker = context.statusTracker()
    for number in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(number)
        assert job is not None
        found.append(job)


@pytest.mark.slow
def test_a_question_is_one_job_of_one_task(spark: "SparkSession", tables: Tables) -> None:
    directory = tables.of("incident-lagging-follower-4.3.1")
    with jobs_of(spark, "single") as jobs:
        found = analyse("lag", directory, session=spark).to_arrow()
    assert found.equals(analyse("lag", directory).to_arrow(), check_metadata=True)
    (job,) = jobs
    (stage,) = map(spark.sparkContext.statusTracker().getStageInfo, job.stageIds)
    assert stage is not None
    assert stage.numTasks == 1


@pytest.mark.slow
@pytest.mark.parametrize(("value", "is_task"), [("0", False), ("1000", False), ("9000000", True)])
def test_a_session_says_for_how_much_it_takes_a_task(
    value: str, is_task: bool, spark: "SparkSession", tables: Tables
) -> None:
    with configured(spark, {SETTING: value}), jobs_of(spark, f"setting {value}") as jobs:
        analyse("slowest", tables.of("retries-4.3.1"), session=spark).to_arrow()
    assert (len(jobs) == 1) == is_task


@pytest.mark.slow
@pytest.mark.parametrize("value", ["many", "-1", "256m", "1e9", "", "٣"])
def test_a_setting_that_is_no_number_is_an_error(
    value: str, spark: "SparkSession", tables: Tables
) -> None:
    says = f"^{SETTING} is a number of bytes, not '{value}'$"
    with configured(spark, {SETTING: value}), pytest.raises(KdissectError, match=says):
        analyse("slowest", tables.of("retries-4.3.1"), session=spark)


CORES = len(os.sched_getaffinity(0))


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(
    ("master", "count"),
    [
        ("local", 1),
        ("local[1]", 1),
        ("local[2,4]", min(2, CORES)),
        ("local[4096]", CORES),
        ("local[*]", CORES),
        ("local[*,2]", CORES),
        ("local-cluster[2,2,1024]", 1),  # outside a task, where Spark gives none
        ("spark://local:7077", 1),
        ("", 1),
    ],
)
def test_a_local_session_gives_its_cores_and_a_cluster_those_of_a_task(
    master: str, count: int
) -> None:
    assert cores(master) == count


@pytest.mark.parametrize(
    ("settings", "largest"),
    [
        ({"spark.master": "local[2]"}, LIMIT),
        ({"spark.master": "local[*]", SETTING: "9"}, 9),
        ({"spark.master": "local-cluster[2,2,1024]"}, 256 * MB),
        ({"spark.master": "yarn"}, 256 * MB),
        ({}, 256 * MB),
    ],
)
def test_a_local_session_takes_a_task_for_as_much_as_duckdb_is_given(
    settings: dict[str, str], largest: int
) -> None:
    assert largest_in(cast("SparkSession", SimpleNamespace(conf=settings))) == largest


@pytest.mark.slow
@pytest.mark.parametrize("where", [None, "api <> 'Metadata' and partition >= 0"])
def test_an_answer_that_does_not_fit_into_a_task_is_of_spark_sql(
    where: str | None, spark: "SparkSession", tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tables.of("retries-4.3.1")
    expected = analyse("slowest", directory, where=where).to_arrow()
    monkeypatch.setenv("KDISSECT_DUCKDB_MEMORY", "1MB")
    with pytest.raises(KdissectError, match="more memory than 1MB"):
        analyse("slowest", directory, where=where)
    with jobs_of(spark, f"memory {where}") as jobs:
        found = analyse("slowest", directory, where=where, session=spark).to_arrow()
    assert found.num_rows > 1
    assert found.equals(expected)
    assert len(jobs) > 1
    assert spark.catalog.listTables() == []


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("name", [name for name in QUESTIONS if QUESTIONS[name].bucketed_by])
def test_a_task_answers_by_buckets_where_its_memory_does_not_suffice(
    name: str, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first statement is refused as DuckDB refuses it."""
    from pyspark import cloudpickle

    kept: list[str] = []

    def refuse_first(connection: duckdb.DuckDBPyConnection, table: str, sql: str) -> None:
        kept.append(sql)
        if len(kept) == 1:
            raise duckdb.OutOfMemoryException("failed to pin block of size 256.0 KiB")
        keep(connection, table, sql)

    directory = tables.of("incident-lagging-follower-4.3.1")
    question = QUESTIONS[name]
    answer = question.answer(declared_tables()).op()
    buckets = buckets_of(answer, question.bucketed_by)
    asked = evaluation_of(
        [directory_place(directory)], question.tables, None, sql_of(answer), buckets
    )
    whole = rows_in(answered(asked, 1))
    for module in (duckdb_tables, separate_statements):
        monkeypatch.setattr(module, "keep", refuse_first)
    assert rows_in(answered(cloudpickle.loads(cloudpickle.dumps(asked)), 1)).equals(whole)
    assert len(kept) > 4


def rows_in(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """Rows that a task gives."""
    found = pa.Table.from_batches(batches)
    assert not found["error"].drop_null()
    assert not found["too_large"].drop_null()
    return pa.concat_tables(pa.ipc.open_stream(one.as_buffer()).read_all() for one in found["rows"])


@pytest.mark.slow
def test_a_task_has_the_cores_of_a_local_session_and_the_memory_of_the_driver(
    spark: "SparkSession", tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDISSECT_DUCKDB_MEMORY", "123MiB")
    settings = "current_setting('threads') AS threads, current_setting('memory_limit') AS memory"
    place = directory_place(tables.of("retries-4.3.1"))
    found = rows_by_task(spark, evaluation_of([place], [], None, f"SELECT {settings}"))
    assert found.to_pylist() == [{"threads": min(2, CORES), "memory": "123.0 MiB"}]


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


def value_of(kind: str, source: Random) -> Any:
    """A value of a column, often an extreme one."""
    if kind == "text":
        return source.choice(["", "é\u0000\U0001f980", "x" * source.randrange(300), "NULL"])
    if kind == "binary":
        return source.randbytes(source.randrange(40))
    if kind == "bool":
        return source.random() < 0.5
    if kind == TIME:
        return source.choice([0, 1, 499, 500, 501]) + source.randrange(0, 1 << 62, 1000)
    bits = int(kind.removeprefix("int")) - 1
    return source.choice([-(1 << bits), (1 << bits) - 1, 0, source.randrange(1 << bits)])


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_task_gives_the_values_that_are_in_the_files(
    name: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """Beside what Arrow reads: drawn rows, of every type."""
    source = Random(f"{SEED} {name}")
    columns = TABLES[name].columns
    rows = [
        {one.name: value_of(one.type, source) for one in columns if source.random() < 0.8}
        for _ in range(200)
    ]
    place = directory_place(write_tables(tmp_path / "tables", **{name: rows}))
    stored = parquet.read_table(tmp_path / "tables" / f"{name}.parquet")
    sql = f"SELECT * FROM {name}"  # noqa: S608
    found = rows_by_task(spark, evaluation_of([place], [name], None, sql))
    for one in columns:
        read = stored[one.name]
        given = found[f"{one.name}_ns"] if one.type == TIME else found[one.name]
        expected = read.cast(pa.int64()) if one.type == TIME else read.cast(given.type)
        assert given.to_pylist() == expected.to_pylist(), one.name


@pytest.mark.slow
def test_a_failure_is_an_error_of_one_line_and_not_tried_again(
    spark: "SparkSession", tables: Tables, capfd: pytest.CaptureFixture[str]
) -> None:
    place = directory_place(tables.of("retries-4.3.1"))
    says = r"^tables: Conversion Error: [^\n]+$"
    with jobs_of(spark, "failing") as jobs, pytest.raises(KdissectError, match=says):
        rows_by_task(spark, evaluation_of([place], [], None, "SELECT CAST('x' AS INT)"))
    assert [job.status for job in jobs] == ["SUCCEEDED"]
    assert capfd.readouterr().err == ""


WITHOUT = """
import os, sys
from kdissect import KdissectError, analyse
from kdissect.spark.sessions import session
os.environ.pop("PYTHONPATH", None)  # else workers import kdissect from there
tables, setting = sys.argv[1:]
spark = session("local[1]", memory="1g", settings={"spark.sql.shuffle.partitions": "1"})
for value in (None, "0"):
    if value is not None:
        spark.conf.set(setting, value)
    try:
        print(analyse("slowest", tables, session=spark).to_arrow().num_rows)
    except KdissectError as error:
        print(error)
spark.stop()
"""


def python_without_kdissect(directory: Path) -> Path:
    """A Python with the packages of this one but kdissect."""
    venv.create(directory, symlinks=True)
    here = Path(sysconfig.get_path("purelib"))
    there = directory / here.relative_to(sys.prefix)
    for one in here.iterdir():
        if "kdissect" not in one.name and not (there / one.name).exists():
            (there / one.name).symlink_to(one)
    return directory / "bin" / "python"


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_executors_without_kdissect_can_do_without_tasks(tables: Tables, tmp_path: Path) -> None:
    python = str(python_without_kdissect(tmp_path / "environment"))
    words = [sys.executable, "-c", WITHOUT, str(tables.of("retries-4.3.1")), SETTING]
    variables = {**os.environ, "PYSPARK_PYTHON": python}
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=variables)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = done.stdout.splitlines()
    assert first == (
        "Spark: ModuleNotFoundError: No module named 'kdissect' "
        f"({SETTING}=0 uses Spark SQL in place of a task)"
    )
    assert int(second) > 0


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
    spark: "SparkSession", tables: Tables
) -> None:
    """Otherwise a question would fail some day, when the tables have grown."""
    errors = []
    for largest in (LARGEST, 0):
        with configured(spark, {SETTING: str(largest)}), pytest.raises(KdissectError) as caught:
            analyse("slowest", tables.of("retries-4.3.1"), session=spark, where="api glob 'F*'")
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert spark.catalog.listTables() == []
