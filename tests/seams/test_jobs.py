import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from kdissect.capture.files import Source
from kdissect.capture.pieces import Piece, plan
from kdissect.errors import CaptureError, KdissectError
from kdissect.pipeline import Options, Run
from kdissect.seams import jobs, runs
from kdissect.seams.jobs import packed, pieces_in_processes, unpacked
from kdissect.seams.jobs_run import JobsRun
from kdissect.seams.runs import make_run, piece_size
from kdissect.seams.together import Together
from kdissect.writing import write
from tests.seams.law import CAPTURES, OPTIONS, sorted_rows, whole

LARGE = str(CAPTURES / "cluster-4.3.1.pcapng")


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "WORTHWHILE_BYTES", 100_000)
    monkeypatch.setattr(runs, "SMALLEST_PIECE", 50_000)


@pytest.mark.usefixtures("small_is_large")
def test_two_processes_give_the_rows_of_one() -> None:
    run = make_run(LARGE, Options(tables=OPTIONS.tables, jobs=2))
    assert isinstance(run, JobsRun)
    expected = whole([LARGE])
    assert sorted_rows(run) == expected.tables
    assert run.balance == expected.balance


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
    monkeypatch.setattr(runs, "WORTHWHILE_BYTES", 1)
    monkeypatch.setattr(runs, "SMALLEST_PIECE", 50_000)
    assert kind_of(LARGE, Options(jobs=1)) is Run
    assert kind_of(LARGE, Options(jobs=2, strict=True)) is Run
    with Path(LARGE).open("rb") as file:
        assert kind_of(file, Options(jobs=2)) is Run
    assert kind_of([LARGE], Options(jobs=2)) is JobsRun
    monkeypatch.setattr(runs, "usable_cores", lambda: 2)
    assert kind_of(LARGE, Options()) is Run
    monkeypatch.setattr(runs, "ALWAYS_BYTES", 1)
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


def run_of(pieces: Iterator[Piece]) -> Together:
    def names() -> dict[bytes, str]:
        return {}

    return Together(pieces_in_processes(pieces, OPTIONS, [LARGE], 2, names), OPTIONS, [LARGE])


def test_an_error_in_a_process_is_raised_here(tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcapng"
    copy.write_bytes(Path(LARGE).read_bytes())
    pieces = plan([copy], 100_000)
    copy.write_bytes(Path(LARGE).read_bytes()[:150_000])
    with pytest.raises(CaptureError, match=r"copy\.pcapng"):
        list(run_of(iter(pieces)))


def kill_self(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_dissect", kill_self)
    with pytest.raises(KdissectError, match="killed"):
        list(run_of(iter(plan([LARGE], 100_000))))


def test_ctrl_c_is_left_to_the_process_that_asked() -> None:
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(1, context, jobs.ignore_interrupts) as pool:
        handler = pool.submit(signal.getsignal, signal.SIGINT).result()
    assert handler == signal.SIG_IGN


def test_batches_of_several_tables_travel_in_one_buffer() -> None:
    batches = list(Run(LARGE, OPTIONS))
    again = unpacked(packed(batches))
    assert [name for name, _ in again] == [name for name, _ in batches]
    for (_, one), (_, other) in zip(again, batches, strict=True):
        assert one.equals(other)
        assert one.schema.equals(other.schema)


def test_pieces_are_neither_tiny_nor_huge() -> None:
    assert piece_size(64 << 20, 2) == (16 << 20) + 1
    assert piece_size(10 << 30, 2) == runs.LARGEST_PIECE
    assert piece_size(65 << 20, 64) == runs.SMALLEST_PIECE
