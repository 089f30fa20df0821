"""The program of another process: pieces in, files of their rows and seams out.

In: one `Task`, then ``(number, piece, names)``; out: ``(number, places)`` in the piece's file, or
``(number, error)``.
"""

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from kdissect.capture.splits import Piece
from kdissect.checkpoint.spill_transfer import BatchFile, Written
from kdissect.checkpoint.split import PieceRun
from kdissect.checkpoint.worker_pool import read_value, write_value
from kdissect.errors import KdissectError
from kdissect.pipeline import Options


class Task(NamedTuple):
    """What is the same of all pieces; `directory` is for the rows."""

    options: Options
    captures: Sequence[str]
    directory: str


def main() -> None:
    """Work until nobody asks for more."""
    source = sys.stdin.buffer
    # What anybody prints is no answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # What was imported stays; `Crew` has turned the collector off for what makes no cycles.
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
        number, piece, names = read_value(source)
        try:
            answer: list[Written] | Exception = dissect(task, number, piece, names)
        except (KdissectError, OSError) as error:
            answer = error
        write_value(answers, (number, answer))
        gc.collect()


def dissect(task: Task, number: int, piece: Piece, names: dict[bytes, str]) -> list[Written]:
    """Put the rows of a piece and its seam into a file."""
    file = BatchFile(piece_path(task.directory, number))
    try:
        run = PieceRun(piece, task.options, task.captures, names)
        for table, batch in run:
            file.write(table, batch)
        file.write_seam(run.seam.to_bytes())
        return file.places
    finally:
        file.close()


def piece_path(directory: str, number: int) -> Path:
    """Where the rows of a piece are."""
    return Path(directory, f"{number}.arrows")
