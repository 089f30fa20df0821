"""A real broker's TLS, decrypted by the key log of its JVM: the rows of a twin without TLS.

`tools.record_twins` has recorded the same talk at each listener of one broker.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

import kdissect
from kdissect.tables.schemas import TABLES

PLACE: Final = Path(__file__).parent
CAPTURE: Final = PLACE / "twins.pcapng"
KEYS: Final = CAPTURE.with_suffix(".keys")
TALKS: Final = json.loads(CAPTURE.with_suffix(".json").read_text())["connections"]
SECURE: Final = [talk for talk in TALKS if talk["twin"]]
Row = dict[str, Any]
# Columns that number what is in the capture, and times.
NUMBERS: Final = {
    "connection_id", "exchange_id", "first_packet", "request_packet", "response_packet",
}  # fmt: skip
TIMES: Final = {
    "first_time", "last_time", "time", "request_start", "request_end", "response_start",
    "response_end", "latency_ns", "upload_ns", "download_ns", "queue_ns", "service_ns", "wait_ns",
    "work_ns", "rtt_ns", "handshake_rtt_ns", "handshake_rtt_broker_ns", "handshake_rtt_client_ns",
    "min_rtt_broker_ns", "min_rtt_client_ns",
}  # fmt: skip
# Columns of connections that differ with TLS. The broker ends it, in answer to a close_notify.
OF_TLS: Final = {
    "client_port", "broker_port", "ended_by", "tls_version", "tls_sni", "tls_cipher", "tls_resumed",
    *(
        f"{column}_{side}"
        for column in ("packets", "bytes", "payload_bytes", "tls_bytes")
        for side in ("to_broker", "to_client")
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def tables() -> dict[str, list[Row]]:
    """All tables, with records and bodies."""
    return {
        name: kdissect.read(CAPTURE, table=name, keylog=KEYS, payload=True).to_arrow().to_pylist()
        for name in TABLES
    }


def talk_name(talk: dict[str, str]) -> str:
    return f"{talk['listener']}-{talk['version']}"


def connection_of(talk: dict[str, str], tables: dict[str, list[Row]]) -> Row:
    (found,) = [
        one for one in tables["connections"] if str(one["client_port"]) == talk["client_port"]
    ]
    return found


def rows_of(talk: dict[str, str], table: str, tables: dict[str, list[Row]]) -> list[Row]:
    """Rows of a connection in order, without what is another one's in any case."""
    connection = connection_of(talk, tables)
    left_out = NUMBERS | TIMES | (OF_TLS if table == "connections" else set())
    return [
        {
            name: neutral(value, connection["broker_port"]) if table == "bodies" else value
            for name, value in row.items()
            if name not in left_out
        }
        for row in tables[table]
        if row["connection_id"] == connection["connection_id"]
    ]


def neutral(value: Any, port: int) -> Any:
    """A body without the port of its listener, and how far the metadata had come."""
    if not isinstance(value, str):
        return value
    try:
        fields = json.loads(value)
    except ValueError:
        return value
    if not isinstance(fields, dict):
        return value
    fields.pop("finalized_features_epoch", None)
    return json.dumps(fields).replace(f'"port": {port}', '"port": 0')


@pytest.mark.parametrize("talk", SECURE, ids=talk_name)
def test_rows_are_those_of_the_twin_without_tls(
    talk: dict[str, str], tables: dict[str, list[Row]]
) -> None:
    """In every table and column but numbers, times, and those that TLS itself explains."""
    twin = next(one for one in TALKS if one["listener"] == talk["twin"])
    for table in TABLES:
        found = rows_of(talk, table, tables)
        assert found == rows_of(twin, table, tables), table
        assert table == "problems" or found


@pytest.mark.parametrize("talk", SECURE, ids=talk_name)
def test_bytes_of_tls_are_those_that_the_twin_does_not_have(
    talk: dict[str, str], tables: dict[str, list[Row]]
) -> None:
    found = connection_of(talk, tables)
    twin = next(one for one in TALKS if one["listener"] == talk["twin"])
    plain = connection_of(twin, tables)
    assert found["tls_version"] == f"TLS {talk['version']}"
    assert plain["tls_version"] is None
    for side in ("to_broker", "to_client"):
        tls_bytes = found[f"tls_bytes_{side}"]
        assert found[f"payload_bytes_{side}"] - tls_bytes == plain[f"payload_bytes_{side}"]
        assert tls_bytes > plain[f"tls_bytes_{side}"] == 0


def test_a_client_certificate_takes_more_bytes_of_tls(tables: dict[str, list[Row]]) -> None:
    by_name = {talk_name(talk): connection_of(talk, tables) for talk in SECURE}
    for version in ("1.2", "1.3"):
        mutual, usual = by_name[f"MUTUAL-{version}"], by_name[f"SSL-{version}"]
        assert mutual["tls_bytes_to_broker"] > usual["tls_bytes_to_broker"] + 300


def test_without_its_keys_nothing_of_it_is_seen() -> None:
    rows = kdissect.read(CAPTURE, table="connections").to_arrow().to_pylist()
    protocols = {str(row["client_port"]): row["protocol"] for row in rows}
    for talk in TALKS:
        assert protocols[talk["client_port"]] == ("tls" if talk["twin"] else "kafka")
