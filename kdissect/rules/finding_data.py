"""Findings as JSON data, with the commands that show more."""

import shlex
from collections.abc import Sequence
from typing import Any

from kdissect.rules.finding import Finding
from kdissect.text.human import time


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
        "first_time": iso_time(one.first_time_ns),
        "last_time": iso_time(one.last_time_ns),
        "packet": one.packet,
        "command": command_line(one.command, files, options) if one.command else "",
    }


def iso_time(ns: int | None) -> str | None:
    """ISO 8601, UTC, with nanoseconds."""
    return None if ns is None else time(ns).replace(" ", "T")


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
