"""Signals while DuckDB works end a command soon: their exit codes, no traceback, no file left.

Joins of everything with everything, during which DuckDB itself does not look for signals.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import click
import pytest

from kdissect.cli.program import program
from kdissect.sql.interruption import interruptible, short_queries
from tests.measuring import wait_for_cpu
from tests.seeds import SEED

CAPTURE: Final = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"
EVERY: Final = "SUM(hash(a.exchange_id, b.exchange_id, c.exchange_id, d.exchange_id) % 7)"
JOIN: Final = "{0} a, {0} b, {0} c, {0} d"  # of 331 rows: 12 000 000 000
SLOW: Final = f"(SELECT {EVERY} FROM {JOIN.format('all_exchanges')}) > 0"  # noqa: S608  # ours
QUERY: Final = f"SELECT {EVERY} FROM {JOIN.format('exchanges')}"  # noqa: S608  # ours
# A condition that reads no table can be given to all commands.
NUMBERS: Final = "(VALUES " + ", ".join(f"({n})" for n in range(300)) + ") {0}(n)"
OF_NUMBERS: Final = ", ".join(NUMBERS.format(name) for name in "abcd")
CONDITION: Final = f"(SELECT SUM(hash(a.n, b.n, c.n, d.n) % 7) FROM {OF_NUMBERS}) > 0"  # noqa: S608
MORE: Final = {
    "compare": ["--at", "+2s"], "slice": ["-o", "-"], "table": ["exchanges"],
}  # fmt: skip


def with_conditions() -> Iterator[tuple[str, list[str]]]:
    """Every command with a condition, for each of its options."""
    context = click.Context(program)
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        for option in ("--where", "--having"):
            if any(option in parameter.opts for parameter in command.params):
                arguments = [name, *MORE.get(name, ()), str(CAPTURE), option, CONDITION]
                yield f"{name} {option}", ["-m", "kdissect", *arguments]


COMMANDS: Final = {
    **dict(with_conditions()),
    "an analysis": ["-m", "kdissect", "latency", str(CAPTURE), "--where", SLOW],
    "SQL": ["-m", "kdissect", "sql", str(CAPTURE), QUERY],
}
FINDINGS: Final = f"""
import sys
from kdissect.rules import executor
from kdissect.tables.spilled_tables import KeptTables
KeptTables.is_large = True  # so that DuckDB finds them
executor.whole_query = lambda _: {QUERY!r}
from kdissect.cli import main
sys.exit(main())
"""
COMMANDS["findings"] = ["-c", FINDINGS, str(CAPTURE), "--findings", "all"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads CPU times in /proc")
@pytest.mark.sweep(3)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", COMMANDS)
def test_a_signal_ends_a_query(what: str, number: int, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, *COMMANDS[what]],
        env=os.environ | {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in
                            (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
    ) as process:  # fmt: skip
        try:
            # It takes less to start and to read the capture, and the query takes minutes. It is
            # interrupted at a drawn moment.
            wait_for_cpu(process, 4 + Random(f"{SEED} {what} {number}").random())
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    if what == "findings":  # what had been counted is there
        assert "interrupted: the findings are missing" in out
        assert "Fetch" in out
    else:
        assert out == ""
    assert [str(one) for one in tmp_path.rglob("kdissect*") if one.is_file()] == []


def test_a_signal_between_two_queries_is_not_lost() -> None:
    interrupted = threading.Event()
    at = [0]

    def interrupt() -> None:
        at[0] += 1
        if at[0] == 3:  # as if no query had run the first times
            interrupted.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
    try:
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            interruptible(lambda: interrupted.wait(20), interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert at == [3]


def test_results_and_failures_are_those_of_the_call() -> None:
    assert interruptible(lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, lambda: None)
    seen: list[bool] = []
    other = threading.Thread(
        target=lambda: interruptible(
            lambda: seen.append(threading.current_thread() is other), lambda: None
        )
    )
    other.start()
    other.join()
    assert seen == [True]


def test_only_an_interrupted_query_is_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt), short_queries():
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="another"), short_queries():
        raise RuntimeError("another")
