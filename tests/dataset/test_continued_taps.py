"""A tap goes on whatever captures come: its rows are those of one pass over what was there."""

import gzip
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from kdissect.capture.pcap import NANOSECONDS
from kdissect.dataset.entries import TapEntry
from kdissect.spark.pipeline import dissect
from tests.capture.writers import Captured, make_pcap
from tests.dataset.passes import check_rows, late_text
from tests.seeds import SEED
from tests.spark.rotated import ALL, CAPTURES, dataset_rows, library_rows, packets_of

pytestmark = pytest.mark.usefixtures("few_or_many_rows")
GROUPS = "groups-4.3.1.pcapng"
SASL = "sasl-4.3.1.pcapng"
SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS
RING = "ring.pcap{}"  # no order by name: it may have wrapped
DUMPCAP = "ring_{:05}_20261122000000.pcap"

Parts = list[list[Captured]]


def cut(capture: str, count: int, chance: random.Random) -> Parts:
    packets = packets_of(CAPTURES / capture)
    cuts = sorted(chance.sample(range(1, len(packets)), count - 1))
    pairs = zip([0, *cuts], [*cuts, len(packets)], strict=True)
    return [packets[first:end] for first, end in pairs]


def later(packets: Sequence[Captured], by_ns: int) -> list[Captured]:
    return [one._replace(time_ns=one.time_ns + by_ns) for one in packets]


class Arrivals:
    """Captures of one tap, which come in some order, and are gone when they are in the dataset."""

    def __init__(self, directory: Path, parts: Parts, names: str = RING) -> None:
        self.ring = directory / "ring"
        self.kept = directory / "kept"
        self.dataset = directory / "dataset"
        self.names = [names.format(number) for number in range(len(parts))]
        for place in (self.ring, self.kept):
            place.mkdir()
        for name, packets in zip(self.names, parts, strict=True):
            content = make_pcap(packets, magic=NANOSECONDS, link_type=1)
            is_packed = name.endswith(".gz")
            (self.kept / name).write_bytes(gzip.compress(content, 1) if is_packed else content)

    @property
    def paths(self) -> list[str]:
        return [str(self.ring / name) for name in self.names]

    def bring_in(self, *numbers: int) -> None:
        """A run with these captures, which alone are there; all of them are in the dataset then."""
        for number in numbers:
            (self.kept / self.names[number]).rename(self.ring / self.names[number])
        outcome = dissect(None, [str(self.ring)], self.dataset, tables=ALL, split_size=60_000)
        assert (outcome.captures, outcome.failed, outcome.broken) == (len(numbers), (), ())
        for number in numbers:
            (self.ring / self.names[number]).rename(self.kept / self.names[number])

    def check(self) -> TapEntry:
        """The tap, whose rows are those of one pass, or more where captures came too late."""
        for name in self.names:
            (self.kept / name).rename(self.ring / name)
        return check_rows(self.dataset)


def test_a_packet_that_is_early_at_the_edge_of_a_file_changes_nothing(tmp_path: Path) -> None:
    parts = cut(GROUPS, 3, random.Random(3))
    for part, after in pairwise(parts):
        part[-1] = part[-1]._replace(time_ns=after[0].time_ns + 1000)
    came = Arrivals(tmp_path, parts)
    for number in range(3):
        came.bring_in(number)
    assert [one.segment for one in came.check().captures] == [-1, -1, -1]


def test_a_capture_that_comes_too_late_is_dissected_alone_and_the_tap_goes_on(
    tmp_path: Path,
) -> None:
    parts = [
        later(part, 60 * SECOND_NS * n) for n, part in enumerate(cut(SASL, 6, random.Random(4)))
    ]
    came = Arrivals(tmp_path, parts)
    for numbers in ((0, 2), (1,), (5,), (3, 4)):
        came.bring_in(*numbers)
    tap = came.check()
    in_order = [came.paths[number] for number in (0, 2, 1, 5, 3, 4)]
    assert [one.path for one in tap.captures] == in_order
    assert [one.segment for one in tap.captures] == [-1, -1, 2, -1, 4, 4]
    problems = dataset_rows(came.dataset)["problems"]
    told = [row for row in problems if "late-capture" in row]
    assert len(told) == 3
    assert sum(late_text(tap, came.paths[1]) in row for row in told) == 1
    assert tap.balance["problems"]["late-capture"] == 3


def test_files_whose_order_names_show_go_on_though_the_clock_was_set_back(tmp_path: Path) -> None:
    parts = cut(GROUPS, 5, random.Random(5))
    parts[2:] = [later(part, -HOUR_NS) for part in parts[2:]]
    came = Arrivals(tmp_path, parts, DUMPCAP)
    for numbers in ((0, 1), (2,), (3, 4)):
        came.bring_in(*numbers)
    assert {one.segment for one in came.check().captures} == {-1}
    assert dataset_rows(came.dataset) == library_rows(came.paths)


def test_tap_whose_clock_was_set_back_is_never_blocked(tmp_path: Path) -> None:
    parts = cut(GROUPS, 4, random.Random(6))
    times = (0, -HOUR_NS, -HOUR_NS, SECOND_NS)
    came = Arrivals(tmp_path, [later(*one) for one in zip(parts, times, strict=True)])
    for number in range(4):
        came.bring_in(number)
    assert [one.segment for one in came.check().captures] == [-1, 1, 2, -1]


def test_wrong_time_in_the_future_makes_no_later_capture_late(tmp_path: Path) -> None:
    parts = cut(GROUPS, 3, random.Random(7))
    middle = len(parts[0]) // 2
    parts[0][middle] = parts[0][middle]._replace(time_ns=4_000_000_000 * SECOND_NS)
    came = Arrivals(tmp_path, parts)
    for number in range(3):
        came.bring_in(number)
    assert {one.segment for one in came.check().captures} == {-1}


def test_a_compressed_ring_goes_on_without_what_it_has_deleted(tmp_path: Path) -> None:
    came = Arrivals(tmp_path, cut(GROUPS, 5, random.Random(8)), "ring.pcap{}.gz")
    for numbers in ((0,), (1, 2), (3,), (4,)):
        came.bring_in(*numbers)
    tap = came.check()
    assert dataset_rows(came.dataset) == library_rows(came.paths)
    assert {one.segment for one in tap.captures} == {-1}
    assert all(one.packets > 0 for one in tap.captures)


def test_captures_of_a_run_that_overlap_are_merged_by_time_and_the_tap_goes_on(
    tmp_path: Path,
) -> None:
    packets = packets_of(CAPTURES / GROUPS)
    half = len(packets) // 2
    parts = [packets[:half:2], packets[1:half:2], packets[half:]]
    came = Arrivals(tmp_path, parts)
    came.bring_in(0, 1)
    came.bring_in(2)
    for name in came.names:
        (came.kept / name).rename(came.ring / name)
    assert dataset_rows(came.dataset) == library_rows(came.paths)


@pytest.mark.slow
@pytest.mark.sweep(4)
@pytest.mark.parametrize("number", range(40))
def test_drawn_cuts_orders_and_deletions_give_the_rows_of_one_pass(
    number: int, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} {number}")
    parts = cut(chance.choice((GROUPS, SASL)), chance.randint(2, 8), chance)
    step_ns = chance.choice((0, 0, 3 * SECOND_NS, 40 * SECOND_NS))
    parts = [later(part, step_ns * n) for n, part in enumerate(parts)]
    for part, after in pairwise(parts):
        if chance.random() < 0.5:
            by_ns = chance.choice((1, 1000, 50_000_000, 400_000_000, 5 * SECOND_NS))
            part[-1] = part[-1]._replace(time_ns=after[0].time_ns + by_ns)
    came = Arrivals(tmp_path, parts, DUMPCAP + chance.choice(("", ".gz")))
    order = [n for n in range(len(parts)) if chance.random() < 0.9] or [0]
    is_in_order = chance.random() < 0.4
    if not is_in_order:
        chance.shuffle(order)
    while order:
        count = chance.randint(1, len(order))
        came.bring_in(*order[:count])
        del order[:count]
    segments = {one.segment for one in came.check().captures}
    assert segments == {-1} or not is_in_order
