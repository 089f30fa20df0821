"""The prompt of `kdissect sql`: history, completion, several lines, errors, and how it ends."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import kdissect
from kdissect.api.querying import Queryable, opened_tables
from kdissect.cli.sql_prompt import Names, Prompt
from tests.measuring import cpu_s, wait_for_cpu

CAPTURE = "captures/quickstart.pcapng"
COUNT = "select count(*) as number from exchanges"
ALL_WITH_ALL = (
    "select sum(hash(a.exchange_id, b.exchange_id, c.exchange_id, d.exchange_id) % 7) as n "
    "from exchanges a, exchanges b, exchanges c, exchanges d"
)
ENTER, TAB, UP, CTRL_C, CTRL_D = "\r", "\t", "\x1b[A", "\x03", "\x04"
DEADLINE_S = 60


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queryable]:
    directory = tmp_path_factory.mktemp("prompt") / "tables"
    kdissect.write(CAPTURE, directory)
    with opened_tables(str(directory), ["exchanges", "connections"]) as opened:
        yield opened


@pytest.fixture(autouse=True)
def own_history(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("KDISSECT_HISTORY", str(tmp_path / "state" / "history"))
    return tmp_path / "state" / "history"


def typed(tables: Queryable, keys: str) -> None:
    """Type keys at a prompt until its input ends."""
    with create_pipe_input() as keyboard:
        keyboard.send_text(keys + CTRL_D)
        Prompt(tables, "csv", None, input=keyboard, output=DummyOutput()).run()


def test_a_query_ends_with_a_semicolon_or_an_empty_line(
    tables: Queryable, capfd: pytest.CaptureFixture[str]
) -> None:
    typed(tables, f"{COUNT};{ENTER}")
    once = capfd.readouterr().out
    typed(tables, f"select count(*) as number{ENTER}from exchanges{ENTER}{ENTER}")
    assert capfd.readouterr().out == once == '"number"\n331\n'


def test_an_error_is_printed_and_the_prompt_continues(
    tables: Queryable, capfd: pytest.CaptureFixture[str]
) -> None:
    queries = ("select latncy_ns from exchanges", "drop table exchanges", COUNT)
    typed(tables, "".join(f"{query};{ENTER}" for query in queries))
    said = capfd.readouterr()
    assert "did you mean 'latency_ns'?" in said.err
    assert said.err.count("kdissect: ") == 2
    assert said.out.endswith("331\n")


def test_lines_are_kept_for_the_next_prompt_and_only_for_the_user(
    tables: Queryable, own_history: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    typed(tables, f"{COUNT};{ENTER}")
    assert own_history.stat().st_mode & 0o077 == 0
    assert COUNT in own_history.read_text()
    capfd.readouterr()
    typed(tables, f"{UP}{ENTER}")
    assert capfd.readouterr().out.endswith("331\n")


def test_ctrl_c_drops_a_line(tables: Queryable, capfd: pytest.CaptureFixture[str]) -> None:
    typed(tables, f"select nonsense{CTRL_C}{COUNT};{ENTER}")
    said = capfd.readouterr()
    assert said.out.endswith("331\n")
    assert "nonsense" not in said.err


def test_commands_of_the_prompt_list_names(
    tables: Queryable, capfd: pytest.CaptureFixture[str]
) -> None:
    typed(tables, f".tables{ENTER}.columns connections{ENTER}.colums x{ENTER}.quit{ENTER}{COUNT};")
    said = capfd.readouterr()
    assert said.out.startswith("exchanges\nconnections\ncapture\nconnection_id\n")
    assert "did you mean '.columns'?" in said.err
    assert "331" not in said.out  # after .quit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select lat", {"latency_ns"}),
        ("select * from exch", {"exchanges"}),
        ("sel", {"select"}),
        ("select medi", {"median"}),
        (".col", {".columns"}),
        (".columns conn", {"connections"}),
    ],
)
def test_names_are_completed(text: str, expected: set[str]) -> None:
    names = Names(["exchanges", "connections"])
    found = names.get_completions(Document(text), CompleteEvent())
    assert expected <= {one.text for one in found}


def read_until(terminal: int, wanted: bytes) -> bytes:
    """Return a terminal's output up to a match of a pattern."""
    shown, until = b"", time.monotonic() + DEADLINE_S
    while re.search(wanted, shown, re.DOTALL) is None:
        assert time.monotonic() < until, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 65536)
    return shown


@contextmanager
def on_a_terminal(tmp_path: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A terminal with the prompt of its own process; at the end Ctrl-D leaves it with code 0."""
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kdissect", "sql", CAPTURE],
        # A terminal's driver makes a signal of Ctrl-C while no prompt reads keys; here it may be
        # ignored.
        preexec_fn=lambda: (signal.signal(signal.SIGINT, signal.SIG_DFL), os.login_tty(its_end)),
        env=os.environ | {"KDISSECT_HISTORY": str(tmp_path / "lines"), "TERM": "xterm"},
    )
    os.close(its_end)
    try:
        read_until(terminal, b"kdissect>")
        yield terminal, process
        os.write(terminal, b"select count(*) + 1000 as n from exchanges;\r")
        # A key before the prompt is not the prompt's.
        read_until(terminal, b"1331.*kdissect>")
        os.write(terminal, b"\x04")
        assert process.wait(DEADLINE_S) == 0
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        os.close(terminal)


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_drops_a_line(tmp_path: Path) -> None:
    with on_a_terminal(tmp_path) as (terminal, _):
        os.write(terminal, b"select nonsense\x03")
        read_until(terminal, b"kdissect>")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads CPU times in /proc")
def test_ctrl_c_on_a_terminal_ends_a_query(tmp_path: Path) -> None:
    with on_a_terminal(tmp_path) as (terminal, process):
        for query in (ALL_WITH_ALL, f"{ALL_WITH_ALL} group by d.api"):
            begin_s = cpu_s(process.pid)
            os.write(terminal, f"{query};\r".encode())
            wait_for_cpu(process, begin_s + 2)  # DuckDB works on it for minutes
            os.read(terminal, 65536)  # what the terminal showed of the keys
            assert not select.select([terminal], [], [], 0)[0]
            os.write(terminal, b"\x03")
            read_until(terminal, b"kdissect>")
