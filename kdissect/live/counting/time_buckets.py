"""Rows between two ticks as arrays: a `TimeBucket`, which is immutable.

Other rows refer to their exchange by its index in the same time bucket.
"""

from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from kdissect.exchanges.exchange import OUTCOMES
from kdissect.live.counting.columns import (
    NONE,
    Codes,
    Flags,
    Names,
    flags_of,
    indices_of,
    or_zero,
    places,
    runs,
    used_texts,
)
from kdissect.protocol.readers import NULL
from kdissect.tables.batches import ints_of
from kdissect.tables.matrices import Ints

Ints32 = np.ndarray[Any, np.dtype[np.int32]]
Outcomes = np.ndarray[Any, np.dtype[np.int8]]


Each = TypeVar("Each", covariant=True)


class Vocabulary(NamedTuple, Generic[Each]):
    """One value, such as `Names`, for each kind of coded text."""

    apis: Each
    clients: Each
    topics: Each
    errors: Each
    groups: Each
    members: Each
    events: Each
    addresses: Each


class ExchangeColumns(NamedTuple):
    """Rows of `exchanges`: 72 bytes each. Missing values of `latency` and `wait` are NULL."""

    time: Ints  # of the request, or of the response without a request
    exchange_id: Ints
    connection_id: Ints
    api: Codes
    client: Codes
    error: Codes
    outcome: Outcomes
    has_error: Flags
    latency: Ints
    queue: Ints
    wait: Ints
    request_size: Ints32
    response_size: Ints32
    throttle_ms: Ints32


class TcpEventColumns(NamedTuple):
    """Exchanges with missing bytes, retransmissions, zero windows, or no response."""

    row: Ints
    connection_id: Ints
    retransmits: Ints
    zero_windows: Ints
    missing_bytes: Ints
    is_unanswered: Flags


class TopicColumns(NamedTuple):
    """A topic in an exchange, summed over partitions; `bytes` are those of `records`."""

    row: Ints
    topic: Codes
    bytes: Ints
    records: Ints
    has_error: Flags


class ErrorColumns(NamedTuple):
    """Rows of `errors`."""

    row: Ints
    error: Codes
    topic: Codes
    is_retriable: Flags


class MemberColumns(NamedTuple):
    """Rows of `members`; a missing `generation` is NULL."""

    row: Ints
    time: Ints
    group: Codes
    member: Codes
    event: Codes
    error: Codes
    generation: Ints


class ConnectionColumns(NamedTuple):
    """Connections that ended, with the addresses and ports of both sides."""

    connection_id: Ints
    client: Codes
    client_port: Ints
    broker: Codes
    broker_port: Ints


Columns = TypeVar(
    "Columns",
    ExchangeColumns,
    TcpEventColumns,
    TopicColumns,
    ErrorColumns,
    MemberColumns,
    ConnectionColumns,
)
# Columns that refer to an exchange.
Rows = TypeVar("Rows", TcpEventColumns, TopicColumns, ErrorColumns, MemberColumns)
UNANSWERED: Final = OUTCOMES.index("unanswered")


class TimeBucket(NamedTuple):
    """Rows between two times, and the number of packets."""

    begin_ns: int
    end_ns: int
    packets: int
    exchanges: ExchangeColumns
    tcp_events: TcpEventColumns
    topics: TopicColumns
    errors: ErrorColumns
    members: MemberColumns
    connections: ConnectionColumns

    @property
    def size(self) -> int:
        """Number of rows of its largest table."""
        return max(len(columns[0]) for columns in self[3:])


def exchange_columns(batch: pa.RecordBatch, names: Vocabulary[Names]) -> ExchangeColumns:
    start = ints_of(batch["request_start"])
    latency = ints_of(batch["latency_ns"])
    # Packets captured out of order make it negative.
    np.maximum(latency, 0, out=latency, where=latency != NULL)
    # The number of errors is null if a response was not captured in full.
    failed = ints_of(batch["error_count"]) > 0
    failed |= or_zero(ints_of(batch["error_code"])) != 0
    return ExchangeColumns(
        np.where(start == NULL, ints_of(batch["response_start"]), start),
        ints_of(batch["exchange_id"]),
        ints_of(batch["connection_id"]),
        names.apis.codes(batch["api"]),
        names.clients.codes(batch["client_id"]),
        names.errors.codes(batch["error"]),
        outcomes_of(batch),
        failed,
        latency,
        ints_of(batch["queue_ns"]),
        ints_of(batch["wait_ns"]),
        or_zero(ints_of(batch["request_size"])).astype(np.int32),
        or_zero(ints_of(batch["response_size"])).astype(np.int32),
        np.maximum(or_zero(ints_of(batch["throttle_ms"])), 0).astype(np.int32),
    )


def outcomes_of(batch: pa.RecordBatch) -> Outcomes:
    """Outcome of each row, as an index in `OUTCOMES`."""
    column = batch["outcome"]
    texts = [OUTCOMES.index(text) for text in used_texts(column)]
    return np.array([*texts, 0], np.int8)[indices_of(column)]


def tcp_event_columns(batch: pa.RecordBatch) -> TcpEventColumns:
    retransmits = or_zero(ints_of(batch["retransmits"]))
    zero_windows = or_zero(ints_of(batch["zero_windows"]))
    missing = or_zero(ints_of(batch["missing_bytes"]))
    unanswered = outcomes_of(batch) == UNANSWERED
    rows = np.flatnonzero((retransmits > 0) | (zero_windows > 0) | (missing > 0) | unanswered)
    return picked(
        TcpEventColumns(
            ints_of(batch["exchange_id"]),
            ints_of(batch["connection_id"]),
            retransmits,
            zero_windows,
            missing,
            unanswered,
        ),
        rows,
    )


def topic_columns(
    batch: pa.RecordBatch, names: Vocabulary[Names], shows_ids: bool = True
) -> TopicColumns:
    ids = ints_of(batch["exchange_id"])
    failed = or_zero(ints_of(batch["error_code"])) != 0
    record_bytes = or_zero(ints_of(batch["record_bytes"]))
    records = or_zero(ints_of(batch["record_count"]))
    topics = topics_of(batch, names.topics, shows_ids)
    whole = TopicColumns(ids, topics, record_bytes, records, failed)
    columns = together(whole)
    if len(columns.row) > len(runs(columns.row)):
        # A message may name a topic again, after another one.
        order = np.lexsort((columns.topic, columns.row))
        columns = together(picked(columns, order))
    return columns


def together(columns: TopicColumns) -> TopicColumns:
    """Merge adjacent rows of the same exchange and topic."""
    first = runs(columns.row, columns.topic)
    return TopicColumns(
        columns.row[first],
        columns.topic[first],
        np.add.reduceat(columns.bytes, first),
        np.add.reduceat(columns.records, first),
        np.logical_or.reduceat(columns.has_error, first),
    )


def topics_of(batch: pa.RecordBatch, names: Names, shows_ids: bool) -> Codes:
    """Topic of each row; if the name is unknown its id, or NONE."""
    topics = names.codes(batch["topic"])
    nameless = topics == NONE
    if shows_ids and nameless.any():
        topics = np.where(nameless, names.codes(batch["topic_id"]), topics)
    return topics


def error_columns(
    batch: pa.RecordBatch, names: Vocabulary[Names], shows_ids: bool = True
) -> ErrorColumns:
    return ErrorColumns(
        ints_of(batch["exchange_id"]),
        names.errors.codes(batch["name"]),
        topics_of(batch, names.topics, shows_ids),
        flags_of(batch["is_retriable"]),
    )


def member_columns(batch: pa.RecordBatch, names: Vocabulary[Names]) -> MemberColumns:
    return MemberColumns(
        ints_of(batch["exchange_id"]),
        ints_of(batch["time"]),
        names.groups.codes(batch["group_id"]),
        names.members.codes(batch["member_id"]),
        names.events.codes(batch["event"]),
        names.errors.codes(batch["error"]),
        ints_of(batch["generation"]),
    )


def connection_columns(batch: pa.RecordBatch, names: Vocabulary[Names]) -> ConnectionColumns:
    return ConnectionColumns(
        ints_of(batch["connection_id"]),
        names.addresses.codes(batch["client_ip"]),
        ints_of(batch["client_port"]),
        names.addresses.codes(batch["broker_ip"]),
        ints_of(batch["broker_port"]),
    )


def placed(columns: Rows, exchange_ids: Ints) -> Rows:
    """Replace the exchange ids in `row` by their indices in `exchange_ids`.

    Rows of missing exchanges are dropped.
    """
    found = places(exchange_ids, columns.row)
    there = found >= 0
    if not there.all():
        columns, found = picked(columns, there), found[there]
    return columns._replace(row=found)


def picked(columns: Columns, rows: Ints | Flags) -> Columns:
    """Select rows, by indices or flags."""
    return type(columns)._make(column[rows] for column in columns)
