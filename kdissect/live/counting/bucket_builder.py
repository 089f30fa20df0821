"""Batches of rows between two ticks → a `TimeBucket`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.live.counting.columns import Names
from kdissect.live.counting.time_buckets import (
    ConnectionColumns,
    ErrorColumns,
    ExchangeColumns,
    MemberColumns,
    TcpEventColumns,
    TimeBucket,
    TopicColumns,
    Vocabulary,
    connection_columns,
    error_columns,
    exchange_columns,
    member_columns,
    placed,
    tcp_event_columns,
    topic_columns,
)

TABLES = frozenset({"exchanges", "partitions", "errors", "members", "connections"})
INT, CODE, FLAG = np.dtype(np.int64), np.dtype(np.int32), np.dtype(bool)


def no_rows(*types: np.dtype[Any]) -> list[np.ndarray[Any, Any]]:
    return [np.empty(0, kind) for kind in types]


NO_EXCHANGES = ExchangeColumns(
    *no_rows(INT, INT, INT, CODE, CODE, CODE, np.dtype(np.int8), FLAG),
    *no_rows(INT, INT, INT, CODE, CODE, CODE),
)
NO_TCP_EVENTS = TcpEventColumns(*no_rows(INT, INT, INT, INT, INT, FLAG))
NO_TOPICS = TopicColumns(*no_rows(INT, CODE, INT, INT, FLAG))
NO_ERRORS = ErrorColumns(*no_rows(INT, CODE, CODE, FLAG))
NO_MEMBERS = MemberColumns(*no_rows(INT, INT, CODE, CODE, CODE, CODE, INT))
NO_CONNECTIONS = ConnectionColumns(*no_rows(INT, CODE, INT, CODE, INT))
NO_ROWS = TimeBucket(
    0, 0, 0, NO_EXCHANGES, NO_TCP_EVENTS, NO_TOPICS, NO_ERRORS, NO_MEMBERS, NO_CONNECTIONS
)


class Gathering:
    """Takes batches of `TABLES`; `take_bucket` returns the rows since its last call.

    With `shows_ids` a topic without a known name is its id, else it has none.
    """

    def __init__(self, names: Vocabulary[Names], shows_ids: bool = True) -> None:
        self.names = names
        self._shows_ids = shows_ids
        self._begin()

    def _begin(self) -> None:
        self._exchanges = [NO_EXCHANGES]
        self._tcp_events = [NO_TCP_EVENTS]
        self._topics = [NO_TOPICS]
        self._errors = [NO_ERRORS]
        self._members = [NO_MEMBERS]
        self._connections = [NO_CONNECTIONS]

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        """Take rows of one table; an empty batch has no effect."""
        if not batch.num_rows:
            return
        if table == "exchanges":
            self._exchanges.append(exchange_columns(batch, self.names))
            self._tcp_events.append(tcp_event_columns(batch))
        elif table == "partitions":
            self._topics.append(topic_columns(batch, self.names, self._shows_ids))
        elif table == "errors":
            self._errors.append(error_columns(batch, self.names, self._shows_ids))
        elif table == "members":
            self._members.append(member_columns(batch, self.names))
        elif table == "connections":
            self._connections.append(connection_columns(batch, self.names))

    def take_bucket(self, begin_ns: int, end_ns: int, packets: int) -> TimeBucket:
        """Rows from `begin_ns` to `end_ns`; -1 means the time of the first row, if any."""
        exchanges = ExchangeColumns(*concatenated(self._exchanges))
        ids = exchanges.exchange_id
        if begin_ns < 0:
            begin_ns = min(end_ns, int(exchanges.time.min())) if len(ids) else end_ns
        made = TimeBucket(
            begin_ns,
            end_ns,
            packets,
            exchanges,
            placed(TcpEventColumns(*concatenated(self._tcp_events)), ids),
            placed(TopicColumns(*concatenated(self._topics)), ids),
            placed(ErrorColumns(*concatenated(self._errors)), ids),
            placed(MemberColumns(*concatenated(self._members)), ids),
            ConnectionColumns(*concatenated(self._connections)),
        )
        self._begin()
        return made


def concatenated(parts: Sequence[Sequence[np.ndarray[Any, Any]]]) -> list[np.ndarray[Any, Any]]:
    """Rows of all parts, by column."""
    if len(parts) == 2:
        # Only the second has rows.
        return list(parts[1])
    return [np.concatenate(column) for column in zip(*parts, strict=True)]
