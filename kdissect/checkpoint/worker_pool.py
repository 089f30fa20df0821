"""Other processes of this program, started before they are needed; imports next to nothing.

They are programs of their own (`worker`) and no forks: a fork of a process with threads, as
Arrow's and numpy's are, may never wake up again. What they have to import they import while this
process does the same.
"""

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

from kdissect.errors import CaptureError, KdissectError

# Packets, as they are what takes the time: fewer are dissected before another process has begun.
WORTHWHILE_PACKETS: Final = 2_000_000
# From here on nobody has to ask for it.
ALWAYS_PACKETS: Final = 4_000_000
SMALLEST_PACKET: Final = 56  # bytes in a file: record header, Ethernet or less, IP and TCP
PROGRAM: Final = (
    "import gc, sys; gc.disable(); sys.path[:] = {path!r}; "
    "from kdissect.checkpoint.worker import main; main()"
)


class WorkerPool:
    """`size` processes, each of which takes values and gives others; a context manager.

    They end when this process does. Values are pickled. Raises KdissectError when one was killed.
    """

    def __init__(self, size: int) -> None:
        program = PROGRAM.format(path=sys.path)
        self.workers = [
            # In a group of its own Ctrl-C does not reach it: that is for this process.
            subprocess.Popen(  # noqa: S603  # this Python, and a program without input of others
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # What is in a buffer here nobody could wait for.
                bufsize=0,
                process_group=0,
            )
            for _ in range(size)
        ]

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, number: int, value: Any) -> None:
        """Give a value to a worker; it waits there until the worker has time."""
        to = self.workers[number].stdin
        assert to is not None  # noqa: S101  # it is a pipe
        try:
            write_value(to, value)
        except OSError as error:
            raise killed() from error

    def receive(self, timeout: float | None) -> list[tuple[int, Any]]:
        """One value of each worker that has one, after `timeout` seconds at the latest."""
        numbers = {
            worker.stdout: number
            for number, worker in enumerate(self.workers)
            if worker.stdout is not None
        }
        ready, _, _ = select.select(list(numbers), (), (), timeout)
        values = []
        for source in ready:
            try:
                values.append((numbers[source], read_value(source)))
            except EOFError as error:
                raise killed() from error
        return values

    def close(self) -> None:
        """End all, whatever they do."""
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    pipe.close()
        self.workers = []


def early_pool(paths: Sequence[str], jobs: int) -> WorkerPool | None:
    """A worker pool for files that look as if it were worth it, None for others.

    To be called before anything large is imported; `make_run` looks more closely.
    """
    wanted = wanted_jobs(jobs)
    if wanted < 2 or not all(Path(path).is_file() for path in paths):
        return None
    total = sum(Path(path).stat().st_size for path in paths)
    if total < SMALLEST_PACKET * WORTHWHILE_PACKETS:
        return None
    # That would be the largest of what is imported here.
    from kdissect.capture.speculative_splits import look_at

    try:
        look = look_at(paths[0])
    except CaptureError:
        # Who reads it tells.
        return None
    if look is None or not is_worthwhile(total // look.packet_size, jobs):
        return None
    return WorkerPool(wanted - 1)


def wanted_jobs(jobs: int) -> int:
    """How many processes share the work when it is enough; 0 asks for one each processor."""
    if os.name != "posix" or not sys.executable:
        return 1
    return jobs or usable_cores()


def is_worthwhile(packets: int, jobs: int) -> bool:
    """Whether they are enough work for several processes."""
    return packets >= (WORTHWHILE_PACKETS if jobs else ALWAYS_PACKETS)


def usable_cores() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write_value(to: IO[bytes], value: Any) -> None:
    """A value with its size before it."""
    content = pickle.dumps(value)
    left = memoryview(len(content).to_bytes(8, "big") + content)
    while left:
        left = left[to.write(left) :]
    to.flush()


def read_value(source: IO[bytes]) -> Any:
    """The next value; raises EOFError when the other side has gone."""
    size = int.from_bytes(exactly(source, 8), "big")
    return pickle.loads(exactly(source, size))  # noqa: S301  # a process of our own


def exactly(source: IO[bytes], size: int) -> bytes:
    """So many bytes; raises EOFError when they are not there."""
    parts = []
    while size > 0:
        part = source.read(size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def killed() -> KdissectError:
    """What to raise when a worker is gone."""
    return KdissectError("a process that dissects a split was killed")
