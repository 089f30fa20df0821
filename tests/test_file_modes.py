"""Files with payload or packets are for their owner only, and follow nothing that lay there."""

import os
import re
import stat
from pathlib import Path

import pytest

from kdissect import write, write_slice
from kdissect.cli.program import run
from kdissect.system.confined import replacing

CAPTURE = str(Path(__file__).parents[1] / "captures" / "quickstart.pcapng")
OWNER_ONLY = 0o600
BY_UMASK = 0o644


@pytest.fixture(autouse=True)
def usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_table_with_payload_is_for_its_owner_only(tmp_path: Path, suffix: str) -> None:
    for words, mode in ((["--payload"], OWNER_ONLY), ([], BY_UMASK)):
        path = tmp_path / f"{mode}.{suffix}"
        assert run(["table", "records", CAPTURE, "-o", str(path), "--limit", "3", *words]) == 0
        assert mode_of(path) == mode


def test_tables_with_payload_are_for_their_owner_only(tmp_path: Path) -> None:
    for payload, mode in ((True, OWNER_ONLY), (False, BY_UMASK)):
        tables = ["exchanges", "records"]
        written, _ = write(CAPTURE, tmp_path / str(mode), tables, payload=payload)
        assert {mode_of(path) for path, _ in written.values()} == {mode}


def test_slice_is_readable_by_its_owner_only_and_reports_its_contents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_command, by_function = tmp_path / "one.pcapng", tmp_path / "two.pcapng"
    assert run(["slice", CAPTURE, "--where", "error_code <> 0", "-o", str(by_command)]) == 0
    assert re.search(r"\nlogins and payload are in the packets .*\n$", capsys.readouterr().err)
    write_slice(CAPTURE, by_function, "error_code <> 0")
    assert (mode_of(by_command), mode_of(by_function)) == (OWNER_ONLY, OWNER_ONLY)


def test_names_that_lie_in_a_shared_directory_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    shared = tmp_path / "shared"
    shared.mkdir()
    target = shared / "rows.csv"
    for name in (".rows.csv.partial", f".rows.csv.{os.getpid()}.tmp", "rows.csv"):
        (shared / name).symlink_to(kept)
    words = ["table", "errors", CAPTURE, "-o", str(target), "--force"]
    assert run(words) == 0
    assert kept.read_text() == "as it was"
    assert target.is_file()
    assert not target.is_symlink()


def test_a_failure_leaves_neither_the_file_nor_its_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "rows"

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
