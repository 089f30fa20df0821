"""Retention: the newest rotations of all runs, up to a number and total bytes."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kdissect.errors import DatasetError
from kdissect.live.files.runs import remove_if_empty
from kdissect.system.confined import Below
from kdissect.tables.rotations import GONE, OPEN, number_of, rotations_in, run_order, runs_in


class Budget:
    """Removes the oldest rotations of a directory; the newest always stays.

    `keep` is a number of rotations, `disk` of bytes; None means unlimited.
    """

    def __init__(self, directory: Path, keep: int | None, disk: int | None) -> None:
        self.directory = directory
        self.keep = keep
        self.disk = disk
        self._sizes: dict[Path, int] = {}

    def apply(self) -> list[Path]:
        """Remove rotations beyond the limits; returns those removed."""
        if self.keep is None and self.disk is None:
            return []
        rotations = oldest_first(self.directory)
        self._sizes = {one: self._sizes.get(one) or size_of(one) for one in rotations}
        gone = rotations[: too_many([self._sizes[one] for one in rotations], self.keep, self.disk)]
        removed = [one for one in gone if remove(self.directory, one)]
        for run in {one.parent for one in removed}:
            if not rotations_in(run):
                remove_if_empty(self.directory, run)
        return removed


def too_many(sizes: Sequence[int], keep: int | None, disk: int | None) -> int:
    """Number of rotations to remove, given their sizes, oldest first.

    >>> too_many([5, 5, 5], 2, None), too_many([5, 5, 5], None, 9), too_many([50], 1, 9)
    (1, 2, 0)
    """
    count = 0 if keep is None else max(0, len(sizes) - max(1, keep))
    left = sum(sizes[count:])
    while disk is not None and left > disk and count < len(sizes) - 1:
        left -= sizes[count]
        count += 1
    return count


def oldest_first(directory: Path) -> list[Path]:
    """Rotations of all runs in order of their begin times."""
    found = [one for run in runs_in(directory) for one in rotations_in(run)]
    return sorted(found, key=rotation_order)


def rotation_order(rotation: Path) -> tuple[str, tuple[str, int], int]:
    """Sort key of a rotation."""
    return rotation.name.partition("-")[2], run_order(rotation.parent), number_of(rotation)


def remove(directory: Path, rotation: Path) -> bool:
    """Remove a rotation, atomically for readers; returns whether that was done."""
    if (rotation.parent / f"{OPEN}{rotation.name}").exists():
        # Its spools go first: if only they remained, it would be made again.
        return False
    run = rotation.parent.name
    gone = f"{run}/{GONE}{rotation.name}"
    try:
        with Below(directory) as below:
            below.rename(f"{run}/{rotation.name}", gone)
            below.remove_tree(gone)
    except (OSError, DatasetError):
        return False
    return True


def size_of(rotation: Path) -> int:
    """Total bytes of its files."""
    with suppress(OSError):
        return sum(file.lstat().st_size for file in rotation.iterdir())
    return 0
