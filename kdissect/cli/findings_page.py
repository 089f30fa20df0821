"""Findings as lines of the summary page, and as JSON."""

import shlex
from collections.abc import Sequence
from typing import Any, Final

from kdissect.cli.terminal import UNLIMITED, styled
from kdissect.rules.finding import Finding
from kdissect.text.escape import escaped
from kdissect.text.grid import folded
from kdissect.text.human import time

INDENT: Final = 9  # the width of the severities plus a space
SECONDS: Final = 23  # characters of a time with milliseconds
# Characters of the files of a command on the page; JSON has all of them.
FILES_LENGTH: Final = 500
ANY_FILES: Final = "FILE..."


def finding_lines(
    one: Finding, files: Sequence[str], options: Sequence[str], page_width: int
) -> list[str]:
    """A finding: its sentence wrapped, then id, time and packet, then the command for more.

    The command is one line, however long, so that it can be pasted.
    """
    room = page_width if page_width == UNLIMITED else max(1, page_width - INDENT)
    pieces = [styled(piece, _style(one)) for piece in folded(escaped(one.text), room)]
    pieces += [styled(piece, "dim") for piece in folded(_where(one), room)]
    heads = [styled(one.severity.ljust(INDENT), one.severity)]
    heads += [" " * INDENT] * (len(pieces) - 1)
    lines = [head + piece for head, piece in zip(heads, pieces, strict=True)]
    if one.command:
        command = command_line(one.command, files, options)
        if len(command) > FILES_LENGTH:
            command = f"{command_line(one.command, (), options)} {ANY_FILES}"
        lines.append(" " * INDENT + styled(escaped(command), "command"))
    return lines


def command_line(command: str, files: Sequence[str], options: Sequence[str] = ()) -> str:
    """The command with files and the options of reading, quoted for a shell.

    >>> command_line("kdissect slowest --of work", ["a b.pcap", "-"], ["--port", "9192"])
    "kdissect slowest 'a b.pcap' - --of work --port 9192"
    """
    name, dashes, own = command.partition(" --")
    words = [name, *map(argument, files)]
    return " ".join(words) + dashes + own + "".join(f" {shlex.quote(one)}" for one in options)


def argument(file: str) -> str:
    """A file name quoted for a shell, to be copied into a command.

    >>> argument("a[1].pcap"), argument("-a"), argument("-")
    ("'a[1].pcap'", './-a', '-')
    """
    return shlex.quote(f"./{file}" if file.startswith("-") and file != "-" else file)


def _style(one: Finding) -> str:
    return "bold" if one.severity == "problem" else ""


def _where(one: Finding) -> str:
    details = [one.id]
    if one.first_time_ns is not None and (one.packet is not None or one.severity != "notice"):
        details.append(f"{time(one.first_time_ns)[:SECONDS]}Z")
    if one.packet is not None:
        details.append(f"packet {one.packet}")
    return f"[{'; '.join(details)}]"


def finding_data(
    one: Finding, files: Sequence[str] = (), options: Sequence[str] = ()
) -> dict[str, Any]:
    """A finding as JSON data; times are ISO 8601, the command has its files."""
    return {
        "id": one.id,
        "severity": one.severity,
        "text": one.text,
        "numbers": dict(one.numbers),
        "concerns": dict(one.concerns),
        "first_time": _iso(one.first_time_ns),
        "last_time": _iso(one.last_time_ns),
        "packet": one.packet,
        "command": command_line(one.command, files, options) if one.command else "",
    }


def _iso(ns: int | None) -> str | None:
    return None if ns is None else time(ns).replace(" ", "T")
