"""All ways to start the program with the right to capture, and each thread's rights afterwards."""

import itertools
import os
import pwd
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from tests.live.service_manager import (
    SOURCES,
    Place,
    Running,
    a_place,
    nothing,
    privileges_of,
    site_packages,
    talk_inside,
    threads_of,
    written,
)
from tests.screen.golden import terminal
from tests.screen.test_terminal import child_of

pytestmark = pytest.mark.slow
NOBODY = pwd.getpwnam("nobody")
USER = 61_234
NET_RAW = 1 << 13
ALL = int(Path("/proc/self/status").read_text().partition("CapBnd:")[2].split()[0], 16)
# struct vfs_cap_data of <linux/capability.h>: revision 2, effective; two words of permitted and
# inheritable capabilities. Written by `setcap cap_net_raw+ep`.
FILE_CAPABILITY = struct.pack("<5I", 0x0200_0001, NET_RAW, 0, 0, 0)
CAPTURE = ("live", "-i", "lo", "-o", "{tables}")
AS_USER = ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups")
AMBIENT = ("--inh-caps", "-all,+net_raw", "--ambient-caps", "-all,+net_raw")
# As a container has it that was given NET_RAW alone.
CONTAINED = ("--bounding-set", "-all,+net_raw")


class Way(NamedTuple):
    """A way to start, and the expected privileges of threads afterwards."""

    before: Sequence[str]
    after: dict[str, object]
    words: Sequence[str] = CAPTURE
    python: Sequence[str] = (sys.executable,)


AS_NOBODY = nothing(NOBODY.pw_uid, bounding=0, groups=os.getgrouplist("nobody", NOBODY.pw_gid)) | {
    "Gid": [NOBODY.pw_gid]
}
WAYS = {
    "root becomes a user": Way((), AS_NOBODY, (*CAPTURE, "--user", "nobody")),
    "root becomes a user, and answers at a port of root's": Way(
        (), AS_NOBODY, (*CAPTURE, "--user", "nobody", "--metrics", ":80")
    ),
    "a user has the capability": Way((*AS_USER, *AMBIENT), nothing(USER, ALL)),
    "a user has the capability and no others can be had": Way(
        (*AS_USER, *AMBIENT, *CONTAINED, "--no-new-privs"), nothing(USER, NET_RAW)
    ),
    "a user has the capability, others, and groups": Way(
        (
            *AS_USER[:-1], "--groups", f"{USER + 1},{USER + 2}",
            "--inh-caps", "-all,+net_raw,+net_admin,+dac_read_search,+sys_nice",
            "--ambient-caps", "-all,+net_raw,+net_admin,+dac_read_search",
        ),
        nothing(USER, ALL, [USER + 1, USER + 2]),
    ),
    "a user has the capability and takes packets through scapy": Way(
        (*AS_USER, *AMBIENT), nothing(USER, ALL), (*CAPTURE, "--through", "scapy")
    ),
    "a user has the capability and Python tells its imports": Way(
        (*AS_USER, *AMBIENT), nothing(USER, ALL), python=(sys.executable, "-X", "importtime")
    ),
    "a user that is named has the capability": Way(
        ("setpriv", "--reuid", "nobody", "--regid", str(USER), "--clear-groups", *AMBIENT),
        nothing(NOBODY.pw_uid, ALL) | {"Gid": [USER]},
        (*CAPTURE, "--user", "nobody"),
    ),
    "a user has the capability and libraries are told to have threads": Way(
        (*AS_USER, *AMBIENT, "env", "OPENBLAS_NUM_THREADS=8", "OMP_NUM_THREADS=8"),
        nothing(USER, ALL),
    ),
    "the file of Python has the capability": Way(AS_USER, nothing(USER, ALL), python=("{copy}",)),
    "the file of Python has it, in a container": Way(
        (*AS_USER, *CONTAINED), nothing(USER, NET_RAW), python=("{copy}",)
    ),
    "root has nothing else, in a container": Way(
        ("setpriv", "--inh-caps", "-all", "--clear-groups", *CONTAINED), nothing(0, NET_RAW)
    ),
    "root is told to stay root": Way(
        ("setpriv", "--clear-groups"), nothing(0, 0) | {"Groups": [0]}, (*CAPTURE, "--user", "root")
    ),
}  # fmt: skip


@pytest.fixture
def place() -> Iterator[Place]:
    with a_place() as made:
        yield made


@pytest.fixture
def tables(place: Place) -> Path:
    """A directory that every user can write to."""
    made = place.path / "everybody"
    made.mkdir()
    made.chmod(0o777)
    return made / "tables"


def copied_python(place: Place) -> Path:
    """A copy of this Python with the capability in its file, by ``setcap`` where it is there."""
    copy = place.path / "python" / "bin" / Path(sys.executable).name
    copy.parent.mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), copy)
    home = f"home = {Path(sys.base_prefix) / 'bin'}\n"
    (copy.parent.parent / "pyvenv.cfg").write_text(home)
    give_capability(copy)
    return copy


def give_capability(file: Path) -> None:
    """Let whoever runs the file capture; skips where files cannot have capabilities."""
    try:
        os.setxattr(file, "security.capability", FILE_CAPABILITY)
    except OSError as error:
        pytest.skip(f"files of {file.parent} cannot have capabilities: {error.strerror}")
    setcap = shutil.which("setcap", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
    if setcap is not None:
        os.removexattr(file, "security.capability")
        subprocess.run([setcap, "cap_net_raw+ep", str(file)], check=True, timeout=60)
        assert os.getxattr(file, "security.capability") == FILE_CAPABILITY


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_container_with_net_raw_alone_and_a_read_only_root_captures(
    workers: str, place: Place, tables: Path
) -> None:
    """As of the image: its user has nothing, and starts by a setpriv whose file has NET_RAW."""
    setpriv = place.path / "setpriv-net-raw"
    shutil.copy(str(shutil.which("setpriv")), setpriv)
    give_capability(setpriv)
    lines = [
        f"set -e; mount --bind {tables.parent} {tables.parent}",
        "mount -o remount,bind,ro /",
        f"if touch {place.path}/here 2>/dev/null; then exit 9; fi",
        'exec "$@"',
    ]
    apart = ["unshare", "--mount", "--ipc", "--uts", "--propagation", "private", "sh", "-c"]
    passes_on = [str(setpriv), "--inh-caps=+net_raw", "--ambient-caps=+net_raw"]
    contained = [*AS_USER, "--inh-caps", "-all", *CONTAINED]
    before = [*apart, "\n".join(lines), "sh", *contained, *passes_on]
    words = ["live", "-i", "lo", "-o", str(tables), "--workers", workers]
    with place.start(before, words, HOME="/nowhere") as running:
        running.hear("READY=1")
        talked = running.talk()
        threads = [running.threads(), *map(threads_of, running.children())]
        error = running.end()
    told = [privileges_of(thread) for process in threads for thread in process]
    assert told == [nothing(USER, NET_RAW)] * len(told)
    assert len(threads) == (1 if workers == "1" else 3)
    assert written(tables) == talked, error


@pytest.mark.parametrize("name", WAYS)
def test_no_thread_keeps_anything(name: str, place: Place, tables: Path) -> None:
    way = WAYS[name]
    if "scapy" in way.words:
        pytest.importorskip("scapy")
    copy = str(copied_python(place)) if "{copy}" in way.python else ""
    words = [word.format(tables=tables) for word in way.words]
    with place.start(way.before, words, [word.format(copy=copy) for word in way.python]) as running:
        running.hear("READY=1")
        talked = running.talk()
        threads = running.threads()
        error = running.end()
    told = [privileges_of(thread) for thread in threads]
    assert told == [way.after] * len(told), threads
    assert len(threads) > 2
    assert written(tables) == talked, error
    (user,) = way.after["Uid"]  # type: ignore[misc]  # the one
    assert {path.stat().st_uid for path in [tables, *tables.rglob("*")]} == {user}


def test_root_without_a_user_keeps_its_privileges(place: Place, tables: Path) -> None:
    """Root may need it for files; on a terminal a hint names --user."""
    with place.start(["setpriv", "--clear-groups"], ["live", "-i", "lo", "-o", str(tables)]) as it:
        it.hear("READY=1")
        talked = it.talk()
        threads = it.threads()
        it.end()
    everything = {"CapPrm": ALL, "CapEff": ALL, "CapBnd": ALL, "NoNewPrivs": "0"}
    told = [privileges_of(thread) for thread in threads]
    assert told == [nothing(0, 0) | everything] * len(told)
    assert written(tables) == talked


@pytest.mark.parametrize(
    "name", ["root becomes a user", "a user has the capability", "an installation of root"]
)
def test_no_thread_of_any_worker_keeps_anything(name: str, place: Place, tables: Path) -> None:
    way = WAYS.get(name, WAYS["root becomes a user"])
    more = {}
    if name not in WAYS:
        more["PYTHONPATH"] = os.pathsep.join([str(hidden_sources(place)), *site_packages()])
    words = [word.format(tables=tables) for word in way.words]
    with place.start(way.before, [*words, "--workers", "2"], **more) as running:
        running.hear("READY=1")
        talked = running.talk()
        threads = [running.threads(), *map(threads_of, running.children())]
        error = running.end()
    assert len(threads) == 3
    told = [privileges_of(thread) for process in threads for thread in process]
    assert told == [way.after] * len(told), threads
    assert min(map(len, threads[1:])) > 2
    assert written(tables) == talked, error


def hidden_sources(place: Place) -> Path:
    """A copy of kdissect where root alone can read it, and nothing is done for others' eyes."""
    hidden = place.path / "hidden"
    shutil.copytree(SOURCES / "kdissect", hidden / "kdissect")
    hidden.chmod(0o700)
    place.exposing = []
    return hidden


def test_an_installation_that_only_root_can_read_can_be_run_as_a_user(
    place: Place, tables: Path
) -> None:
    """As one in root's home. The user reads nothing of it, and no thread keeps anything."""
    hidden = hidden_sources(place)
    path = os.pathsep.join([str(hidden), *site_packages()])
    words = ["live", "-i", "lo", "-o", str(tables), "--bodies", "--user", "nobody"]
    with place.start([], words, PYTHONPATH=path) as running:
        running.hear("READY=1")
        talked = running.talk()
        threads = running.threads()
        running.end()
    told = [privileges_of(thread) for thread in threads]
    assert told == [AS_NOBODY] * len(told)
    assert written(tables) == talked


# The part between them needs all files of the protocol, codecs, TLS, and telemetry that clients
# push.
VARIED = (
    "quickstart", "admin-4.3.1", "telemetry-4.3.1", "tls/tls13-4.3.1", "tls/tls12-old-2.8.2",
    "old/kafka-0.7", "old-formats-2.4.1", "sasl-4.3.1", "share-groups-4.3.1", "quorum-4.3.1",
)  # fmt: skip


def replayed(place: Place, tables: Path, *words: str, **variables: str) -> dict[str, list[str]]:
    """The rows of the captures, as text, by table."""
    captures = Path(__file__).parents[2] / "captures"
    command = ["live", *(str(captures / f"{name}.pcapng") for name in VARIED)]
    for keys in sorted(captures.glob("tls/*.keys")):
        command += ["--keylog", str(keys)]
    command += ["--bodies", "--records", "-o", str(tables), *words]
    with place.start([], command, **variables) as running:
        _, error = running.process.communicate(timeout=120)
    assert running.process.returncode == 0, error
    rows: dict[str, list[str]] = {}
    for path in tables.glob("*/*/*.parquet"):
        if path.stem == "open_connections":
            continue  # as of the moments at which tables were rotated, by wall-clock time
        rows.setdefault(path.stem, []).extend(map(str, pq.read_table(path).to_pylist()))
    return {table: sorted(found) for table, found in rows.items()}


def test_nothing_is_read_of_the_installation_after_privileges_are_given_up(place: Place) -> None:
    plain = replayed(place, place.path / "plain")
    path = os.pathsep.join([str(hidden_sources(place)), *site_packages()])
    unread = replayed(place, place.path / "unread", "--user", "nobody", PYTHONPATH=path)
    assert unread == plain
    assert {"exchanges", "bodies", "records", "errors", "problems"} <= set(plain)


def test_interfaces_come_and_go_and_a_hangup_opens_anew_without_privileges(
    place: Place, tables: Path
) -> None:
    words = ["live", "-i", "lo", "-o", str(tables), "--flush", "0.2s"]
    with place.start([*AS_USER, *AMBIENT], words) as running:
        running.hear("READY=1")
        talked = running.talk()
        for state in ("down", "up"):
            link = [*place.inside, "ip", "link", "set", "lo", state]
            subprocess.run(link, check=True, timeout=60)
            running.hear("WATCHDOG=1")
            running.hear("WATCHDOG=1")
        talked += running.talk()
        running.process.send_signal(1)
        running.hear("READY=1")
        talked += running.talk()
        error = running.end()
    assert written(tables) == sorted(talked), error


def lines_of_top(running: Running) -> list[list[dict[str, str]]]:
    """The threads when there was a first line, and when there was another."""
    seen = []
    for _ in range(2):
        assert running.process.stdout is not None
        assert "ex/s" in running.process.stdout.readline()
        seen.append(running.threads())
    return seen


@pytest.mark.parametrize(
    "name",
    ["root becomes a user", "a user has the capability", "the file of Python has the capability"],
)
def test_no_thread_of_top_keeps_anything(name: str, place: Place) -> None:
    way = WAYS[name]
    copy = str(copied_python(place)) if "{copy}" in way.python else ""
    words = ["top", "-i", "lo", "--interval", "0.2s", *way.words[len(CAPTURE) :]]
    with place.start(way.before, words, [word.format(copy=copy) for word in way.python]) as running:
        for threads in lines_of_top(running):
            assert len(threads) > 1
            assert [privileges_of(one) for one in threads] == [way.after] * len(threads)
        running.end()


# Threads of the screen, of its data, and of the capture.
SCREEN_THREADS = 3


@pytest.mark.parametrize("name", ["root becomes a user", "a user has the capability"])
def test_no_thread_of_the_screen_keeps_anything(name: str, place: Place) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux to look at the screen")
    way = WAYS[name]
    words = ["-m", "kdissect", "top", "-i", "lo", *way.words[len(CAPTURE) :]]
    command = [*place.inside, *place.exposing, *way.before, sys.executable, *words]
    with terminal(command, PYTHONPATH=str(SOURCES)) as shown:
        shown.wait_for("? help")
        talk_inside(place.inside)
        assert "ApiVersions" in shown.wait_for("Metadata")
        threads = threads_of(child_of(shown))
        shown.press("C-c")
        shown.wait_for("ended 0")
    assert len(threads) >= SCREEN_THREADS
    assert [privileges_of(thread) for thread in threads] == [way.after] * len(threads)


def test_the_screen_needs_an_installation_that_its_user_can_read(place: Place) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux to look at the screen")
    hidden = hidden_sources(place)
    words = ["-P", "-m", "kdissect", "top", "-i", "lo", "--user", "nobody"]
    command = [*place.inside, sys.executable, *words]
    with terminal(command, PYTHONPATH=str(hidden), width=200) as shown:
        said = shown.wait_for("ended 1")
    assert "the user 'nobody' cannot read the files of kdissect or of its Python; install" in said
    assert "Traceback" not in said


# Imports by phase

# Reported by Python itself at each import: the remaining rights of the process, and its threads.
TELLING = """
import os, sys
told = open(os.environ["TOLD"], "a", buffering=1)
process = os.getpid()
def tell(event, arguments):
    if event == "import" and os.getpid() == process:
        with open("/proc/self/status") as file:
            status = dict(line.split(":\\t", 1) for line in file if ":\\t" in line)
        told.write(f"{status['CapEff'].strip()} {status['Threads'].strip()} {arguments[0]}\\n")
sys.addaudithook(tell)
"""
# Beside Python's own and kdissect: parsers of options, and codecs of captures and records.
HARMLESS = {
    "click", "cramjam", "google_crc32c", "librt", "lz4", "mypy_extensions", "snappy", "zstandard",
}  # fmt: skip
MAY_BE_EARLY = {*sys.stdlib_module_names, *HARMLESS, "kdissect", "sitecustomize", "usercustomize"}


class Import(NamedTuple):
    """Result of a module with that many threads; records whether the process had capabilities."""

    is_privileged: bool
    threads: int
    package: str


def imports_of(place: Place, way: Way, tables: Path, *sources: Path) -> list[Import]:
    """Modules that a run imports, in order."""
    told = place.path / "told"
    told.touch()
    told.chmod(0o666)
    path = with_sitecustomize(place, TELLING, *sources)
    words = [word.format(tables=tables) for word in way.words]
    with place.start(way.before, words, PYTHONPATH=path, TOLD=str(told)) as running:
        running.hear("READY=1")
        assert running.talk()
        with running.open_connections():
            running.hear("WATCHDOG=1")
            running.hear("WATCHDOG=1")
            running.end()
    found = []
    for line in told.read_text().splitlines():
        effective, threads, module = line.split(" ", 2)
        package = module.partition(".")[0]
        found.append(Import(int(effective, 16) != 0, int(threads), package.partition("__mypyc")[0]))
    return found


@pytest.mark.parametrize(
    "name",
    [
        "root becomes a user",
        "a user has the capability",
        "a user has the capability and libraries are told to have threads",
    ],
)
def test_nothing_that_starts_a_thread_is_imported_before_privileges_are_given_up(
    name: str, place: Place, tables: Path
) -> None:
    found = imports_of(place, WAYS[name], tables)
    early = {one.package for one in found if one.is_privileged}
    assert "kdissect" in early
    # Modules that are not found, as those of other systems, are not imported.
    assert {name for name in early - MAY_BE_EARLY if find_spec(name) is not None} == set()
    assert {one.threads for one in found if one.is_privileged} == {1}
    late = {one.package for one in found if not one.is_privileged}
    assert {"kdissect", "numpy", "pyarrow"} <= late
    # It is once and for all.
    changes = [a.is_privileged != b.is_privileged for a, b in itertools.pairwise(found)]
    assert sum(changes) == 1


def test_privileged_imports_start_no_thread_either(place: Place, tables: Path) -> None:
    hidden = hidden_sources(place)
    found = imports_of(place, WAYS["root becomes a user"], tables, hidden)
    early = [one for one in found if one.is_privileged]
    assert {"numpy", "pyarrow"} <= {one.package for one in early}
    assert {one.threads for one in early} == {1}
    # The user may be able to read nothing of all this: not a single import is left for later.
    assert [one.package for one in found if not one.is_privileged] == []


# Failures

EARLY = "import pyarrow\n"
LATER_MODULES = "kdissect: privileges cannot be given up: thread "


def with_sitecustomize(place: Place, text: str, *sources: Path) -> str:
    """PYTHONPATH with a module that Python imports at its start."""
    directory = place.path / "site"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(text)
    found = map(str, sources or [SOURCES])
    return os.pathsep.join([str(directory), *found, *site_packages()])


@pytest.mark.parametrize("name", ["root becomes a user", "a user has the capability"])
@pytest.mark.parametrize(
    ("text", "thread"), [("THREAD", "early bird"), ("EARLY", r"jemalloc_bg_thd|python[\d.]*")]
)
def test_a_thread_from_before_the_start_is_an_error_with_its_name(
    text: str, thread: str, name: str, place: Place, tables: Path
) -> None:
    way = WAYS[name]
    words = [word.format(tables=tables) for word in way.words]
    path = with_sitecustomize(place, {"THREAD": THREAD, "EARLY": EARLY}[text])
    with place.start(way.before, words, PYTHONPATH=path) as running:
        error = running.fail()
    assert error.startswith(LATER_MODULES)
    assert re.search(rf"\(({thread})\) would keep them\.", error), error
    assert "look for sitecustomize.py" in error
    assert "Traceback" not in error
    assert not tables.exists()


THREAD = """
import ctypes, threading
def wait():
    ctypes.CDLL(None).prctl(15, b"early bird", 0, 0, 0)  # PR_SET_NAME
    named.set()
    threading.Event().wait()
named = threading.Event()
threading.Thread(target=wait, daemon=True).start()
named.wait()
"""


def test_a_thread_from_before_the_start_is_none_where_there_is_nothing_to_give_up(
    place: Place, tables: Path
) -> None:
    path = with_sitecustomize(place, EARLY)
    capture = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"
    there = place.path / capture.name
    shutil.copy(capture, there)
    with place.start(AS_USER, ["live", str(there), "-o", str(tables)], PYTHONPATH=path) as running:
        _, error = running.process.communicate(timeout=60)
    assert running.process.returncode == 0, error
    assert len(written(tables)) == 331


def test_root_of_a_container_that_may_not_change_its_user_is_an_error(place: Place) -> None:
    before = ["setpriv", "--inh-caps", "-all", "--clear-groups", *CONTAINED]
    with place.start(before, ["live", "-i", "lo", "--user", "nobody"]) as running:
        error = running.fail()
    assert "cannot become the user 'nobody': Operation not permitted" in error
    assert "start kdissect as that user" in error
    assert "Traceback" not in error


def test_a_key_log_that_only_root_can_read_is_read_on_by_a_user(place: Place, tables: Path) -> None:
    captures = Path(__file__).parents[2] / "captures"
    capture = next(captures.rglob("tls13-4.3.1.pcapng"))
    keys = place.path / "keys"
    shutil.copy(next(captures.rglob("tls13-4.3.1.keys")), keys)
    keys.chmod(0o600)
    found = []
    for user in (["--user", "nobody"], []):
        directory = tables / "of" / ("-".join(user) or "root")
        words = ["live", str(capture), "--keylog", str(keys), "-o", str(directory), *user]
        with place.start([], words) as running:
            _, error = running.process.communicate(timeout=60)
        assert running.process.returncode == 0, error
        found.append(written(directory))
    assert found[0] == found[1]
    assert len(found[0]) > 10
