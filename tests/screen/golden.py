"""The screens that tests compare; ``python -m tests.screen.golden`` rewrites them.

Each is tmux's view of `shown` after some keys; review the diff as you would code.
"""

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).parents[2]
DIRECTORY = Path(__file__).parent / "golden"
REPLAY = DIRECTORY / "replay-80x24.txt"
QUICKSTART = ROOT / "captures" / "quickstart.pcapng"
TIMEOUT_S = 30
ONCE_MORE_S = 0.05
# Variables that would announce another terminal than tmux.
UNSET: Final = ("-u", "COLORTERM", "-u", "COLUMNS", "-u", "LINES", "-u", "NO_COLOR")


class Shot(NamedTuple):
    """A screen of `width` x `height`: the view, the keys, and the text to wait for at the end."""

    name: str
    width: int
    height: int
    shown: str
    keys: Sequence[str]
    until: str


SHOTS: Final = (
    Shot("apis-80x24", 80, 24, "usual", (), "ControlledShutdown"),
    Shot("apis-120x40", 120, 40, "usual", (), "ControlledShutdown"),
    Shot("apis-60x15", 60, 15, "usual", (), "1 of 8"),
    Shot("apis-30x8", 30, 8, "usual", (), "1 of 8"),
    Shot("apis-sorted-80x24", 80, 24, "usual", ("1", "Left", "r", "End"), "8 of 8"),
    Shot("clients-of-an-api-80x24", 80, 24, "usual", ("Enter",), "all › API Produce"),
    Shot("clients-80x24", 80, 24, "troubled", ("2",), "1 of 4"),
    Shot("topics-80x24", 80, 24, "usual", ("3",), "1 of 3"),
    Shot("errors-80x24", 80, 24, "usual", ("4",), "1 of 2"),
    Shot("connections-80x24", 80, 24, "troubled", ("5",), "1 of 2"),
    Shot("connections-160x24", 160, 24, "troubled", ("5",), "1 of 2"),
    Shot("groups-80x24", 80, 24, "usual", ("6",), "1 of 2"),
    Shot("slowest-80x24", 80, 24, "usual", ("7", "PPage", "NPage"), "18 of 50"),
    Shot("slowest-filtered-120x40", 120, 40, "usual", ("7", "/", "paym", "Enter"), "(50 in all)"),
    Shot("typing-80x24", 80, 24, "usual", ("2", "/", "RDx", "BSpace"), "(4 in all)"),
    Shot("an-exchange-80x24", 80, 24, "usual", ("7", "Down", "Down", "Down", "Enter"), "░ queue"),
    Shot("problems-80x24", 80, 24, "troubled", ("8", "Space"), "PAUSED"),
    Shot("partitions-80x24", 80, 24, "usual", ("9",), "1 of 3"),
    Shot("findings-80x24", 80, 24, "troubled", ("0",), "1 of 1"),
    Shot("all-connections-120x24", 120, 24, "usual", ("o",), "10.0.0.9"),
    Shot("two-panes-160x40", 160, 40, "usual", ("2", "Down"), "its APIs"),
    Shot("two-panes-problems-140x24", 140, 24, "troubled", ("8", "Down"), "2 of 2"),
    Shot("help-80x24", 80, 24, "usual", ("?",), "q, Ctrl+C"),
    Shot("hostile-clients-80x24", 80, 24, "hostile", ("2",), "1 of 8"),
    Shot("hostile-errors-120x40", 120, 40, "hostile", ("4",), "1 of 8"),
    Shot("hostile-exchange-80x24", 80, 24, "hostile", ("7", "Enter"), "Esc back"),
    Shot("nothing-yet-80x24", 80, 24, "nothing", (), "no exchanges"),
)  # fmt: skip


class Terminal:
    """A tmux of its own, in which one program runs."""

    def __init__(self, command: Sequence[str], width: int, height: int, **variables: str) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="kdissect-screen-")
        settings = {"TERM": "screen-256color", "PYTHONPATH": str(ROOT), **variables}
        words = ["env", *UNSET, *(f"{name}={text}" for name, text in settings.items())]
        # The program's last screen stays visible.
        line = f"cd {shlex.quote(str(ROOT))}; {shlex.join([*words, *command])}; echo ended $?; cat"
        size = ["-x", str(width), "-y", str(height)]
        self.tmux("-f", os.devnull, "new-session", "-d", *size, line)

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", f"{self.directory.name}/tmux", *words]
        done = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S)
        return done.stdout.decode()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tmux("send-keys", key)

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, *options: str) -> str:
        lines = self.tmux("capture-pane", "-p", *options).splitlines()
        return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"

    def wait_for(self, text: str) -> str:
        """The screen, once it has the text and changes no more."""
        end = time.monotonic() + TIMEOUT_S
        last = ""
        while time.monotonic() < end:
            shown = self.screen()
            if text in shown and shown == last:
                return shown
            last = shown
            time.sleep(ONCE_MORE_S)
        raise AssertionError(f"{text!r} did not come; there is:\n{last}")

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")
        self.directory.cleanup()


@contextlib.contextmanager
def terminal(
    command: Sequence[str], width: int = 80, height: int = 24, **variables: str
) -> Iterator[Terminal]:
    opened = Terminal(command, width, height, **variables)
    try:
        yield opened
    finally:
        opened.close()


def taken(shot: Shot) -> str:
    """Screen as tmux shows it."""
    command = [sys.executable, "-m", "tests.screen.shown", shot.shown]
    with terminal(command, shot.width, shot.height) as opened:
        opened.wait_for("?")
        opened.press(*shot.keys)
        return opened.wait_for(shot.until)


def top(*words: str) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "kdissect", "top", *words]


def replayed() -> str:
    """The slowest exchanges of a capture, masked."""
    with terminal(top(str(QUICKSTART.relative_to(ROOT)))) as opened:
        opened.wait_for("capture ended")
        opened.press("7")
        return masked(opened.wait_for("latency"))


def masked(shown: str) -> str:
    """The screen without the rates at its top: a replay takes longer or shorter."""
    return "".join(shown.splitlines(keepends=True)[3:])


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for path in DIRECTORY.glob("*.txt"):
        path.unlink()
    for shot in SHOTS:
        path = DIRECTORY / f"{shot.name}.txt"
        path.write_text(taken(shot), encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    REPLAY.write_text(replayed(), encoding="utf-8")


if __name__ == "__main__":
    main()
