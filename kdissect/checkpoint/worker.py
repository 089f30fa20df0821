"""Worker process: takes splits, returns files of their rows and boundary states.

Input: one `Task`, then ``(number, split, names)``; output: ``(number, places)`` in the split's
file, or ``(number, error)``.
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
    """Values common to all splits; `directory` is for the rows."""

    options: Options
    captures: Sequence[str]
    directory: str


def main() -> None:
    """Work until the input ends."""
    source = sys.stdin.buffer
    # Printed output is not part of the protocol.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Imports stay; `WorkerPool` has turned the collector off, as no cycles are made.
    gc.freeze()
    try:
        work(source, answers)
    except (EOFError, BrokenPipeError):
        # The parent process has ended; output it does not wait for needs no clean-up.
        os._exit(0)


def work(source: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until the other side closes, which is an EOFError."""
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
    """Write the rows of a split and its boundary state to a file."""
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
    """Path of a split's rows."""
    return Path(directory, f"{number}.arrows")
