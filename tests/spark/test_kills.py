from pathlib import Path

import pytest

from tests.seeds import SEED
from tests.spark.killing import ALL_AT_ONCE, DRIVER, JVM, WORKER, Place, run
from tools.spark_kills import NO_SPARK, Kills

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("java")
def test_a_stream_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    # More of these: python -m tools.spark_kills.
    place = Place(tmp_path, seed=1)
    place.more(len(place.coming) // 2)
    kills = [(place.chance.choice((DRIVER, JVM, ALL_AT_ONCE)), place.chance.uniform(0.2, 1.5))]
    kills.append((WORKER, place.chance.uniform(0.2, 1.5)))
    for kill, after in kills:
        ended = run(place, "local[2]", kill, after)
        assert (ended.kill, ended.code == 0) == (kill, kill == WORKER), ended.error
        place.more(len(place.coming))
    assert place.check() > 1000


def test_runs_without_spark_that_are_killed_while_captures_are_deleted_and_renamed(
    tmp_path: Path,
) -> None:
    kills = Kills(NO_SPARK, kills=6)
    assert all(kills.hold(tmp_path / str(number), SEED + number) for number in range(2))
    assert kills.killed > 0
