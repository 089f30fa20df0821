import gzip
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.capture.incremental import IncrementalCapture
from kdissect.errors import CaptureError, Problem, TruncatedCapture, UnknownCaptureFormat
from tests.capture.test_compressed import COMPRESSIONS
from tests.capture.writers import Given, expected, make_pcap, make_pcapng
from tests.capture.writers import given as values_of

PACKETS = [random.Random(number).randbytes(60 + number) for number in range(40)]
FILES = {"pcap": make_pcap(PACKETS), "pcapng": make_pcapng(PACKETS)}
each_file = pytest.mark.parametrize("content", FILES.values(), ids=FILES)


def fed(content: bytes, sizes: list[int]) -> tuple[list[Given], list[Problem]]:
    """Output for input in pieces of these sizes, repeated."""
    capture = IncrementalCapture("tap")
    packets, at, turn = [], 0, 0
    while at < len(content):
        size = sizes[turn % len(sizes)]
        packets += capture.feed(content[at : at + size])
        while capture.has_more:
            packets += capture.feed(b"")
        at += size
        turn += 1
    packets += capture.finish_all()
    assert capture.size == len(content)
    assert capture.ordinal == len(packets)
    return values_of(packets), capture.take_problems()


@each_file
@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=5))
def test_packets_come_out_of_pieces_of_any_size(content: bytes, sizes: list[int]) -> None:
    assert fed(content, sizes) == (expected(PACKETS), [])


@each_file
@pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_compressed_bytes_too(content: bytes, compress: object, size: int) -> None:
    assert fed(compress(content), [size]) == (expected(PACKETS), [])  # type: ignore[operator]


def test_members_in_a_row_are_one_capture_wherever_they_are_cut() -> None:
    content = FILES["pcap"]
    stored = gzip.compress(content[:500]) + bytes(10) + gzip.compress(content[500:])
    for size in (1, 3, 100):
        assert fed(stored, [size]) == (expected(PACKETS), [])


def test_truncation_is_a_problem() -> None:
    packets, (problem,) = fed(FILES["pcap"][:-5], [100])
    assert packets == expected(PACKETS[:-1])
    assert (problem.kind, problem.packet_number) == ("truncated-packet", 40)
    packets, problems = fed(gzip.compress(FILES["pcap"])[:-500], [100])
    assert packets == expected(PACKETS[: len(packets)])
    assert [one.kind for one in problems][-1] == "truncated-file"


@pytest.mark.parametrize(
    ("content", "kind", "told"),
    [
        (b"", UnknownCaptureFormat, "tap: the file is empty"),
        (b"12:00:00 IP a > b: Flags", UnknownCaptureFormat, "tap: not a pcap or pcapng file"),
        (FILES["pcap"][:3], TruncatedCapture, "tap: the file ends after 3 bytes"),
        (FILES["pcap"][:20], TruncatedCapture, "tap: "),
        (gzip.compress(FILES["pcap"])[:12], TruncatedCapture, "tap: the compressed file ends"),
    ],
)
def test_input_that_is_no_capture_is_an_error(
    content: bytes, kind: type[CaptureError], told: str
) -> None:
    with pytest.raises(kind) as raised:
        fed(content, [100])
    assert str(raised.value).startswith(told)


def test_packets_count_on_from_the_captures_before() -> None:
    capture = IncrementalCapture("tap", 3, 100)
    packets = values_of(capture.feed(FILES["pcap"]))
    assert (packets[0].ordinal, packets[0].number, packets[0].capture) == (101, 1, 3)
    assert capture.ordinal == 140
