"""Findings as lines of the summary page, and as JSON."""

import shlex
from collections.abc import Sequence
from typing import Any, Final

from kdissect.rules.finding import Finding
from kdissect.text.escape import escaped
from kdissect.text.grid import folded
from kdissect.text.human import count, time

INDENT: Final = 9  # the width of the severities plus a space
SECONDS: Final = 23  # characters of a time with milliseconds


def finding_lines(
    found: Sequence[Finding], left_out: int, files: Sequence[str], width: int
) -> list[str]:
    """Each finding wrapped to the width, followed by time, place, and the command for more."""
    file = argument(files[0]) if len(files) == 1 else "FILE..."
    lines = []
    for one in found:
        pieces = folded(escaped(one.text), width - INDENT)
        pieces += folded(_where(one, file), width - INDENT)
        heads = [one.severity.ljust(INDENT), *[" " * INDENT] * (len(pieces) - 1)]
        lines += [head + piece for head, piece in zip(heads, pieces, strict=True)]
    if left_out:
        noun = "finding" if left_out == 1 else "findings"
        lines.append(f"{count(left_out)} more {noun}: --findings all")
    return lines


def argument(file: str) -> str:
    """A file name quoted for a shell, to be copied into a command.

    >>> argument("a[1].pcap"), argument("-a")
    ("'a[1].pcap'", './-a')
    """
    return escaped(shlex.quote(f"./{file}" if file.startswith("-") else file))


def _where(one: Finding, file: str) -> str:
    details = [one.id]
    if one.first_time_ns is not None and (one.packet is not None or one.severity != "notice"):
        details.append(f"{time(one.first_time_ns)[:SECONDS]}Z")
    if one.packet is not None:
        details.append(f"packet {one.packet}")
    if one.command:
        words, dashes, options = one.command.partition(" --")
        details.append(f"{words} {file}{dashes}{options}")
    return f"[{'; '.join(details)}]"


def finding_data(one: Finding) -> dict[str, Any]:
    """A finding as JSON data; times are ISO 8601."""
    return {
        "id": one.id,
        "severity": one.severity,
        "text": one.text,
        "numbers": dict(one.numbers),
        "concerns": dict(one.concerns),
        "first_time": _iso(one.first_time_ns),
        "last_time": _iso(one.last_time_ns),
        "packet": one.packet,
        "command": one.command,
    }


def _iso(ns: int | None) -> str | None:
    return None if ns is None else time(ns).replace(" ", "T")
