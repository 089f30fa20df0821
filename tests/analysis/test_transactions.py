"""Transactions: from the first request that adds to one to the request that ends it."""

from pathlib import Path
from typing import Any

import pytest

import kdissect
from tests.analysis.from_sidecars import tables_of_sidecar
from tests.analysis.made_tables import MS, SECOND, START, Row, asked, connection, exchange

SHOWN = ("outcome", "duration_ns", "idle_ns", "ended_by", "records", "errors", "last_error")


class Steps:
    """Tables of the requests of transactional id x; each Produce has a batch of 3 records."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {
            "exchanges": [], "partitions": [], "batches": [], "connections": [connection()],
        }  # fmt: skip
        self.sequence = 0

    def add(
        self, at_s: float, api: str, error: tuple[int, str] | None = None, **more: Any
    ) -> "Steps":
        number = len(self.rows["exchanges"]) + 1
        code, name = error or (None, None)
        about = {"transactional_id": "x", "client_id": "p", "error_code": code, "error": name}
        self.rows["exchanges"].append(exchange(number, api, 10, at_s, **(about | more)))
        if api == "Produce":
            self._write(number)
        return self

    def _write(self, number: int) -> None:
        place = {"exchange_id": number, "topic": "t", "partition": 0}
        self.rows["partitions"].append(
            place | {"error_code": 0, "base_offset": self.sequence, "record_count": 3}
        )
        self.rows["batches"].append(self._batch(place, self.sequence))
        self.sequence += 3

    def _batch(self, place: Row, sequence: int) -> Row:
        return place | {
            "magic": 2, "record_count": 3, "base_offset": 0, "producer_id": 7, "producer_epoch": 0,
            "base_sequence": sequence, "is_transactional": True, "is_control": False,
        }  # fmt: skip

    def read(self, at_s: float, base_offset: int, is_aborted: bool | None) -> "Steps":
        """A consumer fetches the batch at an offset."""
        number = len(self.rows["exchanges"]) + 1
        self.rows["exchanges"].append(exchange(number, "Fetch", 10, at_s, client_id="c"))
        batch = self._batch({"exchange_id": number, "topic": "t", "partition": 0}, base_offset)
        self.rows["batches"].append({**batch, "base_offset": base_offset, "is_aborted": is_aborted})
        return self

    def mark(self, at_s: float, offset: int, written_s: float) -> "Steps":
        """A consumer of any kind fetches a marker that the broker wrote before."""
        number = len(self.rows["exchanges"]) + 1
        self.rows["exchanges"].append(exchange(number, "Fetch", 10, at_s, client_id="c"))
        marker = self._batch({"exchange_id": number, "topic": "t", "partition": 0}, -1)
        at = {"base_offset": offset, "base_time": START + round(written_s * SECOND)}
        self.rows["batches"].append(marker | at | {"is_control": True, "record_count": 1})
        return self

    def shown(self, directory: Path, **options: Any) -> list[tuple[Any, ...]]:
        found = asked("transactions", directory, options, **self.rows)
        return [tuple(row[name] for name in SHOWN) for row in found]


def begun() -> Steps:
    return Steps().add(0, "InitProducerId").add(1, "AddPartitionsToTxn").add(2, "Produce")


def test_a_transaction_is_from_its_first_request_to_the_answer_that_ends_it(tmp_path: Path) -> None:
    assert begun().add(4, "EndTxn").shown(tmp_path) == [("ended", 3010 * MS, None, "p", 3, 0, None)]


@pytest.mark.parametrize(("is_commit", "outcome"), [(True, "committed"), (False, "aborted")])
def test_the_ending_request_has_the_outcome(is_commit: bool, outcome: str, tmp_path: Path) -> None:
    steps = begun().add(4, "EndTxn", is_commit=is_commit)
    steps.add(5, "Produce").add(6, "EndTxn", is_commit=not is_commit)
    other = {"committed": "aborted", "aborted": "committed"}[outcome]
    assert [row[:2] for row in steps.shown(tmp_path)] == [
        (outcome, 3010 * MS),
        (other, 1010 * MS),
    ]


def test_a_timed_out_transaction_is_listed_as_aborted_to_consumers(tmp_path: Path) -> None:
    steps = begun().read(12, 0, is_aborted=True)
    assert [row[0] for row in steps.shown(tmp_path)] == ["timed out"]


def test_the_marker_has_the_time_of_the_coordinators_end(tmp_path: Path) -> None:
    steps = begun().read(12, 0, is_aborted=True).mark(13, offset=3, written_s=8)
    # The marker of a later one is not its own.
    steps.mark(14, offset=9, written_s=13.5)
    assert steps.shown(tmp_path) == [("timed out", 7000 * MS, None, None, 3, 0, None)]


def test_a_marker_ends_it_without_a_consumer_of_read_committed(tmp_path: Path) -> None:
    steps = begun().mark(13, offset=3, written_s=8)
    assert [row[:3] for row in steps.shown(tmp_path)] == [("ended", 7000 * MS, None)]
    late = steps.shown(tmp_path, timeout=5000 * MS)
    assert [row[:3] for row in late] == [("timed out", 7000 * MS, None)]


def test_without_the_coordinator_the_outcome_of_a_transaction_is_unknown(tmp_path: Path) -> None:
    """Capture of a broker without the coordinator: the producer may have aborted elsewhere."""
    steps = Steps().add(2, "Produce").read(12, 0, is_aborted=True).mark(13, offset=3, written_s=8)
    assert [row[:2] for row in steps.shown(tmp_path)] == [("aborted", 6000 * MS)]
    late = Steps().add(2, "Produce").mark(13, offset=3, written_s=8)
    assert [row[0] for row in late.shown(tmp_path, timeout=5000 * MS)] == ["ended"]
    # A leader sends the coordinator's request on the producer's behalf.
    open_ = Steps().add(1, "AddPartitionsToTxn", client_id="AddPartitionsManager-client-1")
    open_.add(2, "Produce").add(90, "Metadata", transactional_id=None)
    assert [row[0] for row in open_.shown(tmp_path)] == ["open"]
    assert [row[0] for row in begun().add(90, "Metadata").shown(tmp_path)] == ["hanging"]


def test_rejected_transactions_have_no_marker(tmp_path: Path) -> None:
    steps = Steps().add(1, "Produce", (47, "INVALID_PRODUCER_EPOCH"))
    steps.rows["partitions"][0]["base_offset"] = -1
    steps.mark(2, offset=3, written_s=0.5)
    assert [row[:3] for row in steps.shown(tmp_path)] == [("refused", 1000 * MS, 1000 * MS)]


def test_unfinished_transaction_is_open_and_then_hanging(tmp_path: Path) -> None:
    steps = begun().read(12, 0, None)
    assert steps.shown(tmp_path) == [("open", 11_000 * MS, 10_000 * MS, None, 3, 0, None)]
    assert [row[0] for row in steps.shown(tmp_path, timeout=10_000 * MS)] == ["hanging"]


@pytest.mark.parametrize(("timeout_ms", "outcome"), [(10_000, "hanging"), (20_000, "open")])
def test_the_timeout_is_that_of_the_producer(timeout_ms: int, outcome: str, tmp_path: Path) -> None:
    steps = Steps().add(0, "InitProducerId", transaction_timeout_ms=timeout_ms)
    steps.add(1, "AddPartitionsToTxn", producer_id=9, producer_epoch=2).read(12, 0, None)
    (row,) = asked("transactions", tmp_path, {"timeout": MS}, **steps.rows)
    columns = ("outcome", "timeout_ns", "producer_id", "producer_epoch")
    assert tuple(row[name] for name in columns) == (outcome, timeout_ms * MS, 9, 2)


def test_an_end_that_is_refused_ends_nothing(tmp_path: Path) -> None:
    steps = begun().add(3, "EndTxn", (14, "COORDINATOR_LOAD_IN_PROGRESS")).add(5, "EndTxn")
    assert steps.shown(tmp_path) == [
        ("ended", 4010 * MS, None, "p", 3, 1, "COORDINATOR_LOAD_IN_PROGRESS")
    ]


def test_another_producer_takes_over(tmp_path: Path) -> None:
    busy = (51, "CONCURRENT_TRANSACTIONS")
    steps = begun().add(3, "InitProducerId", busy, client_id="q").add(4, "InitProducerId")
    steps.add(5, "Produce", (47, "INVALID_PRODUCER_EPOCH"))
    assert steps.shown(tmp_path) == [
        ("taken over", 2010 * MS, None, "q", 3, 1, "CONCURRENT_TRANSACTIONS"),
        ("refused", 0, 0, None, 3, 1, "INVALID_PRODUCER_EPOCH"),
    ]


def test_a_batch_that_is_sent_again_counts_once(tmp_path: Path) -> None:
    steps = begun()
    steps.sequence = 0
    assert [row[4] for row in steps.add(3, "Produce").add(4, "EndTxn").shown(tmp_path)] == [3]


def test_offsets_alone_make_a_transaction(tmp_path: Path) -> None:
    steps = Steps().add(0, "AddOffsetsToTxn", group_id="g").add(1, "TxnOffsetCommit", group_id="g")
    (row,) = asked("transactions", tmp_path, **steps.add(2, "EndTxn").rows)
    assert (row["outcome"], row["group_id"], row["records"]) == ("ended", "g", None)


def test_those_that_did_not_end_come_first_and_then_the_longest(tmp_path: Path) -> None:
    steps = Steps()
    for name, end in (("short", 2), ("long", 9), ("never", None)):
        steps.add(1, "AddOffsetsToTxn", transactional_id=name)
        if end is not None:
            steps.add(end, "EndTxn", transactional_id=name)
    rows = asked("transactions", tmp_path, **steps.rows)
    assert [row["transactional_id"] for row in rows] == ["never", "long", "short"]


@pytest.mark.parametrize("release", ["0.11.0.3", "2.8.2", "4.3.1"])
def test_real_producers_ended_theirs_as_they_say(release: str) -> None:
    sidecar = tables_of_sidecar(f"transactions-{release}")
    began = [row for row in sidecar["operations"] if row["operation"] == "begin"]
    ended = [row for row in sidecar["operations"] if row["operation"] == "end"]
    answer = kdissect.analyse("transactions", f"captures/transactions-{release}.pcapng")
    rows = sorted(answer.to_arrow().to_pylist(), key=lambda row: row["started"])
    rows = [row for row in rows if row["outcome"] != "refused"]
    assert [(row["client_id"], row["outcome"]) for row in rows] == [
        (row["session"], "taken over" if row["session"] == "hanging"
         else row["arguments"]["transaction"])
        for row in began
    ]  # fmt: skip
    written = sidecar["produced"]
    for row, begin in zip(rows, began, strict=True):
        if row["outcome"] == "taken over":
            assert row["ended_by"] == "admin-java"
            continue
        end = min(
            each["end_ns"] for each in ended
            if each["session"] == begin["session"] and each["start_ns"] > begin["end_ns"]
        )  # fmt: skip
        assert begin["start_ns"] < row["started"].value
        assert row["started"].value + row["duration_ns"] < end
        sent = [
            record for record in written
            if record["session"] == begin["session"] and begin["end_ns"] < record["sent_ns"] < end
        ]  # fmt: skip
        assert row["records"] == len(sent)
