import json
import os
import signal
import socket
import subprocess
import sys
import time
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.live import interfaces as live_interfaces
from kdissect.cli.live import run as live_run
from kdissect.cli.live.lines import Deadline, Lines
from kdissect.cli.live.plan import FIRST_BYTES, Plan, share_of
from kdissect.cli.program import run
from kdissect.live.listener import Listener, Status
from kdissect.live.source_choice import Asked
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.sources.listening import Endpoint, listening
from kdissect.system.extras import missing_extra
from tests.live.listening import Given, Kept, packet_at
from tests.live.made_rows import status

SECOND_NS = 1_000_000_000
NOON_NS = 1_700_000_000 * SECOND_NS


class Meters(Listener):
    """Counts the requests for it."""

    tables = frozenset({"exchanges"})

    def __init__(self) -> None:
        self.asked = 0

    def snapshot(self) -> int:
        self.asked += 1
        return self.asked


class Files(Kept):
    """Options of the files."""

    made: "Files"

    def __init__(self, directory: Path, *, tables: list[str], **values: Any) -> None:
        super().__init__(tables)
        Files.made = self
        self.asked = {"directory": directory, **values}
        self.number = 1
        self.run = types.SimpleNamespace(path=directory / "run")

    @property
    def rows(self) -> Any:
        return self._rows

    @rows.setter
    def rows(self, rows: Any) -> None:
        self._rows = rows

    def finish(self, status: Status) -> None:
        super().finish(status)
        self.rows = sum(map(len, self.rows.values()))


class Labelled(Kept):
    """Counter of the metrics."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        assert labels == 100


class Server:
    """Server of the metrics."""

    is_closed = False

    def close(self) -> None:
        Server.is_closed = True


@pytest.fixture
def _parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the other parts of a run."""
    parts = {
        "counting.meters": {"Meters": Meters},
        "counting.lines": {"line_of": "line {}".format, "json_of": lambda number: {"line": number}},
        "files.rotation": {"RotatedTables": Files},
        "counting.metrics": {"MetricsListener": Labelled, "serve": lambda *_: Server()},
    }
    for name, attributes in parts.items():
        module = types.ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, f"kdissect.live.{name}", module)


@pytest.mark.usefixtures("_parts")
def test_a_replay_prints_lines_and_its_end(
    quickstart: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["live", quickstart]) == 0
    said = capfd.readouterr()
    assert said.out.splitlines()[0] == "line 1"
    assert said.err == (
        f"kdissect: 1318 packets of {quickstart}, 0 dropped: 331 exchanges on 58 connections\n"
    )


@pytest.mark.usefixtures("_parts")
def test_with_files_there_are_no_lines_but_where_the_files_are(
    quickstart: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--rotate", "1G", "--keep", "7", "--disk", "10G", "--flush", "2s", "--payload"]
    assert run(["live", quickstart, "-o", str(tmp_path / "tables"), *words]) == 0
    files = Files.made
    notice = files.asked.pop("notice")
    assert files.asked == {
        "directory": tmp_path / "tables",
        "every_s": None,
        "size": 1 << 30,
        "keep": 7,
        "disk": 10 << 30,
        "flush_s": 2.0,
        "is_secret": True,
        "memory": None,
    }
    assert "records" in files.tables
    assert (tmp_path / "tables").stat().st_mode & 0o777 == 0o700
    assert files.said == ["begin", "finish"]
    notice("the disk is full\x1b")
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[1:] == [
        f"kdissect: {files.rows} rows in 1 rotation: {tmp_path}/tables/run",
        "kdissect: the disk is full\\e",
    ]


@pytest.mark.usefixtures("_parts")
def test_without_anything_said_files_rotate_each_minute(quickstart: str, tmp_path: Path) -> None:
    assert run(["live", quickstart, "-o", str(tmp_path), "--tables", "exchanges,errors"]) == 0
    assert (Files.made.asked["every_s"], Files.made.asked["size"]) == (60, None)
    assert Files.made.tables == {"exchanges", "errors"}
    assert len(Files.made.said) == 2


@pytest.mark.usefixtures("_parts")
def test_lines_can_be_json_beside_files(
    quickstart: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["live", quickstart, "-o", str(tmp_path), "--json"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert json.loads(lines[0]) == {"schema_version": 1, "command": "live", "line": 1}


@pytest.mark.usefixtures("_parts")
def test_where_there_is_no_kafka_that_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    capture = Path(__file__).parents[2] / "captures" / "other" / "beside.pcapng"
    assert run(["live", str(capture)]) == 0
    error = capfd.readouterr().err
    assert "kdissect: no Kafka exchanges: read 291 packets" in error
    assert "Is the broker on another port? Try --port." in error


@pytest.mark.usefixtures("_parts")
def test_metrics_are_answered_as_long_as_it_runs(
    quickstart: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(
        live_run, "start_server", lambda _, bound: asked.append(bound.getsockname()) or Server()
    )
    Server.is_closed = False
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert run(["live", quickstart, "--metrics", f":{port}"]) == 0
    assert asked == [("127.0.0.1", port)]
    assert Server.is_closed


def test_without_prometheus_one_line_names_the_extra(
    quickstart: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert run(["live", quickstart, "--metrics", ":9123"]) == 2
    error = capfd.readouterr().err
    assert error == f"kdissect: {missing_extra('--metrics', 'live')}\n"


def test_where_nothing_is_named_interfaces_are_listed_and_how_to_go_on() -> None:
    one = types.SimpleNamespace(
        name="eth\x1b0", is_up=True, kind="ethernet", addresses=("::1", "10.0.0.1")
    )
    other = types.SimpleNamespace(name="lo", is_up=False, kind="loopback", addresses=())
    assert list(live_interfaces.page([other, one], 80)) == [
        "interface  state  kind      addresses",
        "─────────  ─────  ────────  ─────────────",
        "lo         down   loopback",
        "eth\\e0     up     ethernet  ::1, 10.0.0.1",
        "any                         all of them",
        "",
        "Name one, or a capture:",
        "  kdissect live -i eth\\e0",
        "  kdissect live -i any -o tables --rotate 60s",
        "  tcpdump -U -w - port 9092 | kdissect live -",
        "  kdissect live tap.pcap --follow",
    ]


def test_the_interface_that_a_broker_listens_on_is_suggested() -> None:
    lo = types.SimpleNamespace(name="lo", is_up=True, kind="loopback", addresses=("127.0.0.1",))
    eth = types.SimpleNamespace(name="eth0", is_up=True, kind="ethernet", addresses=("10.0.0.1",))
    broker = Endpoint("10.0.0.1", 9093)
    found = list(live_interfaces.page([lo, eth], 80, [broker]))
    assert found[2:5] == [
        "lo         up     loopback  127.0.0.1",
        "eth0       up     ethernet  10.0.0.1     9093",
        "any                         all of them",
    ]
    assert "  kdissect live -i eth0" in found
    assert live_interfaces.suggested([lo, eth], [Endpoint("::", 9092)]) == "any"
    assert live_interfaces.suggested([lo, eth], [Endpoint("10.9.9.9", 9092)]) == "lo"


@pytest.mark.parametrize("command", ["live", "top"])
def test_a_broker_on_a_port_that_is_named_is_found(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        port = str(broker.getsockname()[1])
        assert run([command, "--port", port]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("lo ")).split()[-1] == port
    assert "  kdissect live -i lo" in lines or "  kdissect live -i any" in lines
    assert not any("no broker listens" in line for line in lines)


def test_where_no_broker_listens_the_ports_are_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kdissect.sources.listening.listening", lambda _: [])
    assert run(["live", "--port", "9192"]) == 0
    last = capfd.readouterr().out.splitlines()[-1]
    ports = "9092, 9093, 9094, 9192, 19092, 29092"
    assert last == f"  no broker listens here on {ports}; another: --port PORT"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0", "::"])  # noqa: S104
def test_listening_sockets_are_those_of_the_kernel(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as one:
        one.bind((address, 0))
        port = one.getsockname()[1]
        assert listening([port]) == []
        one.listen()
        assert listening([port]) == [Endpoint(address, port)]
    assert listening([port]) == []


def watched(listeners: list[Listener], seconds: list[float]) -> None:
    packet_source = Given(*([packet_at(NOON_NS + int(at * SECOND_NS))] for at in seconds))
    Watcher(packet_source, listeners, Options(), clock=lambda: 0).run()


def test_lines_come_so_often_by_the_packets_clock(capfd: pytest.CaptureFixture[str]) -> None:
    meters = Meters()
    watched([meters, Lines(meters, 5, "{}".format)], [*range(18)])
    assert capfd.readouterr().out == "1\n2\n3\n4\n"
    watched([meters, Lines(meters, 5, "{}".format)], [*range(11)])
    assert capfd.readouterr().out == "5\n6\n"


def test_requests_that_are_given_up_at_the_end_are_in_the_last_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    lines = Lines(Meters(), 1, lambda _: "line")
    lines.begin()
    for at_s in (0, 1):
        lines.tick(status(at_s, packets=2))
    ended = status(1.5, packets=2)
    given_up = ended._replace(balance=replace(ended.balance, exchanges=1))
    lines.finish(given_up)
    assert capfd.readouterr().out == "line\nline\n"


def test_blocked_reader_does_not_delay_the_capture(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source, sink = os.pipe()
    with os.fdopen(sink, "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        meters = Meters()
        lines = Lines(meters, 1, lambda number: f"{number}:" + 40_000 * "x")
        begin = time.monotonic()
        watched([meters, lines], [*range(40)])
        assert time.monotonic() - begin < 5
        assert "lines left out: stdout was not read" in capfd.readouterr().err
        os.close(source)
        writing = lines._output._thread
        assert writing is not None
        writing.join(10)
        assert not writing.is_alive()


def test_a_reader_that_has_gone_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    source, sink = os.pipe()
    os.close(source)
    with os.fdopen(sink, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        meters = Meters()
        with pytest.raises(BrokenPipeError):
            watched([meters, Lines(meters, 1, "{}".format)], [*range(10)])


def test_it_ends_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    kept = Kept()
    packet_source = Given(*([packet_at(NOON_NS + at * SECOND_NS)] for at in range(10)))
    watcher = Watcher(packet_source, [kept, Deadline(60)], clock=lambda: 0)
    watcher.begin()
    watcher.step()
    assert not watcher._stopping.is_set()
    now[0] = 60.0
    watcher.step()
    assert watcher._stopping.is_set()
    watcher.finish()


# With the parts that there are

OFTEN = ("--flush", "0.2s", "--every", "1s")
CAPTURE = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"


class Running:
    """``kdissect live -`` in a process, with a pipe to it that stays open."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "kdissect", "live", "-", *words]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=pipe, stdout=nowhere, stderr=pipe)
        assert self.process.stdin is not None
        self.process.stdin.write(CAPTURE.read_bytes())
        self.process.stdin.flush()

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)

    def wait_for(self, found: Any) -> None:
        """Wait until it has come so far."""
        end = time.monotonic() + 60
        while not found():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)

    def end_by(self, number: int) -> tuple[int, float, str]:
        """Its exit code, its duration until the end, and its output."""
        begin = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(60)
        took = time.monotonic() - begin
        _, error = self.process.communicate(timeout=60)
        return code, took, error.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_soon_with_all_that_was_read(tmp_path: Path, number: int) -> None:
    import pyarrow.dataset as ds

    with Running("-o", str(tmp_path), *OFTEN) as running:
        running.wait_for(lambda: list(tmp_path.glob("*/.*/exchanges*")))
        code, took, error = running.end_by(number)
    assert code == 0, error
    assert took < 2
    assert "1318 packets of -, 0 dropped: 331 exchanges on 58 connections" in error
    files = [str(path) for path in tmp_path.glob("*/*/exchanges.parquet")]
    assert ds.dataset(files).count_rows() == 331


def test_a_hangup_begins_new_files_and_it_goes_on(tmp_path: Path) -> None:
    with Running("-o", str(tmp_path), *OFTEN) as running:
        running.wait_for(lambda: list(tmp_path.glob("*/.*/exchanges*")))
        assert not list(tmp_path.glob("*/*/exchanges.parquet"))
        running.process.send_signal(signal.SIGHUP)
        running.wait_for(lambda: list(tmp_path.glob("*/*/exchanges.parquet")))
        code, _, error = running.end_by(signal.SIGTERM)
    assert code == 0, error


def test_as_another_user_all_files_are_that_users(shared_path: Path) -> None:
    import pwd

    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    output = shared_path / "tables"
    with Running("-o", str(output), "--user", "nobody", "--json", *OFTEN) as running:
        running.wait_for(lambda: list(output.glob("*/.*/exchanges*")))
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        running.process.send_signal(signal.SIGHUP)
        running.wait_for(lambda: list(output.glob("*/*/exchanges.parquet")))
        code, _, error = running.end_by(signal.SIGTERM)
    assert code == 0, error
    assert "CapEff:\t0000000000000000\n" in status
    assert {path.stat().st_uid for path in [output, *output.rglob("*")]} == {
        pwd.getpwnam("nobody").pw_uid
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["quickstart.pcapng"], "--workers share the packets of interfaces: name one with -i"),
        (["-", "--follow"], "--workers share the packets of interfaces: name one with -i"),
        (["-i", "lo", "--through", "scapy"], "--workers read rings; leave --through out"),
        (["-i", "lo", "--max-memory", "300M"], "--max-memory is for all processes"),
    ],
)
def test_what_several_workers_cannot_do_is_an_error(
    words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["live", *words, "--workers", "2"]) == 2
    assert said in capfd.readouterr().err


def test_a_key_log_from_a_pipe_is_for_one_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "keys")
    assert run(["live", "-i", "lo", "--keylog", str(tmp_path / "keys"), "--workers", "2"]) == 2
    assert "is a pipe, which one process can read" in capfd.readouterr().err


def test_workers_share_the_limits_of_all() -> None:
    asked = Asked(interfaces=["lo"], buffer_bytes=64 << 20)
    plan = Plan(asked, Options(), keep=10, disk=7, max_cpu=100, max_memory=4 << 30)
    share = share_of(plan, 4)
    assert share_of(plan, 1) is plan
    assert (share.asked.buffer_bytes, share.max_cpu) == (16 << 20, 25)
    assert (share.keep, share.disk) == (40, 7)
    assert share.max_memory == ((4 << 30) - FIRST_BYTES) // 4
