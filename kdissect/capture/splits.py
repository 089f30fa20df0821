"""Divide captures into byte ranges that other processes or machines can read independently.

`plan` finds the boundaries: at the start of records, with the context from before them that the
rest depends on. It reads each file once with the scanner used for packets, in counting mode, so
both treat corruption alike. `read_split` yields the packets of one split exactly as in the whole:
times, numbers, ordinals, and the problems, each in one split only.

Compressed files and pipes can be read from their beginning only: each is one split. Longer than
other modules: the index pass and the splits it yields share its counts.
"""

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from kdissect.capture.blocks import Secrets
from kdissect.capture.capture_file import (
    CHUNK_SIZE,
    STDIN,
    CaptureFile,
    capture_error,
    empty_file,
    is_regular,
)
from kdissect.capture.format_context import Layout, PcapLayout, SectionLayout
from kdissect.capture.merge import number_packets
from kdissect.capture.packet import Packet
from kdissect.capture.pcap import PcapScanner
from kdissect.capture.pcapng import PcapngScanner
from kdissect.capture.rotation import EDGE_NS, are_of_one_tap
from kdissect.capture.scanner import LATEST_NS
from kdissect.errors import CaptureError, Problem, TruncatedCapture, UnknownCaptureFormat

# Large enough to make the cost of starting a split negligible, small enough that 1 GB keeps 16
# cores busy.
SPLIT_SIZE: Final = 64 << 20
# `Split.end` of a pipe.
UNKNOWN_END: Final = -1

AnyScanner: TypeAlias = PcapScanner | PcapngScanner


class Split(NamedTuple):
    """The packets whose records start in the bytes `start` to `end` of a file; can be pickled.

    `capture` is the index of the file among those planned. `number` and `ordinal` are those of the
    next packet (see `Packet`), or would be if no other block that Wireshark numbers came before it;
    the last packet before it had the time `last_time_ns`, -1 when there is none. Ordinals count
    from the first packet of file `counted_from`: that is 0, unless a compressed file or a pipe
    comes before, whose packets have not been counted. All times of the packets are from
    `earliest_ns` to `latest_ns`, both -1 if there are none or they were not read.

    `layout` is the context from the bytes before `start`: link type, clock, byte order, snaplen,
    and for pcapng interfaces and secrets; None: the split is a whole file. A pipe's `end` is -1,
    that of a file whose header is not written yet 0. A truncated record at the end of a file
    belongs to its last split.

    A split that is not `is_counted` is speculative (see `speculative_splits`): number and ordinal
    are larger than those of all splits before it, but by too much; and its end may turn out not to
    be a record boundary.
    """

    path: str
    capture: int
    start: int
    end: int
    is_last: bool
    number: int
    ordinal: int
    counted_from: int
    last_time_ns: int = -1
    earliest_ns: int = -1
    latest_ns: int = -1
    layout: Layout | None = None
    is_counted: bool = True


class Reached(NamedTuple):
    """Position where reading a split ended: the next record (-1: none starts) and its context.

    `ordinal` and `number` are those of the next packet.
    """

    offset: int
    layout: Layout
    number: int
    ordinal: int


def plan(paths: Iterable[str | os.PathLike[str]], size: int = SPLIT_SIZE) -> list[Split]:
    """Splits of about `size` bytes of each file, in order; the files follow each other as given.

    Where the files overlap in time, `open_captures` merges their packets by time; the splits do
    not (see `are_in_turn`). Raises `CaptureError` as `open_captures` does for missing files and
    files that are not captures.
    """
    return list(iter_splits(paths, size))


def iter_splits(paths: Iterable[str | os.PathLike[str]], size: int = SPLIT_SIZE) -> Iterator[Split]:
    """The splits of `plan`, each as soon as its end is known."""
    if size < 1:
        raise ValueError(f"splits of {size} bytes")
    names = [os.fspath(path) for path in paths]
    ordinal = 1
    counted_from = 0
    for capture, name in enumerate(names):
        whole = Split(name, capture, 0, UNKNOWN_END, True, 1, ordinal, counted_from)
        cut = _cut(whole, size, len(names) == 1)
        ordinal = yield from cut
        if ordinal < 0:
            ordinal = 1
            counted_from = capture + 1


def plan_file(
    path: str, size: int = SPLIT_SIZE, copy: str | None = None
) -> tuple[list[Split], int]:
    """Splits of one file as if it were the first, and its number of packets, -1 if unknown.

    If other files come before it, capture and ordinals have to be shifted by theirs. `copy` is
    where the bytes of `path` are, if that is not a local file.
    """
    splits = []
    cut = _cut(Split(path, 0, 0, UNKNOWN_END, True, 1, 1, 0), size, True, copy)
    while True:
        try:
            splits.append(next(cut))
        except StopIteration as end:
            return splits, max(-1, end.value - 1)


def plan_from(split: Split, end: int, size: int = SPLIT_SIZE) -> list[Split]:
    """Splits of a file from the start of a split up to `end`, found by reading it."""
    scanner = _resume(split)
    scanner.counts_only = True
    whole = split._replace(end=end, is_last=True)

    def reads() -> Iterator[int]:
        at = whole.start
        for data in _read_bytes(whole, min(size, CHUNK_SIZE)):
            scanner.feed(data)
            at += len(data)
            yield at

    return list(_cut_reads(whole, scanner, reads(), size))


def are_in_turn(splits: Sequence[Split]) -> bool:
    """Return whether the splits in sequence yield the same as `open_captures` does for their files.

    This holds when no file starts before those before it end, by more than EDGE_NS where they are
    of one tap, and files without packets come last. For several compressed files, or pipes, it is
    unknown unless their times were added.
    """
    latest_ns = -1
    early_ns = EDGE_NS if are_of_one_tap({split.path for split in splits}) else 0
    times: dict[int, tuple[int, int]] = {}
    for split in splits:
        earliest_ns, so_far_ns = times.get(split.capture, (LATEST_NS, -1))
        if split.earliest_ns >= 0:
            earliest_ns = min(earliest_ns, split.earliest_ns)
        times[split.capture] = earliest_ns, max(so_far_ns, split.latest_ns)
    if len(times) > 1 and any(_is_unread(split) for split in splits):
        return False
    for earliest_ns, file_latest_ns in times.values():
        if earliest_ns < latest_ns - early_ns:
            return False
        latest_ns = max(latest_ns, file_latest_ns) if file_latest_ns >= 0 else LATEST_NS
    return True


def read_split(
    split: Split, chunk_size: int = CHUNK_SIZE, copy: str | None = None
) -> "SplitReader":
    """Reader of a split's packets; `copy` is where its bytes are, if not at its path."""
    return SplitReader(split, chunk_size, copy)


class SplitReader:
    """Iterates over the packets of a split as lists, once; `problems` is drained by the caller.

    With `counts_only` the packets of a part of a file are only counted, and no list is returned.
    Raises `CaptureError` when the file cannot be read, or is no longer the one that was planned.
    """

    def __init__(
        self,
        split: Split,
        chunk_size: int = CHUNK_SIZE,
        copy: str | None = None,
        counts_only: bool = False,
    ) -> None:
        self.split = split
        self.counts_only = counts_only
        self.source = split.path if copy is None else copy
        self.problems: list[Problem] = []
        # Contents of the Decryption Secrets blocks of the file up to the current position.
        self.secrets: Sequence[Secrets] = ()
        # Set when all was read; not for a whole file.
        self.reached: Reached | None = None
        self._chunk_size = chunk_size

    def __iter__(self) -> Iterator[list[Packet]]:
        batches = self._read_whole() if self.split.layout is None else self._read_range()
        for batch in batches:
            if batch:
                yield batch

    def take_problems(self) -> list[Problem]:
        """The problems met since the last call."""
        taken, self.problems = self.problems, []
        return taken

    def _read_whole(self) -> Iterator[list[Packet]]:
        split = self.split
        source = sys.stdin.buffer if self.source == STDIN else self.source
        file = CaptureFile(source, split.path, self._chunk_size)
        ordinal = split.ordinal
        try:
            file.start(split.capture)
            while (batch := file.read()) is not None:
                number_packets(batch, ordinal)
                ordinal += len(batch)
                self.problems += file.take_problems()
                self.secrets = file.secrets
                yield batch
        except (TruncatedCapture, UnknownCaptureFormat) as error:
            # `plan` raises it unless it is tolerated: one of several files has no beginning.
            self.problems.append(empty_file(error))
        finally:
            file.close()

    def _read_range(self) -> Iterator[list[Packet]]:
        split = self.split
        scanner = _resume(split)
        scanner.counts_only = self.counts_only
        self._take(scanner)
        for data in _read_bytes(split, self._chunk_size, self.source):
            batch = scanner.feed(data)
            self._take(scanner)
            yield batch
        if split.is_last:
            batch = scanner.finish()
            self._take(scanner)
            yield batch
        self.reached = Reached(
            scanner.record_start,
            scanner.layout,
            scanner.number + 1,
            scanner.first_ordinal + scanner.number + 1,
        )
        is_there = split.is_last or scanner.record_start == split.end
        if split.is_counted and not is_there:
            raise CaptureError(f"{split.path}: no longer the file that was cut into splits")

    def _take(self, scanner: AnyScanner) -> None:
        self.problems += scanner.problems
        scanner.problems = []
        if isinstance(scanner, PcapngScanner):
            self.secrets = scanner.secrets


def _cut(
    whole: Split, size: int, is_alone: bool, copy: str | None = None
) -> Generator[Split, None, int]:
    """Yield the splits of one file; return the ordinal of the packet after it, -1 if unknown."""
    source = whole.path if copy is None else copy
    if not is_regular(source):
        yield whole
        return -1
    file = CaptureFile(source, whole.path, min(size, CHUNK_SIZE))
    try:
        file.open()
        if file.size is not None:
            whole = whole._replace(end=file.size)
        scanner = file.scanner
        if not file.is_plain or not isinstance(scanner, AnyScanner):
            yield whole
            return -1
        return (yield from _cut_plain(whole, file, scanner, size))
    except (TruncatedCapture, UnknownCaptureFormat) as error:
        if is_alone or (isinstance(error, UnknownCaptureFormat) and file.size != 0):
            raise
        yield whole._replace(end=0)
        return whole.ordinal
    finally:
        file.close()


def _cut_plain(
    whole: Split, file: CaptureFile, scanner: AnyScanner, size: int
) -> Generator[Split, None, int]:
    """The same for an open file that is neither compressed nor a pipe."""
    scanner.counts_only = True
    scanner.first_ordinal = whole.ordinal - 1
    yield from _cut_reads(whole, scanner, _reads(file), size)
    return scanner.first_ordinal + scanner.number + 1


def _reads(file: CaptureFile) -> Iterator[int]:
    """Read on; return the number of bytes read."""
    while file.read() is not None:
        yield file.bytes_done


def _cut_reads(
    whole: Split, scanner: AnyScanner, reads: Iterator[int], size: int
) -> Iterator[Split]:
    """Splits from a scanner that is fed by `reads`, which yield the progress in bytes."""
    split = whole
    done = whole.start
    for done in reads:  # noqa: B007  # the last is used
        at = scanner.record_start
        if at < 0:
            continue
        if split.layout is None:
            split = split._replace(layout=first_layout(scanner.layout))
        if at - split.start >= size and at < whole.end:
            yield _with_times(split, scanner)._replace(end=at, is_last=False)
            split = split._replace(
                start=at,
                number=scanner.number + 1,
                ordinal=scanner.first_ordinal + scanner.number + 1,
                last_time_ns=scanner.last_time_ns,
                layout=scanner.layout,
            )
    yield _with_times(split, scanner)._replace(end=done)


def _with_times(split: Split, scanner: AnyScanner) -> Split:
    """The split with the time range of the packets since the last one."""
    if scanner.latest_ns < 0:
        return split
    timed = split._replace(earliest_ns=scanner.earliest_ns, latest_ns=scanner.latest_ns)
    scanner.forget_times()
    return timed


def _is_unread(split: Split) -> bool:
    """Return whether the split has not been read for packets."""
    return split.layout is None and split.end != 0 and split.earliest_ns < 0


def first_layout(layout: Layout) -> Layout:
    """Context at the start of a file: in pcapng, only the byte order."""
    if isinstance(layout, PcapLayout):
        return layout
    return SectionLayout(layout.is_big_endian, (), (), 0)


def resumed(layout: Layout | None, capture: int = 0, is_start: bool = False) -> AnyScanner:
    """Scanner of file number `capture`, resumed after the `layout`, or at the very start."""
    scanner: AnyScanner
    if isinstance(layout, PcapLayout):
        scanner = PcapScanner(capture)
        if not is_start:
            scanner.resume(layout)
    else:
        scanner = PcapngScanner(capture)
        if not is_start and layout is not None:
            scanner.resume(layout)
    return scanner


def _resume(split: Split) -> AnyScanner:
    """Scanner in the state it had at the start of the split."""
    scanner = resumed(split.layout, split.capture, split.start == 0)
    scanner.start_at(split.start, split.number, split.ordinal, split.last_time_ns)
    return scanner


def _read_bytes(split: Split, chunk_size: int, source: str | None = None) -> Iterator[bytes]:
    """Read the bytes of a split; raises `CaptureError` when they are missing."""
    try:
        with Path(source or split.path).open("rb", buffering=0) as file:
            file.seek(split.start)
            at = split.start
            while at < split.end:
                data = file.read(min(chunk_size, split.end - at))
                if not data:
                    raise TruncatedCapture(f"{split.path}: now ends at byte {at}, inside a split")
                at += len(data)
                yield data
    except OSError as error:
        raise capture_error(split.path, error) from error
