"""Lag of groups from commits and ends that are seen on the wire."""

from typing import Any

import pytest

from kdissect.live.counting.lag import (
    STAND_NS,
    GroupLag,
    OffsetCounts,
    Positions,
    lags,
    merge_positions,
)
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.workers.summed_metrics import SummedMetrics
from tests.live.made_rows import SECOND, exchange, given, handed, partition, status

Rows = dict[str, list[dict[str, Any]]]


def commit(number: int, group: str | None, offset: int, **more: Any) -> Rows:
    rows = [exchange(number, "OffsetCommit", group_id=group)]
    return {"exchanges": rows, "partitions": [partition(number, committed_offset=offset, **more)]}


def fetch(number: int, end: int, **more: Any) -> Rows:
    row = partition(number, high_watermark=end, **more)
    return {"exchanges": [exchange(number, "Fetch")], "partitions": [row]}


def produce(number: int, first: int, count: int | None, **more: Any) -> Rows:
    row = partition(number, base_offset=first, record_count=count, **more)
    return {"exchanges": [exchange(number)], "partitions": [row]}


def after(counts: OffsetCounts, now_s: float, *parts: Rows) -> dict[str, GroupLag]:
    for part in parts:
        for table, batch in handed(part).items():
            counts.take(table, batch)
    return lags(counts.tick(round(now_s * SECOND)))


def test_lag_is_from_the_last_commit_to_the_end() -> None:
    counts = OffsetCounts()
    assert after(counts, 1, commit(1, "g", 10), fetch(2, 25)) == {"g": GroupLag(15, 1)}
    assert after(counts, 2, produce(3, 25, 5)) == {"g": GroupLag(20, 1)}
    assert after(counts, 3, commit(4, "g", 28), commit(5, "h", 0)) == {
        "g": GroupLag(2, 1), "h": GroupLag(30, 1),
    }  # fmt: skip
    # What is committed exists, also where its end was not seen yet.
    assert after(counts, 4, commit(6, "g", 40))["g"] == GroupLag(0, 1)


@pytest.mark.parametrize(
    "ignored",
    [
        commit(1, None, 5), commit(1, "", 5), commit(1, "g", -1), commit(1, "g", 5, error_code=16),
        commit(1, "g", 5, topic=None, topic_id="A" * 22), commit(1, "g", 5, partition=1),
        {"exchanges": [exchange(1, "OffsetCommit", group_id="g", response_end=None)],
         "partitions": [partition(1, committed_offset=5)]},
        {"exchanges": [exchange(1, "OffsetDelete", group_id="g")],
         "partitions": [partition(1, committed_offset=5)]},
        {"partitions": [partition(9, committed_offset=5)]},
    ],
)  # fmt: skip
def test_only_acknowledged_commits_of_groups_count(ignored: Rows) -> None:
    assert after(OffsetCounts(), 1, ignored, fetch(2, 25)) == {}


def test_offsets_of_a_produce_that_failed_and_of_listed_offsets_are_no_ends() -> None:
    rows = commit(1, "g", 10)
    failed = produce(2, 20, 1, error_code=6)
    listed = {
        "exchanges": [exchange(3, "ListOffsets")],
        "partitions": [partition(3, base_offset=99)],
    }
    assert after(OffsetCounts(), 1, rows, failed, listed) == {}
    assert after(OffsetCounts(), 1, rows, produce(2, 20, None)) == {"g": GroupLag(11, 1)}


def test_a_follower_that_is_behind_does_not_lower_the_end_and_a_new_topic_does() -> None:
    counts = OffsetCounts()
    after(counts, 1, commit(1, "g", 10), fetch(2, 100))
    assert after(counts, 2, fetch(3, 90))["g"].records == 90
    assert after(counts, 1 + STAND_NS / SECOND, fetch(4, 12))["g"].records == 2


def test_partitions_that_were_seen_last_are_kept() -> None:
    counts = OffsetCounts(limit=3)
    for index in range(5):
        rows = commit(index, "g", 0, partition=index), fetch(10 + index, 1, partition=index)
        assert after(counts, index, *rows)["g"] == GroupLag(min(index + 1, 3), min(index + 1, 3))


def test_commits_and_ends_may_come_to_different_workers() -> None:
    """And either may have an older value than the other."""
    both = SummedMetrics(2, 100)
    workers = [MetricsListener(), MetricsListener()]
    shown = []
    for rows in (
        (commit(1, "g", 10), fetch(1, 25)),
        (fetch(2, 30), commit(2, "g", 20)),
        (fetch(3, 27), {"exchanges": []}),
    ):
        for at, (worker, part) in enumerate(zip(workers, rows, strict=True)):
            given(worker, handed(part))
            worker.tick(status(len(shown) + at / 10))
        both.add([one.samples() for one in workers], {})
        values = both.samples().values
        shown.append([values[name] for name in (
            "kdissect_group_lag_records", "kdissect_group_lag_partitions")])  # fmt: skip
    assert shown == [[[(("g",), lag)], [(("g",), 1)]] for lag in (15, 10, 10)]


def test_merging_does_not_depend_on_the_order() -> None:
    one = Positions({("g", "t", 0): (5, 10)}, {("t", 0): (5, 100)})
    other = Positions({("g", "t", 0): (6, 8)}, {("t", 0): (5 + STAND_NS, 20)})
    assert merge_positions([one, other]) == merge_positions([other, one]) == Positions(
        {("g", "t", 0): (6, 8)}, {("t", 0): (5 + STAND_NS, 20)}
    )  # fmt: skip


def test_groups_beyond_the_limit_share_their_lag() -> None:
    metrics = MetricsListener(labels=1)
    for number, group in enumerate(("a", "b", "c")):
        given(metrics, handed(commit(number, group, 10 * number)))
    given(metrics, handed(fetch(9, 25)))
    metrics.tick(status(1))
    assert dict(metrics.samples().values["kdissect_group_lag_records"]) == {
        ("a",): 25, ("other",): 20,
    }  # fmt: skip
