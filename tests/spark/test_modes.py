"""Files with raw bytes of messages, or with payload: for their owner only, at any umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdissect.dataset.incremental_tap import Followed
from kdissect.dataset.tasks import Task
from kdissect.spark.pipeline import dissect
from tests.spark.rotated import CAPTURES

CAPTURE = str(CAPTURES / "sasl-4.3.1.pcapng")
FILE, DIRECTORY = 0o600, 0o700


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_states_and_staging_of_a_dataset(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kdissect.spark import steps

    monkeypatch.setattr(steps, "FEW_ROW_BYTES", 0)
    publish = steps.publish
    seen: dict[str, int] = {}

    def watched(task: Task, place: Any) -> Any:
        run = Path(task.run_directory)
        assert mode_of(run) == DIRECTORY
        seen.update({path.suffix or path.name: mode_of(path) for path in run.rglob("*.*")})
        spools = run.glob("staging/*/*/exchanges")
        seen["spool"] = max(map(mode_of, spools))
        return publish(task, place)

    monkeypatch.setattr(steps, "publish", watched)
    dataset = tmp_path / "dataset"
    dissect(None, [CAPTURE], dataset, split_size=20_000)
    assert {seen[kind] for kind in (".boundary", ".corrections", ".state", "spool")} == {FILE}
    (state,) = dataset.glob("_kdissect/states/*/*.state")
    assert mode_of(state) == FILE
    assert mode_of(dataset / "_kdissect" / "states") == DIRECTORY
    logs = [*dataset.glob("*/_delta_log/*.json"), *dataset.glob("runs/*.parquet")]
    assert {mode_of(path) for path in logs} == {0o666 & ~umask}


@pytest.mark.parametrize("payload", [False, True])
def test_tables_of_a_dataset_with_payload(umask: int, payload: bool, tmp_path: Path) -> None:
    outcome = dissect(None, [CAPTURE], tmp_path / "dataset", split_size=20_000, payload=payload)
    files = [
        tmp_path / "dataset" / file.path for tap in outcome.contents.taps for file in tap.files
    ]
    assert files
    assert {mode_of(path) for path in files} == {FILE if payload else 0o666 & ~umask}


@pytest.mark.usefixtures("umask")
def test_states_of_a_stream(tmp_path: Path) -> None:
    from kdissect.spark.source_stream import write_state

    write_state(str(tmp_path / "states" / "a.state"), Followed(0, ("a.pcap",), b"raw bytes"))
    assert mode_of(tmp_path / "states") == DIRECTORY
    assert mode_of(tmp_path / "states" / "a.state") == FILE
