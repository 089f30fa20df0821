"""Counters of the summary, and the row each counter becomes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.analysis.grouping import RESPONSE_NOT_CAPTURED
from kdissect.analysis.summary.arrow_columns import groups, has_text, integers, texts
from kdissect.analysis.summary.histogram import Histogram


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Durations in ns, each within 0.4 %; None without measurements."""

    p50_ns: int | None
    p95_ns: int | None
    p99_ns: int | None
    max_ns: int | None


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One API: exchanges, those with an error, and the latency of the answered ones.

    `waited` is the share of the latencies that the requests had asked for (long polls), `work` the
    remainder of each without that and without the queueing behind earlier requests.
    """

    api: str
    api_key: int
    versions: list[int]
    exchanges: int
    with_errors: int
    unanswered: int
    latency: Quantiles
    work: Quantiles
    waited: float
    request_bytes: int
    response_bytes: int


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One client id."""

    client_id: str
    exchanges: int
    with_errors: int
    latency: Quantiles
    request_bytes: int
    response_bytes: int


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic: totals of its record batches, and partitions answered with an error."""

    topic: str
    produced_bytes: int
    produced_records: int
    fetched_bytes: int
    fetched_records: int
    with_errors: int


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One error code: how often, the field it was seen in most, an example of what it concerns."""

    name: str
    code: int
    count: int
    path: str
    concerns: str
    first_exchange_id: int


class ExchangeColumns:
    """The columns of a batch of exchanges that every grouping of them sums."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.latency = integers(batch, "latency_ns", -1)
        self.wait = integers(batch, "wait_ns", 0)
        self.work = integers(batch, "work_ns", -1)
        self.request = integers(batch, "request_size", 0)
        self.response = integers(batch, "response_size", 0)
        # The number of errors is null where a response was not captured in full.
        has_code = integers(batch, "error_code", 0) != 0
        self.failed = has_code | (integers(batch, "error_count", 0) > 0)
        self.version = integers(batch, "api_version", -1)
        is_captured = ~has_text(batch, "decode_status", RESPONSE_NOT_CAPTURED)
        self.unanswered = (texts(batch, "outcome") == "unanswered") & is_captured


class Traffic:
    """Exchanges of one API, or of one client (`key` -1, as for orphan responses)."""

    def __init__(self) -> None:
        self.key = -1
        self.name = ""
        self.exchanges = 0
        self.with_errors = 0
        self.unanswered = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.waited_ns = 0.0
        self.versions: set[int] = set()
        self.latency = Histogram()
        self.work = Histogram()

    @property
    def weight(self) -> int:
        return self.exchanges

    def add(self, columns: ExchangeColumns, rows: Any) -> None:
        self.exchanges += len(rows)
        self.with_errors += int(columns.failed[rows].sum())
        self.unanswered += int(columns.unanswered[rows].sum())
        self.request_bytes += int(columns.request[rows].sum())
        self.response_bytes += int(columns.response[rows].sum())
        if self.key >= 0:
            # Not by np.unique, which imports numpy.ma.
            self.versions.update(version for version, _ in groups(columns.version[rows]))
            work = columns.work[rows]
            self.work.add(work[work >= 0])
        latency = columns.latency[rows]
        measured = latency >= 0
        self.latency.add(latency[measured])
        self.waited_ns += float(columns.wait[rows][measured].sum(dtype=np.float64))

    def merge(self, other: "Traffic") -> None:
        self.exchanges += other.exchanges
        self.with_errors += other.with_errors
        self.unanswered += other.unanswered
        self.request_bytes += other.request_bytes
        self.response_bytes += other.response_bytes
        self.waited_ns += other.waited_ns
        self.latency.merge(other.latency)

    def api_row(self) -> ApiRow:
        return ApiRow(
            api=self.name or ("(orphans)" if self.key < 0 else f"API {self.key}"),
            api_key=self.key,
            versions=sorted(self.versions - {-1}),
            exchanges=self.exchanges,
            with_errors=self.with_errors,
            unanswered=self.unanswered,
            latency=quantiles(self.latency),
            work=quantiles(self.work),
            waited=self.waited_ns / self.latency.total if self.latency.total else 0.0,
            request_bytes=self.request_bytes,
            response_bytes=self.response_bytes,
        )

    def client_row(self, name: str) -> ClientRow:
        return ClientRow(
            name,
            self.exchanges,
            self.with_errors,
            quantiles(self.latency),
            self.request_bytes,
            self.response_bytes,
        )


class Topic:
    """Partitions of one topic."""

    def __init__(self) -> None:
        self.bytes = [0, 0]
        self.records = [0, 0]
        self.with_errors = 0
        self.partitions = 0

    @property
    def weight(self) -> tuple[int, int]:
        return sum(self.bytes), self.partitions

    def add(self, rows: Any, size: Any, count: Any, failed: Any, fetched: Any) -> None:
        self.partitions += len(rows)
        self.with_errors += int(failed[rows].sum())
        for way, chosen in enumerate((rows[~fetched[rows]], rows[fetched[rows]])):
            self.bytes[way] += int(size[chosen].sum())
            self.records[way] += int(count[chosen].sum())

    def merge(self, other: "Topic") -> None:
        self.partitions += other.partitions
        self.with_errors += other.with_errors
        for way in range(2):
            self.bytes[way] += other.bytes[way]
            self.records[way] += other.records[way]

    def row(self, name: str) -> TopicRow:
        (produced, fetched), (produced_records, fetched_records) = self.bytes, self.records
        return TopicRow(
            name, produced, produced_records, fetched, fetched_records, self.with_errors
        )


class Count:
    def __init__(self) -> None:
        self.weight = 0

    def merge(self, other: "Count") -> None:
        self.weight += other.weight


class ErrorCount:
    def __init__(self, code: int, name: str, concerns: str) -> None:
        self.code = code
        self.name = name or f"error {code}"
        self.concerns = concerns
        self.count = 0
        self.first_exchange_id = -1
        self.paths: dict[str, int] = {}

    def row(self) -> ErrorRow:
        path = max(self.paths, key=lambda path: self.paths[path], default="")
        return ErrorRow(
            self.name, self.code, self.count, path, self.concerns, self.first_exchange_id
        )


def quantiles(histogram: Histogram) -> Quantiles:
    """The four quantiles shown."""
    return Quantiles(*(histogram.quantile(q) for q in (0.5, 0.95, 0.99, 1.0)))
