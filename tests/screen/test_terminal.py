"""The screen in a real terminal, as tmux shows it; see `golden` for how to rewrite screens."""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.screen.golden import (
    DIRECTORY,
    QUICKSTART,
    REPLAY,
    ROOT,
    SHOTS,
    TIMEOUT_S,
    Shot,
    Terminal,
    masked,
    taken,
    terminal,
    top,
)

pytestmark = pytest.mark.slow
RED = "\x1b[1m\x1b[31m"


def is_clean(opened: Terminal) -> bool:
    """Return whether the terminal shows its own lines and takes the mouse for itself."""
    return opened.tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag}") == "0 0\n"


def child_of(opened: Terminal) -> int:
    """The process that runs in the terminal's shell."""
    shell = opened.tmux("display-message", "-p", "#{pane_pid}").strip()
    return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])


@pytest.fixture(scope="module", autouse=True)
def _tmux() -> None:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux to look at the screen")


@pytest.fixture
def troubled() -> Iterator[Terminal]:
    with terminal([sys.executable, "-m", "tests.screen.shown", "troubled"], 120) as opened:
        opened.wait_for("? help")
        yield opened


@pytest.mark.parametrize("shot", SHOTS, ids=lambda shot: shot.name)
def test_a_screen_is_as_it_was(shot: Shot) -> None:
    known = DIRECTORY / f"{shot.name}.txt"
    assert taken(shot) == known.read_text(encoding="utf-8"), "python -m tests.screen.golden"


def test_there_is_a_screen_for_each_file() -> None:
    assert set(DIRECTORY.glob("*.txt")) == {REPLAY, *(DIRECTORY / f"{s.name}.txt" for s in SHOTS)}


def test_losses_are_red_in_the_terminals_colours(troubled: Terminal) -> None:
    assert f"{RED}45\N{NARROW NO-BREAK SPACE}300 drops" in troubled.screen("-e")
    assert "38;2;" not in troubled.screen("-e")  # none that the terminal would have to mix


def test_the_text_is_the_same_without_colours() -> None:
    command = [sys.executable, "-m", "tests.screen.shown", "troubled"]
    with terminal(command, 120, NO_COLOR="1") as opened:
        opened.wait_for("? help")
        shown = opened.screen("-e")
    assert "45\N{NARROW NO-BREAK SPACE}300 drops" in shown
    assert "\x1b[31m" not in shown
    assert re.search(r"\x1b\[[\d;]*7m", shown)  # the cursor and the view are in reverse


def test_sixteen_colours_are_enough() -> None:
    command = [sys.executable, "-m", "tests.screen.shown", "troubled"]
    with terminal(command, 120, TERM="screen") as opened:
        opened.wait_for("? help")
        assert f"{RED}45" in opened.screen("-e")


def test_resizing_the_terminal_keeps_everything(troubled: Terminal) -> None:
    troubled.press("5", "Down")
    troubled.wait_for("2 of 2")
    troubled.resize(60, 15)
    assert "5 Con" in troubled.wait_for("1 API 2 Cli")
    troubled.resize(160, 40)
    assert "2 of 2" in troubled.wait_for("0-window")


def test_a_replay_stays_open_at_its_end() -> None:
    with terminal(top(str(QUICKSTART.relative_to(ROOT)))) as opened:
        opened.wait_for("capture ended")
        opened.press("7")
        shown = opened.wait_for("latency")
        opened.press("q")
        opened.wait_for("ended 0")
    assert masked(shown) == REPLAY.read_text(encoding="utf-8"), "python -m tests.screen.golden"


def test_keys_come_from_the_terminal_while_packets_come_by_stdin(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    words = " ".join(top("-", "--interval", "0.2s"))
    line = f"cat {QUICKSTART} | {words} 2>{errors}"
    with terminal(["sh", "-c", line]) as opened:
        opened.wait_for("capture ended")
        opened.press("3")
        assert "clicks" in opened.wait_for("1 of 5")
        opened.press("q")
        opened.wait_for("ended 0")
    assert errors.read_text() == ""


def test_traffic_of_an_interface_is_shown() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to open packet sockets")
    settings = {"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "client.id": "orders-rd"}
    producer = Producer({**settings, "log_level": 0})
    port = producer.list_topics(timeout=TIMEOUT_S).brokers[1].port
    with terminal(top("-i", "lo", "--port", str(port), "--interval", "0.2s")) as opened:
        opened.wait_for("no exchanges")
        opened.press("2")
        for number in range(20):
            producer.produce("orders", str(number))
            assert producer.flush(TIMEOUT_S) == 0
        opened.wait_for("orders-rd")  # beside other Kafka traffic of this machine
        opened.press("q")
        opened.wait_for("ended 0")


def test_capture_errors_close_the_screen_and_are_reported() -> None:
    with terminal(["sh", "-c", f"yes no capture | {' '.join(top('-'))}"]) as opened:
        shown = opened.wait_for("ended 1")
        assert is_clean(opened)
    assert shown.startswith("kdissect: -: not a pcap or pcapng file")
    assert "Traceback" not in shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_clean(number: signal.Signals) -> None:
    with terminal(top(str(QUICKSTART))) as opened:
        opened.wait_for("capture ended")
        os.kill(child_of(opened), number)
        assert opened.wait_for("ended 0").strip() == "ended 0"
        assert is_clean(opened)


@pytest.mark.parametrize("key", ["q", "C-c"])
def test_the_terminal_is_clean_afterwards(troubled: Terminal, key: str) -> None:
    troubled.press(key)
    assert troubled.wait_for("ended 0").strip() == "ended 0"
    assert is_clean(troubled)


def test_it_ends_with_the_terminal_without_a_signal() -> None:
    # It is not the terminal's own session, so there is no SIGHUP.
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    shown = subprocess.Popen(
        [sys.executable, "-m", "tests.screen.shown", "usual"],
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True, cwd=ROOT,
        env=os.environ | {"TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(slave)
    try:
        drawn = b""
        while b"help" not in drawn:
            ready, _, _ = select.select([master], [], [], TIMEOUT_S)
            assert ready
            drawn += os.read(master, 1 << 16)
        os.close(master)
        assert shown.wait(TIMEOUT_S) == 0
    finally:
        shown.kill()
        shown.wait()


def click(opened: Terminal, x: int, y: int, button: int = 0) -> None:
    """What a terminal sends for a click, or a turn of the wheel (buttons 64 and 65); from 0."""
    at = f"\x1b[<{button};{x + 1};{y + 1}"
    opened.press("-l", f"{at}M{at}m" if button < 64 else f"{at}M")


def test_the_mouse_chooses_sorts_opens_and_scrolls() -> None:
    command = [sys.executable, "-m", "tests.screen.shown", "usual"]
    with terminal(command, 160, 40) as opened:
        opened.wait_for("its Clients")
        assert opened.tmux("display-message", "-p", "#{mouse_sgr_flag}") == "1\n"
        click(opened, 10, 3)  # on `2 Clients`
        opened.wait_for("its APIs")
        click(opened, 2, 6)  # on the second row
        opened.wait_for("2 of 4")
        click(opened, 2, 6, 65)
        opened.wait_for("3 of 4")
        click(opened, 2, 6, 64)
        opened.wait_for("2 of 4")
        click(opened, 2, 4)  # on the first header
        opened.wait_for("client↑")
        click(opened, 2, 4)
        opened.wait_for("client↓")
        click(opened, 2, 5)
        opened.wait_for("1 of 4")
        click(opened, 2, 5)
        opened.wait_for("all › client rdkafka")
        opened.press("?")
        opened.wait_for("kdissect top: keys")
        opened.press("q", "q")
        opened.wait_for("ended 0")
        assert is_clean(opened)


def test_a_session_is_recorded_behind_the_screen_and_played_again(tmp_path: Path) -> None:
    path = tmp_path / "night.jsonl"
    capture = str(QUICKSTART.relative_to(ROOT))
    with terminal(top(capture, "--record", str(path), "--findings", "1m", "--window", "1h")) as one:
        one.wait_for("capture ended")
        one.press("2")
        shown = one.wait_for("1 of ")
        one.press("q")
        one.wait_for("ended 0")
    count = len(path.read_bytes().splitlines())
    assert count > 3
    with terminal(top(str(path), "--window", "1h"), 120) as again:
        again.wait_for(f" of {count}")
        again.press("}")
        again.wait_for(f"{count} of {count}")
        again.resize(80, 24)
        again.press("2")
        played = again.wait_for("1 of ")
        again.press("{")
        again.wait_for(f"PAUSED 1 of {count}")
        again.press("q")
        again.wait_for("ended 0")
    assert table_of(played) == table_of(shown)


def table_of(shown: str) -> list[str]:
    """The lines from the names of the tables on."""
    return shown.splitlines()[3:]
