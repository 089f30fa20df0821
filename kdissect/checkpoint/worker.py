"""The program of another process: splits in, files of their rows and boundary states out.

In: one `Task`, then ``(number, split, names)``; out: ``(number, places)`` in the split's file, or
``(number, error)``.
"""

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from kdissect.capture.splits import Split
from kdissect.checkpoint.spill_transfer import BatchFile, Written
from kdissect.checkpoint.split import SplitRun
from kdissect.checkpoint.worker_pool import read_value, write_value
from kdissect.errors import KdissectError
from kdissect.pipeline import Options


class Task(NamedTuple):
    """What is the same of all splits; `directory` is for the rows."""

    options: Options
    captures: Sequence[str]
    directory: str


def main() -> None:
    """Work until nobody asks for more."""
    source = sys.stdin.buffer
    # What anybody prints is no answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # What was imported stays; `WorkerPool` has turned the collector off for what makes no cycles.
    gc.freeze()
    try:
        work(source, answers)
    except (EOFError, BrokenPipeError):
        # The process that asked has gone; what it does not wait for needs no end.
        os._exit(0)


def work(source: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until the other side has gone, which is an EOFError."""
    task: Task = read_value(source)
    while True:
        number, split, names = read_value(source)
        try:
            answer: list[Written] | Exception = dissect(task, number, split, names)
        except (KdissectError, OSError) as error:
            answer = error
        write_value(answers, (number, answer))
        gc.collect()


def dissect(task: Task, number: int, split: Split, names: dict[bytes, str]) -> list[Written]:
    """Put the rows of a split and its boundary state into a file."""
    file = BatchFile(split_path(task.directory, number))
    try:
        run = SplitRun(split, task.options, task.captures, names)
        for table, batch in run:
            file.write(table, batch)
        file.write_boundary(run.boundary.to_bytes())
        return file.places
    finally:
        file.close()


def split_path(directory: str, number: int) -> Path:
    """Where the rows of a split are."""
    return Path(directory, f"{number}.arrows")
