import os
import random
import socket
from pathlib import Path

import pytest

from kdissect.dataset.taps import Broken, find_taps, roots_of, taps_of
from kdissect.errors import KdissectError
from kdissect.spark.pipeline import dissect, dissect_taps
from tests.capture.writers import START_NS, Captured, make_pcap
from tests.seeds import SEED
from tests.spark.rotated import contents_of


def write(path: Path, hour: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(make_pcap([Captured(b"x" * 60, START_NS + hour * 3_600_000_000_000)]))
    return str(path)


def names(found: list[str]) -> list[str]:
    return [Path(path).name for path in found]


def test_files_of_a_tap_come_in_the_order_of_their_first_packets(tmp_path: Path) -> None:
    # The ring has begun again: 0 and 1 were written last.
    for number, hour in enumerate((3, 4, 1, 2)):
        write(tmp_path / f"ring.pcap{number}", hour)
    write(tmp_path / "edge_00001_20231114221320.pcapng", 0)
    write(tmp_path / "edge_00002_20231114231320.pcapng", 1)
    found = find_taps([str(tmp_path)]).taps
    assert [(tap.name, names(list(tap.paths))) for tap in found] == [
        ("edge", ["edge_00001_20231114221320.pcapng", "edge_00002_20231114231320.pcapng"]),
        ("ring", ["ring.pcap2", "ring.pcap3", "ring.pcap0", "ring.pcap1"]),
    ]


def test_the_name_of_a_tap_does_not_depend_on_how_many_files_it_has(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"tap-2023-11-14_2{number}.pcap", number) for number in range(3)]
    every = find_taps(paths).taps
    assert [(tap.name, tap.chain) for tap in every] == [("tap", str(tmp_path / "tap-*.pcap"))]
    for path in paths:
        (alone,) = find_taps([path]).taps
        assert (alone.name, alone.chain) == (every[0].name, every[0].chain)


def test_taps_of_the_same_name_are_distinguished_by_directory(tmp_path: Path) -> None:
    for broker in ("b1", "b2"):
        write(tmp_path / broker / "ring.pcap0", 0)
        write(tmp_path / broker / "ring.pcap1", 1)
    found = find_taps([str(tmp_path / "*" / "ring.pcap*")]).taps
    assert [tap.name for tap in found] == ["b1-ring", "b2-ring"]


def test_several_sources_name_taps_below_what_they_share(tmp_path: Path) -> None:
    brokers = random.Random(SEED).sample([f"b{number}" for number in range(20)], 4)
    for broker in brokers:
        for number in range(2):
            write(tmp_path / "rings" / broker / f"ring.pcap{number}", number)
    expected = sorted(f"{broker}-ring" for broker in brokers)
    for below in ("", "ring.pcap*"):  # directories, and globs
        sources = [str(tmp_path / "rings" / broker / below) for broker in brokers]
        for given in (sources, sources[::-1]):
            found = find_taps(given)
            assert sorted(tap.name for tap in found.taps) == expected
            assert found.broken == []
        assert [tap.name for tap in find_taps(sources[:1]).taps] == ["ring"]


def test_a_glob_may_match_directories(tmp_path: Path) -> None:
    paths = [write(tmp_path / broker / "ring.pcap0", 0) for broker in ("b1", "b2")]
    (tmp_path / "b1" / "notes").write_text("no capture")
    found = find_taps([str(tmp_path / "*")])
    assert [path for tap in found.taps for path in tap.paths] == paths
    assert found.broken == []


def test_a_pattern_assigns_a_file_to_a_tap(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "10h" / "rack-2" / "broker-1.pcap", 10),
        write(tmp_path / "09h" / "rack-2" / "broker-1.pcap", 9),
        write(tmp_path / "09h" / "rack-2" / "broker-2.pcap", 9),
    ]
    for pattern in (r"(?P<tap>broker-\d)", r"rack-\d/(broker-\d)", r"broker-\d"):
        found = find_taps(paths, pattern).taps
        assert [(tap.name, list(tap.paths)) for tap in found] == [
            ("broker-1", [paths[1], paths[0]]),
            ("broker-2", [paths[2]]),
        ]


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(", "missing"),
        ("edge-", "does not match the pattern"),
        (r"(x*)broker", "no name of a tap"),
    ],
)
def test_a_wrong_pattern_is_an_error(pattern: str, told: str, tmp_path: Path) -> None:
    path = write(tmp_path / "broker-1.pcap", 1)
    with pytest.raises(KdissectError, match=told):
        find_taps([path], pattern)


def test_unreadable_files_are_reported_and_others_are_found(tmp_path: Path) -> None:
    good = write(tmp_path / "ring.pcap0", 0)
    torn = tmp_path / "ring.pcap1"
    torn.write_bytes(b"PK\x03\x04" + bytes(99))
    empty = tmp_path / "ring.pcap2"
    empty.write_bytes(b"")
    (tmp_path / "README").write_text("passed over: not called like a capture")
    found = find_taps([str(tmp_path)])
    assert [tap.paths for tap in found.taps] == [(good,)]
    assert [one.path for one in found.broken] == [str(torn), str(empty)]
    empty_time_ns = empty.stat().st_mtime_ns
    assert found.broken[1] == Broken(str(empty), f"{empty}: empty file", 0, empty_time_ns)
    assert [one.path for one in find_taps([str(tmp_path / "README")]).broken] == [
        str(tmp_path / "README")
    ]


def test_pipes_devices_and_sockets_are_reported_and_never_read(tmp_path: Path) -> None:
    good = write(tmp_path / "a.pcap0", 0)
    (tmp_path / "b.pcap0").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "c.pcap0")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "d.pcap0"))
    outcome = dissect(None, [str(tmp_path / "*")], tmp_path / "dataset")
    assert (outcome.captures, len(outcome.broken)) == (1, 3)
    entries = sorted(contents_of(tmp_path / "dataset").broken, key=lambda one: one.path)
    named = [str(tmp_path / f"{name}.pcap0") for name in "bcd"]
    assert [(one.path, one.message) for one in entries] == [
        (path, f"{path}: not a regular file") for path in named
    ]
    assert [tap.paths for tap in find_taps([str(tmp_path / "*.pcap0")]).taps] == [(good,)]


def test_nothing_to_be_found_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KdissectError, match="no file matches"):
        find_taps([str(tmp_path / "*.pcap")])
    with pytest.raises(KdissectError, match="no capture was found"):
        find_taps([str(tmp_path)])


DAYS = ("2026-11-21/b{}", "dt=2026-11-22/b{}", "2026/11/23/07/b{}", "b{}/2026-11-24T05Z")


def test_names_do_not_depend_on_the_order_in_which_files_come(tmp_path: Path) -> None:
    draw = random.Random(f"{SEED} names")
    places = [place.format(broker) for place in DAYS for broker in (1, 2)]
    paths = [write(tmp_path / place / "ring.pcap0", hour) for hour, place in enumerate(places)]
    expected = {path: "b1-ring" if "b1" in path else "b2-ring" for path in paths}
    for source in (str(tmp_path), str(tmp_path / "**" / "ring.pcap*")):
        dataset = tmp_path / f"dataset {len(source)}"
        coming, there = draw.sample(paths, len(paths)), []
        while coming:
            there += [coming.pop() for _ in range(min(len(coming), draw.randint(1, 3)))]
            roots = roots_of([source])
            dissect_taps(None, taps_of(dict.fromkeys(there, True), None, roots), dataset)
        contents = contents_of(dataset)
        found = {one.path: tap.name for tap in contents.taps for one in tap.captures}
        assert {path: found[path] for path in paths} == expected
        assert {tap.name for tap in contents.taps} == {"b1-ring", "b2-ring"}
    whole = find_taps([str(tmp_path / "**" / "ring.pcap*")])
    for _ in range(5):
        some = draw.sample(paths, draw.randint(1, len(paths)))
        part = taps_of(dict.fromkeys(some, True), None, roots_of([str(tmp_path)]))
        names_by_path = {path: tap.name for tap in part.taps for path in tap.paths}
        assert names_by_path == {path: expected[path] for path in some}
    assert sorted(tap.name for tap in whole.taps) == ["b1-ring", "b2-ring"]


def test_a_name_that_another_tap_has_is_refused_and_nothing_is_mixed(tmp_path: Path) -> None:
    one = write(tmp_path / "b1" / "ring.pcap0", 0)
    two = write(tmp_path / "b2" / "ring.pcap0", 1)
    dataset = tmp_path / "dataset"
    dissect(None, [one], dataset)
    outcome = dissect(None, [two], dataset)
    assert [(tap.name, len(tap.captures)) for tap in outcome.contents.taps] == [("ring", 1)]
    (broken,) = outcome.broken
    assert broken.path == two
    assert broken.message.startswith(f"another tap is called ring ({tmp_path}/b1/ring.pcap*)")
    outcome = dissect(None, [two], dataset, tap="b[0-9]")
    assert [tap.name for tap in outcome.contents.taps] == ["ring", "b2"]
    assert outcome.contents.broken == []
