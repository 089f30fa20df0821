"""Interfaces that are removed and made again while several workers share them."""

import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from kdissect.tables.rotations import runs_in
from kdissect.tables.schemas import DEFAULT_TABLES
from tests.live.test_workers import CAPTURES, FEW, SECOND, in_fragments, lay_second_cable
from tests.live.test_workers_end import METRICS_PORT, PATIENCE_S, page_inside
from tests.live.worker_sets import frames_of, live, quiet_cable, rows, rows_in, send
from tests.seeds import SEED
from tests.sources.namespaces import CABLE, Host, lay_cable

pytestmark = pytest.mark.slow
WORKERS = 3
PORTS = {"one": METRICS_PORT, "three": METRICS_PORT + 1}
# Some of its connections are open all the time.
CAPTURE = CAPTURES / "groups-4.3.1.pcapng"
OF_INTERFACES = {"interface-gone", "interface-back"}


def wait_until_back(broker: Host, times: int) -> None:
    """Each process of both captures has said so often that the interface is back."""
    wanted = {"one": times, "three": times * WORKERS}
    deadline = time.monotonic() + PATIENCE_S
    while (found := {name: backs(page_inside(broker, PORTS[name])) for name in PORTS}) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def backs(page: str) -> int:
    """Problems `interface-back` of a page of metrics."""
    found = re.search(r'kdissect_problems_total\{[^}]*"interface-back"[^}]*\} (\d+)', page)
    return int(found[1]) if found else 0


def take_down(_client: Host, broker: Host) -> None:
    broker.ip("link", "set", CABLE, "down")
    time.sleep(0.5)
    broker.ip("link", "set", CABLE, "up")


def make_again(client: Host, broker: Host) -> None:
    broker.ip("link", "delete", CABLE)
    lay_cable(client, broker)
    quiet_cable([client, broker])


NO_ROOT = ("--user", "nobody")
# Between parts; the moved sockets of workers are of all interfaces, and not told that one is down.
BREAKS = (take_down, make_again, take_down, make_again)


@pytest.fixture
def parts() -> list[list[list[bytes]]]:
    """Packets of a capture in parts, some of them in fragments; connections cross all."""
    draw = random.Random(SEED)
    packets = [
        in_fragments(frame, number, draw) if draw.random() < 0.2 else [frame]
        for number, frame in enumerate(frames_of(CAPTURE))
    ]
    cuts = sorted(draw.sample(range(1, len(packets)), len(BREAKS)))
    return [packets[a:b] for a, b in zip([0, *cuts], [*cuts, len(packets)], strict=True)]


def test_rows_go_on_after_an_interface_was_made_again(
    cable: tuple[Host, Host], shared_path: Path, parts: list[list[list[bytes]]]
) -> None:
    """As those of one process, in each column: connections stay with their worker.

    Without privileges. Packets of another interface are in none of them.
    """
    client, broker = cable
    lay_second_cable(client, broker)
    strangers = frames_of(CAPTURES / "quickstart.pcapng")[:FEW]
    words = {
        name: ("-o", str(shared_path / name / "tables"), "--metrics", f":{port}", *NO_ROOT)
        for name, port in PORTS.items()
    }
    with (
        live(broker, shared_path / "one", *words["one"]) as one,
        live(broker, shared_path / "three", *words["three"], "--workers", str(WORKERS)) as three,
    ):
        for number, packets in enumerate(parts):
            if number:
                BREAKS[number - 1](client, broker)
            wait_until_back(broker, number)
            send(client, packets)
            client.send_frames(strangers, SECOND)
            for running in (one, three):
                running.skip()
                running.hear("WATCHDOG=1")
                running.hear("WATCHDOG=1")
        said = one.end(), three.end()
    ours, theirs = (shared_path / name / "tables" for name in PORTS)
    for table in DEFAULT_TABLES:
        assert rows_of_packets(theirs, table) == rows_of_packets(ours, table), table
    assert rows_of_packets(ours, "exchanges")
    times = len(BREAKS)
    assert [kinds_of(ours)[kind] for kind in sorted(OF_INTERFACES)] == [times, times]
    assert [kinds_of(theirs)[kind] for kind in sorted(OF_INTERFACES)] == [times * WORKERS] * 2
    # Workers get fragments joined, and each packet of the capture is one.
    counted = f"kdissect: {sum(map(len, parts))} packets of {CABLE}, 0 dropped: "
    fragments = f"{sum(len(packet) for part in parts for packet in part)} packets"
    lines = [one.splitlines()[0] for one in said]
    assert lines[1].startswith(counted)
    assert lines[0] == lines[1].replace(f"{sum(map(len, parts))} packets", fragments)


def rows_of_packets(tables: Path, table: str) -> Counter[str]:
    """Rows but those of problems of the interface."""
    found = rows_in(tables, table)
    return Counter({row: count for row, count in found.items() if "'interface-" not in row})


def kinds_of(tables: Path) -> Counter[str]:
    return Counter(one["kind"] for run in runs_in(tables) for one in rows(run, "problems"))
