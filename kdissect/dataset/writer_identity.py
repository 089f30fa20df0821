"""Writer identity: a process, so that other processes can check whether it has ended."""

import os
import socket
from pathlib import Path
from typing import Any, Final

from kdissect.errors import DatasetError
from kdissect.system import strict_json

LARGEST_PROCESS: Final = (1 << 31) - 1  # of a pid_t


def this_process() -> dict[str, Any]:
    """Host and process id; process ids are comparable only in the same namespace."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return {"host": socket.gethostname(), "namespace": namespace, "process": os.getpid()}


def process_in(content: bytes, where: str) -> dict[str, Any]:
    """Parse a writer identity; raises DatasetError for other content."""
    said = strict_json.mapping(strict_json.parsed(content, where), where)
    strict_json.text(said.get("host"), f"{where}: host")
    strict_json.text(said.get("namespace"), f"{where}: namespace")
    if strict_json.number(said.get("process"), f"{where}: process", 1) > LARGEST_PROCESS:
        raise DatasetError(f"{where}: there is no process {said['process']}")
    return said


def is_over(said: dict[str, Any]) -> bool:
    """Return whether the process ran on this host, and has ended."""
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
