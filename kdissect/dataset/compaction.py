"""Small files of a dataset → few large ones, with the same rows.

Files of one table, day and tap are merged in the order of their names, up to a size. Those whose
rows may still change (`FileEntry`) stay as they are. A unit is one run: one commit to each table,
all of them or none; readers of the version before still have its files, until `expire`.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath
from typing import Final

from kdissect.dataset.entries import Contents, FileEntry
from kdissect.dataset.rewriting import Rewriting, adopt
from kdissect.dataset.runs import Dataset, contents_in
from kdissect.errors import InvalidArgument

TARGET_SIZE: Final = 128 << 20
# Of a unit: runs wait for it, some seconds.
UNIT_SIZE: Final = 512 << 20


@dataclass
class Compacted:
    """Small files that were merged, or would be, with their bytes; and files that they became."""

    files: int = 0
    size: int = 0
    made: int = 0

    def add(self, files: Sequence[FileEntry]) -> None:
        """Count files that become one."""
        self.files += len(files)
        self.size += sum(one.size for one in files)
        self.made += 1


def compact(
    dataset: str | os.PathLike[str],
    target_size: int = TARGET_SIZE,
    *,
    dry_run: bool = False,
    unit_size: int = UNIT_SIZE,
) -> Compacted:
    """Merge files that are smaller than `target_size` bytes into files of about that size.

    May run beside runs that write to the dataset: they wait for a unit of `unit_size` bytes, and it
    waits for them. Raises KdissectError if there is no dataset, OutputError if another process
    writes to it for a minute, or in a store commits first.
    """
    if target_size < 1 or unit_size < 1:
        raise InvalidArgument("the size of files must be positive")
    done = Compacted()
    contents = contents_in(dataset)
    if dry_run:
        for group in small_files(contents, target_size):
            done.add(group)
        return done
    adopt(dataset)
    while True:
        with Dataset(dataset, is_upkeep=True) as opened:
            groups = [*within(small_files(opened.contents, target_size), unit_size)]
            if not groups:
                return done
            rewriting = Rewriting(opened, "compact")
            for group in groups:
                rewriting.rewrite(group)
            rewriting.commit()
        for group in groups:
            done.add(group)


def small_files(contents: Contents, target_size: int) -> Iterator[list[FileEntry]]:
    """Groups of two or more final files of a partition that together have about a size.

    What one pass makes is not merged again by the next: only its last file may be smaller.
    """
    files = [
        file
        for tap in contents.taps
        for file in tap.files
        if not file.is_open and not file.is_nameless and file.size < target_size
    ]
    for _, partition in groupby(sorted(files, key=lambda one: one.path), partition_of):
        group: list[FileEntry] = []
        for file in partition:
            if group and sum(one.size for one in group) + file.size > target_size:
                if len(group) > 1:
                    yield group
                group = []
            group.append(file)
        if len(group) > 1:
            yield group


def partition_of(file: FileEntry) -> str:
    """Directory of a file: its table, day and tap."""
    return str(PurePosixPath(file.path).parent)


def within(groups: Iterator[list[FileEntry]], unit_size: int) -> Iterator[list[FileEntry]]:
    """The first groups up to a size in all, at least one."""
    total = 0
    for group in groups:
        size = sum(one.size for one in group)
        if total and total + size > unit_size:
            return
        total += size
        yield group
