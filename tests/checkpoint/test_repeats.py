"""Packets that repeat others, near the edges of splits: copies, retransmissions, other bytes."""

import random
from pathlib import Path

import pytest

from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.capture.pcap import NANOSECONDS
from tests.capture.writers import Captured, make_pcap
from tests.checkpoint.law import CAPTURES, carried_on, together, whole
from tests.seeds import SEED

ETHERNET_SIZE = 14
IP_ID = ETHERNET_SIZE + 4


def packets_of(name: str) -> list[Packet]:
    with open_captures(CAPTURES / name) as capture:
        return [packet for batch in capture for packet in batch]


def with_repeats(packets: list[Packet], source: random.Random, share: float) -> list[Captured]:
    """Some packets come again, up to 40 later: as they are, sent again, or with another byte."""
    due: dict[int, list[bytes]] = {}
    written = []
    for number, packet in enumerate(packets):
        content = packet.data[packet.start : packet.end]
        written.append(Captured(content, packet.time_ns, len(content)))
        written += [Captured(one, packet.time_ns, len(one)) for one in due.pop(number, [])]
        if source.random() < share:
            again = bytearray(content)
            kind = source.choice(("copy", "sent again", "other byte"))
            if kind != "copy":
                again[IP_ID : IP_ID + 2] = source.randbytes(2)
            if kind == "other byte":
                again[-1] ^= 0xFF
            due.setdefault(number + source.randint(1, 40), []).append(bytes(again))
    return written


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_repeats_near_edges_give_the_rows_of_the_whole(number: int, tmp_path: Path) -> None:
    source = random.Random(f"{SEED} {number}")
    written = with_repeats(packets_of("groups-4.3.1.pcapng"), source, source.choice((0.1, 0.5)))
    path = capture_of(written, tmp_path)
    expected = whole([path])
    for size in (6_000, source.randint(10_000, 90_000)):
        assert together([path], size)[0] == expected, f"splits of {size} bytes"
    assert carried_on([path], 10_000, source)[0] == expected


def test_a_wait_that_a_split_has_mistaken_is_not_that_of_the_whole(tmp_path: Path) -> None:
    """A copy, whose original is in the split before, looks like bytes that were sent again."""
    source = random.Random("499710535 1")  # a draw of the test above
    written = with_repeats(packets_of("groups-4.3.1.pcapng"), source, source.choice((0.1, 0.5)))
    path = capture_of(written, tmp_path)
    assert together([path], 6_000)[0] == whole([path])


def test_connections_are_joined_where_every_packet_is_there_twice(tmp_path: Path) -> None:
    packets = packets_of("groups-4.3.1.pcapng")
    contents = [(packet.data[packet.start : packet.end], packet.time_ns) for packet in packets]
    written = [Captured(one, ns, len(one)) for one, ns in contents for _ in range(2)]
    path = capture_of(written, tmp_path)
    found, merger = together([path], 40_001)
    assert found == whole([path])
    # Except those whose two copies lie on both sides of the cut.
    assert merger.joins == 14
    assert merger.read_again == 2


def capture_of(written: list[Captured], directory: Path) -> str:
    path = directory / "repeats.pcap"
    path.write_bytes(make_pcap(written, magic=NANOSECONDS, link_type=1))
    return str(path)
