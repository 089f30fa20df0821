import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import generate, processes, profiles, timing, workloads
from benchmarks.timing import Program, Run
from benchmarks.workloads import ROOT, WORKLOADS, chosen

KNOWN = profiles.modules()
CAPTURE = ROOT / "captures" / "quickstart.pcapng"


def test_workloads_are_chosen_by_name_and_others_are_refused():
    assert chosen("") == list(WORKLOADS)
    assert [one.name for one in chosen("small,bulk")] == ["bulk", "small", "small, a little"]
    assert [one.name for one in chosen("records")] == [
        "records", "records, uncompressed", "records, lz4", "records, zstd",
    ]  # fmt: skip
    assert [one.name for one in chosen("records-lz4")] == ["records, lz4"]
    with pytest.raises(SystemExit, match="no such workload: large"):
        chosen("large")


def test_figures_are_medians_extremes_and_the_highest_peak():
    runs = [Run(seconds, seconds / 2, int(seconds * 10), {"t": 3}) for seconds in (5.0, 2.0, 9.0)]
    assert timing.figures(runs) == {
        "seconds": 5.0, "fastest": 2.0, "slowest": 9.0, "cpu_seconds": 2.5, "peak_bytes": 90,
        "rows": {"t": 3}, "runs": 3,
    }  # fmt: skip


def test_programs_take_turns():
    calls = []

    def noted(program, capture):
        calls.append((program.name, capture))
        return Run(1.0, 1.0, 1, {})

    programs = [Program("a", ()), Program("b", ())]
    found = timing.in_turn(programs, CAPTURE, 2, noted)
    assert [name for name, _ in calls] == ["a", "b", "a", "b"]
    assert found == {"a": [Run(1.0, 1.0, 1, {})] * 2, "b": [Run(1.0, 1.0, 1, {})] * 2}


@pytest.mark.parametrize("capture", [CAPTURE, Path(os.path.relpath(CAPTURE))])
def test_a_run_is_a_whole_process_with_its_rows_and_its_memory(capture):
    tables = ("dissect", "{}", "-o", "{out}", "--tables", "connections")
    found = timing.run(Program("own", (*timing.KDISSECT, *tables), str(ROOT)), capture)
    assert list(found.rows) == ["connections"]
    assert found.rows["connections"] > 0
    assert found.cpu_seconds > 0
    assert found.seconds > 0
    assert found.peak_bytes > 10_000_000


def test_failing_process_ends_the_measurement_with_its_output():
    failing = Program("own", (sys.executable, "-c", "raise SystemExit('no such thing')"))
    with pytest.raises(SystemExit, match="ended with 1: no such thing"):
        timing.run(failing, CAPTURE)


def test_some_programs_run_in_the_first_round_only():
    programs = [Program("a", ()), Program("b", ())]
    found = timing.in_turn(programs, CAPTURE, 3, lambda *_: Run(1.0, 1.0, 1, {}), once=("b",))
    assert {name: len(runs) for name, runs in found.items()} == {"a": 3, "b": 1}


@pytest.mark.parametrize(("size", "whole"), [(24, 0), (119, 0), (120, 1), (1 << 16, 2)])
def test_the_beginning_of_a_capture_has_whole_packets(tmp_path, monkeypatch, size, whole):
    monkeypatch.setattr(timing, "BEGINNING_SIZE", size)
    capture = tmp_path / "made.pcap"
    with capture.open("wb") as file:
        wire = generate.Wire(file, 1448)
        for length in (26, 100):
            wire.packet(bytes(54), bytes(length))
        wire.flush()
    first = timing.beginning(capture, tmp_path / "first.pcap")
    assert first.read_bytes() == capture.read_bytes()[: 24 + (0, 96, 266)[whole]]


def test_a_capture_is_lent_and_removed_unless_it_was_there_before(tmp_path, monkeypatch):
    monkeypatch.setattr(workloads, "recorded", lambda *_: CAPTURE)
    small = chosen("small")[0]._replace(megabytes=1)
    with workloads.lent(small, tmp_path) as capture:
        assert capture.stat().st_size >= 1_000_000
    assert list(tmp_path.iterdir()) == []
    kept = workloads.capture_of(small, tmp_path)
    with workloads.lent(small, tmp_path) as capture:
        assert capture == kept
    assert list(tmp_path.iterdir()) == [kept]


@pytest.mark.parametrize(
    ("library", "symbol", "stage"),
    [
        ("kdissect__mypyc.so", "CPyDef_extracted___FactSink____text", "messages"),
        ("kdissect__mypyc.so", "CPyDef_messages___records___scan_batch", "messages"),
        ("kdissect__mypyc.so", "CPyDef_records___scan_batch", "messages"),
        ("kdissect__mypyc.so", "CPyDef_tls___records___read", "tls"),
        ("kdissect__mypyc.so", "extracted___Partition_dealloc", "messages"),
        ("kdissect__mypyc.so", "CPyDef_pcapng___PcapngScanner____scan_records", "capture"),
        ("kdissect__mypyc.so", "CPyDef_dissector___Dissector____event", "tables"),
        ("kdissect__mypyc.so", "CPyDef_frame_search___probe", "framing"),
        ("kdissect__mypyc.so", "CPyList_GetItem", profiles.PYTHON),
        ("libpython3.11.so.1.0", "_PyObject_Malloc", profiles.PYTHON),
        ("libparquet.so.2600", "x", "Arrow, Parquet"),
        ("backend_c.cpython-311.so", "ZSTD_decompressBlock", profiles.UNPACKING),
        ("libc.so.6", "__memmove_avx", "C library: copies, memory"),
        ("[kernel.kallsyms]", "copy_page", "kernel: reading, memory"),
    ],
)
def test_a_sample_belongs_to_the_stage_of_the_running_code(library, symbol, stage):
    assert profiles.stage_of(library, symbol, KNOWN) == stage


def test_shares_of_a_report_are_added_up_by_stage():
    report = """
# Overhead  Shared Object     Symbol
    40.10%  kdissect__mypyc.so  [.] CPyDef_tcp___read            -      -
    10.20%  kdissect__mypyc.so  [.] CPyDef_ip___read             -      -
     5.00%  [kernel.kallsyms]   [k] copy_page                    -      -
"""
    assert profiles.shares(report, KNOWN) == {"packets": 50.3, "kernel: reading, memory": 5.0}


BUSY = "import time\nwhile time.process_time() < 0.6: pass"
ORPHAN = f"import os\nif not os.fork():\n    os.setsid()\n    exec({BUSY!r})\n"


@pytest.mark.skipif(sys.platform != "linux", reason="benchmarks read /proc")
def test_what_others_use_counts_and_what_one_started_does_not():
    def used(program, adopts=True):
        where, before = timing.Circumstances(""), processes.own_cpu_seconds()
        processes.adopt_orphans(adopts)
        began = time.monotonic()
        # Reads until the last process that has the pipe has ended, also an orphan.
        subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
        others = where.told()["others"] * (time.monotonic() - began)
        processes.adopt_orphans(False)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)  # the one that was adopted
        return processes.own_cpu_seconds() - before, others

    for program in (BUSY, ORPHAN):
        own, _ = used(program)
        assert own > 0.4
    # One that is adopted by init is no descendant of the benchmark.
    own, others = used(ORPHAN, adopts=False)
    assert own < 0.3
    assert others > 0.4


@pytest.mark.skipif(sys.platform != "linux", reason="benchmarks read /proc")
def test_waiting_for_a_core_counts_as_wanting_one():
    core = str(min(os.sched_getaffinity(0)))
    program = ["taskset", "-c", core, sys.executable, "-c", "while True: pass"]
    three = [subprocess.Popen(program) for _ in range(3)]
    one, limit = three[0].pid, time.monotonic() + 60
    while (used := processes.cpu_seconds(one)) < 0.2 and time.monotonic() < limit:
        time.sleep(0.05)  # they take turns
    wanted = processes.wanted_seconds(one)
    for process in three:
        process.kill()
        process.wait()
    assert wanted > 2 * used > 0
    assert not processes.wanted_seconds(one)
