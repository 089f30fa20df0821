"""A small process that starts commands under limits and reports the resources each used.

Linux counts the memory of the process that forks into the peak of its child (`ru_maxrss`), so the
process that starts a command must itself be small: it imports nothing of kdissect. It reads one job
a line as JSON from stdin, and prints one result a line: see `tools.siege.processes`.
"""

import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

LEFT_BEHIND_S = 5.0  # for children of a command to end after it
LOOK_S = 0.05
UMASK = 0o022


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(done(json.loads(line))), flush=True)


def done(job: dict[str, Any]) -> dict[str, Any]:
    """Run one command to its end."""
    pid = os.fork()
    if pid == 0:
        become(job)
    is_late = not ended(pid, job)
    if is_late:
        os.killpg(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak": usage.ru_maxrss << 10,
        "is_late": is_late,
        "is_left": not alone(pid),
    }


def become(job: dict[str, Any]) -> None:
    """Run as the command: own process group, limits, output to files."""
    os.setsid()
    os.umask(UMASK)
    # The hard limit kills; the soft one would be a signal that a command could catch.
    for name, most in job["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, path, how in (
        (0, job["stdin"], os.O_RDONLY), (1, job["stdout"], flags), (2, job["stderr"], flags),
    ):  # fmt: skip
        opened = os.open(path, how, 0o600)
        os.dup2(opened, number)
    os.chdir(job["directory"])
    os.execve(job["command"][0], job["command"], job["environment"])  # noqa: S606  # no shell


def ended(pid: int, job: dict[str, Any]) -> bool:
    """Wait for the end, optionally after a signal; False when it does not come in time."""
    handle = os.pidfd_open(pid)
    try:
        if job["end_after_s"] is not None and not is_over(handle, job["end_after_s"]):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        return is_over(handle, job["timeout_s"])
    finally:
        os.close(handle)


def is_over(handle: int, within_s: float) -> bool:
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(within_s * 1000))


def alone(group: int) -> bool:
    """Return whether the group has ended; kill the rest of it."""
    give_up = time.monotonic() + LEFT_BEHIND_S
    while time.monotonic() < give_up:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(LOOK_S)
    os.killpg(group, signal.SIGKILL)
    return False


if __name__ == "__main__":
    main()
