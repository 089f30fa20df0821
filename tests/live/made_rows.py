"""Batches of made-up rows, with all columns of their tables; missing values are null."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.capture.packet import Packet
from kdissect.live.listener import Status
from kdissect.pipeline import Balance
from kdissect.sources.packet_source import Counts, PacketSource
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import TABLES

SECOND = 1_000_000_000
MS = 1_000_000
START = 1_700_000_000 * SECOND


def status(at_s: float = 0.0, packets: int = 0, **more: Any) -> Status:
    """Status `at_s` after START."""
    balance = Balance(packets, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {}, {}, more.pop("problems", {}))
    made = Status(START + round(at_s * SECOND), balance, Counts(), 0.0, 0)
    return made._replace(**more)


def batch(table: str, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows of a table."""
    schema = arrow_schema(TABLES[table])
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema)


def exchange(number: int, api: str = "Produce", latency_ms: float = 1, **more: Any) -> Any:
    """An answered exchange of connection 1, sent `number` ms after START."""
    sent = START + number * MS
    latency = round(latency_ms * MS)
    row = {
        "capture": "eth0", "connection_id": 1, "exchange_id": number, "api": api,
        "client_id": "app", "outcome": "answered", "request_start": sent, "request_end": sent,
        "response_start": sent + latency, "response_end": sent + latency, "latency_ns": latency,
        "queue_ns": 0, "wait_ns": 0, "request_size": 100, "response_size": 50, "error_count": 0,
        "retransmits": 0, "zero_windows": 0, "missing_bytes": 0, "partition_count": 0,
    }  # fmt: skip
    return row | more


def partition(number: int, topic: str | None = "orders", **more: Any) -> Any:
    """Row of exchange `number` for partition 0."""
    return {"connection_id": 1, "exchange_id": number, "topic": topic, "partition": 0} | more


class GivenWire(PacketSource):
    """Gives these packets at each read, and at the end nothing more."""

    def __init__(self, *reads: list[Packet]) -> None:
        self.names = ["eth0"]
        self._reads = list(reads)

    def read(self, wait_s: float) -> list[Packet] | None:
        return self._reads.pop(0) if self._reads else None

    def close(self) -> None:
        pass


class Many(NamedTuple):
    """Batches of as many rows as a busy broker gives."""

    exchanges: pa.RecordBatch
    partitions: pa.RecordBatch


def many(count: int, first: int = 0, clients: int = 200, topics: int = 300) -> Many:
    """So many exchanges, with numbers from `first` on, and a partition or two of each."""
    random = np.random.default_rng(first + 1)
    ids = np.arange(first, first + count)
    sent = START + ids * 10_000
    latency = np.exp(random.normal(14, 1.5, count)).astype(np.int64)
    apis = np.where(random.random(count) < 0.5, 0, random.integers(0, 12, count))
    names = ["Produce", "Fetch", "Metadata", *(f"Api{i}" for i in range(9))]
    columns = {
        "exchange_id": ids,
        "connection_id": ids % 500,
        "api": texts(apis, names),
        "client_id": texts(random.integers(0, clients, count), [f"c{i}" for i in range(clients)]),
        "outcome": texts(np.zeros(count, np.int32), ["answered"]),
        "request_start": sent,
        "response_start": sent + latency,
        "latency_ns": latency,
        "queue_ns": np.zeros(count, np.int64),
        "wait_ns": np.zeros(count, np.int64),
        "request_size": random.integers(20, 20_000, count),
        "response_size": random.integers(20, 20_000, count),
        "error_count": (random.random(count) < 0.01).astype(np.int32),
        "retransmits": (random.random(count) < 0.01).astype(np.int32),
    }
    of = np.repeat(ids, random.integers(0, 3, count))
    named = {
        "exchange_id": of,
        "topic": texts(random.integers(0, topics, len(of)), [f"t{i}" for i in range(topics)]),
        "record_bytes": random.integers(100, 10_000, len(of)),
        "record_count": random.integers(1, 100, len(of)),
    }
    return Many(filled("exchanges", columns, count), filled("partitions", named, len(of)))


def texts(codes: Any, names: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(np.asarray(codes, np.int32), pa.array(names))


def filled(table: str, columns: Mapping[str, Any], count: int) -> pa.RecordBatch:
    """A batch with these columns, and nulls in the others."""
    schema = arrow_schema(TABLES[table])
    arrays = [
        pa.array(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def given(listener: Any, batches: Mapping[str, pa.RecordBatch]) -> None:
    """Hand the batches to a listener that wants them, as the watcher does."""
    for table in TABLES:
        if table in batches and table in listener.tables:
            listener.take(table, batches[table])


def handed(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.RecordBatch]:
    return {table: batch(table, some) for table, some in rows.items()}


def seconds(count: int, rows: int) -> Iterator[Many]:
    """`count` times as many rows as there are in a second."""
    for second in range(count):
        yield many(rows, second * rows)
