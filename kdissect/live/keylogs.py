"""`TailedKeyLogs`: key logs that programs keep writing while their packets are captured."""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kdissect.errors import CaptureError, InvalidArgument, Problem
from kdissect.tls.cryptography_package import has_package, missing_text
from kdissect.tls.keylog import KeyLog, add_keylog

READ_SIZE: Final = 1 << 20
LONGEST_LINE: Final = 1 << 16  # a line of a key log has some 200 bytes


class TailedKeyLogs:
    """`keys` has the secrets of the files at `paths`, including those written later.

    Opens the files at once, and reads nothing before `begin`: a process may drop privileges between
    the two, and may not be permitted to open the files afterwards. Raises CaptureError for a file
    that cannot be opened.
    """

    def __init__(self, paths: str | Path | Sequence[str | Path]) -> None:
        self.keys = KeyLog()
        self._logs: list[_Log] = []
        try:
            for path in [paths] if isinstance(paths, str | Path) else paths:
                self._logs.append(_Log(str(path)))
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Read the files; raises KdissectError for a file that is not a key log.

        Also raised if the package for TLS decryption is missing.
        """
        if self._logs and not has_package():
            raise InvalidArgument(missing_text())
        for log in self._logs:
            known = len(self.keys)
            lines = log.read_lines()
            self.keys.add(lines, log.path)
            if len(self.keys) == known:
                add_keylog(lines + log.begun, log.path, KeyLog())

    def read_on(self) -> None:
        """Read the complete lines written since the last call."""
        for log in self._logs:
            if lines := log.read_lines():
                self.keys.add(lines, log.path)

    def reopen(self) -> None:
        """Discard all secrets, and read the files that have these names now."""
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
        """Close the files; idempotent."""
        for log in self._logs:
            log.close()


class _Log:
    """One file and its read position; `begun` is the beginning of an incomplete line.

    A pipe, as from a shell's ``<(command)``, is read to its end, once.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.begun = b""
        self._at = 0
        self._fd = _opened(path, 0)
        mode = os.fstat(self._fd).st_mode
        self._is_pipe = stat.S_ISFIFO(mode)
        if stat.S_ISDIR(mode):
            self.close()
            raise CaptureError(f"{path}: {os.strerror(errno.EISDIR)}")

    def read_lines(self) -> bytes:
        """Lines that are complete now, possibly none."""
        if self._fd < 0:
            return b""
        content = self._read_pipe() if self._is_pipe else self._read_file()
        lines, end, rest = content.rpartition(b"\n")
        self.begun = rest if len(rest) <= LONGEST_LINE else b""
        return lines + end

    def reopen(self) -> None:
        """Start over with the file that has the name now; raises CaptureError."""
        try:
            # Do not wait for a file that is a pipe by now.
            fd = _opened(self.path, os.O_NONBLOCK)
        except CaptureError:
            self._at, self.begun = 0, b""
            raise
        self.close()
        self._fd, self._at, self.begun, self._is_pipe = fd, 0, b"", False

    def close(self) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                os.close(self._fd)
        self._fd = -1

    def _read_file(self) -> bytes:
        size = os.fstat(self._fd).st_size
        if size < self._at:
            self._at, self.begun = 0, b""  # rewritten
        parts = [self.begun]
        while size > self._at and (part := os.pread(self._fd, READ_SIZE, self._at)):
            parts.append(part)
            self._at += len(part)
        return b"".join(parts)

    def _read_pipe(self) -> bytes:
        parts = [self.begun]
        while part := os.read(self._fd, READ_SIZE):
            parts.append(part)
        self.close()
        return b"".join(parts)


def _opened(path: str, flags: int) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror or error}") from error
