"""Retries: attempts of one batch found by sequence or checksum, and their outcomes."""

from pathlib import Path
from typing import Any

import pytest

import kdissect
from tests.analysis.from_sidecars import tables_of_sidecar
from tests.analysis.made_produce import LOST, NOT_LEADER, SILENT, TOO_LARGE, Sent
from tests.analysis.made_tables import MS, asked

SHOWN = ("cause", "tries", "ended", "until_success_ns", "next_success_ns", "copies", "matched_by")


def shown(sent: Sent, directory: Path) -> list[tuple[Any, ...]]:
    found = asked("retries", directory, **sent.rows)
    return [tuple(row[name] for name in SHOWN) for row in found]


def test_healthy_partitions_have_no_row(tmp_path: Path) -> None:
    assert shown(Sent().add(0, 0).add(1, 3, at_ms=5).add(2, 6, sequence=0), tmp_path) == []


def test_an_error_that_is_retried_is_a_row_until_its_success(tmp_path: Path) -> None:
    sent = Sent().add(0, NOT_LEADER, sequence=0).add(1, NOT_LEADER, sequence=0)
    sent.add(3, 12, sequence=0, on=2).add(4, 15, sequence=3)
    assert shown(sent, tmp_path) == [
        ("NOT_LEADER_OR_FOLLOWER", 3, "ok", 3010 * MS, 3010 * MS, 1, "sequence")
    ]


def test_an_error_that_is_not_retried_has_no_success(tmp_path: Path) -> None:
    assert shown(Sent().add(0, TOO_LARGE), tmp_path) == [
        ("MESSAGE_TOO_LARGE", 1, "MESSAGE_TOO_LARGE", None, None, 0, "checksum")
    ]


def test_the_client_may_go_on_with_another_batch(tmp_path: Path) -> None:
    assert shown(Sent().add(0, TOO_LARGE).add(2, 0, at_ms=7), tmp_path) == [
        ("MESSAGE_TOO_LARGE", 1, "MESSAGE_TOO_LARGE", None, 2010 * MS, 0, "checksum")
    ]


def test_another_clients_success_is_not_its_own(tmp_path: Path) -> None:
    ((*_, until, later, _, _),) = shown(Sent().add(0, TOO_LARGE).add(2, 0, client="q"), tmp_path)
    assert (until, later) == (None, None)


def test_unanswered_batches_are_found_by_their_sequence(tmp_path: Path) -> None:
    sent = Sent().add(0, LOST, sequence=0).add(1, 0, sequence=0, on=2)
    assert shown(sent, tmp_path) == [("unanswered", 2, "ok", 1010 * MS, 1010 * MS, 1, "sequence")]


def test_the_same_batch_on_a_new_connection_is_in_the_log_twice(
    tmp_path: Path,
) -> None:
    assert shown(Sent().add(0, 0).add(1, 3, on=2), tmp_path) == [
        ("sent again", 2, "ok", 1010 * MS, 1010 * MS, 2, "checksum")
    ]


def test_a_batch_that_is_the_same_on_the_same_connection_is_another(tmp_path: Path) -> None:
    assert shown(Sent().add(0, 0).add(1, 3), tmp_path) == []


def test_a_batch_that_is_the_same_on_a_connection_that_was_there_is_another(
    tmp_path: Path,
) -> None:
    assert shown(Sent().add(1, 0).add(2, 3, on=2), tmp_path) == []


def test_the_same_sequence_is_the_same_batch_wherever_it_is_sent(tmp_path: Path) -> None:
    sent = Sent().add(0, 5, sequence=9).add(1, 5, sequence=9, at_ms=3)
    assert shown(sent, tmp_path) == [("sent again", 2, "ok", 1010 * MS, 1010 * MS, 1, "sequence")]


def test_batches_that_could_not_be_read_are_not_matched(tmp_path: Path) -> None:
    sent = Sent().add(0, NOT_LEADER, damaged=True).add(1, 3, damaged=True)
    assert shown(sent, tmp_path) == [
        ("NOT_LEADER_OR_FOLLOWER", 1, "NOT_LEADER_OR_FOLLOWER", None, 1010 * MS, 0, None)
    ]


def test_a_duplicate_that_the_broker_knows_is_a_success(tmp_path: Path) -> None:
    known = {"error_code": 46, "error": "DUPLICATE_SEQUENCE_NUMBER", "base_offset": -1}
    sent = Sent().add(0, LOST, sequence=0).add(1, known, sequence=0)
    assert shown(sent, tmp_path) == [("unanswered", 2, "ok", 1010 * MS, 1010 * MS, 0, "sequence")]


def test_without_acks_nothing_fails(tmp_path: Path) -> None:
    assert shown(Sent().add(0, SILENT).add(1, SILENT, at_ms=4), tmp_path) == []


def test_errors_say_whether_they_may_be_retried(tmp_path: Path) -> None:
    sent = Sent().add(0, NOT_LEADER, sequence=0).add(1, TOO_LARGE, sequence=3)
    sent.add(2, LOST, sequence=6)
    found = asked("retries", tmp_path, **sent.rows)
    assert [row["is_retriable"] for row in found] == [True, False, None]


@pytest.mark.parametrize("release", ["2.8.2", "4.3.1"])
def test_producers_say_they_waited_as_long(release: str) -> None:
    """The broker hung for 2 s twice; each client logs when it sent and when it got the response."""
    sidecar = tables_of_sidecar(f"retries-{release}")
    rows = kdissect.analyse("retries", f"captures/retries-{release}.pcapng").to_arrow().to_pylist()
    assert len(rows) == 4
    for row in rows:
        first = row["first_sent"].value
        (told,) = {
            max(
                record["acknowledged_ns"]
                for record in sidecar["produced"]
                if (record["session"], record["partition"]) == (row["client_id"], row["partition"])
                and record["sent_ns"] <= first < record["acknowledged_ns"]
            )
        }
        assert 0 <= told - (first + row["until_success_ns"]) < 10 * MS
    causes = [row["cause"] for row in rows]
    assert causes.count("sent again") == 3
    assert causes.count("unanswered") == 1


def test_readers_got_as_many_records_twice() -> None:
    """Kafka-clients 2.8.2 was not idempotent for its broker: 36 were produced, 42 read."""
    sidecar = tables_of_sidecar("retries-2.8.2")
    rows = kdissect.analyse("retries", "captures/retries-2.8.2.pcapng").to_arrow().to_pylist()
    twice = [row for row in rows if row["copies"] > 1]
    too_many = len(sidecar["consumed"]) - len(sidecar["produced"])
    assert sum(row["records"] * (row["copies"] - 1) for row in twice) == too_many == 6
    assert {(row["client_id"], row["matched_by"]) for row in twice} == {
        ("java-2.8.2-retrying", "checksum")
    }
