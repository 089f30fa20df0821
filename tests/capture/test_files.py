import gzip
import io
import os
import sys
import threading
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from hypothesis import HealthCheck, settings
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from kdissect.capture.blocks import Secrets
from kdissect.capture.capture_file import capture_error
from kdissect.capture.files import Capture, Source, open_captures
from kdissect.errors import (
    CaptureError,
    CapturePermissionError,
    Problem,
    TruncatedCapture,
    UnknownCaptureFormat,
)
from tests.capture.writers import (
    START_NS,
    STEP_NS,
    Captured,
    Given,
    expected,
    given,
    make_pcap,
    make_pcapng,
    make_secrets,
)

SECOND_NS = 1_000_000_000
PACKETS = [b"one", b"two", b"three"]


def read(sources: Source | list[Source], chunk_size: int = 1 << 20) -> list[Given]:
    with open_captures(sources, chunk_size) as capture:
        return given(packet for batch in capture for packet in batch)


def at(*seconds: float) -> list[Captured]:
    """Packets at these seconds after the start; their payload names the second."""
    return [Captured(b"%g" % second, START_NS + int(second * SECOND_NS)) for second in seconds]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def said(packets: list[Given]) -> list[tuple[int, bytes, int, int]]:
    """Capture, data, number and ordinal."""
    return [(packet.capture, packet.data, packet.number, packet.ordinal) for packet in packets]


@pytest.mark.parametrize("chunk_size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(make_pcap(PACKETS), id="pcap"),
        pytest.param(make_pcapng(PACKETS), id="pcapng"),
        pytest.param(gzip.compress(make_pcap(PACKETS)), id="gzip"),
        pytest.param(zstandard.compress(make_pcapng(PACKETS)), id="zstd"),
        pytest.param(lz4.frame.compress(make_pcap(PACKETS)), id="lz4"),
    ],
)
def test_files_of_any_format_are_read(tmp_path: Path, content: bytes, chunk_size: int) -> None:
    path = write(tmp_path / "a.pcap", content)
    assert read(path, chunk_size) == expected(PACKETS)
    assert read(str(path), chunk_size) == expected(PACKETS)
    assert read(io.BytesIO(content), chunk_size) == expected(PACKETS)


def test_progress_counts_the_bytes_as_stored(tmp_path: Path) -> None:
    content = gzip.compress(make_pcap([bytes(10_000)] * 100))
    capture = open_captures(write(tmp_path / "a.pcap.gz", content))
    assert capture.names == [str(tmp_path / "a.pcap.gz")]
    assert capture.bytes_total == len(content)
    assert capture.bytes_read <= 512
    assert sum(len(batch) for batch in capture) == 100
    assert capture.bytes_read == len(content)


def test_stdin_is_read_as_a_pipe_while_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    content = make_pcap(PACKETS)
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as sink:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
        threading.Thread(target=sink.write, args=(content[:100],)).start()
        capture = open_captures("-")
        assert (capture.names, capture.bytes_total) == (["-"], None)
        batches = iter(capture)
        first = next(batches)
        assert given(first) == expected(PACKETS)[: len(first)]
        sink.write(content[100:])
        sink.close()
        rest = [packet for batch in batches for packet in batch]
        assert given(first + rest) == expected(PACKETS)


def test_files_that_follow_each_other_are_put_in_the_order_of_their_first_packets(
    tmp_path: Path,
) -> None:
    later = write(tmp_path / "ring.pcap0", make_pcap(at(10, 11)))
    earlier = write(tmp_path / "ring.pcap1", gzip.compress(make_pcapng(at(1, 2, 3))))
    with open_captures([later, earlier]) as capture:
        assert capture.names == [str(earlier), str(later)]
        assert capture.bytes_total == later.stat().st_size + earlier.stat().st_size
        packets = given(packet for batch in capture for packet in batch)
        assert capture.bytes_read == capture.bytes_total
    assert said(packets) == [
        (0, b"1", 1, 1),
        (0, b"2", 2, 2),
        (0, b"3", 3, 3),
        (1, b"10", 1, 4),
        (1, b"11", 2, 5),
    ]


def test_files_that_overlap_are_merged_packet_by_packet(tmp_path: Path) -> None:
    left = write(tmp_path / "left.pcap", make_pcap(at(1, 3, 5, 7)))
    right = write(tmp_path / "right.pcap", make_pcap(at(2, 3, 6, 9)))
    third = write(tmp_path / "third.pcap", make_pcap(at(6.5)))
    assert said(read([right, third, left])) == [
        (0, b"1", 1, 1),
        (1, b"2", 1, 2),
        (0, b"3", 2, 3),
        (1, b"3", 2, 4),
        (0, b"5", 3, 5),
        (1, b"6", 3, 6),
        (2, b"6.5", 1, 7),
        (0, b"7", 4, 8),
        (1, b"9", 4, 9),
    ]


def test_a_file_that_is_not_in_order_keeps_its_own_order(tmp_path: Path) -> None:
    odd = write(tmp_path / "odd.pcap", make_pcap(at(1, 5, 3, 4)))
    even = write(tmp_path / "even.pcap", make_pcap(at(2, 6)))
    assert [data for _, data, _, _ in said(read([odd, even]))] == [
        b"1", b"2", b"5", b"3", b"4", b"6",
    ]  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@hypothesis_given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12), min_size=2, max_size=5),
    st.integers(1, 200),
)
def test_merging_keeps_every_packet_and_the_order_of_time(
    files: list[list[int]], chunk_size: int
) -> None:
    sources: list[Source] = [io.BytesIO(make_pcap(at(*sorted(file)))) for file in files]
    packets = read(sources, chunk_size)
    seconds = [int(packet.data) for packet in packets]
    assert seconds == sorted(second for file in files for second in file)
    assert [packet.ordinal for packet in packets] == list(range(1, len(packets) + 1))
    for capture, file in enumerate(sorted(sorted(file) for file in files)):
        numbers = [packet.number for packet in packets if packet.capture == capture]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) == len(file) or len({len(file) for file in files}) > 1


def test_pipes_are_merged_though_they_cannot_be_read_twice() -> None:
    ends = []
    for seconds in ((2, 4), (1, 3)):
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as sink:
            sink.write(make_pcap(at(*seconds)))
        ends.append(os.fdopen(reading, "rb"))
    sources: list[Source] = list(ends)
    packets = read(sources)
    for end in ends:
        end.close()
    assert said(packets) == [
        (0, b"1", 1, 1),
        (1, b"2", 1, 2),
        (0, b"3", 2, 3),
        (1, b"4", 2, 4),
    ]


def test_a_glob_stands_for_its_files(tmp_path: Path) -> None:
    write(tmp_path / "a.pcap", make_pcap(at(1)))
    write(tmp_path / "b.pcap", make_pcap(at(2)))
    write(tmp_path / "c.txt", b"not a capture")
    (tmp_path / "d.pcap").mkdir()
    assert [packet.data for packet in read(str(tmp_path / "*.pcap"))] == [b"1", b"2"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a[1].pcap", make_pcap(PACKETS))
    assert read(str(path)) == expected(PACKETS)


def test_of_a_directory_the_captures_are_read(tmp_path: Path) -> None:
    write(tmp_path / "b.pcap.gz", gzip.compress(make_pcap(at(1))))
    write(tmp_path / "a.pcapng", make_pcapng(at(2)))
    write(tmp_path / "a.json", b"{}")
    write(tmp_path / "a.json.gz", gzip.compress(b"{}"))
    write(tmp_path / "README.md", b"# what they show")
    write(tmp_path / ".hidden.pcap", make_pcap(at(0)))
    (tmp_path / "deeper").mkdir()
    with open_captures(tmp_path) as capture:
        assert [Path(name).name for name in capture.names] == ["b.pcap.gz", "a.pcapng"]
        passed_over = [Path(name).name for name in capture.passed_over]
        assert passed_over == ["README.md", "a.json", "a.json.gz"]
        assert [packet.data for batch in capture for packet in batch if packet.data]


def test_a_directory_without_captures_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", b"nothing here")
    with pytest.raises(CaptureError, match="there is no capture with packets"):
        open_captures(tmp_path)


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", make_pcap(PACKETS))
    (tmp_path / "link.pcap").symlink_to(path)
    assert read([path, str(path), tmp_path / "link.pcap"]) == expected(PACKETS)


def test_an_empty_file_among_others_is_a_problem(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", make_pcap(PACKETS))
    empty = write(tmp_path / "b.pcap", b"")
    with open_captures([empty, path]) as capture:
        assert given(packet for batch in capture for packet in batch) == expected(PACKETS)
    assert capture.problems == [
        Problem("capture", "empty-file", f"{empty}: the file is empty"),
    ]


def test_files_without_packets_are_read_too(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", make_pcap(PACKETS))
    write(tmp_path / "b.pcap", make_pcap([]))
    assert said(read(str(tmp_path / "*.pcap"))) == said(read(path))
    assert read(tmp_path / "b.pcap") == []


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", UnknownCaptureFormat, "a.pcap: the file is empty"),
        (
            b"PK\x03\x04",
            UnknownCaptureFormat,
            "a.pcap: not a pcap or pcapng file: it looks like a zip",
        ),
        (gzip.compress(b"{}"), UnknownCaptureFormat, "a.pcap: .* it looks like JSON"),
        (
            gzip.compress(make_pcap(PACKETS))[:11],
            TruncatedCapture,
            "the compressed file ends early",
        ),
        (make_pcap([])[:3], TruncatedCapture, "a.pcap: the file ends after 3 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(
    tmp_path: Path, content: bytes, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        open_captures(write(tmp_path / "a.pcap", content))


def test_a_file_that_ends_in_its_header_is_an_error_that_names_it(tmp_path: Path) -> None:
    capture = open_captures(write(tmp_path / "a.pcap", make_pcap([])[:20]))
    with pytest.raises(TruncatedCapture, match=r"a.pcap: the file ends inside the pcap file"):
        list(capture)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"nothing.pcap: no such file"):
        open_captures(tmp_path / "nothing.pcap")
    with pytest.raises(CaptureError, match=r"\*\.pcap: no file matches"):
        open_captures(str(tmp_path / "*.pcap"))
    with pytest.raises(CaptureError, match="no capture was named"):
        open_captures([])


def test_unreadable_file_error_has_advice() -> None:
    error = capture_error("broker 1.pcap", PermissionError(13, "Permission denied"))
    assert type(error) is CapturePermissionError
    assert str(error) == (
        "broker 1.pcap: permission denied; run kdissect as its owner or with sudo, or let this "
        """user alone read it: sudo setfacl -m "u:$USER:r" 'broker 1.pcap'"""
    )


def test_system_errors_while_reading_name_the_file() -> None:
    class Failing(io.BytesIO):
        name = "nfs.pcap"

        def read1(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read1(size)

    capture = open_captures(Failing(make_pcap([bytes(1000)])))
    with pytest.raises(CaptureError, match=r"nfs.pcap: Input/output error"):
        list(capture)


def test_a_truncated_file_gives_its_packets_and_a_problem(tmp_path: Path) -> None:
    content = make_pcap([b"whole", b"cut off"])[:-3]
    path = write(tmp_path / "a.pcap", content)
    capture = open_captures(path)
    assert given(packet for batch in capture for packet in batch) == expected([b"whole"])
    message = f"the file ends inside a record: 20 of 23 bytes at offset {len(content) - 20}"
    problem = Problem("capture", "truncated-packet", message, START_NS, 2, 20)
    assert capture.take_problems() == [problem]
    assert capture.take_problems() == []


def test_a_truncated_compressed_file_gives_its_packets_and_problems(tmp_path: Path) -> None:
    packets = [os.urandom(1000) for _ in range(100)]
    whole = gzip.compress(make_pcap(packets))
    path = write(tmp_path / "a.pcap.gz", whole[: len(whole) // 2])
    other = write(tmp_path / "b.pcap", make_pcap(at(-1)))
    with open_captures([other, path]) as capture:
        got = [packet for batch in capture for packet in batch]
        kinds = [(problem.kind, problem.capture) for problem in capture.problems]
    assert 40 < len(got) < 60
    assert kinds == [("truncated-file", 1), ("truncated-packet", 1)]


def test_tls_secrets_of_all_files_are_kept() -> None:
    first, second = (make_pcapng([b"x"]) + make_secrets("<", 1, keys) for keys in (b"a", b"b"))
    capture = open_captures([io.BytesIO(first), io.BytesIO(second)])
    assert sum(len(batch) for batch in capture) == 2
    assert capture.secrets == [Secrets(1, b"a"), Secrets(1, b"b")]


def test_a_stream_of_the_user_is_read_from_where_it_is_and_left_open() -> None:
    stream = io.BytesIO(b"something before" + make_pcap(PACKETS))
    stream.seek(16)
    assert read(stream) == expected(PACKETS)
    assert not stream.closed


def test_batches_of_one_file_are_as_large_as_its_chunks() -> None:
    packets = [bytes(984)] * 5000
    capture: Capture = open_captures(io.BytesIO(make_pcap(packets)))
    sizes = [len(batch) for batch in capture]
    assert sum(sizes) == 5000
    assert max(sizes) <= 1049
    assert STEP_NS
