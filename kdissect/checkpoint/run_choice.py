"""Decides whether one process reads captures, or several share the work."""

import os
from collections.abc import Sequence
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kdissect.capture.capture_file import STDIN
from kdissect.capture.files import Source, is_pipe, listed, open_captures
from kdissect.capture.speculative_splits import Look, guess_splits, look_at
from kdissect.capture.splits import Split, are_in_turn, plan
from kdissect.checkpoint.worker_pool import WorkerPool, is_worthwhile, wanted_jobs
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import flow_of
from kdissect.pipeline import Options, Run

if TYPE_CHECKING:
    from kdissect.checkpoint.jobs_run import JobsRun

SMALLEST_SPLIT: Final = 16 << 20
LARGEST_SPLIT: Final = 512 << 20
SMALLEST_PACKETS: Final = 512 << 10
LARGEST_PACKETS: Final = 1 << 20
# Of the first packets, this many have at most so many flows, two a connection. An open connection
# costs 0.1 ms at each edge of a split, so with thousands a second process saves nothing.
SAMPLED_PACKETS: Final = 8192
MOST_FLOWS: Final = 1000
# What the process that merges does besides, as a share of a split.
MERGING: Final = 0.25


def make_run(
    source: Source | Sequence[Source], options: Options, pool: WorkerPool | None = None
) -> "Run | JobsRun":
    """Return a run over the captures: in several processes for files that are large and in turn.

    `pool` are such processes; processes that are not needed end.
    """
    run = None
    try:
        run = shared_run(source, options, pool)
    finally:
        if run is None and pool is not None:
            pool.close()
    return Run(source, options) if run is None else run


def shared_run(
    source: Source | Sequence[Source], options: Options, pool: WorkerPool | None
) -> "JobsRun | None":
    """Return a run in several processes, None if one has to do it."""
    jobs = wanted_jobs(options.jobs)
    if jobs < 2 or options.strict:
        return None
    paths = file_paths(source)
    look = look_at(paths[0]) if paths else None
    if look is None:
        return None
    total = sum(Path(path).stat().st_size for path in paths)
    if not is_worthwhile(total // look.packet_size, options.jobs):
        return None
    if not options.jobs and has_many_connections(paths[0]):
        return None
    # Imports for several processes would cost a single one a tenth of its start-up.
    from kdissect.checkpoint.jobs_run import JobsRun

    splits = find_splits(paths, look, total, jobs)
    return JobsRun(paths, splits, options, pool or WorkerPool(jobs - 1)) if splits else None


def has_many_connections(path: str) -> bool:
    """Return whether so many connections are open at a time that edges of splits are expensive."""
    decoder, flows = PacketDecoder(), set()
    with open_captures(path) as capture:
        for packet in islice(chain.from_iterable(capture), SAMPLED_PACKETS):
            segment = decoder.decode(packet)
            if segment is not None:
                flows.add(bytes(flow_of(segment)))
    return len(flows) > MOST_FLOWS


def find_splits(paths: Sequence[str], look: Look, total: int, jobs: int) -> list[Split]:
    """Splits of the files; none if they cannot be split, or overlap in time."""
    sizes = split_sizes(total, look.packet_size, jobs)
    if len(sizes) < 2:
        return []
    if len(paths) == 1:
        splits = guess_splits(paths[0], look, list(accumulate(sizes))[:-1])
        if len(splits) > 1:
            return splits
    splits = plan(paths, max(sizes))
    if len(splits) < 2 or any(split.layout is None and split.end for split in splits):
        return []
    return splits if are_in_turn(splits) else []


def file_paths(source: Source | Sequence[Source]) -> list[str]:
    """Paths of the captures in the order of their first packets; none if some have no path."""
    for one in listed(source):
        # A pipe can be opened only once, and not here.
        if not isinstance(one, str | os.PathLike) or os.fspath(one) == STDIN or is_pipe(one):
            return []
    with open_captures(source) as capture:
        names = capture.names
    return names if all(Path(name).is_file() for name in names) else []


def split_sizes(total: int, packet_size: int, jobs: int) -> list[int]:
    """Sizes of the splits in bytes, in order.

    One for each process if there is little to do, the first larger, as the process that begins it
    merges the others. Otherwise smaller towards the end, where processes would wait for the one
    with the last. Large, as an edge costs about a message of each connection; but with a bound on
    packets, as rows are made of packets and wait in memory, or on disk, for those before them.
    """
    smallest = max(SMALLEST_SPLIT, min(LARGEST_SPLIT, SMALLEST_PACKETS * packet_size))
    largest = max(smallest, min(LARGEST_SPLIT, LARGEST_PACKETS * packet_size))
    if total < 2 * jobs * smallest:
        count = max(1, min(jobs, total // smallest))
        size = int(total / (count + MERGING)) if count > 1 else total
        return [total - size * (count - 1)] + [size] * (count - 1)
    sizes = []
    while total > 0:
        size = max(smallest, min(largest, total // (jobs * 2)))
        if total < 2 * smallest:
            size = total if total < smallest * 3 // 2 else -(-total // 2)
        sizes.append(size)
        total -= size
    return sizes
