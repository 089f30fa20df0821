"""One pytest whose tests several processes share: `KDISSECT_LANES=2 pytest …`, as `.ci/lanes` does.

Collecting all tests takes as long as a thousand of the quick ones, so it is done once: the process
that has collected forks the lanes, waits for them and prints what they have printed. Each lane takes
the next file that no other has taken, so all are busy until the end, whatever a file takes. Tests on
Spark are in processes of their own: the first lane begins with them, the others end with what is left.
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SPARK = "tests/spark/"


class Lane(NamedTuple):
    """What a lane runs, one process after the other; true for the tests on Spark."""

    name: str
    parts: tuple[bool, ...]


def run(session: pytest.Session, count: int) -> None:
    """Run the session's tests in forked processes; in each of them, run what it takes."""
    place = Path(tempfile.mkdtemp(prefix="kdissect-lanes-"))
    capture = session.config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()  # its files would be written by all
    forked = fork_all([lane(number, count) for number in range(count)], place, session)
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=False)
    if forked is None:
        shutil.rmtree(place)
    else:
        run_part(session, place, is_on_spark=forked)


def lane(number: int, count: int) -> Lane:
    return Lane(f"{number + 1} of {count}", (True, False) if number == 0 else (False, True))


def fork_all(lanes: list[Lane], place: Path, session: pytest.Session) -> bool | None:
    """Whether this is a lane's process with tests on Spark; None in the first when all are done."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    running: dict[int, Lane] = {}
    waiting = list(lanes)
    try:
        while waiting or running:
            for each in waiting:
                if (process := fork(each, place)) == 0:
                    running.clear()
                    return each.parts[0]
                running[process] = each
            process, status = os.wait()
            ended = running.pop(process)
            session.testsfailed += status != 0
            waiting = [ended._replace(parts=ended.parts[1:])] if ended.parts[1:] else []
    finally:
        for process in running:
            os.kill(process, signal.SIGTERM)
    for each in lanes:
        print(f"\n--- tests, lane {each.name}\n{(place / each.name).read_text(errors='replace')}")
    return None


def fork(each: Lane, place: Path) -> int:
    """The process of a lane's next part, which writes into the lane's file; 0 in that process."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        log = os.open(place / each.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
    return process


def run_part(session: pytest.Session, place: Path, *, is_on_spark: bool) -> None:
    """Run tests of the files that no other lane has taken, as pytest would do."""
    chosen = [item for item in session.items if item.nodeid.startswith(SPARK) == is_on_spark]
    remaining = taken(chosen, place)
    item = next(remaining, None)
    while item is not None:
        # The fixtures that the next test needs, too, stay: it is to be known before this one ends.
        following = next(remaining, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following


def taken(items: Iterable[pytest.Item], place: Path) -> Iterator[pytest.Item]:
    """Tests of the files that this process takes; others may be between those of one file."""
    is_mine: dict[str, bool] = {}
    for item in items:
        file = item.location[0]
        if file not in is_mine:
            is_mine[file] = take(place / file.replace("/", "."))
        if is_mine[file]:
            yield item


def take(claim: Path) -> bool:
    """Return whether no other process has taken it."""
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
