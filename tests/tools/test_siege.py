"""The siege detects the faults it is meant to detect, and the program survives a short one."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kdissect.cli.program import COMMANDS
from tools.siege import checks, commands, mutations, peers
from tools.siege.checks import is_formula
from tools.siege.escapes import Book
from tools.siege.inputs import draw_input
from tools.siege.mutations import Siege
from tools.siege.processes import MIB, ROOT

NEEDS_PIDFD = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are waited for by pidfd"
)
pytestmark = NEEDS_PIDFD
SECONDS = 5


def besieged(tmp_path: Path, program: str, part: str = "mutations") -> Book:
    """One input or round with a program that is this Python."""
    path = tmp_path / "program.py"
    path.write_text(program)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    siege = Siege(1, 7, tmp_path / "escapes", [sys.executable, "-I", "-S", str(path)], only=3)
    besiege = mutations.besiege if part == "mutations" else peers.besiege
    return besiege(siege, scratch)


def test_a_program_that_does_nothing_wrong_does_not_escape(tmp_path: Path) -> None:
    book = besieged(tmp_path, "")
    assert book.escapes == {}
    assert (book.counts["inputs"], book.counts["commands"]) == (1, mutations.COMMANDS_EACH)


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("raise ValueError('a')", "exception"),
        ("import os; os.abort()", "exit code"),
        ("print('a' + chr(27) + '[31mb')", "harmful text"),
        ("print('a' + chr(0x202e) + 'b')", "harmful text"),
        ("import sys; sys.stderr.buffer.write(b'a' + bytes([255]))", "no UTF-8"),
        ("print('a' * 10_000_000)", "output"),
        ("import os\nif os.fork() == 0:\n    import time\n    time.sleep(1000)", "left processes"),
    ],
)
def test_a_planted_escape_is_noticed_and_kept(
    program: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "COMMANDS_EACH", 1)
    monkeypatch.setattr(mutations, "ASKED_TO_END", 0)
    monkeypatch.setattr(checks, "OUTPUT_EACH", 0)
    book = besieged(tmp_path, program)
    assert kind in book.escapes
    kept = [json.loads(path.read_text()) for path in (tmp_path / "escapes").glob("*/escape.json")]
    assert kind in [one["kind"] for one in kept]
    given = draw_input(random.Random("7-3"))
    for path in (tmp_path / "escapes").iterdir():
        assert (path / "input").read_bytes() == given.data
    assert any(line.startswith("| escapes | ") and kind in line for line in book.summary())


def test_a_program_that_takes_too_much_memory_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MEMORY_BASE", 64 * MIB)
    monkeypatch.setattr(checks, "MEMORY_EACH", 0)
    monkeypatch.setattr(checks, "PAYLOAD_COPIES", 0)
    monkeypatch.setattr(mutations, "ASKED_TO_END", 0)
    # The peak of this process, which is larger, is not that of the program.
    assert besieged(tmp_path / "small", "").escapes == {}
    large = besieged(tmp_path / "large", f"b'x' * {128 * MIB}")
    assert set(large.escapes) == {"memory"}
    assert large.peak > 128 * MIB


@pytest.fixture(autouse=True)
def directories(tmp_path: Path) -> None:
    for name in ("small", "large"):
        (tmp_path / name).mkdir()


def test_a_program_that_takes_too_much_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "cpu_bound", lambda _: -5.0)
    monkeypatch.setattr(checks, "CPU_BASE_S", 0.0)
    monkeypatch.setattr(checks, "CPU_S_PER_MB", 0.0)
    monkeypatch.setattr(mutations, "COMMANDS_EACH", 1)
    monkeypatch.setattr(mutations, "ASKED_TO_END", 0)
    assert {"exit code", "CPU time"} <= set(besieged(tmp_path, "while True: pass").escapes)


def test_a_credential_and_a_readable_file_are_noticed(tmp_path: Path) -> None:
    given = draw_input(random.Random(1))._replace(secrets=frozenset({b"hunter2-the-password"}))
    line = commands.Line("dissect", ("dissect", "--payload"), "", "made")
    (tmp_path / "small" / "a.csv").write_bytes(b"x,hunter2-the-password\n")
    (tmp_path / "small" / "a.csv").chmod(0o644)
    ended = mutations.Ended(0, 0.1, 1, False, False, b"", b"")
    found = checks.violations(given, line, ended, tmp_path / "small", False)
    assert [one.kind for one in found] == ["secret", "readable"]


@pytest.mark.parametrize("cell", ["=1+1", " =1", "\u200b=1"[1:], "@x", "-cmd", "\uff1d1", "+1"])
def test_a_formula_is_one(cell: str) -> None:
    assert is_formula(cell)


@pytest.mark.parametrize("cell", ["", "-1", "-1.5", "-1.5e-05", "'=1", "a=1", "-1e+300"])
def test_a_number_is_no_formula(cell: str) -> None:
    assert not is_formula(cell)


def test_a_live_that_ends_with_a_traceback_is_noticed(tmp_path: Path) -> None:
    book = besieged(tmp_path, "raise ValueError('a')", "peers")
    assert set(book.escapes) == {"ended", "exception"}


def test_every_command_and_option_of_the_program_is_drawn_or_left_out_with_a_reason() -> None:
    assert set(commands.names()) == set(COMMANDS) - commands.ELSEWHERE
    source = random.Random(5)
    drawn = [commands.draw_line("a.pcap", "auto", source) for _ in range(6_000)]
    assert {line.command for line in drawn} == set(commands.names())
    seen = {word for line in drawn for word in line.words if word.startswith("--")}
    there = set()
    for name in commands.names():
        there |= {one for option in commands.options_of(name) for one in option.opts[-1:]}
    assert there - seen == set()
    known = {
        one
        for name in commands.names()
        for param in commands.command_of(name).params
        if isinstance(param, click.Option)
        for one in param.opts
    }
    assert set(commands.LEFT_OUT) - known <= {"--help"}


def test_an_input_depends_on_its_seed_alone() -> None:
    for number in range(30):
        assert draw_input(random.Random(number)) == draw_input(random.Random(number))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["mutations", "peers"])
def test_a_short_siege_has_no_escape(part: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.siege", part, "--minutes", f"{SECONDS / 60:.3f}"]
    done = subprocess.run(
        [*command, "--seed", "1", "--place", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| escapes | 0 |" in done.stdout
    what = "commands" if part == "mutations" else "storms"
    counted = re.search(rf"^\| {what} \| (\d+)", done.stdout, re.MULTILINE)
    assert counted
    assert int(counted[1]) >= 1
