import os
from pathlib import Path

import pytest

from kdissect.dataset.complete_files import complete_files
from kdissect.dataset.taps import Tap, Taps
from kdissect.errors import KdissectError
from tests.capture.writers import START_NS, Captured, make_pcap

NOW = START_NS / 1e9 + 100_000
QUIET = 60.0


def write(path: Path, minute: int, age: float = 5) -> str:
    """A capture whose only packet was in that minute, last written `age` seconds ago."""
    packet = Captured(b"x" * 60, START_NS + minute * 60_000_000_000)
    return written(path, make_pcap([packet]), age)


def written(path: Path, content: bytes, age: float = 5) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (NOW - age, NOW - age))
    return str(path)


def complete(directory: Path, pattern: str | None = None) -> list[tuple[str, list[str]]]:
    found = complete_files([str(directory)], pattern, QUIET, NOW)
    assert found.broken == []
    return [(tap.name, [Path(path).name for path in tap.paths]) for tap in found.taps]


def test_a_file_is_complete_when_the_next_of_its_tap_is_there(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"a.pcap{number}", number)
    write(tmp_path / "b.pcap0", 0)
    assert complete(tmp_path) == [("a", ["a.pcap0", "a.pcap1"])]
    write(tmp_path / "b.pcap1", 1)
    assert complete(tmp_path) == [("a", ["a.pcap0", "a.pcap1"]), ("b", ["b.pcap0"])]


def test_a_file_that_has_not_grown_for_a_while_is_complete(tmp_path: Path) -> None:
    write(tmp_path / "a.pcap0", 0, age=QUIET)
    write(tmp_path / "b.pcap0", 1, age=QUIET - 1)
    assert complete(tmp_path) == [("a", ["a.pcap0"])]


def test_the_next_file_counts_as_soon_as_it_is_created(tmp_path: Path) -> None:
    write(tmp_path / "a.pcap0", 0, age=5)
    # Opened before: a file that was left over is not the next one.
    written(tmp_path / "a.pcap9", b"", age=6)
    assert complete(tmp_path) == []
    written(tmp_path / "a.pcap1", b"", age=5)
    assert complete(tmp_path) == [("a", ["a.pcap0"])]
    written(tmp_path / "a.pcap1", make_pcap([]), age=4)
    assert complete(tmp_path) == [("a", ["a.pcap0"])]


def test_in_a_ring_the_file_that_is_overwritten_is_the_last(tmp_path: Path) -> None:
    for number, minute in enumerate((4, 5, 2, 3)):
        write(tmp_path / f"ring.pcap{number}", minute)
    assert complete(tmp_path) == [("ring", ["ring.pcap2", "ring.pcap3", "ring.pcap0"])]
    written(tmp_path / "ring.pcap2", b"", age=1)
    assert complete(tmp_path) == [("ring", ["ring.pcap3", "ring.pcap0", "ring.pcap1"])]


def test_pattern_determines_the_next_file(tmp_path: Path) -> None:
    write(tmp_path / "b1-alpha.pcap", 0)
    write(tmp_path / "b1-beta.pcap", 1)
    write(tmp_path / "b2-gamma.pcap", 2)
    assert complete(tmp_path) == []
    assert complete(tmp_path, r"(b\d)-") == [("b1", ["b1-alpha.pcap"])]
    written(tmp_path / "b2-delta.pcap", b"", age=1)
    assert complete(tmp_path, r"(b\d)-") == [("b1", ["b1-alpha.pcap"]), ("b2", ["b2-gamma.pcap"])]


def test_unreadable_file_is_broken_once_it_stops_growing(tmp_path: Path) -> None:
    old = written(tmp_path / "a.pcap0", b"no capture" * 9, age=QUIET)
    written(tmp_path / "b.pcap0", b"no capture" * 9, age=QUIET - 1)
    found = complete_files([str(tmp_path)], None, QUIET, NOW)
    assert (found.taps, [one.path for one in found.broken]) == ([], [old])


def test_a_file_that_is_of_no_tap_is_broken(tmp_path: Path) -> None:
    good = write(tmp_path / "b1.pcap", 0, age=QUIET)
    other = write(tmp_path / "x.pcap", 0, age=QUIET)
    found = complete_files([str(tmp_path)], r"b\d", QUIET, NOW)
    assert found.taps == [Tap("b1", "tap:b1", (good,))]
    assert [(one.path, one.message) for one in found.broken] == [
        (other, f"{other}: does not match the pattern of taps, 'b\\\\d'")
    ]


def test_there_may_be_nothing_yet(tmp_path: Path) -> None:
    sources = [str(tmp_path), str(tmp_path / "*.pcap"), str(tmp_path / "not-yet")]
    assert complete_files(sources, None, QUIET, NOW) == Taps([], [], {})


def test_a_wrong_pattern_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.pcap0", 0)
    with pytest.raises(KdissectError, match=r"^tap '\(': missing \)"):
        complete_files([str(tmp_path)], "(", QUIET, NOW)
