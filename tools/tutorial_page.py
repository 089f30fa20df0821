"""The tutorial with the current output of its commands.

In docs/tutorial.md a block is the command after ``$``, then its output; ``<!-- lines: 9 -->``
before the block cuts that, with ``...`` for the rest. Everything else is written by hand.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"(?:<!-- lines: (\d+) -->\n)?```console\n\$ (kdissect .*)\n(?s:.*?)```\n")
WIDTH = "112"


def tutorial_page() -> str:
    """The page as it is, with the output of each command put in its place."""
    return BLOCK.sub(block, TUTORIAL.read_text(encoding="utf-8"))


def block(found: re.Match[str]) -> str:
    lines, command = found.groups()
    shown = output(command)
    mark = ""
    if lines is not None:
        mark = f"<!-- lines: {lines} -->\n"
        if len(shown) > int(lines):
            shown = [*shown[: int(lines)], "..."]
    return "\n".join([f"{mark}```console", f"$ {command}", *shown, "```", ""])


def output(command: str) -> list[str]:
    """Output of a command on a terminal, without colours; ends the program when it fails."""
    words = shlex.split(command)[1:]
    # A page has one form; other commands have another for pipes.
    if not words[0].startswith("captures/"):
        words += ["--format", "table"]
    done = subprocess.run(
        [sys.executable, "-m", "kdissect", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": WIDTH},
        check=True,
    )
    return [line.rstrip() for line in done.stdout.splitlines()]
