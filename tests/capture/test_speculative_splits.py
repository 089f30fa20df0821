from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kdissect.capture import speculative_splits
from kdissect.capture.files import open_captures
from kdissect.capture.pcap import MODIFIED, NANOSECONDS
from kdissect.capture.speculative_splits import NUMBERS, guess_splits, look_at
from kdissect.capture.splits import Split, plan_from, read_split
from kdissect.errors import CaptureError
from tests.capture.writers import START_NS, Captured, make_pcap, make_pcapng
from tests.capture.writers import given as packets_of

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("**/*.pcap*"))
PACKETS = [Captured(bytes([i % 251]) * (i % 90 + 20), START_NS + i * 1000) for i in range(400)]
Seen = tuple[int, int, bytes]


@pytest.fixture(autouse=True)
def _few_bytes_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculative_splits, "LOOK", 1000)


def guesses(path: Path, count: int) -> list[Split]:
    look = look_at(str(path))
    if look is None:
        return []
    return guess_splits(str(path), look, [look.size * i // count for i in range(1, count)])


def whole(path: Path) -> list[Seen]:
    with open_captures(path) as capture:
        return [
            (one.time_ns, one.link_type, one.data) for batch in capture for one in packets_of(batch)
        ]


def read_of(splits: list[Split]) -> list[Seen]:
    """The packets of splits; from the first wrong guess on the file is cut by reading it."""
    found: list[Seen] = []
    for place, split in enumerate(splits):
        reader = read_split(split)
        packets = [one for batch in reader for one in packets_of(batch)]
        reached = reader.reached
        assert reached is not None
        assert reached.ordinal == split.ordinal + len(packets)
        following = splits[place + 1] if not split.is_last else None
        if following and (reached.offset, reached.layout) != (following.start, following.layout):
            return found + read_of(plan_from(split, splits[-1].end, 3000))
        found += [(one.time_ns, one.link_type, one.data) for one in packets]
    return found


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_guessed_splits_of_every_capture_are_the_whole(path: Path) -> None:
    splits = guesses(path, 5)
    if not splits:
        assert path.suffix not in (".pcap", ".pcapng") or path.stat().st_size < 1000
        return
    assert len(splits) > 1 or path.stat().st_size < 60_000
    assert read_of(splits) == whole(path)


@pytest.mark.parametrize("make", [make_pcap, make_pcapng])
@pytest.mark.parametrize("count", [1, 2])
def test_small_captures_are_inspected_at_any_size(
    tmp_path: Path, make: Callable[[list[Captured]], bytes], count: int
) -> None:
    path = tmp_path / "small.capture"
    for size in range(1, 130):
        path.write_bytes(make([Captured(bytes(size), START_NS)] * count))
        look = look_at(str(path))
        assert look is not None
        assert (look.packets, look.seen) == (count, path.stat().st_size)
        assert read_of(guess_splits(str(path), look, range(0, look.size, 7))) == whole(path)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("magic", [NANOSECONDS, MODIFIED])
def test_places_are_those_of_records(tmp_path: Path, magic: int, order: str) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(make_pcap(PACKETS, magic, order))
    splits = guesses(path, 6)
    assert len(splits) == 6
    assert [split.start for split in splits[1:]] == [split.end for split in splits[:-1]]
    assert [split.ordinal for split in splits] == [i * NUMBERS + 1 for i in range(6)]
    for split, following in pairwise(splits):
        reader = read_split(split)
        list(reader)
        assert reader.reached is not None
        assert (reader.reached.offset, reader.reached.layout) == (following.start, following.layout)


def test_a_guess_inside_a_packet_is_found_to_be_wrong(tmp_path: Path) -> None:
    inner = make_pcap(PACKETS, NANOSECONDS)[24:]
    outer = [Captured(inner, START_NS + i) for i in range(4)]
    path = tmp_path / "capture.pcap"
    path.write_bytes(make_pcap(outer, NANOSECONDS))
    splits = guesses(path, 3)
    assert len(splits) == 3
    reader = read_split(splits[0])
    list(reader)
    assert reader.reached is not None
    assert reader.reached.offset != splits[1].start
    assert read_of(splits) == whole(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(60, 30_000), st.integers(0, 40), st.binary(max_size=40)), max_size=6
    ),
    is_pcap=st.booleans(),
    count=st.integers(2, 9),
)
def test_guessed_splits_of_damaged_files_are_the_whole(
    tmp_path: Path, changes: list[tuple[int, int, bytes]], is_pcap: bool, count: int
) -> None:
    data = make_pcap(PACKETS, NANOSECONDS) if is_pcap else make_pcapng(PACKETS)
    for at, taken, put in changes:
        data = data[:at] + put + data[at + taken :]
    path = tmp_path / "capture"
    path.write_bytes(data)
    try:
        splits = guesses(path, count)
    except CaptureError:
        splits = []
    assume(splits)
    assert read_of(splits) == whole(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=300), count=st.integers(2, 4))
def test_any_bytes_are_looked_at_or_refused(tmp_path: Path, data: bytes, count: int) -> None:
    path = tmp_path / "capture"
    path.write_bytes(data)
    try:
        splits = guesses(path, count)
    except CaptureError:
        return
    assert [split.end for split in splits[-1:]] in ([], [len(data)])


def test_unsplittable_captures_are_not_inspected(tmp_path: Path) -> None:
    assert look_at("-") is None
    with pytest.raises(CaptureError, match="no such file"):
        look_at(str(tmp_path / "missing.pcap"))
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(make_pcap([]))
    assert look_at(str(empty)) is None
