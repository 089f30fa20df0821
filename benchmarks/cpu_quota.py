"""Processes that may use a share of a core each: control groups with a quota, so it needs root.

So several workers can be measured on a machine with fewer cores than they and the sender would
need: each has a slow core of its own.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PERIOD_US: Final = 10_000
OLDER: Final = Path("/sys/fs/cgroup/cpu")  # the hierarchy of the cpu controller, version 1
UNIFIED: Final = Path("/sys/fs/cgroup")


def hierarchy() -> Path | None:
    """Where groups with a quota can be made; None without the cpu controller, or not as root."""
    for found in (OLDER, UNIFIED):
        is_there = found == OLDER or "cpu" in words(found / "cgroup.subtree_control")
        if is_there and os.access(found, os.W_OK):
            return found
    return None


def words(path: Path) -> list[str]:
    """Words of a file; none if it does not exist."""
    return path.read_text().split() if path.is_file() else []


@contextmanager
def limited(groups: Iterable[Sequence[int]], share: float) -> Iterator[None]:
    """Each group of processes may use this share of a core; without a limit afterwards.

    Raises RuntimeError where the kernel, or the user, has no such groups.
    """
    above = hierarchy()
    if above is None:
        raise RuntimeError("no control groups for CPU quotas can be made here")
    made: list[Path] = []
    try:
        for processes in groups:
            group = above / f"kdissect-bench-{os.getpid()}-{len(made)}"
            group.mkdir()
            made.append(group)
            set_quota(group, share)
            move(processes, group)
        yield
    finally:
        for group in made:
            move(map(int, (group / "cgroup.procs").read_text().split()), above)
            group.rmdir()


def set_quota(group: Path, share: float) -> None:
    """Let a group use a share of a core in each period."""
    quota = round(share * PERIOD_US)
    if group.parent == OLDER:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")


def move(processes: Iterable[int], group: Path) -> None:
    """Move processes, with their threads, to a group; those that have ended are left out."""
    for process in processes:
        try:
            (group / "cgroup.procs").write_text(str(process))
        except ProcessLookupError:
            continue


def by_worker(found: Sequence[int], workers: int) -> list[list[int]]:
    """Processes of `kdissect live`, the first one and its descendants, by worker.

    The first process, which adds counters up, shares the first worker's part.

    >>> by_worker([10], 1)
    [[10]]
    >>> by_worker([10, 11, 12], 2)
    [[11, 10], [12]]
    """
    first, *others = found
    if not others:
        return [[first]]
    groups = [others[number::workers] for number in range(workers)]
    return [[*groups[0], first], *groups[1:]]
