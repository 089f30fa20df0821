"""Signals and the watchdog are looked at inside long work: how much is done between two looks.

Work is counted, in steps of the search for frames; a generous timeout is all that is timed.
"""

import contextlib
import fcntl
import itertools
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyarrow.dataset import dataset

from kdissect.capture.packet import Packet
from kdissect.capture.pcap import PcapScanner
from kdissect.dissection.cancellation import CHECK_STEPS
from kdissect.dissection.dissector import Dissector
from kdissect.framing.frame_search import EVENT_STEPS, FIRST_STEPS, JOINED_EACH, STEPS_EACH, WINDOW
from kdissect.live.watcher import (
    FED_AT_ONCE,
    FED_BYTES,
    LONGEST_REST_NS,
    REST_NS,
    Watcher,
    first_part,
)
from kdissect.pipeline import Options, make_dissector
from kdissect.tables.schemas import TABLES
from tests.hostile.catalogue import HOSTILE
from tests.hostile.wire import Talk, Wire, request, sized
from tests.live.listening import Given, Kept
from tests.seeds import SEED

# One look at the most that waits of a direction, all of it in segments of a byte.
LONGEST_LOOK = FIRST_STEPS + (STEPS_EACH + EVENT_STEPS + 1) * WINDOW + WINDOW // JOINED_EACH
SEARCHED = (
    "api_versions", "small_requests", "mixed_requests", "chains_that_meet", "growing_chains",
    "answers_everywhere", "tiny_segments", "losses", "mutated_captures",
)  # fmt: skip
PATIENCE_S = 120  # generous: it takes one second, plus the rest of one step
GAP_S = 0.02  # between two signals: so that they are not one to the kernel
PIPE_SIZE = 1 << 16
PIPE_BUF = 4096  # written whole or not at all
# Bytes that it has read when it is told to end: more than it reads at once, so it is at work.
TAKEN = 5 << 19


def packets_of(name: str, size: int) -> list[Packet]:
    return PcapScanner().feed(HOSTILE[name].capture(SEED, size))


def dissector_of() -> Dissector:
    options = Options(tables=tuple(TABLES))
    return make_dissector(options, collects=False, keeps_frames=False)


@pytest.mark.parametrize("name", SEARCHED)
def test_between_two_looks_a_bounded_number_of_steps_is_done(name: str) -> None:
    dissector = dissector_of()
    looks = [0]

    def pulse() -> bool:
        looks.append(dissector.frames.steps)
        return True

    dissector.cancellation.ask = pulse
    packets = packets_of(name, 300_000)
    assert dissector.feed(packets) == len(packets)
    dissector.finish()
    looks.append(dissector.frames.steps)
    steps = [after - before for before, after in itertools.pairwise(looks)]
    assert max(steps) < CHECK_STEPS + LONGEST_LOOK
    # It is polled as often as there is work, and not for each packet.
    assert (
        len(looks) - 2
        <= dissector.frames.steps // CHECK_STEPS + len(packets) * 2_000 // CHECK_STEPS
    )


def test_it_continues_no_further_than_requested() -> None:
    packets = packets_of("api_versions", 3_000_000)
    dissector = dissector_of()
    dissector.cancellation.ask = lambda: False
    taken = dissector.feed(packets)
    assert 0 < taken < len(packets)
    assert dissector.frames.steps < CHECK_STEPS + LONGEST_LOOK
    assert dissector.totals.packets == taken
    assert dissector.totals.captured_bytes == sum(one.end - one.start for one in packets[:taken])
    # Waiting bytes are no longer searched, but counted.
    before = dissector.frames.steps
    dissector.feed(packets[taken : taken + 1])
    dissector.frames.searches = False
    dissector.finish()
    assert dissector.frames.steps == before
    assert (
        dissector.totals.payload_bytes
        == dissector.totals.skipped_bytes + dissector.totals.framed_bytes
        > 0
    )


def test_packets_are_fed_in_parts_of_a_bounded_size() -> None:
    for sizes in ([0] * 1_000, [100] * 1_000, [70_000] * 40, [3 << 20, 1, 1]):
        packets = [Packet(1, 0, 1, b"", 0, size, size, 1, 0) for size in sizes]
        at = 0
        while at < len(packets):
            part = first_part(packets, at)
            assert 0 < len(part) <= FED_AT_ONCE
            assert sum(sizes[at : at + len(part) - 1]) < FED_BYTES
            at += len(part)
        assert at == len(packets)


class Alive(Kept):
    """Counts how often it is notified that the process lives, and stops it after the first time."""

    def __init__(self, stop: Callable[[], None] | None = None) -> None:
        super().__init__(["problems"])
        self.times: list[int] = []
        self.stop = stop
        self.now = 0

    def clock(self) -> int:
        """A clock that advances by a tenth of a second with each reading."""
        self.now += REST_NS // 10
        return self.now

    def alive(self) -> None:
        self.times.append(self.now)
        if self.stop is not None:
            self.stop()


def test_the_watchdog_follows_the_machines_clock_while_the_packets_clock_stops() -> None:
    packets = packets_of("tiny_segments", 1_000_000)
    kept = Alive()
    Watcher(Given(packets), [kept], clock=kept.clock).run()
    # More than a packets' second never passed, so no tick was due.
    assert packets[-1].time_ns - packets[0].time_ns < 1_000_000_000
    gaps = [after - before for before, after in itertools.pairwise(kept.times)]
    assert len(kept.times) > 2
    assert max(gaps) <= 2 * REST_NS


def test_stop_is_prompt_and_reports_unread_packets() -> None:
    packets = packets_of("tiny_segments", 1_000_000)
    kept = Alive()
    clock = kept.clock
    watcher = Watcher(Given(packets, packets), [kept], clock=clock, cpu_clock=clock)
    kept.stop = watcher.stop
    watcher.run()
    balance = watcher.status().balance
    (row,) = [row for row in kept.rows["problems"] if row["kind"] == "packets-left"]
    assert row["message"].startswith(f"{len(packets) - balance.packets} packets")
    assert 0 < balance.packets < len(packets)
    assert kept.said == ["begin", "finish"]
    told = balance.framed_bytes + balance.skipped_bytes + balance.duplicate_bytes
    assert told == balance.payload_bytes


@pytest.mark.parametrize("share", [0, 1 / 100, 1 / 5, 1])
def test_a_process_that_gets_little_cpu_time_has_longer_for_the_rest(share: float) -> None:
    now = used = 0

    def clock() -> int:
        """Time that passes, of which this process gets that share."""
        nonlocal now, used
        now += REST_NS // 10
        used += int(share * REST_NS / 10)
        return now

    kept = Kept(["problems"])
    packets = packets_of("tiny_segments", 1_000)
    source = Given(*[packets[:1]] * 1_000)
    watcher = Watcher(source, [kept], clock=clock, cpu_clock=lambda: used)
    watcher.stop()
    watcher.run()
    longest = min(REST_NS / share, LONGEST_REST_NS) if share else LONGEST_REST_NS
    # The first reading begins it; the last ones end it, and give the time of the last status.
    assert longest <= now <= longest + REST_NS
    assert len(source.batches) > 0


def hostile_behind_an_exchange(name: str, size: int) -> bytes:
    """A capture of one regular exchange, followed by hostile bytes."""
    wire = Wire(size)
    talk = Talk(wire, number=49_999, opened=True)
    talk.client(request(18, 0, 7, b"honest"))
    talk.broker(sized(struct.pack(">ihi", 7, 0, 0)))
    HOSTILE[name].generate(random.Random(SEED), wire)
    return wire.file()


def put_in(pipe: int, data: bytes, reached: threading.Event, is_over: threading.Event) -> None:
    """Write to a program until it ends; `reached` is set when it has read TAKEN bytes at least."""
    with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "wb", buffering=0) as file:
        at = 0
        while at < len(data):
            at += file.write(data[at : at + PIPE_BUF]) or 0
            if at - PIPE_SIZE >= TAKEN:
                reached.set()
        # More may come, as far as the program can know.
        is_over.wait(PATIENCE_S)
    reached.set()


@pytest.mark.slow
def test_signals_to_a_process_and_to_its_group_are_one(tmp_path: Path) -> None:
    """A container engine signals each process, and the command of the container passes it on."""
    end_a_live_capture("api_versions", tmp_path, (signal.SIGTERM, signal.SIGTERM, signal.SIGINT))


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHED)
def test_sigterm_ends_a_live_capture_of_hostile_bytes(name: str, tmp_path: Path) -> None:
    end_a_live_capture(name, tmp_path, (signal.SIGTERM,))


def end_a_live_capture(name: str, tmp_path: Path, numbers: Sequence[int]) -> None:
    """The rows decoded until the signals are there."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "kdissect", "live", "-", "-o", str(out)]
    data = hostile_behind_an_exchange(name, 8 << 20)
    reached, is_over = threading.Event(), threading.Event()
    read_end, write_end = os.pipe()
    assert fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_SIZE) == PIPE_SIZE
    with subprocess.Popen(command, stdin=read_end, stderr=subprocess.PIPE, text=True) as live:
        os.close(read_end)
        writer = threading.Thread(target=put_in, args=(write_end, data, reached, is_over))
        writer.start()
        try:
            assert reached.wait(PATIENCE_S)
            for number in numbers:
                live.send_signal(number)
                time.sleep(GAP_S)
            _, said = live.communicate(timeout=PATIENCE_S)
        finally:
            live.kill()
            live.wait()
            is_over.set()
            writer.join(PATIENCE_S)
    assert live.returncode == 0, said
    rows = dataset(sorted(out.rglob("exchanges.parquet"))).to_table().to_pylist()
    honest = [row for row in rows if row["client_id"] == "honest"]
    assert [(row["api"], row["outcome"]) for row in honest] == [("ApiVersions", "answered")]
