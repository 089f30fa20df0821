"""Files that tasks leave for each other, changed before they are read: nothing in them runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdissect.spark.pipeline import dissect
from kdissect.spark.tasks import Task
from tests.spark.rotated import CAPTURES, manifest_of, rotate


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


EVIL = b"cos\nsystem\n(Vtouch executed\ntR."


@pytest.mark.parametrize(
    "content", [EVIL, b"", b"kdv1" + bytes(40)], ids=["pickle", "none", "header"]
)
@pytest.mark.parametrize("kind", ["names", "*.corrections", "*.seam", "*/exchanges"])
def test_a_swapped_file_of_the_staging_directory_runs_nothing(
    kind: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    from kdissect.spark import steps

    capture = str(CAPTURES / "sasl-4.3.1.pcapng")
    swapped = Swapped(kind, lambda path: path.write_bytes(content) and None)
    step = "stitch_tap" if kind == "*.seam" else "publish"
    swapped.function = getattr(steps, step)  # type: ignore[attr-defined]
    monkeypatch.setattr(steps, step, swapped)
    outcome = dissect(None, [capture], tmp_path / "dataset", piece_size=20_000)
    assert swapped.count
    if content or kind != "*/exchanges":
        (failed,) = outcome.failed
        assert failed.message
    assert not (tmp_path / "executed").exists()
    assert outcome.manifest.taps == [] or kind == "*/exchanges"


def test_a_swapped_seam_of_another_piece_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kdissect.spark import steps

    def exchanged(task: Task, place: Any) -> Any:
        seams = sorted(Path(task.run_directory).glob("staging/*/*.seam"))
        seams[0].write_bytes(seams[1].read_bytes())
        return stitch_tap(task, place)

    stitch_tap = steps.stitch_tap
    monkeypatch.setattr(steps, "stitch_tap", exchanged)
    capture = str(CAPTURES / "sasl-4.3.1.pcapng")
    (failed,) = dissect(None, [capture], tmp_path / "dataset", piece_size=20_000).failed
    assert "is of another one" in failed.message


def test_a_state_of_other_captures_is_refused(tmp_path: Path) -> None:
    """Its pieces say which files are read again."""
    from kdissect.seams.state import State

    paths = rotate("tls/tls13-4.3.1.pcapng", tmp_path / "ring", 2, seed=1)
    keys = CAPTURES / "tls/tls13-4.3.1.keys"
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset, tables=("exchanges",), keylog=str(keys))
    place = dataset / manifest_of(dataset).taps[0].state
    state = State.from_bytes(place.read_bytes())
    assert state.pieces
    other = tuple(piece._replace(path="/dev/zero") for piece in state.pieces)
    place.write_bytes(state._replace(pieces=other).to_bytes())
    (failed,) = dissect(None, paths, dataset, tables=("exchanges",), keylog=str(keys)).failed
    assert "other captures" in failed.message
