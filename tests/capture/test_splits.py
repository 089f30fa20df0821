import gzip
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, settings
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from kdissect.capture.blocks import Secrets
from kdissect.capture.capture_file import CHUNK_SIZE
from kdissect.capture.files import open_captures
from kdissect.capture.format_context import InterfaceLayout, PcapLayout, SectionLayout
from kdissect.capture.pcap import MICROSECONDS, MODIFIED, NANOSECONDS
from kdissect.capture.scanner import RESYNC_LIMIT
from kdissect.capture.splits import Split, are_in_turn, iter_splits, plan, read_split
from kdissect.errors import CaptureError, Problem, TruncatedCapture, UnknownCaptureFormat
from tests.capture.writers import (
    START_NS,
    STEP_NS,
    Captured,
    Given,
    given,
    make_block,
    make_enhanced_packet,
    make_interface_block,
    make_obsolete_packet,
    make_pcap,
    make_pcapng,
    make_secrets,
    make_section_header,
    make_simple_packet,
    make_statistics,
)

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("**/*.pcap*"))
PACKETS = [b"first packet", b"", Captured(b"cut", START_NS + 5_123_457, 900), b"\x00" * 71] * 8
KEYS = Secrets(0x544C534B, b"CLIENT_RANDOM 00 11\n")


class Content(NamedTuple):
    """Packets and problems of reading."""

    packets: list[Given]
    problems: list[Problem]
    secrets: list[Secrets]


def whole(paths: Path | Sequence[Path], chunk_size: int = CHUNK_SIZE) -> Content:
    with open_captures(paths if isinstance(paths, Path) else list(paths), chunk_size) as capture:
        packets = [packet for batch in capture for packet in given(batch)]
        return Content(packets, capture.take_problems(), capture.secrets)


def from_splits(splits: Iterable[Split], chunk_size: int = CHUNK_SIZE) -> Content:
    """Output of the splits, each read from the context that another process would get."""
    content = Content([], [], [])
    for split in splits:
        copy = pickle.loads(pickle.dumps(split))  # noqa: S301  # what was just made
        reader = read_split(copy, chunk_size)
        packets = [packet for batch in reader for packet in given(batch)]
        assert [packet.ordinal for packet in packets[:1]] in ([], [split.ordinal])
        content.packets.extend(packets)
        content.problems.extend(reader.take_problems())
        content.secrets[:] = reader.secrets
    return content


def outcome(read: Callable[[], Content]) -> Content | tuple[type[CaptureError], str]:
    """Output of reading, or its error."""
    try:
        return read()
    except CaptureError as error:
        return type(error), str(error)


def many_kinds(order: str) -> bytes:
    """Two sections with everything before a packet that it can depend on."""
    units = START_NS // 1000
    blocks = [
        make_section_header(order),
        make_interface_block(order, 1, name="eth0", snap_length=40),
        make_interface_block(order, 113, resolution=9, offset_seconds=-7),
        make_simple_packet(order, b"simple " * 9),
        make_enhanced_packet(order, b"of eth0", units),
        make_enhanced_packet(order, b"of any", START_NS, interface=1),
        make_enhanced_packet(order, b"of no time", (1 << 64) - 1),
        make_secrets(order, *KEYS),
        make_block(order, 9, b"a journal entry"),
        make_enhanced_packet(order, b"of nobody", units, interface=7),
        make_statistics(order, 0, 5),
        make_obsolete_packet(order, b"obsolete", units + 5, 0),
        make_statistics(order, 0, 12),
        make_enhanced_packet(order, b"last but one", units + 6),
    ]
    other = "<" if order == ">" else ">"
    again = [
        make_section_header(other),
        make_interface_block(other, 276, resolution=3),
        make_enhanced_packet(other, b"of another section", START_NS // 1_000_000),
        make_statistics(other, 0, 1),
        make_simple_packet(other, b"the end"),
    ]
    return b"".join(blocks + again)


FILES = {
    **{
        f"pcap {magic:x}{order}": make_pcap(PACKETS, magic, order, 113, 96)
        for magic in (MICROSECONDS, NANOSECONDS, MODIFIED)
        for order in "<>"
    },
    "pcapng": make_pcapng(PACKETS),
    "many kinds <": many_kinds("<"),
    "many kinds >": many_kinds(">"),
    "many kinds thrice": many_kinds("<") + many_kinds(">") + many_kinds(">"),
}


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
@settings(max_examples=2, deadline=None)
@hypothesis_given(size=st.integers(300, 1 << 18))
def test_splits_of_every_capture_are_the_whole(path: Path, size: int) -> None:
    assert from_splits(plan([path], size)) == whole(path)


@pytest.mark.parametrize("name", FILES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@hypothesis_given(size=st.integers(1, 1500), chunk_size=st.integers(1, 1500))
def test_splits_of_every_kind_of_file_are_the_whole(
    tmp_path: Path, name: str, size: int, chunk_size: int
) -> None:
    path = tmp_path / "capture"
    path.write_bytes(FILES[name])
    splits = plan([path], size)
    assert from_splits(splits, chunk_size) == whole(path)
    edges = [(split.start, split.end) for split in splits]
    assert edges[0][0] == 0
    assert [start for start, _ in edges[1:]] == [end for _, end in edges[:-1]]
    assert edges[-1][1] == len(FILES[name])
    assert [split.is_last for split in splits] == [False] * (len(splits) - 1) + [True]


@pytest.mark.parametrize("name", FILES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@hypothesis_given(
    changes=st.lists(
        st.tuples(st.integers(24, 4000), st.integers(0, 12), st.binary(max_size=12)), max_size=4
    ),
    size=st.integers(1, 1500),
)
@example(changes=[(32, 1, b"d")], size=1)  # a block that claims to end after the next good one
def test_splits_of_damaged_files_are_the_whole(
    tmp_path: Path, name: str, changes: list[tuple[int, int, bytes]], size: int
) -> None:
    """Bytes are overwritten, taken out and put in, up to the end of the file and over it."""
    data = FILES[name]
    for at, taken, put in changes:
        data = data[:at] + put + data[at + taken :]
    path = tmp_path / "capture"
    path.write_bytes(data)
    assert outcome(lambda: from_splits(plan([path], size))) == outcome(lambda: whole(path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@hypothesis_given(
    data=st.binary(max_size=400), size=st.integers(1, 100), name=st.sampled_from("pn")
)
def test_any_bytes_give_splits_of_the_whole(
    tmp_path: Path, data: bytes, size: int, name: str
) -> None:
    path = tmp_path / "capture"
    path.write_bytes((make_pcap([b"x"]) if name == "p" else make_pcapng([b"x"])) + data)
    assert from_splits(plan([path], size)) == whole(path)


@pytest.mark.parametrize("make", [make_pcap, make_pcapng])
@pytest.mark.parametrize("beyond", [-400, 400])
def test_the_search_behind_damage_ends_at_the_same_place(
    tmp_path: Path, make: Callable[[Sequence[bytes]], bytes], beyond: int
) -> None:
    """The read size does not change the result, even near the limit of the search."""
    packets = [b"x" * 60] * 4
    good = make(packets)
    damage = b"\xff" * (RESYNC_LIMIT + beyond)
    again = make(packets)[len(make([])) :]
    path = tmp_path / "capture"
    path.write_bytes(good + damage + again)
    expected = whole(path)
    assert len(expected.packets) == (8 if beyond < 0 else 4)
    assert whole(path, 1 << 25) == expected
    assert from_splits(plan([path], 100_000), 300_000) == expected


def test_split_is_self_contained(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(make_pcap([b"abcd"] * 3, NANOSECONDS, ">", 113, 96))
    layout = PcapLayout(True, 1, 16, 96, 113)
    times = [START_NS, START_NS + STEP_NS, START_NS + 2 * STEP_NS]
    assert plan([path], 20) == [
        Split(str(path), 0, 0, 24, False, 1, 1, 0, -1, -1, -1, layout),
        Split(str(path), 0, 24, 44, False, 1, 1, 0, -1, times[0], times[0], layout),
        Split(str(path), 0, 44, 64, False, 2, 2, 0, times[0], times[1], times[1], layout),
        Split(str(path), 0, 64, 84, True, 3, 3, 0, times[1], times[2], times[2], layout),
    ]


def test_split_of_a_pcapng_file_has_the_context_of_its_section(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    head = make_section_header(">") + make_interface_block(">", 113, 96, 9, -7, "eth0")
    late = make_enhanced_packet(">", b"too late", (1 << 64) - 1)
    head += make_secrets(">", *KEYS) + late + make_statistics(">", 0, 5)
    path.write_bytes(head + make_block(">", 9, b"a journal entry") + make_pcapng([b"x"], ">"))
    splits = plan([path], 1)
    last = next(split for split in splits if split.number == 3)
    interface = InterfaceLayout(113, 96, "eth0", 1_000_000_000, -7_000_000_000, 1, 5)
    assert splits[0].layout == SectionLayout(True, (), (), 0)
    assert last.layout == SectionLayout(True, (interface,), (KEYS,), len(KEYS.content) + 8)
    assert last.ordinal == 2


def test_files_that_follow_each_other_are_counted_on(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c", "d")]
    journal = make_block("<", 9, b"a journal entry")
    paths[0].write_bytes(make_section_header() + journal + make_pcapng(PACKETS)[:-5])
    later = [Captured(b"later", START_NS + 10**12 + 1000 * index) for index in range(9)]
    paths[1].write_bytes(make_pcap(later)[:-3])
    paths[2].write_bytes(make_pcapng([Captured(b"last", START_NS + 10**13)]))
    paths[3].write_bytes(make_pcap([]))
    splits = plan(paths, 50)
    content, expected = from_splits(splits), whole(paths)
    assert content == expected
    assert are_in_turn(splits)
    assert [packet.ordinal for packet in content.packets] == [*range(1, 31 + 8 + 2)]
    assert [problem.capture for problem in content.problems] == [0, 1]
    assert sorted({split.capture for split in splits}) == [0, 1, 2, 3]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@hypothesis_given(
    files=st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=4),
    is_sorted=st.booleans(),
    size=st.integers(20, 100),
)
def test_splits_in_turn_are_the_whole_of_several_files(
    tmp_path: Path, files: list[list[int]], is_sorted: bool, size: int
) -> None:
    """Times of packets by file, which come near each other, meet or overlap."""
    paths = []
    for index, seconds in enumerate(files):
        base = index if is_sorted else 0
        times = [START_NS + (base * 3 + second) * 10**9 for second in seconds]
        paths.append(tmp_path / f"capture{index}")
        paths[-1].write_bytes(make_pcap([Captured(b"%d" % index, time) for time in times]))
    splits = plan(paths, size)
    content, expected = from_splits(splits), whole(paths)
    assert sorted(packet[1:4] for packet in content.packets) == sorted(
        packet[1:4] for packet in expected.packets
    )
    if are_in_turn(splits):
        assert content == expected
    for split in splits:
        seen = [packet.time_ns for packet in from_splits([split]).packets] or [-1]
        assert (split.earliest_ns, split.latest_ns) == (min(seen), max(seen))


def test_a_compressed_file_is_one_split_and_ordinals_begin_again_behind_it(tmp_path: Path) -> None:
    plain, packed, last = (tmp_path / name for name in ("a", "b.gz", "c"))
    plain.write_bytes(make_pcap([b"aaaa"] * 3))
    packed.write_bytes(gzip.compress(make_pcapng([Captured(b"b", START_NS + 10**12)] * 2)))
    last.write_bytes(make_pcap([Captured(b"cccc", START_NS + 10**13)] * 3))
    splits = plan([plain, packed, last], 20)
    assert [split[1:2] + split[5:8] for split in splits] == [
        *[(0, 1, 1, 0), (0, 1, 1, 0), (0, 2, 2, 0), (0, 3, 3, 0)],
        (1, 1, 4, 0),
        *[(2, 1, 1, 2), (2, 1, 1, 2), (2, 2, 2, 2), (2, 3, 3, 2)],
    ]
    assert splits[4] == Split(
        str(packed), 1, 0, packed.stat().st_size, True, 1, 4, 0, -1, -1, -1, None
    )
    assert not are_in_turn(splits)
    expected = whole([plain, packed, last])
    content = from_splits(splits)
    assert content.packets[:5] == expected.packets[:5]
    assert content.packets[5:] == [
        packet._replace(ordinal=packet.ordinal - 5) for packet in expected.packets[5:]
    ]


def test_a_damaged_compressed_file_has_the_problems_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(many_kinds("<"))[:-20])
    expected = whole(path)
    assert "truncated-file" in [problem.kind for problem in expected.problems]
    assert from_splits(plan([path], 50)) == expected


def test_a_pipe_is_one_split_that_is_not_read_to_plan_it(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    (split,) = plan([path], 50)
    assert are_in_turn([split])
    assert split == Split(str(path), 0, 0, -1, True, 1, 1, 0, -1, -1, -1, None)
    writer = threading.Thread(target=path.write_bytes, args=(make_pcap([b"a"] * 3),))
    writer.start()
    content = from_splits([split])
    writer.join()
    path.unlink()
    path.write_bytes(make_pcap([b"a"] * 3))
    assert content == whole(path)


def test_standard_input_is_one_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "capture"
    path.write_bytes(make_pcap([b"a"] * 3))
    with path.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert from_splits(plan(["-"])) == whole(path)


@pytest.mark.parametrize("content", [b"", b"\n\r", make_pcap([])[:10], make_pcapng([])[:10]])
def test_a_file_that_is_empty_yet_costs_its_packets(tmp_path: Path, content: bytes) -> None:
    """File of a ring buffer that tcpdump has just begun."""
    empty, path = tmp_path / "a", tmp_path / "b"
    empty.write_bytes(content)
    path.write_bytes(make_pcap([b"b"] * 3))
    expected = whole([path, empty])
    assert [problem.kind for problem in expected.problems] == ["empty-file"]
    assert from_splits(plan([path, empty], 20)) == expected
    assert are_in_turn(plan([path, empty], 20))
    assert not are_in_turn(plan([empty, path], 20))
    alone = outcome(lambda: whole(empty))
    assert isinstance(alone, tuple)
    assert outcome(lambda: from_splits(plan([empty], 20))) == alone


def test_files_that_are_no_captures_are_rejected(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no capture")
    with pytest.raises(UnknownCaptureFormat, match=r"notes\.txt"):
        plan([text])
    with pytest.raises(CaptureError, match="no such file"):
        plan([tmp_path / "not there"])
    with pytest.raises(ValueError, match="splits of 0 bytes"):
        plan([text], 0)


def test_a_replaced_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(make_pcap([b"abcd"] * 3))
    _, first, second, third = plan([path], 20)
    path.write_bytes(make_pcap([b"abcde"] * 2))
    with pytest.raises(CaptureError, match="no longer the file"):
        from_splits([first])
    with pytest.raises(TruncatedCapture, match=r"now ends at byte 66, inside a split"):
        from_splits([third])
    path.unlink()
    with pytest.raises(CaptureError, match="no such file"):
        from_splits([second])


def test_file_that_has_grown_is_read_to_its_planned_end(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(make_pcap([b"abcd"] * 3))
    splits, expected = plan([path], 20), whole(path)
    path.write_bytes(make_pcap([b"abcd"] * 9))
    assert from_splits(splits) == expected


def test_splits_are_given_before_the_file_was_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(make_pcap([b"abcd"] * 900))
    splits = iter_splits([path], 600)
    first = next(splits)
    path.write_bytes(make_pcap([b"abcd"] * 100))
    assert first.end == 24 + 54 * 20
    assert from_splits([first]).packets == whole(path).packets[:54]
    assert max(split.end for split in splits) == 24 + 100 * 20
