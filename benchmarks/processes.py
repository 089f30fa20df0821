"""CPU time of processes and their descendants, of Linux's /proc."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER: Final = 36


def adopt_orphans(is_on: bool = True) -> None:
    """Let processes whose parent has ended be this one's: the JVM of a session of Spark is one.

    They count as its descendants until this process ends, as nothing waits for them.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)


def tree(process: int) -> list[int]:
    """A process and all its descendants that run."""
    found = [process]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def cpu_seconds(process: int, with_ended: bool = False) -> float:
    """CPU time of one process with its threads; 0 when it is gone.

    With `with_ended`, also that of children that have ended and that it has waited for.
    """
    try:
        fields = (
            Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / TICKS


def wanted_seconds(process: int) -> float:
    """Time for which a process's threads ran or waited for a core; 0 when it is gone.

    That is as long on a machine with other work as on a quiet one, unlike CPU time in a second.
    """
    nanoseconds = 0
    with suppress(OSError):  # it ends, or a thread of it
        for task in Path(f"/proc/{process}/task").iterdir():
            ran, waited, _ = (task / "schedstat").read_text(encoding="utf-8").split()
            nanoseconds += int(ran) + int(waited)
    return nanoseconds / 1e9


def own_cpu_seconds() -> float:
    """CPU time of this process and its descendants, and of those that they have waited for."""
    return sum(cpu_seconds(one, with_ended=True) for one in tree(os.getpid()))


def machine_cpu_seconds() -> float:
    """CPU time of all processes, and what the hypervisor took ("steal"); without interrupts."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").split(None, 9)
    user, nice, system, steal = (int(fields[at]) for at in (1, 2, 3, 8))
    return (user + nice + system + steal) / TICKS
