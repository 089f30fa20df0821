"""Interfaces as packet sources: the packets that tcpdump sees, with its times, by the ring and by
scapy.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q
from scapy.packet import Packet as Layer
from scapy.packet import Raw

from kdissect.capture.packet import Packet
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import flow_of
from kdissect.sources.packet_source import Counts
from tests.sources.capturing import (
    Seen,
    assert_same,
    bytes_of,
    open_at,
    read_all,
    read_packets,
    seen,
    tcpdump,
    written,
)
from tests.sources.frames import ETHER, frame
from tests.sources.namespaces import CABLE, Host

FILTER = ["tcp", "port", "9092"]
TEXTS = [b"hello", b"x" * 5000, b"bye" * 100]
WAYS = ["ring", "scapy"]
SEGMENT = TCP(sport=51000, dport=9092) / Raw(b"x" * 64)
V4 = IP(src="10.77.0.2", dst="10.77.0.9") / SEGMENT
V6 = IPv6(src="fd77::2", dst="fd77::9") / SEGMENT


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("through", WAYS)
@pytest.mark.tcpdump
def test_packets_in_order_with_times_in_ns_are_those_of_tcpdump(
    hosts: tuple[Host, Host], tmp_path: Path, through: str
) -> None:
    client, broker = hosts
    path = tmp_path / "frames.pcap"
    other = [ETHER / IP(src="10.77.0.2", dst="10.77.0.9") / UDP(dport=9092), ETHER / V4]
    other[1][TCP].dport = 9091
    frames = [ETHER / V4, *other, ETHER / V6] * 50
    with open_at(broker, through=through) as packet_source, tcpdump(broker, CABLE, path, *FILTER):
        client.send_frames([bytes(frame) for frame in frames])
        packets = read_all(packet_source)
        counts = packet_source.counts()
        assert seen(packets) == written(path, len(packets))
    assert [bytes_of(packet) for packet in packets] == [bytes(ETHER / V4), bytes(ETHER / V6)] * 50
    assert [packet.number for packet in packets] == list(range(1, 101))
    assert [packet.ordinal for packet in packets] == list(range(1, 101))
    assert {(packet.link_type, packet.capture) for packet in packets} == {(1, 0)}
    assert counts == Counts(100, 0)
    assert packet_source.take_problems() == []
    assert packet_source.names == [CABLE]


@pytest.mark.parametrize("through", WAYS)
@pytest.mark.parametrize("version", ["ipv4", "ipv6"])
@pytest.mark.tcpdump
def test_a_connection_is_seen_both_ways(
    hosts: tuple[Host, Host], tmp_path: Path, through: str, version: str
) -> None:
    client, broker = hosts
    path = tmp_path / "all.pcap"
    with open_at(broker, through=through) as packet_source, tcpdump(broker, CABLE, path, *FILTER):
        client.talk_to(broker, TEXTS, getattr(broker, version))
        packets = read_all(packet_source)
        assert_same(seen(packets), written(path, len(packets)))
    assert conversation_of(packets) == (b"".join(TEXTS), b"".join(TEXTS))


@pytest.mark.parametrize("through", WAYS)
@pytest.mark.tcpdump
def test_loopback_shows_each_packet_once_as_tcpdump_does(
    hosts: tuple[Host, Host], tmp_path: Path, through: str
) -> None:
    host = hosts[0]
    path = tmp_path / "lo.pcap"
    with open_at(host, "lo", through=through) as packet_source, tcpdump(host, "lo", path, *FILTER):
        host.talk_to(host, TEXTS, "127.0.0.1")
        host.talk_to(host, TEXTS, "::1")
        packets = read_all(packet_source)
        assert_same(seen(packets), written(path, len(packets)))
    assert conversation_of(packets) == (b"".join(TEXTS) * 2, b"".join(TEXTS) * 2)


@pytest.mark.parametrize("through", [*WAYS, "together"])
def test_only_packets_before_the_end_are_returned(hosts: tuple[Host, Host], through: str) -> None:
    client, broker = hosts
    asked = ([CABLE, "lo"], "ring") if through == "together" else ([CABLE], through)
    with open_at(broker, *asked[0], through=asked[1]) as packet_source:
        client.send_frames([bytes(ETHER / V4)] * 20)
        packet_source.end()
        client.send_frames([bytes(ETHER / V6)] * 20)
        packets: list[Packet] = []
        while (more := packet_source.read(0)) is not None:
            packets += more
    assert [bytes_of(packet) for packet in packets] == [bytes(ETHER / V4)] * 20


@pytest.mark.parametrize("through", WAYS)
@pytest.mark.parametrize("snaplen", [70, 96])
@pytest.mark.tcpdump
def test_a_snaplen_cuts_and_the_original_length_stays(
    hosts: tuple[Host, Host], tmp_path: Path, through: str, snaplen: int
) -> None:
    client, broker = hosts
    path = tmp_path / "cut.pcap"
    frames = [bytes(ETHER / V4 / Raw(b"y" * size)) for size in (0, 1, 1000)]
    with (
        open_at(broker, through=through, snaplen=snaplen) as packet_source,
        tcpdump(broker, CABLE, path, "-s", str(snaplen), *FILTER),
    ):
        client.send_frames(frames)
        packets = read_all(packet_source)
        assert seen(packets) == written(path, len(packets))
    assert [bytes_of(packet) for packet in packets] == [frame[:snaplen] for frame in frames]
    assert [packet.original_length for packet in packets] == [118, 119, 1118]


@pytest.mark.parametrize("through", WAYS)
@pytest.mark.tcpdump
def test_other_ports_do_not_come_and_an_expression_takes_more_away(
    hosts: tuple[Host, Host], through: str
) -> None:
    client, broker = hosts
    with (
        open_at(broker, through=through, ports=[1, 2]) as none,
        open_at(broker, through=through, expression="ip6 or less 100") as some,
        open_at(broker, through=through, ports=()) as all_tcp,
    ):
        client.send_frames([bytes(ETHER / V4), bytes(ETHER / V6)])
        assert [bytes_of(packet) for packet in read_all(some)] == [bytes(ETHER / V6)]
        assert len(read_all(all_tcp)) == 2
        assert none.read(0) == []


@pytest.mark.parametrize("through", WAYS)
@pytest.mark.parametrize("tags", [1, 2])
def test_tagged_packets_come_without_their_outer_tag(
    hosts: tuple[Host, Host], through: str, tags: int
) -> None:
    client, broker = hosts
    inner = Dot1Q(vlan=5) if tags == 2 else None
    frames = [Dot1AD(vlan=6) / (inner / one if inner else one) for one in (V4, V6)]
    with open_at(broker, through=through) as packet_source, open_at(broker, "any") as anything:
        client.send_frames([bytes(ETHER / one) for one in frames])
        packets, alone = read_all(packet_source), read_all(anything)
    left = [inner / one if inner else one for one in (V4, V6)]
    assert [bytes_of(packet) for packet in packets] == [bytes(ETHER / one) for one in left]
    assert [bytes_of(packet) for packet in alone] == [bytes(V4), bytes(V6)]
    assert [packet.original_length for packet in alone] == [len(V4), len(V6)]
    assert len(PacketDecoder().feed(packets)) == len(PacketDecoder().feed(alone)) == 2


@pytest.mark.parametrize("through", WAYS)
def test_later_fragments_come_too(hosts: tuple[Host, Host], through: str) -> None:
    client, broker = hosts
    parts: list[Layer] = fragment(V4 / Raw(b"y" * 3000), fragsize=800)
    with open_at(broker, through=through) as packet_source:
        client.send_frames([bytes(ETHER / part) for part in parts])
        packets = read_all(packet_source)
    assert len(packets) == 4
    segments = PacketDecoder().feed(packets)
    assert [one.end - one.start for one in segments] == [3064]


@pytest.mark.parametrize("through", WAYS)
def test_a_vlan_is_seen_on_its_own_interface_and_on_the_cable(
    hosts: tuple[Host, Host], tmp_path: Path, through: str
) -> None:
    client, broker = hosts
    vlan = f"{CABLE}.5"
    for host, address in ((client, "10.78.0.2"), (broker, "10.78.0.1")):
        try:
            host.ip("link", "add", "link", CABLE, "name", vlan, "type", "vlan", "id", "5")
        except AssertionError as error:
            pytest.skip(f"needs a kernel with VLANs (8021q): {error}")
        host.ip("address", "add", f"{address}/24", "dev", vlan)
        host.ip("link", "set", vlan, "up")
    path = tmp_path / "vlan.pcap"
    with (
        open_at(broker, vlan, through=through) as inner,
        open_at(broker, through=through) as outer,
        tcpdump(broker, vlan, path, *FILTER),
    ):
        client.talk_to(broker, TEXTS, "10.78.0.1")
        on_vlan, on_cable = read_all(inner), read_all(outer)
        assert_same(seen(on_vlan), written(path, len(on_vlan)))
    assert conversation_of(on_vlan) == (b"".join(TEXTS), b"".join(TEXTS))
    assert conversation_of(on_cable) == (b"".join(TEXTS), b"".join(TEXTS))


@pytest.mark.tcpdump
def test_any_gives_all_interfaces_without_their_link_layers(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    client, broker = hosts
    path = tmp_path / "any.pcap"
    with open_at(broker, "any") as packet_source, tcpdump(broker, "any", path, *FILTER):
        client.talk_to(broker, TEXTS)
        client.talk_to(broker, TEXTS, broker.ipv6)
        broker.talk_to(broker, TEXTS, "127.0.0.1")
        packets = read_all(packet_source)
        theirs = written(path, len(packets))
    assert {packet.link_type for packet in packets} == {101}
    assert packet_source.names == ["any"]
    # tcpdump makes up a link layer of 20 bytes (LINUX_SLL2).
    expected = [Seen(one.time_ns, one.data[20:], one.original_length - 20) for one in theirs]
    assert_same(seen(packets), expected)
    assert conversation_of(packets) == (b"".join(TEXTS) * 3, b"".join(TEXTS) * 3)


@pytest.mark.parametrize("through", WAYS)
def test_a_tunnel_has_packets_without_link_layer(hosts: tuple[Host, Host], through: str) -> None:
    host = hosts[0]
    with host.inside(), tunnel("kdt") as packets_in:
        host.ip("link", "set", "kdt", "up")
        with open_at(host, "kdt", through=through) as packet_source:
            for packet in (bytes(V4), bytes(IP(dst="10.0.0.1") / UDP()), bytes(V6)):
                os.write(packets_in, packet)
            packets = read_all(packet_source)
    assert [bytes_of(packet) for packet in packets] == [bytes(V4), bytes(V6)]
    assert {packet.link_type for packet in packets} == {101}


@contextmanager
def tunnel(name: str) -> Iterator[int]:
    """A tun interface; data written to the file arrives on it."""
    if not Path("/dev/net/tun").exists():
        pytest.skip("needs /dev/net/tun")
    opened = os.open("/dev/net/tun", os.O_RDWR)
    try:
        # TUNSETIFF, IFF_TUN | IFF_NO_PI
        fcntl.ioctl(opened, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))
        yield opened
    finally:
        os.close(opened)


def test_several_interfaces_come_in_order_of_time(hosts: tuple[Host, Host]) -> None:
    client, broker = hosts
    with open_at(broker, CABLE, "lo", CABLE) as packet_source:
        for _ in range(5):
            client.talk_to(broker, [b"over the cable"])
            broker.talk_to(broker, [b"at home"], "127.0.0.1")
        packets = read_all(packet_source)
        assert packet_source.counts() == Counts(len(packets), 0)
    assert packet_source.names == [CABLE, "lo"]
    assert {packet.capture for packet in packets} == {0, 1}
    times = [packet.time_ns for packet in packets]
    assert times == sorted(times)
    assert [packet.ordinal for packet in packets] == list(range(1, len(packets) + 1))
    for capture in (0, 1):
        numbers = [packet.number for packet in packets if packet.capture == capture]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("through", WAYS)
def test_packets_without_room_are_counted_as_drops(hosts: tuple[Host, Host], through: str) -> None:
    client, broker = hosts
    frame = bytes(ETHER / V4 / Raw(b"y" * 1200))
    with open_at(broker, through=through, buffer_bytes=1 << 18) as packet_source:
        client.send_frames([frame] * 1000)
        packets = read_all(packet_source)
        counts = packet_source.counts()
        assert counts.received == 1000
        assert counts.dropped == 1000 - len(packets)
        assert 0 < counts.dropped < 1000
        client.send_frames([frame] * 10)
        assert len(read_all(packet_source)) == 10
        assert packet_source.counts() == Counts(1010, counts.dropped)
    assert packet_source.counts() == Counts(1010, counts.dropped)
    packet_source.close()


def test_a_ring_goes_round_and_round_without_loss(hosts: tuple[Host, Host]) -> None:
    client, broker = hosts
    frames = [frame(number, 1000 + number % 400) for number in range(600)]
    packets: list[Packet] = []
    with open_at(broker, buffer_bytes=1 << 19) as packet_source:
        for at in range(0, len(frames), 20):
            client.send_frames(frames[at : at + 20])
            # The kernel closes a block after 60 ms: a busy machine that sends ahead of the reader
            # fills the ring with blocks that are nearly empty.
            packets += read_packets(packet_source, 20)
        packets += read_all(packet_source)
        assert packet_source.counts() == Counts(600, 0)
    assert [bytes_of(packet) for packet in packets] == frames
    assert [packet.number for packet in packets] == list(range(1, 601))


def test_the_backlog_is_the_fill_level_of_the_ring(hosts: tuple[Host, Host]) -> None:
    client, broker = hosts
    with open_at(broker, buffer_bytes=1 << 20) as packet_source:
        assert packet_source.backlog() == 0.0
        client.send_frames([bytes(ETHER / V4 / Raw(b"y" * 1200))] * 2000)
        packet_source.read(0)
        assert packet_source.backlog() == 1.0
        packet_source.read(0)
        assert packet_source.backlog() == 0.0


def test_promiscuous_mode_is_set_on_request_only(hosts: tuple[Host, Host]) -> None:
    broker = hosts[1]
    for through in WAYS:
        with open_at(broker, through=through):
            assert promiscuity(broker) == 0
        with open_at(broker, through=through, promiscuous=True):
            assert promiscuity(broker) > 0
        assert promiscuity(broker) == 0


def promiscuity(host: Host) -> int:
    said = host.ip_says("-d", "link", "show", CABLE)
    return int(said.split("promiscuity ")[1].split()[0])


def conversation_of(packets: list[Packet]) -> tuple[bytes, bytes]:
    """Bytes sent to the broker and from it, each once."""
    to_broker: dict[bytes, bytes] = {}
    to_client: dict[bytes, bytes] = {}
    for one in PacketDecoder().feed(packets):
        if one.end > one.start:
            flow = flow_of(one)
            sent = to_broker if flow[-2:] == (9092).to_bytes(2, "big") else to_client
            sequence = one.sequence & 0xFFFFFFFF
            sent[flow + sequence.to_bytes(4, "big")] = one.data[one.start : one.end]
    return b"".join(to_broker.values()), b"".join(to_client.values())
