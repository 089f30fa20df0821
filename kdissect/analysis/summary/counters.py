"""Counters of the summary, and the row each counter becomes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.analysis.grouping import RESPONSE_NOT_CAPTURED
from kdissect.analysis.summary.arrow_columns import has_text, integers, texts
from kdissect.analysis.tally import Tally, quantiles


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Durations in ns, None without measurements: percentiles as those of `kdissect latency`.

    They are interpolated between two times, and exact up to a quarter of a million of them; of
    more, each is within 0.4 % (see `kdissect.analysis.tally`).
    """

    p50_ns: int | None
    p95_ns: int | None
    p99_ns: int | None
    max_ns: int | None


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One API: exchanges, those with an error, and the latency of the answered ones.

    `answered` are those that `kdissect latency` counts: with a response to measure.

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
    answered: int = 0


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One client id."""

    client_id: str
    exchanges: int
    with_errors: int
    latency: Quantiles
    request_bytes: int
    response_bytes: int
    answered: int = 0


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
    """One error code: its count, its most frequent field, and an example."""

    name: str
    code: int
    count: int
    path: str
    concerns: str
    first_exchange_id: int
    first_packet: int | None = None


class Counted(NamedTuple):
    """The rows with one name: their number, sums of measures, and quantiles of a time."""

    name: str
    rows: int
    sums: list[float]
    quantiles: Quantiles


class ExchangeColumns:
    """The columns of a batch of exchanges that every grouping of them sums."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        outcomes = texts(batch, "outcome")
        is_answered = outcomes == "answered"
        self.latency = np.where(is_answered, integers(batch, "latency_ns", -1), -1)
        is_measured = self.latency >= 0
        self.work = np.where(is_measured, integers(batch, "work_ns", -1), -1)
        # The number of errors is null where a response was not captured in full.
        has_code = integers(batch, "error_code", 0) != 0
        is_captured = ~has_text(batch, "decode_status", RESPONSE_NOT_CAPTURED)
        self.is_failed = has_code | (integers(batch, "error_count", 0) > 0)
        self.measures = (
            is_measured,
            self.is_failed,
            (outcomes == "unanswered") & is_captured,
            integers(batch, "request_size", 0),
            integers(batch, "response_size", 0),
            integers(batch, "wait_ns", 0) * is_measured,
            self.latency * is_measured,
        )


class Spoken:
    """Key and versions of an API; key -1 are orphan responses."""

    def __init__(self) -> None:
        self.key = -1
        self.versions: set[int] = set()

    def row(self, counted: Counted, work: Quantiles) -> ApiRow:
        answered, with_errors, unanswered, *sizes, waited_ns, total_ns = counted.sums
        request_bytes, response_bytes = sizes
        return ApiRow(
            api=counted.name or ("(orphans)" if self.key < 0 else f"API {self.key}"),
            api_key=self.key,
            versions=sorted(self.versions - {-1}),
            exchanges=counted.rows,
            answered=int(answered),
            with_errors=int(with_errors),
            unanswered=int(unanswered),
            latency=counted.quantiles,
            work=work,
            waited=waited_ns / total_ns if total_ns else 0.0,
            request_bytes=int(request_bytes),
            response_bytes=int(response_bytes),
        )


def client_row(counted: Counted) -> ClientRow:
    answered, with_errors, _, request_bytes, response_bytes, *_ = map(int, counted.sums)
    return ClientRow(
        counted.name,
        counted.rows,
        with_errors,
        counted.quantiles,
        request_bytes,
        response_bytes,
        answered,
    )


def topic_row(counted: Counted) -> TopicRow:
    return TopicRow(counted.name, *map(int, counted.sums))


class ErrorCount:
    def __init__(self, code: int, name: str, concerns: str) -> None:
        self.code = code
        self.name = name or f"error {code}"
        self.concerns = concerns
        self.count = 0
        self.first_exchange_id = -1
        self.paths: dict[str, int] = {}

    def row(self, first_packet: int | None) -> ErrorRow:
        path = max(self.paths, key=lambda path: self.paths[path], default="")
        return ErrorRow(
            self.name, self.code, self.count, path, self.concerns, self.first_exchange_id,
            first_packet,
        )  # fmt: skip


def quantiles_of(of: Tally) -> list[Quantiles]:
    """The four quantiles shown, by key."""
    rows = quantiles(of, (0.5, 0.95, 0.99, 1.0)).tolist()
    return [Quantiles(*(time if time >= 0 else None for time in row)) for row in rows]
