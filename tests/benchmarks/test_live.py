import math
import os
import subprocess
import time

import pyarrow as pa
import pytest
from pyarrow import parquet

import kdissect
from benchmarks import (
    generate,
    live_capturers,
    live_drain,
    live_memory,
    live_on_paper,
    live_page,
    live_search,
    page,
)
from benchmarks.live_frames import LOOP_STEP, Frames
from benchmarks.live_measuring import Step, send
from benchmarks.live_sender import AT_ONCE, Sent
from benchmarks.workloads import ROOT
from tests.benchmarks.test_page import WHERE
from tools.namespaces import cabled

SEED = ROOT / "captures" / "quickstart.pcapng"
LOOPS = 3


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("live") / "seed.pcap"
    with path.open("wb") as file:
        wire = generate.Wire(file, 1448)
        generate.replay(wire, generate.sessions(SEED, generate.Wanted()), 200_000, 4)
    return path


@pytest.fixture(scope="module")
def _root():
    if os.geteuid():
        pytest.skip("needs root to make network namespaces and open packet sockets")


def facts(path, table, columns):
    rows = kdissect.read(path, table=table, columns=columns).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=str)


@pytest.mark.slow
@pytest.mark.usefixtures("_root")
def test_each_loop_of_the_sender_is_new_connections(capture, tmp_path):
    written = tmp_path / "sent.pcap"
    with cabled() as cable:
        tcpdump = ["tcpdump", "-i", "far0", "-w", str(written), "-Z", "root", "-U", "tcp"]
        process = subprocess.Popen([*cable.far.enter, *tcpdump], stderr=subprocess.PIPE)
        try:
            assert process.stderr is not None
            assert b"listening" in process.stderr.readline()
            sent = send(cable.near, capture, 20_000, 10, LOOPS)
            # It keeps packets for a second that do not fill a block.
            deadline = time.monotonic() + 10
            size = capture.stat().st_size - 24
            while written.stat().st_size < size * LOOPS + 24 and time.monotonic() < deadline:
                time.sleep(0.05)
        finally:
            process.terminate()
            process.communicate(timeout=10)
    assert sent.packets == LOOPS * len(Frames(capture))
    columns = ["api", "api_version", "correlation_id", "client_id", "outcome", "response_size"]
    once = facts(capture, "exchanges", [*columns, "retransmits"])
    assert facts(written, "exchanges", [*columns, "retransmits"]) == sorted(once * LOOPS, key=str)
    ends = ["client_ip", "client_port", "syn_seen", "fin_seen", "retransmitted_bytes_to_broker"]
    connections = facts(written, "connections", ends)
    assert (
        len(set(connections))
        == len(connections)
        == LOOPS * len(facts(capture, "connections", ends))
    )
    assert {one[2:] for one in connections} == {(True, True, 0)}
    assert facts(written, "problems", ["kind"]) == facts(capture, "problems", ["kind"]) * LOOPS


def test_a_loop_has_clients_of_its_own_and_nothing_else_changes(capture):
    frames, before = Frames(capture), Frames(capture)
    frames.readdress(0, len(frames), 5)
    changed = {
        (place - start, int(frames.buffer[place]) - int(before.buffer[place]))
        for start, size in zip(frames.starts, frames.sizes, strict=True)
        for place in range(start, start + size)
        if frames.buffer[place] != before.buffer[place]
    }
    # The third byte of the source of a client's packets, and of the target of the broker's.
    assert changed == {(28, 5 * LOOP_STEP // 256), (32, 5 * LOOP_STEP // 256)}
    frames.readdress(0, len(frames), 0)
    assert bytes(frames.buffer) == bytes(before.buffer)


def step(rate, holds, most=math.inf):
    sent = Sent(int(min(rate, most)), int(min(rate, most)) * 100, 1.0)
    packets = sent.packets if holds else sent.packets - 1
    return Step(rate, sent, sent.packets, packets, 0, 0.5, 80_000_000, 0.0)


@pytest.mark.parametrize("first", [1000, 40_000, 300_000])
def test_the_search_finds_the_rate_that_is_held(first):
    held = live_search.search(lambda rate, _: step(rate, rate < 100_000), first, 8)
    assert held.best is not None
    assert 90_000 < held.best.rate < 100_000
    assert not held.is_senders_limit
    assert all(one.rate <= held.best.rate for one in held.steps if one.is_held)


def test_the_search_ends_where_the_sender_does():
    held = live_search.search(lambda rate, _: step(rate, True, most=100_000), 40_000, 8)
    assert held.is_senders_limit
    assert held.best is not None
    assert held.best.rate == 100_000


def test_rates_sustained_only_briefly_do_not_count():
    def attempt(rate, seconds):
        return step(rate, rate < (10_000 if seconds > 3 else 100_000))

    held = live_search.search(attempt, 40_000, 8)
    assert held.best is not None
    assert 7500 < held.best.rate < 10_000
    assert not held.is_senders_limit


def test_a_step_is_held_when_all_came_out_soon():
    good = step(1000, True)
    assert good.is_held
    assert not good._replace(packets=999).is_held
    assert good._replace(packets=999, slack=1).is_held
    assert not good._replace(dropped=1).is_held
    assert not good._replace(behind=2.5).is_held


def test_tcpdump_counts_of_written_and_dropped_packets_are_parsed(tmp_path):
    said = "1703 packets captured\n2000 packets received by filter\n297 packets dropped by kernel\n"
    assert live_capturers.said_by_tcpdump(said, tmp_path) == (1703, 297)


def test_tshark_is_where_its_last_line_is(tmp_path):
    lines = "".join(f"{number}\t18\t3\t{number}\tclient\t0\n" for number in range(1, 51))
    (tmp_path / live_capturers.PRINTED).write_text(lines + "51\t1")
    said = "Capturing on 'far0'\n42 packets dropped from far0\n"
    assert live_capturers.said_by_tshark(said, tmp_path) == (51, 42)


def test_kdissect_counts_packets_of_ended_and_open_connections(tmp_path):
    def write(rotation, table, columns):
        directory = tmp_path / "live" / "20261122T060000Z" / rotation
        directory.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table(columns), directory / f"{table}.parquet")

    def packets(*both):
        return {"packets_to_broker": list(both), "packets_to_client": list(both)}

    for number, name in enumerate(("000001-a", "000002-b", ".making-000003-c")):
        write(name, "connections", packets(1, 10 + number))
        write(name, "open_connections", packets(100 + number))
    write("000002-b", "problems", {"message": ["far0: the capturing host lost 7 packets", "x"]})
    assert live_capturers.dissected("", tmp_path) == (2 * (11 + 12 + 101), 7)


def test_memory_has_a_slope_after_the_warm_up():
    samples = [(10.0 * at, 50_000_000 + 1_000 * at) for at in range(60)]
    grown = [(0.0, 1), *samples[1:]]
    assert live_memory.warm(grown)[0] == (100.0, 50_010_000)
    assert round(live_memory.slope(live_memory.warm(grown))) == 360_000
    steps = [(10.0 * at, 100 if at < 30 else 125) for at in range(60)]
    assert live_memory.growth(steps) == 0.25


def test_docs_show_the_latest_measurements():
    kept = live_page.read()
    text = live_page.PAGE.read_text(encoding="utf-8")
    assert live_page.printed(text, kept) == text


def test_stored_results_print_the_same_after_reading(tmp_path, monkeypatch):
    for name in ("FILE", "PAGE", "CHART"):
        target = tmp_path / name
        target.write_bytes(getattr(live_page, name).read_bytes())
        monkeypatch.setattr(live_page, name, target)
    both = {"small": {"ring": result(5000)}, "bulk": {"tcpdump": result(10), "ring": result(9)}}
    live_page.keep(found("rates", both))
    text = live_page.PAGE.read_text(encoding="utf-8")
    assert live_page.printed(text, live_page.read()) == text
    assert "| small | `kdissect live`, ring | 5 000 |" in text
    assert "Lost, bulk" in live_page.CHART.read_text(encoding="utf-8")


def result(rate, is_limit=False):
    one = step(rate, True)
    flat = one._asdict() | {"sent": one.sent._asdict()}
    return {"held": flat, "is_senders_limit": is_limit, "steps": [flat]}


def found(section, values):
    return {section: {"found": values, "circumstances": WHERE}}


def test_rates_stand_beside_those_of_others():
    found_rates = {
        "tcpdump": result(800_000, is_limit=True), "ring": result(500_000),
        "tshark": result(40_000), "scapy": {"held": None, "is_senders_limit": False, "steps": []},
    }  # fmt: skip
    assert live_page.rates(found("rates", {"small": found_rates}))[2:6] == [
        "| small | `tcpdump -w` | at least 800 000 | 80 |  | 20 | 0.62 s | 80 MB |  |",
        "|  | `kdissect live`, ring | 500 000 | 50 | 0.62 | 12 | 1.00 s | 80 MB | reached |",
        "|  | `kdissect live`, scapy's socket | none was held |  |  |  |  |  |  |",
        "|  | `tshark -i` | 40 000 | 4 | 0.05 |  | 12.50 s | 80 MB |  |",
    ]


def test_the_broker_stands_beside_itself():
    ways = {
        "without": {"rate": [100.0, 50.0, 100.0], "cpu_share": [0.0] * 3},
        "ring": {"rate": [98.0, 49.0, 99.5], "cpu_share": [0.1, 0.2, 0.3]},
        "tcpdump": {"rate": [90.0, 55.0, 95.0], "cpu_share": [0.1] * 3},
    }
    assert live_page.broker(found("broker", {"veth": {"ways": ways}}))[2:5] == [
        "| veth | without | 100.0 |  |  |  |  |  |",
        "|  | `tcpdump -w` | 90.0 | -10.0 % | -5.0 % | -10.0, +10.0 % | 10 % of a core |  |",
        "|  | `kdissect live`, ring | 98.0 | -2.0 % | -2.0 % | -2.0, -0.5 % | 20 % of a core "
        "| reached |",
    ]


@pytest.mark.parametrize("rates", [[96.0, 89.0, 109.0], [100.0, 85.0, 105.0]])
def test_the_broker_is_disturbed_if_one_measure_shows_it(rates):
    ways = {
        "without": {"rate": [100.0, 90.0, 110.0], "cpu_share": [0.0] * 3},
        "ring": {"rate": rates, "cpu_share": [0.1] * 3},
    }
    shown = live_page.broker(found("broker", {"loopback": {"ways": ways}}))
    assert shown[3].endswith("| **missed** |")


def test_flat_memory_is_reported():
    samples = [[10.0 * at, 80_000_000] for at in range(180)]
    values = {
        "samples": samples, "sent": {"packets": 36_000_000, "bytes": 1, "seconds": 1800.0},
        "packets": 36_000_000, "dropped": 0, "arrived": 36_000_000, "cpu_seconds": 180.0,
    }  # fmt: skip
    assert live_page.memory(found("memory", values))[2:11] == [
        "| time | 30 min |",
        "| packets sent | 36 000 000 |",
        "| packets seen | 36 000 000 |",
        "| rate | 20 000/s |",
        "| CPU | 10 % of a core |",
        "| memory after the warm-up | 80 MB to 80 MB |",
        "| its slope | +0.0 MB/h |",
        "| the last third beside the first | +0.0 % |",
        "| flat: less than 5 % more | reached |",
    ]


def test_soak_report_lists_violations():
    values = {
        "minutes": 60.0, "seed": 1, "clients": 4, "flush": 2.0,
        "counts": [["sessions", 9000], ["missing: kill -9", 12]], "findings": {},
    }  # fmt: skip
    told = live_page.soak(found("soak", values))
    assert told[2:6] == [
        "| time, with clients | 60 min, 4 |",
        "| sessions | 9 000 |",
        "| missing: kill -9 | 12 |",
        "| lost without an outage, twice, or not whole | reached |",
    ]
    bad = live_page.soak(found("soak", values | {"findings": {"twice": 3}}))
    assert bad[5:7] == [
        "| **twice** | 3 |",
        "| lost without an outage, twice, or not whole | **missed** |",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize("workers", [1, 2])
def test_full_buffers_are_read_when_the_capturer_goes_on(capture, tmp_path, monkeypatch, workers):
    monkeypatch.setattr(live_drain, "BUFFER_MB", 40)
    fitting = live_drain.packets_that_fit(capture)
    assert fitting > 2 * len(Frames(capture))
    with cabled() as cable:
        drained = live_drain.drained(workers, "", cable, capture, tmp_path)
    assert fitting <= drained.packets < fitting + AT_ONCE
    assert 0 < drained.seconds < live_drain.LONGEST_SECONDS
    assert drained.cpu_seconds > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("_root")
def test_lost_packets_are_no_measurement(capture, tmp_path, monkeypatch):
    monkeypatch.setattr(live_drain, "BUFFER_MB", 10)
    monkeypatch.setattr(live_drain, "FILLED", 2.0)
    with cabled() as cable, pytest.raises(RuntimeError, match="dropped"):
        live_drain.drained(1, "", cable, capture, tmp_path)


def test_rates_of_full_buffers_are_medians_beside_the_first_number():
    def rounds(*seconds):
        same = {"packets": 3_000_000, "bytes": 400_000_000, "cpu_seconds": 3.0}
        return [same | {"seconds": one, "peak_bytes": 10**9} for one in seconds]

    kept = found("drain", {"small": {"1": rounds(3.0, 6.0, 2.5), "2": rounds(1.5, 2.0, 1.0)}})
    assert live_page.drain(kept)[2:4] == [
        "| small | 1 | 3 | 1 000 000 | 500 000, 1 200 000 | 133 | 1.00 | 1.00 s | 1 000 MB |",
        "| small | 2 | 3 | 2 000 000 | 1 500 000, 3 000 000 | 267 | 2.00 | 1.00 s | 1 000 MB |",
    ]
    assert live_page.drain({}) == ["Not measured yet."]


def test_what_more_cores_give_on_paper_is_measured_time_less_overhead_and_imbalance():
    held = {"sent": {"packets": 3_000_000, "bytes": 10**9}, "cpu_seconds": 1.5}
    seconds = {"1": [0.5, 9.0, 0.4], "2": [0.6, 0.5, 0.7]}
    kept = {"rates": {"found": {"small": {"ring": {"held": held}}}}} | found(
        "overhead", {"rate": 150_000, "seconds": seconds}
    )
    lines = live_on_paper.lines(kept)
    assert lines[2].startswith("| 1 | 2 000 000/s |")
    assert "1.20 times" in lines[-1]
    many = live_on_paper.balance(1000, 4)
    assert live_on_paper.balance(50, 4) < many < 1
    shown = page.thousands(round(4 * many / 1.2 * 2_000_000, -3))
    assert lines[4].endswith(f"| {shown}/s |")
    assert live_page.overhead(kept)[2:4] == [
        "| 1 | 3 | 0.50 s | 0.40, 9.00 s | 1.00 |", "| 2 | 3 | 0.60 s | 0.50, 0.70 s | 1.20 |",
    ]  # fmt: skip
    # Several cannot take less: that is noise.
    kept["overhead"]["found"]["seconds"]["2"] = [0.4]
    assert live_on_paper.overhead(kept) == 1.0
    kept["overhead"]["found"]["seconds"]["2"] = []
    assert live_on_paper.lines(kept) == ["Not measured yet."]
