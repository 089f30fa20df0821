"""DuckDB and Spark answer every question with the same rows, in the same order.

On one dataset of several captures; `test_dataset_answers` checks DuckDB's answers.
"""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kdissect import analyse, compare
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.spark.single_task import SETTING
from kdissect.spark.spark_tables import configured
from tests.spark.datasets import Both, both_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

# Each question has rows for at least one of them, and each belongs to a tap of its own.
NAMES = (
    "quickstart",
    "retries-4.3.1",
    "incident-group-changes-4.3.1",
    "incident-hanging-transaction-4.3.1",
    "incident-lagging-follower-4.3.1",
    "incident-leader-killed-4.3.1",
    "incident-lossy-network-4.3.1",
    "incident-old-clients-3.9.1",
)
# Beside each question as it is.
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("latency", {"by": ["window", "client"], "window": 1_000_000_000}),
    ("latency", {"by": ["tap", "broker", "acks"], "of": "work"}),
    ("latency", {"slowest": 7}),
    ("acks", {"by": ["topic", "partition"]}),
    ("errors", {"by": ["date", "error", "topic"]}),
    ("end-to-end", {"by": ["topic", "partition", "group"], "live": True}),
    ("traffic", {"by": ["window", "client"], "where": "request_size // 100 > 1"}),
    ("topology", {"replication": True}),
    ("clients", {"where": "client_id like 'slow%' and tap = 'quickstart'"}),
]
CASES = [*[(name, {}) for name in QUESTIONS], *OTHERS]
PERCENTILE = re.compile(r"(^|_)p\d+_ns$")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return both_of(NAMES, tmp_path_factory.mktemp("same"))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{name}-{'-'.join(options)}" for name, options in CASES]
)
def test_spark_gives_the_rows_of_duckdb(
    name: str, options: dict[str, Any], both: Both, spark_sql: "SparkSession"
) -> None:
    assert_same(name, both.dataset, spark_sql, options)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{name}-{'-'.join(options)}" for name, options in CASES]
)
def test_so_does_a_task(
    name: str, options: dict[str, Any], both: Both, spark: "SparkSession"
) -> None:
    assert_same(name, both.dataset, spark, options)


def test_changes_are_those_of_duckdb(both: Both, spark_both: "SparkSession") -> None:
    options: dict[str, Any] = {"before": "tap like 'incident%'", "of": ["work"], "unchanged": True}
    expected, found = (
        compare(both.dataset, **options),
        compare(both.dataset, session=spark_both, **options),
    )
    assert expected.to_arrow().num_rows > 20
    assert differences(found.to_arrow().to_pylist(), expected.to_arrow().to_pylist()) == []
    assert (found.before, found.after) == (expected.before, expected.after)
    assert found.verdicts == expected.verdicts


@pytest.mark.parametrize("name", ["delivery", "clients"])
def test_spark_sql_does_with_the_settings_of_the_session(
    name: str, both: Both, spark: "SparkSession"
) -> None:
    with configured(spark, {SETTING: "0"}):
        assert_same(name, both.dataset, spark, {})


def test_so_it_does_with_tables_made_without_spark(both: Both, spark_both: "SparkSession") -> None:
    several = [*both.directories[:2], both.dataset]
    assert_same("errors", several, spark_both, {"by": ["tap", "topic"]})


def assert_same(
    name: str, there: Path | list[Path], spark: "SparkSession", options: dict[str, Any]
) -> None:
    """Both engines answer alike, with the same columns of the same types, and not nothing."""
    expected = analyse(name, there, engine="duckdb", **options).to_arrow()
    found = analyse(name, there, engine="spark", session=spark, **options).to_arrow()
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.num_rows == expected.num_rows > 0
    assert differences(found.to_pylist(), expected.to_pylist()) == []


def differences(
    found: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> list[tuple[int, str, Any, Any]]:
    """Row, column and both values of each difference.

    Floats may differ by 1e-9, and so may a percentile between two values before it is rounded to a
    nanosecond: half of one can become either.
    """
    return [
        (number, name, row[name], value)
        for number, (row, other) in enumerate(zip(found, expected, strict=True))
        for name, value in other.items()
        if not is_same(row[name], value)
        and not (PERCENTILE.search(name) and near(row[name], value))
    ]


def near(found: Any, expected: Any) -> bool:
    return None not in (found, expected) and abs(found - expected) <= 1


def is_same(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    return bool(found == expected)
