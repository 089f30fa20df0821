"""`PipeSource`: a capture from a pipe: of tcpdump or dumpcap here, by ssh, or by kubectl."""

import fcntl
import os
import select
import struct
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from kdissect.capture.blocks import Secrets
from kdissect.capture.capture_file import STDIN, capture_error
from kdissect.capture.files import is_pipe
from kdissect.capture.incremental import IncrementalCapture
from kdissect.capture.packet import Packet
from kdissect.errors import CaptureError, Problem
from kdissect.sources.packet_source import PacketSource

# Bytes read at a time, and the requested size of a pipe: the most that Linux permits unprivileged
# users (fs.pipe-max-size), a hundredth of a second of ten gigabits.
READ_SIZE: Final = 1 << 20
# Older packets belong to a recording; two hosts' clocks differ by less.
RECORDED_NS: Final = 300_000_000_000


class PipeSource(PacketSource):
    """The packets of stdin ("-"), of a named pipe, or of an open descriptor, until it ends."""

    def __init__(self, source: str | os.PathLike[str] | int) -> None:
        name, self._fd = _opened(source)
        self.names = [name]
        self._is_ours = not isinstance(source, int) and source != STDIN
        self._capture = IncrementalCapture(name)
        self._is_ended = False
        self._is_ending = False
        self._latest_ns = 0
        self._room = _widened(self._fd)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def read(self, wait_s: float) -> list[Packet] | None:
        if self._capture.is_over:
            return None
        if self._is_ended:
            return self._capture.finish()
        if self._capture.has_more:
            return self._capture.feed(b"")
        if not self._poll.poll(0 if self._is_ending else wait_s * 1000):
            return None if self._is_ending else []
        data = self._read_some()
        if data is None:
            return []
        self._is_ended = not data
        packets = self._capture.feed(data)
        if packets:
            self._latest_ns = packets[-1].time_ns
        return packets

    def end(self) -> None:
        self._is_ending = True

    def close(self) -> None:
        if self._is_ours and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def backlog(self) -> float:
        # A recording can wait in the pipe indefinitely.
        if time.time_ns() - self._latest_ns > RECORDED_NS:
            return 0.0
        with suppress(OSError):
            waiting = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)))[0]
            return float(min(1.0, waiting / self._room))
        return 0.0

    def take_problems(self) -> list[Problem]:
        return self._capture.take_problems()

    def take_secrets(self) -> list[Secrets]:
        return self._capture.take_secrets()

    def _read_some(self) -> bytes | None:
        """Available bytes, none at the end; None if there are none after all."""
        try:
            return os.read(self._fd, READ_SIZE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise capture_error(self.names[0], error) from error


def is_piped(source: str | os.PathLike[str]) -> bool:
    """Return whether to read a source as a pipe."""
    return source == STDIN or is_pipe(source)


def _opened(source: str | os.PathLike[str] | int) -> tuple[str, int]:
    """Name and descriptor of a pipe."""
    if isinstance(source, int):
        return f"descriptor {source}", source
    if source == STDIN:
        fd = sys.stdin.fileno()
        if os.isatty(fd):
            raise CaptureError(
                "stdin is a terminal: let a capture come by a pipe, as in "
                "tcpdump -U -w - port 9092 | kdissect live -"
            )
        return STDIN, fd
    try:
        # `read` waits for a writer of a named pipe.
        return os.fspath(source), os.open(Path(source), os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise capture_error(os.fspath(source), error) from error


def _widened(fd: int) -> int:
    """Enlarge the pipe's buffer, if possible; return its size."""
    if sys.platform != "linux":
        return READ_SIZE
    for size in (READ_SIZE, READ_SIZE >> 2):
        with suppress(OSError):
            return fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)
    with suppress(OSError):
        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    return READ_SIZE
