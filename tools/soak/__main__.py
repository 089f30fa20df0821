"""Disturbs `kdissect live` while clients talk to a real broker, and compares with their counts.

    python -m tools.soak [--minutes 60] [--seed 1] [--clients 4] [--compiled DIR] [--keep DIR]
                         [--rotate 10s] [--flush 2] [--workers 2] [--one-run]
                         [--record [--plain]]

At random moments the interface goes down or is removed and made again, the disk is full for a
while, the capture is ended or killed and started again, told to reopen, and the broker restarts.
With several workers, which run as the user nobody, one of them is killed at times, too.
Every file under its final name must be readable at every look; every exchange that a client has an
answer to must be in the tables once, but for those during an outage of the capture: while it did
not run or its interface was not there, and the flush interval before a kill. Exit code 1 when it is
not so. Needs root (network namespaces, a mount) and Java; the broker's jars are fetched once.
"""

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyarrow import parquet

from benchmarks import live_page
from benchmarks.timing import KDISSECT, circumstances, compiled_version, environment
from tools.soak.capture import Failed, LiveCapture, Memory
from tools.soak.faults import Fault, Faults
from tools.soak.journal import read_journal
from tools.soak.judge import Finding, Outage, Row, Verdict, judged, summary
from tools.soak.looking import Looking
from tools.soak.scene import Scene, staged

COLUMNS = ("client_id", "correlation_id", "outcome")
LEAST_GAP_S, MOST_GAP_S = 3.0, 12.0  # between two faults
SETTLE_S = 2.0


def play(scene: Scene, capture: LiveCapture, options: argparse.Namespace) -> list[Fault]:
    """Run clients and faults for the given time; return the actions."""
    chance = random.Random(options.seed)  # noqa: S311  # when to fail is no secret
    faults = Faults(scene, capture, options.flush, chance, options.one_run)
    done: list[Fault] = []
    capture.start()
    scene.start_clients(options.seed, options.clients)
    end = time.monotonic() + options.minutes * 60
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, chance.uniform(LEAST_GAP_S, MOST_GAP_S)))
        if time.monotonic() < end:
            done.append(faults.next())
            told(done[-1])
    scene.stop_clients()
    time.sleep(SETTLE_S)
    return [*done, *ended(capture)]


def ended(capture: LiveCapture) -> Iterator[Fault]:
    """End it, then start and end it again, which recovers the state after a kill."""
    for is_first in (True, False):
        try:
            if not is_first:
                capture.start()
                time.sleep(SETTLE_S)
            capture.stop()
        except Failed as error:
            now = time.time_ns()
            yield Fault("the end", now, now, [], str(error))


def told(fault: Fault) -> None:
    took = (fault.end_ns - fault.begin_ns) / 1e9
    bad = f" FAILED: {fault.failure}" if fault.failure else ""
    print(f"{time.strftime('%H:%M:%S')} {fault.kind:16} {took:6.1f} s{bad}", flush=True)


def rows_in(output: Path) -> Iterator[Row]:
    """Exchanges of all runs."""
    for file in sorted(output.glob("[!.]*/[!.]*/exchanges.parquet")):
        table = parquet.read_table(file, columns=list(COLUMNS))
        columns = (table[name].to_pylist() for name in COLUMNS)
        for client_id, correlation_id, outcome in zip(*columns, strict=True):
            yield Row(client_id or "", correlation_id or 0, outcome)


def judge(scene: Scene, faults: list[Fault], looking: Looking) -> Verdict:
    """Counts of the clients compared with the tables, and all failures."""
    outages: list[Outage] = [outage for fault in faults for outage in fault.outages]
    verdict = judged(read_journal(scene.journal), rows_in(scene.output), outages)
    verdict.findings.extend(
        Finding("failed", f"{fault.kind}: {fault.failure}") for fault in faults if fault.failure
    )
    verdict.findings.extend(Finding("not whole", text) for text in looking.broken)
    verdict.counts["files looked at"] += looking.files
    for fault in faults:
        verdict.counts[f"fault: {fault.kind}"] += 1
    return verdict


def soak(options: argparse.Namespace, directory: Path) -> Verdict:
    """All of it."""
    command = [*KDISSECT, "live", "-i", "{}", "-o", "{out}"]
    command += ["--rotate", options.rotate, "--flush", f"{options.flush:g}s"]
    if options.workers > 1:
        command += ["--workers", str(options.workers), "--user", "nobody"]
    with staged(directory) as scene:
        capture = scene.capture(command, environment(options.compiled), options.workers)
        looking, memory = Looking(scene.output), Memory(capture)
        looking.start()
        memory.start()
        try:
            faults = play(scene, capture, options)
        finally:
            memory.stop()
            capture.end()
            looking.stop()
            if options.keep is not None and scene.output.exists():
                shutil.copytree(scene.output, directory / "live")
        verdict = judge(scene, faults, looking)
        count_packets(verdict, capture, memory)
        return verdict


def count_packets(verdict: Verdict, capture: LiveCapture, memory: Memory) -> None:
    """Packets, and the memory of all processes, in MB."""
    seen, dropped = capture.packets()
    verdict.counts["packets of runs that ended in order"] += seen
    verdict.counts["packets dropped by the kernel"] += dropped
    if memory.samples:
        verdict.counts["memory, median, MB"] += round(statistics.median(memory.samples) / 1e6)
        verdict.counts["memory, most, MB"] += round(max(memory.samples) / 1e6)
        third = len(memory.samples) // 3
        parts = memory.samples[third : 2 * third], memory.samples[2 * third :]
        for name, part in zip(("second", "last"), parts, strict=True):
            if part:
                counted = round(statistics.median(part) / 1e6)
                verdict.counts[f"memory, median of the {name} third, MB"] += counted


def record(options: argparse.Namespace, version: str, verdict: Verdict) -> None:
    """Print it into the page, with the violations."""
    names = ("minutes", "seed", "clients", "flush", "workers")
    asked = {name: getattr(options, name) for name in names}
    findings = Counter(finding.kind for finding in verdict.findings)
    found = asked | {"counts": list(verdict.counts.items()), "findings": findings}
    where = circumstances() | {"kdissect": version}
    section = "soak" if options.workers == 1 else "soak_workers"
    live_page.keep({section: {"found": found, "circumstances": where}})


def main() -> int:
    parser = argparse.ArgumentParser(
        "soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rotate", default="10s")
    parser.add_argument("--flush", type=float, default=2, help="seconds")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--one-run", action="store_true", help="no fault ends the capture")
    parser.add_argument("--plain", action="store_true", help="record what is not compiled, too")
    parser.add_argument("--record", action="store_true", help="in docs/live-performance.md")
    parser.add_argument("--keep", type=Path, help="a directory for tables, journal and logs")
    options = parser.parse_args()
    if os.geteuid():
        parser.error("network namespaces, packet sockets and a mount need root: run it as root")
    version = "plain Python" if options.plain else ""
    if options.record and not options.plain:
        version = compiled_version(options.compiled)
    directory = Path(tempfile.mkdtemp(prefix="kdissect-soak-"))
    directory.chmod(0o755)  # for the user of several workers
    try:
        verdict = soak(options, directory)
    finally:
        if options.keep is not None:
            ignored = shutil.ignore_patterns("disk", "node-*")
            shutil.copytree(directory, options.keep, ignore=ignored, dirs_exist_ok=True)
        shutil.rmtree(directory, ignore_errors=True)
    print(*summary(verdict), sep="\n")
    if options.record:
        record(options, version, verdict)
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main())
