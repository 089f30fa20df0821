import struct

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from kdissect.capture.blocks import MAXIMUM_BLOCK_SIZE, Secrets
from kdissect.capture.pcapng import PcapngScanner
from kdissect.capture.scanner import LATEST_NS
from kdissect.errors import KdissectError, Problem, TruncatedCapture, UnknownCaptureFormat
from tests.capture.deliveries import CUTS, CountedBytes, byte_by_byte, cut_at, scan
from tests.capture.writers import (
    START_NS,
    Captured,
    Given,
    expected,
    make_block,
    make_enhanced_packet,
    make_interface_block,
    make_obsolete_packet,
    make_options,
    make_pcapng,
    make_secrets,
    make_section_header,
    make_simple_packet,
    make_statistics,
)

ORDERS = ["<", ">"]
PACKETS = [b"first packet", b"", Captured(b"cut", START_NS + 5_123_457, 900), b"\x00" * 71]
MICROS = START_NS // 1000


def start(order: str = "<") -> bytes:
    """A section with an Ethernet interface that counts µs."""
    return make_section_header(order) + make_interface_block(order)


def packet(order: str = "<", data: bytes = b"abcdefgh", units: int = MICROS) -> bytes:
    return make_enhanced_packet(order, data, units)


def one(number: int, data: bytes = b"abcdefgh", time_ns: int = START_NS) -> Given:
    return Given(number, time_ns, 1, data, len(data), number, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_enhanced_packets_are_read_in_both_byte_orders(order: str) -> None:
    data = make_pcapng(PACKETS, order)
    assert scan(data) == (expected(PACKETS), [])
    assert scan(data, byte_by_byte(data)) == (expected(PACKETS), [])


@hypothesis_given(CUTS)
def test_pieces_of_any_size_give_the_same_packets(cuts: list[int]) -> None:
    data = make_pcapng(PACKETS * 3)
    assert scan(data, cut_at(data, cuts)) == (expected(PACKETS * 3), [])


@pytest.mark.parametrize(
    ("resolution", "units_per_second", "three_units_ns"),
    [
        (0, 1, 3_000_000_000),
        (3, 1000, 3_000_000),
        (6, 1_000_000, 3000),
        (9, 1_000_000_000, 3),
        (10, 10**10, 0),
        (0x80 | 9, 512, 5_859_375),
        (0x80 | 10, 1024, 2_929_687),
        (0x80 | 32, 1 << 32, 0),
    ],
)
def test_every_time_resolution_is_understood(
    resolution: int, units_per_second: int, three_units_ns: int
) -> None:
    units = START_NS * units_per_second // 1_000_000_000 + 3
    data = make_section_header() + make_interface_block(resolution=resolution)
    data += make_enhanced_packet("<", b"x", units)
    assert scan(data) == ([one(1, b"x", START_NS + three_units_ns)], [])


@pytest.mark.parametrize("order", ORDERS)
def test_a_time_offset_moves_the_clock(order: str) -> None:
    data = make_section_header(order) + make_interface_block(order, offset_seconds=-3600)
    data += packet(order)
    assert scan(data) == ([one(1, time_ns=START_NS - 3600 * 10**9)], [])


def test_times_that_do_not_fit_are_held_and_counted() -> None:
    data = make_section_header() + make_interface_block(name="eth7", resolution=0)
    data += packet(units=(1 << 64) - 1) + packet(units=1 << 40)
    problem = Problem(
        "capture", "bad-time", "eth7: 2 packet times outside 1970 to 2262", LATEST_NS, 3
    )
    assert scan(data) == ([one(1, time_ns=LATEST_NS), one(2, time_ns=LATEST_NS)], [problem])


def test_times_before_1970_are_held_at_it() -> None:
    data = make_section_header() + make_interface_block(offset_seconds=-1 << 62) + packet()
    problem = Problem(
        "capture", "bad-time", "interface 0: 1 packet times outside 1970 to 2262", 0, 2
    )
    assert scan(data) == ([one(1, time_ns=0)], [problem])


def test_sections_of_either_byte_order_follow_each_other() -> None:
    data = make_pcapng([b"one"], "<", 1) + make_pcapng([b"two"], ">", 113)
    packets = [
        Given(1, START_NS, 1, b"one", 3, 1, 0),
        Given(2, START_NS, 113, b"two", 3, 2, 0),
    ]
    assert scan(data) == (packets, [])
    assert scan(data, byte_by_byte(data)) == (packets, [])


@pytest.mark.parametrize("order", ORDERS)
def test_interfaces_have_their_own_link_type_and_clock(order: str) -> None:
    data = make_section_header(order)
    data += make_interface_block(order, 1, name="eth0")
    data += make_interface_block(order, 276, resolution=9, name="any")
    data += make_enhanced_packet(order, b"a", START_NS + 1, interface=1)
    data += make_enhanced_packet(order, b"b", MICROS, interface=0)
    packets = [
        Given(1, START_NS + 1, 276, b"a", 1, 1, 0),
        Given(2, START_NS, 1, b"b", 1, 2, 0),
    ]
    assert scan(data) == (packets, [])


@pytest.mark.parametrize("order", ORDERS)
def test_obsolete_packet_blocks_are_read(order: str) -> None:
    data = make_section_header(order) + make_interface_block(order, 0) + make_interface_block(order)
    data += make_obsolete_packet(order, b"old", MICROS, 1)
    assert scan(data) == ([one(1, b"old")], [])


@pytest.mark.parametrize("order", ORDERS)
def test_simple_packets_get_the_time_of_the_packet_before(order: str) -> None:
    data = make_section_header(order) + make_interface_block(order, snap_length=5)
    data += make_simple_packet(order, b"abc") + packet(order)
    data += make_simple_packet(order, b"abcde", 100)
    packets = [
        Given(1, 0, 1, b"abc", 3, 1, 0),
        one(2),
        Given(3, START_NS, 1, b"abcde", 100, 3, 0),
    ]
    assert scan(data) == (packets, [])


def test_options_are_skipped() -> None:
    comment = make_options("<", (1, b"a comment"), (2, bytes(4)))
    data = make_section_header(options=comment) + make_interface_block(name="eth0", resolution=6)
    data += make_enhanced_packet("<", b"abcdefgh", MICROS, options=comment)
    assert scan(data) == ([one(1)], [])


@pytest.mark.parametrize("kind", [4, 0x77, 0x80000001])
def test_other_blocks_are_skipped(kind: int) -> None:
    data = start() + packet() + make_block("<", kind, b"whatever it is") + packet()
    assert scan(data) == ([one(1), one(2)], [])


@pytest.mark.parametrize("kind", [9, 0xBAD, 0x40000BAD, 0x204])
def test_blocks_that_wireshark_numbers_are_numbered(kind: int) -> None:
    data = start() + packet() + make_block("<", kind, b"whatever it is") + packet()
    third = one(3)._replace(ordinal=2)
    assert scan(data) == ([one(1), third], [])


def test_tls_secrets_are_kept() -> None:
    keys = b"CLIENT_RANDOM 00 11\n"
    scanner = PcapngScanner()
    scanner.feed(start() + make_secrets("<", 0x544C534B, keys) + packet())
    scanner.finish()
    assert scanner.secrets == [Secrets(0x544C534B, keys)]


@pytest.mark.parametrize("order", ORDERS)
def test_packets_that_the_host_lost_are_a_problem(order: str) -> None:
    data = make_section_header(order) + make_interface_block(order, name="eth0") + packet(order)
    data += make_statistics(order, 0, 5) + make_statistics(order, 0, 12)
    message = "eth0: the capturing host lost 12 packets"
    problem = Problem("capture", "dropped-packets", message, START_NS, 2)
    assert scan(data) == ([one(1)], [problem])


@pytest.mark.parametrize("left", [4, 12, 40])
def test_a_cut_last_packet_is_a_problem_and_the_packets_before_it_are_given(left: int) -> None:
    whole = start() + packet()
    data = whole + make_enhanced_packet("<", b"never there!", MICROS)[:left]
    wanted = {4: 12, 12: 44, 40: 44}[left]
    problem = Problem(
        "capture",
        "truncated-packet",
        f"the file ends inside a record: {left} of {wanted} bytes at offset {len(whole)}",
        START_NS,
        2,
        left,
    )
    assert scan(data) == ([one(1)], [problem])
    assert scan(data, byte_by_byte(data)) == ([one(1)], [problem])


def test_a_file_that_ends_in_its_first_block_is_truncated() -> None:
    scanner = PcapngScanner()
    scanner.feed(make_section_header()[:27])
    with pytest.raises(TruncatedCapture, match="27 bytes"):
        scanner.finish()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bytes(40), "it starts with 00 00 00 00"),
        (b"\x0a\x0d\x0d\x0a\x1c\x00\x00\x00abcd" + bytes(20), "byte order magic 61 62 63 64"),
        (make_section_header(major=2), "version 2"),
        (b"\x0a\x0d\x0d\x0a\x1d\x00\x00\x00\x4d\x3c\x2b\x1a" + bytes(20), "block length 29"),
    ],
)
def test_a_file_without_a_section_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(UnknownCaptureFormat, match=reason):
        PcapngScanner().feed(data)


LYING_BLOCKS = [
    pytest.param(struct.pack("<II", 6, 8) + bytes(40), "block length 8", id="too short"),
    pytest.param(struct.pack("<II", 6, 41) + bytes(40), "block length 41", id="odd"),
    pytest.param(
        struct.pack("<II", 6, MAXIMUM_BLOCK_SIZE + 4) + bytes(40),
        f"block length {MAXIMUM_BLOCK_SIZE + 4}",
        id="too long",
    ),
    pytest.param(
        struct.pack("<II", 6, 48) + bytes(40),
        "block of type 6 with two different lengths",
        id="lengths disagree",
    ),
]


@pytest.mark.parametrize(("block", "reason"), LYING_BLOCKS)
def test_after_a_corrupt_block_the_next_good_one_is_found(block: bytes, reason: str) -> None:
    before = start() + packet()
    data = before + block + packet() + packet()
    message = f"{reason} at offset {len(before)}; 48 bytes skipped, then the blocks go on"
    problem = Problem("capture", "corrupt-record", message, START_NS, 2, 48)
    assert scan(data) == ([one(1), one(2), one(3)], [problem])
    assert scan(data, byte_by_byte(data)) == ([one(1), one(2), one(3)], [problem])


def test_after_a_corrupt_block_the_next_section_is_found() -> None:
    data = start() + packet() + b"\xff" * 30 + make_pcapng([b"two"], ">")
    packets, problems = scan(data)
    assert packets == [one(1), Given(2, START_NS, 1, b"two", 3, 2, 0)]
    assert [(problem.kind, problem.bytes) for problem in problems] == [("corrupt-record", 30)]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            make_block("<", 6, struct.pack("<IIIII", 0, 0, 0, 1000, 1000) + bytes(8)),
            "captured length 1000 of a packet block, offset 48",
        ),
        (
            make_enhanced_packet("<", b"abcdefgh", MICROS, interface=3),
            "packet of interface 3, which is not described, offset 48",
        ),
        (make_block("<", 6, bytes(8)), "packet block too short, offset 48"),
        (make_block("<", 1, bytes(4)), "block of type 1 is too short, offset 48"),
    ],
)
def test_a_lie_inside_a_block_costs_that_block_only(block: bytes, message: str) -> None:
    data = start() + block + packet()
    problem = Problem("capture", "corrupt-record", message, -1, 1, len(block))
    assert scan(data) == ([one(1)], [problem])


def test_a_simple_packet_without_interface_is_a_problem() -> None:
    data = make_section_header() + make_simple_packet("<", b"abcd")
    message = "Simple Packet Block without interface or length, offset 28"
    assert scan(data) == ([], [Problem("capture", "corrupt-record", message, -1, 1, 20)])


@hypothesis_given(st.binary(max_size=300), st.sampled_from(ORDERS), CUTS)
def test_any_bytes_give_packets_or_problems(tail: bytes, order: str, cuts: list[int]) -> None:
    data = make_pcapng([b"abcdefgh"] * 3, order) + tail
    whole = scan(data)
    assert whole[0][:3] == expected([b"abcdefgh"] * 3)
    assert scan(data, cut_at(data, cuts)) == whole


@hypothesis_given(st.data())
def test_changed_bytes_give_packets_or_problems(data: st.DataObject) -> None:
    order = data.draw(st.sampled_from(ORDERS))
    written = bytearray(make_pcapng([b"abcdefgh"] * 5, order) + make_statistics(order, 0, 1))
    written += make_secrets(order, 1, b"key") + make_simple_packet(order, b"abc")
    for _ in range(data.draw(st.integers(1, 6))):
        written[data.draw(st.integers(28, len(written) - 1))] = data.draw(st.integers(0, 255))
    whole = scan(bytes(written))
    assert scan(bytes(written), byte_by_byte(bytes(written))) == whole


@hypothesis_given(st.binary(max_size=60))
def test_any_first_block_is_read_or_refused(data: bytes) -> None:
    scanner = PcapngScanner()
    try:
        scanner.feed(b"\x0a\x0d\x0d\x0a" + data)
        scanner.finish()
    except KdissectError:
        pass


@pytest.mark.parametrize("likely", [struct.pack("<III", 6, 32, 0), b"\x0a\x0d\x0d\x0a" + bytes(8)])
def test_the_search_for_a_block_looks_at_every_byte_only_a_few_times(likely: bytes) -> None:
    good = make_pcapng([b"abcdefgh"] * 3)
    data = CountedBytes(good + b"\xff" * 8 + likely * 10_000)
    assert len(scan(data, [data])[0]) >= 3
    assert data.searched < 100 * len(data)
