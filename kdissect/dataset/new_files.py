"""Complete captures that are not in a dataset yet, in batches.

An offset has the files of its batch: ``{"batch": 7, "files": [...]}``. So a batch repeated after a
crash has the same files, independent of the directories' contents, and files that were never
planned are found again, as the dataset does not have them.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kdissect.capture.capture_file import NO_PACKET_NS
from kdissect.dataset.complete_files import complete_files
from kdissect.dataset.runs import known_captures
from kdissect.dataset.storage import seen
from kdissect.dataset.taps import first_time_of
from kdissect.errors import CaptureError

BATCH: Final = "batch"
FILES: Final = "files"

Offset = dict[str, Any]
FileT = TypeVar("FileT")


class File(NamedTuple):
    """A file as it was when it was inspected."""

    path: str
    size: int
    modified_ns: int


class NewFiles:
    """Yields each file once in its lifetime; the next instance retries failed ones."""

    def __init__(
        self, sources: Sequence[str], dataset: str, tap: str | None, quiet_s: float, max_bytes: int
    ) -> None:
        self.sources = sources
        self.dataset = dataset
        self.tap = tap
        self.quiet_s = quiet_s
        self.max_bytes = max_bytes
        self.given: set[File] = set()
        # Of each path its tap, and of each tap the last batch that has files of it.
        self.taps: dict[str, str] = {}
        self.served: dict[str, int] = {}
        self.frozen: list[File] | None = None

    def freeze(self) -> None:
        """Fix the set of files; later ones are left to another run."""
        self.frozen = self.new_files()

    def next_batch(self, start: Offset) -> Offset:
        """Offset after the next batch, or `start` if there is nothing to do."""
        new = self.new_files() if self.frozen is None else self.frozen
        taps = [self.taps.get(file.path, "") for file in new]
        taken = within(in_turn_of_taps(new, taps, self.served), self.max_bytes)
        if not taken:
            return start
        self.given.update(taken)
        for file in taken:
            self.served[self.taps.get(file.path, "")] = start[BATCH] + 1
        if self.frozen is not None:
            self.frozen = [file for file in self.frozen if file not in self.given]
        return {BATCH: start[BATCH] + 1, FILES: [file.path for file in taken]}

    def new_files(self) -> list[File]:
        """Complete files that are neither in the dataset nor yielded before, by first packet."""
        found = complete_files(self.sources, self.tap, self.quiet_s, time.time())
        self.taps = {path: tap.chain for tap in found.taps for path in tap.paths}
        paths = [path for tap in found.taps for path in tap.paths]
        good = sorted((File(path, *seen(path)) for path in paths), key=first_time)
        files = [*good, *(File(one.path, *seen(one.path)) for one in found.broken)]
        known = known_captures(self.dataset)
        self.given.intersection_update(files)
        return [file for file in files if file not in known and file not in self.given]


def first_offset() -> Offset:
    """Offset before the first batch."""
    return {BATCH: 0, FILES: []}


def in_turn_of_taps(
    files: Sequence[FileT], taps: Sequence[str], served: Mapping[str, int]
) -> list[FileT]:
    """The first file of each tap, then the second of each, and so on; else in the given order.

    Taps that were `served` by an earlier batch come first. So no tap has to wait for another one
    that has more, or larger, files than are processed in time.
    """
    ranks: Counter[str] = Counter()
    order = []
    for number, tap in enumerate(taps):
        order.append((ranks[tap], served.get(tap, 0), number))
        ranks[tap] += 1
    return [files[number] for _, _, number in sorted(order)]


def first_time(file: File) -> int:
    """Time of its first packet; the maximum if the file has vanished."""
    try:
        return first_time_of(*file)
    except CaptureError:
        return NO_PACKET_NS


def within(files: Sequence[File], max_bytes: int) -> list[File]:
    """The first files up to `max_bytes` in total, or the first one."""
    taken: list[File] = []
    total = 0
    for file in files:
        total += file.size
        if taken and total > max_bytes:
            break
        taken.append(file)
    return taken
