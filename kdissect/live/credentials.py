"""Credentials of the threads of this process, as reported by the kernel in /proc/self/task (Linux).

credentials(7), capabilities(7): each thread has its own user, groups, capability sets and
no_new_privs. glibc changes user and groups in all threads at once, but not capabilities: capset(2)
and prctl(2) change the calling thread only, and threads that it starts later.
"""

import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.errors import KdissectError

IS_LINUX: Final = sys.platform == "linux"
TASKS: Final = Path("/proc/self/task")
# Sets that a thread can use, or can pass on to a program that it starts.
USABLE_SETS: Final = ("CapInh", "CapPrm", "CapEff", "CapAmb")
BOUNDING_SET: Final = "CapBnd"


class Credentials(NamedTuple):
    """Credentials of one thread; `users` and `groups` are real, effective, saved, file system.

    `sets` are bit masks by the kernel's names: CapInh, CapPrm, CapEff, CapBnd, CapAmb.
    """

    thread: int
    name: str
    users: tuple[int, ...]
    groups: tuple[int, ...]
    supplementary: frozenset[int]
    sets: dict[str, int]
    no_new_privs: bool

    def __str__(self) -> str:
        return f"thread {self.thread} ({self.name})"

    @property
    def usable(self) -> int:
        """All capabilities that the thread can use in some way."""
        mask = 0
        for name in USABLE_SETS:
            mask |= self.sets[name]
        return mask


def all_credentials() -> list[Credentials]:
    """Credentials of all threads, by thread id; raises KdissectError without /proc."""
    found = []
    try:
        for thread in sorted(int(task.name) for task in TASKS.iterdir()):
            try:
                text = (TASKS / str(thread) / "status").read_text(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            found.append(parse_status(thread, text))
    except OSError as error:
        raise KdissectError(
            f"{TASKS} cannot be read, so privileges cannot be checked: {error.strerror}"
        ) from error
    return found


def parse_status(thread: int, text: str) -> Credentials:
    """Parse a ``status`` file, see proc_pid_status(5).

    Values that a kernel does not report: ambient sets do not exist before Linux 4.3. Before 4.10
    no_new_privs is assumed as requested, if that gave no error. gVisor reports no users and groups;
    those of the calling thread are used for all, as glibc changes them together.
    """
    lines = (line.partition(":") for line in text.splitlines())
    fields = {name: value.strip() for name, _, value in lines}
    return Credentials(
        thread,
        fields.get("Name", ""),
        _numbers(fields["Uid"]) if "Uid" in fields else os.getresuid(),
        _numbers(fields["Gid"]) if "Gid" in fields else os.getresgid(),
        frozenset(_numbers(fields["Groups"]) if "Groups" in fields else os.getgroups()),
        {name: int(fields.get(name, "0"), 16) for name in (*USABLE_SETS, BOUNDING_SET)},
        fields.get("NoNewPrivs") != "0",
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))
