"""DuckDB and Spark answer every question with the same rows, in the same order."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kdissect import analyse
from kdissect.analysis.questions import QUESTIONS
from tests.spark.conftest import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

# Capture → what it has something to say of: questions, with options that are not the default.
ASKED: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "quickstart": [
        *[(name, {}) for name in QUESTIONS],
        ("latency", {"by": ["window", "client"], "window": 1_000_000_000}),
        ("latency", {"slowest": 7}),
        ("lag", {"latest": True}),
        ("end-to-end", {"by": ["topic", "partition", "group"], "live": True}),
        ("traffic", {"by": ["window", "client"]}),
        ("traffic", {"where": "api = 'Produce' and request_size // 100 > 1"}),
        ("clients", {"where": "client_id like 'slow%'"}),
    ],
    "cluster-4.3.1": [
        ("latency", {"by": ["broker", "acks"], "of": "work"}),
        ("acks", {"by": ["topic", "acks"]}),
        ("topology", {"replication": True}),
        ("failovers", {}),
        ("health", {"by": ["connection"]}),
    ],
    "retries-4.3.1": [("retries", {}), ("delivery", {}), ("sequences", {}), ("errors", {})],
    "transactions-4.3.1": [("transactions", {}), ("commits", {})],
    "incident-crashes-4.3.1": [("delivery", {}), ("lag", {})],
    "incident-group-changes-4.3.1": [("rebalances", {}), ("commits", {})],
    "incident-hanging-transaction-4.3.1": [("transactions", {"timeout": 1_000_000_000})],
    "incident-lagging-follower-4.3.1": [("acks", {"by": ["partition"]})],
    "incident-leader-killed-4.3.1": [("failovers", {"quiet": 100_000_000})],
    "incident-leader-stopped-4.3.1": [("errors", {"by": ["window", "error", "topic"]})],
    "incident-lossy-network-4.3.1": [("health", {}), ("latency", {"by": ["connection"]})],
    "incident-lost-answers-4.3.1": [("sequences", {}), ("delivery", {})],
    "incident-old-clients-3.9.1": [("upgrade", {}), ("upgrade", {"to": "2.8", "by": ["client"]})],
    "incident-slow-follower-4.3.1": [("acks", {})],
    "incident-slow-poller-4.3.1": [("rebalances", {}), ("clients", {"by": ["group"]})],
}
PERCENTILE = re.compile(r"(^|_)p\d+_ns$")
CASES = [(capture, name, options) for capture, all_ in ASKED.items() for name, options in all_]


@pytest.mark.parametrize(
    ("capture", "name", "options"),
    CASES,
    ids=[f"{capture}-{name}-{'-'.join(options)}" for capture, name, options in CASES],
)
def test_spark_gives_the_rows_of_duckdb(
    capture: str, name: str, options: dict[str, Any], tables: Tables, spark: "SparkSession"
) -> None:
    assert_same(name, tables.of(capture), spark, options)


@pytest.mark.parametrize("name", ["latency", "acks", "delivery", "clients"])
def test_so_it_does_where_tables_are_too_large_for_one_partition(
    name: str, tables: Tables, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdissect.spark.spark_tables.SMALL", 0)
    directories = [tables.of("cluster-4.3.1"), tables.of("transactions-4.3.1")]
    assert_same(name, directories, spark, {})


def test_every_question_is_asked_where_it_has_an_answer(tables: Tables) -> None:
    empty = dict.fromkeys(QUESTIONS, True)
    for capture, name, options in CASES:
        if empty[name]:
            empty[name] = not analyse(name, tables.of(capture), **options).to_arrow().num_rows
    assert [name for name, is_empty in empty.items() if is_empty] == []


def assert_same(
    name: str, there: Path | list[Path], spark: "SparkSession", options: dict[str, Any]
) -> None:
    """Both engines answer alike, with the same columns of the same types."""
    expected = analyse(name, there, engine="duckdb", **options).to_arrow()
    found = analyse(name, there, engine="spark", session=spark, **options).to_arrow()
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.num_rows == expected.num_rows
    assert differences(found.to_pylist(), expected.to_pylist()) == []


def differences(
    found: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> list[tuple[int, str, Any, Any]]:
    """Row, column and both values of what is not the same.

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
