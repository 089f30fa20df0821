"""Brokers that stalled, staged with real ones: the analyses name them and the waiting clients.

Bounds come from the side-cars: when the operator acted, when records were sent and acknowledged by
the clients' clocks, which are also the clock of the capture.
"""

from collections import Counter

import pytest

from tests.analysis.staged import CLIENT_NS, MS, SECOND, Incident, Row, broker, percentile, took_ns

PAUSE_NS = SECOND  # of the scenarios in slow_brokers.py, at least


@pytest.fixture(scope="module")
def slow_follower(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return Incident("slow-follower", tmp_path_factory.mktemp("follower"))


@pytest.fixture(scope="module")
def slow_leader(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return Incident("slow-leader", tmp_path_factory.mktemp("leader"))


@pytest.fixture(scope="module")
def lagging(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return Incident("lagging-follower", tmp_path_factory.mktemp("lagging"))


def held_up(incident: Incident, records: list[Row]) -> list[Row]:
    """Records that a paused broker delayed: sent before the end of a pause, answered after it."""
    ends = [pause["start_ns"] + PAUSE_NS for pause in incident.told["pauses"]]
    return [
        record
        for record in records
        if any(record["sent_ns"] < end <= record["acknowledged_ns"] for end in ends)
    ]


def test_acks_names_the_follower_that_stood_still(slow_follower: Incident) -> None:
    rows = slow_follower.asked("acks", by=["client"])
    slow = {(row["client"], row["follower"]) for row in rows if row["slow"]}
    assert slow == {("orders-all", 3), ("views-one", None)}
    records = slow_follower.produced("orders-all")
    held = held_up(slow_follower, records)
    assert len(held) == len(slow_follower.acts("pause")) == 3
    (row,) = (row for row in rows if row["follower"] == 3)
    longest = max(map(took_ns, held))
    assert longest - CLIENT_NS < row["max_ns"] < longest
    assert row["replication_p99_ns"] > 0.9 * row["p99_ns"]
    found = [took_ns(record) for record in records[1:]]  # the first waits for an id and metadata
    assert abs(row["all_p99_ns"] - percentile(found, 0.99)) < CLIENT_NS


def test_each_pause_of_the_follower_held_up_one_record_of_acks_all(
    slow_follower: Incident,
) -> None:
    slowest = slow_follower.asked("slowest", "client_id = 'orders-all'", number=3)
    assert {row["api"] for row in slowest} == {"Produce"}
    begun = sorted(row["request_start"].value for row in slowest)
    ends = [pause["start_ns"] + PAUSE_NS for pause in slow_follower.told["pauses"]]
    over = sorted(row["request_start"].value + row["latency_ns"] for row in slowest)
    for start, end, stop in zip(begun, ends, over, strict=True):
        assert start < end < stop


def test_acks_1_at_the_same_leader_is_not_touched(slow_follower: Incident) -> None:
    (row,) = slow_follower.asked("acks", "client_id = 'views-one'")
    records = slow_follower.produced("views-one")
    assert (row["acks"], row["follower"], row["exchanges"]) == (1, None, len(records))
    assert row["max_ns"] < max(map(took_ns, records)) < PAUSE_NS / 2


def test_latency_by_broker_matches_the_clients_wait_per_partition(
    slow_leader: Incident,
) -> None:
    rows = slow_leader.asked("latency", "client_id = 'stock-writer' and api = 'Produce'",
                             by=["broker"])  # fmt: skip
    assert rows[0]["broker"] == broker(3)
    for row in rows:
        partition = [broker(1), broker(2), broker(3)].index(row["broker"])
        records = slow_leader.produced("stock-writer", partition)
        times = [took_ns(record) for record in records]
        assert row["exchanges"] == len(records)
        for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9)):
            assert 0 < percentile(times, share) - row[name] < CLIENT_NS / 2
        held = held_up(slow_leader, records)
        assert len(held) == (3 if row["broker"] == broker(3) else 0)
        if held:
            assert 0 < max(map(took_ns, held)) - row["max_ns"] < CLIENT_NS
        else:
            assert row["max_ns"] < PAUSE_NS / 2


def test_the_slowest_work_is_all_of_the_leader_that_stood_still(slow_leader: Incident) -> None:
    clients = "client_id in ('stock-writer', 'stock-reader') and api in ('Produce', 'Fetch')"
    slowest = slow_leader.asked("slowest", clients, of="work", number=6)
    held = held_up(slow_leader, slow_leader.produced("stock-writer", 2))
    assert len(held) == 3
    found = Counter((row["api"], row["broker"]) for row in slowest)
    assert found == {("Produce", broker(3)): 3, ("Fetch", broker(3)): 3}
    # The wait that a fetch requested, half a second, is not the broker's fault.
    assert all(row["work_ns"] > PAUSE_NS / 2 - 100 * MS for row in slowest)


def test_acks_all_waits_for_the_lagging_follower(lagging: Incident) -> None:
    rows = lagging.asked("acks", by=["client"])
    (row,) = (row for row in rows if row["client"] == "strict-waits" and row["slow"])
    assert (row["follower"], row["given_up"], row["failed"]) == (3, 0, 0)
    (pause,) = lagging.told["pauses"]
    (record,) = held_up(lagging, lagging.produced("strict-waits"))
    assert 0 < took_ns(record) - row["max_ns"] < CLIENT_NS
    assert row["max_ns"] > pause["end_ns"] - record["sent_ns"] - CLIENT_NS


def test_min_isr_two_waits_until_the_follower_leaves_the_isr(lagging: Incident) -> None:
    rows = lagging.asked("acks", by=["client"])
    (row,) = (row for row in rows if row["client"] == "relaxed-goes-on" and row["slow"])
    assert (row["follower"], row["given_up"]) == (3, 1)
    (pause,) = lagging.told["pauses"]
    longest = max(lagging.produced("relaxed-goes-on")[1:], key=took_ns)
    assert 0 < took_ns(longest) - row["max_ns"] < CLIENT_NS
    # replica.lag.time.max.ms is 1500; leaders look every half of it, and the follower had caught up
    # last before it was paused.
    over = longest["acknowledged_ns"] - pause["start_ns"]
    assert 1500 * MS - CLIENT_NS < over < 2250 * MS + 2 * CLIENT_NS
    after = [
        record
        for record in lagging.produced("relaxed-goes-on")
        if longest["acknowledged_ns"] < record["sent_ns"] < pause["end_ns"]
    ]
    assert len(after) > 10
    assert max(map(took_ns, after)) < 2 * CLIENT_NS


def test_produce_is_rejected_while_too_few_replicas_are_in_sync(lagging: Incident) -> None:
    (row,) = lagging.asked("errors", "client_id = 'strict-refused' and api = 'Produce'",
                           by=["error", "client", "topic"])  # fmt: skip
    assert (row["error"], row["topic"], row["is_retriable"]) == (
        "NOT_ENOUGH_REPLICAS", "strict", True,
    )  # fmt: skip
    assert "bring brokers back" in row["advice"]
    (pause,) = lagging.told["pauses"]
    late = lagging.produced("strict-refused")[-1]
    log = lagging.requests("strict-refused", "PRODUCE")
    tries = [request for request in log if request["sent_ms"] * MS >= late["sent_ns"] - MS]
    assert row["errors"] == len(tries) - 1 == 9
    assert pause["start_ns"] + 1500 * MS < row["first_seen"].value < pause["end_ns"]
    assert late["sent_ns"] < row["first_seen"].value < row["last_seen"].value
    assert row["last_seen"].value < late["acknowledged_ns"]
    (retry,) = lagging.asked("retries", "client_id = 'strict-refused'")
    assert (retry["cause"], retry["tries"], retry["copies"], retry["ended"]) == (
        "NOT_ENOUGH_REPLICAS", len(tries), 1, "ok",
    )  # fmt: skip
    assert 0 < took_ns(late) - retry["until_success_ns"] < CLIENT_NS
    (blackout,) = (row for row in lagging.asked("failovers") if row["access"] == "produce")
    assert (blackout["topic"], blackout["cause"], blackout["new_broker"]) == (
        "strict", "NOT_ENOUGH_REPLICAS", broker(1),
    )  # fmt: skip
    assert blackout["slowest_client_ns"] < took_ns(late)


def test_health_does_not_blame_the_network_for_a_broker_that_stood_still(
    slow_leader: Incident,
) -> None:
    rows = slow_leader.asked("health", "client_id = 'stock-writer'", by=["broker"])
    produced = {row["broker"]: row for row in rows if row["exchanges"]}
    assert {name: row["network"] for name, row in produced.items()} == {
        broker(number): 0 for number in (1, 2, 3)
    }
    slow = produced[broker(3)]
    assert (slow["troubled"], slow["missing_bytes"]) == (0, 0)
    assert slow["time_p99_ns"] == slow["untroubled_p99_ns"] > PAUSE_NS / 2
