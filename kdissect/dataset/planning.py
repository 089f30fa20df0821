"""Planning of a run: captures that are not in the dataset yet → splits of taps."""

import errno
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from kdissect.capture.capture_file import NO_PACKET_NS
from kdissect.capture.rotation import chains
from kdissect.capture.splits import Split, are_in_turn, plan_file
from kdissect.dataset.entries import NO_DATE, CaptureEntry, FileEntry, Manifest, TapEntry
from kdissect.dataset.storage import remember, seen
from kdissect.dataset.storage_captures import local_copy
from kdissect.dataset.taps import Broken, Tap, short_name
from kdissect.errors import CaptureError, KdissectError
from kdissect.tables.ids import LARGEST_TAP

# Each split boundary costs 0.5 to 3 MB of boundary state, independent of the split size.
SPARK_SPLIT_SIZE: Final = 256 << 20


class Inspected(NamedTuple):
    """A readable capture, with its splits as if it were the only one."""

    entry: CaptureEntry
    splits: tuple[Split, ...]


class Work(NamedTuple):
    """A tap with new captures.

    `tap` has all its captures, the new ones last; its files are those that stay, its state is the
    one after the captures already in the dataset. `splits` are to be dissected; empty for a tap
    that one task reads as a whole. `nameless` are files whose topics may have names now.
    """

    tap: TapEntry
    splits: tuple[Split, ...]
    nameless: tuple[FileEntry, ...] = ()

    @property
    def paths(self) -> list[str]:
        """The captures, indexed by `Split.capture`."""
        return [capture.path for capture in self.tap.captures]

    @property
    def dates(self) -> list[str]:
        """The UTC day on which each capture begins."""
        return [date_of(capture.first_time_ns) for capture in self.tap.captures]


Inspect: TypeAlias = Callable[[Sequence[str]], list[Inspected | Broken]]


def inspect_capture(
    path: str, split_size: int = SPARK_SPLIT_SIZE, stores: tuple[str, ...] = ()
) -> Inspected | Broken:
    """Read a capture once for its sha256, and once to split it."""
    for one in stores:
        remember(one)
    size, modified_ns = seen(path)
    try:
        with local_copy(path) as copy:
            digest = sha256_of(Path(copy))
            splits, packets = plan_file(path, split_size, copy)
            first_time_ns = chains([copy])[0].first_time_ns
        if seen(path) != (size, modified_ns):
            return Broken(path, f"{path}: is being written; it is read when that is over")
    except (CaptureError, OSError) as error:
        return Broken(path, str(error), size, modified_ns)
    count = len(splits)
    entry = CaptureEntry(path, digest, size, modified_ns, first_time_ns, packets, count)
    return Inspected(entry, tuple(splits))


def sha256_of(path: Path) -> str:
    """sha256 of a regular file's content; OSError for others, which may block or never end."""

    def opened(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)

    with open(path, "rb", buffering=0, opener=opened) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return hashlib.file_digest(file, "sha256").hexdigest()


def unread(paths: Iterable[str], manifest: Manifest) -> list[str]:
    """Files that are not in the dataset, judged by path, size and modification time."""
    known = manifest.files()
    return [path for path in paths if (path, *seen(path)) not in known]


def plan_taps(taps: Sequence[Tap], manifest: Manifest, inspect: Inspect) -> "Planned":
    """Plan the work that brings all captures of the taps into the dataset."""
    new = unread((path for tap in taps for path in tap.paths), manifest)
    planned = Planned([], [], set(), [])
    known = {capture.sha256 for tap in manifest.taps for capture in tap.captures}
    found: dict[str, Inspected] = {}
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
        if added:
            try:
                planned.works.append(_plan_tap(tap, added, manifest, planned, inspect))
            except CaptureError as error:
                planned.failed.append(Failed(tap.name, str(error)))
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
    failed: list[Failed]


def _plan_tap(
    tap: Tap, added: list[Inspected], manifest: Manifest, planned: Planned, inspect: Inspect
) -> Work:
    entry = manifest.tap(tap.chain)
    if entry is None:
        number = max([manifest.next_tap, *(work.tap.number + 1 for work in planned.works)])
        if number > LARGEST_TAP:
            raise KdissectError(f"a dataset has {LARGEST_TAP + 1} taps at the most")
        taken = {one.name for one in [*manifest.taps, *(work.tap for work in planned.works)]}
        return _fresh(TapEntry(free_name(tap, taken), tap.chain, number, -1), added)
    # Also when a ring buffer has wrapped: data of its files stays in the dataset.
    if entry.state and (grown := _grown(entry, added)) is not None:
        return grown
    return _again(entry, added, inspect)


def free_name(tap: Tap, taken: set[str]) -> str:
    """An unused name for a new tap: with more of its path on a collision."""
    names = [tap.name, *(short_name(tap.chain, depth) for depth in range(1, 9)), tap.chain]
    return next((name for name in names if name not in taken), tap.chain)


def _grown(entry: TapEntry, added: list[Inspected]) -> Work | None:
    """Work for new captures after the existing ones, None if they are not later."""
    splits = placed(added, len(entry.captures), sum(one.packets for one in entry.captures))
    earliest = min((split.earliest_ns for split in splits if split.earliest_ns >= 0), default=-1)
    if not are_apart(splits) or 0 <= earliest < entry.latest_ns:
        return None
    tap = TapEntry(
        entry.name,
        entry.chain,
        entry.number,
        max(entry.latest_ns, *(split.latest_ns for split in splits)),
        [*entry.captures, *(one.entry for one in added)],
        entry.state,
        [file for file in entry.files if not file.is_open and not file.is_nameless],
    )
    late = [file for file in entry.files if file.is_nameless and not file.is_open]
    return Work(tap, tuple(splits), tuple(late))


def _again(entry: TapEntry, added: list[Inspected], inspect: Inspect) -> Work:
    """Work that reads all captures of a tap again, as the new ones do not follow the others."""
    replaced = {one.entry.path for one in added}
    paths = [capture.path for capture in entry.captures if capture.path not in replaced]
    gone = [path for path in paths if seen(path)[0] < 0]
    gone += [path for path, count in Counter(paths).items() if count > 1]  # overwritten
    before = [] if gone else inspect(paths)
    digests = {capture.path: capture.sha256 for capture in entry.captures}
    gone += [
        one.entry.path
        for one in before
        if isinstance(one, Inspected) and one.entry.sha256 != digests[one.entry.path]
    ]
    if gone:
        raise CaptureError(
            f"{added[0].entry.path}: is not later than all of tap {entry.name} that the dataset "
            f"has, so all its captures are needed again, but there is no {gone[0]} as it was"
        )
    broken = [one.message for one in before if isinstance(one, Broken)]
    if broken:
        raise CaptureError(f"tap {entry.name} has to be read again: {broken[0]}")
    every = sorted(
        [*(one for one in before if isinstance(one, Inspected)), *added],
        key=lambda one: (one.entry.first_time_ns, one.entry.path),
    )
    return _fresh(TapEntry(entry.name, entry.chain, entry.number, -1), every)


def _fresh(tap: TapEntry, captures: list[Inspected]) -> Work:
    tap.captures = [one.entry for one in captures]
    splits = placed(captures, 0, 0)
    tap.latest_ns = max(split.latest_ns for split in splits)
    return Work(tap, tuple(splits) if are_apart(splits) else ())


def placed(captures: Sequence[Inspected], capture: int, packets: int) -> list[Split]:
    """Splits of captures, numbered from `capture` on, with packet numbers from `packets` on."""
    splits = []
    for number, one in enumerate(captures, capture):
        splits += [
            split._replace(capture=number, ordinal=split.ordinal + packets) for split in one.splits
        ]
        packets += one.entry.packets
    return splits


def are_apart(splits: Sequence[Split]) -> bool:
    """Return whether splits can be dissected independently: uncompressed files in order of time."""
    return all(split.layout is not None for split in splits) and are_in_turn(splits)


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
