"""Spark answers questions of live directories as DuckDB does."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kdissect.api.answers import analyse
from kdissect.tables.rotations import rotations_in, runs_in
from tests.live.replays import CAPTURES, EVERY, replay, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("latency", {"by": ["client"]}),
    ("clients", {}),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of several rotations."""
    directory = tmp_path_factory.mktemp("live")
    for name in ("groups-4.3.1.pcapng", "transactions-4.3.1.pcapng"):
        replay(CAPTURES / name, directory, EVERY, count=40, every_s=5)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), QUESTIONS)
def test_all_a_run_and_a_rotation_have_the_same_answers(
    spark: "SparkSession", live: Path, name: str, options: dict[str, Any]
) -> None:
    run = runs_in(live)[0]
    for source in (live, run, rotations_in(run)[1]):
        by_duckdb = analyse(name, source, **options).to_arrow()
        by_spark = analyse(name, source, session=spark, **options).to_arrow()
        assert rows_of(by_spark) == rows_of(by_duckdb)
