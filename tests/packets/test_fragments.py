"""IP fragments: in any order, twice, overlapping, lost, too many."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, fragment6
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.fragments import (
    FRAGMENT_COST,
    MAXIMUM_OVERLAPS,
    MAXIMUM_PACKETS,
    MAXIMUM_PROBLEMS,
    WAIT_NS,
    Fragments,
)
from kdissect.packets.segment import Segment
from tests.packets.builders import (
    BROKER,
    BROKER_V6,
    CLIENT,
    CLIENT_V6,
    fields_of,
    make_ethernet,
    make_ipv4,
    make_ipv6,
    make_tcp,
    make_tcp_packet,
)
from tests.packets.encapsulations import FRAMES

PAYLOAD = bytes(range(256)) * 12
MS = 1_000_000


def packet_of(data: bytes, number: int = 1, time_ns: int = 0, limit: int = 1 << 20) -> Packet:
    cut = data[:limit]
    return Packet(number, time_ns, 1, cut, 0, len(cut), len(data), number, 0)


def fragments_v4(size: int = 1480, payload: bytes = PAYLOAD, ip_id: int = 7) -> list[bytes]:
    """Ethernet frames of the fragments of a segment, as scapy cuts it."""
    tcp = TCP(sport=50_000, dport=9092, seq=1000, ack=2000, flags="PA", window=501)
    whole = IP(src=CLIENT, dst=BROKER, id=ip_id) / tcp / Raw(payload)
    return [bytes(FRAMES / part) for part in fragment(whole, fragsize=size)]


def fragments_v6(size: int = 1280, payload: bytes = PAYLOAD) -> list[bytes]:
    tcp = TCP(sport=50_000, dport=9092, seq=1000, ack=2000, flags="PA", window=501)
    whole = IPv6(src=CLIENT_V6, dst=BROKER_V6) / IPv6ExtHdrFragment(id=99) / tcp / Raw(payload)
    return [bytes(FRAMES / part) for part in fragment6(whole, size)]


def said(segment: Segment | None) -> dict[str, object] | None:
    """A segment's fields but number and time."""
    fields = fields_of(segment)
    if fields is not None:
        for name in ("number", "ordinal", "time_ns", "capture"):
            del fields[name]
    return fields


WHOLE = {
    4: said(PacketDecoder().decode(packet_of(make_tcp_packet(PAYLOAD, CLIENT, BROKER)))),
    6: said(PacketDecoder().decode(packet_of(make_tcp_packet(PAYLOAD, CLIENT_V6, BROKER_V6)))),
}


def decode_all(frames: list[bytes], gap_ns: int = 1000) -> tuple[list[Segment], PacketDecoder]:
    """The segments of frames captured one after the other, and then nothing more."""
    decoder = PacketDecoder()
    packets = [packet_of(data, at + 1, at * gap_ns) for at, data in enumerate(frames)]
    found = decoder.feed(packets)
    decoder.finish()
    return found + decoder.late, decoder


@pytest.mark.parametrize(("version", "frames"), [(4, fragments_v4()), (6, fragments_v6())])
def test_the_last_fragment_to_come_gives_the_whole_segment(
    version: int, frames: list[bytes]
) -> None:
    for order in (frames, frames[::-1]):
        (segment,), decoder = decode_all(order)
        assert said(segment) == WHOLE[version]
        assert (segment.number, segment.time_ns) == (3, 2000)
        assert (decoder.reasons(), decoder.problems) == ({"IP fragment": 2}, [])


SMALL = PAYLOAD[:400]
CUTS = [(fragments_v4(size, SMALL), SMALL) for size in (8, 16, 24, 200)]
CUTS.append((fragments_v6(), PAYLOAD))


@given(st.sampled_from(CUTS), st.booleans(), st.randoms(use_true_random=False))
def test_fragments_of_any_size_in_any_order_and_twice_give_the_segment_once(
    cut: tuple[list[bytes], bytes], doubled: bool, source: random.Random
) -> None:
    frames, payload = cut
    shown = frames * 2 if doubled else list(frames)
    source.shuffle(shown)
    (segment,), decoder = decode_all(shown)
    assert segment.data[segment.start : segment.end] == payload
    assert decoder.problems == []
    assert decoder.reasons() == {"IP fragment": len(shown) - 1}


def test_fragments_of_several_packets_are_not_mixed_up() -> None:
    one, two = (fragments_v4(ip_id=number, payload=bytes([number]) * 2000) for number in (1, 2))
    segments, decoder = decode_all([frame for pair in zip(one, two, strict=True) for frame in pair])
    assert [fields_of(segment)["payload"] for segment in segments] == [  # type: ignore[index]
        b"\x01" * 2000, b"\x02" * 2000
    ]  # fmt: skip
    assert decoder.problems == []


def test_a_tunnel_in_fragments_is_put_together_before_it_is_opened() -> None:
    inner = make_tcp_packet(PAYLOAD, CLIENT, BROKER)
    outer = IP(src="192.0.2.1", dst="192.0.2.2", id=5) / UDP(sport=1, dport=4789, chksum=0)
    frames = [bytes(FRAMES / part) for part in fragment(outer / VXLAN(flags=8) / Raw(inner), 1480)]
    (segment,), decoder = decode_all(frames)
    assert said(segment) == WHOLE[4]
    (late,), decoder = decode_all(frames[:1])
    assert fields_of(late)["payload"] == PAYLOAD[: 1480 - 8 - 8 - 14 - 40]  # type: ignore[index]
    assert late.payload_length == len(PAYLOAD)
    assert [problem.kind for problem in decoder.problems] == ["ip-fragment"]


def test_fragments_in_a_tunnel_are_put_together() -> None:
    header = struct.pack(">HHHH", 1, 4789, 0, 0) + b"\x08" + bytes(7)
    frames = [
        make_ethernet(make_ipv4(header + frame, "192.0.2.1", "192.0.2.2", protocol=17))
        for frame in fragments_v4()
    ]
    (segment,), _ = decode_all(frames)
    assert said(segment) == WHOLE[4]


def test_fragments_in_a_tunnel_of_which_only_some_are_in_fragments_again_are_one_packet() -> None:
    """Full inner fragments are too large with a tunnel's headers, the last one is not."""
    outer = IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=1, dport=4789, chksum=0)
    parts = [
        fragment(IP(bytes(outer / VXLAN(flags=8) / Raw(inner))).copy(), 1480)
        for inner in fragments_v4()
    ]
    assert [len(part) for part in parts] == [2, 2, 1]
    frames = []
    for number, packet in enumerate(parts):
        for part in packet:
            part.id = number
            frames.append(bytes(FRAMES / part))
    (segment,), decoder = decode_all(frames)
    assert said(segment) == WHOLE[4]
    assert decoder.problems == []


def test_extension_headers_behind_the_fragment_header_are_skipped() -> None:
    tcp = make_tcp(PAYLOAD)
    whole = b"\x06\x00" + bytes(6) + tcp
    parts = [(0, whole[:1024]), (1024, whole[1024:])]
    frames = [
        make_ethernet(
            make_ipv6(bytes([60, 0]) + struct.pack(">HI", at | (at == 0), 4) + part, protocol=44)
        )
        for at, part in parts
    ]
    (segment,), _ = decode_all(frames)
    assert said(segment) == WHOLE[6]
    assert bytes(IPv6ExtHdrDestOpt(nh=6))[:2] == whole[:2]


def test_lone_first_fragments_of_a_port_filter_are_flushed_soon() -> None:
    decoder = PacketDecoder()
    first = packet_of(fragments_v4()[0], 1, 0)
    assert decoder.feed([first]) == []
    other = packet_of(make_tcp_packet(b"x"), 2, WAIT_NS - 1)
    assert [segment.number for segment in decoder.feed([other])] == [2]
    other = packet_of(make_tcp_packet(b"x"), 3, WAIT_NS)
    late, current = decoder.feed([other])
    assert (late.number, late.time_ns, current.number) == (1, 0, 3)
    assert fields_of(late)["payload"] == PAYLOAD[:1460]  # type: ignore[index]
    assert late.payload_length == 1460
    text = (
        "IP packet from 10.0.0.1 to 10.0.0.9 lacks fragments: 1480 of 1480 bytes captured are "
        "before the first hole"
    )
    assert decoder.problems == [Problem("packets", "ip-fragment", text, 0, 1, 0, capture=0)]
    assert decoder.reasons() == {}


def test_without_the_first_fragment_the_bytes_are_reported_and_no_segment() -> None:
    found, decoder = decode_all(fragments_v4()[1:])
    assert found == []
    assert decoder.reasons() == {"IP fragment": 2}
    (problem,) = decoder.problems
    assert (problem.kind, problem.bytes) == ("ip-fragment", len(PAYLOAD) - 1460)


def test_problems_do_not_flood() -> None:
    frames = [fragments_v4(ip_id=number)[1] for number in range(100)]
    _, decoder = decode_all(frames, WAIT_NS)
    assert len(decoder.problems) == MAXIMUM_PROBLEMS
    assert decoder.reasons() == {"IP fragment": 100}


def test_fragments_of_undissected_protocols_are_no_problem() -> None:
    packet = make_ethernet(make_ipv4(bytes(9), protocol=17, fragment=1))
    found, decoder = decode_all([packet])
    assert (found, decoder.reasons(), decoder.problems) == ([], {"IP fragment": 1}, [])


def test_of_overlapping_fragments_the_first_copy_wins_and_the_conflict_is_reported() -> None:
    tcp = make_tcp(b"a" * 44)
    other = make_tcp(b"b" * 44)
    frames = [
        make_ethernet(make_ipv4(tcp[:40], fragment=0x2000)),
        make_ethernet(make_ipv4(other[32:48], fragment=0x2004)),
        make_ethernet(make_ipv4(tcp[48:], fragment=6)),
    ]
    (segment,), decoder = decode_all(frames)
    expected = b"a" * 20 + b"b" * 8 + b"a" * 16
    assert fields_of(segment)["payload"] == expected  # type: ignore[index]
    text = "an IP fragment has other bytes than the one it overlaps, which is kept"
    assert decoder.problems == [
        Problem("packets", "fragment-overlap", text, 1000, 2, 16, capture=0)
    ]


@pytest.mark.parametrize(
    ("field", "size"),
    [(0x2000, 41), (0x3FFF, 16), (0x1FFF, 16)],
    ids=["odd size", "beyond the largest packet", "last beyond it"],
)
def test_a_fragment_that_cannot_be_is_left_out(field: int, size: int) -> None:
    impossible = make_ethernet(make_ipv4(bytes(size), fragment=field))
    frames = fragments_v4()
    (segment,), _ = decode_all([frames[0], impossible, *frames[1:]])
    assert said(segment) == WHOLE[4]


def test_two_last_fragments_that_disagree_do_not_make_another_end() -> None:
    frames = fragments_v4()
    longer = make_ethernet(make_ipv4(bytes(80), fragment=(len(PAYLOAD) + 24) // 8))
    (segment,), _ = decode_all([frames[0], frames[2], longer, frames[1]])
    assert said(segment) == WHOLE[4]


def test_truncated_fragments_yield_the_bytes_before_the_first_cut() -> None:
    frames = fragments_v4()
    decoder = PacketDecoder()
    packets = [packet_of(data, at + 1, at, 114) for at, data in enumerate(frames)]
    (segment,) = decoder.feed(packets)
    assert fields_of(segment)["payload"] == PAYLOAD[:60]  # type: ignore[index]
    assert segment.payload_length == len(PAYLOAD)


def test_a_fragment_whose_options_were_cut_is_counted_as_cut() -> None:
    frame = make_ethernet(make_ipv4(bytes(80), options=bytes(40), fragment=0x2000))
    for size in range(14, 14 + 60):
        decoder = PacketDecoder()
        assert decoder.feed([packet_of(frame, limit=size)]) == []
        assert decoder.reasons() == {"headers cut off": 1}


def test_too_many_packets_in_fragments_give_up_the_oldest() -> None:
    frames = [fragments_v4(ip_id=number)[0] for number in range(1, MAXIMUM_PACKETS + 3)]
    decoder = PacketDecoder()
    packets = [packet_of(data, at + 1) for at, data in enumerate(frames)]
    assert [segment.number for segment in decoder.feed(packets)] == [1, 2]
    assert decoder.reasons() == {"IP fragment": MAXIMUM_PACKETS}


def test_too_many_bytes_in_fragments_give_up_the_oldest() -> None:
    fragments = Fragments(maximum_bytes=4000)
    decoder = PacketDecoder(fragments)
    for number in range(1, 50):
        decoder.decode(packet_of(fragments_v4(ip_id=number)[0], number))
        assert fragments.cost <= 4000
    assert fragments.cost == 2 * (FRAGMENT_COST + 1480)
    assert [segment.number for segment in decoder.late] == list(range(1, 48))
    decoder.finish()
    assert fragments.cost == 0


def test_the_same_identification_later_is_another_packet() -> None:
    frames = fragments_v4()
    segments, decoder = decode_all(frames + frames, WAIT_NS // 4)
    assert len(segments) == 1
    segments, decoder = decode_all([*frames, make_tcp_packet(b""), *frames], WAIT_NS // 3)
    assert [segment.payload_length for segment in segments] == [len(PAYLOAD), 0, len(PAYLOAD)]
    assert decoder.problems == []


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 40),
            st.booleans(),
            st.binary(max_size=64),
            st.integers(0, 20),
            st.sampled_from([0, MS, 20 * MS, -MS]),
        ),
        max_size=40,
    )
)
def test_any_fragments_give_segments_or_reasons_in_bounded_memory(
    fields: list[tuple[int, int, bool, bytes, int, int]],
) -> None:
    fragments = Fragments(maximum_packets=3, maximum_bytes=1000)
    decoder = PacketDecoder(fragments)
    now = 0
    for number, (ip_id, offset, has_more, content, cut, later) in enumerate(fields, 1):
        now += later
        packet = make_ipv4(
            content, fragment=offset | has_more << 13, identification=ip_id, protocol=6
        )
        frame = make_ethernet(packet)
        found = decoder.feed([packet_of(frame, number, now, len(frame) - cut)])
        assert fragments.cost <= 1000
        assert len(found) <= 4
    decoder.finish()
    assert fragments.cost == 0


def bare_fragments(starts: list[int], size: int = 8, ip_id: int = 9) -> list[bytes]:
    """Fragments of a packet that lacks its end."""
    return [
        make_ethernet(make_ipv4(bytes(size), fragment=0x2000 | at // 8, identification=ip_id))
        for at in starts
    ]


def test_a_fragment_over_too_many_others_is_left_out_and_told() -> None:
    others = bare_fragments(list(range(0, 16 * (MAXIMUM_OVERLAPS + 2), 16)))
    for count, kinds in ((MAXIMUM_OVERLAPS, []), (MAXIMUM_OVERLAPS + 1, ["fragment-overlap"])):
        over = bare_fragments([0], size=16 * count)
        decoder = PacketDecoder()
        decoder.feed([packet_of(data, n, n) for n, data in enumerate([*others, *over], 1)])
        decoder.finish()
        assert [one.kind for one in decoder.problems] == [*kinds, "ip-fragment"]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=40))
def test_contiguous_prefix_of_fragments_matches_their_pieces(
    parts: list[tuple[int, int]],
) -> None:
    fragments = Fragments()
    packet = packet_of(b"")
    whole = fragments.find(b"key", bytes(8), 6, 1, 0, packet)
    there: dict[int, int] = {}
    for number, (start, length) in enumerate(parts):
        data = bytes([number]) * (8 * length)
        fragments.add(whole, 8 * start, 8 * length, data, True, packet)
        for place in range(8 * start, 8 * (start + length)):
            there.setdefault(place, number)
        end = next(place for place in range(500) if place not in there)
        assert whole.declared_size() == end
        assert whole.captured() == bytes(there[place] for place in range(end))
