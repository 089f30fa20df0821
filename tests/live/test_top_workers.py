"""`kdissect top --workers 2` shows what one process shows."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kdissect.live.recorded_sessions import RecordedSession
from tests.live.worker_sets import INSTALLED, PATIENCE_S, frames_of, send
from tests.sources.namespaces import CABLE, Host

pytestmark = pytest.mark.slow
CAPTURES = Path(__file__).parents[2] / "captures"
WINDOW_S = 300


@contextmanager
def top(host: Host, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """The command with JSON lines, on the host's end of the cable."""
    command = [
        sys.executable, "-m", "kdissect", "top", "-i", CABLE, "--json",
        "--window", f"{WINDOW_S}s", "--interval", "0.5s", "--findings", "10s", *words,
    ]  # fmt: skip
    with host.inside():
        running = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=INSTALLED
        )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def last_of(running: "subprocess.Popen[str]", exchanges: int) -> dict[str, Any]:
    """The last document, once there are so many exchanges."""
    assert running.stdout is not None
    for line in running.stdout:
        if json.loads(line)["exchanges"] >= exchanges:
            break
    running.send_signal(signal.SIGINT)
    said, errors = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, "Traceback" in errors) == (0, False), errors
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def counted(found: dict[str, Any], name: str) -> dict[str, tuple[Any, ...]]:
    """Exchanges, errors and latencies by name, independent of the length of the window."""
    return {
        one["name"]: (
            *(round(one[key] * found["window_s"]) for key in ("rate", "errors", "bytes_to_broker")),
            *(one[key] for key in ("p50_ns", "p99_ns", "max_ns")),
        )
        for one in found[name]
    }


def exchanges_of_topics(found: dict[str, Any]) -> int:
    return sum(row[0] for row in counted(found, "topics").values())


def test_two_workers_show_what_one_process_shows(cable: tuple[Host, Host], tmp_path: Path) -> None:
    client, broker = cable
    frames = frames_of(CAPTURES / "consumer-groups-4.3.1.pcapng")
    session = tmp_path / "session"
    with (
        top(broker) as alone,
        top(broker, "--workers", "2", "--record", str(session)) as both,
    ):
        for running in (alone, both):
            assert running.stdout is not None
            assert running.stdout.readline()  # it captures from now on
        send(client, [[frame] for frame in frames])
        one, two = (last_of(running, 161) for running in (alone, both))
    for name in ("apis", "clients"):
        assert counted(one, name) == counted(two, name)
        assert one[name]
    # One that has not heard a topic's name yet from the other counts its id.
    assert exchanges_of_topics(one) == exchanges_of_topics(two) > 0
    assert {
        (row["topic"], row["partition"], row["end"], row["lag"]) for row in one["partitions"]
    } == {(row["topic"], row["partition"], row["end"], row["lag"]) for row in two["partitions"]}
    for key in ("packets", "exchanges", "dropped", "connections_seen", "problems", "clients_seen"):
        assert one[key] == two[key], key
    assert {(row["group_id"], row["lag"]) for row in one["groups"]} == {
        (row["group_id"], row["lag"]) for row in two["groups"]
    }
    assert [row["id"] for row in one["current_findings"]] == [
        row["id"] for row in two["current_findings"]
    ]
    assert len(two["partitions"]) > 2
    played = RecordedSession(session)
    played.seek(len(played))
    assert played.snapshot().status.balance.exchanges == two["exchanges"]
