"""``kdissect top`` where there is no terminal; with one, see tests/screen/test_terminal.py."""

import importlib.util
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import kdissect
from kdissect.cli.program import run
from kdissect.cli.top import run as top_run
from kdissect.cli.top.capture import Capturing, capturing
from kdissect.cli.top.terminal import has_screen
from kdissect.errors import CaptureError
from kdissect.screen.view_state import ENDED, FAILED, RUNNING
from kdissect.system.extras import missing_extra

LINE = re.compile(r"\d\d:\d\d:\d\d  \d.* ex/s  .* err/s  .* drop 0")
NO_PACKETS = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
TIMEOUT_S = 30


def top(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kdissect", "top", *arguments]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, **options
    )


class Watched:
    """Stands in for a watcher: runs until stopped, or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.stopped = threading.Event()

    def run(self) -> None:
        if self.error is not None:
            raise self.error
        assert self.stopped.wait(TIMEOUT_S)

    def stop(self) -> None:
        self.stopped.set()


def test_where_there_is_no_terminal_there_are_lines(quickstart: str) -> None:
    done = top(quickstart)
    assert (done.returncode, done.stderr) == (0, "")
    assert LINE.fullmatch(done.stdout.splitlines()[-1])


def test_connections_that_were_closed_are_counted_at_the_end(
    quickstart: str, tmp_path: Path
) -> None:
    """Of a capture, and of a session recorded of it."""
    capture = Path(quickstart).parent / "networks" / "ipv6-4.3.1.pcapng"
    number = kdissect.read(capture, table="connections").to_arrow().num_rows
    session = tmp_path / "session"
    for words in ((str(capture), "--record", str(session)), (str(session),)):
        page = top(*words, "--once").stdout
        assert f"  0 of {number} connections open  " in page.splitlines()[2]


def test_once_is_one_page_of_tables(quickstart: str) -> None:
    done = top(quickstart, "--once", "--window", "1h")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("kdissect top  ")
    assert re.search(r"04:06:\d\dZ  last 18\.\d of 3600 s$", lines[0])
    titles = [lines[number + 1] for number, line in enumerate(lines) if not line]
    assert titles == [
        "APIs, 20 of 28", "Clients, 20 of 28", "Topics", "Errors", "Connections", "Groups",
        "Slowest, 20 of 50", "Problems", "Partitions",
    ]  # fmt: skip
    ends = kdissect.read(quickstart, table="connections", columns=["closed_by"]).to_arrow()
    still_open = ends["closed_by"].to_pylist().count("capture-end")
    assert f"  {still_open} of {len(ends)} connections open  " in lines[2]
    # In a pipe no name is cut.
    assert max(map(len, lines[2:])) <= 160
    slowest = lines[lines.index("Slowest, 20 of 50") + 3]
    # As wide as it is, with the columns that a terminal may have no room for.
    assert slowest.split()[:10] == [
        "04:06:21.170", "Produce", "slow-rd", "orders", "1.2", "s", "-", "-", "1.2", "s",
    ]  # fmt: skip


def test_a_pipe_is_read_until_it_ends(quickstart: str) -> None:
    with Path(quickstart).open("rb") as file:
        done = top("-", stdin=file)
    assert (done.returncode, done.stderr) == (0, "")
    assert LINE.fullmatch(done.stdout.splitlines()[-1])


def test_a_signal_ends_it_in_order(quickstart: str) -> None:
    command = [sys.executable, "-m", "kdissect", "top", "-", "--interval", "0.1s"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as running:  # type: ignore[call-overload]
        running.stdin.write(Path(quickstart).read_bytes())
        running.stdin.flush()
        assert LINE.fullmatch(running.stdout.readline().decode().rstrip("\n"))
        os.kill(running.pid, signal.SIGTERM)
        rest, errors = running.communicate(timeout=TIMEOUT_S)
    assert (running.returncode, errors) == (0, b"")
    assert LINE.fullmatch(rest.decode().splitlines()[-1])


def test_without_exchanges_the_traffic_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(NO_PACKETS)
    for done in (top(str(path)), top(str(path), "--once")):
        assert done.returncode == 0
        assert "no Kafka exchanges" in done.stderr


def test_without_a_source_the_interfaces_are_listed() -> None:
    done = top()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert any(line.startswith("lo ") for line in lines)
    assert lines[-1] == "  kdissect top -i IFACE"


@pytest.mark.parametrize("options", [(), ("--once",)])
def test_invalid_captures_are_reported(options: tuple[str, ...]) -> None:
    done = top("-", *options, input="this is a text and no capture at all")
    assert done.returncode == 1
    assert done.stderr.startswith("kdissect: -: not a pcap or pcapng file")
    assert "Traceback" not in done.stderr


def test_a_capture_that_is_not_there_is_one_line() -> None:
    done = top("nowhere.pcap")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kdissect: nowhere.pcap: no such file\n"


def test_without_textual_one_line_names_the_extra(
    quickstart: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("kdissect.cli.top.terminal.has_screen", lambda: True)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "textual" else found(name)
    )
    assert run(["top", quickstart]) == 2
    assert capsys.readouterr().err == f"kdissect: {missing_extra('kdissect top', 'live')}\n"


@pytest.mark.parametrize(
    ("option", "text", "least"), [("--interval", "0.01s", "0.1 s"), ("--window", "0.5s", "1 s")]
)
def test_times_that_are_too_short_are_refused(
    option: str, text: str, least: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["top", "x.pcap", option, text]) == 2
    assert f"is too short; {least} is the least" in capsys.readouterr().err


def test_textual_is_imported_for_the_screen_only(quickstart: str) -> None:
    code = (
        "import sys; from kdissect.cli.program import run;"
        f"run(['top', {quickstart!r}]); run(['top', {quickstart!r}, '--once']);"
        "print('textual' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_terminal_that_can_do_nothing_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(os, "access", lambda *_: True)
    seen = {}
    for term in ("xterm-256color", "linux", "dumb", ""):
        monkeypatch.setenv("TERM", term)
        seen[term] = has_screen()
    assert seen == {"xterm-256color": True, "linux": True, "dumb": False, "": False}


def test_a_capture_ends_by_itself_or_is_ended() -> None:
    watched = Watched()
    with capturing(watched) as made:  # type: ignore[arg-type]
        assert (made.state(), made.wait(0)) == (RUNNING, False)
    assert (made.state(), watched.stopped.is_set()) == (ENDED, True)


def test_exceptions_of_the_capture_are_raised_at_the_end() -> None:
    watched = Watched(CaptureError("eth0 has gone"))

    def look() -> None:
        with capturing(watched) as made:  # type: ignore[arg-type]
            assert made.wait(TIMEOUT_S)
            assert made.state() == FAILED

    with pytest.raises(CaptureError, match="eth0 has gone"):
        look()


def test_stopping_waits_for_the_capture() -> None:
    watched = Watched()
    made = Capturing(watched)  # type: ignore[arg-type]
    made.start()
    before = time.monotonic()
    made.stop()
    assert made.wait(0)
    assert time.monotonic() - before < TIMEOUT_S / 2


def test_title_names_the_source() -> None:
    from kdissect.live.source_choice import Asked
    from kdissect.pipeline import Options

    options = Options(ports=[9192])
    titles = [
        top_run.Plan(asked, options, 1.0, 60.0, False).title
        for asked in (Asked(["-"]), Asked(["a.pcap", "b.pcap"]), Asked([], ["eth0", "lo"]))
    ]
    assert titles == [
        "stdin", "a.pcap, b.pcap", "eth0, lo: TCP ports 9092, 9093, 9094, 9192, 19092, 29092",
    ]  # fmt: skip
