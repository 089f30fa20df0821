"""Staged incidents: the summary names the cause that the side-car documents."""

from pathlib import Path

import pytest

import kdissect
from kdissect.rules.engine import few
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding

CAPTURES = Path(__file__).parent.parent.parent / "captures"

# Incident → problems and warnings of the page, in their order: id, severity, words of the sentence.
CAUSES: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {
    # One of three leaders is paused for a second, three times.
    "slow-leader-4.3.1": [
        ("broker-stalls", PROBLEM, ("Broker 127.0.0.3:39092", "up to 1 s", "(3 times)")),
    ],
    # Broker 3 is paused while acks=all are written to others.
    "slow-follower-4.3.1": [
        (
            "produce-latency-slow-follower", WARNING,
            ("acks=all waits for broker 3", "of 18 requests", "1 took up to 1.28 s"),
        ),
    ],
    # Broker 3 falls out of the replicas in sync.
    "lagging-follower-4.3.1": [
        ("replicas-missing", PROBLEM, ("NOT_ENOUGH_REPLICAS", "strict-refused")),
        ("produce-latency-slow-follower", WARNING, ("acks=all waits for broker 3",)),
    ],
    # The leader's process is killed.
    "leader-killed-4.3.1": [
        (
            "failover-blackout", PROBLEM,
            ("127.0.0.2:39092 could not be written", "127.0.0.3:39092 took over", "refused 14"),
        ),
    ],
    # Leadership is moved away, then the new leader is shut down in order.
    "leader-stopped-4.3.1": [],
    "lost-answers-4.3.1": [
        ("duplicates-in-log", PROBLEM, ("java-plain", "librdkafka-plain", "2 batches got two")),
        ("produce-sent-again", WARNING, ("4 batches of java-idempotent",)),
    ],
    "lossy-network-4.3.1": [
        ("network-makes-p99", PROBLEM, ("sensor-during at 10.42.0.3",)),
    ],
    "killed-member-4.3.1": [
        ("session-timeout", PROBLEM, ("Group tellers lost tellers-2", "stalled for 6.05 s")),
        ("session-timeout", PROBLEM, ("Group tellers-new lost tellers-new-2",)),
    ],
    "slow-poller-4.3.1": [
        ("max-poll-exceeded", PROBLEM, ("slow-java-1 at 127.0.0.1 exceeded max.poll.interval.ms",)),
    ],
    "hanging-transaction-4.3.1": [
        ("hanging-transaction", PROBLEM, ("till (payer", "aborted it after 4.51 s")),
        ("transactional-id-taken-over", WARNING, ("drawer (zombie", "by heir")),
    ],
    "static-member-4.3.1": [
        ("session-timeout", PROBLEM, ("Group desks-new lost desks-new-2-in-time",)),
        ("session-timeout", PROBLEM, ("Group desks lost desks-2-in-time",)),
    ],
    "crashes-4.3.1": [
        ("session-timeout", PROBLEM, ("Group commits-first lost a member",)),
        ("session-timeout", PROBLEM, ("Group auto-behind lost a member",)),
        ("session-timeout", PROBLEM, ("Group auto-ahead lost a member",)),
    ],
    "old-clients-3.9.1": [
        ("client-breaks-on-4.0", WARNING, ("6 clients break on Kafka 4.0", "Fetch v3")),
    ],
    "old-clients-4.3.1": [
        ("client-breaks-on-4.0", PROBLEM, ("java-0.10.2.2-writer", "48 requests", "no response")),
    ],
    # Joins, new partitions, a new topic, a leave: nothing that anybody suffers from.
    "group-changes-4.3.1": [],
}  # fmt: skip


def page_of(incident: str) -> list[Finding]:
    return few(kdissect.findings(CAPTURES / f"incident-{incident}.pcapng"))


@pytest.mark.parametrize("incident", CAUSES)
def test_the_first_page_names_the_cause(incident: str) -> None:
    worse = [one for one in page_of(incident) if one.severity != NOTICE]
    wanted = CAUSES[incident]
    assert [(one.id, one.severity) for one in worse] == [one[:2] for one in wanted]
    for one, (_, _, words) in zip(worse, wanted, strict=True):
        assert all(word in one.text for word in words), one.text


def test_clients_slow_to_notice_are_reported_with_the_failover() -> None:
    (found,) = [one for one in page_of("leader-killed-4.3.1") if one.id == "failover-blackout"]
    assert found.concerns["broker"] == "127.0.0.2:39092"
    assert found.concerns["new_brokers"] == ["127.0.0.3:39092"]
    assert found.command == "kdissect failovers"


def test_a_broker_that_is_shut_down_in_order_is_a_notice() -> None:
    found = [one for one in page_of("leader-stopped-4.3.1") if one.id == "failover-blackout"]
    assert [one.severity for one in found] == [NOTICE, NOTICE]
    assert "127.0.0.2:39092 could not be written for up to 810 ms" in found[0].text
    assert "then 127.0.0.3:39092 took over" in found[0].text
    assert "127.0.0.3:39092 could not be written for up to 55.8" in found[1].text
    assert "then 127.0.0.2:39092 took over" in found[1].text


def test_records_delivered_twice_are_reported() -> None:
    (found,) = [one for one in page_of("crashes-4.3.1") if one.id == "records-delivered-again"]
    assert found.concerns == {"group": "auto-behind", "topic": "of-auto-behind"}
    assert found.numbers["redelivered"] == 20
