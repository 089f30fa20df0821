"""Retention: days of rows leave a dataset, in one run for all tables.

A day is the partition `date`. Files without a day (unreadable captures) stay, and so do captures in
the records: they are not dissected again. Earlier versions have the rows until `expire`.
"""

import os
from datetime import date
from typing import NamedTuple

from kdissect.dataset.entries import NO_DATE, Contents, FileEntry
from kdissect.dataset.rewriting import Rewriting, adopt
from kdissect.dataset.runs import Dataset, contents_in


class Dropped(NamedTuple):
    """Rows that left the dataset, or would, and the number of their files."""

    rows: int
    files: int


def drop_days(dataset: str | os.PathLike[str], before: date, *, dry_run: bool = False) -> Dropped:
    """Drop the rows of all days before one, from all tables.

    Raises KdissectError if there is no dataset, OutputError if another process writes to it.
    """
    contents = contents_in(dataset)
    if dry_run:
        return counted(files_before(contents, before))
    adopt(dataset)
    with Dataset(dataset, is_upkeep=True) as opened:
        files = files_before(opened.contents, before)
        if files:
            rewriting = Rewriting(opened, "drop")
            rewriting.replaced.update({one.path: one for one in files})
            rewriting.commit()
        return counted(files)


def files_before(contents: Contents, before: date) -> list[FileEntry]:
    """Files of days before one."""
    return [
        file
        for tap in contents.taps
        for file in tap.files
        if file.date != NO_DATE and date.fromisoformat(file.date) < before
    ]


def counted(files: list[FileEntry]) -> Dropped:
    """Their rows, and their number."""
    return Dropped(sum(max(one.rows, 0) for one in files), len(files))
