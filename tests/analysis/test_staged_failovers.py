"""Leaders that were killed, moved and shut down, with real brokers: leaders, and time without.

Bounds come from the side-cars: when the operator acted, when records were sent and acknowledged by
the clients' clocks, which are the clock of the capture, too.
"""

from collections import Counter

import pytest

from tests.analysis.staged import CLIENT_NS, MS, Incident, Row, broker, took_ns


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return Incident("leader-killed", tmp_path_factory.mktemp("killed"))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return Incident("leader-stopped", tmp_path_factory.mktemp("stopped"))


def blackouts(incident: Incident, access: str, partition: int = 0) -> list[Row]:
    rows = incident.asked("failovers")
    return [
        row
        for row in rows
        if (row["topic"], row["access"], row["partition"]) == ("bets", access, partition)
    ]


def test_a_killed_leader_is_a_blackout_until_another_leads(killed: Incident) -> None:
    (row,) = blackouts(killed, "produce")
    assert (row["cause"], row["errors"], row["clients"], row["unrecovered"]) == (
        "unanswered", 1, 1, 0,
    )  # fmt: skip
    assert (row["old_broker"], row["refused_by"], row["new_broker"]) == (
        broker(2), broker(2), broker(3),
    )  # fmt: skip
    (kill,) = killed.acts("kill")
    log = killed.requests("bets-first", "PRODUCE")
    (failed,) = (request for request in log if request["received_ms"] is None)
    succeeded = min(
        request["received_ms"] for request in log if request["sent_ms"] > failed["sent_ms"]
    )
    # The client's log is cut to milliseconds, and a woken thread waits for its turn.
    assert abs(row["started"].value - failed["sent_ms"] * MS) < 10 * MS
    seen = succeeded - failed["sent_ms"]
    assert -MS < seen * MS - row["blackout_ns"] < CLIENT_NS
    # There is no leader before the session times out: 3 s after a heartbeat, two a second.
    first_success = row["started"].value + row["blackout_ns"]
    assert first_success > kill["start_ns"] + 2500 * MS


def test_the_client_of_a_killed_leader_waited_as_long_as_its_batch_was_retried(
    killed: Incident,
) -> None:
    (row,) = killed.asked("retries")
    assert (row["client_id"], row["partition"], row["cause"], row["ended"]) == (
        "bets-first", 0, "unanswered", "ok",
    )  # fmt: skip
    assert (row["tries"], row["copies"], row["broker"], row["last_broker"]) == (
        2, 1, broker(2), broker(3),
    )  # fmt: skip
    longest = max(map(took_ns, killed.produced("bets-first")))
    assert 0 < longest - row["until_success_ns"] < CLIENT_NS


def test_the_reader_of_a_killed_leader_got_nothing_meanwhile(killed: Incident) -> None:
    (row,) = blackouts(killed, "fetch")
    assert (row["old_broker"], row["new_broker"], row["cause"]) == (
        broker(2), broker(3), "unanswered",
    )  # fmt: skip
    (kill,) = killed.acts("kill")
    # The request left behind was a long poll of half a second.
    assert kill["start_ns"] - 500 * MS < row["started"].value < kill["end_ns"]
    consumed = Counter((place["partition"], place["offset"]) for place in killed.told["consumed"])
    produced = Counter((place["partition"], place["offset"]) for place in killed.told["produced"])
    assert consumed == produced


def test_nothing_happened_to_the_partition_of_another_leader_but_its_lost_follower(
    killed: Incident,
) -> None:
    assert blackouts(killed, "produce", 1) + blackouts(killed, "fetch", 1) == []
    rows = killed.asked("acks", by=["client", "partition"])
    (row,) = (row for row in rows if row["client"] == "bets-second" and row["slow"])
    assert (row["follower"], row["given_up"], row["partition"]) == (2, 1, 1)
    longest = max(map(took_ns, killed.produced("bets-second", 1)[1:]))
    assert 0 < longest - row["max_ns"] < CLIENT_NS


def test_a_moved_leadership_and_a_shutdown_are_two_short_blackouts(stopped: Incident) -> None:
    moved, left = blackouts(stopped, "produce")
    leaders = [(row["old_broker"], row["new_broker"], row["cause"]) for row in (moved, left)]
    assert leaders == [
        (broker(2), broker(3), "NOT_LEADER_OR_FOLLOWER"),
        (broker(3), broker(2), "NOT_LEADER_OR_FOLLOWER"),
    ]
    log = stopped.requests("bets-first", "PRODUCE")
    for row, (act,) in ((moved, stopped.acts("move")), (left, stopped.acts("stop"))):
        assert act["start_ns"] < row["started"].value
        refused = [
            number
            for number, request in enumerate(log)
            if abs(request["received_ms"] * MS - row["started"].value) < 30 * MS
        ]
        told = log[refused[0] + 1]["received_ms"] - log[refused[0]]["received_ms"]
        assert abs(told * MS - row["blackout_ns"]) < 30 * MS


def test_retries_of_a_moved_leadership_are_as_long_as_the_client_waited(
    stopped: Incident,
) -> None:
    rows = stopped.asked("retries")
    assert [(row["client_id"], row["cause"], row["tries"], row["copies"]) for row in rows] == [
        ("bets-first", "NOT_LEADER_OR_FOLLOWER", 2, 1)
    ] * 2
    for row in rows:
        sent = row["first_sent"].value
        (record,) = (
            record
            for record in stopped.produced("bets-first")
            if record["sent_ns"] < sent < record["acknowledged_ns"]
        )
        assert 0 < took_ns(record) - row["until_success_ns"] < CLIENT_NS
    consumed = Counter((place["partition"], place["offset"]) for place in stopped.told["consumed"])
    assert consumed == Counter(
        (place["partition"], place["offset"]) for place in stopped.told["produced"]
    )
