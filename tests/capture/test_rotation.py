import gzip
import os
from pathlib import Path

import pytest

from kdissect.capture.capture_file import NO_PACKET_NS
from kdissect.capture.rotation import Chain, chains
from kdissect.errors import CaptureError, UnknownCaptureFormat
from tests.capture.writers import START_NS, Captured, make_pcap

MINUTE_NS = 60_000_000_000


def write(directory: Path, minutes: dict[str, int | None]) -> list[Path]:
    """Captures by name with the minute of their only packet; None: without a packet."""
    paths = []
    for name, minute in minutes.items():
        packets = [] if minute is None else [Captured(b"x", START_NS + minute * MINUTE_NS)]
        content = make_pcap(packets)
        (directory / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        paths.append(directory / name)
    return paths


def found(directory: Path, minutes: dict[str, int | None]) -> list[tuple[str, list[str]]]:
    """Name and files of each chain, without the directory."""
    return [
        (os.path.relpath(chain.name, directory), [Path(path).name for path in chain.paths])
        for chain in chains(write(directory, minutes))
    ]


@pytest.mark.parametrize(
    ("names", "together"),
    [
        (["t_00001_20240131235900.pcapng", "t_00002_20240131235959.pcapng"], "t_*.pcapng"),
        (["t_20240131235900_00001.pcapng", "t_20240131235959_00002.pcapng"], "t_*.pcapng"),
        (["eth0_00001_20240131235900", "eth0_00002_20240131235959"], "eth0_*"),
        (["t.pcap", "t.pcap1", "t.pcap2", "t.pcap10"], "t.pcap*"),
        (["t.pcap00", "t.pcap01", "t.pcap10"], "t.pcap*"),
        (["t.pcap.gz", "t.pcap1.gz", "t.pcap2"], "t.pcap*"),
        (["broker1", "broker2", "broker10"], "broker*"),
        (["t-2024-01-31_23:59:59.pcap", "t-2024-02-01_00:00:59.pcap"], "t-*.pcap"),
        (["t-20240131T235959Z.pcap", "t-20240201T000059Z.pcap"], "t-*.pcap"),
        (["t-2024-01-31-23.pcap", "t-2024-02-01-00.pcap"], "t-*.pcap"),
        (["t.20240131.pcap", "t.20240131.pcap1", "t.20240201.pcap"], "t.*.pcap"),
        (["t.1706745599.pcap", "t.1706745659.pcap"], "t.*.pcap"),
    ],
)
def test_names_that_dumpcap_and_tcpdump_give_are_one_chain(
    tmp_path: Path, names: list[str], together: str
) -> None:
    minutes: dict[str, int | None] = {name: minute for minute, name in enumerate(names)}
    assert found(tmp_path, minutes) == [(together, names)]


@pytest.mark.parametrize(
    "names",
    [
        ["broker-1.pcap", "broker-2.pcap"],
        ["eth0_00001_20240131235900.pcapng", "eth1_00001_20240131235900.pcapng"],
        ["a.pcap1", "b.pcap1"],
        ["a-20240131.pcap", "b-20240131.pcap"],
        ["kafka-2.8", "kafka-3.9"],
    ],
)
def test_taps_are_kept_apart(tmp_path: Path, names: list[str]) -> None:
    minutes: dict[str, int | None] = {name: minute for minute, name in enumerate(names)}
    assert found(tmp_path, minutes) == [(name, [name]) for name in names]


def test_taps_that_rotate_at_the_same_time_are_chains_of_their_own(tmp_path: Path) -> None:
    minutes: dict[str, int | None] = {"b.pcap0": 1, "a.pcap0": 2, "a.pcap1": 3, "b.pcap1": 4}
    assert found(tmp_path, minutes) == [
        ("b.pcap*", ["b.pcap0", "b.pcap1"]),
        ("a.pcap*", ["a.pcap0", "a.pcap1"]),
    ]


def test_a_ring_that_began_again_is_in_the_order_of_time(tmp_path: Path) -> None:
    minutes: dict[str, int | None] = {"t.pcap0": 13, "t.pcap1": 14, "t.pcap2": 10, "t.pcap3": 11}
    assert found(tmp_path, minutes) == [("t.pcap*", ["t.pcap2", "t.pcap3", "t.pcap0", "t.pcap1"])]


def test_files_that_begin_at_the_same_time_are_in_the_order_of_their_numbers(
    tmp_path: Path,
) -> None:
    minutes: dict[str, int | None] = {"t.pcap10": 1, "t.pcap": 1, "t.pcap9": 1}
    assert found(tmp_path, minutes) == [("t.pcap*", ["t.pcap", "t.pcap9", "t.pcap10"])]


def test_files_without_packets_come_last(tmp_path: Path) -> None:
    first, none = write(tmp_path, {"t.pcap1": 5, "t.pcap": None})
    empty = tmp_path / "t.pcap2"
    empty.write_bytes(b"")
    cut = tmp_path / "t.pcap3"
    cut.write_bytes(make_pcap([])[:10])
    assert chains([none, empty, cut, first]) == [
        Chain(
            str(tmp_path / "t.pcap*"),
            (str(first), str(none), str(empty), str(cut)),
            START_NS + 5 * MINUTE_NS,
        )
    ]


def test_a_pipe_is_a_chain_of_its_own_that_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert chains([pipe]) == [Chain(str(pipe), (str(pipe),), NO_PACKET_NS)]
    assert chains(["-"]) == [Chain("-", ("-",), NO_PACKET_NS)]


def test_files_that_are_no_captures_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        chains([tmp_path / "not there"])
    text = tmp_path / "notes.txt"
    text.write_text("no capture")
    with pytest.raises(UnknownCaptureFormat, match=r"notes\.txt"):
        chains([text])
