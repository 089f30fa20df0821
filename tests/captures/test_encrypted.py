"""Kafka over TLS without its keys: every connection of the broker's log is there, as TLS."""

import json
from pathlib import Path

import pytest

import kdissect

TLS = Path(__file__).parents[2] / "captures" / "tls"
WITH_KEYS_INSIDE = {"tls-sasl-4.3.1"}
NAMES = sorted({path.stem for path in TLS.glob("*.pcapng")} - WITH_KEYS_INSIDE)


@pytest.mark.parametrize("name", NAMES)
def test_connections_are_those_of_the_brokers_log_and_nothing_is_made_up(name: str) -> None:
    options = kdissect.Options(tables=("connections", "exchanges", "problems"))
    tables: dict[str, list[dict[str, object]]] = {table: [] for table in options.tables}
    for table, batch in kdissect.Run(str(TLS / f"{name}.pcapng"), options):
        tables[table] += batch.to_pylist()
    assert (tables["exchanges"], tables["problems"]) == ([], [])
    rows = tables["connections"]
    assert {row["protocol"] for row in rows} <= {"tls", "none"}
    sidecar = json.loads((TLS / f"{name}.json").read_text(encoding="utf-8"))["exchanges"]
    place = sidecar["columns"].index("connection")
    found = {f"{row['client_ip']}:{row['client_port']}" for row in rows if row["protocol"] == "tls"}
    assert {row[place] for row in sidecar["rows"]} <= found


def test_keys_are_beside_or_inside_all_captures_but_one() -> None:
    logs = {path.stem for path in TLS.glob("*.keys")}
    assert set(NAMES) - logs == {"tls-closed-4.3.1"}
    text = "".join(path.read_text(encoding="ascii") for path in TLS.glob("*.keys"))
    labels = {line.split()[0] for line in text.splitlines() if not line.startswith("#")}
    assert labels == {
        "CLIENT_RANDOM", "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0", "EXPORTER_SECRET",
    }  # fmt: skip
