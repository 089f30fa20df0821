"""Partitions and lag on the screen, of one process and of workers; DuckDB is the oracle."""

import random
from pathlib import Path

import duckdb
import numpy as np
import pytest

import kdissect
from kdissect.live.counting.connection_rates import numbered
from kdissect.live.counting.lag import Positions
from kdissect.live.counting.mergeable import merge
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.partition_lags import (
    EndRates,
    OffsetState,
    partition_lags,
    with_lags,
)
from kdissect.live.watcher import Watcher
from kdissect.sources.recorded_source import RecordedSource
from tests.live.made_rows import MS, SECOND, START, exchange, given, handed, partition, status
from tests.seeds import SEED

CAPTURES = Path(__file__).parents[2] / "captures"
ENDS = """
    select topic, partition, max(greatest(
        coalesce(p.high_watermark, -1),
        case when e.api = 'Produce' and p.base_offset >= 0
             then p.base_offset + greatest(coalesce(p.record_count, 1), 1) else -1 end)) as last
    from partitions p join exchanges e using (connection_id, exchange_id)
    where topic is not null and coalesce(p.error_code, 0) = 0
    group by all having last >= 0
"""
COMMITS = """
    select e.group_id, topic, partition, arg_max(committed_offset, (response_end, committed_offset))
    from partitions p join exchanges e using (connection_id, exchange_id)
    where e.api in ('OffsetCommit', 'TxnOffsetCommit', 'OffsetFetch') and committed_offset >= 0
      and coalesce(p.error_code, 0) = 0 and e.group_id is not null and topic is not null
    group by all
"""


@pytest.mark.parametrize("capture", ["consumer-groups-4.3.1", "groups-2.4.1", "basics-3.4.1"])
def test_partitions_and_lags_are_those_of_the_tables(capture: str) -> None:
    path = CAPTURES / f"{capture}.pcapng"
    meters = Meters(window_s=3600)
    with RecordedSource(path) as packet_source:
        Watcher(packet_source, [meters]).run()
    snapshot = meters.snapshot()
    tables = {name: kdissect.read(path, table=name) for name in ("exchanges", "partitions")}
    database = duckdb.connect()
    for name, table in tables.items():
        database.register(name, table.to_arrow())
    ends = {(topic, index): end for topic, index, end in database.sql(ENDS).fetchall()}
    commits = database.sql(COMMITS).fetchall()
    found = {(one.topic, one.partition): one for one in snapshot.partitions}
    assert {key: one.end for key, one in found.items()} == ends
    lags: dict[str, int] = {}
    worst: dict[tuple[str, int], int] = {}
    for group, topic, index, offset in commits:
        if (topic, index) in ends:
            lag = max(ends[topic, index] - offset, 0)
            lags[group] = lags.get(group, 0) + lag
            worst[topic, index] = max(lag, worst.get((topic, index), -1))
    assert {key: one.lag for key, one in found.items() if one.group} == worst
    assert {one.group_id: one.lag for one in snapshot.groups if one.lag >= 0} == lags
    assert ends


def test_rates_are_of_the_growing_end() -> None:
    rates = EndRates()
    for second in range(60):
        ends = {("orders", 0): (START, 1000 + 25 * second), ("orders", 1): (START, 7)}
        found = rates.of(Positions({}, ends), START + second * SECOND)
    assert found == {("orders", 0): 25.0, ("orders", 1): 0.0}
    again = rates.of(Positions({}, {("orders", 0): (START, 3)}), START + 60 * SECOND)
    assert again == {("orders", 0): 0.0}


def test_the_group_that_is_furthest_behind_is_named() -> None:
    positions = Positions(
        {("a", "orders", 0): (1, 90), ("b", "orders", 0): (1, 40), ("c", "lost", 0): (1, 4)},
        {("orders", 0): (1, 100), ("orders", 1): (1, 5)},
    )
    rows = partition_lags(OffsetState(positions))
    assert [(one.partition, one.group, one.lag, one.groups) for one in rows] == [
        (0, "b", 60, 2), (1, "", -1, 0)]  # fmt: skip
    groups = with_lags((), positions)
    assert [(one.group_id, one.lag, one.lag_partitions) for one in groups] == [
        ("b", 60, 1), ("a", 10, 1)]  # fmt: skip
    assert partition_lags(OffsetState(positions), "other") == ()


def test_workers_have_the_lag_of_one_process() -> None:
    draw = random.Random(f"{SEED} lag")
    one, two, whole = Meters(), Meters(), Meters()
    for second in range(4):
        for of in (one, two):
            rows, cells = [], []
            for number in range(30):
                key = number + 100 * second + (5000 if of is two else 0)
                is_commit = draw.random() < 0.5
                api = "OffsetCommit" if is_commit else "Fetch"
                rows.append(exchange(key, api, group_id=draw.choice("ab")))
                name, index = draw.choice(["orders", "clicks"]), draw.randrange(3)
                offset = draw.randrange(1000) + 1000 * second
                value = {"committed_offset": offset} if is_commit else {"high_watermark": offset}
                cells.append(partition(key, name, **{"partition": index} | value))
            batches = handed({"exchanges": rows, "partitions": cells})
            given(of, batches)
            given(whole, batches)
        for each in (one, two, whole):
            each.tick(status(second + 1))
    merged = merge([one.mergeable(), two.mergeable()], whole.snapshot().status)
    expected = whole.snapshot()
    assert {row[:2]: (row.end, row.group, row.lag) for row in merged.partitions} == {
        row[:2]: (row.end, row.group, row.lag) for row in expected.partitions
    }
    assert sorted((g.group_id, g.lag) for g in merged.groups) == sorted(
        (g.group_id, g.lag) for g in expected.groups
    )
    assert len(expected.partitions) == 6
    assert expected.groups[0].lag >= 0


def test_all_connections_have_their_own_numbers() -> None:
    meters = Meters()
    rows = [
        exchange(
            number,
            connection_id=number % 3,
            latency_ms=number + 1,
            client_id=f"c{number % 3}",
            error_count=int(number == 4),
        )
        for number in range(7)
    ]
    meters.tick(status(0))
    given(meters, handed({"exchanges": rows}))
    meters.tick(status(1))
    snapshot = meters.snapshot()
    found = {one.connection_id: one for one in snapshot.connection_rates}
    assert [(key, one.rate, one.errors, one.max_ns // MS) for key, one in found.items()] == [
        (0, 3.0, 0.0, 7), (1, 2.0, 1.0, 5), (2, 2.0, 0.0, 6)]  # fmt: skip
    assert found[1].client == "c1"
    assert found[2].last_ns == START + 5 * MS
    assert (found[0].bytes_to_broker, found[0].bytes_to_client) == (300.0, 150.0)
    assert snapshot.connections_seen == 3


def test_problems_have_their_last_message() -> None:
    meters = Meters()
    given(meters, handed({"problems": [
        {"kind": "skipped-bytes", "message": "first", "stage": "framing", "time": START},
        {"kind": "skipped-bytes", "message": "last", "stage": "framing", "time": START + 1,
         "connection_id": 9},
        {"kind": "mid-stream", "message": "no problem", "stage": "framing"},
    ]}))  # fmt: skip
    meters.tick(status(1, problems={"skipped-bytes": 2}))
    found = meters.snapshot().problem_messages
    assert [(one.kind, one.message, one.time_ns, one.connection_id) for one in found] == [
        ("skipped-bytes", "last", START + 1, 9)]  # fmt: skip


@pytest.mark.parametrize("ids", [[5, 7, 5, 9], [1, 10**12, 1], [3], []])
def test_connections_are_numbered_whatever_their_ids_are(ids: list[int]) -> None:
    found, which = numbered(np.array(ids, np.int64))
    assert [int(found[at]) for at in which] == ids
