"""Find the next file of a tap that is still being written.

A capture is identified by its name, without a compression suffix, and the time of its first packet:
a file compressed afterwards is the same, one that a ring buffer overwrites is another.
"""

import glob
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.capture.capture_file import NO_PACKET_NS, CaptureFile
from kdissect.capture.rotation import COMPRESSION, chain_name, first_time_of, turn_of
from kdissect.errors import CaptureError, Problem

MAX_REMEMBERED: Final = 10_000  # of deleted files, the oldest are dropped first
HEAD_SIZE: Final = 1 << 16  # bytes read to find the first packet


class Version(NamedTuple):
    """Identity of a capture: name without a compression suffix, and first packet."""

    name: str
    first_time_ns: int


class RotatedFile(NamedTuple):
    """A file to be read; sorted by time, and then by the number in the name."""

    first_time_ns: int
    turn: int
    path: str

    @property
    def version(self) -> Version:
        """Identity of the file."""
        return Version(COMPRESSION.sub("", self.path), self.first_time_ns)


class _Seen(NamedTuple):
    """State of a file when it was examined; `first_time_ns` -1: it cannot be read."""

    stamp: tuple[int, int, int]
    first_time_ns: int


class RotationFollower:
    """Files that match `pattern`, a directory or a glob.

    `problems` is drained by the caller. All must be of one tap: files of another tap, and files
    that are not captures, are reported once and passed over; so are files deleted before they were
    read.
    """

    def __init__(self, pattern: str | os.PathLike[str]) -> None:
        self.pattern = os.fspath(pattern)
        self.problems: list[Problem] = []
        self._chain = ""
        self._seen: dict[str, _Seen] = {}
        self._done: dict[Version, None] = {}
        self._reported: set[str] = set()
        self._missed: dict[Version, str] = {}

    def waiting(self) -> list[RotatedFile]:
        """Files not taken yet, in their order; those without packets come last."""
        found = [one for one in self._look() if not self._is_done(one.version)]
        there = {one.version: one.path for one in found}
        for version, path in self._missed.items():
            if version not in there and version not in self._done:
                text = f"{path}: gone before it was read, with all its packets"
                self.problems.append(Problem("capture", "lost-file", text))
        # A file without packets is not missed if it has packets now.
        self._missed = {
            version: path for version, path in there.items() if version.first_time_ns < NO_PACKET_NS
        }
        return sorted(found)

    def take(self, path: str, first_time_ns: int) -> None:
        """Mark the file as read, its first packet having that time; later files are of its tap."""
        self._chain = self._chain or chain_name(path)
        self._done[Version(COMPRESSION.sub("", path), first_time_ns)] = None
        while len(self._done) > MAX_REMEMBERED:
            del self._done[next(iter(self._done))]

    def unread_size(self, is_current: Callable[[str], bool]) -> int:
        """Bytes of files not taken yet, except the one being read."""
        return sum(
            self._seen[one.path].stamp[1]
            for one in self._look()
            if not self._is_done(one.version) and not is_current(one.path)
        )

    def _is_done(self, version: Version) -> bool:
        """Return whether it was taken; a file being compressed has no packets for a while."""
        if version.first_time_ns < NO_PACKET_NS:
            return version in self._done
        return any(done.name == version.name for done in self._done)

    def _look(self) -> Iterator[RotatedFile]:
        paths = sorted(self._paths())
        self._seen = {path: self._seen[path] for path in paths if path in self._seen}
        for path in paths:
            first_time_ns = self._first_time_of(path)
            if first_time_ns >= 0 and self._is_of_tap(path):
                yield RotatedFile(first_time_ns, turn_of(path), path)

    def _paths(self) -> Iterator[str]:
        directory = Path(self.pattern)
        if not directory.is_dir():
            yield from glob.iglob(self.pattern, recursive=True)  # noqa: PTH207
            return
        for name in os.listdir(directory):  # noqa: PTH208  # paths as text are what is compared
            if not name.startswith("."):
                yield os.path.join(self.pattern, name)  # noqa: PTH118

    def _first_time_of(self, path: str) -> int:
        """Time of the first packet, read again when the file has changed; -1: not to be read."""
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return -1  # deleted meanwhile
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        seen = self._seen.get(path)
        if seen is None or seen.stamp != stamp:
            seen = self._seen[path] = _Seen(stamp, self._read_first_time(path))
        return seen.first_time_ns

    def _read_first_time(self, path: str) -> int:
        if not Path(path).is_file():
            return -1
        try:
            return first_time_of(CaptureFile(path, path, HEAD_SIZE))
        except CaptureError as error:
            self._report(path, "passed-over", str(error))
            return -1

    def _is_of_tap(self, path: str) -> bool:
        if not self._chain or chain_name(path) == self._chain:
            return True
        text = f"{path}: of another tap than {self._chain}; follow it by itself"
        self._report(path, "passed-over", text)
        return False

    def _report(self, path: str, kind: str, text: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            self.problems.append(Problem("capture", kind, text))
