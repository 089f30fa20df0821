"""Commands in unusual environments: the usual answer, or a one-line error.

Random environment variables of Python, terminals and locales, home directories, time zones,
resource limits, deleted working directories. The expected output is that of the same command in
the environment of the tests.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import kdissect
from tests.seeds import IS_EVERY_CASE, SEED

CAPTURE = Path(__file__).parents[2] / "captures" / "retries-4.3.1.pcapng"
PROGRAM = (sys.executable, "-P", "-m", "kdissect")
COMMANDS = (
    "summary CAPTURE --findings all", "latency CAPTURE", "latency TABLES", "lag TABLES",
    "rebalances CAPTURE", "clients TABLES --json", "show CAPTURE --limit 5", "slowest CAPTURE",
    "errors TABLES", "health CAPTURE", "dissect CAPTURE -o OUT --force", "spans CAPTURE",
    "dissect CAPTURE -o OUT --force --jobs 2", "sql TABLES 'select count(*) from exchanges'",
    "table exchanges CAPTURE --limit 5", "report CAPTURE -o OUT.html --force", "protocol Fetch 12",
    "compare CAPTURE CAPTURE", "upgrade CAPTURE", "topology TABLES", "--version", "--help",
    "end-to-end CAPTURE", "slice CAPTURE --where \"api='Fetch'\" -o OUT.pcapng --force",
)  # fmt: skip
# Values that change no answer; None: the variable is unset.
VARIABLES: dict[str, tuple[str | None, ...]] = {
    "PYTHONOPTIMIZE": ("1", "2"), "PYTHONDEVMODE": ("1",), "PYTHONWARNINGS": ("error",),
    "PYTHONHASHSEED": ("0", "12345"), "PYTHONDONTWRITEBYTECODE": ("1",),
    "PYTHONMALLOC": ("debug", "malloc"), "PYTHONINTMAXSTRDIGITS": ("640",),
    "LC_ALL": ("C", "POSIX", "C.UTF-8"), "HOME": (None, "/nonexistent/x", "/dev/null", "relative"),
    "XDG_CACHE_HOME": ("/nonexistent/y", "/dev/null/x", "relative"),
    "XDG_STATE_HOME": ("/proc/x", ""), "TMPDIR": ("/nonexistent/z", ".", "/proc"),
    "TERM": (None, "dumb", "\x01no such"), "COLUMNS": ("0", "-5", "abc", "1000000000000"),
    "NO_COLOR": ("1",), "TZ": ("Asia/Kathmandu", "no/such/zone", "", ":"), "PATH": ("",),
    "OMP_NUM_THREADS": ("0", "x"), "ARROW_DEFAULT_MEMORY_POOL": ("system",),
}  # fmt: skip
# Shell commands that run first; {} is a directory.
BEFORE = (
    "ulimit -n 32", "ulimit -n 64", "ulimit -s 1024", "ulimit -c 0", "umask 0777", "umask 077",
    "trap '' PIPE", "trap '' HUP INT TERM", "exec <&-", "exec </dev/null",
    "mkdir {}/gone; cd {}/gone; rmdir {}/gone",
)  # fmt: skip
# Resource limits that a command may exceed. macOS has none of the address space.
LIMITS = (
    "ulimit -f 0",
    "ulimit -f 100",
    *(["ulimit -v {memory}"] if sys.platform == "linux" else []),
)
LEAST_KB, MOST_KB = 400_000, 3_000_000
# Exit codes where the dynamic linker, the interpreter or DuckDB aborts: an allocation failed in a
# thread of C++, in the handling of an error.
ABORTED = (127, -signal.SIGABRT, -signal.SIGSEGV)
DRAWN = 300 if IS_EVERY_CASE else 24


class Answer(NamedTuple):
    code: int
    output: bytes
    error: str


Asked = Callable[[str, dict[str, str | None], list[str]], Answer]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Run a command by a shell with its own environment."""
    place = tmp_path_factory.mktemp("environments")
    shutil.copy(CAPTURE, place / "CAPTURE")
    kdissect.write(place / "CAPTURE", place / "TABLES")
    usual = {"PATH": os.environ["PATH"], "HOME": str(place), "LANG": "C.UTF-8"}

    def run(command: str, variables: dict[str, str | None], before: list[str]) -> Answer:
        words = [
            word.replace("CAPTURE", f"{place}/CAPTURE")
            .replace("TABLES", f"{place}/TABLES")
            .replace("OUT", f"{place}/OUT")
            for word in shlex.split(command)
        ]
        line = "; ".join([*before, shlex.join([*PROGRAM, *words])]).replace("{}", str(place))
        found = {name: value for name, value in (usual | variables).items() if value is not None}
        done = subprocess.run(
            ["/bin/bash", "-c", line],
            env=found, cwd=place, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    return run


def drawn(source: Random) -> tuple[dict[str, str | None], list[str]]:
    """Random variables, and a shell command to run first."""
    names = source.sample(sorted(VARIABLES), source.randrange(1, 4))
    return {name: source.choice(VARIABLES[name]) for name in names}, [source.choice(BEFORE)]


@pytest.mark.slow
def test_no_environment_changes_an_answer(asked: Asked) -> None:
    source = Random(SEED)
    usual: dict[str, Answer] = {}
    for _ in range(DRAWN):
        command = source.choice(COMMANDS)
        if command not in usual:
            usual[command] = asked(command, {}, [])
        variables, before = drawn(source)
        found, case = asked(command, variables, before), (command, variables, before)
        assert "Traceback" not in found.error, (case, found)
        assert (found.code, found.output) == usual[command][:2], (case, found)


@pytest.mark.slow
def test_an_exceeded_resource_limit_is_a_one_line_error(asked: Asked) -> None:
    source = Random(SEED)
    usual: dict[str, Answer] = {}
    failed = 0
    for _ in range(DRAWN):
        command = source.choice(COMMANDS)
        if command not in usual:
            usual[command] = asked(command, {}, [])
        limit = source.choice(LIMITS).format(memory=source.randrange(LEAST_KB, MOST_KB))
        found = asked(command, {}, [limit])
        assert "Traceback" not in found.error, (command, limit, found)
        if found.code in ABORTED:
            assert "-v" in limit, (command, limit, found)
        elif found.code:
            failed += 1
            lines = found.error.splitlines()
            assert any(line.startswith("kdissect: ") for line in lines), (command, limit, found)
        else:
            assert found.output == usual[command].output, (command, limit, found)
    assert failed
