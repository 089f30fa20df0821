"""Working directories in which documented command lines find the files that they name."""

import gzip
import http.server
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# File name in the documentation → committed capture.
CAPTURES: Final = {
    "broker.pcapng": "quickstart.pcapng",
    "broker.pcap": "quickstart.pcapng",
    "cluster.pcap": "cluster-4.3.1.pcapng",
    "monday.pcap": "basics-4.3.1.pcapng",
    "tuesday.pcap": "quickstart.pcapng",
    "old-1.pcap": "basics-2.8.2.pcapng",
    "new-1.pcap": "basics-4.3.1.pcapng",
    "ring-1.pcap": "basics-4.3.1.pcapng",
    "ring-2.pcap": "groups-4.3.1.pcapng",
}
PACKED: Final = {"ring-1.pcap.gz": "basics-4.3.1.pcapng", "ring-2.pcap.gz": "groups-4.3.1.pcapng"}
TLS: Final = {
    "tls.pcapng": "tls/tls13-4.3.1.pcapng",
    "keys.log": "tls/tls13-4.3.1.keys",
    "keys": "tls/tls13-4.3.1.keys",
    "handshakes.pcap": "tls/tls13-4.3.1.pcapng",
    "later.pcap": "tls/tls12-4.3.1.pcapng",
}
# Programs called by the lines that need not be installed. `ssh`, `sudo` and `kubectl exec` run
# their arguments; tcpdump outputs the capture; the others read their input.
STAND_INS: Final = {
    "tcpdump": 'cat "$STAGE/broker.pcapng"',
    "ssh": 'shift; exec "$@"',
    "sudo": 'exec "$@"',
    "kubectl": 'shift 3; exec "$@"',
    "jq": "cat >/dev/null",
    "tshark": "cat >/dev/null",
    "mail": "cat >/dev/null",
}
# The system's programs that lines may use: all but Java, which the extra `java` brings.
SYSTEM: Final = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")
# Hosts and times of a line → those of this stage.
HERE: Final = (
    (re.compile(r"\beth0\b"), "lo"),
    (re.compile(r"-i any\b"), "-i lo"),
    (re.compile(r"--netns \d+\b"), "--netns $$"),  # the shell of the line
    (re.compile(r"--user kafka\b"), "--user nobody"),
    (re.compile(r":9123\b"), "127.0.0.1:0"),
    (re.compile(r"--duration 1m\b"), "--duration 2s"),
    (re.compile(r"--window 10s \| mail"), "--window 1s | mail"),
    (
        re.compile(r"--before 13:55\.\.14:05 --after 14:10\.\.14:20"),
        "--before 04:06:05..04:06:12 --after 04:06:13..04:06:22",
    ),
    (re.compile(r"--at 14:05\b"), "--at 04:06:14"),
    (re.compile(r"(ring-.*)\bsvc-7'(?! and)"), r"\1sticky-2'"),
    (re.compile(r"\bsvc-7\b(?=.*Produce)"), "slow-rd"),
    (re.compile(r"\bsvc-7\b"), "worker-java"),
    (re.compile(r"group_id = 'orders'"), "group_id = 'order-workers'"),
    (
        re.compile(r"(ingest )/captures/live\b(.*--name )broker-1\b"),
        r"\1mnt/broker-7/live\2broker-7",
    ),
    (re.compile(r"(?<= )/mnt/"), "mnt/"),
    (re.compile(r"(?<![\w.])/captures\b"), "taps"),
    (re.compile(r"(?<![\w.])/data/"), "data/"),
    (re.compile(r"(?<=report )/var/lib/kdissect\b"), "DIR"),  # which a live capture wrote
    (re.compile(r"/var/lib/kdissect\b"), "live"),
)
SPARK_NOTEBOOK: Final = "spark.ipynb"  # it needs two extras; tests/spark runs it
MAKE_FRAME: Final = """
import sys
import kdissect
try:
    frame = kdissect.read(sys.argv[1]).to_pandas()
except kdissect.KdissectError as error:
    sys.exit(f"kdissect: {error}")
print(len(frame))
"""
RUN_NOTEBOOKS: Final = """\
import sys, tempfile, nbformat, nbclient
for name in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as place:
        notebook = nbformat.read(name, as_version=4)
        client = nbclient.NotebookClient(
            notebook, timeout=200, resources={"metadata": {"path": "notebooks"}}
        )
        kernel = client.create_kernel_manager()
        kernel.transport, kernel.ip = "ipc", f"{place}/kernel"
        client.execute()
"""
RUN: Final = re.compile(r"\bDIR/\d{8}T\d{6}Z")
ROTATION: Final = re.compile(r"(\bDIR/\d{8}T\d{6}Z)/\d{6}-\w+")
COLLECTOR: Final = "http://localhost:4318"


class Stage:
    """The files and programs, made once; `directory` makes a working directory with them."""

    def __init__(self, root: Path, place: Path) -> None:
        self.root = root
        self.files = place / "files"
        self.programs = place / "programs"
        self.files.mkdir(parents=True)
        self.programs.mkdir()
        self._add_captures()
        self._add_programs()
        self.collector = Collector()

    def _add_captures(self) -> None:
        captures = self.root / "captures"
        for name, capture in {**CAPTURES, **TLS}.items():
            shutil.copy(captures / capture, self.files / name)
        for name, capture in PACKED.items():
            (self.files / name).write_bytes(gzip.compress((captures / capture).read_bytes()))
        (self.files / "captures").symlink_to(captures)
        (self.files / "notebooks").mkdir()
        for path in (self.root / "notebooks").glob("*.ipynb"):
            if path.name != SPARK_NOTEBOOK:
                shutil.copy(path, self.files / "notebooks")
        (self.files / "run_notebooks.py").write_text(RUN_NOTEBOOKS)
        (self.files / "frame.py").write_text(MAKE_FRAME)
        for tap in ("broker-1", "broker-2"):
            (self.files / "taps" / tap).mkdir(parents=True)
        shutil.copy(captures / "basics-4.3.1.pcapng", self.files / "taps/broker-1/ring.pcap")
        shutil.copy(captures / "groups-4.3.1.pcapng", self.files / "taps/broker-2/ring.pcap")
        shutil.copy(captures / "quickstart.pcapng", self.files / "taps/broker-1.pcap")

    def _add_programs(self) -> None:
        for name, body in STAND_INS.items():
            program = self.programs / name
            program.write_text(f"#!/bin/bash\n{body}\n")
            program.chmod(0o755)
        for path in (path for place in SYSTEM for path in Path(place).iterdir()):
            target = self.programs / path.name
            if not path.name.startswith("java") and not target.exists():
                target.unlink(missing_ok=True)
                target.symlink_to(path)

    def add_tables(self, kdissect: Path) -> None:
        """Files of earlier commands for later ones: tables, and directories of live captures."""
        self._make(kdissect, "dissect", "broker.pcapng", "-o", "tables")
        self._make(kdissect, "live", "broker.pcapng", "-o", "DIR", "--rotate", "5s")
        self._make(kdissect, "live", "broker.pcapng", "-o", "mnt/broker-7/live", "--rotate", "5s")
        self._make(kdissect, "top", "broker.pcapng", "--record", "night.jsonl")

    def add_dataset(self, kdissect: Path, environment: dict[str, str]) -> None:
        """A dataset, by an environment that has Spark."""
        self._make(
            kdissect, "spark", "dissect", "taps", "-o", "data/kafka", environment=environment
        )
        (self.files / "dataset").symlink_to("data/kafka")

    def _make(self, kdissect: Path, *words: str, environment: dict[str, str] | None = None) -> None:
        done = subprocess.run(
            [kdissect, *words], cwd=self.files, capture_output=True, text=True, env=environment
        )
        if done.returncode:
            sys.exit(f"kdissect {' '.join(words)} ended with {done.returncode}: {done.stderr}")

    def directory(self, place: Path, line: str) -> Path:
        """Working directory with all files except those that the line writes."""
        written = set(re.findall(r"(?:-o|--record) (\S+)", line))
        place.mkdir(parents=True)
        for path in self.files.iterdir():
            if path.name == "data":
                shutil.copytree(path, place / "data", symlinks=True)
            elif path.name not in written or "--force" in line:
                link_or_copy(path, place / path.name, is_copied=path.name in written)
        (place / "data").mkdir(exist_ok=True)
        return place

    def localized(self, line: str) -> str:
        """The line with this host's interface, user and times, and the captures' clock."""
        for pattern, replacement in HERE:
            line = pattern.sub(replacement, line)
        line = line.replace(COLLECTOR, self.collector.url)
        if "DIR/" in line:
            run = next(path for path in sorted((self.files / "DIR").iterdir()) if path.is_dir())
            rotation = next(path for path in sorted(run.iterdir()) if path.is_dir())
            line = ROTATION.sub(f"DIR/{run.name}/{rotation.name}", line)
            line = RUN.sub(f"DIR/{run.name}", line)
        return line


def link_or_copy(path: Path, target: Path, *, is_copied: bool) -> None:
    if is_copied:
        shutil.copytree(path, target)
    else:
        target.symlink_to(path)


class Collector:
    """Takes OTLP over HTTP on loopback, as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Taker)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()


class _Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:  # the name that http.server calls
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Log nothing: stderr is for failed lines."""
