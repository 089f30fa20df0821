import gzip
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.api.summary_pass import SummaryPage, findings
from kdissect.api.writing import write
from kdissect.capture import speculative_splits
from kdissect.capture.files import Source, open_captures
from kdissect.capture.pcap import NANOSECONDS
from kdissect.capture.speculative_splits import guess_splits, look_at
from kdissect.capture.splits import Split, plan
from kdissect.checkpoint import jobs, run_choice, spill_transfer, worker_pool
from kdissect.checkpoint.jobs import Shared
from kdissect.checkpoint.jobs_run import JobsRun, find_secrets
from kdissect.checkpoint.merged_run import MergedRun
from kdissect.checkpoint.run_choice import find_splits, make_run, split_sizes
from kdissect.checkpoint.spill_transfer import BatchFile, read_file
from kdissect.checkpoint.split import SplitRows, undone_split
from kdissect.checkpoint.worker import Task
from kdissect.checkpoint.worker_pool import WorkerPool, early_pool
from kdissect.errors import CaptureError, KdissectError
from kdissect.pipeline import Options, Run
from kdissect.report.writing import make_report
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from tests.capture.writers import Captured, make_pcap
from tests.checkpoint.law import CAPTURES, OPTIONS, sorted_rows, whole
from tests.seeds import SEED

LARGE = str(CAPTURES / "cluster-4.3.1.pcapng")
NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "WORTHWHILE_PACKETS", 100)
    monkeypatch.setattr(run_choice, "SMALLEST_SPLIT", 50_000)
    # So small splits would be left to the merger.
    monkeypatch.setattr(jobs, "EDGE_PACKETS", 0)
    monkeypatch.setattr(run_choice, "SMALLEST_PACKETS", 1)
    monkeypatch.setattr(speculative_splits, "LOOK", 20_000)


@pytest.mark.usefixtures("small_is_large")
def test_two_processes_give_the_rows_of_one() -> None:
    run = make_run(LARGE, Options(tables=OPTIONS.tables, jobs=2))
    assert isinstance(run, JobsRun)
    expected = whole([LARGE])
    assert sorted_rows(run) == expected.tables
    assert run.balance == expected.balance


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("name", ["cluster-3.9.1.pcapng", "groups-4.3.1.pcapng"])
def test_guessed_splits_give_the_rows_of_the_whole(name: str) -> None:
    path = str(CAPTURES / name)
    look = look_at(path)
    assert look is not None
    splits = find_splits([path], look, look.size, 4)
    assert len(splits) > 2
    assert not any(split.is_counted for split in splits)
    expected = whole([path])
    run = MergedRun(Shared(splits, OPTIONS, [path], WorkerPool(0), dict), OPTIONS, [path])
    assert sorted_rows(run) == expected.tables
    assert run.balance == expected.balance


@pytest.mark.usefixtures("small_is_large")
def test_wrong_guesses_give_the_rows_of_the_whole(tmp_path: Path) -> None:
    with open_captures(CAPTURES / "groups-4.3.1.pcapng") as capture:
        real = [packet for batch in capture for packet in batch]
    kept = [
        Captured(one.data[one.start : one.end], one.time_ns, one.original_length) for one in real
    ]
    # A packet of another kind with a capture in it, where the second split would begin.
    inner = make_pcap(kept[:300], magic=NANOSECONDS, link_type=1)[24:]
    middle = len(kept) // 2
    stuffed = [*kept[:middle], Captured(inner, kept[middle].time_ns), *kept[middle:]]
    path = tmp_path / "stuffed.pcap"
    path.write_bytes(make_pcap(stuffed, magic=NANOSECONDS, link_type=1))
    look = look_at(str(path))
    assert look is not None
    before = len(make_pcap(kept[:middle], magic=NANOSECONDS))
    places = [before // 2, before + len(inner) // 2, before + len(inner) + 30_000]
    splits = guess_splits(str(path), look, places)
    assert len(splits) == 4
    expected = whole([str(path)])
    for workers in (0, 1):
        shared = Shared(list(splits), OPTIONS, [str(path)], WorkerPool(workers), dict)
        run = MergedRun(shared, OPTIONS, [str(path)])
        assert sorted_rows(run) == expected.tables
        assert run.balance == expected.balance
        assert shared.is_planned


# Splits that the merger dissects alone


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_splits_that_the_merger_dissects_change_no_row(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(CAPTURES / name)
    source = random.Random(f"{SEED} alone {name}")
    monkeypatch.setattr(jobs, "EDGE_PACKETS", 1)
    expected = whole([path])
    for workers in (0, 1):
        splits = splits_of(path, source)
        drawn = [source.choice((0, sys.maxsize)) for _ in splits]
        counts = iter([*drawn, *drawn])
        shared = Shared(splits, OPTIONS, [path], WorkerPool(workers), dict, counts.__next__)
        run = MergedRun(shared, OPTIONS, [path], find_secrets=lambda: find_secrets([path]))
        assert sorted_rows(run) == expected.tables
        assert run.balance == expected.balance


def splits_of(path: str, source: random.Random) -> list[Split]:
    """Some 8 splits, speculative ones where the file has any."""
    size = Path(path).stat().st_size
    look = look_at(path)
    if look is not None and source.random() < 0.5:
        places = sorted(source.sample(range(1, size), min(size - 1, 7)))
        if splits := guess_splits(path, look, places):
            return splits
    return plan([path], max(64, size // 8))


def test_the_merger_reads_keys_of_sessions_that_begin_where_it_dissects() -> None:
    paths = [LARGE, str(CAPTURES / "tls" / "tls-sasl-4.3.1.pcapng")]
    splits = plan(paths, 400_000)
    found = []
    for opened in (0, sys.maxsize):
        shared = Shared(splits, OPTIONS, paths, WorkerPool(0), dict, partial(int, opened))
        run = MergedRun(shared, OPTIONS, paths, find_secrets=lambda: find_secrets(paths))
        found.append((sorted_rows(run), run.balance))
    assert found[0] == found[1]
    assert found[0][1].encrypted_bytes == 0 < found[0][1].tls_bytes


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("workers", [0, 1])
def test_the_merger_dissects_alone_while_edges_are_expensive(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "EDGE_PACKETS", 1)
    splits = plan([LARGE], 50_000)
    assert len(splits) > 8
    # After each split; the merger has as many open as packets, and then none.
    opened = [0, 10**9, 10**9, 10**9, 0, 0, 10**9] + [0] * len(splits)
    counts = iter(opened)
    shared = Shared(splits, OPTIONS, [LARGE], WorkerPool(workers), dict, counts.__next__)
    undone = []
    for rows in shared:
        undone.append(rows.is_undone)
        assert (list(rows.batches) == []) is rows.is_undone
        assert all(number >= shared.next_taken for number in shared.answers)
    assert undone == [False] + [count > 0 for count in opened[: len(splits) - 1]]


@pytest.mark.usefixtures("small_is_large")
def test_a_capture_with_many_open_connections_is_dissected_by_the_merger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = whole([LARGE])
    numbers = []
    for edge_packets in (0, 10_000):
        undone: list[Split] = []
        monkeypatch.setattr(jobs, "EDGE_PACKETS", edge_packets)
        monkeypatch.setattr(jobs, "undone_split", kept_in(undone))
        run = make_run(LARGE, Options(tables=OPTIONS.tables, jobs=2))
        assert isinstance(run, JobsRun)
        assert sorted_rows(run) == expected.tables
        numbers.append(len(undone))
    assert numbers[0] == 0 < numbers[1]


def kept_in(undone: list[Split]) -> Callable[[Split], SplitRows]:
    def call(split: Split) -> SplitRows:
        undone.append(split)
        return undone_split(split)

    return call


@pytest.mark.usefixtures("small_is_large")
def test_tables_are_written_by_several_processes(tmp_path: Path) -> None:
    reported = []
    written, balance = write(
        LARGE,
        tmp_path / "many",
        jobs=2,
        progress=lambda done, total: reported.append((done, total)),
    )
    alone, expected = write(LARGE, tmp_path / "one", jobs=1)
    assert {name: rows for name, (_, rows) in written.items()} == {
        name: rows for name, (_, rows) in alone.items()
    }
    assert balance == expected
    size = Path(LARGE).stat().st_size
    assert reported[-1] == (size, size)
    assert len(reported) > 2


def test_small_files_pipes_and_strict_runs_are_read_by_one_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert kind_of(LARGE, Options(jobs=2)) is Run
    monkeypatch.setattr(worker_pool, "WORTHWHILE_PACKETS", 1)
    monkeypatch.setattr(run_choice, "SMALLEST_SPLIT", 50_000)
    monkeypatch.setattr(run_choice, "SMALLEST_PACKETS", 1)
    monkeypatch.setattr(speculative_splits, "LOOK", 20_000)
    assert kind_of(LARGE, Options(jobs=1)) is Run
    assert kind_of(LARGE, Options(jobs=2, strict=True)) is Run
    with Path(LARGE).open("rb") as file:
        assert kind_of(file, Options(jobs=2)) is Run
    assert kind_of([LARGE], Options(jobs=2)) is JobsRun
    monkeypatch.setattr(worker_pool, "usable_cores", lambda: 2)
    assert kind_of(LARGE, Options()) is Run
    monkeypatch.setattr(worker_pool, "ALWAYS_PACKETS", 1)
    assert kind_of(LARGE, Options()) is JobsRun
    # Edges of splits with many open connections cost more than a second process saves.
    monkeypatch.setattr(run_choice, "MOST_FLOWS", 10)
    assert kind_of(LARGE, Options()) is Run
    assert kind_of(LARGE, Options(jobs=2)) is JobsRun
    monkeypatch.setattr(run_choice, "SAMPLED_PACKETS", 5)
    assert kind_of(LARGE, Options()) is JobsRun


def kind_of(source: Source | list[Source], options: Options) -> type:
    with make_run(source, options) as run:
        return type(run)


@pytest.mark.usefixtures("small_is_large")
def test_files_that_overlap_in_time_are_read_by_one_process(tmp_path: Path) -> None:
    other = tmp_path / "other-tap.pcapng"
    other.write_bytes(Path(LARGE).read_bytes())
    taps: list[Source] = [LARGE, other]
    assert kind_of(taps, Options(jobs=2)) is Run


@pytest.fixture
def two() -> Iterator[WorkerPool]:
    with WorkerPool(1) as made:
        yield made


def run_of(splits: list[Split], one: WorkerPool) -> MergedRun:
    return MergedRun(Shared(splits, OPTIONS, [LARGE], one, dict), OPTIONS, [LARGE])


def test_rows_that_are_too_many_to_be_kept_wait_in_a_file(
    two: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "KEPT_BYTES", 100)
    run = run_of(plan([LARGE], 100_000), two)
    expected = whole([LARGE])
    assert sorted_rows(run) == expected.tables
    assert run.balance == expected.balance


def test_an_error_in_this_process_is_raised(tmp_path: Path, two: WorkerPool) -> None:
    copy = tmp_path / "copy.pcapng"
    copy.write_bytes(Path(LARGE).read_bytes())
    splits = plan([copy], 100_000)
    copy.write_bytes(Path(LARGE).read_bytes()[:50_000])
    with pytest.raises(CaptureError, match=r"copy\.pcapng"):
        list(run_of(splits, two))


def test_an_error_in_another_process_travels(tmp_path: Path, two: WorkerPool) -> None:
    copy = tmp_path / "copy.pcapng"
    copy.write_bytes(Path(LARGE).read_bytes())
    split = plan([copy], 100_000)[1]
    copy.unlink()
    two.send(0, Task(OPTIONS, [str(copy)], str(tmp_path)))
    two.send(0, (1, split, {}))
    [(worker, (number, error))] = two.receive(None)
    assert (worker, number) == (0, 1)
    assert isinstance(error, CaptureError)
    assert "no such file" in str(error)


def test_a_process_that_is_killed_is_an_error(two: WorkerPool) -> None:
    two.workers[0].kill()
    with pytest.raises(KdissectError, match="killed"):
        list(run_of(plan([LARGE], 100_000), two))


def test_ctrl_c_is_left_to_the_process_that_asked(two: WorkerPool) -> None:
    assert os.getpgid(two.workers[0].pid) == two.workers[0].pid
    assert os.getpgid(0) != two.workers[0].pid


def test_a_process_ends_with_the_one_that_asked() -> None:
    program = (
        "from kdissect.checkpoint.worker_pool import WorkerPool; import os; pool = WorkerPool(1);"
        "print(pool.workers[0].pid, flush=True); os.kill(os.getpid(), 9)"
    )
    # Both outputs end with the last of them.
    asked = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=60
    )
    assert asked.returncode == -signal.SIGKILL
    assert int(asked.stdout) > 0
    assert asked.stderr == b""


def test_a_pool_is_started_early_only_for_large_files_that_can_be_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "packed.pcapng.gz"
    packed.write_bytes(gzip.compress(Path(LARGE).read_bytes()))
    assert early_pool([LARGE], 2) is None
    monkeypatch.setattr(worker_pool, "WORTHWHILE_PACKETS", 10)
    assert early_pool([str(packed)], 2) is None
    assert early_pool([str(tmp_path / "missing.pcap")], 2) is None
    assert early_pool(["-"], 2) is None
    assert early_pool([LARGE], 1) is None
    started = early_pool([LARGE, LARGE], 3)
    assert started is not None
    assert len(started.workers) == 2
    started.close()
    assert started.workers == []


@pytest.mark.usefixtures("small_is_large")
def test_a_pool_that_is_not_needed_ends(two: WorkerPool) -> None:
    worker = two.workers[0]
    with make_run(LARGE, Options(strict=True, jobs=2), two) as run:
        assert isinstance(run, Run)
    assert worker.returncode == -signal.SIGKILL


def test_batches_of_several_tables_travel_in_one_file(tmp_path: Path) -> None:
    batches = list(Run(LARGE, OPTIONS))
    file = BatchFile(tmp_path / "rows")
    for name, batch in batches:
        file.write(name, batch)
    file.write_boundary(b"a seam")
    read, boundary = read_file(tmp_path / "rows", file.close())
    again = list(read)
    assert boundary == b"a seam"
    assert not list(tmp_path.iterdir())
    assert [name for name, _ in again] == [name for name, _ in batches]
    for (_, one), (_, other) in zip(again, batches, strict=True):
        assert isinstance(one, pa.RecordBatch)
        assert one.equals(other)
        assert one.schema.equals(other.schema)


@pytest.mark.skipif(sys.platform != "linux", reason="mappings are read from /proc")
def test_a_batch_that_is_kept_keeps_no_other_rows_of_its_file_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    file = BatchFile(path)
    for _ in range(4):
        file.write("numbers", pa.record_batch({"number": pa.array(range(1 << 20))}))
    kept = []
    for _, batch in read_file(path, file.close()).batches:
        assert sum(batch["number"].to_pylist()) == (1 << 19) * ((1 << 20) - 1)
        kept.append(batch.slice(5, 1))
        del kept[:-1]
    del batch
    assert 1 << 23 <= resident_bytes(path) < 1 << 24
    kept.clear()
    assert resident_bytes(path) == 0


def resident_bytes(path: Path) -> int:
    """Bytes of a mapped file in this process's memory, as the system counts them."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    places = [place for place, line in enumerate(lines) if str(path) in line]
    sizes = (
        next(line for line in lines[place:] if line.startswith("Rss:")).split()[1]
        for place in places
    )
    return sum(int(size) << 10 for size in sizes)


@pytest.mark.skipif(sys.platform != "linux", reason="mappings are read from /proc")
def test_rows_that_wait_for_names_keep_no_file_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill_transfer, "COPIED_BYTES", 1)
    path = tmp_path / "rows"
    file = BatchFile(path)
    for name, batch in Run(LARGE, OPTIONS):
        if name == "partitions":
            file.write(name, batch.filter(pa.array([bool(one) for one in batch["topic_id"]])))
    names: dict[bytes, str] = {}
    builder = BatchBuilder(TABLES["partitions"], [LARGE], names)
    for _, batch in read_file(path, file.close()).batches:
        place = batch.schema.get_field_index("topic")
        indices = pa.nulls(batch.num_rows, pa.int32())
        nulls = pa.DictionaryArray.from_arrays(indices, batch["topic"].dictionary)
        builder.take(batch.set_column(place, batch.schema.field("topic"), nulls))
    del batch, nulls
    assert builder.shared.rows > 0
    assert resident_bytes(path) == 0


def test_splits_are_large_at_first_and_of_so_many_packets_at_most() -> None:
    large, small = 1200, 150
    # One process is enough.
    assert split_sizes(64 << 20, small, 2) == [64 << 20]
    # One split a process, of which the first merges the others.
    assert [size >> 20 for size in split_sizes(280 << 20, small, 2)] == [155, 124]
    assert [size >> 20 for size in split_sizes(280 << 20, small, 8)] == [107, 86, 86]
    sizes = [size >> 20 for size in split_sizes(8 << 30, large, 2)]
    assert sizes == [512] * 16
    sizes = [size >> 20 for size in split_sizes(1 << 30, small, 2)]
    assert sizes == [150, 150, 150, 143, 107, 80, 75, 75, 92]
    assert max(split_sizes(10 << 30, small, 2)) == (1 << 20) * small
    assert max(split_sizes(10 << 30, 60_000, 2)) == run_choice.LARGEST_SPLIT
    assert sum(split_sizes(10_000_000_001, small, 16)) == 10_000_000_001
    assert sum(split_sizes(400_000_001, small, 3)) == 400_000_001


@pytest.mark.parametrize("act", [findings, make_report])
@pytest.mark.usefixtures("small_is_large")
def test_workers_end_with_an_interrupted_pass_whose_traceback_is_kept(
    act: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SummaryPage, "add", interrupt)
    with WorkerPool(1) as pool:
        with pytest.raises(KeyboardInterrupt) as held:
            act(LARGE, jobs=2, pool=pool)
        assert held.tb is not None
        assert pool.workers == []


def test_a_busy_worker_ends_with_a_process_that_exits_in_the_middle_of_a_run():
    script = """
from kdissect.checkpoint import worker_pool
worker_pool.PROGRAM = "import time; time.sleep(60)  # {path}"
pool = worker_pool.WorkerPool(1)  # as if an exception's traceback still referred to it
print(pool.workers[0].pid)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
