"""With a key log there is no core dump: its secrets would be in it."""

import subprocess
import sys
from pathlib import Path

import pytest

CAPTURE = Path(__file__).parents[2] / "captures" / "tls" / "tls13-4.3.1.pcapng"
KEYS = str(CAPTURE.with_suffix(".keys"))
PROGRAM = """
import ctypes, os, resource, sys
from kdissect.cli import main
sys.argv = ["kdissect", *sys.argv[1:]]
sys.stdout = open(os.devnull, "w")
try:
    main()
except SystemExit:
    pass
limit = resource.getrlimit(resource.RLIMIT_CORE)
sys.stderr.write(f"{limit} {ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)}")
"""


def state(*words: str) -> str:
    """Limit of the core's size, and whether the process is dumpable, after a command."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()[-1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks as Linux does")
def test_a_command_with_a_key_log_leaves_no_core() -> None:
    words = ("table", "exchanges", str(CAPTURE), "--limit", "1")
    assert state(*words, "--keylog", KEYS) == "(0, 0) 0"
    assert state(*words).endswith(" 1")
