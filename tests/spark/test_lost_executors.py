"""Executors that are lost while they keep parts of a question."""

import json
import subprocess
import sys

import pytest

from kdissect import KdissectError
from kdissect.spark.spark_tables import LOST, while_lost
from tests.spark.conftest import Tables


def test_a_question_is_not_asked_for_ever() -> None:
    errors = pytest.importorskip("pyspark.errors", reason="PySpark is not installed")
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)
        raise errors.PySparkException(f"Job aborted: [{LOST}] rdd_1_0 is gone\n\tat java")

    with pytest.raises(KdissectError) as caught:
        while_lost(ask)
    says = "Spark: executors that kept parts of the question were lost 3 times: Job aborted: "
    assert str(caught.value) == f"{says}[{LOST}] rdd_1_0 is gone"
    assert len(asked) == 3


def test_other_failures_are_reported_at_once() -> None:
    errors = pytest.importorskip("pyspark.errors", reason="PySpark is not installed")
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)
        raise errors.PySparkException("no such column")

    with pytest.raises(errors.PySparkException, match="no such column"):
        while_lost(ask)
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_question_is_asked_again_when_executors_are_lost(tables: Tables) -> None:
    # A process of its own: this one may have a session.
    words = [sys.executable, "-m", "tests.spark.on_local_cluster"]
    directory = str(tables.of("retries-4.3.1"))
    done = subprocess.run([*words, directory], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["rows"] > 0
    assert told == {"rows": told["rows"], "is_same": True, "attempts": 2}
