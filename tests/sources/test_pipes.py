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
from kdissect.sources.packet_source import Wire
from kdissect.sources.pipe_source import PipeWire, is_piped
from tests.capture.writers import Captured, expected, given, make_pcap, make_pcapng, make_secrets

PACKETS = [bytes([number]) * 100 for number in range(30)]
CAPTURE = make_pcap(PACKETS)


@pytest.fixture
def pipe() -> Iterator[tuple[PipeWire, int]]:
    """A wire, and where to write what it reads; the test closes it."""
    source, sink = os.pipe()
    yield PipeWire(source), sink
    os.close(source)


def read_all(wire: Wire) -> list[Packet]:
    packets: list[Packet] = []
    while (batch := wire.read(1)) is not None:
        packets += batch
    return packets


@pytest.mark.parametrize(
    "content", [CAPTURE, make_pcapng(PACKETS), gzip.compress(CAPTURE)], ids=["pcap", "ng", "gzip"]
)
def test_all_packets_of_a_pipe_are_read_until_it_ends(
    pipe: tuple[PipeWire, int], content: bytes
) -> None:
    wire, sink = pipe
    os.write(sink, content)
    os.close(sink)
    assert given(read_all(wire)) == expected(PACKETS)
    assert wire.take_problems() == []
    assert wire.read(1) is None


def test_packets_are_given_as_they_come(pipe: tuple[PipeWire, int]) -> None:
    wire, sink = pipe
    half = len(make_pcap(PACKETS[:10])) + 50
    os.write(sink, CAPTURE[:half])
    assert given(wire.read(1) or []) == expected(PACKETS)[:10]
    os.write(sink, CAPTURE[half:])
    assert given(wire.read(1) or []) == expected(PACKETS)[10:]
    os.close(sink)
    assert read_all(wire) == []


def test_a_silent_pipe_is_not_waited_for(pipe: tuple[PipeWire, int]) -> None:
    wire, sink = pipe
    begin = time.monotonic()
    assert wire.read(0.05) == []
    assert 0.04 < time.monotonic() - begin < 0.5
    os.close(sink)


def test_how_full_the_pipe_is_can_be_seen(pipe: tuple[PipeWire, int]) -> None:
    wire, sink = pipe
    os.write(sink, make_pcap([Captured(b"now", time.time_ns())]))
    wire.read(1)
    assert wire.backlog() == 0
    os.write(sink, bytes(32_768))
    assert 0 < wire.backlog() <= 1
    os.close(sink)


def test_a_recording_in_a_pipe_can_wait(pipe: tuple[PipeWire, int]) -> None:
    wire, sink = pipe
    os.write(sink, make_pcap([Captured(b"then", time.time_ns() - 3_600_000_000_000)]))
    wire.read(1)
    os.write(sink, bytes(32_768))
    assert wire.backlog() == 0
    os.close(sink)


def test_a_stream_that_is_cut_is_a_problem(pipe: tuple[PipeWire, int]) -> None:
    wire, sink = pipe
    os.write(sink, CAPTURE[:-1])
    os.close(sink)
    assert given(read_all(wire)) == expected(PACKETS[:-1])
    assert [problem.kind for problem in wire.take_problems()] == ["truncated-packet"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"12:00:00.1 IP a.1 > b.2: Flags [S], seq 1", "text; if it is tcpdump's output"),
        (b"", "the file is empty"),
    ],
)
def test_what_is_no_capture_is_an_error(
    pipe: tuple[PipeWire, int], content: bytes, told: str
) -> None:
    wire, sink = pipe
    os.write(sink, content)
    os.close(sink)
    with pytest.raises(UnknownCaptureFormat, match=told):
        read_all(wire)


def test_secrets_in_the_stream_are_given_once(pipe: tuple[PipeWire, int]) -> None:
    wire, sink = pipe
    os.write(sink, make_pcapng([]) + make_secrets("<", 7, b"keys") + make_pcapng(PACKETS))
    os.close(sink)
    read_all(wire)
    assert [secrets.content for secrets in wire.take_secrets()] == [b"keys"]
    assert wire.take_secrets() == []


def test_a_named_pipe_waits_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    assert is_piped(path)
    with PipeWire(path) as wire:
        assert wire.read(0.01) == []
        writer = threading.Thread(target=path.write_bytes, args=(CAPTURE,))
        writer.start()
        assert given(read_all(wire)) == expected(PACKETS)
        writer.join(10)
    assert wire.names == [str(path)]
    wire.close()


def test_stdin_is_read_in_a_process_and_stays_open() -> None:
    code = (
        "from kdissect.sources.pipe_source import PipeWire\n"
        "import os\n"
        "wire = PipeWire('-'); count = 0\n"
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
        PipeWire("-")
    sys.stdin.close()


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        PipeWire(tmp_path / "fifo")
