"""Worker processes of this program, started before they are needed; imports next to nothing.

They are separate programs (`worker`) and not forks: a fork of a process with threads, as those of
Arrow and numpy, may deadlock. They import their modules while this process does the same.
"""

import atexit
import os
import pickle
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

from kdissect.errors import CaptureError, KdissectError
from kdissect.system.cores import usable_cores

# In packets, which determine the time: fewer are dissected before another process has started.
WORTHWHILE_PACKETS: Final = 1 << 20
# From this many on the pool is used without being requested.
ALWAYS_PACKETS: Final = 2_000_000
SMALLEST_PACKET: Final = 56  # bytes in a file: record header, Ethernet or less, IP and TCP
PROGRAM: Final = (
    "import gc, sys; gc.disable(); sys.path[:] = {path!r}; "
    "from kdissect.checkpoint.worker import main; main()"
)


class WorkerPool:
    """`size` processes, each of which takes values and returns others; a context manager.

    They end when this process does, even busy ones when it exits. Values are pickled. Raises
    KdissectError when one was killed.
    """

    def __init__(self, size: int) -> None:
        program = PROGRAM.format(path=sys.path)
        self.workers = [
            # In its own group Ctrl-C does not reach it: that is for this process.
            subprocess.Popen(  # noqa: S603  # this Python, and a program without input of others
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Buffered data here could not be waited for.
                bufsize=0,
                process_group=0,
            )
            for _ in range(size)
        ]
        # An exception's traceback may still refer to the run, whose `with` has not ended then.
        atexit.register(self.close)

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, number: int, value: Any) -> None:
        """Send a value to a worker; it is queued until the worker has time."""
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
        """End all workers, even busy ones."""
        atexit.unregister(self.close)
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    pipe.close()
        self.workers = []


def early_pool(paths: Sequence[str], jobs: int) -> WorkerPool | None:
    """Return a worker pool for files that seem large enough, None for others.

    Call it before any large import; `make_run` examines the files more closely.
    """
    wanted = wanted_jobs(jobs)
    if wanted < 2 or not all(Path(path).is_file() for path in paths):
        return None
    total = sum(Path(path).stat().st_size for path in paths)
    if total < SMALLEST_PACKET * WORTHWHILE_PACKETS:
        return None
    # That would be the largest import here.
    from kdissect.capture.speculative_splits import look_at

    try:
        look = look_at(paths[0])
    except CaptureError:
        # The reader reports the error.
        return None
    if look is None or not is_worthwhile(total // look.packet_size, jobs):
        return None
    return WorkerPool(wanted - 1)


def wanted_jobs(jobs: int) -> int:
    """Number of processes to share the work if it is enough; 0 requests one each processor."""
    if os.name != "posix" or not sys.executable:
        return 1
    return jobs or usable_cores()


def is_worthwhile(packets: int, jobs: int) -> bool:
    """Return whether the files are enough work for several processes."""
    return packets >= (WORTHWHILE_PACKETS if jobs else ALWAYS_PACKETS)


def write_value(to: IO[bytes], value: Any) -> None:
    """Write a value preceded by its size."""
    content = pickle.dumps(value)
    left = memoryview(len(content).to_bytes(8, "big") + content)
    while left:
        left = left[to.write(left) :]
    to.flush()


def read_value(source: IO[bytes]) -> Any:
    """Read the next value; raise EOFError when the other side has closed."""
    size = int.from_bytes(exactly(source, 8), "big")
    return pickle.loads(exactly(source, size))  # noqa: S301  # a process of our own


def exactly(source: IO[bytes], size: int) -> bytes:
    """Read exactly so many bytes; raise EOFError when they are missing."""
    parts = []
    while size > 0:
        part = source.read(size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def killed() -> KdissectError:
    """Error to raise when a worker has died."""
    return KdissectError("a process that dissects a split was killed")
