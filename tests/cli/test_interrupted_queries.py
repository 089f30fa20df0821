"""Signals while DuckDB works: the exit codes of signals, no traceback, and no file is left.

DuckDB calls the handler of a signal when it comes to it, which can take minutes. It drops what the
handler raises, and raises a RuntimeError. The real query is replaced by one that does that at once.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from kdissect.sql.failures import interruptible

CAPTURE: Final = Path(__file__).parents[2] / "captures" / "incident-leader-stopped-4.3.1.pcapng"
WITH_SIGNALS: Final = """
import os, signal, sys
from kdissect.analysis.engines import duckdb_tables
from kdissect.rules import executor
from kdissect.tables.spilled_tables import KeptTables
number = int(sys.argv.pop(1))
signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
def interrupted(connection, *_):
    try:
        connection.execute("CREATE TABLE begun AS SELECT 1")
        os.kill(os.getpid(), number)
        connection.execute("SELECT 1")
    except BaseException:
        pass
    raise RuntimeError("Query interrupted")
duckdb_tables.keep = duckdb_tables.keep_or_separate = executor.keep_or_separate = interrupted
KeptTables.is_large = True  # for findings by DuckDB
from kdissect.cli import main
sys.exit(main())
"""
COMMANDS: Final = {
    "an analysis": ["latency", str(CAPTURE)],
    "buckets": ["clients", str(CAPTURE)],
    "a comparison": ["compare", str(CAPTURE), "--at", "+2s"],
    "findings": [str(CAPTURE), "--findings", "all"],
    "findings in JSON": [str(CAPTURE), "--findings", "all", "--format", "json"],
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", COMMANDS)
def test_a_signal_ends_a_query(what: str, number: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH_SIGNALS, str(int(number)), *COMMANDS[what]],
        env=os.environ | {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    if what == "findings":  # what had been counted is there
        assert "interrupted: the findings are missing" in done.stdout
        assert "Fetch" in done.stdout
    elif what == "findings in JSON":
        assert '"is_interrupted": true' in done.stdout
    else:
        assert done.stdout == ""
    assert [str(one) for one in tmp_path.rglob("kdissect*") if one.is_file()] == []


def test_only_an_interrupted_query_is_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="another"), interruptible():
        raise RuntimeError("another")
