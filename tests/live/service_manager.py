"""Acts as a service manager: starts the program as some user, reads its messages, observes it.

Facts about threads come from the kernel, not from kdissect.
"""

import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

import kdissect

NAMESPACE = f"kdissect-service-{os.getpid()}"
SOURCES = Path(kdissect.__path__[0]).parent
PATIENCE_S = 60
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
# A real client and a real broker, librdkafka's, over a relay at a broker port, which is the oracle:
# it logs the API key and correlation id of each request that it relayed.
TALK = """
import json, socket, struct, sys, threading
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

def pass_on(source, sink, keep):
    try:
        while part := source.recv(65536):
            keep(part)
            sink.sendall(part)
    except OSError:
        pass
    for one in (source, sink):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

def serve(listening, port):
    while True:
        client = listening.accept()[0]
        broker = socket.create_connection(("127.0.0.1", port))
        data = bytearray()
        requests.append(data)
        for ends in ((client, broker, data.extend), (broker, client, len)):
            threading.Thread(target=pass_on, args=ends, daemon=True).start()

def headers(data):
    at = 0
    while at + 12 <= len(data):
        size, key, _, number = struct.unpack_from(">ihhi", data, at)
        yield [key, number]
        at += 4 + size

requests = []
mock = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
port = next(iter(mock.list_topics(timeout=30).brokers.values())).port
listening = socket.create_server(("127.0.0.1", 9092))
threading.Thread(target=serve, args=(listening, port), daemon=True).start()
for number in range(5):
    AdminClient({"bootstrap.servers": "127.0.0.1:9092"}).list_topics(timeout=30)
print(json.dumps(sorted(header for data in requests for header in headers(data))), flush=True)
"""
# The same, and the connections stay.
STAY = f"""{TALK}
one = AdminClient({{"bootstrap.servers": "127.0.0.1:9092"}})
one.list_topics(timeout=30)
print("open", flush=True)
sys.stdin.read()
"""


def talk_inside(inside: Sequence[str]) -> list[list[int]]:
    """Let a client and a broker talk; gives API key and correlation id of each request."""
    command = [*inside, sys.executable, "-c", TALK]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
    found: list[list[int]] = json.loads(done.stdout)
    return found


def threads_of(process: int) -> list[dict[str, str]]:
    """The fields of each thread's status in /proc."""
    found = []
    for task in sorted(Path(f"/proc/{process}/task").iterdir()):
        lines = (task / "status").read_text().splitlines()
        found.append(dict(line.split(":\t", 1) for line in lines if ":\t" in line))
    return found


class Running:
    """A program that was started, which `inside` leads to."""

    def __init__(
        self, process: "subprocess.Popen[str]", manager: socket.socket, inside: Sequence[str]
    ) -> None:
        self.process = process
        self.manager = manager
        self.inside = inside

    def hear(self, word: str) -> None:
        """Wait for a message; the program's end before that is an error."""
        self.manager.settimeout(0.2)
        for _ in range(PATIENCE_S * 5):
            try:
                said = self.manager.recv(4096).decode().split("\n")
            except TimeoutError:
                assert self.process.poll() is None, self.process.communicate()
                continue
            if word in said:
                return
        raise AssertionError(f"never said {word}")

    def skip(self) -> None:
        """Forget the messages that came so far."""
        while select.select([self.manager], [], [], 0)[0]:
            self.manager.recv(4096)

    def talk(self) -> list[list[int]]:
        """The same, until all packets were read: that is two ticks later."""
        found = talk_inside(self.inside)
        self.skip()  # on a busy machine, talking takes seconds
        self.hear("WATCHDOG=1")
        self.hear("WATCHDOG=1")
        return found

    @contextmanager
    def open_connections(self) -> Iterator[None]:
        """Meanwhile a client and a broker have talked, and stay connected."""
        command = [*self.inside, sys.executable, "-c", STAY]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as talking:
            try:
                assert talking.stdout is not None
                assert talking.stdout.readline()
                assert talking.stdout.readline() == b"open\n"
                yield
            finally:
                talking.kill()

    def threads(self) -> list[dict[str, str]]:
        return threads_of(self.process.pid)

    def children(self) -> list[int]:
        """Its processes' numbers: those of workers, if it has some."""
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(child) for child in tasks.read_text().split()]

    def end(self, number: int = signal.SIGTERM) -> str:
        """Stop it cleanly; return its stderr."""
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, error
        return error

    def fail(self) -> str:
        """Wait until it has ended by itself with an error; gives that."""
        _, error = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode in (1, 2), error  # the host, or the command line
        return error


class Place:
    """A directory that all users can go to, and a network namespace with a loopback."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.network = Path("/run/netns") / NAMESPACE
        self.inside = ["ip", "netns", "exec", NAMESPACE]
        self.exposing = exposing([SOURCES, Path(sys.prefix), Path(sys.base_prefix)], path)

    @contextmanager
    def start(
        self,
        before: Sequence[str],
        words: Sequence[str],
        python: Sequence[str] = (sys.executable,),
        **more: str,
    ) -> Iterator[Running]:
        """Start ``before python -m kdissect words``; `more` are variables of its environment."""
        address = self.path / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            address.unlink(missing_ok=True)
            manager.bind(str(address))
            address.chmod(0o777)
            environment = {
                "PATH": os.environ["PATH"],
                **python_variables(),
                "NOTIFY_SOCKET": str(address),
                **more,
            }
            process = subprocess.Popen(
                [*self.inside, *self.exposing, *before, *python, "-m", "kdissect", *words],
                env=environment, cwd="/", text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            try:
                yield Running(process, manager, self.inside)
            finally:
                process.kill()
                process.communicate(timeout=PATIENCE_S)


@contextmanager
def a_place() -> Iterator[Place]:
    """A directory of its own; skips, with the reason, where none can be made."""
    if os.geteuid() != 0:
        pytest.skip("needs root to start programs as other users")
    for program in ("ip", "unshare", "setpriv"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    pytest.importorskip("confluent_kafka")
    made = subprocess.run(["ip", "netns", "add", NAMESPACE], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"cannot make a network namespace: {made.stderr.decode()}")
    with tempfile.TemporaryDirectory(prefix="kdissect-") as name:
        try:
            enter = ["ip", "netns", "exec", NAMESPACE]
            subprocess.run([*enter, "ip", "link", "set", "lo", "up"], check=True)
            Path(name).chmod(0o755)
            yield Place(Path(name))
        finally:
            subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)


def exposing(paths: Sequence[Path], place: Path) -> list[str]:
    """Command prefix for a program that sees these paths, even those readable by root only.

    Of a directory that others may not go through, an empty one takes the place, in a namespace of
    mounts of the program's own, with nothing but these paths in it.
    """
    hidden: dict[Path, list[Path]] = {}
    for path in dict.fromkeys(path.resolve() for path in paths):
        closed = [one for one in reversed(path.parents) if not one.stat().st_mode & stat.S_IXOTH]
        if closed:
            hidden.setdefault(closed[0], []).append(path)
    if not hidden:
        return []
    lines = ["set -e"]
    for number, (closed, wanted) in enumerate(hidden.items()):
        held = [place / f"held-{number}-{at}" for at in range(len(wanted))]
        for path, hold in zip(wanted, held, strict=True):
            lines += [f"mkdir -p '{hold}'", f"mount --bind '{path}' '{hold}'"]
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs '{closed}'")
        for path, hold in zip(wanted, held, strict=True):
            lines += [f"mkdir -p '{path}'", f"mount --bind '{hold}' '{path}'"]
    script = "\n".join([*lines, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


def site_packages() -> list[str]:
    """Path of installed packages, for a copy of this Python."""
    return [path for path in sys.path if path.endswith("site-packages")]


def python_variables() -> dict[str, str]:
    """Environment for this Python to find its parts, and the sources."""
    needed = ("LD_LIBRARY_PATH", "PYTHONHOME")
    found = {name: os.environ[name] for name in needed if name in os.environ}
    return found | {"PYTHONPATH": os.pathsep.join([str(SOURCES), *site_packages()])}


def privileges_of(thread: dict[str, str]) -> dict[str, Any]:
    """Identity and capabilities of a thread."""
    sets = {name: int(thread[name], 16) for name in SETS}
    users, groups = thread["Uid"].split(), thread["Gid"].split()
    return {
        **sets,
        "NoNewPrivs": thread["NoNewPrivs"],
        "Uid": sorted({int(user) for user in users}),
        "Gid": sorted({int(group) for group in groups}),
        "Groups": sorted(int(group) for group in thread["Groups"].split()),
    }


def nothing(user: int, bounding: int, groups: Sequence[int] = ()) -> dict[str, Any]:
    """Result of `privileges_of` for a thread of that user without capabilities."""
    return {
        **dict.fromkeys(SETS, 0),
        "CapBnd": bounding,
        "NoNewPrivs": "1",
        "Uid": [user],
        "Gid": [user],
        "Groups": sorted(groups),
    }


def written(tables: Path) -> list[list[int]]:
    """API key and correlation id of each exchange in the files."""
    files = sorted(map(str, tables.glob("*/*/exchanges.parquet")))
    rows = ds.dataset(files).to_table(columns=["api_key", "correlation_id"]).to_pylist()
    return sorted([row["api_key"], row["correlation_id"]] for row in rows)
