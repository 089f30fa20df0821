"""Kafka's own clients with and without TLS, decrypted by the key log of an agent in their JVMs.

`tools.record_client_twins` has recorded the console producer and consumer of Kafka, and librdkafka,
which logs no keys itself, at each listener of one broker. Rows of a client with TLS are those of
its twin without.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

import kdissect
from kdissect.tables.schemas import TABLES
from tests.tls.test_twins import NUMBERS, OF_TLS, TIMES, Row

CAPTURE: Final = Path(__file__).parent / "client_twins.pcapng"
KEYS: Final = CAPTURE.with_suffix(".keys")
RUNS: Final = json.loads(CAPTURE.with_suffix(".json").read_text())["runs"]
SECURE: Final = [run for run in RUNS if run["twin"]]
SOFTWARE: Final = {
    "console-producer": "apache-kafka-java",
    "console-consumer": "apache-kafka-java",
    "librdkafka": "confluent-kafka-python",
}
Run = dict[str, Any]
# Records have the time of their sending, and checksums are over it.
OF_TIME: Final = {"base_time", "max_time", "base_time_ms", "max_time_ms", "time_ms", "crc"}
# The system sends again what a busy machine acknowledges late, also over the loopback.
OF_TCP: Final = {
    "retransmits",
    *(
        f"{column}_{side}"
        for column in ("retransmitted_bytes", "retransmitted_segments", "spurious_retransmits",
                       "duplicate_acks")
        for side in ("to_broker", "to_client")
    ),
}  # fmt: skip
# Given anew by the broker or the client each time: the same number for the same value.
GIVEN: Final = {"topic_id", "producer_id", "session_id"}
# How a connection ends differs with TLS: its sides send a close_notify.
ENDS: Final = {"fin_seen", "rst_by", "closed_by"}
# librdkafka's threads ask for these when each connection is up, in the order in which they come up;
# so they, and what counts or numbers them, are no twins.
AT_ANY_TIME: Final = {"FindCoordinator", "Metadata"}
COUNTED: Final = {
    "correlation_id", "exchanges", "framed_bytes_to_broker", "framed_bytes_to_client",
}  # fmt: skip
EPOCH: Final = "finalized_features_epoch"  # how far the cluster's metadata has come


@pytest.fixture(scope="module")
def tables() -> dict[str, list[Row]]:
    """All tables, with records and bodies."""
    return {
        name: kdissect.read(CAPTURE, table=name, keylog=KEYS, payload=True).to_arrow().to_pylist()
        for name in TABLES
    }


def run_name(run: Run) -> str:
    return "-".join(filter(None, (run["client"], run["listener"], run["version"])))


def twin_of(run: Run) -> Run:
    wanted = run["client"], run["twin"]
    return next(one for one in RUNS if (one["client"], one["listener"]) == wanted)


def connections_of(run: Run, tables: dict[str, list[Row]]) -> list[Row]:
    """Connections of a run, in the order of their begin."""
    by_ports = {
        (str(one["client_port"]), str(one["broker_port"])): one for one in tables["connections"]
    }
    return [by_ports[port, run["port"]] for port in run["client_ports"]]


def is_at_any_time(exchange: Row) -> bool:
    """Return whether librdkafka may also leave it out: it pauses after the last record."""
    is_empty = exchange["api"] == "Fetch" and not exchange["record_count"]
    return is_empty or exchange["api"] in AT_ANY_TIME


class Neutral:
    """Rows of a run, without what is another one's in any case."""

    def __init__(self, run: Run, tables: dict[str, list[Row]]) -> None:
        self.tables = tables
        self.given: dict[tuple[str, Any], int] = {}
        ids = [one["connection_id"] for one in connections_of(run, tables)]
        self.numbers = {one: at for at, one in enumerate(ids)}
        self.left_out = NUMBERS | TIMES | OF_TIME | OF_TCP
        self.skipped: set[int] = set()
        if run["client"] == "librdkafka":
            self.left_out |= COUNTED
            self.skipped = {
                one["exchange_id"] for one in tables["exchanges"] if is_at_any_time(one)
            }

    def rows(self, table: str) -> list[tuple[int, Row]]:
        """Rows with the number of their connection, in the order of connections and exchanges."""
        left_out = self.left_out | (OF_TLS | ENDS if table == "connections" else set())
        found = [
            row
            for row in self.tables[table]
            if row["connection_id"] in self.numbers and row.get("exchange_id") not in self.skipped
        ]
        found.sort(key=lambda row: (self.numbers[row["connection_id"]], row.get("exchange_id", 0)))
        return [
            (
                self.numbers[row["connection_id"]],
                {name: self.value(name, of) for name, of in row.items() if name not in left_out},
            )
            for row in found
        ]

    def value(self, name: str, value: Any) -> Any:
        if name in ("request", "response") and isinstance(value, str):
            return self.body(json.loads(value))
        if name in GIVEN and value not in (None, 0, -1):
            return self.given.setdefault((name, value), len(self.given))
        return value

    def body(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.body(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            name: self.value(name, self.body(one)) if name != "port" else 0
            for name, one in value.items()
            if name not in OF_TIME | {EPOCH}
        }


@pytest.mark.parametrize("run", SECURE, ids=run_name)
def test_rows_are_those_of_the_twin_without_tls(run: Run, tables: dict[str, list[Row]]) -> None:
    """In every table and column but numbers, times, and those that TLS itself explains."""
    found, twin = Neutral(run, tables), Neutral(twin_of(run), tables)
    for table in TABLES:
        assert found.rows(table) == twin.rows(table), table


def test_sessions_of_all_clients_are_decrypted(tables: dict[str, list[Row]]) -> None:
    for run in SECURE:
        for one in connections_of(run, tables):
            assert (one["protocol"], one["tls_undecrypted"]) == ("kafka", None)
            assert one["tls_version"] == f"TLS {run['version']}"
            assert one["client_software_name"] == SOFTWARE[run["client"]]
    assert tables["problems"] == []


def test_each_client_writes_and_reads_the_same_records(tables: dict[str, list[Row]]) -> None:
    for run in RUNS:
        records = [row for _, row in Neutral(run, tables).rows("records")]
        sizes = [row["value_size"] for row in records]
        assert sizes == [5, 1000] * (2 if run["client"] == "librdkafka" else 1)
        assert {row["key"] for row in records} == {b"k"}
