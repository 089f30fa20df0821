"""What travels to tasks: no history of a tap, and small captures in a few tasks."""

import pickle
import random
from pathlib import Path

import pytest

from kdissect.capture.pcap import NANOSECONDS
from kdissect.capture.splits import Split
from kdissect.dataset.entries import CaptureEntry, FileEntry, TapEntry
from kdissect.dataset.planning import Inspected, Work, continued
from kdissect.dataset.tasks import Task
from kdissect.pipeline import Options
from kdissect.spark.pipeline import dissect
from kdissect.spark.task_runners import TASK_BYTES, shares
from kdissect.tables.schemas import DEFAULT_TABLES
from tests.capture.writers import make_pcap
from tests.seeds import SEED
from tests.spark.rotated import (
    ALL,
    CAPTURES,
    contents_of,
    dataset_rows,
    library_rows,
    packets_of,
    rotate,
)

MINUTE_NS = 60 * 10**9


def entry(number: int) -> CaptureEntry:
    path = f"/captures/2026-11-22/broker-1/ring.pcap{number:08}"
    return CaptureEntry(path, f"{number:064x}", 90_000, number, number * MINUTE_NS, 100, 1)


def work_after(count: int, open_since: int) -> Work:
    """One more capture of a tap that has `count`, and a file of rows of each."""
    files = [FileEntry(f"exchanges/{number}", "exchanges", "", 1, 1) for number in range(count)]
    captures = [entry(number) for number in range(count)]
    tap = TapEntry("broker-1", "chain", 0, count * MINUTE_NS - 1, captures, "state", files)
    tap.oldest = open_since
    new = entry(count)
    split = Split(new.path, 0, 0, 90_000, True, 1, 1, 0, -1, count * MINUTE_NS, count * MINUTE_NS)
    return continued(tap, [Inspected(new, (split,))])


def size_of(work: Work) -> int:
    task = Task("/dataset", "/dataset/run", 1, Options(), {0: work, 1: work})
    return len(pickle.dumps(task.of_tap(0)))


def test_a_task_is_as_large_after_fifty_thousand_captures_as_after_ten() -> None:
    few, many = work_after(10, 8), work_after(50_000, 49_998)
    assert len(pickle.dumps(many)) > 5_000_000
    assert abs(size_of(many) - size_of(few)) < 100
    assert size_of(many) < 6_000
    # Each capture that a connection is open since adds its own entry.
    assert size_of(work_after(50_000, 49_000)) > size_of(many) + 900 * 100


def test_a_work_for_a_task_has_the_numbers_of_the_whole() -> None:
    whole = work_after(20, 17)
    work = whole.for_task()
    assert [one.path for one in work.tap.captures] == whole.paths[17:]
    assert work.paths == [""] * 17 + whole.paths[17:]
    assert (work.dates[17:], work.following, work.alone, work.new) == (
        whole.dates[17:], whole.following, whole.alone, whole.new
    )  # fmt: skip
    assert work.for_task() == work


@pytest.mark.sweep(4)
@pytest.mark.parametrize("number", range(12))
def test_names_of_captures_are_right_though_tasks_have_only_those_that_open_rows_began_in(
    number: int, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} tasks {number}")
    name = chance.choice(("groups-4.3.1.pcapng", "sasl-4.3.1.pcapng", "tls/tls13-4.3.1.pcapng"))
    paths = rotate(name, tmp_path / "ring", 6, seed=chance.randrange(1 << 30))
    dataset = tmp_path / "dataset"
    for path in paths:
        dissect(None, [path], dataset, tap="(ring)", tables=ALL)
    assert dataset_rows(dataset) == library_rows(paths)
    (tap,) = contents_of(dataset).taps
    assert 0 <= tap.oldest <= len(paths)


def test_captures_of_connections_that_have_ended_do_not_travel(tmp_path: Path) -> None:
    packets = packets_of(CAPTURES / "groups-4.3.1.pcapng")[:300]
    paths = [tmp_path / f"ring.pcap{number}" for number in range(4)]
    for number, path in enumerate(paths):
        hour = [one._replace(time_ns=one.time_ns + 60 * MINUTE_NS * number) for one in packets]
        path.write_bytes(make_pcap(hour, magic=NANOSECONDS, link_type=1))
        (tap,) = dissect(None, [path], tmp_path / "dataset", tap="(ring)").contents.taps
        assert tap.oldest >= number
    assert dataset_rows(tmp_path / "dataset") == {
        table: rows
        for table, rows in library_rows([str(path) for path in paths]).items()
        if table in DEFAULT_TABLES
    }


def test_a_thousand_files_of_90_kb_are_six_tasks_and_large_ones_one_each() -> None:
    groups = shares(1000, [90_000] * 1000)
    assert [one for group in groups for one in group] == list(range(1000))
    assert len(groups) == 6
    assert all(len(group) * 90_000 <= TASK_BYTES for group in groups)
    assert len(shares(1000, [0] * 1000)) == 4
    assert len(shares(10, [256 << 20] * 10)) == 10
    chance = random.Random(SEED)
    sizes = [chance.choice((10, 90_000, 3 << 20, 200 << 20)) for _ in range(300)]
    groups = shares(300, sizes)
    assert [one for group in groups for one in group] == list(range(300))
    totals = [sum(sizes[number] for number in group) for group in groups]
    assert all(
        total <= TASK_BYTES or len(group) == 1 for total, group in zip(totals, groups, strict=True)
    )
