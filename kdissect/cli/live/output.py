"""`Output`: lines to stdout that never block when the reader is slow."""

import os
import queue
import sys
import threading
from typing import Final

ROOM: Final = 16  # queued lines; one has about 40 kB at most
END_S: Final = 0.3  # for queued lines at the end


class Output:
    """A thread writes the lines; lines that do not fit into the queue are dropped and counted.

    When the reader has gone, the next call raises BrokenPipeError.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._lines: queue.Queue[bytes | None] = queue.Queue(ROOM)
        self._failure: OSError | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Call after privileges are dropped: a thread keeps those it started with."""
        sys.stdout.flush()
        # Not by sys.stdout, whose lock a blocked write would hold at exit.
        self._thread = threading.Thread(
            target=self._write, args=(sys.stdout.fileno(),), daemon=True
        )
        self._thread.start()

    def put(self, line: str) -> None:
        """Queue the line if there is room."""
        self._check()
        try:
            self._lines.put_nowait(f"{line}\n".encode(sys.stdout.encoding, "replace"))
        except queue.Full:
            self.left_out += 1

    def end(self) -> None:
        """Write the queued lines, if the reader takes them now."""
        try:
            self._lines.put_nowait(None)
        except queue.Full:
            self.left_out += ROOM
        if self._thread is not None:
            self._thread.join(END_S)
        self._check()

    def _check(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _write(self, stdout: int) -> None:
        try:
            while (line := self._lines.get()) is not None:
                while line:
                    line = line[os.write(stdout, line) :]
        except OSError as error:
            self._failure = error
