"""The law of splits where the capture's clock was set: to the hour, back and forth, at any packet.

Seeds are drawn, and printed when a test fails.
"""

import random
from pathlib import Path

import pytest

from kdissect.capture import speculative_splits
from kdissect.checkpoint import jobs, run_choice, worker_pool
from kdissect.checkpoint.jobs_run import JobsRun
from kdissect.checkpoint.run_choice import make_run
from kdissect.pipeline import Options
from kdissect.tables.schemas import TABLES
from tests.checkpoint.clocks import AMOUNTS, HOUR_NS, SECOND_NS, Step, drawn_step, stepped
from tests.checkpoint.law import (
    CAPTURES,
    OPTIONS,
    Rows,
    carried_on,
    link_type_of,
    read_packets,
    sorted_rows,
    together,
    whole,
)
from tests.checkpoint.mutations import drawn_packets, fresh_seed, written
from tests.recovery.faults import CLASSES

SMALL = ("sasl-0.10.2.2.pcapng", "tokens-4.3.1.pcapng", "retries-4.3.1.pcapng")
DURATIONS = (
    "latency_ns", "upload_ns", "download_ns", "queue_ns", "service_ns", "wait_ns", "work_ns",
    "rtt_ns",
)  # fmt: skip


def check_cuts(path: str, source: random.Random, seed: int, options: Options = OPTIONS) -> Rows:
    """Compare the whole with splits of drawn sizes, and with a merger that is written down."""
    expected = whole([path], options)
    size = Path(path).stat().st_size
    for _ in range(4):
        split = source.randrange(max(64, size // 8), size)
        found = together([path], split, options)[0]
        assert found == expected, f"seed {seed}, splits of {split} bytes"
    split = source.randrange(max(64, size // 8), size)
    assert carried_on([path], split, source, options)[0] == expected, f"seed {seed}, state"
    return expected


@pytest.mark.sweep
@pytest.mark.parametrize("is_one", [True, False], ids=["one packet", "all from one on"])
@pytest.mark.parametrize("by_ns", AMOUNTS)
@pytest.mark.parametrize("name", SMALL)
def test_splits_of_a_capture_whose_clock_was_set_give_the_rows_of_the_whole(
    name: str, by_ns: int, is_one: bool, tmp_path: Path
) -> None:
    seed, source = fresh_seed()
    packets = read_packets(str(CAPTURES / name))
    step = drawn_step(source, len(packets), by_ns, is_one)
    path = written(
        stepped(packets, step), tmp_path / "set.pcap", link_type_of(str(CAPTURES / name))
    )
    check_cuts(path, source, seed)


@pytest.mark.sweep
@pytest.mark.parametrize("fault", sorted(CLASSES))
def test_so_they_do_where_packets_are_missing_too(fault: str, tmp_path: Path) -> None:
    seed, source = fresh_seed()
    packets = drawn_packets(fault, source)
    steps = [
        drawn_step(source, len(packets), source.choice(AMOUNTS), source.random() < 0.5)
        for _ in range(3)
    ]
    path = written(stepped(packets, *steps), tmp_path / "faulty.pcap", 1)
    check_cuts(path, source, seed)


def test_so_they_do_where_the_clock_is_set_again_and_again(tmp_path: Path) -> None:
    seed, source = fresh_seed()
    name = str(CAPTURES / "quickstart.pcapng")
    packets = read_packets(name)
    steps = [
        Step(
            source.randrange(1, len(packets)), source.choice(AMOUNTS), source.choice((1, 2, 3, 50))
        )
        for _ in range(30)
    ]
    path = written(stepped(packets, *steps), tmp_path / "often.pcap", link_type_of(name))
    check_cuts(path, source, seed)


@pytest.mark.parametrize("by_ns", [HOUR_NS, -HOUR_NS])
def test_so_they_do_where_traffic_is_decrypted(by_ns: int, tmp_path: Path) -> None:
    seed, source = fresh_seed()
    keyed = CAPTURES / "tls/tls-resumed-4.3.1.pcapng"
    packets = read_packets(str(keyed))
    step = drawn_step(source, len(packets), by_ns, source.random() < 0.5)
    path = written(stepped(packets, step), tmp_path / "tls.pcap", link_type_of(str(keyed)))
    options = Options(tables=tuple(TABLES), keylog=keyed.with_suffix(".keys"))
    assert check_cuts(path, source, seed, options).balance.exchanges > 10


@pytest.mark.parametrize("fault", ["clock", "gap"])
def test_so_they_do_where_fetch_sessions_lost_their_past(fault: str, tmp_path: Path) -> None:
    """Replicas continue sessions with missing packets, or whose connections ended."""
    seed, source = fresh_seed()
    name = str(CAPTURES / "cluster-4.3.1.pcapng")
    packets = read_packets(name)
    at = source.randrange(len(packets) // 4, len(packets) * 3 // 4)
    if fault == "clock":
        made = stepped(packets, Step(at, HOUR_NS, len(packets)))
    else:
        made = packets[:at] + packets[at + source.randrange(1, 40) :]
    path = written(made, tmp_path / "lost.pcap", link_type_of(name))
    expected = check_cuts(path, source, seed)
    assert any("'fetch_class': None" in row for row in expected.tables["exchanges"])


def test_silence_and_a_clock_set_back_end_the_same_connections(tmp_path: Path) -> None:
    """Connections are silent for long enough, or nearly, on both sides of each step."""
    seed, source = fresh_seed()
    name = str(CAPTURES / "quickstart.pcapng")
    made = []
    drift = 0
    for packet in read_packets(name):
        if source.random() < 0.02:
            drift += source.choice((200, 500, 880, 899, 901, 1000, 3000)) * SECOND_NS
        if source.random() < 0.01:
            drift -= source.choice((1, 500, 901, 4000)) * SECOND_NS
        made.append(packet._replace(time_ns=packet.time_ns + drift))
    expected = check_cuts(written(made, tmp_path / "silent.pcap", link_type_of(name)), source, seed)
    assert any("'idle'" in row for row in expected.tables["connections"])


def test_rotated_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    """Sorted by their first times, the files behind the step come first."""
    seed, source = fresh_seed()
    name = str(CAPTURES / "groups-4.3.1.pcapng")
    packets = read_packets(name)
    step = Step(source.randrange(len(packets) // 4, len(packets) // 2), -HOUR_NS, len(packets))
    made = stepped(packets, step)
    alone = written(made, tmp_path / "alone.pcap", link_type_of(name))
    parts = []
    for number in range(4):
        part = made[len(made) * number // 4 : len(made) * (number + 1) // 4]
        path = tmp_path / f"tap_{number + 1:05}_20260131235959.pcap"
        parts.append(written(part, path, link_type_of(name)))
    expected = whole([alone])
    source.shuffle(parts)
    found = whole(parts)
    assert found.balance.problems == expected.balance.problems == {"clock-step": 1}
    assert found.balance.exchanges == expected.balance.exchanges
    assert named_alike(found) == named_alike(expected), f"seed {seed}"


def named_alike(rows: Rows) -> list[str]:
    """Exchanges without the file that they are in, and the packet's number there."""
    columns = ("exchange_id", "api", "outcome", "latency_ns", "queue_ns", "decode_status")
    found = whole_rows(rows)
    return sorted(repr([row[name] for name in columns]) for row in found)


def whole_rows(rows: Rows) -> list[dict[str, object]]:
    return [eval(row) for row in rows.tables["exchanges"]]  # noqa: S307


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "WORTHWHILE_PACKETS", 100)
    monkeypatch.setattr(run_choice, "SMALLEST_SPLIT", 50_000)
    # So small splits would be left to the merger.
    monkeypatch.setattr(jobs, "EDGE_PACKETS", 0)
    monkeypatch.setattr(run_choice, "SMALLEST_PACKETS", 1)
    monkeypatch.setattr(speculative_splits, "LOOK", 20_000)


@pytest.mark.slow
@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("by_ns", [HOUR_NS, -HOUR_NS, -SECOND_NS])
def test_two_processes_give_the_rows_of_one(by_ns: int, tmp_path: Path) -> None:
    seed, source = fresh_seed()
    name = str(CAPTURES / "cluster-4.3.1.pcapng")
    packets = read_packets(name)
    steps = [drawn_step(source, len(packets), by_ns, is_one) for is_one in (True, False)]
    path = written(stepped(packets, *steps), tmp_path / "set.pcap", link_type_of(name))
    run = make_run(path, Options(tables=OPTIONS.tables, jobs=2))
    assert isinstance(run, JobsRun)
    expected = whole([path])
    assert sorted_rows(run) == expected.tables, f"seed {seed}"
    assert run.balance == expected.balance
