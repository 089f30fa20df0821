"""`TailSource`: follow captures that other programs are writing.

A file is followed like `tail -F` does: at its end more data is awaited; a file that was replaced or
truncated is read from its beginning. Files of a directory or glob are read one after the other, as
tcpdump -C, -G and -W and dumpcap -b write them: a file is complete when a newer one exists.
"""

import glob
import os
import time
from pathlib import Path
from typing import Final

from kdissect.capture.blocks import Secrets
from kdissect.capture.capture_file import NO_PACKET_NS, capture_error
from kdissect.capture.incremental import IncrementalCapture
from kdissect.capture.packet import SECOND_NS, Packet
from kdissect.capture.rotation_follower import RotatedFile, RotationFollower
from kdissect.errors import CaptureError, Problem
from kdissect.sources.packet_source import Behind, PacketSource

READ_SIZE: Final = 1 << 20
# Interval of the search for other files: the maximum delay in noticing a tap's next file.
LOOK_S: Final = 0.5
# Interval between reads while nothing arrives.
SLEEP_S: Final = 0.05


class TailSource(PacketSource):
    """Endless packets of a file, or of all files of a directory or glob.

    A file that is named must exist; a directory or glob may still be empty. All files must be of
    one tap. The first name is the directory or glob itself, which problems may refer to.
    """

    def __init__(self, source: str | os.PathLike[str]) -> None:
        path = os.fspath(source)
        is_many = Path(path).is_dir() or (glob.has_magic(path) and not Path(path).exists())
        self.names = [path]
        self._problems: list[Problem] = []
        self._secrets: list[Secrets] = []
        self._follower = RotationFollower(path if is_many else glob.escape(path))
        self._file: _File | None = None
        self._next: RotatedFile | None = None
        self._ordinal = 0
        self._look_at = 0.0
        self._last_ns = NO_PACKET_NS
        # Bytes of later files, and when they are added up again.
        self._others = 0
        self._measure_at = 0.0
        self._is_ending = False
        # Problems of a single named file are raised as errors.
        self._is_strict = not is_many
        if not is_many:
            self._start(path)

    def read(self, wait_s: float) -> list[Packet] | None:
        end = time.monotonic() + wait_s
        while True:
            self._look()
            packets = self._read_file()
            if packets:
                self._last_ns = packets[-1].time_ns
            if packets or (time.monotonic() >= end and not self._is_ending):
                return packets
            if self._is_ending and self._next is None:
                return None
            if self._next is None:
                time.sleep(min(SLEEP_S, wait_s))

    def end(self) -> None:
        self._is_ending = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def behind(self) -> Behind:
        """Bytes of the files as they are stored; packets of unread files are not looked at."""
        unread = self._unread_size()
        if not unread or self._last_ns == NO_PACKET_NS:
            return Behind(unread)
        return Behind(unread, max(0.0, time.time() - self._last_ns / SECOND_NS))

    def _unread_size(self) -> int:
        now = time.monotonic()
        if now >= self._measure_at:
            # Of many files this takes milliseconds.
            self._measure_at = now + LOOK_S
            self._others = self._follower.unread_size(self._is_current)
        return self._others + (self._file.unread_size() if self._file is not None else 0)

    def _is_current(self, path: str) -> bool:
        return self._file is not None and self._file.has_name(path)

    def take_problems(self) -> list[Problem]:
        taken, self._problems = self._problems, []
        if self._file is not None:
            taken += self._file.capture.take_problems()
        taken += self._follower.problems
        self._follower.problems = []
        return taken

    def take_secrets(self) -> list[Secrets]:
        taken, self._secrets = self._secrets, []
        if self._file is not None:
            taken += self._file.capture.take_secrets()
        return taken

    def _read_file(self) -> list[Packet]:
        """Available packets of the file being read, or the last ones of it."""
        file = self._file
        try:
            if file is None:
                return self._go_on()
            if file.is_truncated():
                return self._begin_anew(file)
            packets = file.read()
            if packets is None:
                return self._go_on()
        except CaptureError as error:
            return self._pass_over(error)
        if packets and file.first_time_ns == NO_PACKET_NS:
            file.first_time_ns = packets[0].time_ns
            self._follower.take(file.path, file.first_time_ns)
            self._is_strict = False
        return packets

    def _go_on(self) -> list[Packet]:
        """End of the file reached: if a newer one exists, the file is complete."""
        if self._next is None:
            return []
        packets = self._finish_file()
        rotated, self._next = self._next, None
        self._follower.take(rotated.path, rotated.first_time_ns)
        self._start_or_tell(rotated.path)
        return packets

    def _begin_anew(self, file: "_File") -> list[Packet]:
        text = (
            f"{file.path}: truncated after {file.capture.size} bytes of it were read; "
            "what was written and not read is lost"
        )
        packets = self._finish_file()
        self._problems.append(Problem("capture", "overwritten-file", text))
        self._start_or_tell(file.path)
        return packets

    def _pass_over(self, error: CaptureError) -> list[Packet]:
        """A file that is not a capture is an error if it was named, else it is passed over."""
        if self._is_strict:
            raise error
        self._problems.append(Problem("capture", "passed-over", str(error)))
        self._drop_file()
        return []

    def _start(self, path: str) -> None:
        if path not in self.names:
            self.names.append(path)
        self._file = _File(path, self.names.index(path), self._ordinal)

    def _start_or_tell(self, path: str) -> None:
        """Start the file, which may have been deleted already."""
        try:
            self._start(path)
        except CaptureError as error:
            self._problems.append(Problem("capture", "passed-over", str(error)))

    def _finish_file(self) -> list[Packet]:
        """Close the file and return its last packets."""
        if self._file is None:
            return []
        try:
            return self._file.capture.finish_all()
        except CaptureError as error:
            # It has no beginning, so it has no packets.
            self._problems.append(Problem("capture", "empty-file", str(error)))
            return []
        finally:
            self._drop_file()

    def _drop_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._ordinal = file.capture.ordinal
            self._problems += file.capture.take_problems()
            self._secrets += file.capture.take_secrets()
            file.close()

    def _look(self) -> None:
        """Look for files that are newer than the one being read."""
        if self._next is not None or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_S
        file = self._file
        for rotated in self._follower.waiting():
            if self._is_next(rotated):
                self._next = rotated
                return
        if file is not None and not file.has_name(file.path) and Path(file.path).exists():
            self._reopen(file)

    def _is_next(self, rotated: RotatedFile) -> bool:
        """Return whether it follows the file being read; files that come too late are skipped."""
        file = self._file
        if file is None:
            return True
        if file.has_name(rotated.path):
            return False
        if file.is_before(rotated):
            return True
        self._follower.take(rotated.path, rotated.first_time_ns)
        text = f"{rotated.path}: came when {file.path}, which is newer, was read already"
        self._problems.append(Problem("capture", "passed-over", text))
        return False

    def _reopen(self, file: "_File") -> None:
        """Reopen a file of the same name and first packet: a longer copy, as by rsync."""
        try:
            file.reopen()
        except CaptureError as error:
            self._problems.append(Problem("capture", "passed-over", str(error)))


class _File:
    """The file being read."""

    def __init__(self, path: str, capture: int, ordinal: int) -> None:
        self.path = path
        self.capture = IncrementalCapture(path, capture, ordinal)
        self.first_time_ns = NO_PACKET_NS
        self._fd = _opened(path)

    def read(self) -> list[Packet] | None:
        """Available packets, possibly none; None at the end."""
        if self.capture.has_more:
            return self.capture.feed(b"")
        data = os.read(self._fd, READ_SIZE)
        return self.capture.feed(data) if data else None

    def unread_size(self) -> int:
        """Bytes written to it and not read."""
        if self._fd < 0:
            return 0
        return max(0, os.fstat(self._fd).st_size - self.capture.size)

    def is_truncated(self) -> bool:
        """Return whether the file is shorter than the part already read."""
        return os.fstat(self._fd).st_size < self.capture.size

    def is_before(self, rotated: RotatedFile) -> bool:
        """Return whether the other file begins later."""
        return self.first_time_ns == NO_PACKET_NS or rotated.first_time_ns >= self.first_time_ns

    def has_name(self, path: str) -> bool:
        """Return whether the file still has its name."""
        try:
            there = os.stat(path)  # noqa: PTH116
        except OSError:
            return False
        ours = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def reopen(self) -> None:
        """Continue at the same position in the file that has the name now."""
        fd = _opened(self.path)
        os.lseek(fd, self.capture.size, os.SEEK_SET)
        self.close()
        self._fd = fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise capture_error(path, error) from error
