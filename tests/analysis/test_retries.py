"""Retries: tries of one batch found by sequence or by looks, and what came of them."""

import json
from pathlib import Path
from typing import Any

import pytest

import kdissect
from tests.analysis.made_tables import MS, START, Row, asked, connection, exchange

TOO_LARGE = {"error_code": 10, "error": "MESSAGE_TOO_LARGE", "base_offset": -1}
NOT_LEADER = {"error_code": 6, "error": "NOT_LEADER_OR_FOLLOWER", "base_offset": -1}
LOST = {"outcome": "unanswered", "response_start": None, "response_end": None}
SHOWN = ("cause", "tries", "ended", "until_success_ns", "next_success_ns", "copies", "matched_by")


class Sent:
    """Tables of what producers sent, one try after the other."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {
            "exchanges": [], "partitions": [], "batches": [],
            "connections": [connection(1), connection(2, first_time=START + 900 * MS)],
        }  # fmt: skip

    def add(
        self,
        at_s: float,
        answer: Row | int,
        *,
        on: int = 1,
        client: str = "p",
        sequence: int | None = None,
        at_ms: int | None = 0,
        **more: Any,
    ) -> "Sent":
        number = len(self.rows["exchanges"]) + 1
        place = {"exchange_id": number, "topic": "t", "partition": 0, "record_count": 3}
        answered = {"error_code": 0, "base_offset": answer} if isinstance(answer, int) else answer
        codes = ("error_code", "error", "base_offset")
        about = {key: value for key, value in answered.items() if key not in codes}
        self.rows["exchanges"].append(
            exchange(
                number, "Produce", 10, at_s, connection_id=on, client_id=client, acks=-1,
                **(dict(about) | more),
            )
        )  # fmt: skip
        self.rows["partitions"].append(place | {key: answered.get(key) for key in codes})
        time = None if at_ms is None else START + at_ms * MS
        is_counted = sequence is not None
        self.rows["batches"].append(
            place | {
                "compressed_size": 300, "codec": "none", "base_time": time, "max_time": time,
                "producer_id": 7 if is_counted else None,
                "producer_epoch": 0 if is_counted else None, "base_sequence": sequence,
            }
        )  # fmt: skip
        return self

    def shown(self, directory: Path) -> list[tuple[Any, ...]]:
        found = asked("retries", directory, **self.rows)
        return [tuple(row[name] for name in SHOWN) for row in found]


def test_what_goes_well_is_no_row(tmp_path: Path) -> None:
    assert Sent().add(0, 0).add(1, 3, at_ms=5).add(2, 6, sequence=0).shown(tmp_path) == []


def test_an_error_that_is_retried_is_a_row_until_its_success(tmp_path: Path) -> None:
    sent = Sent().add(0, NOT_LEADER, sequence=0).add(1, NOT_LEADER, sequence=0)
    sent.add(3, 12, sequence=0, on=2).add(4, 15, sequence=3)
    assert sent.shown(tmp_path) == [
        ("NOT_LEADER_OR_FOLLOWER", 3, "ok", 3010 * MS, 3010 * MS, 1, "sequence")
    ]


def test_an_error_that_is_not_retried_has_no_success(tmp_path: Path) -> None:
    assert Sent().add(0, TOO_LARGE).shown(tmp_path) == [
        ("MESSAGE_TOO_LARGE", 1, "MESSAGE_TOO_LARGE", None, None, 0, "looks")
    ]


def test_the_client_may_go_on_with_another_batch(tmp_path: Path) -> None:
    assert Sent().add(0, TOO_LARGE).add(2, 0, at_ms=7).shown(tmp_path) == [
        ("MESSAGE_TOO_LARGE", 1, "MESSAGE_TOO_LARGE", None, 2010 * MS, 0, "looks")
    ]


def test_another_clients_success_is_not_its_own(tmp_path: Path) -> None:
    ((*_, until, later, _, _),) = Sent().add(0, TOO_LARGE).add(2, 0, client="q").shown(tmp_path)
    assert (until, later) == (None, None)


def test_what_was_not_answered_is_found_by_its_sequence(tmp_path: Path) -> None:
    sent = Sent().add(0, LOST, sequence=0).add(1, 0, sequence=0, on=2)
    assert sent.shown(tmp_path) == [("unanswered", 2, "ok", 1010 * MS, 1010 * MS, 1, "sequence")]


def test_a_batch_that_looks_the_same_on_a_new_connection_is_in_the_log_twice(
    tmp_path: Path,
) -> None:
    assert Sent().add(0, 0).add(1, 3, on=2).shown(tmp_path) == [
        ("sent again", 2, "ok", 1010 * MS, 1010 * MS, 2, "looks")
    ]


def test_a_batch_that_looks_the_same_on_the_same_connection_is_another(tmp_path: Path) -> None:
    assert Sent().add(0, 0).add(1, 3).shown(tmp_path) == []


def test_a_batch_that_looks_the_same_on_a_connection_that_was_there_is_another(
    tmp_path: Path,
) -> None:
    assert Sent().add(1, 0).add(2, 3, on=2).shown(tmp_path) == []


def test_the_same_sequence_is_the_same_batch_wherever_it_is_sent(tmp_path: Path) -> None:
    sent = Sent().add(0, 5, sequence=9).add(1, 5, sequence=9, at_ms=3)
    assert sent.shown(tmp_path) == [("sent again", 2, "ok", 1010 * MS, 1010 * MS, 1, "sequence")]


def test_batches_without_times_are_not_matched(tmp_path: Path) -> None:
    sent = Sent().add(0, NOT_LEADER, at_ms=None).add(1, 3, at_ms=None)
    assert sent.shown(tmp_path) == [
        ("NOT_LEADER_OR_FOLLOWER", 1, "NOT_LEADER_OR_FOLLOWER", None, 1010 * MS, 0, None)
    ]


def test_a_duplicate_that_the_broker_knows_is_a_success(tmp_path: Path) -> None:
    known = {"error_code": 46, "error": "DUPLICATE_SEQUENCE_NUMBER", "base_offset": -1}
    sent = Sent().add(0, LOST, sequence=0).add(1, known, sequence=0)
    assert sent.shown(tmp_path) == [("unanswered", 2, "ok", 1010 * MS, 1010 * MS, 0, "sequence")]


def test_without_acks_nothing_fails(tmp_path: Path) -> None:
    silent = {"outcome": "no_response_expected", "response_end": None}
    assert Sent().add(0, silent).add(1, silent, at_ms=4).shown(tmp_path) == []


def test_errors_say_whether_they_may_be_retried(tmp_path: Path) -> None:
    sent = Sent().add(0, NOT_LEADER, sequence=0).add(1, TOO_LARGE, sequence=3)
    sent.add(2, LOST, sequence=6)
    found = asked("retries", tmp_path, **sent.rows)
    assert [row["is_retriable"] for row in found] == [True, False, None]


@pytest.mark.parametrize("release", ["2.8.2", "4.3.1"])
def test_producers_say_they_waited_as_long(release: str) -> None:
    """The broker hung for 2 s twice; each client says when it sent and when it was told."""
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
        ("java-2.8.2-retrying", "looks")
    }


def tables_of_sidecar(name: str) -> dict[str, list[dict[str, Any]]]:
    sidecar = json.loads(Path(f"captures/{name}.json").read_text())
    return {
        key: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for key, table in sidecar.items()
        if isinstance(table, dict) and "rows" in table
    }
