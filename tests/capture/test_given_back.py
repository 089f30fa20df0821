"""Batches that are given back: the next one overwrites their packets, and no row changes."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.capture_file import CHUNK_SIZE
from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.dissection.options import Options
from kdissect.pipeline import Run
from kdissect.tables.schemas import TABLES
from tests.capture.writers import Given, given
from tests.seeds import SEED
from tools.golden import captures

LARGEST = 300_000  # bytes of a capture that is cut into hundreds of batches
SMALL = [path for path in captures() if path.stat().st_size < LARGEST]


def damaged(path: Path, source: Path, draw: random.Random) -> Path:
    """A copy with some bytes replaced behind the first packets, half of the times."""
    content = bytearray(source.read_bytes())
    for _ in range(draw.choice((0, 5))):
        content[draw.randrange(len(content) // 4, len(content))] = draw.randrange(256)
    path.write_bytes(content)
    return path


@pytest.mark.sweep
@pytest.mark.parametrize("name", [path.name for path in SMALL])
def test_packets_that_overwrite_those_of_a_batch_given_back_are_the_same(
    tmp_path: Path, name: str
) -> None:
    draw = random.Random(f"{SEED} {name}")
    source = next(path for path in SMALL if path.name == name)
    path = damaged(tmp_path / name, source, draw)
    size = draw.choice((300, 1500, 1 << 13, 1 << 15))
    found: list[Given] = []
    first: Packet | None = None
    reused = 0
    with open_captures(path, chunk_size=size) as capture:
        for batch in capture:
            reused += batch[0] is first
            first = batch[0]
            found += given(batch)
            capture.give_back(batch)
        problems = capture.take_problems()
    with open_captures(path, chunk_size=size) as capture:
        assert found == given([packet for batch in capture for packet in batch]), SEED
        assert problems == capture.take_problems(), SEED
    batches = len(found) and path.stat().st_size // max(size, 1 << 13)
    assert reused > 0 or batches < 8, "nothing was overwritten"


def tables_of(path: Path, chunk_size: int) -> dict[str, pa.Table]:
    """All tables of a capture that is read in pieces of a size."""
    with Run(path, Options(tables=tuple(TABLES))) as run:
        run.capture.close()
        run.capture = open_captures(path, chunk_size)
        found: dict[str, list[pa.RecordBatch]] = {}
        for table, batch in run:
            found.setdefault(table, []).append(batch)
    return {
        table: pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
        for table, batches in found.items()
    }


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", [path.name for path in SMALL])
def test_rows_do_not_depend_on_the_pieces_that_a_capture_is_read_in(
    tmp_path: Path, name: str
) -> None:
    draw = random.Random(f"{SEED} {name}")
    source = next(path for path in SMALL if path.name == name)
    path = damaged(tmp_path / name, source, draw)
    size = draw.choice((300, 1500, 1 << 13))
    whole, pieces = tables_of(path, CHUNK_SIZE), tables_of(path, size)
    assert whole.keys() == pieces.keys()
    for table in whole:
        one, other = whole[table].to_pylist(), pieces[table].to_pylist()
        if table == "problems":  # their order shows when they were drained
            one, other = sorted(one, key=repr), sorted(other, key=repr)
        assert one == other, (table, SEED)
