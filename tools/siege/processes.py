"""Commands of the program as real processes: their exit code, output, CPU time and peak memory."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "kdissect")
MIB = 1 << 20
# A safety net for the machine; the bound that counts is on the peak that was measured.
ADDRESS_SPACE = 8 << 30
# A file larger than that cannot be written.
LARGEST_FILE = 512 * MIB
# The clock, of a machine that may be busy with other work: CPU time is judged.
TIMEOUT_S = 600.0
END_TIMEOUT_S = 120.0  # after SIGTERM


class Ended(NamedTuple):
    """Exit status and output of a process."""

    code: int
    cpu_s: float
    peak: int
    is_late: bool
    is_left: bool
    out: bytes
    err: bytes


class Processes:
    """Starts one command after the other by a process that is small: see `spawner`."""

    def __init__(self, scratch: Path, program: Sequence[str] = PROGRAM) -> None:
        self.scratch = scratch
        self.program = list(program)
        self._spawner = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("spawner.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spawner.communicate()

    def run(
        self,
        words: Sequence[str],
        directory: Path,
        cpu_s: float,
        end_after_s: float | None = None,
        environment: dict[str, str] | None = None,
    ) -> Ended:
        """Run the program with these words; `end_after_s` sends SIGTERM after that time."""
        out, err = self.scratch / "stdout", self.scratch / "stderr"
        limits = {"AS": ADDRESS_SPACE, "FSIZE": LARGEST_FILE, "CPU": int(cpu_s) + 1, "CORE": 0}
        job = {
            "command": [*self.program, *words],
            "environment": environment_of(environment or {}),
            "directory": str(directory),
            "stdin": os.devnull,
            "stdout": str(out),
            "stderr": str(err),
            "limits": limits,
            "end_after_s": end_after_s,
            "timeout_s": TIMEOUT_S if end_after_s is None else END_TIMEOUT_S,
        }
        stdin, stdout = self._spawner.stdin, self._spawner.stdout
        assert stdin is not None
        assert stdout is not None
        # Names of files may be no UTF-8: as escapes they are ASCII.
        stdin.write(json.dumps(job).encode() + b"\n")
        stdin.flush()
        told = json.loads(stdout.readline())
        return Ended(**told, out=out.read_bytes(), err=err.read_bytes())


def environment_of(changed: dict[str, str]) -> dict[str, str]:
    """This process' environment, importing the sources of this tree."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LC_")}
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # A command runs in another directory.
    paths = os.pathsep.join(str(Path(one).absolute()) for one in given if one) or str(ROOT)
    return {**kept, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "", **changed}
