"""Rows from Spark = rows from the library, over mutated captures with clock steps."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdissect.spark.pipeline import dissect
from tests.checkpoint.law import link_type_of, read_packets
from tests.checkpoint.mutations import fresh_seed, in_files, mutated, said, with_steps
from tests.spark.everything import EVERY, SPLIT_SIZE, Everything
from tests.spark.rotated import ALL, CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRAWN = 8  # captures


@pytest.mark.slow
@pytest.mark.usefixtures("few_or_many_rows")
def test_mutated_captures_have_the_rows_of_the_library(
    spark: "SparkSession", tmp_path: Path
) -> None:
    seed, source = fresh_seed()
    with said(seed):
        everything = Everything(tmp_path / "rings", ())
        for number, name in enumerate(source.sample(EVERY, DRAWN)):
            capture = str(CAPTURES / name)
            packets = with_steps(mutated(read_packets(capture), source), source)
            place = tmp_path / "rings" / f"{number}-x"
            place.mkdir(parents=True)
            everything.paths[str(place)] = in_files(packets, place, link_type_of(capture), source)
        everything.sources = [path for paths in everything.paths.values() for path in paths]
        dataset = tmp_path / "dataset"
        outcome = dissect(spark, everything.sources, dataset, tables=ALL, split_size=SPLIT_SIZE)
        assert (outcome.failed, outcome.captures) == ((), len(everything.sources))
        assert everything.check(dataset) > 100
