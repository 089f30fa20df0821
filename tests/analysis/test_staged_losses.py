"""Responses and packets that were lost on purpose: duplicate writes, and the network's share.

Bounds come from the side-cars: when the operator acted, when records were sent and acknowledged by
the clients' clocks, which are also the clock of the capture.
"""

from collections import Counter

import pytest

from tests.analysis.staged import CLIENT_NS, MS, Incident, percentile, took_ns

PRODUCERS = ("java-idempotent", "java-plain", "librdkafka-idempotent", "librdkafka-plain")


@pytest.fixture(scope="module")
def lost_answers(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return Incident("lost-answers", tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return Incident("lossy-network", tmp_path_factory.mktemp("lossy"))


def copies_read(incident: Incident, client: str) -> Counter[str]:
    """Deliveries of each of a client's records to the auditor, by content."""
    sent = {(row["key_sha256"], row["value_sha256"]) for row in incident.produced(client)}
    return Counter(
        row["value_sha256"]
        for row in incident.told["consumed"]
        if (row["key_sha256"], row["value_sha256"]) in sent
    )


def test_a_lost_answer_is_one_copy_with_sequence_numbers_and_two_without(
    lost_answers: Incident,
) -> None:
    rows = {row["client_id"]: row for row in lost_answers.asked("retries")}
    assert sorted(rows) == sorted(PRODUCERS)
    for client, row in rows.items():
        read = copies_read(lost_answers, client)
        assert len(read) == len(lost_answers.produced(client)) == 11
        assert row["copies"] == max(read.values()) == (2 if "plain" in client else 1)
        assert (row["cause"], row["tries"], row["ended"]) == ("sent again", 2, "ok")
        assert row["matched_by"] == ("checksum" if "plain" in client else "sequence")
        (record,) = (
            record
            for record in lost_answers.produced(client)
            if record["sent_ns"] < row["first_sent"].value < record["acknowledged_ns"]
        )
        assert 0 < took_ns(record) - row["until_success_ns"] < CLIENT_NS


def test_delivery_names_producers_of_duplicates_found_by_the_auditor(
    lost_answers: Incident,
) -> None:
    found = {
        row["client_id"]: (row["risk"], row["batches"], row["sent_again"], row["records_twice"])
        for row in lost_answers.asked("delivery")
    }
    twice = {
        client: sum(count - 1 for count in copies_read(lost_answers, client).values())
        for client in PRODUCERS
    }
    assert twice == {name: 1 if "plain" in name else 0 for name in PRODUCERS}
    assert found == {
        name: ("wrote twice" if twice[name] else "none", 11, 1, twice[name]) for name in PRODUCERS
    }


def test_sequences_repeat_where_the_answer_was_lost(lost_answers: Incident) -> None:
    rows = lost_answers.asked("sequences")
    names = ("batches", "repeated", "missing", "reordered", "first_sequence", "last_sequence")
    assert {row["client_id"]: tuple(row[name] for name in names) for row in rows} == {
        name: (11, 1, 0, 0, 0, 10) for name in PRODUCERS if "idempotent" in name
    }


def test_health_gives_the_share_of_p99_due_to_a_lossy_network(lossy: Incident) -> None:
    rows = {row["client"]: row for row in lossy.asked("health", by=["client"])}
    before, during = rows["sensor-before"], rows["sensor-during"]
    assert (before["troubled"], before["retransmitted_segments"], before["network"]) == (0, 0, 0)
    assert during["lost_bytes"] > 0
    # The broker's own log has its time for the same requests: the rest is the network's.
    broker_ns = {
        client: percentile(
            [
                round(row["total_ms"] * MS)
                for row in lossy.told["exchanges"]
                if row["client_id"] == client
            ],
            0.99,
        )
        for client in ("sensor-before", "sensor-during")
    }
    share = 1 - broker_ns["sensor-during"] / during["time_p99_ns"]
    assert during["network"] == pytest.approx(share, abs=0.05)
    assert share > 0.8
    assert during["untroubled_p99_ns"] < broker_ns["sensor-during"] + 20 * MS
    assert before["time_p99_ns"] < broker_ns["sensor-before"] + 20 * MS


def test_the_exchanges_that_the_network_held_up_are_those_the_client_waited_for(
    lossy: Incident,
) -> None:
    """A retransmission takes 200 ms at least, when no later segment tells of the loss."""
    slowest = lossy.asked("slowest", "client_id = 'sensor-during' and api = 'Produce'", number=150)
    held = {
        row["request_start"].value for row in slowest if row["retransmits"] > 0
        and row["upload_ns"] + row["latency_ns"] > 150 * MS
    }  # fmt: skip
    records = lossy.produced("sensor-during")[1:]  # the first waits for its connection, too
    waited = [record for record in records if took_ns(record) > 150 * MS]
    assert held
    assert len(held) == len(waited)
    for record in waited:
        assert any(record["sent_ns"] < start < record["acknowledged_ns"] for start in held)
