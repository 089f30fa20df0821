"""Lag of consumer groups by committed, delivered and produced offsets."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import kdissect
from tests.analysis.made_tables import MS, SECOND, START, Row, asked, connection, exchange

WINDOW = {"window": SECOND}


class Wire:
    """Exchanges about partition 0 of topic t, one after the other."""

    def __init__(self) -> None:
        self.exchanges: list[Row] = []
        self.partitions: list[Row] = []
        self.batches: list[Row] = []

    def tell(self, at_s: float, api: str, **more: Any) -> "Wire":
        number = len(self.exchanges) + 1
        own = {
            "client_id": more.pop("client", "reader"), "group_id": more.pop("group", None),
            "connection_id": more.pop("on", 1),
        }  # fmt: skip
        self.exchanges.append(exchange(number, api, at_s=at_s, **own))
        place = {"exchange_id": number, "topic": "t", "partition": 0}
        stamp = more.pop("stamped_s", None)
        self.partitions.append(place | more)
        if stamp is not None:
            span = {"base_offset": more["fetch_offset"], "last_offset": more["high_watermark"] - 1}
            self.batches.append(place | span | {"base_time": START + round(stamp * SECOND)})
        return self

    def produce(self, at_s: float, first: int, count: int) -> "Wire":
        said = {"base_offset": first, "record_count": count}
        return self.tell(at_s, "Produce", client="writer", on=2, **said)

    def fetch(self, at_s: float, offset: int, end: int | None = None, **more: Any) -> "Wire":
        return self.tell(at_s, "Fetch", fetch_offset=offset, high_watermark=end, **more)

    def commit(self, at_s: float, offset: int, **more: Any) -> "Wire":
        group = more.pop("group", "g")
        return self.tell(at_s, "OffsetCommit", group=group, committed_offset=offset, **more)

    def rows(self, directory: Path, **options: Any) -> list[dict[str, Any]]:
        return asked(
            "lag", directory, options or WINDOW,
            exchanges=self.exchanges, partitions=self.partitions, batches=self.batches,
            connections=[connection(1), connection(2, "10.0.0.2"), connection(3, "10.0.0.3")],
        )  # fmt: skip


def chosen(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_lag_is_uncommitted_and_undelivered_is_unfetched(
    tmp_path: Path,
) -> None:
    wire = Wire().produce(1, 0, 10).fetch(2, 0, 10).fetch(2.1, 10).commit(2.2, 4)
    (row,) = wire.rows(tmp_path)
    assert row.pop("window").timestamp() == START / SECOND + 2
    assert row == {
        "group_id": "g", "topic": "t", "partition": 0, "lag": 6, "lag_time_ns": 1_201 * MS,
        "undelivered": 0, "undelivered_time_ns": 0, "uncommitted": 6, "end_offset": 10,
        "end_by": "fetch", "committed_offset": 4, "committed_by": "OffsetCommit",
        "delivered_offset": 10, "held_back": None, "client_id": "reader", "since": "produce",
    }  # fmt: skip


def test_records_of_open_transactions_are_counted_as_held_back(tmp_path: Path) -> None:
    wire = Wire().produce(1, 0, 10).commit(2, 4).fetch(2.1, 4, 10, last_stable_offset=4)
    wire.produce(3, 10, 2).fetch(4, 4, 12, last_stable_offset=4).fetch(5, 4, 12)
    wire.fetch(6, 4, 12, last_stable_offset=12)
    columns = ("end_offset", "undelivered", "held_back")
    assert chosen(wire.rows(tmp_path), *columns) == [
        (10, 6, 6),
        (12, 8, 6),
        (12, 8, 8),
        (12, 8, 8),
        (12, 8, 0),
    ]


def test_lag_of_a_consumer_that_died_goes_on_growing(tmp_path: Path) -> None:
    wire = Wire().produce(1, 0, 5).fetch(1.1, 0, 5).commit(1.2, 5)
    wire.produce(4, 5, 5).produce(9, 10, 5)
    rows = wire.rows(tmp_path)
    assert [round(row["window"].timestamp() - START / SECOND) for row in rows] == [1, 4, 9]
    assert chosen(rows, "lag", "lag_time_ns", "end_by", "committed_offset") == [
        (0, 0, "fetch", 5),
        (5, 1 * MS, "produce", 5),
        (10, 5_001 * MS, "produce", 5),
    ]


def test_uncaptured_ends_are_null(tmp_path: Path) -> None:
    # Nothing committed; the end of the partition is unknown; none of the waiting records was seen.
    assert chosen(Wire().fetch(1, 3, 9, group="g").rows(tmp_path), "lag", "undelivered") == [
        (None, 6)
    ]
    (row,) = Wire().commit(1, 3).rows(tmp_path)
    assert chosen([row], "lag", "lag_time_ns", "end_offset") == [(None, None, None)]
    (row,) = Wire().fetch(1, 3, 9).commit(1.5, 4).rows(tmp_path)
    assert chosen([row], "lag", "lag_time_ns", "since") == [(5, None, None)]


def test_the_batch_time_is_used_and_marked_without_a_captured_produce(
    tmp_path: Path,
) -> None:
    (row,) = Wire().fetch(8, 3, 9, stamped_s=2).commit(8.5, 3).rows(tmp_path)
    assert chosen([row], "lag", "lag_time_ns", "since") == [(6, 6_501 * MS, "batch time")]


def test_followers_say_where_a_partition_ends_and_are_no_consumers(tmp_path: Path) -> None:
    follower = {"client": "broker-2-fetcher-0", "on": 3}
    rows = Wire().commit(1, 4).fetch(1.1, 20, 7, **follower).rows(tmp_path)
    assert chosen(rows, "group_id", "lag", "end_offset", "delivered_offset") == [("g", 3, 7, None)]


def test_a_client_id_of_two_groups_names_none_of_them(tmp_path: Path) -> None:
    wire = Wire().commit(1, 4, group="g").commit(1, 4, group="h").fetch(1.1, 5, 9)
    assert chosen(wire.rows(tmp_path), "group_id", "lag", "delivered_offset") == [
        ("g", 5, None),
        ("h", 5, None),
    ]


def test_fetched_records_count_as_delivered(tmp_path: Path) -> None:
    wire = Wire().fetch(1, 3, 9, stamped_s=0.5).commit(1.1, 3)
    columns = ("delivered_offset", "undelivered", "uncommitted", "lag")
    assert chosen(wire.rows(tmp_path), *columns) == [(9, 0, 6, 6)]


def test_a_refused_commit_is_none(tmp_path: Path) -> None:
    wire = Wire().fetch(1, 0, 9).commit(1.1, 4).commit(1.2, 9, error="REBALANCE_IN_PROGRESS")
    assert chosen(wire.rows(tmp_path), "committed_offset", "lag") == [(4, 5)]


def test_the_latest_are_the_largest_first(tmp_path: Path) -> None:
    wire = Wire().commit(1, 4, group="g").commit(1, 6, group="h", client="other", on=3)
    wire.fetch(1.1, 5, 9).produce(50, 9, 1)
    rows = wire.rows(tmp_path, latest=True)
    assert chosen(rows, "group_id", "lag") == [("g", 6), ("h", 4)]


def test_commits_of_real_captures_match_the_clients() -> None:
    for name in ("groups-4.3.1", "cluster-4.3.1", "groups-0.10.2.2"):
        truth = json.loads(Path(f"captures/{name}.json").read_text())
        told: dict[tuple[str, str, int], int] = defaultdict(int)
        for _, group, topic, partition, offset in truth["commits"]["rows"]:
            told[group, topic, partition] = max(offset, told[group, topic, partition])
        for _, operation, _, _, arguments, _ in truth["operations"]["rows"]:
            if operation == "alter_group_offsets":
                told[arguments["group"], *arguments["place"]] = arguments["offset"]
        produced = truth["produced"]["columns"].index("offset")
        ends: dict[tuple[str, int], int] = defaultdict(int)
        for row in truth["produced"]["rows"]:
            ends[row[1], row[2]] = max(ends[row[1], row[2]], row[produced] + 1)
        answer = kdissect.analyse("lag", f"captures/{name}.pcapng", latest=True)
        rows = answer.to_arrow().to_pylist()
        committed = {
            (row["group_id"], row["topic"], row["partition"]): row["committed_offset"]
            for row in rows
            if row["committed_offset"] is not None
        }
        assert committed == dict(told)
        for row in rows:
            assert row["end_offset"] == ends[row["topic"], row["partition"]]


def test_lag_of_a_group_that_stopped_in_a_real_capture() -> None:
    answer = kdissect.analyse("lag", "captures/quickstart.pcapng", latest=True)
    rows = [row for row in answer.to_arrow().to_pylist() if row["group_id"] == "order-workers"]
    # slow-rd produced nine more records after the group had gone.
    assert sum(row["lag"] for row in rows) == 9
    assert {row["committed_offset"] for row in rows} == {60}
    assert {row["since"] for row in rows} == {"produce"}


def test_a_condition_that_leaves_no_producers_leaves_no_ages() -> None:
    where = "client_id = 'worker-java'"
    rows = kdissect.analyse("lag", "captures/quickstart.pcapng", where=where, latest=True)
    assert {row["since"] for row in rows.to_arrow().to_pylist()} == {None}


def test_a_condition_on_groups_is_refused_as_it_would_leave_out_producers() -> None:
    where = "group_id = 'order-workers'"
    with pytest.raises(kdissect.KdissectError, match="use --having \"group_id = 'order-workers'\""):
        kdissect.analyse("lag", "captures/quickstart.pcapng", where=where, latest=True)
    rows = kdissect.analyse("lag", "captures/quickstart.pcapng", having=where, latest=True)
    assert {row["since"] for row in rows.to_arrow().to_pylist()} == {"produce"}
