"""A capture that is sent through a cable and watched gives the rows that the file gives."""

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kdissect
from kdissect.capture.files import open_captures
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.live.watcher import Watcher
from kdissect.tables.schemas import TABLES
from tests.sources.capturing import PATIENCE, bytes_of, open_at
from tests.sources.namespaces import CABLE, Host

CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = ["quickstart", "retries-4.3.1", "consumer-groups-4.3.1"]
COMPARED = ("exchanges", "partitions", "errors", "connections", "problems")


pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _large_packets(hosts: tuple[Host, Host]) -> None:
    for host in hosts:
        host.ip("link", "set", CABLE, "mtu", "65535")


class Collector(Listener):
    """Keeps all rows; ends the watcher when `count` packets were dissected."""

    tables = frozenset(COMPARED)

    def __init__(self, count: int) -> None:
        self.count = count
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COMPARED}
        self.status: Status | None = None

    def begin(self, watcher: LiveCapture) -> None:
        self.watcher = watcher

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        self.rows[table] += batch.to_pylist()

    def tick(self, status: Status) -> None:
        if status.balance.packets >= self.count:
            self.watcher.stop()

    def finish(self, status: Status) -> None:
        self.status = status


def without_times(rows: list[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    """The rows without columns that depend on arrival times, sorted by the others."""
    timed = {
        column.name
        for column in TABLES[table].columns
        if column.name.endswith(("_ns", "time", "_start", "_end")) or column.name == "capture"
    }
    kept = [{name: row[name] for name in row if name not in timed} for row in rows]
    return sorted(kept, key=repr)


@pytest.mark.parametrize("through", ["ring", "scapy"])
@pytest.mark.parametrize("name", NAMES)
def test_a_capture_replayed_gives_the_rows_of_the_file(
    hosts: tuple[Host, Host], name: str, through: str
) -> None:
    client, broker = hosts
    path = str(CAPTURES / f"{name}.pcapng")
    with open_captures(path) as capture:
        frames = [bytes_of(packet) for packets in capture for packet in packets]
    collector = Collector(len(frames))
    with open_at(broker, through=through, ports=()) as packet_source:
        watcher = Watcher(packet_source, [collector])
        watching = threading.Thread(target=watcher.run, daemon=True)
        watching.start()
        client.send_frames(frames)
        watching.join(PATIENCE)
        assert not watching.is_alive()
    assert collector.status is not None
    assert collector.status.packet_source == (len(frames), 0)
    for table in COMPARED:
        expected = kdissect.read(path, table=table).to_arrow().to_pylist()
        assert without_times(collector.rows[table], table) == without_times(expected, table), table
