"""A sample of connections: whole ones, the same in both directions, with their own rows."""

import math
import random
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, IPOption_Router_Alert
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop
from scapy.layers.l2 import Dot1Q
from scapy.packet import Raw

from kdissect.errors import InvalidArgument
from kdissect.live.counting.lines import json_of, line_of
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.metric_declarations import METRICS, UNSCALED
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.counting.snapshot import scaled
from kdissect.live.source_choice import Asked as Source
from kdissect.live.source_choice import filter_text
from kdissect.pipeline import Options
from kdissect.screen.heading import History, Marks, heading_lines
from kdissect.sources.bpf_programs import attach
from kdissect.sources.interfaces import ARPHRD_NONE, ETHERNET, RAW
from kdissect.sources.port_filters import port_filter
from kdissect.sources.sampling import hash_of, is_sampled
from tests.live.made_rows import exchange, given, handed, status
from tests.live.replays import CAPTURES
from tests.live.test_metrics import page, samples, served
from tests.live.worker_sets import frames_of, live, rows_in, send
from tests.seeds import SEED
from tests.sources.bpf_machine import PLAIN, run
from tests.sources.namespaces import Host
from tests.sources.test_filters import ETHER, PORTS, SNAPLEN

# No topic ids, whose names are learned on one connection for another.
REPLAYED = ("groups-2.4.1.pcapng", "basics-0.8.2.2.pcapng")
TABLES = ("connections", "exchanges", "partitions", "batches", "errors", "members", "problems")


def drawn_packet(draw: random.Random) -> tuple[Any, bytes]:
    """A packet of TCP to a broker, and its flow."""
    ports = [draw.randrange(1024, 65536), draw.choice(PORTS)]
    draw.shuffle(ports)
    tcp = TCP(sport=ports[0], dport=ports[1]) / Raw(b"x" * 20)
    if draw.random() < 0.5:
        ends = [str(ip_address(draw.getrandbits(32))) for _ in range(2)]
        options = [IPOption_Router_Alert()] if draw.random() < 0.3 else []
        packet: Any = IP(src=ends[0], dst=ends[1], options=options) / tcp
    else:
        ends = [str(ip_address(draw.getrandbits(128))) for _ in range(2)]
        packet = IPv6(src=ends[0], dst=ends[1])
        for extension in (IPv6ExtHdrHopByHop, IPv6ExtHdrDestOpt):
            packet = packet / extension() if draw.random() < 0.3 else packet
        packet = packet / tcp
    flow = b"".join(ip_address(end).packed for end in ends)
    return packet, flow + b"".join(port.to_bytes(2, "big") for port in ports)


def backwards(flow: bytes) -> bytes:
    width = (len(flow) - 4) // 2
    return flow[width : 2 * width] + flow[:width] + flow[-2:] + flow[-4:-2]


@pytest.mark.parametrize("ports", [PORTS, ()])
def test_the_filter_passes_the_connections_whose_hash_is_in_the_sample(ports: Any) -> None:
    draw = random.Random(f"{SEED} {ports}")
    passed = 0
    for _ in range(150):
        share = draw.choice([2, 3, 8, 1024])
        whole, alone = (port_filter(ports, kind, SNAPLEN, share) for kind in (ETHERNET, RAW))
        packet, flow = drawn_packet(draw)
        kind = 0x86DD if IPv6 in packet else 0x0800
        expected = SNAPLEN if is_sampled(flow, share) else 0
        asked = PLAIN._replace(protocol=kind, hardware_type=ARPHRD_NONE)
        tag = Dot1Q(vlan=7, type=kind)
        assert run(whole, bytes(ETHER / packet)) == expected, f"seed {SEED}"
        assert run(whole, bytes(ETHER / tag / packet)) == expected
        assert run(alone, bytes(packet), asked) == expected
        assert is_sampled(backwards(flow), share) == is_sampled(flow, share)
        passed += expected > 0
    assert passed > 0


def test_other_ports_are_dropped_before() -> None:
    program = port_filter(PORTS, ETHERNET, SNAPLEN, 2)
    for source in range(1024, 1100):
        packet = ETHER / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=source, dport=80)
        assert run(program, bytes(packet)) == 0


@pytest.mark.parametrize("kind", ["consecutive ports", "consecutive clients", "any"])
@pytest.mark.parametrize("share", [2, 8, 100])
def test_one_in_so_many_connections_is_in_the_sample(kind: str, share: int) -> None:
    draw = random.Random(f"{SEED} {kind} {share}")
    count = 20_000
    first = draw.getrandbits(32)
    sampled = 0
    for number in range(count):
        client, port = first, draw.randrange(32768, 61000)
        if kind == "consecutive ports":
            port = 32768 + number
        elif kind == "consecutive clients":
            client = (first + number) % (1 << 32)
        else:
            client = draw.getrandbits(32)
        ends = client.to_bytes(4, "big") + b"\x0a\x00\x00\x01"
        sampled += is_sampled(ends + port.to_bytes(2, "big") + b"\x23\x84", share)
    expected = count / share
    assert abs(sampled - expected) < 6 * math.sqrt(expected), f"seed {SEED}"


def test_the_hash_is_one_of_32_bits() -> None:
    assert hash_of(bytes(12)) == 0
    assert hash_of(b"\xff" * 36) < 1 << 32


@pytest.mark.parametrize("link_type", [ETHERNET, RAW])
@pytest.mark.parametrize("ports", [(), PORTS, range(1, 2000, 3)])
def test_the_kernel_takes_the_program(link_type: int, ports: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        attach(listening, port_filter(ports, link_type, SNAPLEN, 8))


def test_a_sample_is_of_interfaces_and_is_said() -> None:
    with pytest.raises(InvalidArgument, match="--sample is for interfaces"):
        Source(["x.pcap"], share=8).check()
    said = filter_text(Source(interfaces=["lo"], share=8), Options())
    assert said.endswith("29092, 1/8 of the connections (counts x 8)")


def in_sample(connection: tuple[Any, ...]) -> bool:
    client, client_port, broker, broker_port, _ = connection
    ends = b"".join(ip_address(end).packed for end in (client, broker))
    ports = b"".join(port.to_bytes(2, "big") for port in (client_port, broker_port))
    return is_sampled(ends + ports, 2)


@pytest.mark.slow
def test_rows_of_a_sample_are_those_of_its_connections(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    client, broker = cable
    packets = [[frame] for name in REPLAYED for frame in frames_of(CAPTURES / name)]
    one, two, three = (tmp_path / name for name in ("all", "sample", "workers"))
    sample = ("--sample", "connections=1/2")
    tables = ("--tables", ",".join(TABLES))
    with (
        live(broker, one, "-o", str(one / "tables"), *tables) as whole,
        live(broker, two, "-o", str(two / "tables"), *tables, *sample) as part,
        live(
            broker, three, "-o", str(three / "tables"), *tables, *sample, "--workers", "2"
        ) as shared,
    ):
        send(client, packets)
        for running in (whole, part, shared):
            running.hear("WATCHDOG=1")
            running.hear("WATCHDOG=1")
        said = [running.end() for running in (whole, part, shared)]
    assert all(" 0 dropped" in text for text in said), said
    for table in TABLES:
        expected = rows_in(one / "tables", table, in_sample)
        assert rows_in(two / "tables", table) == expected
        assert rows_in(three / "tables", table) == expected
    connections = [rows_in(path / "tables", "connections").total() for path in (one, two)]
    assert 0 < connections[1] < connections[0]


def test_counts_are_scaled_and_said() -> None:
    rows = handed({"exchanges": [exchange(1), exchange(2, outcome="unanswered")]})
    meters, whole = Meters(), Meters()
    meters.share = 8
    for one in (meters, whole):
        given(one, rows)
        one.tick(status(1.0, packets=40))
    shown, alone = meters.snapshot(), whole.snapshot()
    assert shown.whole.rate == 8 * alone.whole.rate > 0
    assert shown.whole.p99_ns == alone.whole.p99_ns
    assert [one.rate for one in shown.clients] == [8 * one.rate for one in alone.clients]
    assert "  1/8" in line_of(shown)
    assert "1/" not in line_of(alone)
    assert (json_of(shown)["connections_share"], json_of(alone)["connections_share"]) == (8, 1)
    assert scaled(alone, 8) == shown
    title = heading_lines(shown, History(), Marks("eth0", 1.0, 60.0), 80)
    assert "1/8 of conn." in "".join(piece.text for line in title for piece in line)


def test_metrics_of_exchanges_are_scaled_and_those_of_the_capture_are_not() -> None:
    pages = []
    for share in (1, 8):
        metrics = MetricsListener()
        metrics.share = share
        given(metrics, handed({"exchanges": [exchange(1, throttle_ms=5)]}))
        metrics.tick(status(1.0, packets=40, problems={"late": 3}))
        with served(metrics) as server:
            pages.append(samples(page(server)))
    factors = {
        name: pages[1][name, labels] / value for (name, labels), value in pages[0].items() if value
    }
    own = {series for metric in METRICS if metric.name in UNSCALED for series in metric.series}
    assert own >= {"kdissect_packets_total", "process_cpu_seconds_total"}
    assert {name for name, factor in factors.items() if factor == 1} <= own | {
        "kdissect_build_info"
    }
    assert {factors["kdissect_exchanges_total"], factors["kdissect_latency_seconds_bucket"]} == {8}
    assert factors["kdissect_sample_factor"] == 8
    assert {metric.name for metric in METRICS} >= UNSCALED
