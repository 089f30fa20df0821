"""Changed captures, each read by drawn commands with drawn options, as processes of their own."""

import os
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.siege.checks import cpu_bound, violations
from tools.siege.commands import KEYS, Line, draw_line
from tools.siege.escapes import Book
from tools.siege.inputs import Input, draw_input
from tools.siege.processes import PROGRAM, Ended, Processes

COMMANDS_EACH = 3
ASKED_TO_END = 0.06  # the share of commands that are sent SIGTERM
LONGEST_S = 3.0  # until then
KEY_LOG = b"# no keys\nCLIENT_RANDOM 00 00\n\xff\x1b[31m\n"
LOCALES = ("C.UTF-8", "C", "C.UTF-8")


class Siege(NamedTuple):
    """Options of one part; `only` is the number of a single input to repeat."""

    minutes: float
    seed: int
    place: Path
    program: Sequence[str] = PROGRAM
    only: int | None = None


def besiege(siege: Siege, scratch: Path) -> Book:
    """Input after input until the time is over."""
    book = Book("mutations", siege.seed, siege.place)
    end = time.monotonic() + siege.minutes * 60
    number = siege.only or 0
    with Processes(scratch, siege.program) as processes:
        while time.monotonic() < end:
            one_input(number, book, processes, scratch)
            number += 1
            if siege.only is not None:
                break
    return book


def one_input(number: int, book: Book, processes: Processes, scratch: Path) -> None:
    """Draw an input and run commands on it."""
    source = random.Random(f"{book.seed}-{number}")  # noqa: S311  # what is drawn is no secret
    given = draw_input(source)
    captures = scratch / "captures"
    captures.mkdir()
    path = os.fsencode(captures) + b"/" + os.fsencode(given.name)
    with open(path, "wb") as file:  # noqa: PTH123  # a name that may be no UTF-8
        file.write(given.data)
    book.counts["inputs"] += 1
    book.counts["bytes of inputs"] += len(given.data)
    for change in given.changes:
        book.counts[f"change: {change.replace('_', ' ')}"] += 1
    for _ in range(COMMANDS_EACH):
        line = draw_line(os.fsdecode(path), given.protocol, source)
        end_after_s = source.uniform(0, LONGEST_S) if source.random() < ASKED_TO_END else None
        locale = {"LC_ALL": source.choice(LOCALES)}
        one_command(number, given, line, end_after_s, locale, book, processes, scratch)
    shutil.rmtree(captures)


def one_command(
    number: int, given: Input, line: Line, end_after_s: float | None, locale: dict[str, str],
    book: Book, processes: Processes, scratch: Path,
) -> None:  # fmt: skip
    """Run it and check the result."""
    directory = scratch / "work"
    directory.mkdir()
    (directory / KEYS).write_bytes(KEY_LOG)
    bound = cpu_bound(given.size)
    ended = processes.run(line.words, directory, bound + 5, end_after_s, locale)
    took(book, line, given, ended, end_after_s is not None)
    for escape in violations(given, line, ended, directory, end_after_s is not None):
        about = {
            "words": list(line.words), "origin": given.origin, "changes": given.changes,
            "environment": locale, "end_after_s": end_after_s, "code": ended.code,
        }  # fmt: skip
        files = {
            "input": given.data,
            "stdout": ended.out[: 1 << 20],
            "stderr": ended.err[: 1 << 20],
        }
        book.escaped(number, escape, about, files)
    shutil.rmtree(directory)


def took(book: Book, line: Line, given: Input, ended: Ended, asked: bool) -> None:
    book.counts["commands"] += 1
    book.counts["bytes printed"] += len(ended.out) + len(ended.err)
    book.counts[f"ended with {ended.code}"] += 1
    book.counts["asked to end"] += asked
    book.took(line.command, ended.peak, ended.cpu_s, given.size)
