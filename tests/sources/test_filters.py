"""The kernel's filter: the packets it accepts, in a model of the kernel and in the kernel."""

import random
import socket
from collections.abc import Sequence
from typing import Any

import pytest
from scapy.error import Scapy_Exception
from scapy.layers.inet import IP, TCP, UDP, IPOption_Router_Alert, fragment
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
    fragment6,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

from kdissect.errors import CaptureError
from kdissect.sources.bpf_programs import NOTHING, Instruction, Program, attach, both
from kdissect.sources.filter_expressions import (
    compile_by_library,
    compile_by_tcpdump,
    compile_expression,
)
from kdissect.sources.interfaces import ARPHRD_LOOPBACK, ARPHRD_NONE, ETHERNET, RAW
from kdissect.sources.port_filters import port_filter, port_ranges
from tests.sources.bpf_machine import PLAIN, Asked, run

SNAPLEN = 262_144
PORTS = (9092, 9093, 9094, 19092)
BODY = b"x" * 64
# Without addresses scapy would look them up on the network.
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
IPV4_ADDRESSES = {"src": "10.0.0.1", "dst": "10.0.0.2"}
IPV6_ADDRESSES = {"src": "fd00::1", "dst": "fd00::2"}


def v4(**fields: Any) -> IP:
    return IP(**IPV4_ADDRESSES, **fields)


def v6(**fields: Any) -> IPv6:
    return IPv6(**IPV6_ADDRESSES, **fields)


def tcp(source: int = 51000, destination: int = 9092) -> TCP:
    return TCP(sport=source, dport=destination) / Raw(BODY)


def passes(packet: Any, ports: Sequence[int] = PORTS, asked: Asked = PLAIN) -> list[int]:
    """Passing bytes in Ethernet, behind a tag; cooked, behind a tag, with the tag apart."""
    whole, alone = port_filter(ports, ETHERNET, SNAPLEN), port_filter(ports, RAW, SNAPLEN)
    kind = 0x86DD if isinstance(packet, IPv6) else 0x0800
    tag = Dot1Q(vlan=7, type=kind)
    return [
        run(whole, bytes(ETHER / packet), asked),
        run(whole, bytes(ETHER / tag / packet), asked),
        run(alone, bytes(packet), asked._replace(protocol=kind, hardware_type=ARPHRD_NONE)),
        run(alone, bytes(tag / packet), asked._replace(protocol=0x8100)),
        run(alone, bytes(packet), asked._replace(protocol=0x8100)),
    ]


ALL = [SNAPLEN] * 5
NONE = [0] * 5

EXTENSIONS = [
    v6() / IPv6ExtHdrHopByHop() / tcp(),
    v6() / IPv6ExtHdrDestOpt() / tcp(),
    v6() / IPv6ExtHdrRouting(addresses=["fd00::3", "fd00::4"]) / tcp(),
    v6() / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(30))]) / tcp(),
    v6() / IPv6ExtHdrHopByHop() / IPv6ExtHdrFragment(m=1) / tcp(),
]


@pytest.mark.parametrize("address", [v4, v6])
@pytest.mark.parametrize("port", PORTS)
def test_segments_from_and_to_the_ports_pass(address: Any, port: int) -> None:
    assert passes(address() / tcp(51000, port)) == ALL
    assert passes(address() / tcp(port, 51000)) == ALL


@pytest.mark.parametrize("address", [v4, v6])
def test_other_ports_and_protocols_are_dropped(address: Any) -> None:
    assert passes(address() / tcp(51000, 9091)) == NONE
    assert passes(address() / tcp(9095, 19091)) == NONE
    assert passes(address() / UDP(sport=9092, dport=9092) / Raw(BODY)) == NONE


def test_options_of_ipv4_do_not_move_the_ports() -> None:
    assert passes(v4(options=[IPOption_Router_Alert()] * 3) / tcp()) == ALL
    assert passes(v4(options=[IPOption_Router_Alert()] * 3) / tcp(1, 2)) == NONE


@pytest.mark.parametrize("packet", EXTENSIONS, ids=range(len(EXTENSIONS)))
def test_extension_headers_of_ipv6_do_not_hide_the_ports(packet: Any) -> None:
    assert passes(packet) == ALL
    other = packet.copy()
    other[TCP].dport = 9091
    assert passes(other) == NONE


def test_every_fragment_of_tcp_passes_behind_the_first_whose_ports_do() -> None:
    parts = fragment(v4() / tcp() / Raw(b"y" * 3000), fragsize=800)
    assert [passes(part) for part in parts] == [ALL] * 4
    parts = fragment(v4() / tcp(1, 2) / Raw(b"y" * 3000), fragsize=800)
    assert [passes(part) for part in parts] == [NONE] + [ALL] * 3
    long_udp = v4() / UDP(sport=9092, dport=9092) / Raw(b"y" * 3000)
    assert [passes(part) for part in fragment(long_udp, fragsize=800)] == [NONE] * 4


def test_the_same_for_fragments_of_ipv6() -> None:
    parts = fragment6(v6() / IPv6ExtHdrFragment() / tcp() / Raw(b"y" * 3000), 1280)
    assert [passes(part) for part in parts] == [ALL] * 3
    parts = fragment6(v6() / IPv6ExtHdrFragment() / tcp(1, 2) / Raw(b"y" * 3000), 1280)
    assert [passes(part) for part in parts] == [NONE] + [ALL] * 2


def test_packets_the_filter_cannot_decide_pass() -> None:
    many = v6()
    for _ in range(5):
        many = many / IPv6ExtHdrDestOpt()
    assert passes(many / tcp(1, 2)) == ALL
    assert passes(v6() / AH() / tcp(1, 2)) == ALL


def test_without_ports_all_of_tcp_passes() -> None:
    assert passes(v4() / tcp(1, 2), ports=()) == ALL
    assert passes(v6() / tcp(1, 2), ports=()) == ALL
    assert passes(v4() / UDP() / Raw(BODY), ports=()) == NONE


def test_a_packet_that_is_cut_before_its_ports_is_dropped() -> None:
    whole = bytes(ETHER / v4() / tcp())
    program = port_filter(PORTS, ETHERNET, SNAPLEN)
    assert {run(program, whole[:size]) for size in range(38)} == {0}
    assert run(program, whole[:38]) == SNAPLEN


def test_tags_of_providers_pass_and_other_ethertypes_do_not() -> None:
    program = port_filter(PORTS, ETHERNET, 96)
    assert run(program, bytes(ETHER / Dot1AD(vlan=3) / v4() / tcp())) == 96
    assert run(program, bytes(ETHER / ARP(hwsrc="02:00:00:00:00:01", psrc="10.0.0.1"))) == 0
    assert run(program, b"") == 0


@pytest.mark.parametrize("link_type", [ETHERNET, RAW])
def test_loopback_shows_each_packet_once(link_type: int) -> None:
    packet = v4() / tcp()
    data = bytes(ETHER / packet) if link_type == ETHERNET else bytes(packet)
    program = port_filter(PORTS, link_type, SNAPLEN)
    seen = [
        run(program, data, Asked(0x0800, packet_type, hardware))
        for hardware in (ARPHRD_LOOPBACK, 1)
        for packet_type in (0, 4)
    ]
    assert seen == [SNAPLEN, 0, SNAPLEN, SNAPLEN]


def test_ports_that_follow_each_other_are_one_range() -> None:
    assert list(port_ranges([9094, 9092, 9093, 1, 65535, 9092])) == [
        (1, 1), (9092, 9094), (65535, 65535)
    ]  # fmt: skip
    assert list(port_ranges([])) == []


def test_hundreds_of_ports_are_distinguished() -> None:
    ports = random.Random(1).sample(range(1, 65536), 300)
    program = port_filter(ports, ETHERNET, SNAPLEN)
    there = set(ports)
    for port in [*ports, *range(1, 65536, 197)]:
        expected = SNAPLEN if port in there else 0
        assert run(program, bytes(ETHER / v4() / TCP(sport=port, dport=0))) == expected
        assert run(program, bytes(ETHER / v6() / TCP(sport=0, dport=port))) == expected


def test_too_many_ports_are_an_error_with_advice() -> None:
    with pytest.raises(CaptureError, match=r"5000 ranges of ports .*portrange A-B"):
        port_filter(range(1, 10_001, 2), ETHERNET, SNAPLEN)


@pytest.mark.tcpdump
def test_an_expression_takes_more_away_and_nothing_else() -> None:
    ports = port_filter(PORTS, ETHERNET, 128)
    program = both(ports, compile_expression("host 10.0.0.1 and less 150", ETHERNET))
    other = IP(src="10.9.9.9", dst="10.0.0.2")
    frames = [v4() / tcp(), other / tcp(), v4() / tcp(1, 2), v4() / tcp() / Raw(b"y" * 100)]
    assert [run(program, bytes(ETHER / one)) for one in frames] == [128, 0, 0, 0]
    raw = both(port_filter(PORTS, RAW, 128), compile_expression("host 10.0.0.1", RAW))
    assert [run(raw, bytes(one), Asked(0x0800)) for one in frames] == [128, 0, 0, 128]


@pytest.mark.parametrize("link_type", [ETHERNET, RAW])
@pytest.mark.tcpdump
def test_libpcap_and_tcpdump_compile_the_same(link_type: int) -> None:
    def shape(program: Program | None) -> list[Instruction]:
        assert program is not None
        returns = [one for one in program if one.code == 6]
        return [one for one in program if one not in returns]

    text = "tcp portrange 9092-9094 and not src net 10.0.0.0/8"
    assert shape(compile_by_library(text, link_type)) == shape(compile_by_tcpdump(text, link_type))


@pytest.mark.parametrize("compiled", [compile_by_library, compile_by_tcpdump])
@pytest.mark.tcpdump
def test_invalid_expression_reports_libpcaps_message(compiled: Any) -> None:
    with pytest.raises(CaptureError) as raised:
        compiled("tcp poort 9092", ETHERNET)
    assert str(raised.value) == (
        "--filter 'tcp poort 9092': can't parse filter expression: syntax error"
        " (its language is that of tcpdump)"
    )
    # In the words of libpcap 1.10, and of 1.11.
    told = r"ethernet addresses supported only on|'link host [X:]+' not supported on DLT_RAW"
    with pytest.raises(CaptureError, match=told):
        compiled("ether host 1:2:3:4:5:6", RAW)


def test_releases_of_scapy_that_give_no_reason_are_understood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Scapy_Exception("Failed to compile filter expression tcp poort (-1)")

    monkeypatch.setattr("scapy.arch.common.compile_filter", fail)
    with pytest.raises(CaptureError, match="--filter 'tcp poort': libpcap does not take it"):
        compile_by_library("tcp poort", ETHERNET)


@pytest.mark.tcpdump
def test_an_expression_is_never_an_option_of_tcpdump() -> None:
    with pytest.raises(CaptureError, match="syntax error"):
        compile_by_tcpdump("--version", ETHERNET)


def test_an_expression_with_vlans_warns_of_stripped_tags() -> None:
    with pytest.raises(CaptureError, match="capture on the VLAN's own interface"):
        compile_expression("vlan 5 and tcp", ETHERNET)


@pytest.mark.tcpdump
def test_without_libpcap_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.sources.filter_expressions.compile_by_library", lambda *_: None)
    assert compile_expression("tcp", ETHERNET) == compile_by_tcpdump("tcp", ETHERNET)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CaptureError, match=r"install libpcap .* or install tcpdump"):
        compile_expression("tcp", ETHERNET)


@pytest.mark.parametrize("link_type", [ETHERNET, RAW])
@pytest.mark.parametrize("ports", [(), PORTS, range(1, 3001, 2)], ids=["none", "few", "many"])
def test_the_kernel_takes_the_programs(link_type: int, ports: Sequence[int]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taking:
        attach(taking, NOTHING)
        attach(taking, port_filter(ports, link_type, SNAPLEN))


def test_a_program_that_the_kernel_does_not_take_is_an_error() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taking,
        pytest.raises(CaptureError, match="the kernel does not take the filter: Invalid argument"),
    ):
        attach(taking, [Instruction(0x15, 9, 9, 0)])
