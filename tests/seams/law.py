"""Pieces put together, beside one pass over everything."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kdissect.capture.pieces import plan
from kdissect.pipeline import Balance, Options, Run
from kdissect.seams.jobs_run import find_secrets
from kdissect.seams.piece import PieceRows, dissect_piece
from kdissect.seams.seam import Seam
from kdissect.seams.stitch import Stitcher
from kdissect.seams.together import Together
from kdissect.tables.schemas import TABLES

CAPTURES = Path(__file__).parents[2] / "captures"
OPTIONS = Options(tables=tuple(TABLES))


class Rows(NamedTuple):
    """The rows of all tables, each table sorted, and what became of the bytes."""

    tables: dict[str, list[str]]
    balance: Balance


def whole(paths: Sequence[str], options: Options = OPTIONS) -> Rows:
    run = Run(list(paths), options)
    return Rows(sorted_rows(run), run.balance)


def together(paths: Sequence[str], size: int, options: Options = OPTIONS) -> tuple[Rows, Stitcher]:
    """The same of pieces of `size` bytes, each by what another machine would get and give."""
    pieces = plan(paths, size)

    def dissected() -> list[PieceRows]:
        made = [dissect_piece(piece, options, paths) for piece in pieces]
        return [PieceRows(rows.batches, Seam.from_bytes(rows.seam.to_bytes())) for rows in made]

    both = Together(
        dissected(),
        options,
        list(paths),
        find_secrets=lambda: find_secrets(paths),
    )
    return Rows(sorted_rows(both), both.balance), both.stitcher


def sorted_rows(run: Run | Together) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for table, batch in run:
        rows.setdefault(table, []).extend(repr(row) for row in batch.to_pylist())
    return {table: sorted(found) for table, found in sorted(rows.items())}
