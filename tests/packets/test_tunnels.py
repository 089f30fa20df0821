"""Encapsulations of IP and TCP, each layer alone and around a recorded session."""

import functools
import io
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.dot11 import Dot11
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import GRE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from kdissect.capture.files import open_captures
from kdissect.capture.pcap import NANOSECONDS
from kdissect.packets import link
from kdissect.packets.decoder import MAXIMUM_LAYERS, TOO_DEEP, PacketDecoder
from kdissect.packets.segment import flow_of
from kdissect.pipeline import Options, Run
from tests.capture.writers import Captured, make_pcap
from tests.packets.builders import (
    BROKER,
    BROKER_V6,
    CLIENT,
    CLIENT_V6,
    fields_of,
    make_ethernet,
    make_ipv4,
    make_ipv6,
    make_packet,
    make_tcp,
    make_tcp_packet,
)
from tests.packets.encapsulations import (
    FRAMES,
    IN_ETHERNET,
    LINK_LAYERS,
    OUTER4,
    Encapsulation,
    aggregate,
    encapsulations,
    label,
    radiotap,
    wireless,
)

ROOT = Path(__file__).parent.parent.parent
SESSION = ROOT / "captures" / "telemetry-4.3.1.pcapng"
ENCAPSULATIONS = encapsulations()
EVERY = pytest.mark.parametrize("encapsulation", ENCAPSULATIONS.values(), ids=ENCAPSULATIONS.keys())
PAYLOAD = b"payload " * 20
INNER = {
    4: make_tcp_packet(PAYLOAD, CLIENT, BROKER),
    6: make_tcp_packet(PAYLOAD, CLIENT_V6, BROKER_V6),
}
WRAPPED = {name: encapsulation(INNER[4]) for name, encapsulation in ENCAPSULATIONS.items()}


def decode(data: bytes, link_type: int = link.ETHERNET, original_length: int = -1) -> object:
    """The segment's fields, or the reasons why there is none."""
    decoder = PacketDecoder()
    segment = decoder.decode(make_packet(data, link_type, original_length))
    assert (segment is None) == (sum(decoder.reasons().values()) == 1)
    assert decoder.problems == []
    return fields_of(segment) or decoder.reasons()


@EVERY
@pytest.mark.parametrize("version", [4, 6])
def test_the_segment_in_it_is_the_same_as_without_it(
    encapsulation: Encapsulation, version: int
) -> None:
    link_type, data = encapsulation(INNER[version])
    assert decode(data, link_type) == decode(INNER[version])


@EVERY
def test_cut_anywhere_it_gives_the_segment_or_is_counted(encapsulation: Encapsulation) -> None:
    link_type, data = encapsulation(INNER[4])
    whole = decode(INNER[4])
    assert isinstance(whole, dict)
    payload_at = data.index(PAYLOAD)
    for size in range(len(data)):
        found = decode(data[:size], link_type, len(data))
        assert isinstance(found, dict)
        if size < payload_at:
            # Where labels and ports have no bytes after them, their content cannot be determined.
            assert set(found) <= {"headers cut off", "MPLS", "UDP"}
        else:
            assert found == {**whole, "payload": PAYLOAD[: size - payload_at]}


@EVERY
def test_padding_and_check_sequence_are_no_payload(encapsulation: Encapsulation) -> None:
    link_type, data = encapsulation(make_tcp_packet(b"x") + bytes(5))
    assert decode(data, link_type) == decode(make_tcp_packet(b"x"))


def test_the_page_in_the_documents_names_everything_that_is_tested() -> None:
    page = (ROOT / "docs" / "tunnels.md").read_text()
    assert [name for name in IN_ETHERNET if name not in page] == []
    for link_type, names in named_by_number().items():
        assert f"| {link_type} | {'; '.join(names)} |" in page


def named_by_number() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name, (link_type, _) in LINK_LAYERS.items():
        found.setdefault(link_type, []).append(name)
    return found


@settings(max_examples=1000)
@given(st.sampled_from(sorted(WRAPPED)), st.data())
def test_changed_headers_give_a_segment_or_a_reason(name: str, data: st.DataObject) -> None:
    link_type, packet = WRAPPED[name]
    changed = bytearray(packet)
    header_size = packet.index(PAYLOAD)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, header_size))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(0, len(changed)))
    check(bytes(changed[:size]), link_type, len(changed))


@given(
    st.sampled_from(sorted({link_type for link_type, _ in WRAPPED.values()})),
    st.binary(max_size=200),
    st.integers(0, 1 << 20),
)
def test_any_bytes_give_a_segment_or_a_reason(link_type: int, data: bytes, more: int) -> None:
    check(data, link_type, len(data) + more)


def check(data: bytes, link_type: int, original_length: int) -> None:
    """Check that segments lie within the bytes, or the packet was counted."""
    decoder = PacketDecoder()
    found = decoder.feed([make_packet(data, link_type, original_length)])
    decoder.finish()
    found += decoder.late
    assert len(found) + sum(decoder.reasons().values()) >= 1
    for segment in found:
        assert 0 <= segment.header < segment.start <= segment.end <= len(segment.data)
        assert segment.end - segment.start <= segment.payload_length
        assert len(flow_of(segment)) in (12, 36)


# A recorded session in every encapsulation


@functools.cache
def session() -> tuple[Captured, ...]:
    """The recorded session as Ethernet frames."""
    frames = []
    for packets in open_captures(str(SESSION)):
        for packet in packets:
            data = packet.data
            kind, offset = link.read_link(data, packet.start, packet.end, packet.link_type)
            frame = make_ethernet(data[offset : packet.end], int(kind))
            frames.append(Captured(frame, packet.time_ns))
    return tuple(frames)


Rows = dict[str, list[dict[str, object]]]


def rows_of(packets: list[Captured], link_type: int) -> Rows:
    """The rows of three tables, which are the same for a segment anywhere in a packet."""
    written = io.BytesIO(make_pcap(packets, magic=NANOSECONDS, link_type=link_type))
    found: Rows = {"exchanges": [], "connections": [], "problems": []}
    for table, batch in Run(written, Options(tables=tuple(found))):
        found[table] += batch.drop_columns("capture").to_pylist()
    return found


@functools.cache
def bare_rows() -> Rows:
    return rows_of(list(session()), link.ETHERNET)


@EVERY
def test_a_recorded_session_gives_the_same_rows_in_it(encapsulation: Encapsulation) -> None:
    wrapped = [(encapsulation(packet.data), packet.time_ns) for packet in session()]
    ((link_type, _), _) = wrapped[0]
    packets = [Captured(data, time_ns) for (_, data), time_ns in wrapped]
    assert len(bare_rows()["exchanges"]) == 20
    assert rows_of(packets, link_type) == bare_rows()


def test_a_session_seen_in_a_tunnel_and_outside_of_it_counts_once() -> None:
    encapsulation = ENCAPSULATIONS["VXLAN"]
    both = [
        Captured(data, packet.time_ns + later)
        for packet in session()
        for later, data in ((0, packet.data), (3000, encapsulation(packet.data)[1]))
    ]
    moved = {"request_packet", "response_packet", "exchange_id", "connection_id"}
    found = rows_of(both, link.ETHERNET)
    assert [without(row, moved) for row in found["exchanges"]] == [
        without(row, moved) for row in bare_rows()["exchanges"]
    ]
    for row, bare in zip(found["connections"], bare_rows()["connections"], strict=True):
        for way in ("to_broker", "to_client"):
            packets, duplicates = row[f"packets_{way}"], row[f"duplicate_packets_{way}"]
            assert packets == 2 * duplicates  # type: ignore[operator]
            assert row[f"retransmitted_bytes_{way}"] == bare[f"retransmitted_bytes_{way}"]


def without(row: dict[str, object], names: set[str]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in names}


OUTER = FRAMES / IP(**OUTER4)
ARP = bytes(12) + b"\x08\x06" + bytes(28)


# Payload that only looks like a tunnel, and payload that cannot be decoded


@pytest.mark.parametrize(
    ("link_type", "data", "reason"),
    [
        (1, bytes(OUTER / UDP(dport=53) / Raw(bytes(40))), "UDP"),
        (1, bytes(OUTER / UDP(dport=4789) / Raw(bytes(40))), "UDP"),
        (1, bytes(OUTER / UDP(dport=6081) / Raw(b"\xc0" + bytes(40))), "UDP"),
        (1, bytes(OUTER / UDP(dport=9) / VXLAN(flags=8) / Raw(bytes(40))), "UDP"),
        (1, bytes(OUTER / UDP(dport=4789) / VXLAN(flags=8) / Raw(ARP)), "ARP"),
        (1, bytes(OUTER / UDP(dport=4790) / VXLAN(flags=12, NextProtocol=9)), "UDP"),
        (1, bytes(OUTER / GRE(proto=0x1234) / Raw(bytes(9))), "ethertype 0x1234"),
        (1, bytes(OUTER / GRE(version=2) / Raw(bytes(9))), "malformed headers"),
        (1, bytes(OUTER / GRE(routing_present=1) / Raw(bytes(9))), "malformed headers"),
        (1, bytes(OUTER / GRE(proto=0x880B) / Raw(b"\xc0\x21" + bytes(9))), "PPP"),
        (1, bytes(FRAMES / label(True) / Raw(bytes(50))), "MPLS"),
        (1, bytes(FRAMES / label(True) / Raw(b"\x10" + bytes(50))), "MPLS"),
        (1, bytes(12) + b"\x88\x47" + bytes(80), "malformed headers"),
        (1, bytes(12) + b"\x88\x64\x11\xa7" + bytes(50), "PPPoE"),
        (1, bytes(12) + b"\x88\x63\x11\x09" + bytes(50), "PPPoE"),
        (9, b"\xff\x03\xc0\x21" + bytes(40), "PPP"),
        (105, bytes(Dot11(type=0, subtype=8)) + bytes(40), "802.11 without data"),
        (105, b"\xd4\x00" + bytes(8), "802.11 without data"),
        (105, bytes(Dot11(type=2, subtype=4)), "802.11 without data"),
        (105, wireless(INNER[4], 0x41), "802.11 encrypted"),
        (105, wireless(INNER[4], 0x05), "802.11 fragment"),
        (105, wireless(INNER[4])[:22] + b"\x01" + wireless(INNER[4])[23:], "802.11 fragment"),
        (127, radiotap(wireless(INNER[4], 0x41)), "802.11 encrypted"),
        (192, struct.pack("<BBHI", 0, 0, 8, 192) + bytes(40), "malformed headers"),
        (239, b"\x02\x00\x00\x00" + struct.pack("<HH", 0, 1) + bytes(9), "malformed headers"),
        (239, b"\x02\x00\x00\x00" + struct.pack("<HH", 4, 1) * 64, "no IP"),
    ],
)  # fmt: skip
def test_undissected_packets_are_counted_by_reason(
    link_type: int, data: bytes, reason: str
) -> None:
    assert decode(data, link_type) == {reason: 1}


def test_tunnels_in_tunnels_end_at_a_limit() -> None:
    packet = INNER[4][14:]
    for _ in range(MAXIMUM_LAYERS - 1):
        packet = make_ipv4(packet, protocol=4)
    assert decode(make_ethernet(packet)) == decode(INNER[4])
    deeper = make_ethernet(make_ipv4(packet, protocol=4))
    assert decode(deeper) == {TOO_DEEP: 1}
    frame = INNER[4]
    for _ in range(MAXIMUM_LAYERS + 1):
        frame = bytes(12) + b"\x88\xe7" + bytes(4) + frame
    assert decode(frame) == {TOO_DEEP: 1}


def test_every_segment_of_an_aggregate_is_given() -> None:
    frames = [make_tcp_packet(text, sequence=place) for place, text in enumerate((b"1", b"22"))]
    header = bytes(Dot11(type=2, subtype=8, FCfield=2)) + b"\x80\x00"
    decoder = PacketDecoder()
    data = header + aggregate(frames[0], ARP, frames[1])
    found = decoder.feed([make_packet(data, link.IEEE802_11)])
    assert [fields_of(segment) for segment in found] == [decode(frame) for frame in frames]
    assert decoder.reasons() == {"ARP": 1}


def test_large_offloaded_packets_in_a_tunnel_end_where_the_outer_ones_do() -> None:
    inner = make_ethernet(make_ipv4(make_tcp(bytes(70_000)), total_length=0))
    header = struct.pack(">HHHH", 1, 4789, 0, 0) + b"\x08" + bytes(7)
    outer = make_ethernet(make_ipv4(header + inner, protocol=17, total_length=0))
    found = decode(outer)
    assert isinstance(found, dict)
    assert (found["payload_length"], len(found["payload"])) == (70_000, 70_000)


def test_a_jumbo_payload_option_sets_the_packets_end() -> None:
    payload = bytes(70_000)
    length = struct.pack(">I", 8 + 20 + len(payload))
    for option in (b"\x06\x00\xc2\x04" + length, b"\x06\x01\x00\x01\x01\x00\xc2\x04" + length):
        option += bytes(-len(option) % 8)
        long = struct.pack(">I", len(option) + 20 + len(payload))
        option = option.replace(length, long)
        packet = make_ipv6(option + make_tcp(payload), protocol=0, payload_length=0)
        found = decode(make_ethernet(packet) + b"FCS!")
        assert isinstance(found, dict)
        assert (found["payload_length"], len(found["payload"])) == (70_000, 70_000)
