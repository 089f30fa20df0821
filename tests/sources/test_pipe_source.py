import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.capture.packet import Packet
from kdissect.errors import CaptureError, UnknownCaptureFormat
from kdissect.sources.packet_source import PacketSource
from kdissect.sources.pipe_source import PipeSource, is_piped
from tests.capture.writers import Captured, expected, given, make_pcap, make_pcapng, make_secrets

PACKETS = [bytes([number]) * 100 for number in range(30)]
CAPTURE = make_pcap(PACKETS)


@pytest.fixture
def pipe() -> Iterator[tuple[PipeSource, int]]:
    """A packet source, and the file whose content it reads; the test closes it."""
    source, sink = os.pipe()
    yield PipeSource(source), sink
    os.close(source)


def read_all(packet_source: PacketSource) -> list[Packet]:
    packets: list[Packet] = []
    while (batch := packet_source.read(1)) is not None:
        packets += batch
    return packets


@pytest.mark.parametrize(
    "content", [CAPTURE, make_pcapng(PACKETS), gzip.compress(CAPTURE)], ids=["pcap", "ng", "gzip"]
)
def test_all_packets_of_a_pipe_are_read_until_it_ends(
    pipe: tuple[PipeSource, int], content: bytes
) -> None:
    packet_source, sink = pipe
    os.write(sink, content)
    os.close(sink)
    assert given(read_all(packet_source)) == expected(PACKETS)
    assert packet_source.take_problems() == []
    assert packet_source.read(1) is None


def test_packets_are_given_as_they_come(pipe: tuple[PipeSource, int]) -> None:
    packet_source, sink = pipe
    half = len(make_pcap(PACKETS[:10])) + 50
    os.write(sink, CAPTURE[:half])
    assert given(packet_source.read(1) or []) == expected(PACKETS)[:10]
    os.write(sink, CAPTURE[half:])
    assert given(packet_source.read(1) or []) == expected(PACKETS)[10:]
    os.close(sink)
    assert read_all(packet_source) == []


def test_a_silent_pipe_is_not_waited_for(pipe: tuple[PipeSource, int]) -> None:
    packet_source, sink = pipe
    begin = time.monotonic()
    assert packet_source.read(0.05) == []
    assert 0.04 < time.monotonic() - begin < 0.5
    os.close(sink)


def test_how_full_the_pipe_is_can_be_seen(pipe: tuple[PipeSource, int]) -> None:
    packet_source, sink = pipe
    os.write(sink, make_pcap([Captured(b"now", time.time_ns())]))
    packet_source.read(1)
    assert packet_source.backlog() == 0
    os.write(sink, bytes(32_768))
    assert 0 < packet_source.backlog() <= 1
    os.close(sink)


def test_a_recording_in_a_pipe_can_wait(pipe: tuple[PipeSource, int]) -> None:
    packet_source, sink = pipe
    os.write(sink, make_pcap([Captured(b"then", time.time_ns() - 3_600_000_000_000)]))
    packet_source.read(1)
    os.write(sink, bytes(32_768))
    assert packet_source.backlog() == 0
    os.close(sink)


def test_a_stream_that_is_cut_is_a_problem(pipe: tuple[PipeSource, int]) -> None:
    packet_source, sink = pipe
    os.write(sink, CAPTURE[:-1])
    os.close(sink)
    assert given(read_all(packet_source)) == expected(PACKETS[:-1])
    assert [problem.kind for problem in packet_source.take_problems()] == ["truncated-packet"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"12:00:00.1 IP a.1 > b.2: Flags [S], seq 1", "text; if it is tcpdump's output"),
        (b"", "the file is empty"),
    ],
)
def test_input_that_is_no_capture_is_an_error(
    pipe: tuple[PipeSource, int], content: bytes, told: str
) -> None:
    packet_source, sink = pipe
    os.write(sink, content)
    os.close(sink)
    with pytest.raises(UnknownCaptureFormat, match=told):
        read_all(packet_source)


def test_secrets_in_the_stream_are_given_once(pipe: tuple[PipeSource, int]) -> None:
    packet_source, sink = pipe
    os.write(sink, make_pcapng([]) + make_secrets("<", 7, b"keys") + make_pcapng(PACKETS))
    os.close(sink)
    read_all(packet_source)
    assert [secrets.content for secrets in packet_source.take_secrets()] == [b"keys"]
    assert packet_source.take_secrets() == []


def test_a_named_pipe_waits_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    assert is_piped(path)
    with PipeSource(path) as packet_source:
        assert packet_source.read(0.01) == []
        writer = threading.Thread(target=path.write_bytes, args=(CAPTURE,))
        writer.start()
        assert given(read_all(packet_source)) == expected(PACKETS)
        writer.join(10)
    assert packet_source.names == [str(path)]
    packet_source.close()


def test_stdin_is_read_in_a_process_and_stays_open() -> None:
    code = (
        "from kdissect.sources.pipe_source import PipeSource\n"
        "import os\n"
        "wire = PipeSource('-'); count = 0\n"
        "while (packets := wire.read(1)) is not None: count += len(packets)\n"
        "wire.close(); os.fstat(0); print(wire.names, count)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=CAPTURE, capture_output=True, timeout=60, check=True)
    assert done.stdout == b"['-'] 30\n"


def test_a_terminal_is_no_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = os.openpty()
    monkeypatch.setattr(sys, "stdin", os.fdopen(terminal))
    with pytest.raises(CaptureError, match="stdin is a terminal: let a capture come by a pipe"):
        PipeSource("-")
    sys.stdin.close()


def test_missing_input_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        PipeSource(tmp_path / "fifo")
