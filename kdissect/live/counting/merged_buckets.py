"""Several time buckets as one: columns concatenated on demand, restricted by a `Focus`."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import numpy as np

from kdissect.live.counting.bucket_builder import (
    NO_CONNECTIONS,
    NO_ERRORS,
    NO_MEMBERS,
    NO_ROWS,
    NO_TCP_EVENTS,
    NO_TOPICS,
)
from kdissect.live.counting.columns import Flags, KnownNames
from kdissect.live.counting.snapshot import Focus
from kdissect.live.counting.time_buckets import (
    ConnectionColumns,
    ErrorColumns,
    MemberColumns,
    Rows,
    TcpEventColumns,
    TimeBucket,
    TopicColumns,
    Vocabulary,
    picked,
)
from kdissect.tables.matrices import Ints

# Types to widen for counting: done while copying anyway.
WIDE: Final = {np.dtype(np.int32): np.dtype(np.int64)}
NOTHING: Final = (NO_ROWS,)
NO_CODE: Final = -2  # a code that no row has
EVERYTHING: Final = Focus()


class MergedBuckets:
    """Rows of time buckets within `focus`; rows of other tables refer to exchanges by index.

    `is_seen` flags the selected exchanges, None for all of them.
    """

    def __init__(
        self,
        buckets: Sequence[TimeBucket],
        names: Vocabulary[KnownNames],
        focus: Focus = EVERYTHING,
    ) -> None:
        self.buckets = buckets
        self.names = names
        self.focus = focus
        self._made: dict[str, np.ndarray[Any, Any]] = {}
        self._seen_columns: dict[str, np.ndarray[Any, Any]] = {}
        # Start index of each time bucket.
        self.starts = [0, *accumulate(len(each.exchanges.time) for each in buckets)]
        self.count = self.starts[-1]
        self.topic = self._code(names.topics, focus.topic)
        self.is_seen = self._seen(focus)

    @cached_property
    def topics(self) -> TopicColumns:
        """Topics of selected exchanges; with a topic in focus, only that one."""
        topics = self.seen(self._all_topics)
        return picked(topics, topics.topic == self.topic) if self.focus.topic else topics

    @cached_property
    def _all_topics(self) -> TopicColumns:
        return self._rows([each.topics for each in self.buckets], NO_TOPICS)

    def first_topic(self, row: int) -> str:
        """The first topic of an exchange, "" if it has none."""
        piece = bisect_right(self.starts, row) - 1
        topics = self.buckets[piece].topics
        there = np.flatnonzero(topics.row == row - self.starts[piece])
        return self.names.topics.texts[topics.topic[there[0]]] if len(there) else ""

    @staticmethod
    def _code(names: KnownNames, text: str) -> int:
        if not text:
            return -1
        found = names.find(text)
        return NO_CODE if found < 0 else found

    def _seen(self, focus: Focus) -> Flags | None:
        if focus == EVERYTHING:
            return None
        seen = np.ones(self.count, bool)
        if focus.api:
            seen &= self.whole("api") == self._code(self.names.apis, focus.api)
        if focus.client:
            seen &= self.whole("client") == self._code(self.names.clients, focus.client)
        if focus.topic:
            names_it = np.zeros(self.count, bool)
            topics = self._all_topics
            names_it[topics.row[topics.topic == self.topic]] = True
            seen &= names_it
        return seen

    def whole(self, name: str) -> np.ndarray[Any, Any]:
        """A column of all exchanges, independent of the focus."""
        if name not in self._made:
            parts = [getattr(each.exchanges, name) for each in self.buckets or NOTHING]
            self._made[name] = np.concatenate(parts, dtype=WIDE.get(parts[0].dtype))
        return self._made[name]

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """A column of the selected exchanges."""
        if self.is_seen is None:
            return self.whole(name)
        if name not in self._seen_columns:
            self._seen_columns[name] = self.whole(name)[self.rows]
        return self._seen_columns[name]

    @cached_property
    def rows(self) -> Ints:
        """Indices of the selected exchanges."""
        return np.arange(self.count) if self.is_seen is None else np.flatnonzero(self.is_seen)

    def at(self, name: str, rows: Ints) -> list[Any]:
        """Values of a column at a few indices."""
        found = []
        for row in rows.tolist():
            piece = bisect_right(self.starts, row) - 1
            column = getattr(self.buckets[piece].exchanges, name)
            found.append(column[row - self.starts[piece]].item())
        return found

    def seen(self, columns: Rows) -> Rows:
        """Rows whose exchange is selected."""
        if self.is_seen is None:
            return columns
        return picked(columns, np.flatnonzero(self.is_seen[columns.row]))

    def tcp_events(self) -> TcpEventColumns:
        return self.seen(self._rows([each.tcp_events for each in self.buckets], NO_TCP_EVENTS))

    def errors(self) -> ErrorColumns:
        return self.seen(self._rows([each.errors for each in self.buckets], NO_ERRORS))

    def members(self) -> MemberColumns:
        return self.seen(self._rows([each.members for each in self.buckets], NO_MEMBERS))

    def connections(self) -> ConnectionColumns:
        parts = [NO_CONNECTIONS, *(each.connections for each in self.buckets)]
        return ConnectionColumns(*(np.concatenate(c) for c in zip(*parts, strict=True)))

    def _rows(self, parts: list[Rows], nothing: Rows) -> Rows:
        """Rows of all time buckets, with the indices of their exchanges among all."""
        if not parts:
            return nothing
        moved = [part.row + start for part, start in zip(parts, self.starts, strict=False)]
        made = type(nothing)._make(np.concatenate(column) for column in zip(*parts, strict=True))
        return made._replace(row=np.concatenate(moved))
