"""The screen in a real terminal, as tmux shows it; see `golden` about writing screens anew."""

import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.screen.golden import DIRECTORY, SHOTS, Shot, Terminal, taken, terminal

pytestmark = pytest.mark.slow
RED = "\x1b[1m\x1b[31m"


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
    assert {path.stem for path in DIRECTORY.glob("*.txt")} == {shot.name for shot in SHOTS}


def test_what_is_lost_is_red_in_the_terminals_own_colours(troubled: Terminal) -> None:
    assert f"{RED}45\N{NARROW NO-BREAK SPACE}300 drops" in troubled.screen("-e")
    assert "38;2;" not in troubled.screen("-e")  # none that the terminal would have to mix


def test_without_colours_it_says_the_same() -> None:
    command = [sys.executable, "-m", "tests.screen.shown", "troubled"]
    with terminal(command, 120, NO_COLOR="1") as opened:
        opened.wait_for("? help")
        shown = opened.screen("-e")
    assert "45\N{NARROW NO-BREAK SPACE}300 drops" in shown
    assert "\x1b[31m" not in shown
    assert "\x1b[7m" in shown  # the cursor and the view are in reverse


def test_sixteen_colours_are_enough() -> None:
    command = [sys.executable, "-m", "tests.screen.shown", "troubled"]
    with terminal(command, 120, TERM="screen") as opened:
        opened.wait_for("? help")
        assert f"{RED}45" in opened.screen("-e")


def test_resizing_the_terminal_keeps_everything(troubled: Terminal) -> None:
    troubled.press("5", "Down")
    troubled.wait_for("2 of 2")
    troubled.resize(60, 15)
    assert "5 Conn" in troubled.wait_for("1 APIs 2 Cli")
    troubled.resize(160, 40)
    assert "2 of 2" in troubled.wait_for("0-window")


@pytest.mark.parametrize("key", ["q", "C-c"])
def test_the_terminal_is_clean_afterwards(troubled: Terminal, key: str) -> None:
    troubled.press(key)
    assert troubled.wait_for("ended").strip() == "ended 0"
    modes = troubled.tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag}")
    assert modes == "0 0\n"
