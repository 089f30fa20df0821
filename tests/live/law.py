"""Runs a session that is captured twice, in a process and a network namespace of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 120


def skip_without_rights() -> None:
    """Skip where packets cannot be captured."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs root on Linux to open packet sockets in a network namespace")
    for program in ("tcpdump", "ip", "unshare"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


def observed(*arguments: str) -> dict[str, Any]:
    """Results of `tools.live_law`."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.live_law", *arguments, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout, done.stderr  # a session that failed has code 1, too
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def differences(found: dict[str, Any]) -> dict[str, list[str]]:
    """The first rows of each table that only one of both has."""
    return {
        table: [*compared["only_live"][:2], *compared["only_filed"][:2]]
        for table, compared in found["tables"].items()
        if compared["only_live"] or compared["only_filed"]
    }


def counts(found: dict[str, Any]) -> dict[str, int]:
    """The rows of each table of the live run."""
    return {table: compared["live"] for table, compared in found["tables"].items()}
