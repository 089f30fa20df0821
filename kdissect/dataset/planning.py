"""Planning of a run: captures that are not in the dataset yet → splits of taps."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, cast

from kdissect.capture.capture_file import NO_PACKET_NS, CaptureFile
from kdissect.capture.packet import SECOND_NS
from kdissect.capture.rotation import certain_turns, chains
from kdissect.capture.scanner import Scanner
from kdissect.capture.splits import Split, are_in_turn, plan_file
from kdissect.dataset.entries import (
    NO_DATE,
    CaptureEntry,
    Contents,
    FileEntry,
    TapEntry,
    partition_name,
)
from kdissect.dataset.storage import remember, seen
from kdissect.dataset.storage_captures import local_copy
from kdissect.dataset.taps import Broken, Tap
from kdissect.errors import CaptureError, KdissectError
from kdissect.streams.clock import STEP_NS
from kdissect.tables.ids import LARGEST_TAP

# Each split boundary costs 0.5 to 3 MB of boundary state, independent of the split size.
SPARK_SPLIT_SIZE: Final = 256 << 20
# By how much the next capture of a tap may begin before the end of those before it: clocks that are
# set while a capture is rotated, and captures that were begun before another one was ended.
LONGEST_OVERLAP_NS: Final = 10 * SECOND_NS


class Inspected(NamedTuple):
    """A readable capture, with its splits as if it were the only one."""

    entry: CaptureEntry
    splits: tuple[Split, ...]


class Work(NamedTuple):
    """A tap with new captures.

    `tap` has all its captures, those from number `first` on are new, and the last `late` of them
    are dissected alone, as later ones are in the dataset. The others continue its state: as
    `splits`, or in one pass where there are none. The tap's files are those that stay, except
    `was_open`: rows open at the end of the state. `nameless` are files whose topics may have names
    now. `packets` were in the captures before the new ones. Of the captures, the first `left_out`
    are missing in a work that was made for a task, see `for_task`.
    """

    tap: TapEntry
    splits: tuple[Split, ...]
    nameless: tuple[FileEntry, ...] = ()
    first: int = 0
    late: int = 0
    was_open: tuple[FileEntry, ...] = ()
    packets: int = 0
    left_out: int = 0

    @property
    def paths(self) -> list[str]:
        """The captures, indexed by `Split.capture`; "" for those that are left out."""
        return [""] * self.left_out + [capture.path for capture in self.tap.captures]

    @property
    def dates(self) -> list[str]:
        """The UTC day on which each capture begins."""
        days = [date_of(capture.first_time_ns) for capture in self.tap.captures]
        return [NO_DATE] * self.left_out + days

    @property
    def new(self) -> list[CaptureEntry]:
        """The new captures."""
        return self.tap.captures[self.first - self.left_out :]

    @property
    def following(self) -> range:
        """Numbers of the captures that continue the state."""
        return range(self.first, self.first + len(self.new) - self.late)

    @property
    def alone(self) -> range:
        """Numbers of the captures that are too late for that."""
        end = self.first + len(self.new)
        return range(end - self.late, end)

    def for_task(self) -> "Work":
        """The same without the history of the tap, which no task needs.

        Its size depends on the new captures, and on those that open connections began in.
        """
        left_out = max(0, min(self.tap.oldest, self.first)) if self.tap.state else self.first
        captures = self.tap.captures[left_out - self.left_out :]
        tap = replace(self.tap, captures=captures, files=[], balance={}, closed={})
        return self._replace(tap=tap, was_open=(), left_out=left_out)


# Of a larger capture only samples are hashed: reading all of it is as dear as dissecting it.
HASHED_WHOLE: Final = 16 << 20
SAMPLES: Final = 64
SAMPLE_BYTES: Final = 64 << 10
SAMPLED: Final = "sampled:"  # begins such an identity

Inspect: TypeAlias = Callable[[Sequence[str]], list[Inspected | Broken]]


def inspect_capture(
    path: str,
    split_size: int = SPARK_SPLIT_SIZE,
    stores: tuple[str, ...] = (),
    *,
    full_hash: bool = False,
) -> Inspected | Broken:
    """Read a capture to split it and to count its packets, and hash its content, or samples."""
    for one in stores:
        remember(one)
    size, modified_ns = seen(path)
    try:
        with local_copy(path) as copy:
            splits, packets = plan_file(path, split_size, copy)
            if packets < 0:
                splits, packets = count_packets(splits[0], copy)
            first_time_ns = chains([copy])[0].first_time_ns
            if full_hash or size <= HASHED_WHOLE:
                digest = sha256_of(Path(copy))
            else:
                digest = samples_of(Path(copy), packets, first_time_ns)
        if seen(path) != (size, modified_ns):
            return Broken(path, f"{path}: is being written; it is read when that is over")
    except (CaptureError, OSError) as error:
        return Broken(path, str(error), size, modified_ns)
    count = len(splits)
    entry = CaptureEntry(path, digest, size, modified_ns, first_time_ns, packets, count)
    return Inspected(entry, tuple(splits))


def count_packets(split: Split, copy: str) -> tuple[list[Split], int]:
    """The split of a compressed capture with the times of its packets, and their number."""
    file = CaptureFile(copy, split.path)
    try:
        file.open()
        scanner = cast("Scanner", file.scanner)
        scanner.counts_only = True
        while file.read() is not None:
            pass
    finally:
        file.close()
    if scanner.latest_ns >= 0:
        split = split._replace(earliest_ns=scanner.earliest_ns, latest_ns=scanner.latest_ns)
    return [split], int(scanner.number)


def sha256_of(path: Path) -> str:
    """sha256 of a regular file's content; OSError for others, which may block or never end."""

    def opened(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)

    with open(path, "rb", buffering=0, opener=opened) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return hashlib.file_digest(file, "sha256").hexdigest()


def samples_of(path: Path, packets: int, first_time_ns: int) -> str:
    """Identity of a large capture: by its size, packets, first time and samples of its content."""
    made = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        for number in range(SAMPLES):
            file.seek((size - SAMPLE_BYTES) * number // (SAMPLES - 1))
            made.update(file.read(SAMPLE_BYTES))
    made.update(f"{size} {packets} {first_time_ns}".encode())
    return SAMPLED + made.hexdigest()


def unread(paths: Iterable[str], contents: Contents) -> list[str]:
    """Files that are not in the dataset, judged by path, size and modification time."""
    known = contents.files()
    return [path for path in paths if (path, *seen(path)) not in known]


def plan_taps(taps: Sequence[Tap], contents: Contents, inspect: Inspect) -> "Planned":
    """Plan the work that brings all captures of the taps into the dataset."""
    new = unread((path for tap in taps for path in tap.paths), contents)
    planned = Planned([], [], set())
    known = {capture.sha256 for tap in contents.taps for capture in tap.captures}
    found: dict[str, Inspected] = {}
    named = chains_by_name(taps, contents)
    for path, one in zip(new, inspect(new), strict=True):
        if isinstance(one, Broken):
            planned.broken.append(one)
            continue
        planned.read.add(path)
        if one.entry.sha256 not in known:
            known.add(one.entry.sha256)
            found[path] = one
    for tap in taps:
        added = [found[path] for path in tap.paths if path in found]
        if added and (other := other_tap(tap, named, contents)):
            text = (
                f"another tap is called {tap.name} ({other}): give a pattern that names taps, or a "
                "directory or glob that has both"
            )
            planned.broken.extend(Broken(one.entry.path, text) for one in added)
            planned.read.difference_update(one.entry.path for one in added)
        elif added:
            planned.works.append(_plan_tap(tap, added, contents, planned))
    return planned


class Failed(NamedTuple):
    """A tap that could not be continued, and why; its data in the dataset is unchanged."""

    tap: str
    message: str


class Planned(NamedTuple):
    """Taps with work to do, unreadable captures, and the paths of readable ones."""

    works: list[Work]
    broken: list[Broken]
    read: set[str]


def _plan_tap(tap: Tap, added: list[Inspected], contents: Contents, planned: Planned) -> Work:
    entry = contents.tap(tap.chain)
    if entry is None:
        number = max([contents.next_tap, *(work.tap.number + 1 for work in planned.works)])
        if number > LARGEST_TAP:
            raise KdissectError(f"a dataset has {LARGEST_TAP + 1} taps at the most")
        entry = TapEntry(tap.name, tap.chain, number, -1)
    return continued(entry, added)


def chains_by_name(taps: Sequence[Tap], contents: Contents) -> dict[str, list[str]]:
    """Files of all taps by the names of their partitions: first of those in the dataset."""
    named: dict[str, list[str]] = {}
    every = [(one.name, one.chain) for one in contents.taps]
    for name, chain in [*every, *((one.name, one.chain) for one in taps)]:
        named.setdefault(partition_name(name), []).append(chain)
    return named


def other_tap(tap: Tap, named: Mapping[str, Sequence[str]], contents: Contents) -> str:
    """Files of another tap that has the name of this one, "" for none.

    A tap that the dataset has keeps its name.
    """
    if contents.tap(tap.chain) is not None:
        return ""
    same = named[partition_name(tap.name)]
    return next((chain for chain in same if chain != tap.chain), "")


def continued(entry: TapEntry, added: Sequence[Inspected]) -> Work:
    """Work that continues a tap with more captures; earlier ones are not needed for it.

    Also when a ring buffer has wrapped: data of its files stays in the dataset.
    """
    following: list[Inspected] = []
    late: list[Inspected] = []
    for one in added:
        (late if is_late(entry, one.entry, one.splits) else following).append(one)
    count = len(entry.captures)
    segment = count + len(following)
    captures = [
        *entry.captures,
        *(one.entry for one in following),
        *(replace(one.entry, segment=segment) for one in late),
    ]
    tap = replace(entry, captures=captures)
    if not following:
        return Work(tap, (), first=count, late=len(late), packets=entry.packets)
    splits = placed(following, count, entry.packets)
    tap.files = [file for file in entry.files if not file.is_open and not file.is_nameless]
    return Work(
        tap,
        tuple(splits) if are_apart(splits, [capture.path for capture in tap.captures]) else (),
        tuple(file for file in entry.files if file.is_nameless and not file.is_open),
        count,
        len(late),
        tuple(file for file in entry.files if file.is_open),
        entry.packets,
    )


def placed(captures: Sequence[Inspected], capture: int, packets: int) -> list[Split]:
    """Splits of captures, numbered from `capture` on, with packet numbers from `packets` on."""
    splits = []
    for number, one in enumerate(captures, capture):
        splits += [
            split._replace(capture=number, ordinal=split.ordinal + packets) for split in one.splits
        ]
        packets += one.entry.packets
    return splits


def are_apart(splits: Sequence[Split], paths: Sequence[str]) -> bool:
    """Return whether splits whose packets were counted can be dissected independently.

    This holds when their files follow each other: by time, or because the names of all `paths` of
    the tap show it, by which one pass reads them too.
    """
    return are_in_turn(splits) or certain_turns(paths) is not None


def is_late(entry: TapEntry, capture: CaptureEntry, splits: Sequence[Split]) -> bool:
    """Return whether a capture is from before the end of those that its tap has already.

    It may overlap with them a little, and does not count as late if it is the last one by its name.
    """
    if entry.latest_ns < 0 or capture.first_time_ns == NO_PACKET_NS:
        return False
    latest_ns = max(split.latest_ns for split in splits)
    is_past = latest_ns < entry.latest_ns - STEP_NS
    is_past |= capture.first_time_ns < entry.latest_ns - LONGEST_OVERLAP_NS
    return is_past and not is_last_by_name(entry, capture.path)


def is_last_by_name(entry: TapEntry, path: str) -> bool:
    """Return whether names show that one tap wrote this file after all others of it."""
    turns = certain_turns([*(capture.path for capture in entry.captures), path])
    return turns is not None and turns[-1] == max(turns)


def date_of(time_ns: int) -> str:
    """UTC day, as partitions are named.

    >>> date_of(1_700_000_000_000_000_000)
    '2023-11-14'
    """
    if time_ns in (-1, NO_PACKET_NS):
        return NO_DATE
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).date().isoformat()


def groups_of(splits: Sequence[Split], size: int) -> Iterator[range]:
    """Group consecutive splits up to `size` bytes; a larger split is a group of its own."""
    first, total = 0, 0
    for number, split in enumerate(splits):
        length = split.end - split.start
        if total and total + length > size:
            yield range(first, number)
            first, total = number, 0
        total += length
    if splits:
        yield range(first, len(splits))
