"""The law of splits and boundary states: however a capture is cut, its rows are those of the
whole.
"""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdissect
from benchmarks import drawn
from kdissect.capture.files import open_captures
from kdissect.capture.pcap import NANOSECONDS
from kdissect.pipeline import Options
from kdissect.tables.schemas import TABLES
from tests.capture.writers import make_pcap
from tests.checkpoint.law import CAPTURES, captured, together, whole
from tests.recovery.cases import QUICK, make_case, make_talk
from tests.recovery.faults import CLASSES
from tests.recovery.talks import START_NS, merged, packets_of
from tests.seeds import SEED

ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.glob("**/*.pcap*"))
MANY = "cluster-3.9.1.pcapng"


@pytest.mark.sweep
@pytest.mark.parametrize("name", ALL)
def test_splits_of_a_capture_give_the_rows_of_the_whole(name: str) -> None:
    path = CAPTURES / name
    source = random.Random(f"{SEED} {name}")
    expected = whole([str(path)])
    size = max(256, path.stat().st_size // source.choice((2, 3, 4, 5, 7)))
    found, _ = together([str(path)], size)
    assert found == expected, f"splits of {size} bytes"


@settings(max_examples=12)
@given(
    name=st.sampled_from(("groups-4.3.1.pcapng", "sasl-4.3.1.pcapng")),
    size=st.integers(15_000, 120_000),
)
def test_splits_of_any_size_give_the_rows_of_the_whole(name: str, size: int) -> None:
    paths = [str(CAPTURES / name)]
    assert together(paths, size)[0] == whole(paths)


@pytest.mark.parametrize("fault", sorted(CLASSES))
def test_splits_of_a_faulty_capture_give_the_rows_of_the_whole(fault: str, tmp_path: Path) -> None:
    for number in range(2):
        case = make_case(fault, 7_000 + number)
        packets = packets_of(case.wires, case.broker_port)
        written = [captured(packet) for packet in packets]
        path = tmp_path / f"{number}.pcap"
        path.write_bytes(make_pcap(written, magic=NANOSECONDS))
        expected = whole([str(path)])
        for count in (2, 5):
            found, _ = together([str(path)], max(256, path.stat().st_size // count))
            assert found == expected, f"{fault} {7_000 + number} in {count} pieces"


@pytest.mark.sweep(20)
@pytest.mark.parametrize("number", range(200))
def test_splits_of_late_handshakes_give_the_rows_of_the_whole(number: int, tmp_path: Path) -> None:
    """Packets of a handshake are captured after the first data, as several queues deliver them."""
    source = random.Random(f"{SEED} {number}")
    talks = [make_talk(source, QUICK) for _ in range(source.choice((2, 3, 4)))]
    parts = []
    for at, talk in enumerate(talks):
        wires = merged([talk], [0])[:60]
        order = list(range(len(wires)))
        for place in source.sample(range(3), source.choice((1, 2, 3))):
            order[place] += source.choice((2.5, 3.5, 4.5, 5.5))
        moved = [wires[place] for _, place in sorted(zip(order, range(len(wires)), strict=True))]
        parts.append([wire._replace(talk=at) for wire in moved])
    wires = [wire for part in parts for wire in part]
    packets = [
        captured(packet)._replace(time_ns=START_NS + 20_000 * place)
        for place, packet in enumerate(packets_of(wires))
    ]
    path = tmp_path / "late.pcap"
    path.write_bytes(make_pcap(packets, magic=NANOSECONDS))
    expected = whole([str(path)])
    # Up to the second connection.
    first = len(make_pcap(packets[: len(parts[0])], magic=NANOSECONDS))
    for size in (first, first + 70, source.randrange(256, path.stat().st_size)):
        assert together([str(path)], size)[0] == expected, f"{size} bytes"


@pytest.mark.parametrize(("number", "count"), [(7_100, 5), (7_103, 8), (7_106, 8)])
def test_merged_connection_has_room_for_pending_requests_of_both_sides(
    number: int, count: int, tmp_path: Path
) -> None:
    case = make_case("combined", number)
    written = [captured(packet) for packet in packets_of(case.wires, case.broker_port)]
    path = tmp_path / "combined.pcap"
    path.write_bytes(make_pcap(written, magic=NANOSECONDS))
    found, merger = together([str(path)], path.stat().st_size // count)
    assert found == whole([str(path)])
    assert merger.joins > 0


def test_rotated_files_give_the_rows_of_all_of_them(tmp_path: Path) -> None:
    with open_captures(CAPTURES / "groups-4.3.1.pcapng") as capture:
        written = [captured(packet) for batch in capture for packet in batch]
    names = []
    for number in range(4):
        part = tmp_path / f"ring.pcap{number}"
        quarter = written[len(written) * number // 4 : len(written) * (number + 1) // 4]
        part.write_bytes(make_pcap(quarter, magic=NANOSECONDS, link_type=1))
        names.append(str(part))
    expected = whole(names)
    assert expected.balance.exchanges > 100
    size = Path(names[0]).stat().st_size
    assert together(names, 4 * size)[0] == expected
    assert together(names, size // 2)[0] == expected


def test_only_asked_for_columns_are_made() -> None:
    paths = [str(CAPTURES / MANY)]
    options = Options(
        tables=("exchanges", "partitions", "errors"),
        columns={
            "exchanges": ("api", "rtt_ns"), "partitions": ("topic",), "errors": ("code", "topic"),
        },
    )  # fmt: skip
    assert together(paths, 60_000, options)[0] == whole(paths, options)


def test_connections_that_cross_an_edge_are_joined() -> None:
    path = CAPTURES / MANY
    paths = [str(path)]
    found, merger = together(paths, path.stat().st_size // 4)
    assert found == whole(paths)
    segments = found.balance.packets
    assert merger.joins >= 20
    assert merger.replayed < segments / 4


def test_no_connection_that_crosses_an_edge_is_read_again() -> None:
    path = CAPTURES / MANY
    _, merger = together([str(path)], path.stat().st_size // 4)
    assert merger.read_again == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_splits_of_drawn_traffic_give_the_rows_of_the_whole(number: int, tmp_path: Path) -> None:
    """Short connections, of which some need what others have agreed on before the split."""
    parameters = drawn.draw(SEED + number, "mixed", drawn.recordings_of("mixed"))
    path = tmp_path / "drawn.pcap"
    drawn.make(parameters._replace(connections=20, time_factor=1.0), path, 4_000_000)
    paths = [str(path)]
    options = Options()
    found, merger = together(paths, path.stat().st_size // 3, options)
    assert found == whole(paths, options)
    # A connection that ended in a split and is read again takes no other one with it.
    assert merger.replayed < found.balance.packets / 8


def test_a_topic_with_several_names_has_the_first_one_in_all_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker renames a topic, but damage does, and clusters that were copied."""
    monkeypatch.setattr(drawn, "ids_of", lambda *_: set())
    parameters = drawn.draw(SEED, "small", drawn.recordings_of("small"))
    path = tmp_path / "drawn.pcap"
    drawn.make(parameters._replace(connections=50, name_sets=9), path, 1_500_000)
    paths = [str(path)]
    expected = whole(paths)
    pairs = {
        (row["topic_id"], row["topic"])
        for row in kdissect.read(str(path), table="partitions").to_arrow().to_pylist()
        if row["topic_id"]
    }
    assert len({topic for _, topic in pairs}) > len({one for one, _ in pairs})
    assert together(paths, path.stat().st_size // 3)[0] == expected


def test_every_table_is_compared() -> None:
    found = whole([str(CAPTURES / MANY)]).tables
    assert set(found) | {"problems"} == set(TABLES)


def test_problems_of_reading_are_reported_once(tmp_path: Path) -> None:
    with open_captures(CAPTURES / "groups-4.3.1.pcapng") as capture:
        written = [captured(packet) for batch in capture for packet in batch]
    content = bytearray(make_pcap(written, magic=NANOSECONDS, link_type=1))
    # A record in the middle declares a size larger than any.
    at = 24
    for _ in range(len(written) // 2):
        at += 16 + int.from_bytes(content[at + 8 : at + 12], "little")
    content[at + 8 : at + 12] = b"\xff\xff\xff\x7f"
    path = tmp_path / "damaged.pcap"
    path.write_bytes(content)
    stranger = tmp_path / "stranger.pcap"
    stranger.write_bytes(make_pcap(written, magic=NANOSECONDS, link_type=147))
    for one in (path, stranger):
        expected = whole([str(one)])
        assert expected.balance.problems
        found, _ = together([str(one)], one.stat().st_size // 5)
        assert found == expected


def test_key_log_problems_are_reported_once(tmp_path: Path) -> None:
    keys = tmp_path / "keys.log"
    keys.write_text(f"CLIENT_RANDOM {'00' * 32} {'11' * 48}\nthis is no key\n")
    options = Options(tables=("problems", "connections"), keylog=keys)
    paths = [str(CAPTURES / "tls/tls13-4.3.1.pcapng")]
    expected = whole(paths, options)
    assert expected.balance.problems
    assert together(paths, 50_000, options)[0] == expected
