"""Each rule: when it applies, its sentence, and when it does not apply."""

from dataclasses import replace
from typing import Any

import pytest

from kdissect.analysis.summary.counters import ErrorRow, Quantiles
from kdissect.analysis.summary.summary import ProblemRow
from kdissect.rules.catalogue import ERROR, KINDS
from kdissect.rules.compiled_sql import names
from kdissect.rules.engine import RULES, few, is_symptom, judge
from kdissect.rules.finding import NOTICE, PROBLEM, SEVERITIES, WARNING, Finding
from tests.analysis.made_findings import (
    MS,
    SECOND,
    START_US,
    api,
    columns_of,
    ids,
    judged,
    made_summary,
    seen,
)

Row = dict[str, Any]
WHO = {"client": "svc-7", "client_ip": "10.1.2.3"}
WHOM = {"client_id": "svc-7", "client_ip": "10.1.2.3"}
BROKER = "10.0.0.9:9092"
SHARED_AGAIN = {
    "group_id": "g", "topic": "t", "risk": "repeated: delivered again", "rhythm": "share group",
    "partitions": 2,
}  # fmt: skip
SOME_LAG = {
    "group_id": "g", "topic": "t", "first_lag": 0, "last_lag": 500, "lag_time_ns": 10 * SECOND,
}  # fmt: skip

# Evidence, one row of it, and the sentence.
SAID: list[tuple[str, Row, str, str, str]] = [
    ("failovers", {
        "access": "produce", "cause": "NOT_LEADER_OR_FOLLOWER", "old_broker": BROKER,
        "new_broker": "10.0.0.8:9092", "blackouts": 12, "blackout_ns": 2 * SECOND,
        "unfinished": 0, "errors": 40, "clients": 4, "topic": "orders", "started": START_US,
     }, "failover-blackout", PROBLEM,
     "12 partitions of 10.0.0.9:9092 could not be written for up to 2 s; then 10.0.0.8:9092 took "
     "over: NOT_LEADER_OR_FOLLOWER, 40 partition errors"),
    ("errors", WHO | {
        "error": "NOT_ENOUGH_REPLICAS", "api": "Produce", "errors": 18, "exchanges": 9,
        "is_retriable": True,
     }, "replicas-missing", PROBLEM,
     "Too few replicas were in sync: NOT_ENOUGH_REPLICAS 9 times to svc-7 at 10.1.2.3"),
    ("errors", WHO | {
        "error": "SASL_AUTHENTICATION_FAILED", "api": "SaslAuthenticate", "errors": 2,
        "message": "Invalid username or password",
     }, "authentication-fails", PROBLEM,
     "2 logins of svc-7 at 10.1.2.3 failed: SASL_AUTHENTICATION_FAILED (Invalid username or "
     "password)"),
    ("logins", WHO | {"failed_logins": 1, "mechanisms": "PLAIN"}, "authentication-fails", PROBLEM,
     "1 login of svc-7 at 10.1.2.3 failed (PLAIN): the broker closed the connection"),
    ("errors", WHO | {"error": "TOPIC_AUTHORIZATION_FAILED", "api": "Fetch", "errors": 20,
            "exchanges": 1},
     "authorization-fails", PROBLEM,
     "svc-7 at 10.1.2.3 lacked authorization (Fetch): TOPIC_AUTHORIZATION_FAILED 1 time"),
    ("errors", WHO | {
        "error": "INVALID_GROUP_ID", "api": "JoinGroup", "errors": 3, "exchanges": 3,
        "is_retriable": False,
     }, "error-INVALID_GROUP_ID", PROBLEM,
     "INVALID_GROUP_ID 3 times to svc-7 at 10.1.2.3 (JoinGroup). The group id is empty or not "
     "allowed: set group.id"),
    ("slowest", WHOM | {
        "api": "Heartbeat", "broker": BROKER, "work_ns": 900 * MS, "latency_ns": 900 * MS,
        "silent_ns": 890 * MS, "request_start": START_US, "request_packet": 7,
     }, "broker-stalls", PROBLEM,
     "Broker 10.0.0.9:9092 stalled for up to 890 ms: 1 request (Heartbeat) of svc-7 at "
     "10.1.2.3 waited 900 ms or longer"),
    ("acks", {
        "follower": 3, "exchanges": 500, "slow": 5, "p99_ns": 412 * MS, "all_p99_ns": 400 * MS,
        "replication_p50_ns": 40 * MS, "replication_p99_ns": 400 * MS,
     }, "produce-latency-slow-follower", PROBLEM,
     "Produce with acks=all waits for broker 3: p99 is 412 ms where it replicated last, 400 ms of "
     "it for replication; 5 of the 5 slowest requests"),
    ("work", {"api": "Produce", "broker": BROKER, "exchanges": 500, "p50_ns": 2 * MS,
              "p99_ns": 120 * MS}, "broker-slow", PROBLEM,
     "Broker 10.0.0.9:9092 is slow: p99 of broker time is Produce 120 ms (p50 2 ms)"),
    ("traffic", WHO | {"throttled": 3, "throttle_max_ms": 651}, "throttled-by-quota", WARNING,
     "Brokers throttled svc-7 at 10.1.2.3 3 times, for up to 651 ms"),
    ("delivery", WHOM | {"topic": "orders", "written_twice": 2, "records_twice": 6},
     "duplicates-in-log", PROBLEM,
     "6 records of svc-7 at 10.1.2.3 are in the log twice (orders): 2 batches got two offsets"),
    ("delivery", WHOM | {"topic": "tiny", "given_up": 1, "last_error": "MESSAGE_TOO_LARGE"},
     "produce-gave-up", PROBLEM,
     "1 batch of svc-7 at 10.1.2.3 to tiny was refused on the last attempt, too: "
     "MESSAGE_TOO_LARGE"),
    ("delivery", WHOM | {"topic": "clicks", "batches": 7, "acks": 0}, "may-lose-records", NOTICE,
     "svc-7 at 10.1.2.3 would not notice records lost in a failover: 7 batches with acks=0 or 1 "
     "to clicks"),
    ("retries", WHOM | {
        "topic": "orders", "cause": "unanswered", "batches": 4, "tries": 2, "broker": BROKER,
        "until_success_ns": 2 * SECOND,
     }, "produce-sent-again", WARNING,
     "4 batches of svc-7 at 10.1.2.3 to orders were retried (up to 2 attempts), because no "
     "response came in time from 10.0.0.9:9092; up to 2 s until they were written"),
    ("rebalances", WHOM | {
        "group_id": "g", "cause": "session timeout", "rebalances": 1, "stopped_ns": 10 * SECOND,
        "members": 1, "members_before": 2, "outcome": "complete",
     }, "session-timeout", PROBLEM,
     "Group g lost svc-7 at 10.1.2.3 to a session timeout: its partitions stalled for 10 s; 1 "
     "member remained"),
    ("rebalances", WHOM | {
        "group_id": "g", "cause": "max poll exceeded", "rebalances": 2, "stopped_ns": SECOND,
        "members": 0, "members_before": 1, "outcome": "emptied",
     }, "max-poll-exceeded", PROBLEM,
     "svc-7 at 10.1.2.3 exceeded max.poll.interval.ms and left group g, 2 times: its partitions "
     "stalled for up to 1 s; the group was empty afterwards"),
    ("rebalances", WHOM | {
        "group_id": "g", "cause": "join", "rebalances": 9, "stopped_ns": 2 * SECOND,
        "members_before": 2, "outcome": "complete",
     }, "rebalance-stops-group", WARNING,
     "Partitions of group g stalled for up to 2 s in 9 rebalances: 9 by join (svc-7 at "
     "10.1.2.3)"),
    ("rebalances", WHOM | {
        "group_id": "g", "cause": "static restart", "rebalances": 1, "group_instance_id": "desk-7",
        "members_before": 2,
     }, "static-member-restart", NOTICE,
     "Static member desk-7 of group g rejoined (svc-7 at 10.1.2.3)"),
    ("lag", {
        "group_id": "g", "topic": "orders", "partitions": 3, "first_lag": 10, "last_lag": 12_000,
        "undelivered": 11_000, "lag_time_ns": 180 * SECOND,
     }, "consumer-lag-grows", WARNING,
     "Group g is 12 000 records behind on orders (3 partitions), 10 at the start; the oldest "
     "has waited 3 m 00 s; most were not fetched yet"),
    ("lag", {
        "group_id": "g", "topic": "orders", "partitions": 1, "first_lag": 11_000,
        "last_lag": 12_000, "undelivered": 0,
     }, "consumer-behind", WARNING,
     "Group g is 12 000 records behind on orders (1 partition), 11 000 at the start; most "
     "were fetched but not committed"),
    ("lag", {
        "group_id": "g", "topic": "orders", "partitions": 1, "first_lag": 0, "last_lag": 500,
        "undelivered": 0, "lag_time_ns": 10 * SECOND,
    }, "consumer-lag-grows", WARNING,
     "Group g is 500 records behind on orders (1 partition), 0 at the start; the oldest has "
     "waited 10 s; most were fetched but not committed"),
    ("commits", {
        "group_id": "g", "topic": "orders", "risk": "skips: committed beyond what was delivered",
        "partitions": 2, "ahead": 40,
     }, "commit-skips-records", WARNING,
     "Group g committed up to 40 records of orders (2 partitions) that were not "
     "delivered to it: they may never be processed"),
    ("commits", {
        "group_id": "g", "topic": "orders", "risk": "repeated: delivered again", "partitions": 2,
        "redelivered": 40,
     }, "records-delivered-again", NOTICE,
     "40 records of orders (2 partitions) were redelivered to group g"),
    ("transactions", WHOM | {
        "transactional_id": "till", "outcome": "hanging", "idle_ns": 90 * SECOND, "records": 3,
        "partitions": 1, "started": START_US,
     }, "hanging-transaction", PROBLEM,
     "A transaction of till (svc-7 at 10.1.2.3) is open and has been idle for 1 m 30 s (3 "
     "records in 1 partition): read_committed consumers are blocked behind it"),
    ("transactions", WHOM | {
        "transactional_id": "till", "outcome": "timed out", "records": 3, "partitions": 1,
        "duration_ns": 4 * SECOND,
     }, "hanging-transaction", PROBLEM,
     "A transaction of till (svc-7 at 10.1.2.3) was left open by its producer (3 records in 1 "
     "partition) until the coordinator aborted it after 4 s: until then, read_committed consumers "
     "were blocked behind it"),
    ("rebalances", WHOM | {
        "group_id": "g", "cause": "join", "rebalances": 1, "lost": 1, "stopped_ns": 6 * SECOND,
        "members": 1, "members_before": 1, "outcome": "complete",
     }, "session-timeout", PROBLEM,
     "Group g lost a member to a session timeout: its partitions stalled for 6 s; 1 member "
     "remained"),
    ("transactions", WHOM | {
        "transactional_id": "till", "outcome": "taken over", "duration_ns": SECOND,
        "ended_by": "heir",
     }, "transactional-id-taken-over", WARNING,
     "A transaction of till (svc-7 at 10.1.2.3) was ended after 1 s by heir, which took over the "
     "same id"),
    ("transactions", WHOM | {
        "transactional_id": "till", "outcome": "open", "duration_ns": 61 * SECOND,
     }, "long-transaction", WARNING,
     "A transaction of till (svc-7 at 10.1.2.3) took 1 m 01 s"),
    ("upgrade", WHO | {
        "software": "kafka-python", "software_version": "1.4", "api": "JoinGroup",
        "api_version": 0, "verdict": "breaks", "exchanges": 1,
     }, "client-breaks-on-4.0", WARNING,
     "svc-7 at 10.1.2.3 (kafka-python 1.4) uses JoinGroup v0 and breaks on Kafka 4.0"),
    ("upgrade", WHO | {"api": "Fetch", "api_version": 3, "verdict": "may break", "exchanges": 1},
     "client-may-break-on-4.0", NOTICE,
     "svc-7 at 10.1.2.3 uses Fetch v3 and may break on Kafka 4.0"),
    ("traffic", WHO | {"metadata": 600, "produces": 10, "fetches": 0}, "metadata-storm", WARNING,
     "svc-7 at 10.1.2.3 requested metadata 600 times (10.0/s), compared with 10 produce requests "
     "and 0 fetches"),
    ("traffic", WHO | {"fetches": 6_000, "empty": 0.95}, "empty-polls", NOTICE,
     "svc-7 at 10.1.2.3 fetched 6 000 times (100.0/s); 95 % of the responses were empty"),
    ("traffic", WHO | {"batches": 2_000, "single": 0.9}, "single-record-batches", NOTICE,
     "svc-7 at 10.1.2.3 sent 90 % of 2 000 batches with a single record"),
    ("skew", {
        "topic": "orders", "partitions": 8, "top_partition": "orders-3", "top_share": 0.7,
        "produced_bytes": 9_000_000,
     }, "partition-skew", NOTICE,
     "orders-3 received 70 % of the bytes produced to orders (8 partitions)"),
    ("health", WHO | {"broker": BROKER, "reconnects": 91, "life_p50_ns": SECOND, "exchanges": 5},
     "connection-churn", WARNING,
     "svc-7 at 10.1.2.3 reconnected 91 times; the median connection lasted 1 s"),
    ("health", WHO | {"broker": BROKER, "reset_by_broker": 4, "exchanges": 5},
     "connections-reset", WARNING, "10.0.0.9:9092 reset 4 connections of svc-7 at 10.1.2.3"),
    ("failovers", {
        "access": "produce", "cause": "NOT_LEADER_OR_FOLLOWER", "old_broker": BROKER,
        "new_broker": "10.0.0.8:9092", "blackouts": 1, "blackout_ns": SECOND, "unfinished": 0,
        "errors": 2, "clients": 1, "topic": "orders", "started": START_US,
     }, "failover-blackout", NOTICE,
     "1 partition of 10.0.0.9:9092 could not be written for up to 1 s; then 10.0.0.8:9092 took "
     "over: NOT_LEADER_OR_FOLLOWER, 2 partition errors"),
    ("health", WHO | {
        "broker": BROKER, "closed_by_broker": 3, "idle_min_ns": 3 * SECOND,
        "idle_max_ns": 4 * SECOND, "reconnects": 3, "exchanges": 9,
     }, "idle-connections-closed", NOTICE,
     "10.0.0.9:9092 closed 3 connections of svc-7 at 10.1.2.3 that were idle for 3 s or longer; "
     "they reconnected 3 times"),
    ("health", WHO | {
        "broker": BROKER, "rtt_p50_ns": 80 * MS, "time_p99_ns": 90 * MS, "exchanges": 100,
     }, "round-trip-makes-latency", WARNING,
     "svc-7 at 10.1.2.3 is far from 10.0.0.9:9092: every request spends 80 ms on "
     "a round trip, and p99 is 90 ms"),
    ("skew", {"topic": "orders", "produced_codecs": "lz4", "fetched_codecs": "gzip"},
     "broker-recompresses", NOTICE,
     "Brokers recompress orders: produced with lz4, fetched with gzip"),
    ("commits", {"group_id": "g", "topic": "t", "risk": "repeated: delivered again",
                 "redelivered": 500, "partitions": 2}, "records-delivered-again", WARNING,
     "500 records of t (2 partitions) were redelivered to group g"),
    ("commits", SHARED_AGAIN | {"redelivered": 500}, "share-group-redelivers", WARNING,
     "Members of share group g acquired 500 records of t (2 partitions) that had been "
     "delivered before: members released them, or did not acknowledge them in time"),
    ("commits", SHARED_AGAIN | {"redelivered": 10}, "share-group-redelivers", NOTICE,
     "Members of share group g acquired 10 records of t (2 partitions) that had been "
     "delivered before: members released them, or did not acknowledge them in time"),
    ("rebalances", WHOM | {
        "group_id": "g", "cause": "join", "kind": "consumer", "rebalances": 1, "members": 2,
        "members_before": 1, "stopped_ns": 1500 * MS,
     }, "rebalance-stops-group", NOTICE,
     "Partitions of group g stalled for up to 1.5 s in 1 rebalance: join (svc-7 at 10.1.2.3)"),
    ("health", {"client_ip": "10.1.2.3", "broker": BROKER, "refused": 9},
     "broker-refuses-connections", PROBLEM,
     "10.0.0.9:9092 refused 9 connections from 10.1.2.3; no connection succeeded"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("evidence", "row", "id_", "severity", "text"), SAID, ids=[one[2] for one in SAID]
)
def test_findings_state_their_evidence(
    evidence: str, row: Row, id_: str, severity: str, text: str
) -> None:
    found = [one for one in judged(**{evidence: [row]}) if one.id != "healthy"]
    assert [(one.id, one.severity) for one in found] == [(id_, severity)]
    assert found[0].text.replace("\N{NARROW NO-BREAK SPACE}", " ") == text
    assert found[0].command.startswith("kdissect ")


@pytest.mark.parametrize("others", [0, 1])
def test_failed_logins_name_the_clients_that_got_no_code(others: int) -> None:
    coded = WHO | {"error": "SASL_AUTHENTICATION_FAILED", "api": "SaslAuthenticate", "errors": 2}
    failed = WHO | {"failed_logins": 2, "mechanisms": "PLAIN"}
    silent = [failed | {"client": "svc-8", "failed_logins": 1}] * others
    (found,) = judged(errors=[coded], logins=[failed, *silent])
    assert found.concerns["clients"] == ["svc-7", "svc-8"][: 1 + others]
    assert found.numbers["logins"] == 2 + others
    assert ("svc-8" in found.text) is bool(others)


def test_a_short_capture_does_not_show_that_a_broker_is_gone() -> None:
    row = {"client_ip": "10.1.2.3", "broker": BROKER, "refused": 9}
    long = made_summary(api("Produce"))
    for seconds, severity in ((10, PROBLEM), (9, WARNING)):
        end_ns = (long.totals.first_time_ns or 0) + seconds * SECOND
        short = replace(long, totals=replace(long.totals, last_time_ns=end_ns))
        found = [one.severity for one in judge(seen(summary=short, health=[row]))
                 if one.id == "broker-refuses-connections"]  # fmt: skip
        assert found == [severity]


# The same rows, slightly below the thresholds.
NOT_SAID: list[tuple[str, Row]] = [
    ("commits", SHARED_AGAIN | {"redelivered": 9}),
    ("failovers", {"access": "replicate", "old_broker": BROKER, "cause": "FENCED_LEADER_EPOCH"}),
    ("failovers", {"access": "produce", "old_broker": None, "cause": "LEADER_NOT_AVAILABLE"}),
    ("failovers", {"access": "fetch", "old_broker": BROKER, "cause": "UNKNOWN_TOPIC_ID"}),
    ("errors", WHO | {"error": "REBALANCE_IN_PROGRESS", "api": "Heartbeat", "errors": 3}),
    ("errors", {"client": "raft-client-1", "error": "NOT_LEADER_OR_FOLLOWER", "api": "Fetch"}),
    ("errors", WHO | {"error": "LEADER_NOT_AVAILABLE", "api": "Metadata", "errors": 2,
                      "first_seen": START_US, "last_seen": START_US + 900_000}),
    ("slowest", WHOM | {"api": "Fetch", "broker": BROKER, "work_ns": 499 * MS}),
    ("slowest", WHOM | {"api": "CreateTopics", "broker": BROKER, "work_ns": 900 * MS}),
    ("slowest", {"client_id": "broker-1-fetcher-0", "api": "Fetch", "work_ns": 900 * MS}),
    ("acks", {"follower": 3, "slow": 5, "p99_ns": 49 * MS, "replication_p99_ns": 48 * MS}),
    ("acks", {"follower": 3, "slow": 5, "p99_ns": 400 * MS, "replication_p99_ns": 100 * MS}),
    ("acks", {"follower": None, "slow": 5, "p99_ns": 400 * MS}),
    ("work", {"api": "Produce", "broker": BROKER, "exchanges": 50, "p50_ns": MS,
              "p99_ns": 120 * MS}),
    ("rebalances", {"group_id": "g", "cause": "join", "rebalances": 1, "stopped_ns": 9 * SECOND,
                    "members_before": 0}),
    ("lag", {"group_id": "g", "topic": "t", "first_lag": 5_000, "last_lag": 6_000}),
    ("lag", SOME_LAG | {"last_lag": 499}),
    ("lag", SOME_LAG | {"lag_time_ns": 9_999 * MS}),
    ("lag", SOME_LAG | {"first_lag": 400}),
    ("transactions", {"outcome": "aborted", "ended_by": "svc-7", "transactional_id": "t"}),
    ("commits", {"group_id": "g", "topic": "t", "risk": "repeated: delivered again",
                 "redelivered": 9}),
    ("transactions", {"outcome": "open", "duration_ns": SECOND}),
    ("upgrade", WHO | {"api": "Fetch", "api_version": 4, "verdict": "deprecated"}),
    ("traffic", WHO | {"metadata": 600, "fetches": 9_000, "empty": 0.1}),
    ("traffic", WHO | {"batches": 99, "single": 1.0}),
    ("health", WHO | {"broker": BROKER, "refused": 2, "reconnects": 19, "reset_by_broker": 2}),
    ("health", WHO | {"broker": BROKER, "network": 0.9, "time_p99_ns": 300 * MS, "troubled": 9}),
    ("retries", WHOM | {"cause": "NOT_LEADER_OR_FOLLOWER", "batches": 4}),
    # A broker that goes down closes connections that were idle for different times.
    ("health", WHO | {"broker": BROKER, "closed_by_broker": 3, "idle_min_ns": 3 * SECOND,
                      "idle_max_ns": 5 * SECOND, "reconnects": 3, "exchanges": 9}),
    ("health", WHO | {"broker": BROKER, "closed_by_broker": 3, "idle_min_ns": 30 * MS,
                      "idle_max_ns": 40 * MS, "reconnects": 3, "exchanges": 9}),
    ("health", WHO | {"broker": BROKER, "rtt_p50_ns": 19 * MS, "time_p99_ns": 60 * MS,
                      "exchanges": 100}),
    ("health", WHO | {"broker": BROKER, "rtt_p50_ns": 80 * MS, "time_p99_ns": 330 * MS,
                      "exchanges": 100}),
    ("health", WHO | {"broker": BROKER, "rtt_p50_ns": 80 * MS, "time_p99_ns": 90 * MS,
                      "exchanges": 99}),
    ("work", {"api": "ApiVersions", "broker": BROKER, "exchanges": 99, "p50_ns": 90 * MS,
              "p99_ns": 120 * MS}),
    ("skew", {"topic": "orders", "produced_codecs": "gzip, lz4", "fetched_codecs": "gzip"}),
    ("skew", {"topic": "orders", "produced_codecs": "lz4", "fetched_codecs": None}),
]  # fmt: skip


@pytest.mark.parametrize(("evidence", "row"), NOT_SAID)
def test_normal_values_are_not_reported(evidence: str, row: Row) -> None:
    assert ids(judged(**{evidence: [row]})) == ["healthy"]


def test_a_healthy_capture_is_one_sentence_with_numbers() -> None:
    fetch = api("Fetch", 900, 512.0, waited=0.97, work=Quantiles(MS, 2 * MS, 3 * MS, 3 * MS))
    found = judge(seen(api("Produce", 100, 12.0, with_errors=2), fetch))
    assert [(one.id, one.severity) for one in found] == [("healthy", NOTICE)]
    assert found[0].text.replace("\N{NARROW NO-BREAK SPACE}", " ") == (
        "Nothing is wrong in 1 000 exchanges, 2 with errors that are part of the protocol: "
        "p99 of Produce 12 ms and Fetch 512 ms (broker time 3 ms)"
    )


def test_long_polls_are_no_slow_broker() -> None:
    fetch = api("Fetch", 900, 512.0, waited=0.97, work=Quantiles(MS, 2 * MS, 3 * MS, 3 * MS))
    throttled = {"client": "a", "throttled": 1, "throttle_max_ms": 10}
    found = {one.id: one.text for one in judge(seen(fetch, traffic=[throttled]))}
    assert list(found) == ["throttled-by-quota", "fetch-mostly-long-poll"]
    assert found["fetch-mostly-long-poll"] == (
        "p99 of Fetch is 512 ms; 97 % of the time of all Fetch requests is long poll, and p99 of "
        "broker time is 3 ms"
    )


def test_network_loss_is_reported() -> None:
    row = WHO | {"broker": BROKER, "network": 0.9, "time_p99_ns": 300 * MS, "troubled": 9,
                 "retransmitted_segments": 4, "lost_bytes": 5000,
                 "untroubled_p99_ns": 30 * MS}  # fmt: skip
    summary = made_summary(api("Produce"), network={"network_lost_bytes": 5000})
    # The connections of this client lost nothing: its segments were sent again for nothing.
    needless = row | {"lost_bytes": 0}
    assert ids(judge(seen(summary=summary, health=[needless]))) == ["healthy"]
    found = judge(seen(summary=summary, health=[row]))
    assert [one.text for one in found if one.id == "network-makes-p99"] == [
        "The network accounts for up to 90 % of p99 of svc-7 at 10.1.2.3: 300 ms, 30 ms without "
        "the 9 exchanges with retransmissions or full windows"
    ]


@pytest.mark.parametrize(
    ("other", "concerns", "severity", "segments", "is_said"),
    [
        ("failover-blackout", {}, PROBLEM, 9, False),
        ("failover-blackout", {}, PROBLEM, 10, True),
        ("failover-blackout", {}, NOTICE, 9, True),
        ("broker-unreachable", {"broker": "10.0.0.9:9092"}, PROBLEM, 300, False),
        ("broker-unreachable", {"broker": "10.0.0.8:9092"}, PROBLEM, 300, True),
        ("client-fills-link", {"clients": ["svc-7", "svc-8"]}, WARNING, 300, False),
        ("client-fills-link", {"clients": ["svc-8"]}, WARNING, 300, True),
    ],
)
def test_network_loss_as_a_consequence_is_not_reported(
    other: str, concerns: dict[str, Any], severity: str, segments: int, is_said: bool
) -> None:
    network = Finding(
        "network-makes-p99", PROBLEM, "", {"retransmitted_segments": segments},
        {"clients": ["svc-7"], "brokers": ["10.0.0.9:9092"]}, None, None, None,
    )  # fmt: skip
    cause = Finding(other, severity, "", {}, concerns, None, None, None)
    assert is_symptom(network, [cause, network]) is not is_said


@pytest.mark.parametrize(
    ("missing", "severity"), [(900, None), (1_100, WARNING), (11_000, PROBLEM)]
)
def test_capture_loss_is_reported_first(missing: int, severity: str | None) -> None:
    lost = {"payload_bytes": 1_000_000, "missing_bytes": missing, "capture_lost_bytes": missing}
    times = ("work_ns", "silent_ns", "latency_ns")
    stall = SAID[6][1] | dict.fromkeys(times, 9 * SECOND)
    summary = made_summary(api("Produce"), network=lost)
    found = judge(seen(summary=summary, slowest=[stall, stall]))
    assert "broker-stalls" in ids(found)
    told = {one.id: one.severity for one in found}
    assert told.get("capture-loses-packets") == severity
    if severity == PROBLEM:
        assert next(iter(told)) == "capture-loses-packets"


def test_missing_bytes_are_not_attributed_to_brokers() -> None:
    lost = {"payload_bytes": 1000, "missing_bytes": 700, "cut_bytes": 700}
    summary = made_summary(api("Heartbeat", 100, unanswered=100), network=lost)
    assert ids(judge(seen(summary=summary, slowest=[SAID[6][1]]))) == ["capture-loses-packets"]


@pytest.mark.parametrize(
    ("lost", "times", "work_ms", "is_said"),
    [
        (0, 5, 1_700, True),
        (9_000, 0, 1_700, True),
        (9_000, 1, 1_700, True),
        (9_000, 2, 751, True),
        (9_000, 2, 750, False),
        (9_000, 5, 1_700, False),
        (9_000, 1 << 40, 9_000, False),
    ],
)
def test_a_request_that_a_lossy_network_sent_again_is_no_stall(
    lost: int, times: int, work_ms: int, is_said: bool
) -> None:
    """Without losses it is the broker's host that did not acknowledge."""
    summary = made_summary(api("Produce"), network={"network_lost_bytes": lost})
    work = dict.fromkeys(("work_ns", "silent_ns", "latency_ns"), work_ms * MS)
    stall = SAID[6][1] | work | {"retransmits": times}
    assert ("broker-stalls" in ids(judge(seen(summary=summary, slowest=[stall])))) is is_said


def test_answers_that_a_quota_holds_back_are_no_stall() -> None:
    throttled = {"throttled": 1, "throttle_max_ms": 900}
    mine, other = WHO | throttled, throttled | {"client": "b"}
    assert ids(judged(slowest=[SAID[6][1]], traffic=[mine])) == ["throttled-by-quota"]
    assert ids(judged(slowest=[SAID[6][1]], traffic=[other])) == [
        "broker-stalls", "throttled-by-quota",
    ]  # fmt: skip


def test_a_storm_of_rebalances_is_one_finding() -> None:
    row = SAID[16][1] | {"rebalances": 9, "all_stopped_ns": 18 * SECOND, "stopped_ns": 18 * SECOND}
    found = judged(rebalances=[row])
    assert ids(found) == ["rebalance-storm"]
    assert found[0].text == (
        "Group g rebalanced 9 times in 1 m 00 s, its partitions stalled for 18 s in all "
        "(30 %): 9 by join (svc-7 at 10.1.2.3)"
    )


@pytest.mark.parametrize(
    ("row", "is_said"),
    [
        # Three stops of a cause are as long as all of them, not as the longest.
        ({"rebalances": 9, "all_stopped_ns": 6 * SECOND, "stopped_ns": 2 * SECOND}, True),
        ({"rebalances": 9, "all_stopped_ns": 5 * SECOND, "stopped_ns": 5 * SECOND}, False),
        ({"rebalances": 4, "all_stopped_ns": 18 * SECOND, "stopped_ns": 5 * SECOND}, False),
        # The only member crashes and comes back: no member reads in between.
        ({"rebalances": 9, "all_stopped_ns": 18 * SECOND, "members_before": 0}, True),
    ],
)
def test_a_storm_is_often_and_stops_a_tenth_of_the_time(row: Row, is_said: bool) -> None:
    found = judged(rebalances=[SAID[16][1] | row])
    assert ("rebalance-storm" in ids(found)) is is_said


@pytest.mark.parametrize(
    ("left", "stopped_s", "severity"),
    [
        (8, 18, NOTICE),  # it left in order, each time before it came back
        (9, 29, NOTICE),
        (9, 31, PROBLEM),  # it was away for longer than it read
        (7, 18, PROBLEM),  # another one joined, too
        (0, 18, PROBLEM),  # it crashed
    ],
)
def test_a_lone_consumer_that_leaves_in_order_and_returns_stops_no_other(
    left: int, stopped_s: int, severity: str
) -> None:
    join = SAID[16][1] | {"rebalances": 9, "all_stopped_ns": stopped_s * SECOND,
                          "stopped_ns": 3 * SECOND, "members_before": 0}  # fmt: skip
    leave = {"rebalances": left, "cause": "leave", "outcome": "emptied", "stopped_ns": None,
             "all_stopped_ns": None}  # fmt: skip
    found = judged(rebalances=[join] + [join | leave] * bool(left))
    assert [one.severity for one in found if one.id == "rebalance-storm"] == [severity]


@pytest.mark.parametrize(
    ("error", "api_name", "times", "is_said"),
    [
        ("NOT_LEADER_OR_FOLLOWER", "ListOffsets", 141, False),  # each asks for the new leader
        ("NOT_LEADER_OR_FOLLOWER", "ListOffsets", 46, True),
        ("UNKNOWN_TOPIC_OR_PARTITION", "Metadata", 141, True),
        ("UNKNOWN_TOPIC_OR_PARTITION", "ListOffsets", 141, True),
    ],
)
def test_metadata_after_refusals_of_brokers_that_do_not_lead_are_no_storm(
    error: str, api_name: str, times: int, is_said: bool
) -> None:
    asks = WHO | {"metadata": 146, "produces": 0, "fetches": 400}
    code = WHO | {"error": error, "api": api_name, "errors": times, "exchanges": times}
    found = judged(traffic=[asks], errors=[code])
    assert ("metadata-storm" in ids(found)) is is_said


@pytest.mark.parametrize(
    ("troubled", "full_s", "is_said"), [(6, 2.6, True), (6, 2.4, False), (5, 2.6, False)]
)
def test_windows_that_are_full_in_all_exchanges_are_compared_with_their_time(
    troubled: int, full_s: float, is_said: bool
) -> None:
    row = WHO | {"broker": BROKER, "network": None, "time_p99_ns": 700 * MS, "exchanges": 6,
                 "troubled": troubled, "zero_windows": 15, "retransmitted_segments": 8,
                 "zero_window_ns": round(full_s * SECOND)}  # fmt: skip
    summary = made_summary(api("Fetch"), network={"zero_windows": 15, "network_lost_bytes": 9})
    found = {one.id: one.text for one in judge(seen(summary=summary, health=[row]))}
    assert ("receiver-does-not-read" in found) is is_said
    assert "network-makes-p99" not in found
    if is_said:
        said = "700 ms, windows were full for 2.6 s during all 6 exchanges"
        assert found["receiver-does-not-read"].endswith(said)


@pytest.mark.parametrize(("batches", "is_said"), [(1_200, True), (1_199, False), (240, False)])
def test_single_record_batches_are_reported_when_others_follow_soon(
    batches: int, is_said: bool
) -> None:
    """Twenty a second, for a minute; four a second have nothing to be sent with."""
    found = judged(traffic=[WHO | {"batches": batches, "single": 0.9}])
    assert ("single-record-batches" in ids(found)) is is_said


SLOW = {"api": "Metadata", "broker": BROKER, "exchanges": 500, "p50_ns": 82 * MS}


@pytest.mark.parametrize(
    ("p99_ms", "rtt_ms", "is_said"),
    [(90, 80, False), (179, 80, False), (200, 80, True), (120, None, True)],
)
def test_a_far_broker_is_not_slow_itself(p99_ms: int, rtt_ms: int | None, is_said: bool) -> None:
    far = WHO | {"broker": BROKER, "rtt_broker_p50_ns": rtt_ms and rtt_ms * MS}
    found = judged(work=[SLOW | {"p99_ns": p99_ms * MS}], health=[far])
    assert ("broker-slow" in ids(found)) is is_said


@pytest.mark.parametrize(
    ("replication_ms", "is_said"), [(190, False), (100, False), (99, True), (None, True)]
)
def test_a_leader_that_waits_for_its_followers_is_not_slow_itself(
    replication_ms: int | None, is_said: bool
) -> None:
    follower = {
        "follower": replication_ms and 2, "exchanges": 20, "p99_ns": 200 * MS,
        "replication_p99_ns": replication_ms and replication_ms * MS,
    }  # fmt: skip
    produce = SLOW | {"api": "Produce", "p99_ns": 200 * MS}
    found = judged(work=[produce], acks=[follower])
    assert ("broker-slow" in ids(found)) is is_said


@pytest.mark.parametrize(
    ("retransmitted", "zero_windows", "id_"),
    [
        (4, 0, "network-makes-p99"),
        (4, 4, "network-makes-p99"),  # in four of nine exchanges
        (40, 5, "receiver-does-not-read"),
        (1, 9, "receiver-does-not-read"),
        (0, 2, None),
    ],
)
def test_receiver_that_does_not_read_is_not_a_network_problem(
    retransmitted: int, zero_windows: int, id_: str | None
) -> None:
    row = WHO | {"broker": BROKER, "network": 0.9, "time_p99_ns": 300 * MS, "troubled": 9,
                 "untroubled_p99_ns": 30 * MS, "retransmitted_segments": retransmitted,
                 "lost_bytes": 5000 * retransmitted, "zero_windows": zero_windows}  # fmt: skip
    counts = {"network_lost_bytes": 5000 * retransmitted, "zero_windows": zero_windows}
    found = judge(seen(summary=made_summary(api("Produce"), network=counts), health=[row]))
    assert [one.id for one in found if one.severity != NOTICE] == ([id_] if id_ else [])


FULL = WHO | {
    "broker": BROKER, "network": 0.9, "time_p99_ns": 300 * MS, "troubled": 9,
    "untroubled_p99_ns": 30 * MS, "zero_windows": 40, "zero_window_ns": 9 * SECOND,
    "zero_window_by_broker_ns": 8 * SECOND,
}  # fmt: skip


@pytest.mark.parametrize(
    ("by_broker", "id_"), [(40, "broker-slow"), (21, "broker-slow"), (20, "receiver-does-not-read")]
)
def test_full_windows_of_a_broker_are_its_slowness(by_broker: int, id_: str) -> None:
    summary = made_summary(api("Produce"), network={"zero_windows": 40})
    row = FULL | {"zero_windows_by_broker": by_broker}
    (found,) = (one for one in judge(seen(summary=summary, health=[row])) if one.id != "latencies")
    assert (found.id, found.severity) == (id_, PROBLEM)
    if id_ == "broker-slow":
        assert found.text == (
            f"Broker {BROKER} is slow: it left requests of svc-7 at 10.1.2.3 unread, with full "
            "windows for 8 s; their p99 is 300 ms"
        )


def test_a_slow_broker_that_does_not_read_is_one_finding() -> None:
    summary = made_summary(api("Produce"), network={"zero_windows": 40})
    row = FULL | {"zero_windows_by_broker": 40}
    found = judge(seen(summary=summary, health=[row], work=[SLOW | {"api": "Produce"}]))
    (slow,) = (one for one in found if one.id == "broker-slow")
    assert slow.text.endswith("unread, with full windows for 8 s")


def test_a_broker_that_throttles_a_client_leaves_its_requests_unread() -> None:
    summary = made_summary(api("Produce"), network={"zero_windows": 40})
    row = FULL | {"zero_windows_by_broker": 40}
    throttled = [WHO | {"throttled": 9, "throttle_max_ms": 900}]
    found = judge(seen(summary=summary, health=[row], traffic=throttled))
    assert ids(found) == ["throttled-by-quota"]


@pytest.mark.parametrize(
    ("row", "is_said"),
    [
        ({}, True),
        ({"lag_time_ns": 10 * SECOND - 1}, False),
        ({"fallen_ns": 5 * SECOND - 1}, False),
        ({"fallen_ns": None}, False),
    ],
)
def test_a_group_that_is_later_with_each_commit_falls_behind(row: Row, is_said: bool) -> None:
    """Of what a member has not fetched yet, no end may be known."""
    late = SOME_LAG | {"first_lag": 1_700, "last_lag": 450, "lag_time_ns": 12 * SECOND,
                       "fallen_ns": 8 * SECOND, "partitions": 2}  # fmt: skip
    found = judged(lag=[late | row])
    assert ids(found) == (["consumer-lag-grows"] if is_said else ["healthy"])
    if is_said:
        assert found[0].text == (
            "Group g is 450 records behind on t (2 partitions), as far as the ends are known; the "
            "oldest has waited 12 s, 8 s longer than at the start; most were fetched but not "
            "committed"
        )


GONE = WHO | {"broker": BROKER, "unacknowledged_ns": 3 * SECOND, "exchanges": 9}


def test_a_broker_whose_host_acknowledges_nothing_is_unreachable() -> None:
    nameless = GONE | {"client": None, "unacknowledged_ns": 7 * SECOND}
    (found,) = judged(health=[GONE, nameless, nameless | {"client_ip": "10.1.2.4"}])
    assert (found.id, found.severity) == ("broker-unreachable", PROBLEM)
    assert found.text == (
        f"{BROKER} acknowledged nothing for up to 7 s, while svc-7 at 10.1.2.3 and 10.1.2.4 sent "
        "data or SYNs again: its host, or the network to it, was down; the host of a paused or "
        "ended process would have answered"
    )
    assert ids(judged(health=[GONE | {"unacknowledged_ns": 2_400 * MS}])) == ["healthy"]


@pytest.mark.parametrize(
    ("row", "is_told_apart"),
    [({"no_answer": 5}, False), ({"refused": 5}, True), ({"broker": "10.0.0.8:9092", "no_answer": 5,
     "unacknowledged_ns": 0}, True)],
)  # fmt: skip
def test_attempts_that_an_unreachable_broker_does_not_answer_belong_to_it(
    row: Row, is_told_apart: bool
) -> None:
    found = ids(judged(health=[GONE, GONE | row]))
    assert ("broker-refuses-connections" in found) is is_told_apart


@pytest.mark.parametrize(("exchanges", "is_told"), [(99, False), (500, True)])
def test_a_follower_is_slow_where_it_is_not_a_broker_that_is_down(
    exchanges: int, is_told: bool
) -> None:
    down = WHO | {"broker": "10.0.0.8:9092", "refused": 5, "exchanges": 5}
    follower = FOLLOWER | {"exchanges": exchanges}
    assert "produce-latency-slow-follower" in ids(judged(acks=[follower]))
    found = ids(judged(acks=[follower], health=[down]))
    assert ("produce-latency-slow-follower" in found) is is_told


@pytest.mark.parametrize(
    ("api_", "down", "is_told"),
    [
        ("OffsetCommit", "10.0.0.8:9092", False),
        # It refuses connections itself, or is slow at what it does alone.
        ("OffsetCommit", BROKER, True),
        ("Metadata", "10.0.0.8:9092", True),
    ],
)
def test_a_leader_that_waits_for_a_broker_that_is_down_is_not_slow(
    api_: str, down: str, is_told: bool
) -> None:
    refused = WHO | {"broker": down, "refused": 5, "exchanges": 5}
    found = ids(judged(work=[SLOW | {"api": api_}], health=[refused]))
    assert ("broker-slow" in found) is is_told


@pytest.mark.parametrize(("exchanges", "is_told"), [(99, False), (100, True)])
def test_few_slow_commits_after_leaders_moved_are_no_slow_broker(
    exchanges: int, is_told: bool
) -> None:
    moved = WHO | {"error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "errors": 1,
                   "exchanges": 1, "first_seen": START_US, "last_seen": START_US}  # fmt: skip
    work = SLOW | {"api": "OffsetCommit", "exchanges": exchanges}
    assert "broker-slow" in ids(judged(work=[work]))
    assert ("broker-slow" in ids(judged(work=[work], errors=[moved]))) is is_told


def test_requests_that_a_slow_broker_did_not_read_get_no_response() -> None:
    produce = api("Produce", 100, unanswered=9)
    summary = made_summary(produce, network={"zero_windows": 40})
    row = FULL | {"zero_windows_by_broker": 40}
    assert ids(judge(seen(summary=summary, health=[row]))) == ["broker-slow"]
    slow = SLOW | {"api": "Produce"}
    assert ids(judged(produce, work=[slow])) == ["broker-slow", "requests-unanswered"]


@pytest.mark.parametrize("error", ["INVALID_PRODUCER_EPOCH", "REQUEST_TIMED_OUT"])
def test_codes_of_producers_that_lost_a_broker_belong_to_it(error: str) -> None:
    code = WHO | {"error": error, "api": "Produce", "errors": 3, "exchanges": 3,
                  "is_retriable": False}  # fmt: skip
    assert ids(judged(errors=[code])) == [ERROR + error]
    assert ids(judged(errors=[code], health=[GONE])) == ["broker-unreachable"]


def test_unanswered_requests_are_reported_unless_their_cause_is() -> None:
    heartbeats = api("Heartbeat", 100, unanswered=5)
    assert ids(judge(seen(heartbeats))) == ["requests-unanswered"]
    assert ids(judge(seen(api("Heartbeat", 1000, unanswered=5)))) == ["healthy"]
    assert ids(judge(seen(api("Fetch", 100, unanswered=5)))) == ["healthy"]
    failover = SAID[0][1]
    assert ids(judge(seen(heartbeats, failovers=[failover]))) == ["failover-blackout"]


def test_errors_of_a_failover_belong_to_it() -> None:
    error = WHO | {"error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "errors": 40,
                   "is_retriable": True, "first_seen": START_US,
                   "last_seen": START_US + 9_000_000}  # fmt: skip
    assert ids(judged(errors=[error])) == ["error-NOT_LEADER_OR_FOLLOWER"]
    assert ids(judged(errors=[error], failovers=[SAID[0][1]])) == ["failover-blackout"]


def test_batches_that_overtake_a_refused_one_belong_to_the_failover() -> None:
    code = WHO | {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER", "api": "Produce", "errors": 4,
                  "exchanges": 4, "is_retriable": False}  # fmt: skip
    given_up = WHOM | {"topic": "t", "given_up": 1, "last_error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    assert ids(judged(errors=[code])) == ["error-OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert ids(judged(errors=[code], failovers=[SAID[0][1]])) == ["failover-blackout"]
    assert ids(judged(errors=[code], failovers=[SAID[0][1]], delivery=[given_up])) == [
        "failover-blackout", "produce-gave-up",
    ]  # fmt: skip


REFUSED = WHOM | {"topic": "t", "cause": "CONCURRENT_TRANSACTIONS", "batches": 1, "tries": 2,
                  "not_written": 0, "first_sent": START_US}  # fmt: skip
BEHIND = REFUSED | {"cause": "OUT_OF_ORDER_SEQUENCE_NUMBER", "batches": 4,
                    "first_sent": START_US + 20_000}  # fmt: skip


@pytest.mark.parametrize(
    ("refused", "behind", "is_usual"),
    [
        ({}, {}, True),
        ({"cause": "NOT_ENOUGH_REPLICAS"}, {}, True),
        # The broker may have lost what it had answered.
        ({"cause": "unanswered"}, {}, False),
        ({"topic": "other"}, {}, False),
        ({"client_ip": "10.9.9.9"}, {}, False),
        ({"first_sent": START_US + 30_000}, {}, False),
        ({"not_written": 1}, {}, False),
        ({}, {"not_written": 1}, False),
        ({}, {"batches": 3}, False),
        ({}, {"batches": 2, "tries": 3}, True),
    ],
)
def test_batches_that_overtake_a_refused_one_are_usual_where_all_are_written(
    refused: Row, behind: Row, is_usual: bool
) -> None:
    code = WHO | {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER", "api": "Produce", "errors": 4,
                  "exchanges": 4, "is_retriable": False}  # fmt: skip
    retries = [REFUSED | refused, BEHIND | behind]
    is_said = "error-OUT_OF_ORDER_SEQUENCE_NUMBER" in ids(judged(errors=[code], retries=retries))
    assert is_said is not is_usual
    given_up = WHOM | {"topic": "t", "given_up": 1, "last_error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    found = judged(errors=[code], retries=retries, delivery=[given_up])
    assert "produce-gave-up" in ids(found)


NO_LEADER = SAID[0][1] | {
    "access": "metadata", "cause": "LEADER_NOT_AVAILABLE", "blackouts": 1, "errors": 30,
    "blackout_ns": 12 * SECOND, "partition": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "is_said"),
    [
        ({}, True),
        ({"blackout_ns": None, "unfinished": 1, "failing_ns": SECOND}, True),
        ({"blackout_ns": SECOND - 1}, False),
        # Never written or read before: a new topic, or one that the capture does not have.
        ({"old_broker": None}, False),
        ({"cause": "UNKNOWN_TOPIC_OR_PARTITION"}, False),
    ],
)
def test_metadata_without_a_leader_is_a_blackout(row: Row, is_said: bool) -> None:
    error = WHO | {"error": "LEADER_NOT_AVAILABLE", "api": "Metadata", "errors": 30,
                   "exchanges": 30, "first_seen": START_US,
                   "last_seen": START_US + 12_000_000}  # fmt: skip
    (found,) = judged(errors=[error], failovers=[NO_LEADER | row])
    if is_said:
        assert (found.id, found.severity) == ("failover-blackout", PROBLEM)
        assert found.text.startswith(f"1 partition of {BROKER} had no leader for up to ")
        assert "(orders-3)" in found.text
    else:
        assert found.id == "error-LEADER_NOT_AVAILABLE"


def test_a_late_follower_is_reported_rather_than_the_waiting_leader() -> None:
    acks = SAID[7][1]
    produce = SAID[6][1] | {"api": "Produce"}
    assert ids(judged(acks=[acks], slowest=[produce])) == ["produce-latency-slow-follower"]
    assert ids(judged(acks=[acks], slowest=[produce, SAID[6][1]])) == ["broker-stalls"]


def test_a_stall_while_leaders_change_belongs_to_the_failover() -> None:
    stall = SAID[6][1]
    after = stall | {"request_start": START_US + 9_000_000}
    heartbeats = [one | {"api": api_} for one in (stall,) for api_ in ("Heartbeat", "Metadata")]
    late = [one | {"api": api_} for one in (after,) for api_ in ("Heartbeat", "Metadata")]
    failover = SAID[0][1] | {"last_started": START_US}
    assert ids(judged(failovers=[failover], slowest=heartbeats)) == ["failover-blackout"]
    assert ids(judged(failovers=[failover], slowest=late)) == ["failover-blackout", "broker-stalls"]


@pytest.mark.parametrize("silent_ns", [None, 20 * MS, 499 * MS])
def test_a_broker_that_answers_others_meanwhile_does_not_stall(silent_ns: int | None) -> None:
    row = SAID[6][1] | {"silent_ns": silent_ns}
    assert ids(judged(slowest=[row, row | {"api": "Metadata"}])) == ["healthy"]


def test_a_broker_is_only_as_long_silent_as_it_works() -> None:
    """A long poll waits as requested, and then for the broker."""
    poll = SAID[6][1] | {"api": "Fetch", "silent_ns": 1400 * MS, "latency_ns": 1400 * MS}
    assert judged(slowest=[poll])[0].numbers["silent_ns"] == 900 * MS
    assert ids(judged(slowest=[poll | {"work_ns": 400 * MS}])) == ["healthy"]


def test_silence_that_a_follower_explains_too_is_no_problem_of_the_broker() -> None:
    produce = SAID[6][1] | {"api": "Produce", "acks": -1}
    (found,) = judged(slowest=[produce, produce])
    assert (found.id, found.severity) == ("broker-stalls", WARNING)
    assert found.text == (
        "Broker 10.0.0.9:9092 sent no captured response for up to 890 ms while 2 Produce requests "
        "with acks=all of svc-7 at 10.1.2.3 waited: it stalled, or a follower they waited for did"
    )
    for other in (produce | {"acks": 1}, SAID[6][1]):
        assert [one.severity for one in judged(slowest=[produce, other])] == [PROBLEM]


def test_a_single_waiting_request_is_reported_from_three_times_on() -> None:
    produce = SAID[6][1] | {"api": "Produce", "acks": -1}
    times = [produce | {"request_start": START_US + number * 5_000_000} for number in range(3)]
    (found,) = judged(slowest=times)
    assert (found.id, found.severity) == ("broker-stalls", WARNING)
    assert found.text.endswith("waited (3 times): it stalled, or a follower they waited for did")
    assert "broker-stalls" not in ids(judged(slowest=times[:2]))


def test_a_broker_does_not_read_from_a_client_that_it_throttles() -> None:
    row = WHO | {"broker": BROKER, "network": 0.9, "time_p99_ns": 300 * MS, "troubled": 9,
                 "zero_windows": 4, "untroubled_p99_ns": 30 * MS}  # fmt: skip
    summary = made_summary(api("Produce"), network={"zero_windows": 4})
    assert "receiver-does-not-read" in ids(judge(seen(summary=summary, health=[row])))
    throttled = WHO | {"throttled": 9, "throttle_max_ms": 900}
    told = ids(judge(seen(summary=summary, health=[row], traffic=[throttled])))
    assert told == ["throttled-by-quota"]


def test_one_request_that_waits_for_a_follower_shows_no_silence() -> None:
    produce = SAID[6][1] | {"api": "Produce", "acks": -1}
    later = produce | {"request_start": START_US + 9_000_000}
    assert ids(judged(slowest=[produce, later])) == ["healthy"]


FOLLOWER = SAID[7][1]


@pytest.mark.parametrize(
    ("worst", "other", "severity"),
    [
        # Too few requests for a p99: the observed values, and no problem.
        ({"exchanges": 18, "slow": 1}, {}, WARNING),
        ({"exchanges": 7, "slow": 1}, {}, None),
        ({"exchanges": 3, "slow": 1}, {}, None),
        # One of five hundred is no p99 either.
        ({"slow": 2}, {}, None),
        # Others are as slow, or slower most of the time.
        ({}, {"replication_p99_ns": 250 * MS}, None),
        ({}, {"replication_p50_ns": 117 * MS}, None),
        ({}, {"replication_p50_ns": 117 * MS, "exchanges": 2}, PROBLEM),
    ],
)
def test_a_follower_is_slow_when_it_often_is_and_others_are_not(
    worst: Row, other: Row, severity: str | None
) -> None:
    fast = {"follower": 2, "exchanges": 500, "replication_p50_ns": MS, "replication_p99_ns": MS}
    found = judged(acks=[FOLLOWER | worst, fast | other])
    told = [one.severity for one in found if one.id == "produce-latency-slow-follower"]
    assert told == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("exchanges", "error", "is_said"),
    [(18, "NOT_LEADER_OR_FOLLOWER", False), (18, "MESSAGE_TOO_LARGE", True),
     (500, "NOT_LEADER_OR_FOLLOWER", True)],
)  # fmt: skip
def test_a_long_request_while_leaders_move_is_no_slow_follower(
    exchanges: int, error: str, is_said: bool
) -> None:
    told = WHO | {"error": error, "api": "Produce", "errors": 1, "exchanges": 1}
    found = judged(acks=[FOLLOWER | {"exchanges": exchanges}], errors=[told])
    assert ("produce-latency-slow-follower" in ids(found)) is is_said


@pytest.mark.parametrize(
    ("error", "is_said"),
    [("MESSAGE_TOO_LARGE", True), ("NOT_LEADER_OR_FOLLOWER", False), ("PRODUCER_FENCED", False)],
)
def test_a_batch_is_given_up_where_no_other_broker_may_have_taken_it(
    error: str, is_said: bool
) -> None:
    row = WHOM | {"topic": "tiny", "given_up": 1, "last_error": error}
    assert ("produce-gave-up" in ids(judged(delivery=[row]))) is is_said


def test_a_p99_of_few_requests_is_not_said() -> None:
    (found,) = judged(acks=[FOLLOWER | {"exchanges": 18, "slow": 1}])
    assert found.text == (
        "Produce with acks=all waits for broker 3: of 18 requests where it replicated last, 1 "
        "took up to 412 ms, 400 ms of it for replication"
    )


@pytest.mark.parametrize(
    ("row", "severity"),
    [
        # Refused once; then the client goes to a leader that was not captured.
        ({"new_broker": None, "blackout_ns": None, "unfinished": 12, "failing_ns": 0}, None),
        ({"new_broker": None, "blackout_ns": None, "unfinished": 12, "failing_ns": 400 * MS}, None),
        # Attempts continue, and there is no leader.
        ({"new_broker": None, "blackout_ns": None, "unfinished": 12, "failing_ns": 3 * SECOND},
         PROBLEM),
        ({"blackout_ns": 1_500 * MS}, PROBLEM),
        # Leaders that are moved, as before a restart; one backs off for up to a second.
        ({"blackout_ns": 1_499 * MS}, NOTICE),
        ({"blackout_ns": 20 * MS, "cause": "unanswered"}, WARNING),
    ],
)  # fmt: skip
def test_a_leader_that_is_not_in_the_capture_makes_no_blackout(
    row: Row, severity: str | None
) -> None:
    found = judged(failovers=[SAID[0][1] | row])
    assert [one.severity for one in found if one.id == "failover-blackout"] == (
        [severity] if severity else []
    )


def test_partitions_until_the_last_try_are_among_those_of_the_blackout() -> None:
    row = SAID[0][1] | {
        "blackouts": 1, "unfinished": 1, "blackout_ns": None, "failing_ns": 2 * SECOND,
        "new_broker": None,
    }  # fmt: skip
    (found,) = judged(failovers=[row, row | {"access": "fetch"}])
    assert found.text.startswith(
        "1 partition of 10.0.0.9:9092 could not be served, 1 of them until the last attempt "
        "in the capture after 2 s"
    )


def test_a_fetch_whose_p99_is_the_brokers_is_no_long_poll() -> None:
    slow = Quantiles(MS, 1200 * MS, 1630 * MS, 1630 * MS)
    fetch = api("Fetch", 900, 1880.0, waited=0.901, work=slow)
    assert "fetch-mostly-long-poll" not in ids(judge(seen(fetch)))


def test_errors_of_the_broker_itself_are_never_healthy() -> None:
    row = WHO | {"error": "UNKNOWN_SERVER_ERROR", "api": "DescribeConfigs", "exchanges": 2}
    (found,) = judged(api("DescribeConfigs", 3), errors=[row])
    assert (found.id, found.severity) == ("error-UNKNOWN_SERVER_ERROR", WARNING)


def test_an_error_code_unknown_to_kafka_is_marked() -> None:
    row = WHO | {"error": "error-5120", "api": "Produce", "exchanges": 1}
    (found,) = judged(errors=[row])
    assert found.severity == WARNING
    assert "Apache Kafka has no such error code" in found.text


def test_advice_is_of_the_api() -> None:
    left = WHO | {"error": "UNKNOWN_MEMBER_ID", "api": "LeaveGroup", "exchanges": 1}
    beat = left | {"api": "Heartbeat"}
    texts = [judged(errors=rows)[0].text for rows in ([left], [beat], [left, beat])]
    assert ["must join again" in text for text in texts] == [False, True, True]
    feature = WHO | {"error": "INVALID_UPDATE_VERSION", "api": "UpdateFeatures", "exchanges": 2}
    assert "feature" in judged(errors=[feature])[0].text


def test_a_topic_that_is_there_already_is_not_said_to_be_somebodys_fault() -> None:
    """Brokers create internal topics when they are first needed, several at a time."""
    row = {"client": "1", "client_ip": "10.0.0.1", "error": "TOPIC_ALREADY_EXISTS", "errors": 2,
           "api": "CreateTopics", "exchanges": 2}  # fmt: skip
    (found,) = (one for one in judged(errors=[row]) if one.id.startswith(ERROR))
    assert found.severity == NOTICE
    assert found.text.endswith("of brokers that create an internal topic at the same time")


def test_errors_of_tools_are_named_where_all_else_is_well() -> None:
    row = WHO | {"error": "TOPIC_ALREADY_EXISTS", "api": "CreateTopics", "exchanges": 2}
    summary = made_summary(api("CreateTopics", 120, with_errors=2))
    found = {one.id: one.text for one in judge(seen(summary=summary, errors=[row]))}
    assert (
        "2 with errors, some of them to admin requests (TOPIC_ALREADY_EXISTS)" in found["healthy"]
    )


def test_few_requests_have_no_p99() -> None:
    (found,) = judge(seen(api("Produce", 1, 12.0)))
    assert found.text == "Nothing is wrong in 1 exchange, none with errors: longest Produce 12 ms"


def test_a_capture_without_any_response_is_reported() -> None:
    assert ids(judge(seen(api("Metadata", 2, unanswered=2)))) == ["requests-unanswered"]
    assert ids(judge(seen(api("Metadata", 2, unanswered=1)))) == ["healthy"]
    assert ids(judge(seen(api("Fetch", 1, unanswered=1)))) == ["healthy"]


def test_clients_that_are_refused_already_are_a_problem() -> None:
    row = WHO | {"api": "ListOffsets", "api_version": 0, "verdict": "breaks", "exchanges": 9}
    churn = WHO | {"broker": BROKER, "reconnects": 40, "life_p50_ns": MS, "exchanges": 9}
    refused = row | {"unanswered": 9}
    found = judge(seen(api("ListOffsets", 9, unanswered=9), upgrade=[refused], health=[churn]))
    assert ids(found) == ["client-breaks-on-4.0"]
    assert found[0].severity == PROBLEM
    assert found[0].text.endswith(
        "on Kafka 4.0; 9 requests of these clients and versions already got no response: "
        "brokers closed their connections"
    )
    # Requests of others, and of newer versions, do not count.
    found = judge(seen(api("ListOffsets", 9000, unanswered=9), upgrade=[row], health=[churn]))
    assert ids(found) == ["client-breaks-on-4.0", "connection-churn"]
    assert [one.severity for one in found][:2] == [WARNING, WARNING]


def test_many_old_clients_are_one_finding() -> None:
    row = {"client_ip": "10.0.0.1", "api": "Fetch", "api_version": 2, "verdict": "breaks"}
    found = judged(upgrade=[row | {"client": f"c{number}"} for number in range(5)])
    assert [one.text for one in found] == [
        "5 clients break on Kafka 4.0: c0 at 10.0.0.1 uses Fetch v2; c1 at 10.0.0.1 uses Fetch v2; "
        "and 3 more"
    ]


def test_stalls_that_do_not_overlap_are_counted_apart() -> None:
    row = SAID[6][1]
    rows = [row | {"request_start": START_US + second * 1_000_000} for second in (0, 0, 30)]
    (found,) = judged(slowest=rows)
    assert found.numbers == {
        "silent_ns": 890 * MS, "work_ns": 900 * MS, "requests": 3, "times": 2,
    }  # fmt: skip
    assert found.text.endswith("(2 times)")
    assert (found.first_time_ns, found.packet) == (START_US * 1000, 7)


def test_a_page_has_the_worst_and_little_else() -> None:
    errors = [
        WHO | {"error": f"E_{number}", "api": "Produce", "errors": 1, "is_retriable": False}
        for number in range(12)
    ]
    admin = [WHO | {"error": f"A_{n}", "api": "CreateTopics", "errors": 1} for n in range(4)]
    delivery = [SAID[12][1]]
    found = judge(seen(errors=errors + admin, delivery=delivery))
    shown = few(found)
    assert len(found) == 12 + 4 + 1 + 1
    assert [one.severity for one in shown] == [PROBLEM] * 8 + [NOTICE]
    assert [one.id for one in shown][8:] == ["latencies"]


def test_error_code_names_the_resource_concerned() -> None:
    row = WHO | {"error": "MESSAGE_TOO_LARGE", "api": "Produce", "errors": 4, "exchanges": 4,
                 "is_retriable": False, "first_packet": 9}  # fmt: skip
    counted = ErrorRow("MESSAGE_TOO_LARGE", 10, 4, "path", "tiny-0", 900_000)
    summary = made_summary(api("Produce"), errors=[counted])
    found = judge(seen(summary=summary, errors=[row]))
    assert found[0].text.startswith(
        "MESSAGE_TOO_LARGE 4 times to svc-7 at 10.1.2.3 (Produce; for example tiny-0). A batch is"
    )
    assert found[0].packet == 9
    assert found[0].concerns == {
        "clients": ["svc-7"], "client_ips": ["10.1.2.3"], "error": "MESSAGE_TOO_LARGE",
        "example": "tiny-0", "apis": ["Produce"],
    }  # fmt: skip


def test_captures_without_kafka_or_with_tls_only_are_reported() -> None:
    nothing = made_summary()
    assert ids(judge(seen(summary=nothing))) == ["no-kafka"]
    balance = {"encrypted_connections": 2, "encrypted_bytes": 900, "payload_bytes": 1000,
               "packets": 9}  # fmt: skip
    assert ids(judge(seen(summary=made_summary(balance=balance)))) == ["connections-encrypted"]


@pytest.mark.parametrize(("packet", "place"), [(7, " at packet 7"), (None, "")])
def test_undecoded_bytes_are_reported_with_the_first_ones(packet: int | None, place: str) -> None:
    row = ProblemRow("frames", "no-resync", 2, 100, packet, "60 bytes skipped at the end")
    summary = replace(
        made_summary(api("Produce"), network={"payload_bytes": 1000}),
        problems=[row],
        balance={"packets": 9, "payload_bytes": 1000, "skipped_bytes": 100},
    )
    (found,) = (one for one in judge(seen(summary=summary)) if one.id == "messages-undecoded")
    assert found.packet == packet
    assert found.text == (
        "100 B (10 %) on Kafka connections could not be decoded, first"
        f"{place}: 60 bytes skipped at the end"
    )


@pytest.mark.parametrize("evidence", names())
def test_no_null_in_the_evidence_stops_a_rule(evidence: str) -> None:
    rows = [row for name, row, *_ in SAID if name == evidence]
    rows += [row for name, row in NOT_SAID if name == evidence] + [{}]
    summary = made_summary(api("Produce"), network={"network_lost_bytes": 1})
    for row in rows:
        for column in columns_of(evidence):
            look = seen(summary=summary, **{evidence: [row | {column: None}, row]})
            found = [one for rule in RULES for one in rule(look)]
            assert all(one.text for one in found)
            judge(look)


def test_every_finding_is_documented_and_every_id_can_be_said() -> None:
    told = {one[2] for one in SAID}
    elsewhere = {
        "capture-loses-packets", "connections-encrypted", "network-makes-p99", "no-kafka",
        "rebalance-storm", "requests-unanswered", "healthy", "latencies", "not-asked",
        "receiver-does-not-read", "acks-0-records-lost", "advertised-listener-unreachable",
        "tls-on-plaintext-port", "plaintext-on-tls-port", "client-fills-link",
        "fetch-mostly-long-poll", "transactions-abort", "messages-undecoded",
        "coordinator-moved", "member-fenced", "broker-unreachable",
    }  # fmt: skip
    codes = {ERROR + "CODE" if id_.startswith(ERROR) else id_ for id_ in told}
    assert codes | elsewhere == set(KINDS)
    assert {one[3] for one in SAID} == set(SEVERITIES)


def test_many_findings_of_one_kind_take_few_lines_of_a_page() -> None:
    lost = [
        Finding("session-timeout", PROBLEM, f"Group g{n} lost a member", {}, {"group": f"g{n}"},
                10 + n, 20 + n, n)
        for n in range(9)
    ]  # fmt: skip
    slow = [
        Finding("broker-slow", WARNING, f"Broker {n} is slow", {}, {"broker": n}) for n in range(3)
    ]
    shown = few([*lost, *slow])
    assert [one.text for one in shown] == [
        "Group g0 lost a member",
        "Group g1 lost a member",
        "7 more findings of this kind: groups g2, g3, g4 and 4 more groups",
        "Broker 0 is slow",
        "Broker 1 is slow",
        "Broker 2 is slow",
    ]
    assert shown[2].concerns == {"groups": [f"g{n}" for n in range(2, 9)]}
    assert (shown[2].first_time_ns, shown[2].last_time_ns, shown[2].packet) == (12, 28, 2)
    assert few(lost[:3]) == lost[:3]


def test_records_sent_without_acks_to_a_broken_connection_are_lost_unnoticed() -> None:
    writer = WHOM | {"topic": "orders", "acks": 0, "batches": 9}
    gone = {"client_ip": "10.1.2.3", "broker": BROKER, "refused": 9}
    found = {one.id: one for one in judged(delivery=[writer], health=[gone])}
    assert list(found) == ["acks-0-records-lost", "may-lose-records"]
    assert found["acks-0-records-lost"].text == (
        "svc-7 at 10.1.2.3 wrote to orders with acks=0 while 10.0.0.9:9092 refused or reset 9 "
        "connections from that address: records in flight at that time are lost, without an "
        "error"
    )
    for other in (writer | {"acks": 1}, writer | {"client_ip": "10.1.2.4"}):
        told = ids(judged(delivery=[other], health=[gone]))
        assert "broker-refuses-connections" in told
        assert "acks-0-records-lost" not in told


def test_a_follower_slow_much_more_often_is_reported_where_one_request_makes_both_p99() -> None:
    slow = {"follower": 3, "acks": -1, "exchanges": 212, "slow": 5, "p99_ns": 694 * MS,
            "all_p99_ns": 689 * MS, "replication_p50_ns": 4 * MS,
            "replication_p99_ns": 692 * MS}  # fmt: skip
    other = slow | {"follower": 2, "exchanges": 330, "slow": 1, "replication_p99_ns": 656 * MS}
    assert "produce-latency-slow-follower" in ids(judged(acks=[slow, other]))
    for changed in ({"slow": 2}, {"replication_p50_ns": 9 * MS}):
        assert ids(judged(acks=[slow, other | changed])) == ["healthy"]


def test_a_group_that_waits_for_its_new_coordinator_is_no_stall_of_the_broker() -> None:
    times = dict.fromkeys(("work_ns", "silent_ns", "latency_ns"), 900 * MS)
    beat = WHOM | times | {"api": "Heartbeat", "broker": BROKER, "request_start": START_US}
    commit = beat | {"api": "OffsetCommit"}
    moved = WHO | {"error": "NOT_COORDINATOR", "api": "Heartbeat", "errors": 1, "exchanges": 1,
                   "first_seen": START_US, "last_seen": START_US}  # fmt: skip
    assert ids(judged(slowest=[beat, commit], errors=[moved])) == ["healthy"]
    (alone,) = judged(slowest=[commit, commit])
    assert (alone.id, alone.severity) == ("broker-stalls", WARNING)
    other = {"client_ip": "10.1.2.3", "broker": "10.0.0.8:9092", "refused": 9}
    assert ids(judged(slowest=[commit, commit], health=[other])) == ["broker-refuses-connections"]
    (both,) = judged(slowest=[beat, commit | {"api": "Metadata"}])
    assert (both.id, both.severity) == ("broker-stalls", PROBLEM)


@pytest.mark.parametrize(
    ("cause", "told"),
    [("static restart", ["error-FENCED_INSTANCE_ID"]), ("join", ["error-FENCED_INSTANCE_ID"]),
     ("session timeout", ["session-timeout"])],
)  # fmt: skip
def test_two_members_with_one_instance_id_are_no_restart(cause: str, told: list[str]) -> None:
    """A member that was lost and replaced is fenced when it comes back; nothing else fences one."""
    fenced = WHO | {"error": "FENCED_INSTANCE_ID", "api": "Heartbeat", "errors": 1, "exchanges": 1,
                    "is_retriable": False}  # fmt: skip
    back = WHOM | {"group_id": "g", "cause": cause, "rebalances": 1, "members_before": 2,
                   "group_instance_id": "desk-7", "outcome": "complete"}  # fmt: skip
    found = judged(errors=[fenced], rebalances=[back])
    assert ids(found) == told
    assert found[0].severity == PROBLEM


@pytest.mark.parametrize(
    ("acks_all", "others", "severity", "words"),
    [
        (9, (), WARNING, "Broker 10.0.0.9:9092, or a follower it waits for, is slow: p99 of"),
        (0, (), PROBLEM, "Broker 10.0.0.9:9092 is slow: p99 of"),
        (9, ("Heartbeat",), PROBLEM, "Broker 10.0.0.9:9092 is slow: p99 of"),
        (9, ("OffsetCommit",), WARNING, "10.0.0.9:9092, or a follower it waits for, is slow: p99"),
    ],
)
def test_a_leader_may_be_slow_for_a_follower_that_was_not_captured(
    acks_all: int, others: tuple[str, ...], severity: str, words: str
) -> None:
    slow = {"broker": BROKER, "exchanges": 500, "p50_ns": 2 * MS, "p99_ns": 120 * MS}
    look = seen(work=[slow | {"api": one} for one in ("Produce", *others)])
    look.signs.acks_all = acks_all
    (found,) = (one for one in judge(look) if one.id == "broker-slow")
    assert found.severity == severity
    assert words in found.text


@pytest.mark.parametrize(
    ("resets", "greetings", "severity"), [(9, 9, PROBLEM), (9, 8, PROBLEM), (9, 7, WARNING)]
)
def test_a_broker_that_ends_connections_before_its_first_answer_turns_clients_away(
    resets: int, greetings: int, severity: str
) -> None:
    """Then no listener is unreachable, and unanswered requests are those turned away."""
    row = WHO | {"broker": BROKER, "reset_by_broker": resets, "connections": resets,
                 "reconnects": 40, "life_p50_ns": MS, "exchanges": 20}  # fmt: skip
    look = seen(api("ApiVersions", 20, unanswered=greetings), api("Metadata", 11), health=[row])
    look.signs._looking["svc-7"] = 11
    look = replace(look, summary=replace(look.summary, totals=replace(
        look.summary.totals, last_time_ns=(look.summary.totals.first_time_ns or 0) + 5 * SECOND
    )))  # fmt: skip
    found = judge(look)
    (reset,) = (one for one in found if one.id == "connections-reset")
    assert reset.severity == severity
    assert (f"{greetings} first requests (ApiVersions) got no response" in reset.text) is (
        severity == PROBLEM
    )
    others = {"connection-churn", "requests-unanswered", "advertised-listener-unreachable"}
    assert bool(others & set(ids(found))) is (severity == WARNING)


@pytest.mark.parametrize(
    ("code", "is_retriable", "is_first"),
    [
        ("GROUP_MAX_SIZE_REACHED", False, True),
        ("TOPIC_AUTHORIZATION_FAILED", False, True),
        # Members that a stalled broker drops, and retries.
        ("UNKNOWN_MEMBER_ID", False, False),
        ("REQUEST_TIMED_OUT", True, False),
    ],
)
def test_permanent_rejections_rank_above_latency(
    code: str, is_retriable: bool, is_first: bool
) -> None:
    error = WHO | {"error": code, "api": "JoinGroup", "errors": 4, "exchanges": 4,
                   "is_retriable": is_retriable}  # fmt: skip
    found = judged(slowest=[SAID[6][1]], errors=[error])
    assert (found[0].id != "broker-stalls") is is_first
    assert "broker-stalls" in ids(found)


@pytest.mark.parametrize(("seconds", "is_told"), [(4, False), (6, True)])
@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH"])
def test_a_new_partition_has_no_leader_for_a_moment(code: str, seconds: int, is_told: bool) -> None:
    row = WHO | {"error": code, "api": "Produce", "errors": 32, "exchanges": 32,
                 "is_retriable": True, "first_seen": START_US,
                 "last_seen": START_US + seconds * 1_000_000}  # fmt: skip
    assert (ERROR + code in ids(judged(errors=[row]))) is is_told


def test_rebalances_that_are_counted_together_did_not_all_lose_a_member() -> None:
    row = WHOM | {"group_id": "g", "cause": "join", "outcome": "interrupted", "rebalances": 5,
                  "lost": 1, "stopped_ns": 9 * SECOND, "members": 1,
                  "members_before": 2}  # fmt: skip
    texts = {one.id: one.text for one in judged(rebalances=[row])}
    assert texts["session-timeout"] == (
        "Group g lost a member to a session timeout; 1 member remained"
    )
    texts = {one.id: one.text for one in judged(rebalances=[row | {"lost": 5}])}
    assert "a session timeout, 5 times: its partitions stalled for" in texts["session-timeout"]


@pytest.mark.parametrize("error", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"])
def test_batches_of_an_aborted_transaction_that_are_refused_belong_to_it(error: str) -> None:
    code = WHO | {"error": error, "api": "Produce", "errors": 3, "exchanges": 3,
                  "is_retriable": False}  # fmt: skip
    aborted = WHOM | {"transactional_id": "till", "outcome": "aborted", "ended_by": "svc-7"}
    assert ids(judged(errors=[code], transactions=[aborted] * 5)) == ["transactions-abort"]
    assert ids(judged(errors=[code], transactions=[aborted] * 4)) == [ERROR + error]


def test_members_that_a_silent_broker_forgot_belong_to_its_silence() -> None:
    forgotten = WHO | {"error": "UNKNOWN_MEMBER_ID", "api": "Heartbeat", "errors": 1,
                       "exchanges": 1, "is_retriable": False}  # fmt: skip
    assert ids(judged(errors=[forgotten])) == ["error-UNKNOWN_MEMBER_ID"]
    assert ids(judged(errors=[forgotten], slowest=[SAID[6][1]])) == ["broker-stalls"]
    assert ids(judged(errors=[forgotten], failovers=[SAID[0][1]])) == ["failover-blackout"]


def test_the_broker_with_the_longest_blackout_comes_first() -> None:
    short = SAID[0][1] | {"old_broker": "10.0.0.7:9092", "blackout_ns": 1100 * MS, "errors": 90}
    found = judged(failovers=[short, SAID[0][1]])
    assert [one.concerns["broker"] for one in found] == [BROKER, "10.0.0.7:9092"]
