"""Blocks of a ring: their content, and the handling of inconsistent ones."""

import struct

from hypothesis import given as given_by
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q
from scapy.packet import Raw

from kdissect.capture.packet import Packet
from kdissect.sources.ring_blocks import BLOCK_HEADER_SIZE, PACKET_HEADER_SIZE, read_block
from tests.capture.writers import Given, given

ETHERNET, RAW = 1, 101
SECONDS, FRACTION = 1_700_000_000, 123_456_789
TIME_NS = SECONDS * 1_000_000_000 + FRACTION
GAP = 14


def make_packet(data: bytes, step: int, original: int = -1, captured: int = -1) -> bytes:
    """A packet of a block: header, address, some room, bytes."""
    sizes = (len(data) if captured < 0 else captured, len(data) if original < 0 else original)
    head = struct.pack("<6I2H", step, SECONDS, FRACTION, *sizes, 1, PACKET_HEADER_SIZE + GAP, 0)
    return head.ljust(PACKET_HEADER_SIZE + GAP, b"\xee") + data


def make_block(*packets: bytes, count: int = -1, first: int = BLOCK_HEADER_SIZE) -> bytes:
    counted = len(packets) if count < 0 else count
    size = BLOCK_HEADER_SIZE + sum(map(len, packets))
    head = struct.pack("<6I", 1, 0, 1, counted, first, size)
    return head.ljust(BLOCK_HEADER_SIZE, b"\0") + b"".join(packets)


def block_of(*contents: bytes) -> bytes:
    whole = [make_packet(content, 0) for content in contents]
    last = len(contents) - 1
    return make_block(
        *(
            make_packet(content, len(whole[at]) if at < last else 0)
            for at, content in enumerate(contents)
        )
    )


def read(block: bytes, link_type: int = ETHERNET) -> tuple[bool, list[Given]]:
    packets: list[Packet] = []
    return read_block(block, link_type, 7, 3, packets), given(packets)


def one(number: int, data: bytes, original: int, link_type: int = ETHERNET) -> Given:
    return Given(number, TIME_NS, link_type, data, original, number, 3)


def test_packets_of_a_block_are_numbered_and_timed() -> None:
    assert read(block_of(b"first", b"", b"third one")) == (
        True,
        [one(7, b"first", 5), one(8, b"", 0), one(9, b"third one", 9)],
    )
    assert read(make_block()) == (True, [])


def test_a_cut_packet_keeps_its_length_and_no_packet_is_shorter_than_its_bytes() -> None:
    assert read(make_block(make_packet(b"cut", 0, original=1500))) == (True, [one(7, b"cut", 1500)])
    assert read(make_block(make_packet(b"whole", 0, original=2))) == (True, [one(7, b"whole", 5)])


def test_a_tag_before_a_packet_without_link_layer_is_left_out() -> None:
    for packet in (IP(src="10.0.0.1", dst="10.0.0.2"), IPv6(src="fd00::1", dst="fd00::2")):
        kind = 0x0800 if isinstance(packet, IP) else 0x86DD
        whole = bytes(packet / TCP() / Raw(b"x" * 90))
        for priority in range(8):
            tagged = bytes(Dot1Q(prio=priority, vlan=5, type=kind)) + whole
            assert read(block_of(tagged), RAW) == (True, [one(7, whole, len(whole), RAW)])
            assert read(block_of(tagged)) == (True, [one(7, tagged, len(tagged))])
        assert read(block_of(whole), RAW) == (True, [one(7, whole, len(whole), RAW)])


def test_a_packet_that_looks_tagged_is_whole() -> None:
    # Lengths and a flow label that are an ethertype, before a possible version.
    ipv4 = bytes(IP(src="10.0.0.1", dst="10.0.0.2", id=0x4000) / TCP() / Raw(b"x" * 2008))
    ipv6 = bytes(IPv6(src="fd00::1", dst="fd00::2", fl=0x86DD) / TCP() / Raw(b"x" * 0x6000))
    for whole in (ipv4, ipv6):
        assert read(block_of(whole), RAW) == (True, [one(7, whole, len(whole), RAW)])
    assert (ipv4[2:5].hex(), ipv6[2:5].hex()) == ("080040", "86dd60")


def test_block_contents_after_an_invalid_length_are_ignored() -> None:
    good = make_packet(b"good", PACKET_HEADER_SIZE + GAP + 4)
    told = [one(7, b"good", 4)]
    assert read(make_block(good, make_packet(b"long", 0, captured=5))) == (False, told)
    assert read(make_block(good, make_packet(b"long", 0, captured=2**32 - 1))) == (False, told)
    assert read(make_block(good, count=2)) == (False, told)
    assert read(make_block(good, count=2**32 - 1)) == (False, told)
    for step in (0, 1, PACKET_HEADER_SIZE - 1, 2**31, 2**32 - 1):
        assert read(make_block(make_packet(b"good", step), good, count=2)) == (False, told)
    inside_header = bytearray(make_packet(b"good", 0))
    inside_header[24:26] = b"\x10\x00"
    assert read(make_block(bytes(inside_header))) == (False, [])
    assert read(make_block(good, first=0)) == (False, [])
    assert read(make_block(good, first=2**32 - 1)) == (False, [])


@given_by(st.binary(max_size=400), st.sampled_from([ETHERNET, RAW]))
def test_any_bytes_give_packets_inside_the_block(data: bytes, link_type: int) -> None:
    check(data, link_type)


@given_by(
    st.lists(st.binary(max_size=60), max_size=5),
    st.lists(st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=4)), max_size=6),
    st.sampled_from([ETHERNET, RAW]),
)
def test_any_change_of_a_block_gives_packets_inside_it(
    contents: list[bytes], changes: list[tuple[int, bytes]], link_type: int
) -> None:
    block = bytearray(block_of(*contents))
    for at, patch in changes:
        at %= len(block)
        block[at : at + len(patch)] = patch
    check(bytes(block), link_type)


def check(block: bytes, link_type: int) -> None:
    packets: list[Packet] = []
    read_block(block, link_type, 1, 0, packets)
    for number, packet in enumerate(packets, 1):
        assert packet.number == number
        assert PACKET_HEADER_SIZE <= packet.start <= packet.end <= len(block)
        assert packet.end - packet.start <= packet.original_length
        assert 0 <= packet.time_ns < 1 << 63
