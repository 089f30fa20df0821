import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from kdissect.errors import CaptureError, UnknownCaptureFormat
from kdissect.live.watcher import Watcher
from kdissect.sources import tail
from kdissect.sources.tail import FollowedWire
from tests.capture.writers import Captured, Given, given, make_pcap, make_pcapng
from tests.live.listening import Kept

SECOND_NS = 1_000_000_000
START_S = 1_700_000_000
HEADER = make_pcap([])


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "LOOK_S", 0.0)
    monkeypatch.setattr(tail, "SLEEP_S", 0.001)


def at(*seconds: int) -> list[Captured]:
    """Packets of those seconds, with these in them."""
    return [Captured(b"%060d" % second, (START_S + second) * SECOND_NS) for second in seconds]


def records(*seconds: int) -> bytes:
    return make_pcap(at(*seconds))[len(HEADER) :]


def told(wire: FollowedWire) -> list[Given]:
    packets = []
    for _ in range(50):
        packets += wire.read(0.001) or []
    return given(packets)


def seconds(wire: FollowedWire) -> list[int]:
    """In what seconds the packets are that come; they count on."""
    return [int(packet.data) for packet in told(wire)]


def kinds(wire: FollowedWire) -> list[str]:
    return [problem.kind for problem in wire.take_problems()]


def test_what_is_appended_to_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(b"")
    with FollowedWire(path) as wire:
        assert seconds(wire) == []
        with path.open("ab") as file:
            for piece in (HEADER[:10], HEADER[10:], records(1)[:30]):
                file.write(piece)
                file.flush()
                assert seconds(wire) == []
            file.write(records(1)[30:] + records(2))
            file.flush()
            assert seconds(wire) == [1, 2]
            file.write(records(3))
            file.flush()
            assert told(wire) == [Given(3, (START_S + 3) * SECOND_NS, 1, b"%060d" % 3, 60, 3, 0)]
        assert kinds(wire) == []
        assert wire.names == [str(path)]


def test_a_compressed_file_that_grows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap.gz"
    stored = gzip.compress(make_pcap(at(1, 2)))
    path.write_bytes(stored[:20])
    with FollowedWire(path) as wire:
        before = seconds(wire)
        with path.open("ab") as file:
            file.write(stored[20:])
        assert before + seconds(wire) == [1, 2]


def test_a_file_that_is_replaced_is_read_to_its_end_first(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(make_pcap(at(1)))
    with FollowedWire(path) as wire, path.open("ab") as file:
        assert seconds(wire) == [1]
        path.rename(tmp_path / "old")
        path.write_bytes(make_pcap(at(5, 6)))
        file.write(records(2))
        file.flush()
        packets = told(wire)
    assert [int(packet.data) for packet in packets] == [2, 5, 6]
    assert [(packet.number, packet.ordinal) for packet in packets] == [(2, 2), (1, 3), (2, 4)]
    assert kinds(wire) == []


def test_a_file_that_is_truncated_is_read_anew_and_that_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(make_pcap(at(1, 2)) + b"half")
    with FollowedWire(path) as wire:
        assert seconds(wire) == [1, 2]
        path.write_bytes(HEADER)
        assert seconds(wire) == []
        path.write_bytes(make_pcap(at(7)))
        assert seconds(wire) == [7]
        assert kinds(wire) == ["truncated-packet", "overwritten-file"]


def test_a_longer_copy_with_the_same_name_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(make_pcap(at(1, 2)))
    with FollowedWire(path) as wire:
        assert seconds(wire) == [1, 2]
        (tmp_path / "copy").write_bytes(make_pcap(at(1, 2, 3)))
        (tmp_path / "copy").rename(path)
        assert seconds(wire) == [3]
        assert kinds(wire) == []


def test_a_file_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(make_pcap(at(1)))
    with FollowedWire(path) as wire:
        assert seconds(wire) == [1]
        path.unlink()
        assert seconds(wire) == []
        path.write_bytes(make_pcap(at(4)))
        assert seconds(wire) == [4]


def count(number: int) -> str:
    return f"tap.pcap{number or ''}"


def ring(number: int) -> str:
    return f"tap_{number:05}_20231114221320.pcapng"


def dated(number: int) -> str:
    return f"tap-2023-11-14_22:{number:02}:20.pcap"


@pytest.mark.parametrize("name", [count, ring, dated])
@pytest.mark.parametrize("is_glob", [False, True])
def test_files_of_a_tap_are_read_in_turn_none_twice(
    tmp_path: Path, name: Callable[[int], str], is_glob: bool
) -> None:
    make = make_pcapng if name is ring else make_pcap
    for number in (8, 9):
        (tmp_path / name(number)).write_bytes(make(at(10 * number)))
    with FollowedWire(tmp_path / "tap*" if is_glob else tmp_path) as wire:
        assert seconds(wire) == [80, 90]
        (tmp_path / name(9)).write_bytes(make(at(90, 91)))
        assert seconds(wire) == [91]
        (tmp_path / name(10)).write_bytes(make([]))
        assert seconds(wire) == []
        (tmp_path / name(10)).write_bytes(make(at(100)))
        (tmp_path / name(8)).unlink()
        assert seconds(wire) == [100]
        (tmp_path / name(11)).write_bytes(make(at(110, 111)))
        packets = told(wire)
        assert [(int(one.data), one.ordinal, one.capture) for one in packets] == [
            (110, 5, 4),
            (111, 6, 4),
        ]
        assert wire.names[1:] == [str(tmp_path / name(number)) for number in (8, 9, 10, 11)]
        assert kinds(wire) == []


def test_what_a_ring_writes_over_is_read_again_when_it_is_new(tmp_path: Path) -> None:
    one, other = tmp_path / "tap.pcap0", tmp_path / "tap.pcap1"
    with FollowedWire(tmp_path) as wire:
        assert seconds(wire) == []
        for second in range(0, 60, 10):
            (other if second % 20 else one).write_bytes(make_pcap(at(second, second + 1)))
            assert seconds(wire) == [second, second + 1]
        assert wire.names == [str(tmp_path), str(one), str(other)]
        assert kinds(wire) == []


def test_what_is_compressed_afterwards_is_the_same(tmp_path: Path) -> None:
    one, other = tmp_path / "tap.pcap0", tmp_path / "tap.pcap1"
    one.write_bytes(make_pcap(at(1)))
    other.write_bytes(make_pcap(at(5)))
    with FollowedWire(tmp_path) as wire:
        assert seconds(wire) == [1, 5]
        stored = gzip.compress(make_pcap(at(1)))
        (tmp_path / "tap.pcap0.gz").write_bytes(stored[:15])
        assert seconds(wire) == []
        (tmp_path / "tap.pcap0.gz").write_bytes(stored)
        one.unlink()
        with other.open("ab") as file:
            file.write(records(6))
        assert seconds(wire) == [6]
        assert kinds(wire) == []


def test_a_file_that_goes_before_it_was_read_is_told(tmp_path: Path) -> None:
    (tmp_path / count(1)).write_bytes(make_pcap(at(1)))
    with FollowedWire(tmp_path) as wire:
        assert seconds(wire) == [1]
        for number in (2, 3):
            (tmp_path / count(number)).write_bytes(make_pcap(at(number)))
        wire._look()
        (tmp_path / count(3)).unlink()
        assert seconds(wire) == [2]
        (problem,) = wire.take_problems()
        assert problem.kind == "lost-file"
        assert problem.message.endswith("tap.pcap3: gone before it was read, with all its packets")


def test_what_is_of_another_tap_or_no_capture_is_passed_over_and_told_once(tmp_path: Path) -> None:
    (tmp_path / count(1)).write_bytes(make_pcap(at(1)))
    (tmp_path / "README").write_text("what these files are")
    with FollowedWire(tmp_path) as wire:
        assert seconds(wire) == [1]
        (tmp_path / "other-1.pcap").write_bytes(make_pcap(at(3)))
        assert seconds(wire) == []
        found = sorted(problem.message for problem in wire.take_problems())
    assert found[0].startswith(f"{tmp_path}/README: not a pcap or pcapng file")
    assert found[1].startswith(f"{tmp_path}/other-1.pcap: of another tap than {tmp_path}/tap.pcap*")
    assert len(found) == 2


def test_what_is_passed_over_becomes_a_row_where_there_is_no_capture_yet(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("what these files are")
    kept = Kept(["problems"])
    with FollowedWire(tmp_path) as wire:
        watcher = Watcher(wire, [kept])
        watcher.begin()
        watcher.step()
        watcher.step()
        watcher.finish()
    (row,) = kept.rows["problems"]
    assert (row["kind"], row["capture"]) == ("passed-over", str(tmp_path))


def test_an_older_file_that_comes_late_does_not_end_the_newer_one(tmp_path: Path) -> None:
    (tmp_path / count(5)).write_bytes(make_pcap(at(50)))
    with FollowedWire(tmp_path) as wire:
        assert seconds(wire) == [50]
        (tmp_path / count(4)).write_bytes(make_pcap(at(40)))
        assert seconds(wire) == []
        with (tmp_path / count(5)).open("ab") as file:
            file.write(records(51))
        assert seconds(wire) == [51]
        assert kinds(wire) == ["passed-over"]


def test_a_file_that_is_named_must_be_a_capture(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        FollowedWire(tmp_path / "tap.pcap")
    path = tmp_path / "notes"
    path.write_text("12:00:00 IP a > b")
    with FollowedWire(path) as wire, pytest.raises(UnknownCaptureFormat, match="notes: not a pcap"):
        wire.read(0.1)


def test_files_that_are_closed_stay_closed(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(HEADER)
    before = len(list(Path("/proc/self/fd").iterdir()))
    wire = FollowedWire(path)
    wire.close()
    wire.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
