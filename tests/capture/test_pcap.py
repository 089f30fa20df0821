import struct

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from kdissect.capture.pcap import (
    MICROSECONDS,
    MODIFIED,
    NANOSECONDS,
    PCAP_MAGICS,
    PcapScanner,
)
from kdissect.capture.scanner import MAXIMUM_PACKET_SIZE, RESYNC_LIMIT
from kdissect.errors import KdissectError, Problem, TruncatedCapture, UnknownCaptureFormat
from tests.capture.deliveries import CUTS, CountedBytes, byte_by_byte, cut_at, scan
from tests.capture.writers import START_NS, STEP_NS, Captured, expected, make_pcap

PACKETS = [b"first packet", b"", Captured(b"cut", START_NS + 5_123_000, 900), b"\x00" * 70]
VARIANTS = [
    pytest.param(magic, order, id=f"{magic:08x}{order}")
    for magic in (MICROSECONDS, NANOSECONDS, MODIFIED)
    for order in "<>"
]
HEADER = 24


@pytest.mark.parametrize(("magic", "order"), VARIANTS)
def test_every_magic_number_gives_the_same_packets(magic: int, order: str) -> None:
    data = make_pcap(PACKETS, magic, order)
    assert scan(data) == (expected(PACKETS), [])
    assert scan(data, byte_by_byte(data)) == (expected(PACKETS), [])


def test_the_magic_numbers_are_known_in_both_byte_orders() -> None:
    assert len(PCAP_MAGICS) == 6
    assert b"\xd4\xc3\xb2\xa1" in PCAP_MAGICS


@hypothesis_given(CUTS)
def test_pieces_of_any_size_give_the_same_packets(cuts: list[int]) -> None:
    data = make_pcap(PACKETS * 3)
    assert scan(data, cut_at(data, cuts)) == (expected(PACKETS * 3), [])


def test_packets_refer_to_the_piece_they_were_fed_in() -> None:
    data = make_pcap(PACKETS)
    assert {id(packet.data) for packet in PcapScanner().feed(data)} == {id(data)}


def test_a_record_across_two_pieces_gets_a_buffer_of_its_own_size() -> None:
    data = make_pcap([b"a" * 100, b"b" * 100, b"c" * 100])
    cut = HEADER + 16 + 100 + 50
    scanner = PcapScanner()
    first = scanner.feed(data[:cut])
    rest = data[cut:]
    second = scanner.feed(rest)
    assert [len(packet.data) for packet in first + second] == [cut, 116, len(rest)]
    assert second[1].data is rest


def test_nanoseconds_are_kept() -> None:
    packets = [Captured(b"x", 1_700_000_000_123_456_789)]
    assert scan(make_pcap(packets, NANOSECONDS)) == (expected(packets), [])


def test_the_latest_time_of_the_format_fits() -> None:
    data = make_pcap([]) + struct.pack("<IIII", 0xFFFFFFFF, 0xFFFFFFFF, 1, 1) + b"x"
    packets, problems = scan(data)
    assert packets == expected([Captured(b"x", 0xFFFFFFFF * 1_000_000_000 + 0xFFFFFFFF * 1000)])
    assert problems == []


def test_the_link_type_is_read_without_the_check_sequence_length() -> None:
    data = make_pcap([b"x"], link_type=0x14000000 | 276)
    assert scan(data) == (expected([b"x"], 276), [])


def test_capture_and_ordinals_go_on_the_packets() -> None:
    packets = PcapScanner(7, 100).feed(make_pcap([b"x", b"y"]))
    assert [(p.capture, p.number, p.ordinal) for p in packets] == [(7, 1, 101), (7, 2, 102)]


def test_an_original_length_below_the_captured_one_is_corrected() -> None:
    data = make_pcap([Captured(b"abc", START_NS, 1)])
    assert scan(data) == (expected([Captured(b"abc", START_NS, 3)]), [])


@pytest.mark.parametrize("left", [1, 15, 16, 20])
def test_a_cut_last_packet_is_a_problem_and_the_packets_before_it_are_given(left: int) -> None:
    whole = make_pcap(PACKETS)
    cut = whole + make_pcap([b"never whole"])[HEADER:][:left]
    wanted = 27 if left >= 16 else 16
    problem = Problem(
        "capture",
        "truncated-packet",
        f"the file ends inside a record: {left} of {wanted} bytes at offset {len(whole)}",
        START_NS + 3 * STEP_NS,
        5,
        left,
    )
    assert scan(cut) == (expected(PACKETS), [problem])
    assert scan(cut, byte_by_byte(cut)) == (expected(PACKETS), [problem])


def test_a_file_that_ends_in_its_header_is_truncated() -> None:
    scanner = PcapScanner()
    scanner.feed(make_pcap([])[:23])
    with pytest.raises(TruncatedCapture, match="23 of 24 bytes"):
        scanner.finish()


def test_a_file_of_another_format_is_refused() -> None:
    with pytest.raises(UnknownCaptureFormat, match="it starts with 00 00 00 00"):
        PcapScanner().feed(bytes(100))


def corrupted(rubbish: bytes, order: str = "<") -> tuple[bytes, int]:
    """Six packets with rubbish after the second, and its offset."""
    data = make_pcap([b"abcdefgh"] * 6, order=order)
    at = HEADER + 2 * 24
    return data[:at] + rubbish + data[at:], at


RUBBISH = [
    pytest.param(b"\xff" * 50, "record length 4294967295, more than 1048576,", id="ones"),
    pytest.param(bytes(64), "record header of zeros", id="zeros"),
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("rubbish", "reason"), RUBBISH)
def test_after_a_corrupt_record_the_next_good_ones_are_found(
    rubbish: bytes, reason: str, order: str
) -> None:
    data, at = corrupted(rubbish, order)
    size = len(rubbish)
    message = f"{reason} at offset {at}; {size} bytes skipped, then the records go on"
    problem = Problem("capture", "corrupt-record", message, START_NS + STEP_NS, 3, size)
    assert scan(data) == (expected([b"abcdefgh"] * 6), [problem])
    assert scan(data, byte_by_byte(data)) == (expected([b"abcdefgh"] * 6), [problem])


@pytest.mark.parametrize("order", ["<", ">"])
def test_records_are_found_again_in_the_last_hours_that_the_format_can_write(order: str) -> None:
    last = ((1 << 32) - 1) * 1_000_000_000 + 999_999_000
    packets = [Captured(b"abcdefgh", last)] * 6
    data = make_pcap(packets, order=order)
    at = HEADER + 2 * 24
    assert scan(data[:at] + b"\xfe" * 50 + data[at:])[0] == expected(packets)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_time_past_what_seconds_can_write_ends_the_search_without_error(order: str) -> None:
    record = struct.pack(f"{order}IIII", (1 << 32) - 1, (1 << 32) - 1, 4, 4) + b"data"
    packets, problems = scan(make_pcap([], order=order) + record + b"\xff" * 100)
    assert [packet.time_ns for packet in packets] == [((1 << 32) - 1) * (10**9 + 10**3)]
    assert [problem.kind for problem in problems] == ["corrupt-record"]


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_search_looks_at_every_byte_only_a_few_times(order: str) -> None:
    seconds = START_NS // 1_000_000_000 >> 16
    likely = seconds.to_bytes(2, "big" if order == ">" else "little")
    data = CountedBytes(corrupted(b"\xff" * 24 + likely * 50_000, order)[0])
    assert scan(data, [data])[0] == expected([b"abcdefgh"] * 6)
    assert data.searched < 5 * len(data)


def test_a_corrupt_length_costs_its_own_record_only() -> None:
    data = bytearray(make_pcap([b"abcdefgh"] * 6))
    data[HEADER + 24 + 11] = 0x7F
    packets, problems = scan(bytes(data))
    assert [packet.time_ns for packet in packets] == [
        START_NS + i * STEP_NS for i in (0, 2, 3, 4, 5)
    ]
    assert [(problem.kind, problem.bytes) for problem in problems] == [("corrupt-record", 24)]


def test_the_last_record_alone_is_believed_when_it_ends_with_the_file() -> None:
    data = make_pcap([b"abcdefgh"] * 2)
    packets, problems = scan(data[: HEADER + 24] + b"\xff" * 20 + data[HEADER + 24 :])
    assert packets == expected([b"abcdefgh"] * 2)
    assert [problem.bytes for problem in problems] == [20]


def test_when_nothing_good_follows_the_rest_is_counted_as_skipped() -> None:
    data = make_pcap([b"abcdefgh"] * 2) + b"\xff" * 1000
    packets, problems = scan(data)
    assert packets == expected([b"abcdefgh"] * 2)
    assert problems == [
        Problem(
            "capture",
            "corrupt-record",
            f"record length 4294967295, more than {MAXIMUM_PACKET_SIZE}, at offset 72; "
            "1000 bytes skipped, no further packet was found",
            START_NS + STEP_NS,
            3,
            1000,
        )
    ]


def test_the_search_ends_at_its_limit() -> None:
    good = make_pcap([b"abcdefgh"] * 8)
    piece = b"\xff" * (1 << 20)
    scanner = PcapScanner()
    packets = scanner.feed(good[: HEADER + 24])
    for _ in range((RESYNC_LIMIT >> 20) + 2):
        packets += scanner.feed(piece)
    packets += scanner.feed(good[HEADER + 24 :]) + scanner.finish()
    assert len(packets) == 1
    assert [problem.bytes for problem in scanner.problems] == [RESYNC_LIMIT + (2 << 20) + 7 * 24]


def test_the_largest_packet_is_read() -> None:
    packets = [b"x" * MAXIMUM_PACKET_SIZE, b"y"]
    assert scan(make_pcap(packets)) == (expected(packets), [])


@hypothesis_given(st.binary(max_size=300), st.booleans(), CUTS)
def test_any_bytes_give_packets_or_problems(tail: bytes, is_big: bool, cuts: list[int]) -> None:
    data = make_pcap([b"abcdefgh"] * 3, order=">" if is_big else "<") + tail
    whole = scan(data)
    assert whole[0][:3] == expected([b"abcdefgh"] * 3)
    assert scan(data, cut_at(data, cuts)) == whole


@hypothesis_given(st.data())
def test_changed_bytes_give_packets_or_problems(data: st.DataObject) -> None:
    written = bytearray(make_pcap([b"abcdefgh"] * 5))
    for _ in range(data.draw(st.integers(1, 5))):
        written[data.draw(st.integers(HEADER, len(written) - 1))] = data.draw(st.integers(0, 255))
    whole = scan(bytes(written))
    assert scan(bytes(written), byte_by_byte(bytes(written))) == whole


@hypothesis_given(st.binary(max_size=60))
def test_any_file_header_is_read_or_refused(data: bytes) -> None:
    scanner = PcapScanner()
    try:
        scanner.feed(data)
        scanner.finish()
    except KdissectError:
        pass
