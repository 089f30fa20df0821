"""Files of datasets that are links, FIFOs or others than they were: nothing outside is touched."""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from kdissect.errors import KdissectError
from kdissect.spark.pipeline import dissect
from kdissect.system.confined import Below
from tests.seeds import SEED
from tests.spark.hostile import NAMES, RUN, directory, each_way, everything, fifo, link, placed
from tests.spark.rotated import contents_of
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("little_memory")


@pytest.mark.slow
def test_a_sound_dataset_is_used_as_ever(sandbox: Sandbox) -> None:
    assert [*everything(sandbox)] == [""] * 12
    contents = contents_of(sandbox.inside)
    assert len(contents.taps[0].captures) == 3
    assert len(contents.broken) == 1


def own_file(sandbox: Sandbox) -> str:
    files = contents_of(sandbox.inside).taps[0].files
    return next(file.path for file in files if file.table == "exchanges")


def named(name: str, sandbox: Sandbox) -> str:
    """A path in the dataset, from the name of its kind."""
    file = own_file(sandbox)
    records = next(sandbox.inside.glob("runs/*.parquet"))
    return {
        "FILE": file,
        "DATE": str(Path(file).parent.parent),
        "STATE": contents_of(sandbox.inside).taps[0].state,
        "LOG": "exchanges/_delta_log/00000000000000000000.json",
        "RUN_LOG": "runs/_delta_log/00000000000000000001.json",
        "RECORDS": str(records.relative_to(sandbox.inside)),
    }.get(name, name)


@pytest.mark.slow
@pytest.mark.parametrize("to", [".", "canary.txt"])
@pytest.mark.parametrize(
    "name",
    [
        "_kdissect", "_kdissect/manifest.json", "_kdissect/lock", "_kdissect/states",
        "_kdissect/states/0", "_kdissect/rollups", "_kdissect/rollups/1", f"_kdissect/{RUN}",
        "runs", "runs/_delta_log", "RUN_LOG", "RECORDS", "exchanges", "exchanges/_delta_log", "LOG",
        "FILE", "DATE", "STATE",
    ],
)  # fmt: skip
def test_no_link_in_a_dataset_is_followed(name: str, to: str, sandbox: Sandbox) -> None:
    name = named(name, sandbox)
    link(sandbox.inside / name, sandbox.outside / to)
    said = [*each_way(sandbox)]
    assert any("symbolic link" in one for one in said), said
    assert (sandbox.inside / name).is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("change", [fifo, directory])
@pytest.mark.parametrize(
    "name",
    ["_kdissect/manifest.json", "_kdissect/lock", "LOG", "RUN_LOG", "RECORDS", "FILE", "STATE"],
)
def test_only_regular_files_are_opened(
    name: str, change: Callable[[Path, Path], None], sandbox: Sandbox
) -> None:
    name = named(name, sandbox)
    change(sandbox.inside / name, sandbox.outside)
    assert any(each_way(sandbox))


def test_a_rollup_that_is_a_link_is_made_anew(sandbox: Sandbox) -> None:
    rollup = sorted(sandbox.inside.glob("_kdissect/rollups/**/*.parquet"))[0]
    link(rollup, sandbox.outside / "rollups/1/client_id/canary.parquet")
    assert not any(each_way(sandbox))
    assert not rollup.is_symlink()


def other_parquet(path: Path, chance: random.Random) -> None:
    """Another Parquet file, or something similar, in the place of a file."""
    content = bytearray(path.read_bytes())
    what = chance.randrange(6)
    if what == 0:
        parquet.write_table(pa.table({"x": [1, 2]}), path)
    elif what == 1:
        rows = parquet.ParquetFile(path).read()
        at = chance.randrange(rows.num_columns)
        changed = pa.array(["x"] * rows.num_rows)
        parquet.write_table(rows.set_column(at, rows.schema.names[at], changed), path)
    elif what == 2:
        rows = parquet.ParquetFile(path).read()
        parquet.write_table(rows.drop_columns([chance.choice(rows.schema.names)]), path)
    elif what == 3:
        path.write_bytes(content[: chance.randrange(len(content))])
    elif what == 4:
        parquet.write_table(parquet.ParquetFile(path).read().slice(1), path)
    else:
        for _ in range(30):
            content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
        path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(9))
def test_a_parquet_file_that_is_another_is_one_error_at_most(number: int, sandbox: Sandbox) -> None:
    # The first gives a column a name that is no text.
    chance = random.Random(SEED + number if number else 2087893113)
    files = [sandbox.inside / one.path for one in contents_of(sandbox.inside).taps[0].files]
    other_parquet(chance.choice(files), chance)
    for rollup in sandbox.inside.glob("_kdissect/rollups/**/*.parquet"):
        other_parquet(rollup, chance)
    for _ in everything(sandbox):
        pass


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04r\xff\xff\xff\x1f.", b"cos\nsystem\n(Vx\ntR.", bytes(10_000)]
)
def test_a_state_that_is_none_fails_its_tap_alone(content: bytes, sandbox: Sandbox) -> None:
    state = sandbox.inside / contents_of(sandbox.inside).taps[0].state
    state.write_bytes(content)
    (failed,) = dissect(None, sandbox.captures, sandbox.inside).failed
    assert "no state of this version of kdissect" in failed.message
    sandbox.check()


def test_a_state_larger_than_memory_is_not_read(sandbox: Sandbox) -> None:
    state = sandbox.inside / contents_of(sandbox.inside).taps[0].state
    os.truncate(state, 1 << 40)  # none of it is on the disk
    (failed,) = dissect(None, sandbox.captures, sandbox.inside).failed
    assert "more than" in failed.message


def test_names_below_a_directory_stay_below(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.inside.mkdir()
    (sandbox.inside / "link").symlink_to(sandbox.outside)
    with Below(sandbox.inside) as below:
        for name in (*NAMES, "link/canary.txt", "link/states/0/000001.state", "link"):
            given = placed(name, sandbox)
            for act in (
                lambda one: below.remove(one),
                lambda one: below.write(one, b"x"),
                lambda one: below.make_directory(one),
                lambda one: below.remove_tree(one),
                lambda one: below.read(one, 10),
                lambda one: below.rename(one, f"{one}x"),
            ):
                with suppress(KdissectError, OSError):
                    act(given)
                sandbox.check()
