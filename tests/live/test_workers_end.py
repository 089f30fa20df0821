"""Sums and ends of several workers: by signals, by force, without their interface."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kdissect.tables.rotations import hidden_in, rotations_in, runs_in
from tests.live.worker_sets import PATIENCE_S, Live, frames_of, live, rows, send
from tests.sources.namespaces import CABLE, Host

pytestmark = pytest.mark.slow
CAPTURE = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"
EXCHANGES = 331
METRICS_PORT = 19124
TIMES = 12  # a capture of 300 kB into two rings of 512 KiB


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return tmp_path / "tables"


@pytest.fixture
def capturing(cable: tuple[Host, Host], tables: Path) -> Iterator[Live]:
    """Two workers that write to `tables`; a test ends them."""
    with live(cable[1], tables.with_name("it"), "-o", str(tables), "--workers", "2") as running:
        yield running


def talked(client: Host, running: Live) -> None:
    """A session went over the cable, and was dissected and flushed."""
    send(client, [[frame] for frame in frames_of(CAPTURE)])
    running.skip()  # on a busy machine, sending takes seconds
    for _ in range(3):
        running.hear("WATCHDOG=1")


def wait_for_exchanges(broker: Host, running: Live) -> None:
    """All were dissected by either worker, and it is long since they had to be flushed."""
    deadline = time.monotonic() + PATIENCE_S
    while values_of(page_inside(broker)).get("kdissect_exchanges_total", 0) < EXCHANGES:
        assert time.monotonic() < deadline
        running.hear("WATCHDOG=1")
    for _ in range(3):
        running.hear("WATCHDOG=1")


def is_gone(process: int) -> bool:
    """Return whether a process ends, waiting for it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def exchanges_in(tables: Path) -> int:
    return sum(len(rows(run, "exchanges")) for run in runs_in(tables))


def page_inside(host: Host, port: int = METRICS_PORT) -> str:
    """The metrics that are served in a host's namespace."""
    with host.inside():
        return urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()  # type: ignore[no-any-return]


def values_of(page: str) -> dict[str, float]:
    """Values by metric, those of all labels added."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def test_one_page_has_the_sums_of_all_workers(cable: tuple[Host, Host], tmp_path: Path) -> None:
    client, broker = cable
    words = ("--json", "--every", "1s", "--workers", "3", "--metrics", f":{METRICS_PORT}")
    with live(broker, tmp_path / "it", *words) as running:
        talked(client, running)
        page_inside(broker)  # the first page of a scraper has new series at 0
        page = page_inside(broker)
        said = running.end()
    values = values_of(page)
    packets = len(frames_of(CAPTURE))
    answered = EXCHANGES - values["kdissect_waiting_requests"]
    assert values["kdissect_all_exchanges_total"] == values["kdissect_exchanges_total"] == answered
    assert values["kdissect_latency_seconds_count"] > EXCHANGES / 2
    received, dropped = (
        values[f"kdissect_packets_{word}_total"] for word in ("received", "dropped")
    )
    assert values["kdissect_packets_total"] + dropped == received == packets
    assert f"{packets} packets of {CABLE}, 0 dropped: {EXCHANGES} exchanges" in said
    lines = running.output.splitlines()
    assert len(lines) > 1
    assert f'"exchanges": {EXCHANGES}, ' in lines[-1]


def test_what_all_workers_saw_and_dropped_is_what_arrived(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    """While they stand still, their buffers are filled several times over."""
    client, broker = cable
    words = ("--workers", "2", "--metrics", f":{METRICS_PORT}", "--buffer", "1M")
    frames = frames_of(CAPTURE)
    with live(broker, tmp_path / "it", *words) as running:
        for process in running.workers:
            os.kill(process, signal.SIGSTOP)
        for _ in range(TIMES):
            client.send_frames(frames)
        for process in running.workers:
            os.kill(process, signal.SIGCONT)
        for _ in range(4):
            running.hear("WATCHDOG=1")
        values = values_of(page_inside(broker))
        running.end()
    received, dropped, packets = (
        values[f"kdissect_packets{word}_total"] for word in ("_received", "_dropped", "")
    )
    assert received == TIMES * len(frames)
    assert packets + dropped == received
    assert 0 < dropped < received


def test_a_killed_worker_is_said_and_the_others_finish(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    client, broker = cable
    tables = tmp_path / "tables"
    words = ("-o", str(tables), "--workers", "2", "--flush", "0.2s")
    words += ("--metrics", f":{METRICS_PORT}")
    with live(broker, tmp_path / "it", *words) as running:
        talked(client, running)
        wait_for_exchanges(broker, running)
        workers = running.workers
        os.kill(workers[0], signal.SIGKILL)
        said = running.ended(1)
    assert "worker 1 of 2 was killed (SIGKILL): its connections are not captured" in said
    assert "Traceback" not in said
    assert [is_gone(one) for one in workers] == [True, True]
    # What the killed one had not flushed is lost; on a busy machine it may have flushed all.
    assert 0 < exchanges_in(tables) <= EXCHANGES
    # The next start takes up what the killed one had flushed.
    with live(broker, tmp_path / "again", *words) as running:
        running.end()
    assert exchanges_in(tables) == EXCHANGES


def test_workers_end_with_the_first_process_and_finish_their_files(
    cable: tuple[Host, Host], capturing: Live, tables: Path
) -> None:
    client, _ = cable
    talked(client, capturing)
    workers = capturing.workers
    capturing.process.kill()
    assert [is_gone(one) for one in workers] == [True, True]
    assert exchanges_in(tables) == EXCHANGES
    for run in runs_in(tables):
        assert rotations_in(run)
        assert not list(hidden_in(run, ".open-"))


def test_signals_of_a_terminal_reach_all_and_end_all_cleanly(
    cable: tuple[Host, Host], capturing: Live, tables: Path
) -> None:
    """Every process of the group gets them, also those that the first one tells to end."""
    client, _ = cable
    talked(client, capturing)
    workers = capturing.workers
    for process in workers:
        os.kill(process, signal.SIGINT)
        os.kill(process, signal.SIGHUP)
    capturing.end(signal.SIGINT)
    assert [is_gone(one) for one in workers] == [True, True]
    assert exchanges_in(tables) == EXCHANGES


def test_an_interface_that_goes_down_and_up_is_read_on(
    cable: tuple[Host, Host], capturing: Live, tables: Path
) -> None:
    client, broker = cable
    broker.ip("link", "set", CABLE, "down")
    capturing.hear("WATCHDOG=1")
    capturing.hear("WATCHDOG=1")
    broker.ip("link", "set", CABLE, "up")
    capturing.process.send_signal(signal.SIGHUP)
    capturing.hear("READY=1")
    capturing.hear("WATCHDOG=1")
    talked(client, capturing)
    capturing.end()
    assert exchanges_in(tables) == EXCHANGES
    kinds = [one["kind"] for run in runs_in(tables) for one in rows(run, "problems")]
    assert (kinds.count("interface-gone"), kinds.count("interface-back")) == (2, 2)


@pytest.mark.promtool
def test_promtool_accepts_the_page_of_several_workers(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    client, broker = cable
    words = ("--workers", "2", "--metrics", f":{METRICS_PORT}")
    with live(broker, tmp_path / "it", *words) as running:
        talked(client, running)
        page = page_inside(broker)
        running.end()
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
