"""`Output`: lines to stdout that hold nothing up when nobody reads them."""

import os
import queue
import sys
import threading
from typing import Final

ROOM: Final = 16  # lines that wait; one has some 40 kB at most
END_S: Final = 0.3  # for lines that wait at the end


class Output:
    """Lines are written by a thread; for what there is no room, is left out and counted.

    Where the reader has gone, the next call raises BrokenPipeError.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._lines: queue.Queue[bytes | None] = queue.Queue(ROOM)
        self._failure: OSError | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """To be called when privileges are given up: a thread has its own."""
        sys.stdout.flush()
        # Not by sys.stdout, whose lock would be held at the end by a write that does not come back.
        self._thread = threading.Thread(
            target=self._write, args=(sys.stdout.fileno(),), daemon=True
        )
        self._thread.start()

    def put(self, line: str) -> None:
        """Write the line when there is room."""
        self._check()
        try:
            self._lines.put_nowait(f"{line}\n".encode(sys.stdout.encoding, "replace"))
        except queue.Full:
            self.left_out += 1

    def end(self) -> None:
        """Write what waits, when somebody reads it now."""
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
