import gzip
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kdissect.errors import CaptureError, UnknownCaptureFormat
from kdissect.live.watcher import Watcher
from kdissect.sources import tail
from kdissect.sources.packet_source import Behind
from kdissect.sources.tail import TailSource
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


def told(packet_source: TailSource) -> list[Given]:
    packets = []
    for _ in range(50):
        packets += packet_source.read(0.001) or []
    return given(packets)


def seconds(packet_source: TailSource) -> list[int]:
    """The second in which each packet arrives; the numbers go up."""
    return [int(packet.data) for packet in told(packet_source)]


def kinds(packet_source: TailSource) -> list[str]:
    return [problem.kind for problem in packet_source.take_problems()]


def test_appended_bytes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(b"")
    with TailSource(path) as packet_source:
        assert seconds(packet_source) == []
        with path.open("ab") as file:
            for piece in (HEADER[:10], HEADER[10:], records(1)[:30]):
                file.write(piece)
                file.flush()
                assert seconds(packet_source) == []
            file.write(records(1)[30:] + records(2))
            file.flush()
            assert seconds(packet_source) == [1, 2]
            file.write(records(3))
            file.flush()
            assert told(packet_source) == [
                Given(3, (START_S + 3) * SECOND_NS, 1, b"%060d" % 3, 60, 3, 0)
            ]
        assert kinds(packet_source) == []
        assert packet_source.names == [str(path)]


def test_the_backlog_is_what_was_written_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(HEADER)
    with TailSource(path) as packet_source:
        assert packet_source.behind() == Behind(len(HEADER), 0.0), "no packet was read yet"
        with path.open("ab") as file:
            file.write(records(1))
            file.flush()
            assert seconds(packet_source) == [1]
            assert packet_source.behind() == Behind(0, 0.0)
            file.write(records(2, 3))
            file.flush()
            behind = packet_source.behind()
        assert behind.bytes == len(records(2, 3))
        assert abs(behind.seconds - (time.time() - START_S - 1)) < 60
        assert seconds(packet_source) == [2, 3]
        assert packet_source.behind() == Behind(0, 0.0)
    assert packet_source.behind() == Behind(0, 0.0), "closed"


def test_the_backlog_of_a_tap_has_its_later_files(tmp_path: Path) -> None:
    sizes = []
    for number in (1, 2, 3):
        content = HEADER + records(number) * number
        sizes.append(len(content))
        (tmp_path / f"tap.pcap{number}").write_bytes(content)
    (tmp_path / "other.pcap9").write_bytes(HEADER + records(9))
    with TailSource(str(tmp_path / "tap.pcap*")) as packet_source:
        assert packet_source.behind().bytes == sum(sizes)
        packet_source.read(0)
        packet_source.read(0)
        assert packet_source.behind().bytes == sizes[1] + sizes[2]
        (tmp_path / "tap.pcap4").write_bytes(HEADER + records(4))
        assert packet_source.behind().bytes == sizes[1] + sizes[2] + len(HEADER + records(4))
        assert seconds(packet_source) == [2, 2, 3, 3, 3, 4]
        assert packet_source.behind() == Behind(0, 0.0)


def test_a_compressed_file_that_grows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap.gz"
    stored = gzip.compress(make_pcap(at(1, 2)))
    path.write_bytes(stored[:20])
    with TailSource(path) as packet_source:
        before = seconds(packet_source)
        with path.open("ab") as file:
            file.write(stored[20:])
        assert before + seconds(packet_source) == [1, 2]


def test_a_file_that_is_replaced_is_read_to_its_end_first(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(make_pcap(at(1)))
    with TailSource(path) as packet_source, path.open("ab") as file:
        assert seconds(packet_source) == [1]
        path.rename(tmp_path / "old")
        path.write_bytes(make_pcap(at(5, 6)))
        file.write(records(2))
        file.flush()
        packets = told(packet_source)
    assert [int(packet.data) for packet in packets] == [2, 5, 6]
    assert [(packet.number, packet.ordinal) for packet in packets] == [(2, 2), (1, 3), (2, 4)]
    assert kinds(packet_source) == []


def test_a_truncated_file_is_reread_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(make_pcap(at(1, 2)) + b"half")
    with TailSource(path) as packet_source:
        assert seconds(packet_source) == [1, 2]
        path.write_bytes(HEADER)
        assert seconds(packet_source) == []
        path.write_bytes(make_pcap(at(7)))
        assert seconds(packet_source) == [7]
        assert kinds(packet_source) == ["truncated-packet", "overwritten-file"]


def test_a_longer_copy_with_the_same_name_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(make_pcap(at(1, 2)))
    with TailSource(path) as packet_source:
        assert seconds(packet_source) == [1, 2]
        (tmp_path / "copy").write_bytes(make_pcap(at(1, 2, 3)))
        (tmp_path / "copy").rename(path)
        assert seconds(packet_source) == [3]
        assert kinds(packet_source) == []


def test_a_file_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(make_pcap(at(1)))
    with TailSource(path) as packet_source:
        assert seconds(packet_source) == [1]
        path.unlink()
        assert seconds(packet_source) == []
        path.write_bytes(make_pcap(at(4)))
        assert seconds(packet_source) == [4]


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
    with TailSource(tmp_path / "tap*" if is_glob else tmp_path) as packet_source:
        assert seconds(packet_source) == [80, 90]
        (tmp_path / name(9)).write_bytes(make(at(90, 91)))
        assert seconds(packet_source) == [91]
        (tmp_path / name(10)).write_bytes(make([]))
        assert seconds(packet_source) == []
        (tmp_path / name(10)).write_bytes(make(at(100)))
        (tmp_path / name(8)).unlink()
        assert seconds(packet_source) == [100]
        (tmp_path / name(11)).write_bytes(make(at(110, 111)))
        packets = told(packet_source)
        assert [(int(one.data), one.ordinal, one.capture) for one in packets] == [
            (110, 5, 4),
            (111, 6, 4),
        ]
        assert packet_source.names[1:] == [
            str(tmp_path / name(number)) for number in (8, 9, 10, 11)
        ]
        assert kinds(packet_source) == []


def test_files_overwritten_by_a_ring_are_read_again(tmp_path: Path) -> None:
    one, other = tmp_path / "tap.pcap0", tmp_path / "tap.pcap1"
    with TailSource(tmp_path) as packet_source:
        assert seconds(packet_source) == []
        for second in range(0, 60, 10):
            (other if second % 20 else one).write_bytes(make_pcap(at(second, second + 1)))
            assert seconds(packet_source) == [second, second + 1]
        assert packet_source.names == [str(tmp_path), str(one), str(other)]
        assert kinds(packet_source) == []


def test_file_compressed_afterwards_is_not_read_twice(tmp_path: Path) -> None:
    one, other = tmp_path / "tap.pcap0", tmp_path / "tap.pcap1"
    one.write_bytes(make_pcap(at(1)))
    other.write_bytes(make_pcap(at(5)))
    with TailSource(tmp_path) as packet_source:
        assert seconds(packet_source) == [1, 5]
        stored = gzip.compress(make_pcap(at(1)))
        (tmp_path / "tap.pcap0.gz").write_bytes(stored[:15])
        assert seconds(packet_source) == []
        (tmp_path / "tap.pcap0.gz").write_bytes(stored)
        one.unlink()
        with other.open("ab") as file:
            file.write(records(6))
        assert seconds(packet_source) == [6]
        assert kinds(packet_source) == []


def test_a_file_removed_before_it_was_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / count(1)).write_bytes(make_pcap(at(1)))
    with TailSource(tmp_path) as packet_source:
        assert seconds(packet_source) == [1]
        for number in (2, 3):
            (tmp_path / count(number)).write_bytes(make_pcap(at(number)))
        packet_source._look()
        (tmp_path / count(3)).unlink()
        assert seconds(packet_source) == [2]
        (problem,) = packet_source.take_problems()
        assert problem.kind == "lost-file"
        assert problem.message.endswith("tap.pcap3: gone before it was read, with all its packets")


def test_files_of_other_taps_or_no_captures_are_skipped_and_reported_once(tmp_path: Path) -> None:
    (tmp_path / count(1)).write_bytes(make_pcap(at(1)))
    (tmp_path / "README").write_text("what these files are")
    with TailSource(tmp_path) as packet_source:
        assert seconds(packet_source) == [1]
        (tmp_path / "other-1.pcap").write_bytes(make_pcap(at(3)))
        assert seconds(packet_source) == []
        found = sorted(problem.message for problem in packet_source.take_problems())
    assert found[0].startswith(f"{tmp_path}/README: not a pcap or pcapng file")
    assert found[1].startswith(f"{tmp_path}/other-1.pcap: of another tap than {tmp_path}/tap.pcap*")
    assert len(found) == 2


def test_skipped_file_is_reported_before_the_first_capture(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("what these files are")
    kept = Kept(["problems"])
    with TailSource(tmp_path) as packet_source:
        watcher = Watcher(packet_source, [kept])
        watcher.begin()
        watcher.step()
        watcher.step()
        watcher.finish()
    (row,) = kept.rows["problems"]
    assert (row["kind"], row["capture"]) == ("passed-over", str(tmp_path))


def test_an_older_file_that_comes_late_does_not_end_the_newer_one(tmp_path: Path) -> None:
    (tmp_path / count(5)).write_bytes(make_pcap(at(50)))
    with TailSource(tmp_path) as packet_source:
        assert seconds(packet_source) == [50]
        (tmp_path / count(4)).write_bytes(make_pcap(at(40)))
        assert seconds(packet_source) == []
        with (tmp_path / count(5)).open("ab") as file:
            file.write(records(51))
        assert seconds(packet_source) == [51]
        assert kinds(packet_source) == ["passed-over"]


def test_a_file_that_is_named_must_be_a_capture(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        TailSource(tmp_path / "tap.pcap")
    path = tmp_path / "notes"
    path.write_text("12:00:00 IP a > b")
    with (
        TailSource(path) as packet_source,
        pytest.raises(UnknownCaptureFormat, match="notes: not a pcap"),
    ):
        packet_source.read(0.1)


def test_files_that_are_closed_stay_closed(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(HEADER)
    before = len(list(Path("/proc/self/fd").iterdir()))
    packet_source = TailSource(path)
    packet_source.close()
    packet_source.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
