"""Stdout as a terminal or a pipe: width, colours, digit groups and pager.

On a terminal, tables and sentences fit its width, `COLUMNS` first. In a pipe nothing is cut or
wrapped, unless `COLUMNS` is set (without `LINES`), and digits are not grouped, so that other
programs read them.
Colours: `--color`, else `NO_COLOR`, else on a terminal. Pager: `PAGER`, else less.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import click

from kdissect.text import human

AUTO: Final = "auto"
ALWAYS: Final = "always"
NEVER: Final = "never"
NO_PAGER: Final = ("", "cat")
# Of less: quit if it fits a screen, colours, leave the screen as it is. As git has it.
LESS: Final = "FRX"
UNLIMITED: Final = 1 << 30
# `kdissect top` has the same words.
STYLES: Final[dict[str, dict[str, Any]]] = {
    "": {},
    "bold": {"bold": True},
    "dim": {"dim": True},
    "hot": {"fg": "red", "bold": True},
    "warm": {"fg": "yellow"},
    "problem": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "notice": {"fg": "cyan"},
    "command": {"fg": "green"},
}
COLOR_KEY: Final = "kdissect.color"
PAGER_KEY: Final = "kdissect.pager"


def with_options(command: click.Command) -> click.Command:
    """The command with --color, and --no-pager where there is a page."""
    if any(one.name == "color" for one in command.params):
        return command
    command.params.append(
        click.Option(
            ["--color"],
            type=click.Choice((AUTO, ALWAYS, NEVER)),
            default=AUTO,
            expose_value=False,
            callback=_keep,
            help="Colours. auto: on a terminal, unless NO_COLOR is set.  [default: auto]",
        )
    )
    return command


pager_option = click.option(
    "--no-pager",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, value: context.meta.__setitem__(PAGER_KEY, not value),
    help="Do not page output longer than the terminal (PAGER, or less).",
)


def _keep(context: click.Context, _: click.Parameter, value: str) -> None:
    context.meta[COLOR_KEY] = value


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout.isatty()


def width(is_file: bool = False) -> int:
    """Columns of the page: of the terminal, or `COLUMNS`; unlimited in a pipe or file without."""
    if (is_terminal() and not is_file) or _asked_columns():
        return max(1, shutil.get_terminal_size().columns)
    return UNLIMITED


def height() -> int:
    """Lines of the terminal; unlimited in a pipe."""
    return shutil.get_terminal_size().lines if is_terminal() else UNLIMITED


def _asked_columns() -> bool:
    """Return whether the user set `COLUMNS`: readline exports it to children, with `LINES`."""
    columns = os.environ.get("COLUMNS", "")
    return columns.isdecimal() and int(columns) > 0 and "LINES" not in os.environ


def has_color() -> bool:
    """Return whether output is coloured."""
    context = click.get_current_context(silent=True)
    asked = AUTO if context is None else context.find_root().meta.get(COLOR_KEY, AUTO)
    if asked != AUTO:
        return bool(asked == ALWAYS)
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return is_terminal() and not is_plain


def styled(text: str, style: str) -> str:
    """The text in a style of `STYLES`, plain in any other, where output has colours."""
    return click.style(text, **STYLES[style]) if STYLES.get(style) and has_color() else text


def echo(line: str) -> None:
    """Print a line of styled text."""
    click.echo(line, color=has_color())


@contextmanager
def digit_groups() -> Iterator[None]:
    """Group digits for people: not in a pipe."""
    if is_terminal():
        yield
        return
    with human.grouped_by(""):
        yield


def write_page(lines: Sequence[str]) -> None:
    """Print lines, in a pager where they do not fit the terminal."""
    text = "".join(f"{line}\n" for line in lines)
    pager = _pager() if len(lines) >= height() else []
    if not (pager and _page_through(pager, text)):
        click.echo(text, nl=False, color=has_color())


def _pager() -> list[str]:
    context = click.get_current_context(silent=True)
    if context is not None and not context.find_root().meta.get(PAGER_KEY, True):
        return []
    asked = os.environ.get("PAGER")
    if asked is None:
        return ["less"] if shutil.which("less") else []
    with suppress(ValueError):
        return [] if asked.strip() in NO_PAGER else shlex.split(asked)
    return []


def _page_through(pager: list[str], text: str) -> bool:
    """Return whether the pager could be started."""
    environment = {"LESS": LESS, "LESSCHARSET": "utf-8", **os.environ}
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "env": environment}
    sys.stdout.flush()
    try:
        process = subprocess.Popen(pager, **options)  # noqa: S603  # the user's own PAGER
    except OSError:
        return False
    with suppress(BrokenPipeError):  # the reader has seen enough
        process.communicate(text.encode(errors="backslashreplace"))
    while True:  # less handles Ctrl-C itself
        with suppress(KeyboardInterrupt):
            process.wait()
            return True
