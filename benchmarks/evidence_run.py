"""One capture's part of `benchmarks.evidence`: prints figures as JSON. Imports the package alone.

python -P benchmarks/evidence_run.py CAPTURE
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from kdissect.analysis.summary.summary import Summary
from kdissect.api.reading import run_over
from kdissect.api.summary_pass import TABLES_OF_RULES, SummaryPage
from kdissect.pipeline import Options
from kdissect.rules.context import Context
from kdissect.rules.engine import judge
from kdissect.rules.planned import evidence
from kdissect.rules.preconditions import GATES, wanted

READING: Final = "reading, and counting the summary"
FLAGGING: Final = "counting what opens gates"
KEEPING: Final = "keeping the tables"
LOADING: Final = "loading the plans, returning unused memory"
JUDGING: Final = "all rules, with all evidence"
RESET_PEAK: Final = "5"  # for clear_refs, see proc(5)


def measured(capture: Path) -> dict[str, Any]:
    """Figures of reading a capture, of each evidence and of the rules."""
    with SummaryPage() as found:
        summary, parts = read(found, capture)
        seen = Context(summary, found.signs)
        for table, columns in found.kept.columns.items():
            next(found.kept.batches(table, columns[0]), None)  # closes the file, before forks
        opened = wanted(seen)
        nothing = partial(gather, found)
        parts[LOADING] = apart(nothing)
        for name in GATES:
            figures = apart(partial(gather, found, name), nothing)
            parts[name] = figures | {"is_asked": name in opened}
        with evidence(found.kept, list(GATES)) as answers:
            whole = replace(seen, evidence=answers.rows, more=answers.more)
            parts[JUDGING] = apart(partial(judge, whole))
        return {"rows": found.kept.rows, "parts": parts}


def read(found: SummaryPage, capture: Path) -> tuple[Summary, dict[str, dict[str, Any]]]:
    """Read a capture into the page; its summary, and CPU time by part."""
    started = time.process_time()
    spent = dict.fromkeys((FLAGGING, KEEPING), 0.0)
    with run_over(str(capture), Options(tables=TABLES_OF_RULES)) as run:
        for table, batch in run:
            found.summariser.add(table, batch)
            before = time.process_time()
            found.signs.add(table, batch)
            between = time.process_time()
            found.kept.add(table, batch)
            spent[FLAGGING] += between - before
            spent[KEEPING] += time.process_time() - between
    summary = found.summary(asdict(run.balance))
    spent = {READING: time.process_time() - started - sum(spent.values()), **spent}
    return summary, {name: {"cpu_seconds": round(one, 3)} for name, one in spent.items()}


def gather(found: SummaryPage, *names: str) -> None:
    """Gather evidence."""
    with evidence(found.kept, names):
        pass


def apart(
    function: Callable[[], object], before: Callable[[], object] | None = None
) -> dict[str, Any]:
    """CPU time of a call in a fork of this process, and how much its peak memory grows.

    What `before` takes, which is part of the call too, is not counted.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            Path("/proc/self/clear_refs").write_text(RESET_PEAK, encoding="ascii")
            first = seconds_of(before) if before else 0.0
            size = peak_bytes()
            seconds = round(max(seconds_of(function) - first, 0.0), 3)
            figures = {"cpu_seconds": seconds, "peak_bytes": peak_bytes() - size}
            os.write(writing, json.dumps(figures).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(text)
    return found


def seconds_of(function: Callable[[], object]) -> float:
    """CPU time of a call."""
    started = time.process_time()
    function()
    return time.process_time() - started


def peak_bytes() -> int:
    """The largest resident set since it was reset."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (line,) = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    json.dump(measured(Path(sys.argv[1])), sys.stdout)
