"""Acks: latency by acks, and the follower that was last."""

from pathlib import Path
from typing import Any

import pytest

import kdissect
from tests.analysis.made_tables import MS, Row, asked, connection, exchange, write_tables

CAPTURES = Path("captures")


def produce(number: int, latency_ms: float, at_s: float = 0, acks: int = -1, **more: Any) -> Row:
    return exchange(number, "Produce", latency_ms, at_s, acks=acks, record_count=5, **more)


def follow(number: int, broker: int, at_s: float) -> Row:
    """A fetch of a follower that waits for 500 ms."""
    return exchange(number, "Fetch", 500, at_s, replica_id=broker)


def written(exchange_id: int, base_offset: int = 0, **more: Any) -> Row:
    """Five records, kept at an offset."""
    row = {"exchange_id": exchange_id, "topic": "t", "partition": 0, "error_code": 0}
    return row | {"base_offset": base_offset, "record_count": 5} | more


def wants(exchange_id: int, offset: int, **more: Any) -> Row:
    """A follower's next offset."""
    row = {"exchange_id": exchange_id, "topic": "t", "partition": 0, "fetch_offset": offset}
    return row | more


def followed(tmp_path: Path, exchanges: list[Row], partitions: list[Row]) -> list[tuple[Any, ...]]:
    rows = asked("acks", tmp_path, exchanges=exchanges, partitions=partitions)
    names = ("acks", "follower", "exchanges", "replication_p99_ns", "answer_p99_ns")
    return [tuple(row[name] for name in names) for row in rows]


def test_the_last_follower_to_ask_for_more_is_the_one_that_was_waited_for(tmp_path: Path) -> None:
    exchanges = [
        produce(1, 100), follow(2, 2, 0.03), follow(3, 3, 0.08), follow(4, 2, 0.09),
        follow(5, 3, 0.2),
    ]  # fmt: skip
    partitions = [written(1), wants(2, 5), wants(3, 5), wants(4, 7), wants(5, 9)]
    assert followed(tmp_path, exchanges, partitions) == [(-1, 3, 1, 80 * MS, 20 * MS)]


def test_a_fetch_that_asks_for_the_batch_itself_has_not_passed_it(tmp_path: Path) -> None:
    exchanges = [produce(1, 100), follow(2, 2, 0.03), follow(3, 3, 0.08)]
    partitions = [written(1), wants(2, 5), wants(3, 4)]
    assert followed(tmp_path, exchanges, partitions) == [(-1, 2, 1, 30 * MS, 70 * MS)]


def test_of_several_partitions_the_last_counts(tmp_path: Path) -> None:
    exchanges = [produce(1, 100), follow(2, 2, 0.03), follow(3, 2, 0.05)]
    other = {"partition": 1}
    partitions = [written(1), written(1, 10, **other), wants(2, 5), wants(3, 15, **other)]
    assert followed(tmp_path, exchanges, partitions) == [(-1, 2, 1, 50 * MS, 50 * MS)]


def test_followers_that_fetch_after_the_response_are_not_in_sync(tmp_path: Path) -> None:
    exchanges = [produce(1, 100), follow(2, 2, 0.15), produce(3, 10, 1.0)]
    partitions = [written(1), wants(2, 5), written(3, 5)]
    assert followed(tmp_path, exchanges, partitions) == [(-1, None, 2, None, None)]


def given_up(tmp_path: Path, exchanges: list[Row], partitions: list[Row]) -> list[Row]:
    names = ("follower", "exchanges", "given_up", "slow", "replication_p99_ns", "answer_p99_ns")
    rows = asked("acks", tmp_path, exchanges=exchanges, partitions=partitions)
    return [{name: row[name] for name in names} for row in rows]


def test_followers_that_left_the_isr_before_the_response_were_waited_for(
    tmp_path: Path,
) -> None:
    exchanges = [
        produce(1, 100), follow(2, 2, 0.03), follow(3, 3, 0.05),
        produce(4, 2000, 1.0), follow(5, 2, 1.01), produce(6, 1500, 1.5), follow(7, 2, 1.51),
        produce(8, 20, 4.0), follow(9, 2, 4.01),
    ]  # fmt: skip
    partitions = [
        written(1), wants(2, 5), wants(3, 5), written(4, 5), wants(5, 10), written(6, 10),
        wants(7, 15), written(8, 15), wants(9, 20),
    ]  # fmt: skip
    assert given_up(tmp_path, exchanges, partitions) == [
        {
            "follower": 3, "exchanges": 3, "given_up": 2, "slow": 1,
            "replication_p99_ns": 1990 * MS, "answer_p99_ns": 49 * MS,
        },
        {
            "follower": 2, "exchanges": 1, "given_up": 0, "slow": 0,
            "replication_p99_ns": 10 * MS, "answer_p99_ns": 10 * MS,
        },
    ]  # fmt: skip


def test_a_returning_follower_is_waited_for_again(tmp_path: Path) -> None:
    exchanges = [
        produce(1, 100), follow(2, 2, 0.03), follow(3, 3, 0.05), produce(4, 30, 1.0),
        follow(5, 2, 1.01), produce(6, 90, 2.0), follow(7, 2, 2.01), follow(8, 3, 2.08),
    ]  # fmt: skip
    partitions = [
        written(1), wants(2, 5), wants(3, 5), written(4, 5), wants(5, 10), written(6, 10),
        wants(7, 15), wants(8, 15),
    ]  # fmt: skip
    found = given_up(tmp_path, exchanges, partitions)
    assert [(row["follower"], row["exchanges"], row["given_up"]) for row in found] == [(3, 3, 1)]


def test_consumers_errors_and_other_acks_have_no_follower(tmp_path: Path) -> None:
    exchanges = [
        produce(1, 100, acks=1), produce(2, 100, error_count=1),
        produce(3, 0, acks=0, outcome="no_response_expected", latency_ns=None),
        exchange(4, "Fetch", 500, 0.05, client_id="reader"), follow(5, 2, 0.06),
    ]  # fmt: skip
    partitions = [
        written(1), written(2, -1, error_code=6), written(3, -1), wants(4, 5), wants(5, 5)
    ]  # fmt: skip
    assert followed(tmp_path, exchanges, partitions) == [
        (-1, None, 1, None, None), (0, None, 1, None, None), (1, None, 1, None, None)
    ]  # fmt: skip


def test_the_follower_that_makes_p99_comes_first(tmp_path: Path) -> None:
    exchanges, partitions = [], []
    for number in range(100):
        is_slow = number in (20, 60)
        latency, broker = (400, 3) if is_slow else (10, 2)
        exchanges += [produce(number * 2, latency, number),
                      follow(number * 2 + 1, broker, number + (latency - 4) / 1000)]  # fmt: skip
        partitions += [written(number * 2, number * 5), wants(number * 2 + 1, number * 5 + 5)]
    rows = asked("acks", tmp_path, exchanges=exchanges, partitions=partitions)
    shown = [(row["follower"], row["exchanges"], row["slow"], row["p50_ns"] // MS) for row in rows]
    assert shown == [(3, 2, 2, 400), (2, 98, 0, 10)]
    assert {row["all_p99_ns"] for row in rows} == {400 * MS}
    assert rows[0]["replication"] == pytest.approx(396 / 400)


def test_producers_are_grouped_by_chosen_columns(tmp_path: Path) -> None:
    exchanges = [produce(1, 5, client_id="a"), produce(2, 9, client_id="b", connection_id=2)]
    rows = asked(
        "acks", tmp_path, {"by": ["client", "broker"]}, exchanges=exchanges,
        connections=[connection(1), connection(2, broker_port=9093)],
    )  # fmt: skip
    assert [(row["client"], row["broker"], row["p99_ns"]) for row in rows] == [
        ("a", "10.0.0.9:9092", 5 * MS), ("b", "10.0.0.9:9093", 9 * MS)
    ]  # fmt: skip


def test_the_writer_of_a_real_cluster_waited_for_the_replica_of_each_partition() -> None:
    """Packets 1314 and 1379: produced at 958.836 s; broker 2 fetches offset 3 at 959.434 s."""
    answer = kdissect.analyse("acks", CAPTURES / "cluster-4.3.1.pcapng", by=["client", "broker"])
    found = {
        (row["client"], row["broker"]): (row["follower"], row["replication_p50_ns"])
        for row in answer.to_arrow().to_pylist()
    }
    assert found["writer", "127.0.0.1:19092"] == (2, 598_183_119)
    followers = {follower for follower, _ in found.values()}
    assert followers == {1, 2, 3}
    # A leader does not follow itself.
    assert all(broker != f"127.0.0.{found[client, broker][0]}:19092" for client, broker in found)


def test_acks_of_a_broker_alone_have_no_follower() -> None:
    rows = kdissect.analyse("acks", CAPTURES / "quickstart.pcapng").to_arrow().to_pylist()
    assert [(row["acks"], row["exchanges"], row["follower"]) for row in rows] == [
        (-1, 31, None), (0, 20, None), (1, 2, None)
    ]  # fmt: skip


def test_a_condition_on_producers_leaves_the_followers(tmp_path: Path) -> None:
    exchanges = [produce(1, 100, client_id="p"), follow(2, 3, 0.08), produce(3, 50, client_id="q")]
    partitions = [written(1), wants(2, 5), written(3, 5)]
    tables = write_tables(tmp_path, exchanges=exchanges, partitions=partitions)
    found = kdissect.analyse("acks", tables, where="client_id = 'p'").to_arrow().to_pylist()
    assert [(row["follower"], row["exchanges"]) for row in found] == [(3, 1)]
