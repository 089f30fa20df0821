"""The page and tables on terminals of several widths, in pipes, with colours and without."""

import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest
from rich.cells import cell_len

CAPTURE = "captures/quickstart.pcapng"
COLORS = re.compile(r"\x1b\[[0-9;]*m")
INDENT = " " * 9


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kdissect", *words]


def piped(*words: str, **environment: str) -> str:
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    done = subprocess.run(
        command(*words), capture_output=True, text=True, check=False, env=known | environment
    )
    return done.stdout


def on_terminal(columns: int, lines: int, *words: str, **environment: str) -> str:
    """Output for a terminal of this size."""
    own, other = pty.openpty()
    ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    known |= {"TERM": "xterm-256color", "PAGER": "cat"} | environment
    shown = command(*words, "--no-progress")
    with subprocess.Popen(shown, stdout=other, stderr=subprocess.DEVNULL, env=known) as process:
        os.close(other)
        found = b""
        while True:
            try:
                part = os.read(own, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            found += part
        process.wait()
    os.close(own)
    return found.decode().replace("\r\n", "\n")


def commands(page: str) -> list[str]:
    return [line.strip() for line in page.splitlines() if line.startswith(f"{INDENT}kdissect ")]


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_the_page_fits_the_width_and_its_commands_can_be_pasted(columns: int) -> None:
    page = COLORS.sub("", on_terminal(columns, 60, CAPTURE))
    lines = page.splitlines()
    assert all(
        cell_len(line) <= columns or line.startswith((INDENT, "kdissect ")) for line in lines
    )
    assert len(lines) < 60
    assert f"{INDENT}kdissect slowest {CAPTURE} --of work --number 300" in lines
    pointing = [line.rpartition(": ")[2] for line in lines]
    assert {f"kdissect {CAPTURE} --full", f"kdissect {CAPTURE} --findings all --full"} < {*pointing}
    assert commands(page) == commands(piped(CAPTURE))[: len(commands(page))]


def test_a_pipe_has_sentences_on_one_line_and_plain_digits_and_no_colours() -> None:
    page = piped(CAPTURE)
    assert "\x1b" not in page
    assert "\N{NARROW NO-BREAK SPACE}" not in page
    assert "1318 packets" in page
    found = json.loads(piped(CAPTURE, "--json"))["findings"]
    texts = [one["text"] for one in found]
    told = [line for line in page.splitlines() if line[:9].strip() in ("problem", "warning")]
    assert told
    assert all(line[9:] in texts for line in told)
    assert all(cell_len(line) <= 70 for line in piped(CAPTURE, COLUMNS="70").splitlines()[:6])
    # As readline exports them to child processes, for any size.
    assert piped(CAPTURE, COLUMNS="80", LINES="24") == page


@pytest.mark.slow
def test_colours_are_those_that_were_asked_for() -> None:
    assert "\x1b[31m\x1b[1mproblem" in on_terminal(80, 60, CAPTURE)
    assert "\x1b" not in on_terminal(80, 60, CAPTURE, NO_COLOR="1")
    assert "\x1b" not in on_terminal(80, 60, CAPTURE, "--color", "never")
    assert "\x1b[31m" in piped(CAPTURE, "--color", "always")
    assert "\x1b[31m" in piped("errors", CAPTURE, "--format", "table", "--color", "always")


def test_the_command_of_a_finding_repeats_files_and_options(tmp_path: Path) -> None:
    capture = tmp_path / "it's a capture.pcapng"
    capture.write_bytes(Path(CAPTURE).read_bytes())
    asked = (str(capture), "--port", "9192", "--max", "connections=500")
    told = [one["command"] for one in json.loads(piped(*asked, "--json"))["findings"]]
    assert all(set(shlex.split(one)) >= {"kdissect", *asked} for one in told if one)
    assert set(commands(piped(*asked))) <= set(told)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120, 200])
def test_advice_is_wrapped_on_a_terminal_and_whole_in_a_pipe(columns: int) -> None:
    advice = [json.loads(line)["advice"] for line in piped("errors", CAPTURE).splitlines()]
    table = on_terminal(columns, 60, "errors", CAPTURE, NO_COLOR="1")
    assert all(cell_len(line) <= columns for line in table.splitlines())
    joined = " ".join(table.split())
    whole = piped("errors", CAPTURE, "--format", "table")
    for text in advice:
        assert text in joined
        assert text in whole


def test_long_output_is_shown_in_the_pager(tmp_path: Path) -> None:
    pager = f"{sys.executable} -c 'import sys; print(len(sys.stdin.readlines()), \"lines\")'"
    assert re.fullmatch(r"\d+ lines\n", on_terminal(80, 10, CAPTURE, PAGER=pager))
    assert "lines" not in on_terminal(80, 10, CAPTURE, "--no-pager", PAGER=pager)
    assert "lines" not in on_terminal(200, 90, CAPTURE, PAGER=pager)
    assert "Findings" in on_terminal(80, 10, CAPTURE, PAGER=str(tmp_path / "missing"))
