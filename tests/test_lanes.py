"""A lane that a signal ends is a failure, and the test that it ran is named."""

import subprocess
import sys
from pathlib import Path

# What `fork_all` needs of a session, with one test, in which a process that is forked ends.
SCRIPT = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace as Some
from tests import lanes

items = [Some(nodeid="tests/x.py::test_a", location=("tests/x.py",))]
config = Some(pluginmanager=Some(getplugin=lambda name: sys.stdout))
session = Some(items=items, testsfailed=0, config=config)
place = Path(sys.argv[1])
mine = lanes.fork_all([lanes.lane(0, 1)], place, session)
if mine is not None:
    if sys.argv[2:]:
        lanes.current_test(mine, place).write_text(sys.argv[2])
    os.kill(os.getpid(), signal.SIGKILL)
print(session.testsfailed, "failed")
"""


def output_of(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=Path(__file__).parents[1], check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip


def test_the_test_that_a_signal_ended_is_named(tmp_path: Path) -> None:
    found = output_of(str(tmp_path), "tests/x.py::test_a")
    assert "ended by signal 9 in tests/x.py::test_a\n" in found
    assert found.endswith("1 failed\n")


def test_a_signal_before_the_first_test_is_told_too(tmp_path: Path) -> None:
    assert "ended by signal 9 in no test\n" in output_of(str(tmp_path))
