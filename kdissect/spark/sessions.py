"""Local Spark sessions: with a suitable Java, this Python, and a quiet stderr."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from kdissect.errors import KdissectError
from kdissect.spark.java import cache_directory, java_home, logging_file
from kdissect.system.extras import MissingExtra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
MEMORY: Final = "2g"  # of the driver, which does all the work in a local session
LOOPBACK: Final = "127.0.0.1"
# Set if Python was started by spark-submit, whose session is then used.
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
REMOTE: Final = "SPARK_REMOTE"
# Loggers by which PySpark writes errors as JSON to stderr.
TALKATIVE: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
SETTINGS: Final = {
    # Tables have times in nanoseconds, which Spark can only read as integers.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Without it Spark gives no filters to Python data sources.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Only the JVM's first compiler: jobs are too short for the second, which takes cores from tasks.
FIRST_COMPILER: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


def session(
    master: str = LOCAL, *, memory: str = MEMORY, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """The existing session, else a new quiet one.

    A session exists in notebooks, under spark-submit, and if SPARK_REMOTE or a `master` like
    ``sc://host:15002`` names a Spark Connect server; those are used unchanged. `settings` are
    configurations of a new one, `memory` is its driver memory. Raises KdissectError if PySpark or
    Java is missing, or Spark does not start.
    """
    builder = imported().builder
    if (active := imported().getActiveSession()) is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with clear_errors():
        if master.startswith("sc://"):
            return builder.remote(master).getOrCreate()
        if REMOTE in os.environ:
            # With local[N] PySpark starts a server, which needs Java.
            is_local = os.environ[REMOTE].startswith("local")
            with environment(surroundings(LOCAL) if is_local else {}):
                return builder.getOrCreate()
        if SUBMITTED in os.environ:
            return builder.getOrCreate()
        return started(master, {"spark.driver.memory": memory, **SETTINGS, **(settings or {})})


def tasks_only(master: str) -> Mapping[str, str]:
    """Settings of a new session whose tasks are all Python, as those of the pipeline are.

    A bulk capture of 2 GB takes 7 % less in a local session (docs/decisions/spark-pipeline.md).
    """
    return FIRST_COMPILER if master.startswith("local") else {}


def imported() -> "type[SparkSession]":
    """PySpark's session class."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtra(f"PySpark ({error})", "spark") from error
    return SparkSession


def started(master: str, settings: Mapping[str, str]) -> "SparkSession":
    """Start a new session and its JVM."""
    name = "spark.driver.extraJavaOptions"
    quiet = f'"-Dlog4j2.configurationFile={logging_file().as_uri()}"'
    # Spark creates this directory at the first view, by default in the working directory.
    warehouse = (cache_directory() / "spark-warehouse").as_uri()
    options = {"spark.sql.warehouse.dir": warehouse, **settings}
    options[name] = f"{settings.get(name, '')} {quiet}".strip()
    builder = imported().builder.appName("kdissect").master(master)
    for key, value in options.items():
        builder = builder.config(key, value)
    with environment(surroundings(master)):
        return builder.getOrCreate()


def surroundings(master: str) -> dict[str, str]:
    """Environment variables for the JVM."""
    found = {"JAVA_HOME": str(java_home())}
    if master.startswith("local"):
        # Otherwise Spark resolves the host name, and warns about the result.
        found["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", LOOPBACK)
    return found


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within the context, for processes started there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def clear_errors(what: str = "Spark") -> Iterator[None]:
    """Convert errors of Spark to one-line KdissectErrors."""
    try:
        with unlogged():
            yield
    except failures() as error:
        raise KdissectError(f"{what}: {first_line(error)}") from error


def failures() -> tuple[type[BaseException], ...]:
    """Exception types that PySpark raises."""
    from pyspark.errors import PySparkException

    if find_spec("py4j") is None:  # only a Spark Connect client is installed
        return PySparkException, OSError
    from py4j.protocol import Py4JError

    return PySparkException, Py4JError, OSError


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep PySpark from logging to stderr the exceptions that it raises: it does so from 4.0 on."""
    if find_spec("pyspark.logger") is None:
        yield
        return
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in TALKATIVE]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled


def first_line(error: BaseException) -> str:
    """First line of an error of Spark; the rest are JVM plans and stack traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
