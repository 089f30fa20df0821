"""The example of a declarative pipeline: captures → exchanges → marts, one run after the other."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

import kdissect
from kdissect.spark.java import java_home
from tests.spark.rotated import rotate

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pipelines"
MARTS = {
    "latency_by_client": """
        SELECT client_id, CAST(request_start AS date) AS day, count(*) AS requests,
               quantile_cont(latency_ns, 0.5) / 1e6 AS p50_ms,
               quantile_cont(latency_ns, 0.99) / 1e6 AS p99_ms
        FROM rows WHERE latency_ns IS NOT NULL AND coalesce(wait_ns, 0) = 0 GROUP BY ALL
    """,
    "traffic_by_api": """
        SELECT api, count(*) AS requests, count(error) AS errors,
               sum(request_size + coalesce(response_size, 0)) AS bytes
        FROM rows GROUP BY ALL
    """,
}


def project_of(place: Path) -> Path:
    """The example with paths of this test."""
    project = place / "project"
    shutil.copytree(EXAMPLE, project)
    settings = project / "spark-pipeline.yml"
    text = settings.read_text().replace("file:///tmp/kafka_latency", f"file://{place}")
    text = text.replace("/tmp/kafka_latency", str(place))  # noqa: S108  # of the example
    settings.write_text(text.replace(" /captures", f" {place}/captures"))
    return project


def run_pipeline(project: Path, place: Path) -> str:
    """Run it in a process of its own, with a catalogue that the next run finds; its output."""
    derby = f"jdbc:derby:;databaseName={place}/metastore;create=true"
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{place}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        "spark.ui.enabled": "false",
    }
    words = [str(Path(sys.executable).with_name("spark-pipelines")), "run"]
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    surroundings = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(  # of this environment
        words, cwd=project, env=surroundings, text=True, capture_output=True, timeout=400,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def rows_in(place: Path, table: str) -> duckdb.DuckDBPyRelation:
    return duckdb.read_parquet(f"{place}/warehouse/{table}/*.parquet")


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_each_run_adds_the_exchanges_of_new_captures_and_the_marts_follow(tmp_path: Path) -> None:
    paths = [Path(path) for path in rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=7)]
    project = project_of(tmp_path)
    (tmp_path / "captures").mkdir()
    then = time.time() - 1000
    counts = []
    for path in paths:
        os.utime(path, (then, then))
        path.rename(tmp_path / "captures" / path.name)
        assert "Run is COMPLETED" in run_pipeline(project, tmp_path)
        counts.append(len(rows_in(tmp_path, "exchanges").fetchall()))
    assert 0 < counts[0] < counts[1]
    duckdb.sql("SET TimeZone = 'UTC'")
    rows = rows_in(tmp_path, "exchanges").to_arrow_table()
    for mart, text in MARTS.items():
        # The capture is of one hour.
        columns = [name for name in rows_in(tmp_path, mart).columns if name != "hour"]
        found = rows_in(tmp_path, mart).select(*columns).fetchall()
        assert sorted(map(rounded, found), key=repr) == sorted(
            map(rounded, duckdb.sql(text).fetchall()), key=repr
        )
    # Those of the library, but for connections that were open at the end.
    captures = sorted((tmp_path / "captures").iterdir())
    expected = kdissect.read([str(one) for one in captures], table="exchanges").to_arrow()
    names = ["client_id", "api", "error", "latency_ns", "request_size", "response_size"]
    every = [tuple(one.values()) for one in expected.select(names).to_pylist()]
    own = [tuple(one.values()) for one in rows.select(names).to_pylist()]
    for one in own:
        every.remove(one)
    assert len(every) < 40


def rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(float(f"{float(one):.9g}") if is_number(one) else str(one) for one in row)


def is_number(value: object) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool)
