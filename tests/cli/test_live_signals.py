import os
import signal
import subprocess
import sys
import time

import pytest

from kdissect.cli.live.signals import signals
from kdissect.live.watcher import Flag, Watcher
from tests.live.listening import Given, Kept

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_watcher_and_handlers_are_restored(number: int) -> None:
    before = [signal.getsignal(one) for one in HANDLED]
    watcher = Watcher(Given(*[[]] * 10), [])
    with signals(watcher) as asked:
        assert (asked.to_stop, watcher.is_stopping) == (False, False)
        os.kill(os.getpid(), number)
        assert (asked.to_stop, watcher.is_stopping) == (True, True)
    assert [signal.getsignal(one) for one in HANDLED] == before


def test_a_hangup_opens_anew() -> None:
    kept = Kept([])
    watcher = Watcher(Given([], []), [kept])
    with signals(watcher) as asked:
        os.kill(os.getpid(), signal.SIGHUP)
        watcher.run()
    assert not asked.to_stop
    assert kept.said == ["begin", "reopen", "finish"]


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_the_second_signal_ends_it_at_once_when_it_is_no_part_of_the_first(
    number: str, code: int
) -> None:
    program = f"""
import os, signal, time
from kdissect.cli.live.signals import signals
class Stuck:
    def stop(self): pass
with signals(Stuck()):
    began = time.monotonic()
    os.kill(os.getpid(), signal.{number})
    while True:
        print(time.monotonic() - began, flush=True)
        time.sleep(0.05)  # those of the first second are one with the first
        os.kill(os.getpid(), signal.{number})
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == code
    assert 0.9 < float(done.stdout.split()[-1]) < 10


def test_waiting_code_sees_a_signals_flag_promptly() -> None:
    flag = Flag()
    before = signal.signal(signal.SIGALRM, lambda *_: flag.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        begin = time.monotonic()
        flag.wait(30)
        assert time.monotonic() - begin < 5
    finally:
        signal.signal(signal.SIGALRM, before)
    assert flag.is_set()
    flag.clear()
    flag.wait(0.001)
    assert not flag.is_set()
