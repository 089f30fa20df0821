"""Directories of any name on Spark: the named files are read, not matches of it as a pattern."""

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kdissect
from kdissect import analyse
from kdissect.dataset.store_options import UNFIT
from kdissect.errors import DatasetError
from kdissect.spark.dataset_tables import pattern_of, read_table
from kdissect.spark.pipeline import dissect
from kdissect.spark.rollups import roll_up
from tests.cli.test_names import CAPTURE, OTHER, decoys, names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 8
CHOSEN = ["a[1]", "b*", "{d,e}", "tap=zzz", "a[\\]", "100%25", "a b"]
CHOSEN += random.Random(SEED).sample(names(), 5)


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two captures, each as tables and as a dataset with rollups."""
    place = tmp_path_factory.mktemp("forms")
    made = {}
    for word, capture in (("own", CAPTURE), ("other", OTHER)):
        made[word] = place / word
        kdissect.write(capture, place / word / "tables")
        shutil.copy(capture, place / word / "ring.pcapng")
        dissect(None, [place / word / "ring.pcapng"], place / word / "dataset")
        roll_up(place / word / "dataset")
    return made


def test_characters_of_patterns_are_escaped() -> None:
    assert pattern_of("/a[1]/b*{c,d}?\\") == "file:/a\\[1\\]/b\\*\\{c,d\\}\\?\\\\"
    assert pattern_of("/plain/a b=1%20") == "file:/plain/a b=1%20"


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", CHOSEN, ids=repr)
def test_spark_answers_of_the_directory_that_is_named(
    name: str, forms: dict[str, Path], spark: "SparkSession", tmp_path: Path
) -> None:
    for decoy in decoys(name):
        shutil.copytree(forms["other"], tmp_path / decoy)
    shutil.copytree(forms["own"], tmp_path / name)
    place = tmp_path / name
    plain = analyse("errors", forms["own"] / "tables").to_arrow().to_pylist()
    assert plain
    assert analyse("errors", place / "tables", session=spark).to_arrow().to_pylist() == plain
    if UNFIT.search(str(place)):
        for use in (
            lambda: analyse("errors", place / "dataset", session=spark),
            lambda: dissect(None, [CAPTURE], place / "new"),
        ):
            with pytest.raises(DatasetError, match=r"(?s)Delta tables cannot be in .*: rename it$"):
                use()
        assert not (place / "new").exists()
        return
    assert analyse("errors", place / "dataset", session=spark).to_arrow().to_pylist() == plain
    rows = read_table(spark, place / "dataset", "errors").select("tap", "name").collect()
    assert {row["tap"] for row in rows} == {"ring"}
    assert len(rows) == len(read_table(spark, forms["own"] / "dataset", "errors").collect())


@pytest.mark.slow
@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", ["a[1]", "tap=zzz", "{b,c}*"], ids=repr)
def test_rollups_and_captures_are_those_that_are_named(
    name: str, forms: dict[str, Path], spark: "SparkSession", tmp_path: Path
) -> None:
    from kdissect.spark.source import KdissectDataSource

    spark.dataSource.register(KdissectDataSource)
    shutil.copytree(forms["own"], tmp_path / name)
    rolled = []
    for place in (forms["own"], tmp_path / name):
        found = analyse("latency", place / "dataset", rollups=True, session=spark)
        rolled.append(found.to_arrow().to_pylist())
        source = spark.read.format("kdissect").load(str(place / "ring.pcapng"))
        rolled.append(source.count())
    assert rolled[:2] == rolled[2:]
    made = dissect(spark, [tmp_path / name / "ring.pcapng"], tmp_path / f"new {name}")
    assert [tap.name for tap in made.contents.taps] == ["ring"]
