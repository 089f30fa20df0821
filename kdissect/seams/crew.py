"""Other processes of this program, started before they are needed; imports next to nothing.

They are programs of their own (`seams.worker`) and no forks: a fork of a process with threads, as
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
from types import TracebackType
from typing import IO, Any, Final

from kdissect.errors import KdissectError

# Less than this is dissected before another process has begun.
WORTHWHILE_BYTES: Final = 64 << 20
# From here on nobody has to ask for it.
ALWAYS_BYTES: Final = 2 << 30
# What the first bytes of captures that can be cut are: pcap of either byte order, with µs, ns and
# longer headers, and pcapng.
CUTTABLE: Final = (
    b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d",
    b"\x34\xcd\xb2\xa1", b"\xa1\xb2\xcd\x34", b"\x0a\x0d\x0d\x0a",
)  # fmt: skip
PROGRAM: Final = (
    "import gc, sys; gc.disable(); sys.path[:] = {path!r}; "
    "from kdissect.seams.worker import main; main()"
)


class Crew:
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

    def __enter__(self) -> "Crew":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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


def early_crew(paths: Sequence[str], jobs: int) -> Crew | None:
    """A crew for files that look as if it were worth it, None for others.

    To be called before anything large is imported; `make_run` looks more closely.
    """
    wanted = wanted_jobs(jobs)
    if wanted < 2:
        return None
    total = 0
    for path in paths:
        there = Path(path)
        if not there.is_file():
            return None
        with there.open("rb") as file:
            if file.read(4) not in CUTTABLE:
                return None
        total += there.stat().st_size
    return Crew(wanted - 1) if is_worthwhile(total, jobs) else None


def wanted_jobs(jobs: int) -> int:
    """How many processes share the work when it is enough; 0 asks for one each processor."""
    if os.name != "posix" or not sys.executable:
        return 1
    return jobs or usable_cores()


def is_worthwhile(total: int, jobs: int) -> bool:
    """Whether `total` bytes are enough work for several processes."""
    return total >= (WORTHWHILE_BYTES if jobs else ALWAYS_BYTES)


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
    return KdissectError("a process that dissects a piece was killed")
