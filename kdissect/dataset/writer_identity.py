"""Who writes something down: a process, of which others can tell whether it is over."""

import os
import socket
from pathlib import Path
from typing import Any, Final

from kdissect.errors import DatasetError
from kdissect.system import strict_json

LARGEST_PROCESS: Final = (1 << 31) - 1  # of a pid_t


def this_process() -> dict[str, Any]:
    """The machine and the process; processes are only counted alike in the same namespace."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return {"host": socket.gethostname(), "namespace": namespace, "process": os.getpid()}


def process_in(content: bytes, where: str) -> dict[str, Any]:
    """What a process has written down of itself; DatasetError for something else."""
    said = strict_json.mapping(strict_json.parsed(content, where), where)
    strict_json.text(said.get("host"), f"{where}: host")
    strict_json.text(said.get("namespace"), f"{where}: namespace")
    if strict_json.number(said.get("process"), f"{where}: process", 1) > LARGEST_PROCESS:
        raise DatasetError(f"{where}: there is no process {said['process']}")
    return said


def is_over(said: dict[str, Any]) -> bool:
    """Whether the process was one of this machine, and has ended."""
    here = this_process()
    if (said["host"], said["namespace"]) != (here["host"], here["namespace"]):
        return False
    try:
        os.kill(said["process"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
