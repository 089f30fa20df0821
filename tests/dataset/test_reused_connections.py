"""Open connections come again with the same ports and sequence numbers: one number of exchanges.

The same session is in several files of one tap, cut anywhere, whose edges overlap a little, as
where a busy tap rotates its files, or where captures are put together.
"""

import gzip
import random
from itertools import pairwise
from pathlib import Path

import pytest

from kdissect.capture.files import open_captures
from kdissect.capture.pcap import NANOSECONDS
from kdissect.capture.rotation import EDGE_NS
from kdissect.capture.splits import are_in_turn, plan
from kdissect.spark.pipeline import dissect
from tests.capture.writers import Captured, make_pcap
from tests.checkpoint.law import together, whole
from tests.seeds import SEED
from tests.spark.rotated import ALL, CAPTURES, contents_of, dataset_rows, library_rows, packets_of

SESSIONS = (
    "sasl-4.3.1.pcapng",
    "groups-4.3.1.pcapng",
    "basics-2.8.2.pcapng",
    "tokens-4.3.1.pcapng",
)
pytestmark = pytest.mark.usefixtures("few_or_many_rows")
NAMES = ("ring.pcap{}", "2026-11-2{}/07/ring.pcap")


def again_and_again(chance: random.Random) -> list[Captured]:
    """A session several times, each time from its first sequence numbers on."""
    packets = packets_of(CAPTURES / chance.choice(SESSIONS))
    first = chance.choice((0, chance.randrange(len(packets) // 2)))
    again = packets[first : chance.randrange(first + 20, len(packets) + 1)][:500]
    period_ns = again[-1].time_ns - again[0].time_ns - 1000
    return [
        packet._replace(time_ns=packet.time_ns + period_ns * copy)
        for copy in range(chance.randint(2, 4))
        for packet in again
    ]


def rotated(packets: list[Captured], directory: Path, chance: random.Random) -> list[str]:
    """Files cut anywhere, each beginning a microsecond before the end of the last one."""
    cuts = sorted(chance.sample(range(1, len(packets)), chance.randint(1, 4)))
    name, is_packed = chance.choice(NAMES), chance.random() < 0.3
    paths = []
    packets = list(packets)
    for first, cut in pairwise([0, *cuts]):
        span_ns = packets[cut - 1].time_ns - packets[first].time_ns
        early_ns = max(0, min(chance.choice((1000, 1000, 5_000_000)), span_ns - 1))
        behind_ns = packets[cut].time_ns - (packets[cut - 1].time_ns - early_ns)
        packets[cut:] = [one._replace(time_ns=one.time_ns - behind_ns) for one in packets[cut:]]
    for number, (first, end) in enumerate(zip([0, *cuts], [*cuts, len(packets)], strict=True)):
        content = make_pcap(packets[first:end], magic=NANOSECONDS, link_type=1)
        path = directory / (name.format(number) + ".gz" * is_packed)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content, 1) if is_packed else content)
        paths.append(str(path))
    return paths


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize("number", range(40))
def test_one_pass_splits_and_datasets_have_the_same_rows_of_connections_that_come_again(
    number: int, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} reused {number}")
    paths = rotated(again_and_again(chance), tmp_path / "captures", chance)
    one_file = tmp_path / "all.pcap"
    with open_captures(paths) as capture:
        assert capture.names == paths
        packets = [
            Captured(packet.data[packet.start : packet.end], packet.time_ns, packet.original_length)
            for batch in capture
            for packet in batch
        ]
    one_file.write_bytes(make_pcap(packets, magic=NANOSECONDS, link_type=1))
    expected = whole(paths)
    assert whole([str(one_file)]).balance.exchanges == expected.balance.exchanges
    if not paths[0].endswith(".gz"):
        assert are_in_turn(plan(paths))
        assert together(paths, 20_000)[0] == expected
    rows = library_rows(paths)
    for name, runs in (("at-once", [paths]), ("one-by-one", [[path] for path in paths])):
        for run in runs:
            outcome = dissect(
                None, run, tmp_path / name, tap="(ring)", tables=ALL, split_size=20_000
            )
            assert (outcome.failed, outcome.broken) == ((), ())
        (tap,) = contents_of(tmp_path / name).taps
        assert tap.balance["exchanges"] == expected.balance.exchanges
        assert [one.segment for one in tap.captures] == [-1] * len(paths)
        assert dataset_rows(tmp_path / name) == rows


def test_files_of_one_tap_that_overlap_for_longer_are_merged_by_time(tmp_path: Path) -> None:
    start_ns = 1_700_000_000_000_000_000
    for late_ns, order in ((EDGE_NS, [0, 1, 2, 3]), (EDGE_NS + 1, [0, 2, 1, 3])):
        times = (start_ns, start_ns + late_ns + 5, start_ns + 5, start_ns + 2 * late_ns + 9)
        packets = [Captured(b"%d" % number, time_ns) for number, time_ns in enumerate(times)]
        paths = [tmp_path / "ring.pcap0", tmp_path / "ring.pcap1"]
        paths[0].write_bytes(make_pcap(packets[:2], magic=NANOSECONDS))
        paths[1].write_bytes(make_pcap(packets[2:], magic=NANOSECONDS))
        with open_captures(paths) as capture:
            read = [one for batch in capture for one in batch]
        assert [int(one.data[one.start : one.end]) for one in read] == order
        assert are_in_turn(plan(paths)) == (order == [0, 1, 2, 3])
