"""Findings as lines of the summary page."""

from collections.abc import Sequence
from typing import Final

from kdissect.cli.terminal import UNLIMITED, styled
from kdissect.rules.finding import Finding
from kdissect.rules.finding_data import command_line
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


def _style(one: Finding) -> str:
    return "bold" if one.severity == "problem" else ""


def _where(one: Finding) -> str:
    details = [one.id]
    if one.first_time_ns is not None and (one.packet is not None or one.severity != "notice"):
        details.append(f"{time(one.first_time_ns)[:SECONDS]}Z")
    if one.packet is not None:
        details.append(f"packet {one.packet}")
    return f"[{'; '.join(details)}]"
