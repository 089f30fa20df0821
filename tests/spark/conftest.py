"""One small Spark session for all tests of this directory, where there is a Java."""

import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kdissect
from kdissect.errors import KdissectError
from kdissect.spark.java import find_java
from kdissect.spark.sessions import environment, session
from kdissect.spark.single_task import SETTING
from kdissect.spark.spark_tables import configured
from tests.spark import quick_java
from tests.spark.hostile import sandbox_of, sound_dataset
from tests.spark.publishing import few_or_many_rows  # noqa: F401  # a fixture
from tests.spark.sandbox import Sandbox
from tests.spark.stores import s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATM = Path("/proc/self/statm")  # Linux's: pages of the process's address space
CAPTURES = Path(__file__).parents[2] / "captures"
REQUIRED = os.environ.get("KDISSECT_SPARK") == "require"


@cache
def missing() -> str:
    """Why there is no Spark; "" when there is."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed"
    try:
        find_java()
    except KdissectError as error:
        return str(error)
    return ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if missing():
        terminalreporter.write_line(f"The tests on Spark did not run: {missing()}")


@pytest.fixture(scope="module")
def little_memory() -> Iterator[None]:
    """Lets the process have 4 GB more: beyond, hostile numbers are a MemoryError of one test."""
    if not STATM.exists():
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(STATM.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="session")
def java() -> Iterator[None]:
    """Leaves out tests where Spark cannot start; under KDISSECT_SPARK=require they fail.

    Processes that start Java in these tests do so quickly.
    """
    if missing():
        if REQUIRED:
            pytest.fail(missing())
        pytest.skip(missing())
    with environment(quick_java.variables()):
        yield


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> "Iterator[SparkSession]":
    request.getfixturevalue("java")
    settings = {"spark.driver.extraJavaOptions": "-Xss4m", "spark.sql.shuffle.partitions": "2"}
    made = session("local[2,4]", memory="1g", settings=settings)  # a task may fail three times
    yield made
    made.stop()


@pytest.fixture
def spark_sql(spark: "SparkSession") -> "Iterator[SparkSession]":
    """A session in which analyses of little data are Spark SQL, too, and are quick."""
    settings = {
        SETTING: "0",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    with configured(spark, settings):
        yield spark


@pytest.fixture(params=["a task", "Spark SQL"])
def spark_both(request: pytest.FixtureRequest) -> "SparkSession":
    """A session in which an analysis is a task, and one in which it is Spark SQL."""
    found: SparkSession = request.getfixturevalue(
        "spark" if request.param == "a task" else "spark_sql"
    )
    return found


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> "Tables":
    return Tables(tmp_path_factory.mktemp("tables"))


class Tables:
    """Directories with the tables of captures, each made on first use."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def of(self, capture: str) -> Path:
        directory = self.place / capture
        if not directory.exists():
            kdissect.write(CAPTURES / f"{capture}.pcapng", directory)
        return directory


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Query of the URIs of an S3 server on this machine."""
    with s3_server() as options:
        yield options


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unchanged dataset, and captures to add to it."""
    return sound_dataset(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def sandbox(sound: Path, tmp_path: Path) -> Sandbox:
    return sandbox_of(sound, tmp_path)
