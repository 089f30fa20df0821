"""Checkpoints: a merger that resumes from one, in any process, gives the rows of one pass."""

import random
from pathlib import Path

import pytest

from kdissect.capture.pcap import NANOSECONDS
from kdissect.capture.splits import plan
from kdissect.checkpoint.checkpoint import VERSION, Checkpoint
from kdissect.checkpoint.merger import Merger
from kdissect.checkpoint.split import dissect_split
from kdissect.errors import CaptureError, KdissectError
from kdissect.pipeline import Options
from kdissect.tables.schemas import TABLES
from tests.capture.writers import make_pcap
from tests.checkpoint.clocks import Step, stepped
from tests.checkpoint.law import (
    CAPTURES,
    OPTIONS,
    captured,
    carried_on,
    link_type_of,
    read_packets,
    whole,
)
from tests.recovery.cases import make_case
from tests.recovery.faults import CLASSES
from tests.recovery.talks import packets_of
from tests.seeds import SEED

ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.glob("**/*.pcap*"))
MANY = str(CAPTURES / "cluster-3.9.1.pcapng")
RESUMED = CAPTURES / "tls/tls-resumed-4.3.1.pcapng"
HOUR_NS = 3_600_000_000_000
WITH_KEYS = Options(tables=tuple(TABLES), keylog=RESUMED.with_suffix(".keys"))


@pytest.mark.sweep
@pytest.mark.parametrize("name", ALL)
def test_a_merger_that_is_written_down_gives_the_rows_of_the_whole(name: str) -> None:
    path = CAPTURES / name
    chance = random.Random(f"{SEED} {name}")
    expected = whole([str(path)])
    size = max(256, path.stat().st_size // chance.choice((3, 4, 5, 7)))
    found, _ = carried_on([str(path)], size, chance)
    assert found == expected, f"splits of {size} bytes"


class Always(random.Random):
    """Writes the merger down behind each split."""

    def random(self) -> float:
        return 0.0


@pytest.mark.parametrize("packet", range(286, 293))
def test_so_it_is_where_a_tls_handshake_crosses_the_splits(packet: int, tmp_path: Path) -> None:
    """The session has no keys yet when the state is written; packet 287 is a SYN.

    An hour of silence before it ended the sessions that would have kept the packets.
    """
    packets = stepped(read_packets(str(RESUMED)), Step(280, HOUR_NS, 1_000))
    path = tmp_path / "tls.pcap"
    path.write_bytes(make_pcap(packets, NANOSECONDS, link_type=link_type_of(str(RESUMED))))
    size = len(make_pcap(packets[:packet], NANOSECONDS))
    expected = whole([str(path)], WITH_KEYS)
    assert carried_on([str(path)], size, Always(), WITH_KEYS)[0] == expected


@pytest.mark.parametrize("fault", sorted(CLASSES))
def test_so_it_is_of_a_faulty_capture(fault: str, tmp_path: Path) -> None:
    case = make_case(fault, 7_100)
    path = tmp_path / "faulty.pcap"
    written = [captured(packet) for packet in packets_of(case.wires, case.broker_port)]
    path.write_bytes(make_pcap(written, magic=NANOSECONDS))
    expected = whole([str(path)])
    for count in (3, 8):
        size = max(256, path.stat().st_size // count)
        assert carried_on([str(path)], size, random.Random(count))[0] == expected, count


@pytest.mark.parametrize("keys", sorted(CAPTURES.glob("tls/*.keys")), ids=lambda path: path.stem)
def test_tls_is_decrypted_on_both_sides_of_an_edge(keys: Path) -> None:
    path = keys.with_suffix(".pcapng")
    options = Options(tables=tuple(TABLES), keylog=keys)
    expected = whole([str(path)], options)
    assert expected.balance.exchanges > 10
    found, _ = carried_on([str(path)], path.stat().st_size // 6, random.Random(6), options)
    assert found == expected


def test_no_secret_is_in_a_state() -> None:
    splits = plan([str(RESUMED)], RESUMED.stat().st_size // 2)
    merger = Merger(WITH_KEYS)
    merger.add(dissect_split(splits[0], WITH_KEYS, [str(RESUMED)]).boundary)
    state = merger.state()
    assert [connection.id for connection in state.decrypted]
    assert state.splits == (splits[0],)
    content = state.to_bytes()
    lines = WITH_KEYS.keylog.read_text().splitlines()  # type: ignore[union-attr]
    secrets = [bytes.fromhex(line.split()[2]) for line in lines if not line.startswith("#")]
    assert secrets
    assert not [secret for secret in secrets if secret in content]


def test_decrypted_tls_needs_its_packets(tmp_path: Path) -> None:
    path = tmp_path / "tls.pcapng"
    path.write_bytes(RESUMED.read_bytes())
    merger = Merger(WITH_KEYS)
    split = plan([str(path)], path.stat().st_size // 2)[0]
    merger.add(dissect_split(split, WITH_KEYS, [str(path)]).boundary)
    state = Checkpoint.from_bytes(merger.state().to_bytes())
    path.unlink()
    with pytest.raises(CaptureError, match=r"tls\.pcapng"):
        Merger(WITH_KEYS, state=state)


def test_a_state_is_the_same_after_a_journey() -> None:
    merger = Merger(OPTIONS)
    merger.add(dissect_split(plan([MANY], 200_000)[0], OPTIONS, [MANY]).boundary)
    content = merger.state().to_bytes()
    again = Merger(OPTIONS, state=Checkpoint.from_bytes(content)).state()
    assert again.to_bytes() == content
    assert len(again.open) > 10


def test_checkpoint_size_depends_on_open_connections_only() -> None:
    _, few = carried_on([MANY], 300_000, random.Random(1))
    _, many = carried_on([MANY], 30_000, random.Random(1))
    assert len(many) > 3 * len(few)
    assert max(many) < 2 * max(few)


def test_a_connection_that_is_silent_for_long_is_no_part_of_a_state(tmp_path: Path) -> None:
    packets = read_packets(MANY)
    hours = [packets[: len(packets) // 2], packets[len(packets) // 2 :]]
    for number, part in enumerate(hours):
        moved = [one._replace(time_ns=one.time_ns + number * HOUR_NS) for one in part]
        content = make_pcap(moved, magic=NANOSECONDS, link_type=link_type_of(MANY))
        (tmp_path / f"ring.pcap{number}").write_bytes(content)
    paths = sorted(str(path) for path in tmp_path.iterdir())
    merger = Merger(OPTIONS)
    opened = []
    for split in plan(paths):
        merger.add(dissect_split(split, OPTIONS, paths).boundary)
        opened.append({int(one.opener.connection.id) for one in merger.state().open})
    assert len(opened[0]) > 10
    assert not opened[0] & opened[1]
    assert min(opened[1]) > len(hours[0])
    for seed in range(3):
        assert carried_on(paths, 1 << 30, random.Random(seed))[0] == whole(paths)


def test_bytes_of_something_else_are_refused() -> None:
    state = Merger(OPTIONS).state()
    with pytest.raises(KdissectError, match="version"):
        Checkpoint.from_bytes(state._replace(version=VERSION + 1).to_bytes())
    with pytest.raises(KdissectError):
        Checkpoint.from_bytes(state.to_bytes()[:-20])
    boundary = dissect_split(plan([MANY], 1 << 20)[0], OPTIONS, [MANY]).boundary
    with pytest.raises(KdissectError, match="version"):
        Checkpoint.from_bytes(boundary.to_bytes())
