"""Hostile captures take work that grows with them, and no faster."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.hostile.catalogue import HOSTILE
from tests.hostile.counting import GROWTH, IS_COMPILED, dissect, lines, small_bounds
from tests.hostile.messages import MESSAGES
from tests.hostile.paths import WAYS
from tests.hostile.searches import SEARCHES
from tests.seeds import SEED

SMALL = 24_000
# A capture is doubled until it takes so many lines: three sizes, or up to six.
ENOUGH = 2_000_000
FEWEST, MOST = 3, 6
# Messages are a third of a capture of up to 180 kB; of them the third is cut by its end. A larger
# one has more, and another share of them whole.
OF_THIRDS = {one.__name__ for one in MESSAGES}
# Fixed costs of a run, for any input.
BASE = 40_000
# A byte of a message that is passed over whole takes less than a line.
EACH = 1
# Where a frame is searched a byte may take STEPS_EACH steps, of two lines or three. How much of
# that one window needs is chance, and its credit is reached within a doubling of it.
MOST_SEARCHED = 400
SEARCHED = [one.__name__ for one in SEARCHES]
# What a search takes comes in steps, by chance: where one capture's work grows faster than the
# capture, that of so many captures is looked at.
MANY = 5
# Few that take little, for quick tests.
QUICK = (
    "api_versions", "zeros", "zeros_on_an_unknown_port", "zeros_both_ways", "growing_chains",
    "clock_that_jumps", "clock_to_and_fro", "every_other_missing", "fragments_of_eight_bytes",
)  # fmt: skip
# Captures from which commands and single tables produce much output.
DECODED = (
    "api_versions", "zeros", "mutated_captures", "never_answered", "one_id_for_all", "huge_counts",
    "many_names", "topics_in_turn", "members", "errors", "wrappers", "tiny_records",
    "headers_of_a_record", "many_batches", "names_learnt_late", "one_partition_over_and_over",
    "syns", "hellos", "clock_to_and_fro",
)  # fmt: skip
pytestmark = pytest.mark.skipif(
    IS_COMPILED, reason="compiled code has no lines to count: test_instructions counts there"
)


def counted(name: str, seed: int, size: int, *, windows: bool = True) -> int:
    """Lines of Python for a capture of about this size; `windows`: of many windows, not one."""
    hostile = HOSTILE[name]
    capture = hostile.capture(seed, size)
    with small_bounds(windows=windows):
        dissect(hostile, capture)  # layouts and readers, which are made once per process
        return lines(lambda: dissect(hostile, capture))


def growing_counts(name: str, seed: int) -> list[int]:
    """Lines at doubling sizes, up to one at which a square shows at any cost per byte."""
    counts: list[int] = []
    most = FEWEST if name in OF_THIRDS else MOST
    while len(counts) < FEWEST or (counts[-1] < ENOUGH and len(counts) < most):
        counts.append(counted(name, seed, SMALL << len(counts)))
    return counts


def growing_sums(name: str, seed: int) -> list[int]:
    """Lines at doubling sizes: sums of several captures, in which steps of single ones vanish."""
    sizes = [growing_counts(name, seed + number) for number in range(MANY)]
    return [sum(counts) for counts in zip(*sizes, strict=False)]


def check_growth(counts: list[int], size: int, name: str, way: str = "all tables") -> None:
    """Each count is of a capture that is twice as large as the one before."""
    said = f"{way} of {name}, KDISSECT_SEED={SEED}: {counts} lines"
    for number, (one, two) in enumerate(pairwise(counts)):
        assert two < GROWTH * max(one, BASE + EACH * (size << number)), said


def check_searched(count: int, size: int, name: str) -> None:
    """`count` belongs to a capture of this size whose bytes wait in one window."""
    assert count < BASE + MOST_SEARCHED * size, f"{name}, KDISSECT_SEED={SEED}: {count} lines"


@pytest.mark.parametrize("name", QUICK)
def test_twice_a_hostile_capture_takes_no_more_than_twice_the_work(name: str) -> None:
    check_growth([counted(name, SEED, SMALL << n) for n in range(2)], SMALL, name)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", HOSTILE)
def test_work_grows_with_the_bytes_at_every_doubling(name: str) -> None:
    counts = growing_counts(name, SEED)
    try:
        check_growth(counts, SMALL, name)
    except AssertionError:
        check_growth(growing_sums(name, SEED), MANY * SMALL, name)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", SEARCHED)
def test_a_search_among_bytes_that_wait_takes_a_bounded_number_of_lines_for_each(name: str) -> None:
    for size in (SMALL, 2 * SMALL):
        check_searched(counted(name, SEED, size, windows=False), size, name)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", DECODED)
@pytest.mark.parametrize("way", WAYS)
def test_commands_tables_and_live_capture_grow_with_the_bytes_too(
    way: str, name: str, tmp_path: Path
) -> None:
    counts = []
    with small_bounds(windows=True):
        for size in (SMALL, 2 * SMALL):
            capture = tmp_path / f"{size}.pcap"
            capture.write_bytes(HOSTILE[name].capture(SEED, size))
            WAYS[way](capture)  # layouts and readers, which are made once per process
            counts.append(lines(lambda: WAYS[way](capture)))  # noqa: B023  # is called here
    check_growth(counts, SMALL, name, way)
