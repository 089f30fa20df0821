"""Several workers: the rows of one process, one sum of counters, and a clean end of all."""

import random
from pathlib import Path

import pytest
from scapy.layers.inet import IP, fragment
from scapy.layers.l2 import Ether

from kdissect.tables.rotations import runs_in
from tests.live.worker_sets import LARGEST, differences, frames_of, live, rows, send
from tests.seeds import SEED
from tests.sources.namespaces import CABLE, Host, run

pytestmark = pytest.mark.slow
CAPTURES = Path(__file__).parents[2] / "captures"
SHARE = 0.1
CUT_SHARE = 0.5
SECOND = "kd1"  # another cable
FEW = 500  # packets
LEAST_CUT = 200  # bytes of a frame that is cut
REPLAYED = (
    "basics-0.8.2.2.pcapng", "groups-4.3.1.pcapng", "networks/ipv6-4.3.1.pcapng",
    "incident-lossy-network-4.3.1.pcapng",
)  # fmt: skip


def captured_twice(
    cable: tuple[Host, Host], directory: Path, packets: list[list[bytes]], *words: str
) -> tuple[str, str]:
    """What one process says at its end, and two workers that saw the same packets."""
    client, broker = cable
    one, two = directory / "one", directory / "two"
    with (
        live(broker, one, "-o", str(one / "tables"), *words) as alone,
        live(broker, two, "-o", str(two / "tables"), "--workers", "2", *words) as both,
    ):
        send(client, packets)
        for running in (alone, both):
            running.hear("WATCHDOG=1")
            running.hear("WATCHDOG=1")
        return alone.end(), both.end()


def lay_second_cable(client: Host, broker: Host) -> None:
    """Another cable between them, with nothing on it but what a test sends."""
    ends = ["netns", client.namespace, "type", "veth", "peer", "name", SECOND]
    run("ip", "link", "add", SECOND, *ends, "netns", broker.namespace)
    for host in (client, broker):
        host.ip("link", "set", SECOND, "mtu", LARGEST, "arp", "off", "up")


def in_two_orders(frames: list[bytes], draw: random.Random) -> list[bytes]:
    """The frames, some twice and some after the next one."""
    found = list(frames)
    for at in range(len(found) - 1):
        if draw.random() < SHARE:
            found[at], found[at + 1] = found[at + 1], found[at]
    return [frame for frame in found for _ in range(1 + (draw.random() < SHARE))]


def in_fragments(frame: bytes, number: int, draw: random.Random) -> list[bytes]:
    """The fragments of an IPv4 packet in any order, or the frame alone."""
    whole = Ether(frame)
    if IP not in whole or len(frame) < LEAST_CUT:
        return [frame]
    whole[IP].id, whole[IP].flags = number % 60_000 + 1, 0
    del whole[IP].chksum
    size = max(64, len(frame) // draw.randrange(2, 6) & ~7)
    parts = [bytes(part) for part in fragment(whole, fragsize=size)]  # type: ignore[no-untyped-call]
    draw.shuffle(parts)
    return parts


def test_the_rows_of_two_workers_are_those_of_one_process(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    draw = random.Random(SEED)
    frames = [frame for name in REPLAYED for frame in frames_of(CAPTURES / name)]
    frames = in_two_orders(frames, draw)
    alone, both = captured_twice(cable, tmp_path, [[frame] for frame in frames])
    assert alone.splitlines()[0] == both.splitlines()[0]
    assert " packets of kd0, 0 dropped: " in both
    assert differences(tmp_path / "one" / "tables", tmp_path / "two" / "tables") == {}
    # Each has a part of them.
    shares = [len(rows(run, "exchanges")) for run in runs_in(tmp_path / "two" / "tables")]
    assert len(shares) == 2
    assert min(shares) > sum(shares) / 10


def test_fragments_come_to_the_worker_of_their_connection(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    """The kernel joins them: they are fewer packets than those that one process joins itself."""
    draw = random.Random(SEED)
    packets = [
        in_fragments(frame, number, draw) if draw.random() < CUT_SHARE else [frame]
        for number, frame in enumerate(frames_of(CAPTURES / "quickstart.pcapng"))
    ]
    assert sum(len(parts) > 1 for parts in packets) > 50
    alone, both = captured_twice(cable, tmp_path, packets)
    assert f"{len(packets)} packets of kd0, 0 dropped" in both
    assert alone.partition("dropped: ")[2].splitlines()[0] in both
    assert differences(tmp_path / "one" / "tables", tmp_path / "two" / "tables") == {}


def test_a_key_log_is_read_by_every_worker(cable: tuple[Host, Host], tmp_path: Path) -> None:
    capture = CAPTURES / "tls" / "tls13-4.3.1.pcapng"
    packets = [[frame] for frame in frames_of(capture)]
    keys = str(capture.with_suffix(".keys"))
    _, both = captured_twice(cable, tmp_path, packets, "--keylog", keys)
    assert " 0 exchanges" not in both
    assert differences(tmp_path / "one" / "tables", tmp_path / "two" / "tables") == {}


def test_findings_of_two_workers_are_those_of_one_process(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    packets = [[frame] for frame in frames_of(CAPTURES / "sasl-4.3.1.pcapng")]
    alone, both = captured_twice(cable, tmp_path, packets, "--findings", "1m")
    begun = [
        sorted(line.split(": ", 2)[2] for line in said.splitlines() if " begun: " in line)
        for said in (alone, both)
    ]
    assert any("authentication-fails" in line for line in begun[0])
    assert begun[0] == begun[1]


def test_a_connection_on_two_interfaces_comes_to_one_worker(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    """Its packets on the second one are duplicates, as one process takes them."""
    client, broker = cable
    lay_second_cable(client, broker)
    one, two = tmp_path / "one", tmp_path / "two"
    words = ("-i", SECOND, "-o")
    with (
        live(broker, one, *words, str(one / "tables")) as alone,
        live(broker, two, *words, str(two / "tables"), "--workers", "2") as both,
    ):
        for frame in frames_of(CAPTURES / "quickstart.pcapng")[:FEW]:
            client.send_frames([frame])
            client.send_frames([frame], SECOND)
        for running in (alone, both):
            running.hear("WATCHDOG=1")
            running.hear("WATCHDOG=1")
        said = alone.end(), both.end()
    assert said[0].splitlines()[0] == said[1].splitlines()[0]
    assert f"{2 * FEW} packets of {CABLE}, {SECOND}, 0 dropped" in said[1]
    assert differences(one / "tables", two / "tables") == {}
