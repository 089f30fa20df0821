"""Analyses of a dataset in a store: the results are those of one on this machine."""

from pathlib import Path

import pytest

from kdissect import analyse, findings
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.spark.pipeline import dissect
from kdissect.spark.rollups import roll_up
from tests.spark.datasets import CAPTURES
from tests.spark.stores import make_bucket

NAMES = ("retries-4.3.1", "incident-lagging-follower-4.3.1")


@pytest.fixture(scope="module")
def both(server: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The URI of a dataset in a store, and the path of one of the same captures."""
    here = tmp_path_factory.mktemp("stored") / "dataset"
    captures = [CAPTURES / f"{name}.pcapng" for name in NAMES]
    there = make_bucket("answers", server).uri("kafka")
    for dataset in (there, here):
        dissect(None, captures, dataset)
    return there, here


@pytest.mark.sweep
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_have_the_same_rows(name: str, both: tuple[str, Path]) -> None:
    found, expected = (analyse(name, one).to_arrow() for one in both)
    assert found.equals(expected, check_metadata=True)


def test_taps_and_days_are_chosen(both: tuple[str, Path]) -> None:
    where = "tap like 'retries%' and date > '2000'"
    found, expected = (
        analyse("latency", one, by=["tap", "date", "api"], where=where).to_arrow() for one in both
    )
    assert found.num_rows > 3
    assert found.equals(expected)


def test_findings_are_the_same(both: tuple[str, Path]) -> None:
    found, expected = (findings(one) for one in both)
    assert [one.text for one in found] == [one.text for one in expected] != []


def test_rollups_are_made_and_read_there(both: tuple[str, Path]) -> None:
    there, here = both
    told: list[str] = []
    expected = analyse("latency", here, rollups=True, by=["topic"]).to_arrow()
    before = analyse("latency", there, rollups=True, by=["topic"], notice=told.append).to_arrow()
    done = roll_up(there)
    after = analyse("latency", there, rollups=True, by=["topic"], notice=told.append).to_arrow()
    assert before.equals(expected)
    assert after.equals(expected)
    assert (done.made, done.removed, len(told)) == (done.files, 0, 1)
    assert "?" not in told[0]  # credentials of the store are not written anywhere
