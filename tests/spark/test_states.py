"""A tap continues after the dataset's last capture from its state alone, without the captures."""

import re
from pathlib import Path

import pytest

from kdissect.checkpoint.checkpoint import Checkpoint
from kdissect.spark.pipeline import dissect
from tests.spark.rotated import ALL, CAPTURES, contents_of, dataset_rows, library_rows, rotate

RESUMED = "tls/tls-resumed-4.3.1.pcapng"
KEYS = CAPTURES / "tls/tls-resumed-4.3.1.keys"


def test_a_run_takes_one_state_and_leaves_one(tmp_path: Path) -> None:
    paths = rotate("cluster-3.9.1.pcapng", tmp_path / "ring", 3, seed=5)
    dataset = tmp_path / "dataset"
    for number, path in enumerate(paths, 1):
        dissect(None, [path], dataset, split_size=60_000)
        state = contents_of(dataset).taps[0].state
        own = [file for file in dataset.glob("_kdissect/**/*") if file.is_file()]
        assert sorted(file.relative_to(dataset).as_posix() for file in own) == [
            "_kdissect/lock", state,
        ]  # fmt: skip
        assert re.fullmatch(rf"_kdissect/states/0/{number:06}-[0-9a-f]{{12}}\.state", state)
        Path(path).unlink()


@pytest.mark.parametrize("capture", ["tls/tls12-4.3.1.pcapng", "old/kafka-0.7.pcapng"])
def test_tls_without_keys_and_kafka_07_go_on_without_their_captures(
    capture: str, tmp_path: Path
) -> None:
    paths = rotate(capture, tmp_path / "ring", 4, seed=4)
    expected = library_rows(paths)
    dataset = tmp_path / "dataset"
    for path in paths:
        assert dissect(None, [path], dataset, tables=ALL).failed == ()
        Path(path).unlink()
    assert dataset_rows(dataset) == expected


def test_tls_with_keys_goes_on_while_its_captures_are_there_and_else_begins_anew(
    tmp_path: Path,
) -> None:
    paths = rotate(RESUMED, tmp_path / "ring", 3, seed=4)
    dataset = tmp_path / "dataset"
    for path in paths[:2]:
        assert dissect(None, [path], dataset, tables=ALL, keylog=KEYS).failed == ()
    first = library_rows(paths[:2], keylog=KEYS)
    assert dataset_rows(dataset) == first
    state = Checkpoint.from_bytes((dataset / contents_of(dataset).taps[0].state).read_bytes())
    assert {split.path for split in state.splits} <= set(paths[:2])
    Path(state.splits[0].path).unlink()
    assert dissect(None, [paths[2]], dataset, tables=ALL, keylog=KEYS).failed == ()
    rows = dataset_rows(dataset)
    (told,) = (row for row in rows["problems"] if "tap-begun-anew" in row)
    assert f"tap ring: {state.splits[0].path}: no such file" in told
    # Rows from before it stay, also of what was open then.
    kept = {table: set(found) - set(rows.get(table, [])) for table, found in first.items()}
    assert kept == {table: set() for table in first}
    (tap,) = contents_of(dataset).taps
    assert tap.balance["packets"] == sum(one.packets for one in tap.captures)
    assert tap.balance["exchanges"] == tap.rows["exchanges"]
