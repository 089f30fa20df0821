"""Matrices are turned around in memory that the next batch reuses; batches do not notice."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from kdissect import Options
from kdissect.pipeline import Run
from kdissect.tables import matrices
from kdissect.tables.matrices import LARGEST, Memory
from kdissect.tables.schemas import TABLES
from tests.seeds import SEED

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcapng"))


@pytest.mark.parametrize("rows", [0, 1, 511, 512, 513, 1500, 100_000])
def test_rows_are_turned_into_columns(rows: int) -> None:
    by_row = np.arange(rows * 3, dtype=np.int64).reshape(rows, 3)
    memory = Memory()
    for _ in range(3):
        assert (memory.turned(by_row) == by_row.T).all()


def test_the_next_matrix_has_the_same_memory_at_its_place() -> None:
    memory = Memory()
    source = Random(SEED)
    rows = [np.ones((source.randrange(100, 200), 3), np.int64) for _ in range(2)]
    where = [memory.turned(one, place).ctypes.data for place, one in enumerate(rows)]
    assert where[0] != where[1]
    for place, one in enumerate(rows):
        assert memory.turned(one[1:], place).ctypes.data == where[place]


def test_a_matrix_of_an_enormous_batch_is_not_kept() -> None:
    memory = Memory()
    memory.turned(np.ones((LARGEST // 2 + 1, 2), np.int64))
    assert not memory.kept


@pytest.mark.sweep
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_batches_of_all_tables_stay_as_they_were_made(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Random(f"{SEED} {capture.stem}")
    rows = source.choice((1, 7, 100, 1000))
    monkeypatch.setattr(matrices, "LARGEST", source.choice((0, 1000, LARGEST)))
    tables = tuple(source.sample(sorted(TABLES), source.randint(1, len(TABLES))))
    with Run(capture, Options(tables=tables, batch_rows=rows, payload="records" in tables)) as run:
        made = [(batch, copy_of(batch)) for _, batch in run]
    assert all(batch.equals(copy) for batch, copy in made), (tables, rows)


def copy_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, written and read again by Arrow."""
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(written.getvalue()).read_next_batch()
