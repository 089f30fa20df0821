"""Commands whose stdout is closed, full, or has an encoding that lacks characters of the pages."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import SEED

# Encodings of terminals in use; each lacks some characters of the pages.
ENCODINGS = ("latin-1", "cp1252", "cp437", "iso8859-15", "koi8-r", "cp932", "gbk")
# Pages that are text, and of characters with a substitute; tables are UTF-8 in every locale.
PAGES = ((), ("show", "--limit", "3"), ("protocol", "Fetch", "12"))
FULL = Path("/dev/full")


def words_of(page: tuple[str, ...], capture: str) -> list[str]:
    return [sys.executable, "-m", "kdissect", *page, *([] if "protocol" in page else [capture])]


def shell(line: str, words: list[str], **variables: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the words with bash, with the redirections of `line`."""
    return subprocess.run(
        ["bash", "-c", f'"$@" {line}', "bash", *words],
        capture_output=True, check=False, env={**os.environ, **variables},
    )  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_page_is_written_in_any_encoding_with_all_its_ascii_at_its_place(
    encoding: str, quickstart: str
) -> None:
    page = random.Random(f"{SEED} {encoding}").choice(PAGES)
    words = words_of(page, quickstart)
    expected = shell("", words, PYTHONIOENCODING="utf-8").stdout.decode()
    done = shell("", words, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    assert len(expected) > 100
    assert len(text) == len(expected)
    assert [a for a, b in zip(text, expected, strict=True) if a != b and b.isascii()] == []


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_the_null_device(closed: str, quickstart: str) -> None:
    done = shell(closed, words_of((), quickstart))
    assert (done.returncode, done.stderr) == (0, b"")


def test_output_without_stdout_does_not_reach_the_next_opened_file(
    quickstart: str, tmp_path: Path
) -> None:
    path = tmp_path / "tables"
    words = [*words_of(("live",), quickstart), "-o", str(path)]
    assert shell("<&- >&- 2>&-", words).returncode == 0
    files = [each for each in path.rglob("*.parquet") if each.is_file()]
    assert files
    assert {each.read_bytes()[:4] + each.read_bytes()[-4:] for each in files} == {b"PAR1PAR1"}


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full is Linux's")
@pytest.mark.parametrize("page", [(), ("table", "exchanges"), ("--help",), ("show",)])
def test_a_full_disk_behind_stdout_is_an_error_in_one_line(
    page: tuple[str, ...], quickstart: str
) -> None:
    # Python's own stdout has a buffer, which is written again when the interpreter ends.
    done = shell(f"> {FULL}", words_of(page, quickstart), PYTHONUNBUFFERED="")
    assert done.returncode == 1
    assert done.stderr == b"kdissect: No space left on device\n"
