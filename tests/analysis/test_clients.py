"""Clients and topology: the clients, their software, and the topics they use."""

import json
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.analysis.fingerprints import FINGERPRINTS
from kdissect.analysis.questions.clients import COLUMNS
from kdissect.errors import KdissectError
from tests.analysis.made_tables import Row, asked, connection, exchange, write_tables

CAPTURES = Path("captures")
# Side-car's library → the name that its clients report, or that is guessed.
SOFTWARE = {
    "java": "apache-kafka-java",
    "librdkafka": "confluent-kafka-python",
    "kafka_python": "kafka-python",
    "aiokafka": "aiokafka",
    "sarama": "sarama",
    "franz": "kgo",
    "kafkajs": "kafkajs",
    "streams": "apache-kafka-java",
}
# Where all clients report their software, and where brokers are too old for ApiVersions.
TOLD = (
    "quickstart", "basics-0.10.2.2", "basics-0.11.0.3", "basics-1.1.1", "basics-2.4.1",
    "basics-2.8.2", "basics-4.0.1", "basics-4.3.1",
)  # fmt: skip
PARTLY = (
    "basics-0.8.2.2", "basics-0.9.0.1", "sasl-2.8.2", "old-formats-0.10.2.2",
)  # fmt: skip


def calls(*names: str, client_id: str = "a", connection_id: int = 1) -> list[Row]:
    """An exchange for each ``API version``."""
    return [
        exchange(
            connection_id * 100 + number, name.split()[0], api_version=int(name.split()[1]),
            client_id=client_id, connection_id=connection_id, at_s=number,
            request_size=96, response_size=196,
        )
        for number, name in enumerate(names)
    ]  # fmt: skip


def partition(exchange_id: int, topic: str, number: int = 0, **more: Any) -> Row:
    return {"exchange_id": exchange_id, "topic": topic, "partition": number, **more}


def guessed(tmp_path: Path, *names: str, client_id: str = "a") -> tuple[Any, ...]:
    (row,) = asked(
        "clients", tmp_path, exchanges=calls(*names, client_id=client_id),
        connections=[connection()],
    )  # fmt: skip
    return row["software"], row["software_version"], row["confidence"]


def test_a_client_is_shown_with_all_that_it_does(tmp_path: Path) -> None:
    exchanges = [
        *calls("ApiVersions 3", "Produce 9", "Produce 8"),
        *calls("Fetch 12", "JoinGroup 7", connection_id=2),
    ]
    exchanges[1] |= {"error_count": 2, "outcome": "answered"}
    exchanges[2] |= {"outcome": "unanswered", "response_size": None, "error_count": None}
    exchanges[4] |= {"group_id": "g"}
    login = {"sasl_user": "bob", "sasl_mechanism": "PLAIN", "sasl_outcome": "ok"}
    said = {"client_software_name": "lib", "client_software_version": "1.2"}
    (row,) = asked(
        "clients",
        tmp_path,
        exchanges=exchanges,
        connections=[connection(1, **login, **said), connection(2, broker_port=9093)],
        partitions=[
            partition(101, "orders"), partition(102, "orders", 1), partition(102, "clicks"),
            partition(200, "stock"),
        ],
    )  # fmt: skip
    first, last = row.pop("first_time"), row.pop("last_time")
    assert (last - first).total_seconds() == 2
    assert row == {
        "client": "a", "client_ip": "10.0.0.1", "software": "lib", "software_version": "1.2",
        "confidence": 100, "evidence": "says so", "role": "consumer, producer", "users": "bob",
        "mechanisms": "PLAIN", "failed_logins": 0, "connections": 2, "brokers": 2, "exchanges": 5,
        "failed": 1, "unanswered": 1, "request_bytes": 500, "response_bytes": 800,
        "produces": "clicks, orders", "consumes": "stock", "groups": "g", "transactions": None,
        "apis": "ApiVersions 3; Fetch 12; JoinGroup 7; Produce 8,9",
    }  # fmt: skip
    assert set(row) | {"first_time", "last_time"} == {
        "client", "client_ip", *[column.name for column in COLUMNS]
    }  # fmt: skip


def test_clients_may_be_named_user_and_nobody(tmp_path: Path) -> None:
    rows = asked(
        "clients", tmp_path, {"by": ["user"]},
        exchanges=[*calls("Fetch 4"), *calls("Produce 3", "Produce 3", connection_id=2),
                   *calls("SaslHandshake 1", connection_id=3)],
        connections=[connection(1, sasl_user="bob", sasl_outcome="ok"), connection(2),
                     connection(3, sasl_user="bob", sasl_outcome="failed")],
        partitions=[partition(100, "a"), partition(200, "b")],
    )  # fmt: skip
    shown = [
        (row["user"], row["role"], row["consumes"], row["produces"], row["failed_logins"])
        for row in rows
    ]
    assert shown == [("bob", "consumer", "a", None, 1), (None, "producer", None, "b", 0)]


def test_clients_without_a_name_are_identified_by_their_requests(tmp_path: Path) -> None:
    assert guessed(tmp_path, "ApiVersions 2", "ApiVersions 1") == ("kafkajs", None, 95)
    assert guessed(tmp_path, "ApiVersions 1", "Metadata 4") == (
        "apache-kafka-java", "0.11 to 1.1", 90,
    )  # fmt: skip
    assert guessed(tmp_path, "Metadata 1", client_id="rdkafka") == ("librdkafka", None, 90)
    assert guessed(tmp_path, "Metadata 1", client_id="rdkafka-not") == (None, None, None)
    assert guessed(tmp_path, "ApiVersions 0", "ApiVersions 3", "Metadata 2") == (None, None, None)


def test_a_condition_does_not_make_another_library_of_a_client(tmp_path: Path) -> None:
    exchanges = calls("ApiVersions 2", "ApiVersions 1", "Metadata 4")
    tables = write_tables(tmp_path, exchanges=exchanges, connections=[connection(1, exchanges=3)])
    found = [
        kdissect.analyse("clients", tables, where=where).to_arrow()["software"].to_pylist()
        for where in (None, "api_version <> 2")
    ]
    assert found == [["kafkajs"], ["kafkajs"]]


def test_brokers_are_brokers_and_come_last(tmp_path: Path) -> None:
    rows = asked(
        "clients", tmp_path, exchanges=[
            *calls("Fetch 11", "Fetch 11", client_id="broker-2-fetcher-0"),
            *calls("UpdateMetadata 6", "LeaderAndIsr 4", client_id="1", connection_id=2),
            *calls("Fetch 11", connection_id=3),
        ], connections=[connection(number) for number in (1, 2, 3)],
    )  # fmt: skip
    assert [(row["client"], row["role"], row["software"]) for row in rows] == [
        ("a", "consumer", None), ("1", "broker", "Kafka broker"),
        ("broker-2-fetcher-0", "broker", "Kafka broker"),
    ]  # fmt: skip


def test_invalid_clients_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(KdissectError, match="cannot group by 'topic'; there are: client_id, "):
        asked("clients", tmp_path, {"by": ["topic"]})


def test_many_topics_are_counted_not_listed(tmp_path: Path) -> None:
    partitions = [partition(100, f"t{number:02}") for number in range(23)]
    (row,) = asked(
        "clients", tmp_path, exchanges=calls("Fetch 4"), connections=[connection()],
        partitions=partitions,
    )  # fmt: skip
    assert row["consumes"].endswith("t18, t19 and 3 more")


@pytest.mark.parametrize("name", [*TOLD, *PARTLY])
def test_software_matches_the_recorded_clients(name: str) -> None:
    sidecar = json.loads((CAPTURES / f"{name}.json").read_text())
    truth = {one["session"]: one["library"].split("#")[0] for one in sidecar["sessions"]}
    rows = kdissect.analyse("clients", CAPTURES / f"{name}.pcapng", by=["client"]).to_arrow()
    found = {row["client"]: row for row in rows.to_pylist() if row["client"] in truth}
    for session, row in found.items():
        library, _, version = truth[session].partition("@")
        if row["software"] is None:
            assert name in PARTLY, session
            continue
        assert row["software"] == SOFTWARE[library], session
        assert version_fits(row["software_version"], version), session


def version_fits(found: str | None, truth: str) -> bool:
    """Return whether a version, or a range of them, has the true one."""
    if found is None or not truth:
        return True
    numbers = number_of(truth)
    first, _, last = found.replace(" or newer", " to 99").replace(" or ", " to ").partition(" to ")
    return number_of(first) <= numbers <= (*number_of(last or first), 99)


def number_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split("-")[0].split("."))


def test_every_guess_has_been_seen_or_is_a_default_client_id() -> None:
    assert all(one.sent or one.client_id for one in FINGERPRINTS)
    assert all(50 < one.confidence < 100 for one in FINGERPRINTS)


def test_edges_go_from_producers_to_topics_and_on_to_consumers(tmp_path: Path) -> None:
    exchanges = [
        *calls("Produce 9", client_id="shop"),
        *calls("Fetch 12", "Heartbeat 4", client_id="stock", connection_id=2),
        *calls("Fetch 12", client_id="broker-1-fetcher-0", connection_id=3),
    ]
    exchanges[2] |= {"group_id": "workers"}
    rows = asked(
        "topology", tmp_path, {"replication": True}, exchanges=exchanges,
        connections=[connection(1), connection(2, "10.0.0.2"), connection(3, "10.0.0.9")],
        partitions=[
            partition(100, "orders", 0, record_count=3, record_bytes=300, error_code=0),
            partition(100, "orders", 1, record_count=2, record_bytes=200, error_code=6),
            partition(200, "orders", 0, record_count=3, record_bytes=300, error_code=0),
            partition(300, "orders", 0, record_count=3, record_bytes=300, error_code=0),
        ],
    )  # fmt: skip
    names = ("source", "target", "direction", "records", "bytes", "partitions", "failed", "groups")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("orders", "broker-1-fetcher-0", "replicates", 3, 300, 1, 0, None),
        ("shop", "orders", "produces", 5, 500, 2, 1, None),
        ("orders", "stock", "consumes", 3, 300, 1, 0, "workers"),
    ]  # fmt: skip


def test_edges_of_a_real_session_are_those_that_its_clients_tell() -> None:
    sidecar = json.loads((CAPTURES / "quickstart.json").read_text())
    told = {
        (row["session"], row["topic"], table)
        for table in ("produced", "consumed")
        for row in rows_of(sidecar, table)
    }
    answer = kdissect.analyse("topology", CAPTURES / "quickstart.pcapng").to_arrow().to_pylist()
    words = {"produces": "produced", "consumes": "consumed"}
    found = {
        (row["client_id"], row["topic"], words[row["direction"]])
        for row in answer
        if row["records"]
    }
    assert found == told


def rows_of(sidecar: dict[str, Any], table: str) -> list[dict[str, Any]]:
    columns = sidecar[table]["columns"]
    return [dict(zip(columns, row, strict=True)) for row in sidecar[table]["rows"]]
