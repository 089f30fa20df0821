"""Tables with times in microseconds: the same rows, for engines without nanoseconds."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.errors import InvalidArgument

CAPTURES = sorted(Path("captures").absolute().glob("*.pcap*"))
TABLES = ("connections", "exchanges", "partitions", "batches", "errors", "members", "problems")


def written(capture: Path, directory: Path) -> dict[str, Path]:
    """The tables of a capture, by the unit of their times."""
    made = {unit: directory / unit for unit in ("ns", "us")}
    for unit, place in made.items():
        kdissect.write(capture, place, timestamps=unit)
    return made


@pytest.mark.sweep(2)
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_every_column_has_its_values_and_times_both_units(capture: Path, tmp_path: Path) -> None:
    made = written(capture, tmp_path)
    for table in TABLES:
        nanoseconds, both = (parquet.read_table(made[u] / f"{table}.parquet") for u in ("ns", "us"))
        times = [one.name for one in nanoseconds.schema if pa.types.is_timestamp(one.type)]
        assert both.column_names == [*nanoseconds.column_names, *(f"{one}_ns" for one in times)]
        for name in nanoseconds.column_names:
            expected = nanoseconds[name].to_pylist()
            if name not in times:
                assert both[name].to_pylist() == expected, (table, name)
                continue
            exact = nanoseconds[name].cast(pa.int64()).to_pylist()
            assert both[f"{name}_ns"].to_pylist() == exact, (table, name)
            assert both[name].type == pa.timestamp("us", "UTC")
            rounded = [None if one is None else (one + 500) // 1000 for one in exact]
            assert both[name].cast(pa.int64()).to_pylist() == rounded, (table, name)


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_questions_have_the_same_answers(capture: Path, tmp_path: Path) -> None:
    made = written(capture, tmp_path)
    for question in QUESTIONS:
        own, other = (kdissect.analyse(question, made[unit]).to_arrow() for unit in ("ns", "us"))
        assert own == other, question


def test_other_units_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"no timestamps in 'ms'; there are: ns, us"):
        kdissect.write(CAPTURES[0], tmp_path / "tables", timestamps="ms")
    assert not (tmp_path / "tables").exists()
