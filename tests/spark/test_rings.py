"""A ring buffer overwrites its files; their rows stay in the dataset."""

import shutil
from pathlib import Path

from kdissect.spark.pipeline import dissect
from tests.spark.rotated import ALL, contents_of, dataset_rows, library_rows, rotate


def test_ring_that_wraps_around_is_appended_to_its_earlier_contents(tmp_path: Path) -> None:
    made = rotate("groups-4.3.1.pcapng", tmp_path / "made", 5, seed=61)
    ring = tmp_path / "ring"
    ring.mkdir()
    dataset = tmp_path / "dataset"
    for number, path in enumerate(made):
        shutil.copy(path, ring / f"ring.pcap{number % 2}")
        outcome = dissect(None, [ring], dataset, tables=ALL, split_size=50_000)
        assert (outcome.captures, outcome.failed) == (1, ())
    renamed = {
        table: sorted(in_ring(row, made, ring) for row in rows)
        for table, rows in library_rows(made).items()
    }
    assert dataset_rows(dataset) == renamed
    (tap,) = contents_of(dataset).taps
    assert [Path(one.path).name for one in tap.captures] == [f"ring.pcap{n % 2}" for n in range(5)]


def in_ring(row: str, made: list[str], ring: Path) -> str:
    for number, path in enumerate(made):
        row = row.replace(path, str(ring / f"ring.pcap{number % 2}"))
    return row


def test_capture_earlier_than_overwritten_files_is_dissected_alone(tmp_path: Path) -> None:
    made = rotate("groups-4.3.1.pcapng", tmp_path / "made", 4, seed=62)
    ring = tmp_path / "ring"
    ring.mkdir()
    dataset = tmp_path / "dataset"
    for number in (1, 2):
        shutil.copy(made[number], ring / "ring.pcap0")
        dissect(None, [ring], dataset, tables=ALL)
    before = dataset_rows(dataset)
    shutil.copy(made[0], ring / "ring.pcap7")
    assert dissect(None, [ring], dataset, tables=ALL).failed == ()
    (tap,) = contents_of(dataset).taps
    assert [one.segment for one in tap.captures] == [-1, -1, 2]
    after = dataset_rows(dataset)
    assert set(before["exchanges"]) < set(after["exchanges"])
    own = library_rows([str(ring / "ring.pcap7")])
    assert len(after["exchanges"]) == len(before["exchanges"]) + len(own["exchanges"])
