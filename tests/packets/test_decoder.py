import struct

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import Problem
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.link import (
    ETHERNET,
    IPV4,
    IPV6,
    LINUX_SLL,
    LINUX_SLL2,
    LOOP,
    NULL,
    RAW,
    RAW_BSD,
    RAW_OPENBSD,
)
from kdissect.packets.segment import ACK, FIN, PSH, RST, SYN, flow_of
from tests.packets.builders import (
    BROKER,
    BROKER_V6,
    CLIENT,
    CLIENT_V6,
    fields_of,
    make_cooked,
    make_cooked2,
    make_ethernet,
    make_flow,
    make_ipv4,
    make_ipv6,
    make_packet,
    make_tcp,
    make_tcp_packet,
)

FLOW = make_flow(CLIENT, BROKER, 50000, 9092)
FLOW_V6 = make_flow(CLIENT_V6, BROKER_V6, 50000, 9092)
V4 = make_ipv4(make_tcp(b"payload"))
V6 = make_ipv6(make_tcp(b"payload"))
TIMESTAMPS = b"\x01\x01\x08\x0a" + bytes(8)


def decode(data: bytes, link_type: int = ETHERNET, original_length: int = -1) -> object:
    """The segment's fields, or the reasons why there is none."""
    decoder = PacketDecoder()
    segment = decoder.decode(make_packet(data, link_type, original_length))
    assert (segment is None) == (sum(decoder.reasons().values()) == 1)
    return fields_of(segment) or decoder.reasons()


def segment(
    flow: bytes = FLOW, payload: bytes = b"payload", payload_length: int = -1, **fields: int
) -> dict[str, object]:
    """The fields of the segment that the builders make by default."""
    made: dict[str, object] = {
        "number": 3,
        "ordinal": 5,
        "capture": 2,
        "time_ns": 17,
        "flow": flow,
        "sequence": 1000,
        "acknowledgment": 2000,
        "flags": PSH | ACK,
        "window": 501,
        "payload": payload,
        "payload_length": len(payload) if payload_length < 0 else payload_length,
        "ports": flow[-4:],
        "ip_id": 7 if len(flow) == 12 else -1,
    }
    return made | fields


LINK_LAYERS = [
    pytest.param(ETHERNET, make_ethernet(V4), FLOW, id="Ethernet"),
    pytest.param(ETHERNET, make_ethernet(V6), FLOW_V6, id="Ethernet, IPv6"),
    pytest.param(ETHERNET, make_ethernet(V4, vlans=((0x8100, 5),)), FLOW, id="802.1Q"),
    pytest.param(ETHERNET, make_ethernet(V6, vlans=((0x88A8, 5), (0x8100, 6))), FLOW_V6, id="QinQ"),
    pytest.param(ETHERNET, make_ethernet(V4, vlans=((0x9100, 1),) * 8), FLOW, id="eight tags"),
    pytest.param(LINUX_SLL, make_cooked(V4), FLOW, id="cooked v1"),
    pytest.param(
        LINUX_SLL, make_cooked(V4, vlan=b"\x81\x00\x00\x05"), FLOW, id="cooked v1, 802.1Q"
    ),
    pytest.param(LINUX_SLL2, make_cooked2(V6), FLOW_V6, id="cooked v2"),
    pytest.param(
        LINUX_SLL2, make_cooked2(b"\x00\x05\x08\x00" + V4, 0x8100), FLOW, id="cooked v2, 802.1Q"
    ),
    pytest.param(NULL, b"\x02\x00\x00\x00" + V4, FLOW, id="NULL, little-endian"),
    pytest.param(NULL, b"\x00\x00\x00\x02" + V4, FLOW, id="NULL, big-endian"),
    *(
        pytest.param(LOOP, struct.pack(">I", family) + V6, FLOW_V6, id=f"LOOP, family {family}")
        for family in (10, 24, 28, 30)
    ),
    *(
        pytest.param(link_type, V4, FLOW, id=f"raw {link_type}")
        for link_type in (RAW, RAW_BSD, RAW_OPENBSD, IPV4)
    ),
    pytest.param(IPV6, V6, FLOW_V6, id="raw IPv6"),
]


@pytest.mark.parametrize(("link_type", "data", "flow"), LINK_LAYERS)
def test_every_link_layer_gives_the_segment(link_type: int, data: bytes, flow: bytes) -> None:
    assert decode(data, link_type) == segment(flow)


@pytest.mark.parametrize(("link_type", "data", "flow"), LINK_LAYERS)
def test_a_packet_cut_anywhere_gives_a_segment_or_is_counted_as_cut(
    link_type: int, data: bytes, flow: bytes
) -> None:
    whole = len(data)
    header_size = whole - len(b"payload")
    for size in range(whole):
        got = decode(data[:size], link_type, whole)
        if size < header_size:
            assert got == {"headers cut off": 1}
        else:
            assert got == segment(flow, b"payload"[: size - header_size], 7)


@pytest.mark.parametrize("flags", [SYN, SYN | ACK, FIN | ACK, RST, ACK, 0xFF])
def test_all_fields_of_the_tcp_header_are_given(flags: int) -> None:
    data = make_tcp_packet(
        b"", "1.2.3.4", "255.254.253.252", 65535, 1, 0xFFFFFFFF, 0x80000000, flags, 65535
    )
    flow = make_flow("1.2.3.4", "255.254.253.252", 65535, 1)
    numbers = {"sequence": 0xFFFFFFFF, "acknowledgment": 0x80000000, "window": 65535}
    assert decode(data) == segment(flow, b"", flags=flags, **numbers)


def test_options_of_tcp_and_ip_are_skipped() -> None:
    assert decode(make_tcp_packet(b"payload", options=TIMESTAMPS)) == segment()
    assert decode(make_ethernet(make_ipv4(make_tcp(b"payload"), options=bytes(40)))) == segment()


def test_options_that_were_cut_leave_an_empty_payload_of_known_length() -> None:
    data = make_tcp_packet(b"payload", options=TIMESTAMPS)
    assert decode(data[:58], original_length=len(data)) == segment(payload=b"", payload_length=7)


def test_padding_and_check_sequence_are_no_payload() -> None:
    assert decode(make_tcp_packet(b"") + bytes(6)) == segment(payload=b"")
    assert decode(make_tcp_packet(b"", CLIENT_V6, BROKER_V6) + b"FCS!") == segment(FLOW_V6, b"")


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(make_ethernet(make_ipv4(make_tcp(b"payload"), total_length=0)), id="IPv4"),
        pytest.param(make_cooked(make_ipv4(make_tcp(b"payload"), total_length=0)), id="cooked"),
        pytest.param(make_ethernet(make_ipv6(make_tcp(b"payload"), payload_length=0)), id="IPv6"),
    ],
)
def test_without_ip_length_the_frame_counts(packet: bytes) -> None:
    link_type = LINUX_SLL if packet[:2] == b"\x00\x00" else ETHERNET
    flow = FLOW_V6 if packet[12:14] == b"\x86\xdd" else FLOW
    assert decode(packet, link_type) == segment(flow)
    wire_length = len(packet) + 100_000
    assert decode(packet, link_type, wire_length) == segment(flow, payload_length=100_007)


def test_a_jumbogram_is_as_long_as_its_frame() -> None:
    jumbo = b"\x06\x00\xc2\x04" + struct.pack(">I", 70_000)
    payload = bytes(70_000 - 28)
    packet = make_ipv6(jumbo + make_tcp(payload), protocol=0, payload_length=0)
    assert decode(make_ethernet(packet)) == segment(FLOW_V6, payload)


EXTENSIONS = [
    pytest.param(0, b"\x06\x00" + bytes(6), id="hop by hop"),
    pytest.param(43, b"\x06\x01" + bytes(14), id="routing"),
    pytest.param(60, b"\x06\x00" + bytes(6), id="destination options"),
    pytest.param(51, b"\x06\x04" + bytes(22), id="authentication"),
    pytest.param(44, b"\x06\x00\x00\x00" + bytes(4), id="atomic fragment"),
    pytest.param(0, b"\x3c\x00" + bytes(6) + b"\x06\x02" + bytes(22), id="two"),
]


@pytest.mark.parametrize(("protocol", "extension"), EXTENSIONS)
def test_extension_headers_are_skipped(protocol: int, extension: bytes) -> None:
    packet = make_ethernet(make_ipv6(extension + make_tcp(b"payload"), protocol=protocol))
    assert decode(packet) == segment(FLOW_V6)
    for size in range(14 + 40 + len(extension) + 20):
        assert decode(packet[:size], original_length=len(packet)) == {"headers cut off": 1}


def test_an_unknown_link_type_is_one_problem_however_many_packets() -> None:
    decoder = PacketDecoder()
    assert decoder.feed([make_packet(bytes(100), 148)] * 5 + [make_packet(b"", 147)]) == []
    assert decoder.reasons() == {"link type 148": 5, "link type 147": 1}
    kind = "unknown-link-type"
    assert decoder.problems == [
        Problem(
            "packets", kind, f"packets of link type {number} are not looked into", 17, 3, capture=2
        )
        for number in (148, 147)
    ]


@pytest.mark.parametrize(
    ("link_type", "data", "reason"),
    [
        (ETHERNET, make_ethernet(make_ipv4(bytes(30), protocol=17)), "UDP"),
        (ETHERNET, make_ethernet(make_ipv6(bytes(30), protocol=58)), "ICMPv6"),
        (ETHERNET, make_ethernet(make_ipv4(bytes(30), protocol=200)), "IP protocol 200"),
        (ETHERNET, make_ethernet(make_ipv6(bytes(8), protocol=59)), "IPv6 without payload"),
        (ETHERNET, make_ethernet(bytes(46), 0x0806), "ARP"),
        (ETHERNET, make_ethernet(bytes(46), 0x1234), "ethertype 0x1234"),
        (ETHERNET, make_ethernet(bytes(46), 38), "IEEE 802.3"),
        (ETHERNET, make_ethernet(V4, vlans=((0x8100, 1),) * 9), "no IP"),
        (NULL, b"\x07\x00\x00\x00" + bytes(40), "no IP"),
        (RAW, b"\x50" + bytes(40), "no IP"),
        (ETHERNET, make_ethernet(b"\x65" + bytes(60), 0x0800), "malformed headers"),
        (ETHERNET, make_ethernet(b"\x45" + bytes(60), 0x86DD), "malformed headers"),
        (ETHERNET, make_ethernet(b"\x44" + V4[1:]), "malformed headers"),
        (ETHERNET, make_ethernet(make_ipv4(make_tcp(), total_length=19)), "malformed headers"),
        (ETHERNET, make_ethernet(make_ipv4(make_tcp(), total_length=39)), "malformed headers"),
        (ETHERNET, make_ethernet(make_ipv4(make_tcp()[:10])), "malformed headers"),
        (
            ETHERNET,
            make_ethernet(make_ipv4(make_tcp()[:12] + b"\x40" + bytes(20))),
            "malformed headers",
        ),
        (
            ETHERNET,
            make_ethernet(make_ipv4(make_tcp()[:12] + b"\xf0" + bytes(20))),
            "malformed headers",
        ),
    ],
)
def test_packets_without_a_segment_are_counted_by_reason(
    link_type: int, data: bytes, reason: str
) -> None:
    assert decode(data, link_type) == {reason: 1}


@given(
    st.sampled_from([NULL, ETHERNET, RAW, LOOP, LINUX_SLL, LINUX_SLL2, IPV4, IPV6, 105]),
    st.binary(max_size=120),
    st.integers(0, 1 << 20),
)
def test_any_bytes_give_a_segment_or_a_reason(link_type: int, data: bytes, more: int) -> None:
    check_bounds(data, link_type, len(data) + more)


@given(st.sampled_from(LINK_LAYERS), st.data())
def test_changed_headers_give_a_segment_or_a_reason(layer: object, data: st.DataObject) -> None:
    link_type, packet, _ = layer.values  # type: ignore[attr-defined]
    changed = bytearray(packet)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(0, len(changed)))
    check_bounds(bytes(changed[:size]), link_type, len(changed))


def check_bounds(data: bytes, link_type: int, original_length: int) -> None:
    """A segment lies within its packet, or the packet was counted."""
    decoder = PacketDecoder()
    packet = make_packet(data, link_type, original_length)
    found = decoder.decode(packet)
    if found is None:
        assert sum(decoder.reasons().values()) == 1
    else:
        assert packet.start < found.start <= found.end <= packet.end
        assert found.end - found.start <= found.payload_length
        assert len(flow_of(found)) in (12, 36)


@given(
    st.binary(max_size=60),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, 10).map(lambda count: b"\x01" * (4 * count)),
    st.booleans(),
)
def test_dpkt_reads_the_same(payload: bytes, sequence: int, options: bytes, is_v6: bool) -> None:
    source, destination = (CLIENT_V6, BROKER_V6) if is_v6 else (CLIENT, BROKER)
    data = make_tcp_packet(payload, source, destination, sequence=sequence, options=options)
    tcp = dpkt.ethernet.Ethernet(data).data.data
    flow = make_flow(source, destination, tcp.sport, tcp.dport)
    expected = segment(
        flow, tcp.data, sequence=tcp.seq, acknowledgment=tcp.ack, flags=tcp.flags, window=tcp.win
    )
    assert decode(data) == expected
