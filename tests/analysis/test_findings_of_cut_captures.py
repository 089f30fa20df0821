"""A capture cut by a snaplen has no problem or warning that the whole capture does not have.

Notices describe typical values of the captured part. Consequences of the cut itself are declared.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import kdissect
from kdissect.rules.finding import NOTICE
from tests.capture.writers import Captured, make_pcap
from tests.recovery.captures import EVERY, packets_in, snapped
from tests.recovery.talks import CAPTURES
from tests.seeds import SEED

SMALLEST, LARGEST = 54, 300  # bytes; see tests/recovery/test_snaplens.py
NANOSECONDS = 0xA1B23C4D
# Consequences of the cut: bytes are missing, and no message can be made of the rest. The written
# file has no TLS secrets.
OF_CUTS = frozenset((
    "capture-loses-packets", "no-kafka", "not-asked", "messages-undecoded", "connections-encrypted",
))  # fmt: skip
# Brokers that stall, or seem to when a long poll is counted as broker time.
STALLING = ("quickstart.pcapng", "retries-2.8.2.pcapng")
DRAWN = 3  # captures of a quick run


def written(name: str, size: int, path: Path) -> Path:
    """A committed capture, cut at a snaplen, as a file."""
    packets = snapped(packets_in(name), size)
    (link_type,) = {packet.link_type for packet in packets}
    cut = [
        Captured(packet.data[packet.start : packet.end], packet.time_ns, packet.original_length)
        for packet in packets
    ]
    path.write_bytes(make_pcap(cut, magic=NANOSECONDS, link_type=link_type))
    return path


def false_findings(name: str, size: int, path: Path) -> Iterator[str]:
    """The problems and warnings of a cut capture that the whole does not have."""
    known = {one.id for one in kdissect.findings(CAPTURES / name)}
    for one in kdissect.findings(written(name, size, path)):
        if one.severity != NOTICE and one.id not in known | OF_CUTS:
            yield f"{name} at {size} bytes: {one.id}: {one.text}"


def drawn(source: random.Random) -> int:
    return source.choice((96, 128, source.randrange(SMALLEST, LARGEST + 1)))


@pytest.mark.parametrize("name", STALLING)
@pytest.mark.parametrize("size", [96, 128])
def test_a_long_poll_of_a_cut_capture_is_no_stall(name: str, size: int, tmp_path: Path) -> None:
    assert list(false_findings(name, size, tmp_path / "cut.pcap")) == []


def test_drawn_captures_cut_at_drawn_sizes_have_no_false_findings(tmp_path: Path) -> None:
    source = random.Random(SEED)
    for name in source.sample(EVERY, DRAWN):
        found = list(false_findings(name, drawn(source), tmp_path / "cut.pcap"))
        assert found == [], f"seed {SEED}"


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", EVERY)
def test_no_cut_capture_has_false_findings(name: str, tmp_path: Path) -> None:
    source = random.Random(SEED)
    found = list(false_findings(name, drawn(source), tmp_path / "cut.pcap"))
    assert found == [], f"seed {SEED}"
