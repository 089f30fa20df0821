"""A topic whose name was not captured is known by its id: nothing else changes in any answer.

Answers about tables in which a topic's name is its id are those about tables without the name.
"""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from tests.report.test_numbers import CAPTURES

NAMED = ("batches", "errors", "partitions")


def renamed(tables: Path, target: Path, *, has_names: bool) -> Path:
    """The tables with an id for each topic, and that as its name or none."""
    target.mkdir()
    for path in tables.iterdir():
        rows = parquet.read_table(path) if path.suffix == ".parquet" else None
        if rows is None or path.stem not in NAMED:
            (target / path.name).write_bytes(path.read_bytes())
            continue
        names, ids = rows["topic"].to_pylist(), rows["topic_id"].to_pylist()
        known = [f"id of {name}" if name else id_ for name, id_ in zip(names, ids, strict=True)]
        for column, values in (("topic_id", known), ("topic", known if has_names else None)):
            place = rows.column_names.index(column)
            texts = pa.array(values or [None] * len(known), pa.string())
            rows = rows.set_column(place, column, texts)
        parquet.write_table(rows, target / path.name)
    return target


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_answers_about_topics_without_names_have_their_ids(path: Path, tmp_path: Path) -> None:
    kdissect.write(path, tmp_path / "tables")
    with_names = renamed(tmp_path / "tables", tmp_path / "named", has_names=True)
    without = renamed(tmp_path / "tables", tmp_path / "unnamed", has_names=False)
    for question in QUESTIONS:
        expected = kdissect.analyse(question, with_names).to_arrow()
        assert kdissect.analyse(question, without).to_arrow().equals(expected), question
