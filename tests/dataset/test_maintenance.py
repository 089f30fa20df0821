"""Files that no version needs are removed, and nothing else is."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kdissect.cli.program import run
from kdissect.dataset.maintenance import check, expire
from kdissect.errors import DatasetError, InvalidArgument, KdissectError
from kdissect.spark.pipeline import dissect
from tests.cli.test_json_documents import VALIDATOR
from tests.spark.rotated import contents_of, dataset_rows, library_rows, rotate

DAY_S = 86_400.0


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Three runs, of which two have replaced files, and a file of a run that was killed."""
    made = tmp_path / "dataset"
    for path in rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=3):
        dissect(None, [path], made)
    file = made / contents_of(made).taps[0].files[0].path
    file.with_name("r000004-0123456789ab-t0-000000.parquet").write_bytes(b"left")
    return made


def aged(dataset: Path, seconds: float) -> None:
    """As if all that is there had been written so long ago."""
    then = time.time() - seconds
    for path in dataset.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))
    for log in dataset.glob("*/_delta_log/*.json"):
        lines = log.read_text()
        now_ms, then_ms = str(int(time.time() * 1000))[:5], str(int(then * 1000))[:5]
        assert now_ms != then_ms
        log.write_text(
            lines.replace(f'"deletionTimestamp":{now_ms}', f'"deletionTimestamp":{then_ms}')
        )


def files_in(dataset: Path) -> set[str]:
    return {
        str(path.relative_to(dataset))
        for path in dataset.rglob("*.parquet")
        if path.relative_to(dataset).parts[0] not in ("runs", "_kdissect")
    }


def test_replaced_files_are_there_for_a_week_then_they_go(dataset: Path, tmp_path: Path) -> None:
    there, needed = files_in(dataset), {
        file.path for file in contents_of(dataset).taps[0].files
    }  # fmt: skip
    assert len(there) > len(needed) + 1
    assert expire(dataset) == (0, 0)
    aged(dataset, 300 * DAY_S)
    sizes = sum((dataset / name).stat().st_size for name in there - needed)
    assert expire(dataset, dry_run=True) == (len(there - needed), sizes)
    assert files_in(dataset) == there
    assert expire(dataset) == (len(there - needed), sizes)
    assert files_in(dataset) == needed
    paths = sorted(str(path) for path in (tmp_path / "ring").iterdir())
    assert dataset_rows(dataset) == library_rows(
        paths, tables=contents_of(dataset).options["tables"]
    )
    assert expire(dataset) == (0, 0)


def test_files_of_a_version_that_another_program_has_replaced_stay(dataset: Path) -> None:
    before = dataset_rows(dataset)
    DeltaTable(dataset / "exchanges").optimize.compact()
    aged(dataset, 300 * DAY_S)
    expire(dataset)
    assert dataset_rows(dataset) == before


def test_no_link_is_followed(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    canary = tmp_path / "outside" / "canary.parquet"
    canary.write_bytes(b"canary")
    (dataset / "exchanges" / "link").symlink_to(tmp_path / "outside")
    aged(dataset, 300 * DAY_S)
    os.utime(canary, (0, 0))
    with pytest.raises(DatasetError, match="symbolic link"):
        expire(dataset)
    assert canary.read_bytes() == b"canary"


def test_an_hour_is_the_least_and_there_must_be_a_dataset(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="an hour at least"):
        expire(dataset, 3599)
    with pytest.raises(KdissectError, match="is no dataset"):
        expire(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_sound_dataset_has_nothing_wrong(dataset: Path) -> None:
    found = check(dataset)
    contents = contents_of(dataset)
    assert (found.files, found.wrong) == (len(contents.taps[0].files), ())
    assert found.rows == sum(contents.taps[0].rows.values())


def test_files_that_are_gone_or_others_are_found(dataset: Path) -> None:
    (tap,) = contents_of(dataset).taps
    gone, cut, other, *_ = (dataset / file.path for file in tap.files)
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    size = other.stat().st_size
    other.write_bytes(bytes(size))
    (dataset / tap.state).unlink()
    wrong = check(dataset).wrong
    assert [text.partition(": ")[0] for text in wrong] == [
        str(one) for one in (gone, cut, other, dataset / tap.state)
    ]
    assert [word in text for word, text in zip(
        ("no such file", "bytes in place of", "was not written by kdissect", "no such file"), wrong,
        strict=True,
    )] == [True] * 4  # fmt: skip


def test_the_commands(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dataset", "check", str(dataset)]) == 0
    assert re.fullmatch(r"\d+ files of [\d.]+ kB, \d+ rows, 0 wrong\n", capsys.readouterr().out)
    aged(dataset, 300 * DAY_S)
    there = files_in(dataset)
    assert run(["dataset", "expire", str(dataset), "--dry-run"]) == 0
    assert re.fullmatch(r"\d+ files of [\d.]+ kB would be removed\n", capsys.readouterr().out)
    assert files_in(dataset) == there
    for words in (["check"], ["expire", "--older-than", "30d"]):
        assert run(["dataset", words[0], str(dataset), *words[1:], "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        VALIDATOR.validate(document)
        assert document["command"] == f"dataset {words[0]}"
    assert files_in(dataset) < there
    next(dataset.glob("exchanges/date=*/tap=*/*.parquet")).unlink()
    assert run(["dataset", "check", str(dataset)]) == 1
    assert "no such file" in capsys.readouterr().out
    assert run(["dataset", "expire", str(dataset), "--older-than", "1s"]) == 2
    assert "an hour at least" in capsys.readouterr().err
