"""Time buckets of the last seconds, and the names in them; both are bounded."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from kdissect.capture.packet import SECOND_NS
from kdissect.live.counting.columns import NAMES_LIMIT, Codes, Names
from kdissect.live.counting.time_buckets import (
    ConnectionColumns,
    Rows,
    TimeBucket,
    Vocabulary,
    picked,
)

LEAST_NS: Final = 1_000_000
# Names are dropped when there are more than this, and twice those in use at the last time. If
# nearly all are in use that frees few: not again before this many ticks.
FIRST_NAMES: Final = 10_000
REST: Final = 10


class Window:
    """Rows within `window_ns` of the last time bucket, at most `kept_rows` of each kind.

    `buckets` and `names` are immutable, and replaced on change.
    """

    def __init__(self, window_ns: int, kept_rows: int) -> None:
        self.window_ns = window_ns
        self.kept_rows = kept_rows
        self.buckets: tuple[TimeBucket, ...] = ()
        self.names = new_names()
        self._names_limit = FIRST_NAMES
        self._rest = 0
        self._lost_ns = 0

    @property
    def is_sampled(self) -> bool:
        """Return whether rows were dropped, so that the window is shorter than requested."""
        return bool(self.buckets) and self._lost_ns > self.buckets[-1].end_ns - self.window_ns

    @property
    def seconds(self) -> float:
        """Duration of the time buckets; if complete, at least a second."""
        span = self.buckets[-1].end_ns - self.buckets[0].begin_ns if self.buckets else 0
        return max(span, LEAST_NS if self.is_sampled else SECOND_NS) / SECOND_NS

    def add(self, made: TimeBucket) -> None:
        """Add a time bucket; earlier ones that are too old, or exceed the limit, are dropped."""
        if self.buckets and made.end_ns < self.buckets[-1].end_ns:
            # The clock went back: a recording begins.
            self.buckets = ()
            self._lost_ns = 0
        buckets = [kept for kept in self.buckets if kept.end_ns > made.end_ns - self.window_ns]
        buckets.append(last_rows(made, self.kept_rows))
        if buckets[-1] is not made:
            self._lost_ns = made.end_ns
            del buckets[:-1]
        rows = sum(kept.size for kept in buckets)
        while rows > self.kept_rows and len(buckets) > 1:
            self._lost_ns = max(self._lost_ns, buckets[0].end_ns)
            rows -= buckets.pop(0).size
        self.buckets = tuple(buckets)

    def forget_names(self) -> bool:
        """Drop unused names; returns whether `names` and codes have changed."""
        self._rest -= 1
        if self._rest > 0 or self._most_names() <= self._names_limit:
            return False
        self._rest = REST
        columns = all_columns(self.buckets)
        kept, codes = [], []
        for names, used_by in zip(self.names, columns, strict=True):
            used = np.zeros(len(names), bool)
            for column in used_by:
                used[column] = True
            some, new = names.kept(used)
            kept.append(some)
            codes.append(new)
        self.names = Vocabulary(*kept)
        self.buckets = tuple(recoded(old, Vocabulary(*codes)) for old in self.buckets)
        self._names_limit = min(max(FIRST_NAMES, 2 * self._most_names()), NAMES_LIMIT)
        return True

    def _most_names(self) -> int:
        return max(len(names) for names in self.names)


def new_names() -> Vocabulary[Names]:
    return Vocabulary(*(Names() for _ in Vocabulary._fields))


def all_columns(buckets: Sequence[TimeBucket]) -> Vocabulary[list[Codes]]:
    """The columns that hold codes of each kind of names."""
    found = Vocabulary[list[Codes]](*([] for _ in Vocabulary._fields))
    for kept in buckets:
        found.apis.append(kept.exchanges.api)
        found.clients.append(kept.exchanges.client)
        found.topics.extend((kept.topics.topic, kept.errors.topic))
        found.errors.extend((kept.exchanges.error, kept.errors.error, kept.members.error))
        found.groups.append(kept.members.group)
        found.members.append(kept.members.member)
        found.events.append(kept.members.event)
        found.addresses.extend((kept.connections.client, kept.connections.broker))
    return found


def recoded(old: TimeBucket, new: Vocabulary[Codes]) -> TimeBucket:
    """The time bucket with other codes: `new` maps old codes to new ones."""
    exchanges, members, errors = old.exchanges, old.members, old.errors
    return old._replace(
        exchanges=exchanges._replace(
            api=new.apis[exchanges.api],
            client=new.clients[exchanges.client],
            error=new.errors[exchanges.error],
        ),
        topics=old.topics._replace(topic=new.topics[old.topics.topic]),
        errors=errors._replace(error=new.errors[errors.error], topic=new.topics[errors.topic]),
        members=members._replace(
            group=new.groups[members.group],
            member=new.members[members.member],
            event=new.events[members.event],
            error=new.errors[members.error],
        ),
        connections=old.connections._replace(
            client=new.addresses[old.connections.client],
            broker=new.addresses[old.connections.broker],
        ),
    )


def last_rows(made: TimeBucket, kept_rows: int) -> TimeBucket:
    """The time bucket without its first part, if it has more than `kept_rows` of a kind.

    Rows are taken as evenly distributed: the duration shrinks in proportion.
    """
    if made.size <= kept_rows:
        return made
    share = kept_rows / made.size
    first = round(len(made.exchanges.time) * (1 - share))
    return made._replace(
        begin_ns=made.end_ns - round((made.end_ns - made.begin_ns) * share),
        packets=round(made.packets * share),
        exchanges=picked(made.exchanges, np.arange(first, len(made.exchanges.time))),
        tcp_events=behind(made.tcp_events, first, kept_rows),
        topics=behind(made.topics, first, kept_rows),
        errors=behind(made.errors, first, kept_rows),
        members=behind(made.members, first, kept_rows),
        connections=last_of(made.connections, kept_rows),
    )


def last_of(columns: ConnectionColumns, kept_rows: int) -> ConnectionColumns:
    return type(columns)._make(column[-kept_rows:].copy() for column in columns)


def behind(columns: Rows, first: int, kept_rows: int) -> Rows:
    """Rows of exchanges from the `first` on, at most the last `kept_rows`."""
    kept = np.flatnonzero(columns.row >= first)[-kept_rows:]
    some = picked(columns, kept)
    return some._replace(row=some.row - first)
