"""Start of workers: forks of a process with a single thread, which has opened their sockets.

Privileges have been dropped, and nothing that starts a thread is imported yet. A worker has a
socket to the first process; when that one ends, however it does, the worker reads its end and
finishes. Signals are for the first process: workers ignore those of a terminal or a service
manager, which every process of the group gets.
"""

import os
import signal
import socket
import time
from collections.abc import Sequence
from typing import Final

IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# For workers that finish their files; then they are killed.
END_S: Final = 60.0
POLL_S: Final = 0.02
# Of a worker that does not take an order: its capture hangs.
ORDER_S: Final = 10.0


class Seat:
    """Of a worker: its number, from 0, and the socket to the first process."""

    def __init__(self, number: int, pipe: socket.socket) -> None:
        self.number = number
        self.pipe = pipe


class Worker:
    """Of the first process: a worker, and the socket to it."""

    def __init__(self, number: int, process: int, pipe: socket.socket) -> None:
        self.number = number
        self.process = process
        self.pipe = pipe
        self.exit_code: int | None = None

    def has_ended(self) -> bool:
        """Return whether it has ended; then `exit_code` is known, negative for a signal."""
        if self.exit_code is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code is not None

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        if not self.has_ended():
            os.kill(self.process, signal.SIGKILL)


def fork_workers(count: int) -> list[Worker] | Seat:
    """Fork; returns the workers, and in each of them its seat."""
    pairs = [socket.socketpair() for _ in range(count)]
    workers = []
    for number, (ours, theirs) in enumerate(pairs):
        process = os.fork()
        if process == 0:
            for one in IGNORED:
                signal.signal(one, signal.SIG_IGN)
            # The end of the first process is the end of all others' sockets to it.
            for pair in pairs:
                for end in pair:
                    if end is not theirs:
                        end.close()
            return Seat(number, theirs)
        ours.settimeout(ORDER_S)
        workers.append(Worker(number, process, ours))
    for _, theirs in pairs:
        theirs.close()
    return workers


def end_workers(workers: Sequence[Worker]) -> None:
    """Let all end that have not, and wait; those that take longer than END_S are killed."""
    for worker in workers:
        worker.pipe.close()
    deadline = time.monotonic() + END_S
    while not all(worker.has_ended() for worker in workers):
        if time.monotonic() > deadline:
            for worker in workers:
                worker.kill()
        time.sleep(POLL_S)
