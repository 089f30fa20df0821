"""A corpus of mistakes: each ends with one message, which has the right word.

`mistakes.json` has command lines, exit codes and the last line on stderr, up to a list of known
names. `python -m tests.cli.test_mistakes` rewrites it; review the diff.
"""

import io
import json
import os
import re
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

import kdissect
from kdissect.cli.program import run

CORPUS = Path(__file__).with_name("mistakes.json")
CAPTURE = "captures/quickstart.pcapng"
MISTAKES = json.loads(CORPUS.read_text())
LIST = re.compile(r"(there are:?|it has) .*", re.DOTALL)


def told(words: list[str], places: dict[str, str]) -> tuple[int, str]:
    """Exit code and message of a command line."""
    real = [place_in(word, places) for word in words]
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    empty = mock.patch.object(sys, "stdin", io.StringIO())
    with redirect_stdout(out), redirect_stderr(err), empty:
        code = run(real)
    lines = err.getvalue().strip().splitlines() or [""]
    message = LIST.sub(r"\1 …", lines[-1])
    for name, path in places.items():
        message = message.replace(path, name)
    return code, message


def place_in(word: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        word = word.replace(name, path)
    return word


def made_places(directory: Path) -> dict[str, str]:
    """Tables, a capture and an empty directory."""
    (directory / "empty").mkdir()
    kdissect.write(CAPTURE, directory / "tables")
    return {
        "TABLES": str(directory / "tables"),
        "EMPTY": str(directory / "empty"),
        "CAPTURE": CAPTURE,
    }


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return made_places(tmp_path_factory.mktemp("mistakes"))


def test_there_are_sixty_mistakes_at_least() -> None:
    assert len({tuple(one["words"]) for one in MISTAKES}) >= 60
    assert all(one["message"] and one["code"] in (1, 2) for one in MISTAKES)


@pytest.mark.parametrize("one", MISTAKES, ids=lambda one: " ".join(one["words"]))
def test_a_mistake_gets_the_right_word(
    one: dict[str, object], places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = [str(word) for word in one["words"]]  # type: ignore[attr-defined]
    assert told(words, places) == (one["code"], one["message"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_capture_is_not_to_be_opened_to_everybody(tmp_path: Path) -> None:
    path = tmp_path / "secret.pcap"
    path.write_bytes(b"")
    path.chmod(0)
    code, message = told([str(path)], {})
    assert code == 1
    assert "permission denied" in message
    assert "a+r" not in message
    assert "o+r" not in message


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    with tempfile.TemporaryDirectory() as made:
        here = made_places(Path(made))
        for one in MISTAKES:
            one["code"], one["message"] = told(one["words"], here)
    CORPUS.write_text(json.dumps(MISTAKES, indent=1, ensure_ascii=False) + "\n")
