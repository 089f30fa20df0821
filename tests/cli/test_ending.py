"""Commands that are ended by a signal leave no process and no temporary file behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.checkpoint.law import CAPTURES
from tests.seeds import SEED

CAPTURE = CAPTURES / "cluster-3.9.1.pcapng"
# Workers for any capture; they wait at their first split until they are ended.
WITH_WORKERS = """
import sys
from kdissect.capture import speculative_splits
from kdissect.checkpoint import jobs, run_choice, worker_pool
worker_pool.WORTHWHILE_PACKETS = run_choice.SMALLEST_PACKETS = 1
run_choice.SMALLEST_SPLIT = 50_000
speculative_splits.LOOK = 20_000
jobs.EDGE_PACKETS = 0
worker_pool.PROGRAM = worker_pool.PROGRAM.replace(
    "from kdissect", "import kdissect.checkpoint.worker as w, time; "
    "w.dissect = lambda *_: time.sleep(60); from kdissect")
from kdissect.cli import main
sys.exit(main())
"""


def processes_of(group: str) -> dict[int, str]:
    """The command and state of each process with this text in its environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if group.encode() in (entry / "environ").read_bytes():
                    stack = (entry / "wchan").read_text()
                    command = (entry / "cmdline").read_bytes().decode(errors="replace")
                    found[int(entry.name)] = f"{command[:200]} in {stack}"
            except OSError:
                continue
    return found


def is_at_work(mark: str, temporary: Path) -> bool:
    """Whether a worker runs, and there are temporary files."""
    # The command that starts workers contains their program, too, but does not begin with it.
    has_worker = any("\0-c\0import gc, sys" in one for one in processes_of(mark).values())
    return has_worker and any(temporary.glob("kdissect*"))


def awaited(condition: object, seconds: float = 30) -> bool:
    assert callable(condition)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


@pytest.mark.sweep(3)
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.parametrize("words", [["dissect", "-o", "out"], ["report", "-o", "out.html"], []])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(number: int, words: list[str], tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    mark = f"KDISSECT_TEST_ENDING={os.getpid()}-{random.random()}"
    with subprocess.Popen(
        [sys.executable, "-c", WITH_WORKERS, *words, str(CAPTURE), "--jobs", "2"],
        cwd=tmp_path,
        env=os.environ | dict([mark.split("=")]) | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in signal.valid_signals()
                            if one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
    ) as process:  # fmt: skip
        assert awaited(lambda: is_at_work(mark, temporary))
        time.sleep(random.Random(f"{SEED} {number} {words}").random())
        process.send_signal(number)
        if number != signal.SIGINT:
            # Again, as to its group by `timeout`. Python itself handles SIGINT.
            time.sleep(random.Random(f"{SEED} {words} {number}").random() / 10)
            process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert awaited(lambda: not processes_of(mark), 5), processes_of(mark)
    assert [str(one) for one in temporary.rglob("*")] == []
    assert not (tmp_path / "out.html").exists()


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    script = "import signal, sys; from kdissect.cli import main; main(); print(\
        signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    done = subprocess.run(
        [sys.executable, "-c", script, "--version"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    assert done.stdout.endswith("True\n")
