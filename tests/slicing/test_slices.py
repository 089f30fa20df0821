"""Slices: the same exchanges come out of them, of the same packets."""

import gzip
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdissect
from kdissect import KdissectError, OutputError
from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.cli.program import run
from kdissect.slicing.slices import write_slice
from tests.capture.writers import NANOSECONDS, Captured, make_pcap, make_pcapng
from tests.packets.encapsulations import encapsulations
from tests.recovery.cases import make_case
from tests.recovery.faults import CLASSES
from tests.recovery.talks import packets_of
from tests.seeds import SEED
from tests.slicing.comparing import compared, rows_of, write_packets

NO_TIME = (1 << 63) - 1
ENHANCED_PACKET = 6
TIME_AT = 12

CAPTURES = Path("captures")
QUICKSTART = CAPTURES / "quickstart.pcapng"
SAMPLES = (
    "quickstart.pcapng",
    "basics-0.10.2.2.pcapng",
    "sasl-0.10.2.2.pcapng",
    "networks/vxlan-4.3.1.pcapng",
    "networks/views/bridged-4.3.1-any-sll2.pcapng",
    "networks/views/bridged-4.3.1-late.pcapng",
    "networks/views/bridged-4.3.1-responses.pcapng",
    "networks/views/bridged-4.3.1-snap128.pcapng",
    "old/kafka-0.7.pcapng",
    "other/proxied.pcapng",
    "tls/tls-sasl-4.3.1.pcapng",
)
ONE_IN_SEVEN = "exchange_id // 100000 % 7 = {}"
FRAME = re.compile(r"kdissect: frame (\d+) of (\S+)")


@pytest.mark.parametrize("is_whole", [False, True], ids=["exchanges", "connections"])
@pytest.mark.parametrize("name", SAMPLES)
def test_the_exchanges_of_a_slice_are_those_that_were_chosen(
    name: str, is_whole: bool, tmp_path: Path
) -> None:
    where = ONE_IN_SEVEN.format(3)
    chosen, found = compared(CAPTURES / name, tmp_path / "a.pcapng", where, is_whole)
    assert chosen
    assert found == chosen


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CLASSES))
@settings(max_examples=3, derandomize=True)
@given(seed=st.integers(0, 1 << 32), is_whole=st.booleans())
def test_the_exchanges_of_a_slice_survive_any_network_or_capture_fault(
    name: str, seed: int, is_whole: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("faulty")
    case = make_case(name, seed)
    write_packets(directory / "a.pcapng", packets_of(case.wires, case.broker_port))
    chosen, found = compared(
        directory / "a.pcapng",
        directory / "b.pcapng",
        ONE_IN_SEVEN.format(seed % 7),
        is_whole,
        ports=[case.broker_port],
    )
    assert found == chosen


WRAPPINGS = encapsulations()


@pytest.mark.parametrize("name", ["802.1Q", "VXLAN", "GRE", "link radiotap"])
def test_packets_in_tunnels_and_vlans_are_found(name: str, tmp_path: Path) -> None:
    wrap = WRAPPINGS[name]
    link_type, _ = wrap(bytes(12) + b"\x08\x00" + b"\x45" + bytes(39))
    made = [
        Captured(wrap(packet.data[packet.start : packet.end])[1], packet.time_ns)
        for packet in packets_in(CAPTURES / "telemetry-4.3.1.pcapng")
    ]
    (tmp_path / "a.pcapng").write_bytes(make_pcapng(made, link_type=link_type))
    chosen, found = compared(tmp_path / "a.pcapng", tmp_path / "b.pcapng", ONE_IN_SEVEN.format(2))
    assert chosen
    assert found == chosen


def test_all_fragments_of_an_ip_packet_come_along(tmp_path: Path) -> None:
    made = []
    for packet in packets_in(CAPTURES / "telemetry-4.3.1.pcapng"):
        frame = packet.data[packet.start : packet.end]
        made += [
            Captured(part, packet.time_ns + index * 100)
            for index, part in enumerate(in_fragments(frame, packet.number))
        ]
    (tmp_path / "a.pcapng").write_bytes(make_pcapng(made))
    chosen, found = compared(tmp_path / "a.pcapng", tmp_path / "b.pcapng", ONE_IN_SEVEN.format(1))
    assert chosen
    assert found == chosen


def in_fragments(frame: bytes, identification: int) -> list[bytes]:
    """A frame of IPv4 without options in fragments with 64 bytes each."""
    header, payload = frame[14:34], frame[34 : 14 + int.from_bytes(frame[16:18], "big")]
    parts = []
    for start in range(0, len(payload), 64):
        part = payload[start : start + 64]
        more = 0x2000 if start + 64 < len(payload) else 0
        fields = (20 + len(part), identification, start // 8 | more)
        words = b"".join(field.to_bytes(2, "big") for field in fields)
        parts.append(frame[:14] + header[:2] + words + header[8:] + part)
    return parts


def packets_in(*paths: Path) -> list[Packet]:
    with open_captures(list(paths)) as capture:
        return [packet for batch in capture for packet in batch]


def comments_in(path: Path) -> list[tuple[int, str]]:
    """Frame number and file from each packet's comment, read from the bytes."""
    found = FRAME.findall(path.read_bytes().decode("latin-1"))
    return [(int(number), name.split("\0")[0]) for number, name in found]


def test_every_packet_is_the_one_its_comment_names(tmp_path: Path) -> None:
    write_slice(QUICKSTART, tmp_path / "a.pcapng", "error_code <> 0")
    originals = {packet.number: packet for packet in packets_in(QUICKSTART)}
    copies = packets_in(tmp_path / "a.pcapng")
    comments = comments_in(tmp_path / "a.pcapng")
    assert len(copies) == len(comments) > 100
    for packet, (number, name) in zip(copies, comments, strict=True):
        original = originals[number]
        assert name == "quickstart.pcapng"
        assert values_of(packet) == values_of(original)
    assert [number for number, _ in comments] == sorted(number for number, _ in comments)


def values_of(packet: Packet) -> tuple[object, ...]:
    captured = packet.data[packet.start : packet.end]
    return packet.time_ns, packet.link_type, captured, packet.original_length


def test_a_slice_has_nothing_of_other_connections(tmp_path: Path) -> None:
    write_slice(QUICKSTART, tmp_path / "a.pcapng", "client_id = 'slow-rd'", connections=True)
    clients = {row["client_id"] for row in rows_of(tmp_path / "a.pcapng")}
    assert clients == {"slow-rd"}


def test_the_start_of_the_connection_comes_along(tmp_path: Path) -> None:
    write_slice(QUICKSTART, tmp_path / "a.pcapng", "latency_ns > 1e9")
    found = kdissect.read(tmp_path / "a.pcapng", table="connections").to_arrow().to_pylist()
    assert [(row["syn_seen"], row["broker_side_by"]) for row in found] == [(True, "syn")]
    assert [row["api"] for row in rows_of(tmp_path / "a.pcapng")] == ["ApiVersions", "Produce"]


def test_names_of_topics_that_are_known_by_id_come_along(tmp_path: Path) -> None:
    where = "api = 'Fetch' and record_count > 0 and client_id = 'worker-java'"
    write_slice(QUICKSTART, tmp_path / "a.pcapng", where)
    topics = kdissect.read(
        tmp_path / "a.pcapng", table="partitions", columns=["topic", "record_count"]
    ).to_arrow()
    assert {row["topic"] for row in topics.to_pylist() if row["record_count"]} == {"orders"}


def test_the_condition_may_ask_other_tables(tmp_path: Path) -> None:
    topic = "SELECT exchange_id FROM all_partitions WHERE topic = 'payments'"
    where = f"api = 'Produce' AND exchange_id IN ({topic})"
    made = write_slice(QUICKSTART, tmp_path / "a.pcapng", where)
    topics = kdissect.read(
        tmp_path / "a.pcapng", table="partitions", columns=["topic", "record_bytes"]
    ).to_arrow()
    assert {row["topic"] for row in topics.to_pylist() if row["record_bytes"]} == {"payments"}
    assert made.exchanges == 3


def test_time_before_and_after_comes_along_when_it_is_asked_for(tmp_path: Path) -> None:
    where = "latency_ns > 1e9"
    bare = write_slice(QUICKSTART, tmp_path / "a.pcapng", where)
    second = 1_000_000_000
    before = write_slice(QUICKSTART, tmp_path / "b.pcapng", where, before_ns=5 * second)
    both = write_slice(
        QUICKSTART, tmp_path / "c.pcapng", where, before_ns=5 * second, after_ns=second
    )
    whole = write_slice(QUICKSTART, tmp_path / "d.pcapng", where, connections=True)
    assert [one.packets for one in (bare, before, both, whole)] == [10, 20, 33, 33]


def test_keys_of_tls_come_along_with_tls_and_only_then(tmp_path: Path) -> None:
    tls = CAPTURES / "tls" / "tls-sasl-4.3.1.pcapng"
    write_slice(tls, tmp_path / "a.pcapng", "api = 'Produce'")
    assert b"CLIENT_TRAFFIC_SECRET" in (tmp_path / "a.pcapng").read_bytes()
    files: list[Any] = [tls, QUICKSTART]
    write_slice(files, tmp_path / "b.pcapng", "client_id = 'slow-rd' and latency_ns > 1e9")
    assert b"SECRET" not in (tmp_path / "b.pcapng").read_bytes()


def test_several_files_plain_and_compressed_are_one_capture(tmp_path: Path) -> None:
    packets = [
        Captured(packet.data[packet.start : packet.end], packet.time_ns)
        for packet in packets_in(CAPTURES / "retries-4.3.1.pcapng")
    ]
    (tmp_path / "1.pcap").write_bytes(make_pcap(packets[:70], NANOSECONDS))
    (tmp_path / "2.pcapng.gz").write_bytes(gzip.compress(make_pcapng(packets[70:150], ">")))
    (tmp_path / "3.pcap").write_bytes(make_pcap(packets[150:], NANOSECONDS, ">"))
    files: list[Any] = sorted(tmp_path.glob("[123].*"))
    write_slice(files, tmp_path / "a.pcapng", "api = 'Produce'")
    write_slice(CAPTURES / "retries-4.3.1.pcapng", tmp_path / "b.pcapng", "api = 'Produce'")
    copies = packets_in(tmp_path / "a.pcapng")
    expected = packets_in(tmp_path / "b.pcapng")
    assert [values_of(packet) for packet in copies] == [values_of(packet) for packet in expected]
    starts = {"1.pcap": 0, "2.pcapng.gz": 70, "3.pcap": 150}
    named = [number + starts[name] for number, name in comments_in(tmp_path / "a.pcapng")]
    assert named == [number for number, _ in comments_in(tmp_path / "b.pcapng")]


def test_a_pcap_file_has_the_same_packets(tmp_path: Path) -> None:
    write_slice(QUICKSTART, tmp_path / "a.pcap", "error_code <> 0")
    write_slice(QUICKSTART, tmp_path / "a.pcapng", "error_code <> 0")
    assert (tmp_path / "a.pcap").read_bytes()[:4] == b"\x4d\x3c\xb2\xa1"
    copies = packets_in(tmp_path / "a.pcap")
    assert [values_of(one) for one in copies] == [
        values_of(one) for one in packets_in(tmp_path / "a.pcapng")
    ]


def test_a_slice_of_a_slice_has_both_frame_numbers(tmp_path: Path) -> None:
    where = "latency_ns > 1e9"
    write_slice(QUICKSTART, tmp_path / "a.pcapng", where)
    write_slice(tmp_path / "a.pcapng", tmp_path / "b.pcapng", where)
    comments = comments_in(tmp_path / "b.pcapng")
    first = [number for number, name in comments if name == "quickstart.pcapng"]
    second = [number for number, name in comments if name == "a.pcapng"]
    assert first == [number for number, _ in comments_in(tmp_path / "a.pcapng")]
    assert second == list(range(1, len(first) + 1))


# The last one has a connection that begins with a packet whose time is none.
@pytest.mark.parametrize("drawn", [*(f"{SEED} {number}" for number in range(6)), "109507573 3"])
def test_of_a_damaged_capture_a_sound_one_is_made(drawn: str, tmp_path: Path) -> None:
    source = random.Random(drawn)
    damaged = bytearray((CAPTURES / "telemetry-4.3.1.pcapng").read_bytes())
    for _ in range(source.choice((3, 30, 200))):
        damaged[source.randrange(200, len(damaged))] = source.randrange(256)
    (tmp_path / "a.pcapng").write_bytes(damaged[: source.randrange(9_000, len(damaged))])
    made = write_slice(tmp_path / "a.pcapng", tmp_path / "b.pcapng")
    if not made.packets:  # the damage left no exchange
        assert kdissect.read(tmp_path / "a.pcapng").to_arrow().num_rows == 0
        assert not (tmp_path / "b.pcapng").exists()
        return
    originals = {packet.number: packet for packet in packets_in(tmp_path / "a.pcapng")}
    with open_captures(tmp_path / "b.pcapng") as capture:
        copies = [packet for batch in capture for packet in batch]
        # Of a packet whose time is none, the copy has none, too.
        timeless = any(one.time_ns == NO_TIME for one in copies)
        assert [one.kind for one in capture.problems] == ["bad-time"] * timeless
    comments = comments_in(tmp_path / "b.pcapng")
    assert len(copies) == len(comments) == made.packets
    assert [values_of(one) for one in copies] == [
        values_of(originals[number]) for number, _ in comments
    ]


@pytest.mark.parametrize("number", range(12))
def test_of_a_clock_that_was_wrong_or_set_a_slice_of_all_has_all_exchanges(
    number: int, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} times {number}")
    data = bytearray(QUICKSTART.read_bytes())
    places = [at for at, kind in blocks_of(data) if kind == ENHANCED_PACKET]
    is_set = number % 3 == 2  # from some packet on; else single packets have wrong times
    # A packet is judged by the one after it, which is another in the slice: not two close together.
    apart = [places[start + chance.randrange(20)] for start in range(0, len(places) - 40, 60)]
    chosen = places[chance.randrange(1, len(places)) :] if is_set else apart
    step = chance.choice((-3_600, 3_600)) if is_set else 0
    for at in chosen:
        half = chance.choice((-5_000, -7, 7, 5_000, None)) if not is_set else step
        upper = int.from_bytes(data[at + TIME_AT : at + TIME_AT + 4], "little")
        changed = 0xFFFF_FFFF if half is None else upper + half  # None: beyond the year 2262
        data[at + TIME_AT : at + TIME_AT + 4] = changed.to_bytes(4, "little")
    source, target = tmp_path / "a.pcapng", tmp_path / "b.pcapng"
    source.write_bytes(data)
    write_slice(source, target)
    names = ["api", "api_version", "correlation_id", "request_size", "response_size", "outcome"]
    rows, again = (
        kdissect.read(one).to_arrow().select(names).to_pylist() for one in (source, target)
    )
    assert sorted(map(str, again)) == sorted(map(str, rows)), SEED
    assert len(rows) > 100


def blocks_of(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Offset and type of each block of a little-endian pcapng."""
    at = 0
    while at < len(data):
        yield at, int.from_bytes(data[at : at + 4], "little")
        at += int.from_bytes(data[at + 4 : at + 8], "little")


def test_an_empty_selection_is_reported_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "a.pcapng"
    assert run(["slice", str(QUICKSTART), "--where", "api = 'Vote'", "-o", str(target)]) == 0
    assert list(tmp_path.iterdir()) == []
    assert "no exchanges for a slice: read 1318 packets" in capsys.readouterr().err


def test_slice_reports_its_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["slice", str(QUICKSTART), "--where", "latency_ns > 1e9"]
    assert run([*words, "-o", str(tmp_path / "a.pcapng")]) == 0
    told = capsys.readouterr().err
    assert told == (
        "selected 10 of 1318 packets, 1 of 331 exchanges\n"
        "logins and payload are in the packets as captured: treat them so, or --redact\n"
    )
    assert run([*words, "-o", str(tmp_path / "a.pcapng")]) == 2
    assert "--force overwrites it" in capsys.readouterr().err


def test_a_slice_goes_to_stdout_too(tmp_path: Path, capfdbinary: Any) -> None:
    words = ["slice", str(QUICKSTART), "--where", "latency_ns > 1e9"]
    assert run([*words, "-o", str(tmp_path / "a.pcapng")]) == 0
    assert run([*words, "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == (tmp_path / "a.pcapng").read_bytes()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-"], "-: a slice is made in three passes, so it needs a file"),
        ([str(QUICKSTART), "--where", "colour = 1"], "colour"),
        ([str(QUICKSTART), "--context", "1s", "--after", "1s"], "--context sets --before and"),
        ([str(CAPTURES / "README.md")], "not a pcap or pcapng file"),
    ],
)
def test_impossible_arguments_are_an_error(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = 1 if reason.startswith("not a pcap") else 2
    assert run(["slice", *words, "-o", str(tmp_path / "a.pcapng")]) == code
    assert reason in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_library_refuses_pipes_tables_and_files_that_are_there(tmp_path: Path) -> None:
    with QUICKSTART.open("rb") as file, pytest.raises(KdissectError, match="an open file"):
        write_slice(file, tmp_path / "a.pcapng")
    kdissect.write(QUICKSTART, tmp_path / "tables", ["exchanges"])
    with pytest.raises(KdissectError, match="tables have no packets"):
        write_slice(tmp_path / "tables", tmp_path / "a.pcapng")
    (tmp_path / "there.pcapng").touch()
    with pytest.raises(OutputError, match="exists"):
        write_slice(QUICKSTART, tmp_path / "there.pcapng")


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
@pytest.mark.parametrize("name", ["quickstart.pcapng", "networks/vxlan-4.3.1.pcapng"])
def test_wireshark_shows_the_chosen_requests_as_it_showed_them(name: str, tmp_path: Path) -> None:
    where = "outcome = 'answered' and exchange_id // 100000 % 5 = 1"
    write_slice(CAPTURES / name, tmp_path / "a.pcapng", where)
    packets = {row["request_packet"] for row in rows_of(CAPTURES / name, where)}
    packets |= {row["response_packet"] for row in rows_of(CAPTURES / name, where)}
    shown = dict(seen_by_tshark(CAPTURES / name))
    numbers = {
        int(FRAME.search(comment).group(1)): kafka  # type: ignore[union-attr]
        for comment, kafka in seen_by_tshark(tmp_path / "a.pcapng", "frame.comment")
    }
    assert {number: numbers.get(number) for number in packets} == {
        number: shown[str(number)] for number in packets
    }


def seen_by_tshark(path: Path, name: str = "frame.number") -> list[tuple[str, str]]:
    """One field of each packet, and its Kafka as decoded by tshark."""
    fields = (name, "kafka.api_key", "kafka.correlation_id", "kafka.len", "frame.time_epoch")
    words = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(
        ["tshark", "-r", path, "-T", "fields", *words], capture_output=True, text=True, check=True
    )
    return [tuple(line.split("\t", 1)) for line in done.stdout.splitlines()]  # type: ignore[misc]
