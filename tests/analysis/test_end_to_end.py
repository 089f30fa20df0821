"""From produce to consume: by offset where both were seen, by the batch's time where not."""

import json
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.errors import KdissectError
from tests.analysis.made_tables import MS, SECOND, START, Row, asked, connection, exchange

PLACE = {"topic": "t", "partition": 0}


class Wire:
    """A producer on connection 2, consumers and followers on others."""

    def __init__(self) -> None:
        self.exchanges: list[Row] = [exchange(1, "Heartbeat", group_id="g", client_id="reader")]
        self.partitions: list[Row] = []
        self.batches: list[Row] = []

    def produce(self, at_s: float, first: int, count: int, took_ms: float = 10) -> "Wire":
        number = self._tell("Produce", at_s, took_ms, connection_id=2, client_id="writer")
        own = {"exchange_id": number, **PLACE}
        self.partitions.append(own | {"base_offset": first, "record_count": count})
        self.batches.append(own | {"base_offset": 0, "last_offset": count - 1})
        return self

    def fetch(self, at_s: float, first: int, count: int, took_ms: float = 5, **more: Any) -> "Wire":
        known = ("base_time", "is_control", "is_aborted")
        batch = {name: more.pop(name) for name in known if name in more}
        number = self._tell("Fetch", at_s, took_ms, **{"client_id": "reader"} | more)
        own = {"exchange_id": number, **PLACE, "record_count": count}
        self.partitions.append(own | {"fetch_offset": first})
        if count:
            span = {"base_offset": first, "last_offset": first + count - 1}
            self.batches.append(own | span | batch)
        return self

    def rows(self, directory: Path, **options: Any) -> list[dict[str, Any]]:
        return asked(
            "end-to-end", directory, options, exchanges=self.exchanges, batches=self.batches,
            partitions=self.partitions,
            connections=[connection(on, f"10.0.0.{on}") for on in (1, 2, 3)],
        )  # fmt: skip

    def _tell(self, api: str, at_s: float, took_ms: float, **more: Any) -> int:
        number = len(self.exchanges) + 1
        self.exchanges.append(exchange(number, api, took_ms, at_s, **more))
        return number


def chosen(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_a_batch_takes_from_its_request_to_the_fetch_that_brings_it(tmp_path: Path) -> None:
    wire = Wire().fetch(0.5, 7, 0).produce(1, 7, 3).fetch(1.020, 7, 3)
    (row,) = wire.rows(tmp_path)
    assert row == {
        "topic": "t", "group": "g", "since": "produce", "batches": 1, "backlog": 0, "records": 3,
        **{f"{name}_ns": 25 * MS for name in ("p50", "p90", "p95", "p99", "p999", "max")},
        "produce_p99_ns": 10 * MS, "fetch_p99_ns": 15 * MS,
    }  # fmt: skip


def test_only_the_first_delivery_to_a_group_counts(tmp_path: Path) -> None:
    wire = Wire().produce(1, 0, 3).fetch(2, 0, 3).fetch(9, 0, 3)
    wire.fetch(3, 0, 3, client_id="lonely", connection_id=3)
    assert chosen(wire.rows(tmp_path), "group", "batches", "max_ns") == [
        (None, 1, 2_005 * MS),
        ("g", 1, 1_005 * MS),
    ]


def test_followers_are_no_consumers_and_markers_no_records(tmp_path: Path) -> None:
    wire = Wire().produce(1, 0, 3).fetch(2, 3, 1, is_control=True)
    wire.fetch(2, 0, 3, client_id="broker-2-fetcher-0", connection_id=3)
    assert wire.rows(tmp_path) == []


@pytest.mark.parametrize(("is_aborted", "batches"), [(True, []), (False, [1])])
def test_aborted_records_reach_no_consumer(
    is_aborted: bool, batches: list[int], tmp_path: Path
) -> None:
    wire = Wire().produce(1, 0, 3).fetch(2, 0, 3, is_aborted=is_aborted)
    assert [row["batches"] for row in wire.rows(tmp_path)] == batches


def test_a_consumer_may_have_it_before_the_producer_has_its_answer(tmp_path: Path) -> None:
    wire = Wire().produce(1, 0, 3, took_ms=100).fetch(1.010, 0, 3)
    assert chosen(wire.rows(tmp_path), "max_ns", "produce_p99_ns", "fetch_p99_ns") == [
        (15 * MS, 100 * MS, 0)
    ]


def test_the_time_of_the_batch_is_a_row_of_its_own(tmp_path: Path) -> None:
    wire = Wire().produce(1, 0, 3).fetch(2, 0, 3).fetch(3, 3, 2, base_time=START + 2 * SECOND)
    assert chosen(wire.rows(tmp_path), "since", "batches", "max_ns", "produce_p99_ns") == [
        ("produce", 1, 1_005 * MS, 10 * MS),
        ("batch time", 1, 1_005 * MS, None),
    ]


def test_a_backlog_can_be_left_out(tmp_path: Path) -> None:
    wire = Wire().produce(1, 0, 3).fetch(60, 0, 3).produce(61, 3, 3).fetch(60.9, 3, 3, 105)
    (row,) = wire.rows(tmp_path)
    assert chosen([row], "batches", "backlog", "max_ns") == [(2, 1, 59_005 * MS)]
    (row,) = wire.rows(tmp_path, live=True)
    assert chosen([row], "batches", "backlog", "max_ns") == [(1, 0, 5 * MS)]


def test_a_batch_that_the_broker_cut_is_found_by_its_offset(tmp_path: Path) -> None:
    wire = Wire().produce(1, 0, 10).produce(5, 10, 10).fetch(6, 4, 2).fetch(6, 12, 2)
    (row,) = wire.rows(tmp_path, by=["partition"])
    assert chosen([row], "partition", "batches", "max_ns") == [(0, 2, 5_005 * MS)]


def test_consumers_are_distinguished_by_their_library(tmp_path: Path) -> None:
    wire = Wire().produce(1, 0, 3).fetch(2, 0, 3)
    (row,) = wire.rows(tmp_path, by=["client", "client_ip", "window"])
    assert (row["client"], row["client_ip"]) == ("reader", "10.0.0.1")
    with pytest.raises(KdissectError, match="cannot group by 'acks'; there are: topic"):
        wire.rows(tmp_path, by=["acks"])


def test_a_backlog_of_a_real_capture_is_as_old_as_clients_say() -> None:
    truth = json.loads(Path("captures/quickstart.json").read_text())
    sent = [
        dict(zip(truth["produced"]["columns"], row, strict=True))
        for row in truth["produced"]["rows"]
        if row[1] == "orders"
    ]
    first = min(sent, key=lambda row: row["sent_ns"])
    polled_ns = next(
        end
        for session, operation, _, end, _, _ in truth["operations"]["rows"]
        if (session, operation) == ("worker-java", "poll")
    )
    rows = kdissect.analyse("end-to-end", "captures/quickstart.pcapng").to_arrow().to_pylist()
    (row,) = [row for row in rows if row["group_id"] == "order-workers"]
    consumed = {row[3:5] for row in map(tuple, truth["consumed"]["rows"]) if row[1:3] == (
        "order-workers", "orders",
    )}  # fmt: skip
    assert (row["since"], row["records"]) == ("produce", len(consumed))
    # Sent after it was handed to the library, fetched before the poll gave it to the program.
    assert row["max_ns"] < polled_ns - first["sent_ns"]
    assert row["max_ns"] > polled_ns - first["acknowledged_ns"] - 100 * MS


def test_records_of_known_topics_are_emitted_at_once() -> None:
    answer = kdissect.analyse(
        "end-to-end", "captures/quickstart.pcapng", live=True, where="client_id <> 'aio-acks0'"
    )
    (row,) = answer.to_arrow().to_pylist()
    # The workers' long polls end when java-late produces.
    assert (row["group_id"], row["batches"]) == ("order-workers", 8)
    assert row["max_ns"] < 100 * MS
