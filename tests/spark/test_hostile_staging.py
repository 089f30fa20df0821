"""Files that tasks leave for each other, changed before they are read: nothing in them runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdissect.dataset.storage_tasks import inside
from kdissect.dataset.tasks import Task
from kdissect.errors import DatasetError
from kdissect.spark.pipeline import dissect
from kdissect.spark.source_stream import check_offset
from tests.spark.hostile import NAMES, places_in
from tests.spark.rotated import CAPTURES, contents_of, rotate


class Swapped:
    """Changes a file of the staging directory between two tasks of a run."""

    def __init__(self, kind: str, change: Callable[[Path], None]) -> None:
        self.kind = kind
        self.change = change
        self.count = 0

    def __call__(self, task: Task, place: Any) -> Any:
        for path in sorted(Path(task.run_directory).glob(f"staging/*/{self.kind}")):
            self.change(path)
            self.count += 1
        return self.function(task, place)


pytestmark = pytest.mark.usefixtures("little_memory")

EVIL = b"cos\nsystem\n(Vtouch executed\ntR."


@pytest.mark.parametrize(
    "content", [EVIL, b"", b"kdv1" + bytes(40)], ids=["pickle", "none", "header"]
)
@pytest.mark.parametrize("kind", ["names", "*.corrections", "*.boundary", "*/exchanges"])
def test_a_swapped_file_of_the_staging_directory_runs_nothing(
    kind: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    from kdissect.spark import steps

    capture = str(CAPTURES / "sasl-4.3.1.pcapng")
    swapped = Swapped(kind, lambda path: path.write_bytes(content) and None)
    monkeypatch.setattr(steps, "FEW_ROW_BYTES", 0)
    step = "settle_tap" if kind == "*.boundary" else "publish"
    swapped.function = getattr(steps, step)  # type: ignore[attr-defined]
    monkeypatch.setattr(steps, step, swapped)
    outcome = dissect(None, [capture], tmp_path / "dataset", split_size=20_000)
    assert swapped.count
    if content or kind != "*/exchanges":
        (failed,) = outcome.failed
        assert failed.message
    assert not (tmp_path / "executed").exists()
    assert outcome.contents.taps == [] or kind == "*/exchanges"


def test_a_swapped_boundary_state_of_another_split_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kdissect.spark import steps

    def exchanged(task: Task, place: Any) -> Any:
        boundaries = sorted(Path(task.run_directory).glob("staging/*/*.boundary"))
        boundaries[0].write_bytes(boundaries[1].read_bytes())
        return settle_tap(task, place)

    settle_tap = steps.settle_tap
    monkeypatch.setattr(steps, "settle_tap", exchanged)
    capture = str(CAPTURES / "sasl-4.3.1.pcapng")
    (failed,) = dissect(None, [capture], tmp_path / "dataset", split_size=20_000).failed
    assert "is of another one" in failed.message


def test_a_state_of_other_captures_is_refused(tmp_path: Path) -> None:
    """Its splits determine the files to be read again."""
    from kdissect.checkpoint.checkpoint import Checkpoint

    paths = rotate("tls/tls13-4.3.1.pcapng", tmp_path / "ring", 2, seed=1)
    keys = CAPTURES / "tls/tls13-4.3.1.keys"
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset, tables=("exchanges",), keylog=str(keys))
    place = dataset / contents_of(dataset).taps[0].state
    state = Checkpoint.from_bytes(place.read_bytes())
    assert state.splits
    other = tuple(split._replace(path="/dev/zero") for split in state.splits)
    place.write_bytes(state._replace(splits=other).to_bytes())
    (failed,) = dissect(None, paths, dataset, tables=("exchanges",), keylog=str(keys)).failed
    assert "other captures" in failed.message


OFFSET = {
    "batch": 2,
    "broken": [["/a.pcap", 1, 2]],
    "taps": {"/r*": {"name": "r", "batch": 2, "captures": 1, "last_ns": 5, "files": ["/r1"]}},
}


def test_an_offset_of_a_checkpoint_has_all_its_values() -> None:
    check_offset(OFFSET)
    count = 0
    for container, key in places_in(json.loads(json.dumps(OFFSET))):
        before = container[key]
        for value in (None, [], {}, "x", -1, 1 << 64, 0.5, True, [[]], {"": None}):
            # Another text, an empty list or object, and another number are values too.
            if type(value) is type(before) and value in ("x", [], {}):
                continue
            if key == "last_ns" and value == -1:
                continue
            container[key] = value
            made = container if "taps" in container else None
            if made is not None:
                with pytest.raises(DatasetError):
                    check_offset(made)
                count += 1
            container[key] = before
    assert count > 20


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_in_a_store_is_one_in_the_directory_of_a_task(name: str, tmp_path: Path) -> None:
    staged = "s3://bucket/kafka/_kdissect/run-1/staging/0/0"
    with pytest.raises(DatasetError):
        inside(staged, f"s3://other/{name}")
    try:
        given = inside(staged, f"{staged}/{name}")
    except DatasetError:
        return
    assert (tmp_path / given).resolve().is_relative_to(tmp_path)
    assert given.isprintable()
    assert not {*given} & {*"*?[ :\\"}
