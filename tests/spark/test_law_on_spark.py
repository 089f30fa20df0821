"""Rows from Spark = rows from the library: every table, every capture, cut at random.

A third of the captures is drawn each time, another third on clusters; all with KDISSECT_SWEEP=all.
"""

import random
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdissect.spark.pipeline import dissect
from tests.seeds import IS_EVERY_CASE, SEED
from tests.spark.clusters import spark_home, standalone
from tests.spark.everything import EVERY, SPLIT_SIZE, Everything
from tests.spark.killing import EXECUTOR, PATIENCE, started, strike
from tests.spark.rotated import ALL, CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_or_many_rows")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("everything")


@pytest.fixture(scope="module")
def everything(place: Path) -> Everything:
    return Everything(place / "rings", drawn_captures("local"))


@pytest.fixture(scope="module")
def drawn(place: Path) -> Everything:
    return Everything(place / "drawn", drawn_captures("clusters"))


def drawn_captures(what: str) -> list[str]:
    count = len(EVERY) if IS_EVERY_CASE else len(EVERY) // 3
    return random.Random(f"{SEED} {what}").sample(EVERY, count)


def test_on_two_cores_the_rows_are_those_of_the_library(
    spark: "SparkSession", everything: Everything, place: Path
) -> None:
    dataset = place / "local"
    outcome = dissect(spark, everything.sources, dataset, tables=ALL, split_size=SPLIT_SIZE)
    assert (outcome.failed, outcome.captures) == ((), len(everything.sources))
    assert everything.check(dataset) > (70_000 if IS_EVERY_CASE else 5_000)


def test_with_other_options_the_rows_are_those_of_the_library(
    spark: "SparkSession", tmp_path: Path
) -> None:
    captures = [name for name in EVERY if name.startswith(("tls/", "sasl"))]
    options = {
        "keylog": [str(path) for path in sorted((CAPTURES / "tls").glob("*.keys"))],
        "payload": True,
        "verify_crc": True,
    }
    some = Everything(tmp_path / "rings", captures, **options)
    dataset = tmp_path / "dataset"
    dissect(spark, some.sources, dataset, tables=ALL, split_size=SPLIT_SIZE, **options)
    assert some.check(dataset) > 1000


@pytest.mark.usefixtures("java")
def test_an_executor_that_is_killed_leaves_no_trace_in_the_rows(
    drawn: Everything, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(spark_home()))
    dataset = place / "local-cluster"
    with program("local-cluster[2,1,1024]", place, dataset) as process:
        # Some splits are dissected, and others are being.
        wait_for(process, dataset, "_kdissect/run-*/staging/*/0")
        assert strike(process.pid, EXECUTOR)
        assert not (dataset / "runs").exists()
        assert process.wait(PATIENCE) == 0, process.stderr.read()
    assert drawn.check(dataset) > 5_000


@pytest.mark.usefixtures("java")
def test_on_a_standalone_cluster_the_rows_are_those_of_the_library(
    drawn: Everything, place: Path
) -> None:
    dataset = place / "standalone"
    with standalone(place / "cluster") as master, program(master, place, dataset) as process:
        assert process.wait(PATIENCE) == 0, process.stderr.read()
    assert drawn.check(dataset) > 5_000


def program(
    master: str, place: Path, dataset: Path
) -> "AbstractContextManager[subprocess.Popen[str]]":
    """Brings the drawn captures into a dataset, in a process of its own."""
    return started([
        sys.executable, "-m", "tests.spark.on_cluster", master, str(place / "drawn"), str(dataset)
    ])  # fmt: skip


def wait_for(process: "subprocess.Popen[str]", dataset: Path, pattern: str) -> None:
    """Wait until there is such a file."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if any(dataset.glob(pattern)):
            return
        time.sleep(0.02)
    raise AssertionError(f"no {pattern}")
