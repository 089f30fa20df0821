"""Tables of given rows for analyses; missing values are null."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.duckdb_tables import DuckTables
from kdissect.analysis.engines.ibis_tables import declared_tables
from kdissect.analysis.engines.stored_tables import directory_place
from kdissect.analysis.execution import ask
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import TABLES

Row = Mapping[str, Any]
SECOND = 1_000_000_000
MS = 1_000_000
START = 1_700_000_000 * SECOND


def exchange(number: int, api: str, latency_ms: float = 1.0, at_s: float = 0.0, **more: Any) -> Row:
    """An answered exchange of connection 1; the request is sent `at_s` after `START`."""
    sent = START + round(at_s * SECOND)
    latency = round(latency_ms * MS)
    row = {
        "capture": "a.pcap", "connection_id": 1, "exchange_id": number, "api": api,
        "outcome": "answered", "request_start": sent, "request_end": sent,
        "response_start": sent + latency, "response_end": sent + latency, "latency_ns": latency,
        "upload_ns": 0, "download_ns": 0, "queue_ns": 0, "service_ns": latency, "wait_ns": 0,
        "work_ns": latency, "throttle_ms": 0, "error_count": 0, "retransmits": 0, "rtt_ns": 1000,
        "topic_count": 0, "partition_count": 0, "decode_status": "ok",
        "request_packet": number * 2, "response_packet": number * 2 + 1,
    }  # fmt: skip
    return row | more


def connection(number: int = 1, client_ip: str = "10.0.0.1", **more: Any) -> Row:
    """A connection to the broker at 10.0.0.9:9092."""
    row = {
        "capture": "a.pcap", "connection_id": number, "client_ip": client_ip,
        "client_port": 50000 + number, "broker_ip": "10.0.0.9", "broker_port": 9092,
        "first_time": START, "last_time": START, "protocol": "kafka",
    }  # fmt: skip
    return row | more


def write_tables(directory: Path, **rows: Sequence[Row]) -> Path:
    """A directory with the files of all tables."""
    directory.mkdir(exist_ok=True)
    for name, table in TABLES.items():
        made = pa.Table.from_pylist([dict(row) for row in rows.get(name, ())], arrow_schema(table))
        parquet.write_table(made, directory / f"{name}.parquet")
    return directory


@contextmanager
def tables_of(
    directory: Path, where: str | None = None, **rows: Sequence[Row]
) -> Iterator[DuckTables]:
    """The tables on DuckDB."""
    place = directory_place(write_tables(directory, **rows))
    with DuckTables([place], list(declared_tables()), where) as tables:
        yield tables


def asked(
    name: str, directory: Path, options: Mapping[str, Any] | None = None, **rows: Sequence[Row]
) -> list[dict[str, Any]]:
    """The rows of the answer to a question about tables with these rows."""
    with tables_of(directory, **rows) as tables:
        found = ask(QUESTIONS[name], tables, options or {})
    return [dict(row) for row in found.to_pylist()]
