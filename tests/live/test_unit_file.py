"""The program as started by the unit in docs/, until its end, and the rights of each thread."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.live.service_manager import (
    SOURCES,
    Place,
    Running,
    a_place,
    nothing,
    privileges_of,
    python_variables,
    talk_inside,
    threads_of,
    written,
)
from tests.live.unit_file import (
    APPLIED,
    DYNAMIC_USER,
    NOT_APPLIED,
    UNIT,
    Unit,
    allowed_calls,
    needed,
    setpriv_words,
    shipped_unit,
)
from tests.seeds import SEED

pytestmark = pytest.mark.slow
NET_RAW = 1 << 13
CONFINED = Path(__file__).parent / "confined.py"
SCRAPE = """
import socket, sys
with socket.create_connection(("127.0.0.1", 9123), timeout=30) as reader:
    reader.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: here\\r\\nConnection: close\\r\\n\\r\\n")
    while part := reader.recv(65536):
        sys.stdout.buffer.write(part)
"""
# One call for each filter, of those that root may otherwise make.
REFUSED = (
    "import os; os.nice(1)",
    "import socket; socket.socket(socket.AF_VSOCK)",
    "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
)


@pytest.fixture
def place() -> Iterator[Place]:
    with a_place() as made:
        yield made


def state_directory(unit: Unit, place: Place) -> Path:
    """Made as systemd makes it; `%S` is the directory it lies in."""
    directory = place.path / "state" / unit.value("StateDirectory")
    directory.mkdir(parents=True)
    directory.chmod(int(unit.value("StateDirectoryMode"), 8))
    os.chown(directory, DYNAMIC_USER, DYNAMIC_USER)
    return directory


def confined(unit: Unit, **filters: list[str]) -> str:
    names = ("UMask", "Nice", "OOMScoreAdjust", "LimitNOFILE", "LimitCORE")
    return json.dumps({**{name: unit.value(name) for name in names}, **filters})


def start_as_the_unit_says(
    place: Place, unit: Unit, state: Path, asked: str, *more: str
) -> AbstractContextManager[Running]:
    program, *words = unit.words("ExecStart")
    assert program == "/usr/local/bin/kdissect"
    assert (unit.value("Type"), unit.value("NotifyAccess")) == ("notify", "main")
    words = [word.replace("%S", str(state.parent)) for word in (*words, *more)]
    before = [*setpriv_words(unit), sys.executable, str(place.path / CONFINED.name), asked]
    (place.path / CONFINED.name).write_bytes(CONFINED.read_bytes())
    watchdog = {"WATCHDOG_USEC": str(round(unit.seconds("WatchdogSec") * 1e6))}
    return place.start(before, words, [sys.executable], **watchdog)


def run_as_the_unit_says(place: Place, unit: Unit, asked: str, *more: str) -> None:
    """Start it with `more` words, let a client talk, look at all threads, reload, and end it."""
    state = state_directory(unit, place)
    python = sys.executable
    with start_as_the_unit_says(place, unit, state, asked, *more) as running:
        running.hear("READY=1")
        talked = running.talk()
        scraped = subprocess.run(
            [*place.inside, python, "-c", SCRAPE], capture_output=True, timeout=60, check=True
        )
        threads = running.threads()
        assert unit.words("ExecReload") == ["/bin/kill", "-HUP", "$MAINPID"]
        running.process.send_signal(signal.SIGHUP)
        running.hear("READY=1")
        talked += running.talk()
        threads += [
            *running.threads(),
            *(one for child in running.children() for one in threads_of(child)),
        ]
        error = running.end(signal.Signals[unit.value("KillSignal")])
    is_filtered = "calls" in asked
    assert {thread["Seccomp"] for thread in threads} == {"2" if is_filtered else "0"}
    told = [privileges_of(thread) for thread in threads]
    assert told == [nothing(DYNAMIC_USER, bounding=NET_RAW)] * len(told), threads
    # The reader of packets, two that write files, the one that answers for metrics, Arrow's.
    assert len(threads) > 6
    assert b"kdissect_packets_total" in scraped.stdout
    tables = state / "tables"
    assert written(tables) == sorted(talked), error
    assert len(talked) >= 20
    made = [path for path in [tables, *tables.rglob("*")] if path.stat().st_uid != DYNAMIC_USER]
    assert made == []
    umask = int(unit.value("UMask"), 8)
    assert [path for path in tables.rglob("*") if path.stat().st_mode & umask] == []


def test_the_unit_starts_captures_and_ends(place: Place) -> None:
    unit = shipped_unit()
    run_as_the_unit_says(place, unit, confined(unit))


def test_a_stop_at_any_moment_is_a_success(place: Place) -> None:
    """systemd takes 0 for one, the end by its own signal, and what the unit lists."""
    unit = shipped_unit()
    state = state_directory(unit, place)
    number = signal.Signals[unit.value("KillSignal")]
    successes = {0, -number, *map(int, unit.words("SuccessExitStatus"))}
    with start_as_the_unit_says(place, unit, state, confined(unit)) as running:
        begun = time.monotonic()
        running.hear("READY=1")
        took = time.monotonic() - begun
        running.end(number)
    chance = random.Random(SEED)
    codes = []
    for _ in range(8):
        wait = chance.uniform(0, took)
        with start_as_the_unit_says(place, unit, state, confined(unit)) as running:
            time.sleep(wait)
            running.process.send_signal(number)
            _, error = running.process.communicate(timeout=unit.seconds("TimeoutStopSec"))
            codes.append(running.process.returncode)
            assert codes[-1] in successes, (SEED, wait, error)
            assert "Traceback" not in error, (SEED, wait, error)
    assert set(codes) - {0}, (SEED, took, codes)  # not all of them captured already


@pytest.mark.parametrize("more", [(), ("--workers", "2")], ids=["one process", "workers"])
def test_the_unit_runs_under_its_filters_of_system_calls(
    place: Place, more: tuple[str, ...]
) -> None:
    """Restrictions that systemd would apply; for others see `NOT_APPLIED`."""
    unit = shipped_unit()
    assert unit.value("SystemCallErrorNumber") == "EPERM"
    assert unit.value("SystemCallArchitectures") == "native"
    assert unit.value("MemoryDenyWriteExecute") == "yes"
    calls, families = allowed_calls(unit), unit.words("RestrictAddressFamilies")
    probe = [sys.executable, str(CONFINED), confined(unit, calls=calls, families=families)]
    able = subprocess.run([*probe, "/bin/true"], capture_output=True, text=True, check=False)
    if able.returncode:
        pytest.skip(f"needs libseccomp and seccomp: {able.stderr.splitlines()[-1]}")
    for refused in REFUSED:
        program = [*probe, sys.executable, "-c", refused]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert "Error: " in done.stderr, refused
    run_as_the_unit_says(place, unit, probe[-1], *more)


SYSTEMD_RUNS = Path("/run/systemd/system")


def systemctl(*words: str) -> str:
    command = ["systemctl", "--no-ask-password", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def service(place: Place) -> Iterator[str]:
    """The unit under another name, with another program, directory and network, for systemd."""
    if not SYSTEMD_RUNS.is_dir():
        init = Path("/proc/1/comm").read_text().strip()
        pytest.skip(
            f"needs a host that systemd runs; process 1 is {init} here. What setpriv, prlimit and "
            f"seccomp cannot apply is not tested: {', '.join(sorted(NOT_APPLIED))}"
        )
    for path in (SOURCES, Path(sys.prefix), Path(sys.base_prefix)):
        if path.resolve().is_relative_to("/root") or path.resolve().is_relative_to("/home"):
            pytest.skip(f"the unit says ProtectHome=yes, which hides {path}")
    name = f"kdissect-test-{os.getpid()}"
    variables = python_variables()
    text = UNIT.read_text()
    for before, after in (
        ("ExecStart=/usr/local/bin/kdissect ", f"ExecStart={sys.executable} -m kdissect "),
        (" %S/kdissect/", f" %S/{name}/"),
        ("StateDirectory=kdissect\n", f"StateDirectory={name}\n"),
        ("[Install]\n", f"NetworkNamespacePath={place.network}\n"
         + "".join(f"Environment={key}={value}\n" for key, value in variables.items())
         + "[Install]\n"),
    ):  # fmt: skip
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    unit = SYSTEMD_RUNS / f"{name}.service"
    unit.write_text(text)
    try:
        systemctl("daemon-reload")
        yield name
    finally:
        # It is not loaded any more where the test has stopped it.
        subprocess.run(["systemctl", "stop", name], check=False, timeout=90, capture_output=True)
        unit.unlink()
        systemctl("daemon-reload")
        shutil.rmtree(f"/var/lib/private/{name}", ignore_errors=True)
        Path(f"/var/lib/{name}").unlink(missing_ok=True)


def test_under_systemd_itself(place: Place, service: str) -> None:
    systemctl("start", service)
    process = int(systemctl("show", "--property=MainPID", "--value", service))
    talked = talk_inside(place.inside)
    threads = threads_of(process)
    systemctl("reload", service)
    talked += talk_inside(place.inside)
    threads += threads_of(process)
    systemctl("stop", service)
    shown = systemctl("show", "--property=Result,ExecMainStatus", service)
    assert sorted(shown.splitlines()) == ["ExecMainStatus=0", "Result=success"]
    assert len(threads) > 6
    told = [privileges_of(thread) for thread in threads]
    (user,) = told[0]["Uid"]
    assert 61_184 <= user <= 65_519  # as systemd.exec(5) documents DynamicUser=
    assert told == [nothing(user, bounding=NET_RAW, groups=[user])] * len(told), threads
    assert {thread["Seccomp"] for thread in threads} == {"2"}
    assert written(Path(f"/var/lib/{service}/tables")) == sorted(talked)


def test_every_directive_is_applied_or_there_is_a_reason() -> None:
    assert set(shipped_unit().directives) == APPLIED | set(NOT_APPLIED)
    assert APPLIED & set(NOT_APPLIED) == set()


def test_systemd_has_nothing_to_say_against_the_unit(tmp_path: Path) -> None:
    analyze = needed("systemd-analyze")
    program = tmp_path / "kdissect"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    text = UNIT.read_text()
    assert "/usr/local/bin/kdissect " in text
    unit.write_text(text.replace("/usr/local/bin/kdissect ", f"{program} "))
    verify = [*analyze, "verify", "--man=no", str(unit)]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # In tenths; docs/live.md gives 1.7.
    security = [*analyze, "security", "--offline=true", "--no-pager", "--threshold=17", str(unit)]
    done = subprocess.run(security, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
