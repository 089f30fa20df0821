"""`GrowingKeyLogs`: key logs that programs go on writing while their packets are captured."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kdissect.errors import CaptureError, Problem
from kdissect.tls.keylog import KeyLog

READ_SIZE: Final = 1 << 20
LONGEST_LINE: Final = 1 << 16  # a line of a key log has some 200 bytes


class GrowingKeyLogs:
    """Adds to `keys`, which has the lines of the files at `paths`, what comes to these files.

    They stay open: later this process may have no right to open them any more.
    """

    def __init__(self, paths: str | Path | Sequence[str | Path], keys: KeyLog) -> None:
        self.keys = keys
        given = [paths] if isinstance(paths, str | Path) else paths
        self._logs = [_Log(str(path)) for path in given]
        if self._logs:
            # They are read once more: between two looks nothing is missed then.
            keys.problems.clear()
            self.read_on()

    def read_on(self) -> None:
        """Take the whole lines that came since the last time."""
        for log in self._logs:
            if lines := log.read_lines():
                self.keys.add(lines, log.path)

    def reopen(self) -> None:
        """Forget all secrets, and read the files that have these names now."""
        if not self._logs:
            return
        self.keys.forget()
        for log in self._logs:
            try:
                log.reopen()
            except CaptureError as error:
                text = f"{error}; the one that is open is read on"
                self.keys.problems.append(Problem("tls", "keylog-unreadable", text))
        self.read_on()

    def close(self) -> None:
        """Close the files; may be called again."""
        for log in self._logs:
            log.close()


class _Log:
    """One file, and how far it was read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = _opened(path)
        self._at = 0
        self._begun = b""

    def read_lines(self) -> bytes:
        """Lines that are whole now, perhaps none."""
        if self._fd < 0:
            return b""
        size = os.fstat(self._fd).st_size
        if size < self._at:
            self._at, self._begun = 0, b""  # written anew
        if size == self._at:
            return b""
        parts = [self._begun]
        while part := os.pread(self._fd, READ_SIZE, self._at):
            parts.append(part)
            self._at += len(part)
        lines, end, rest = b"".join(parts).rpartition(b"\n")
        self._begun = rest if len(rest) <= LONGEST_LINE else b""
        return lines + end

    def reopen(self) -> None:
        """Begin at the start of the file that has the name now; raises CaptureError."""
        try:
            fd = _opened(self.path)
        except CaptureError:
            self._at, self._begun = 0, b""
            raise
        self.close()
        self._fd, self._at, self._begun = fd, 0, b""

    def close(self) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                os.close(self._fd)
        self._fd = -1


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror or error}") from error
