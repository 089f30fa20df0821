"""Plans of Spark SQL: no product of tables, and no window for which all rows go to one task."""

from typing import TYPE_CHECKING, Any

import pytest

from kdissect import analyse
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.spark import spark_tables
from kdissect.spark.arrow_rows import to_arrow
from kdissect.spark.spark_tables import kept
from tests.spark.conftest import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

# Joins by comparing each row with each other one.
PRODUCTS = ("CartesianProductExec", "BroadcastNestedLoopJoinExec")
CASES: list[tuple[str, dict[str, Any]]] = [
    *[(name, {}) for name in QUESTIONS],
    ("traffic", {"by": ["window", "client"]}),
    ("latency", {"by": ["topic", "broker"], "where": "api <> 'Metadata'"}),
    ("latency", {"slowest": 7}),
    ("acks", {"by": ["topic", "partition"]}),
    ("end-to-end", {"by": ["topic", "partition", "group"], "live": True}),
    ("topology", {"replication": True}),
]


def nodes(plan: Any) -> "Iterator[Any]":
    """All operators of a physical plan, also those of subqueries."""
    yield plan
    for below in (plan.children(), plan.subqueries()):
        for place in range(below.size()):
            yield from nodes(below.apply(place))


def wrong_in(frame: "DataFrame") -> list[str]:
    """Operators of its plan that do not scale, each in a line."""
    found = []
    for node in nodes(frame._jdf.queryExecution().executedPlan()):
        kind = node.getClass().getSimpleName()
        if kind in PRODUCTS or (kind == "WindowExec" and node.partitionSpec().isEmpty()):
            found.append(node.simpleString(200))
    return found


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{name}-{'-'.join(options)}" for name, options in CASES]
)
def test_no_operator_needs_all_rows_in_one_place(
    name: str,
    options: dict[str, Any],
    tables: Tables,
    spark_sql: "SparkSession",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = []

    def planned(frame: "DataFrame", *read: Any) -> Any:
        plans.append(wrong_in(frame))
        return kept(frame, *read) if read else to_arrow(frame)

    monkeypatch.setattr(spark_tables, "kept", planned)
    monkeypatch.setattr(spark_tables, "to_arrow", planned)
    analyse(name, tables.of("quickstart"), session=spark_sql, **options)
    assert plans
    assert [wrong for wrong in plans if wrong] == []
