"""One pytest whose tests several processes share: `KDISSECT_LANES=2 pytest`, as `.ci/lanes` does.

Collecting all tests takes as long as a thousand of the quick ones, so it is done once: the process
that has collected forks the lanes, waits for them and prints their output. Each lane takes the next
file that no other has taken, so all are busy until the end, whatever a file takes. Tests on Spark,
which often wait, are in processes of their own: half of the lanes begin with them, two at most.
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
SPARK_LANES = 2  # each has a JVM, which uses several cores


class Lane(NamedTuple):
    """Parts that a lane runs, one process after the other: True for the tests on Spark."""

    name: str
    parts: tuple[bool, ...]


def run(session: pytest.Session, count: int) -> None:
    """Run the session's tests in forked processes; in each of these, the tests that it takes."""
    place = Path(tempfile.mkdtemp(prefix="kdissect-lanes-"))
    capture = session.config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()  # all processes would write into one file
    try:
        mine = fork_all([lane(number, count) for number in range(count)], place, session)
    except BaseException:
        shutil.rmtree(place)
        raise
    capture.start_global_capturing()
    capture.suspend_global_capture()
    if mine is None:
        shutil.rmtree(place)
    else:
        remaining = taken(items_of(session, is_on_spark=mine.parts[0]), place)
        run_part(session, remaining, current_test(mine, place))


def lane(number: int, count: int) -> Lane:
    begins_with_spark = number < min((count + 1) // 2, SPARK_LANES)
    parts = (True, False) if begins_with_spark else (False, True)
    return Lane(f"{number + 1} of {count}", parts)


def items_of(session: pytest.Session, *, is_on_spark: bool) -> list[pytest.Item]:
    return [item for item in session.items if item.nodeid.startswith(SPARK) == is_on_spark]


def fork_all(lanes: list[Lane], place: Path, session: pytest.Session) -> Lane | None:
    """Run all lanes and return None; in a forked process, return its lane at once."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    running: dict[int, Lane] = {}
    waiting = [begun for each in lanes for begun in left_of(each, place, session)]
    try:
        while True:
            for each in waiting:
                if (process := fork(each, place)) == 0:
                    running.clear()  # they are not this process's children
                    return each
                running[process] = each
            if not running:
                break
            process, status = os.wait()
            session.testsfailed += status != 0
            ended = running.pop(process)
            if os.WIFSIGNALED(status):
                with (place / ended.name).open("a") as log:
                    test = current_test(ended, place)
                    where = test.read_text() if test.exists() else "no test"
                    log.write(f"\nended by signal {os.WTERMSIG(status)} in {where}\n")
            waiting = left_of(ended._replace(parts=ended.parts[1:]), place, session)
    finally:
        for process in running:
            os.kill(process, signal.SIGTERM)
    print_logs(lanes, place, session)
    return None


def left_of(each: Lane, place: Path, session: pytest.Session) -> list[Lane]:
    """The lane from its first part on of which others have not taken all files; none at its end."""
    for number, part in enumerate(each.parts):
        files = {item.location[0] for item in items_of(session, is_on_spark=part)}
        if any(not claim(place, file).exists() for file in files):
            return [each._replace(parts=each.parts[number:])]
    return []


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


def print_logs(lanes: list[Lane], place: Path, session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    for each in lanes:
        reporter.write(f"\n--- tests, lane {each.name}\n")
        log = place / each.name
        reporter.write(log.read_text(errors="replace") if log.exists() else "no tests are left\n")


def current_test(each: Lane, place: Path) -> Path:
    """The file that has the name of the test which a lane runs."""
    return place / f"{each.name}, test"


def run_part(session: pytest.Session, remaining: Iterator[pytest.Item], current: Path) -> None:
    """Run these tests as pytest would do."""
    item = next(remaining, None)
    while item is not None:
        # The fixtures that the next test needs, too, stay: it is to be known before this one ends.
        following = next(remaining, None)
        current.write_text(item.nodeid)
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
            is_mine[file] = take(claim(place, file))
        if is_mine[file]:
            yield item


def claim(place: Path, file: str) -> Path:
    """The file that a process makes when it takes a file of tests."""
    return place / file.replace("/", ".")


def take(mark: Path) -> bool:
    """Return whether no other process has taken it."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
