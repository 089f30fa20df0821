"""`Meters`: figures of the last seconds, as shown by `kdissect top`.

Rows are kept as columns and counted on demand: by group-bys over arrays, never by loops over rows.
Each second is counted once, and added up for each snapshot; with a focus all is counted again. The
window is by arrival of rows, in whole ticks: an unanswered request becomes a row when its
connection ends.
"""

import threading
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from kdissect.capture.packet import SECOND_NS
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.live.counting.addresses import Addresses
from kdissect.live.counting.bucket_builder import TABLES, Gathering
from kdissect.live.counting.connection_rates import connection_rates
from kdissect.live.counting.consumer_groups import grouping
from kdissect.live.counting.degraded_connections import degraded, is_late
from kdissect.live.counting.error_groups import failing
from kdissect.live.counting.lag import OffsetCounts
from kdissect.live.counting.latency_groups import timed, whole_of
from kdissect.live.counting.mergeable import MergeableSnapshot, named
from kdissect.live.counting.merged_buckets import EVERYTHING, MergedBuckets
from kdissect.live.counting.partial_aggregates import PartialAggregates
from kdissect.live.counting.partition_lags import (
    EndRates,
    OffsetState,
    partition_lags,
    with_lags,
)
from kdissect.live.counting.problem_messages import ProblemMessages
from kdissect.live.counting.slowest import slowest
from kdissect.live.counting.snapshot import Focus, Snapshot, scaled
from kdissect.live.counting.time_buckets import Vocabulary
from kdissect.live.counting.waiting import Waiting
from kdissect.live.counting.window import Window
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.pipeline import Balance
from kdissect.sources.packet_source import Counts

NOTHING: Final = Balance(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {}, {}, {})
BEFORE: Final = Status(0, NOTHING, Counts(), 0.0, 0)


class Meters(Listener):
    """Keeps the rows of the last `window_s` seconds, at most `kept_rows` of a kind.

    A row takes about 130 bytes, with its topics. `snapshot` may be called from any thread at any
    time; all other methods belong to the watcher's thread.
    """

    tables = TABLES | {"problems"}

    def __init__(self, window_s: float = 60, kept_rows: int = 300_000) -> None:
        self._window = Window(round(window_s * SECOND_NS), kept_rows)
        self._gathering = Gathering(self._window.names)
        self._states: Mapping[int, ConnectionState] = {}
        self._waiting = Waiting({}, {})
        self._status = BEFORE
        self._folds = PartialAggregates()
        self._offsets = OffsetCounts()
        self._end_rates = EndRates()
        self._offset_state = OffsetState()
        self._messages = ProblemMessages()
        self._last_messages = self._messages.now()
        # One in so many connections is captured: snapshots are scaled by that.
        self.share = 1
        self._lock = threading.Lock()
        self._taken = self._snapshot(EVERYTHING)

    def begin(self, watcher: LiveCapture) -> None:
        self._states = watcher.dissector.exchanges.states
        self._waiting = Waiting(self._states, watcher.names)

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        if table == "problems":
            self._messages.take(batch)
            return
        self._gathering.take(table, batch)
        self._offsets.take(table, batch)

    def tick(self, status: Status) -> None:
        self._waiting.look(status.now_ns)
        self._close_bucket(status)

    def finish(self, status: Status) -> None:
        self.tick(status)

    def set_window(self, window_s: float) -> None:
        """Set the length of the window; may be called from any thread."""
        self._window.window_ns = round(window_s * SECOND_NS)

    def snapshot(self, focus: Focus = EVERYTHING) -> Snapshot:
        """Figures up to the last tick; with a focus, of the selected exchanges only.

        With a topic, the lists of topics and errors are also restricted to it.
        """
        taken = self._taken
        if taken.status is self._status and taken.focus == focus:
            # Nothing changes between two ticks.
            return taken
        taken = scaled(self._snapshot(focus), self.share)
        self._taken = taken
        return taken

    def mergeable(self, focus: Focus = EVERYTHING) -> MergeableSnapshot:
        """Figures up to the last tick, to be merged with those of other workers."""
        with self._lock:
            buckets = self._window.buckets
            names = Vocabulary(*(each.now() for each in self._window.names))
        fold = self._folds.of(MergedBuckets(buckets, names, focus))
        return MergeableSnapshot(
            self.snapshot(focus),
            named(fold.apis, names.apis),
            named(fold.clients, names.clients),
            named(fold.topics, names.topics),
            self._offset_state,
        )

    def _snapshot(self, focus: Focus) -> Snapshot:
        with self._lock:
            buckets = self._window.buckets
            names = Vocabulary(*(each.now() for each in self._window.names))
            status, is_sampled = self._status, self._window.is_sampled
            seconds = self._window.seconds
            offsets, messages = self._offset_state, self._last_messages
        merged = MergedBuckets(buckets, names, focus)
        fold = self._folds.of(merged)
        addresses = Addresses(self._states, merged.connections(), names.addresses)
        waiting, now = self._waiting, status.now_ns
        problems = sorted(status.problems.items(), key=lambda item: -item[1])
        groups = grouping(merged, waiting.late, now)
        is_focused = bool(focus.api or focus.client)
        rates, connections_seen = connection_rates(merged, self._states, addresses, seconds)
        return Snapshot(
            status,
            focus,
            seconds,
            is_sampled,
            whole_of(fold.apis, seconds),
            sum(each.packets for each in buckets) / seconds,
            timed(fold.apis, names.apis.texts, seconds),
            timed(fold.clients, names.clients.texts, seconds),
            timed(fold.topics, names.topics.texts, seconds),
            failing(merged, seconds),
            degraded(merged, waiting, addresses, focus, now),
            with_lags(groups, offsets.positions, is_alone=focus != EVERYTHING),
            slowest(merged, fold.slowest, addresses),
            tuple(problems),
            waiting.count,
            sum(is_late(one, focus, now) for one in waiting.late.values()),
            len(fold.clients.key),
            len(fold.topics.key),
            partitions=() if is_focused else partition_lags(offsets, focus.topic),
            connection_rates=rates,
            connections_seen=connections_seen,
            problem_messages=messages,
        )

    def _close_bucket(self, status: Status) -> None:
        buckets = self._window.buckets
        # Rows after a long silence came at its end.
        begin = -1
        if buckets and buckets[-1].end_ns <= status.now_ns:
            begin = max(buckets[-1].end_ns, status.now_ns - self._window.window_ns)
        packets = status.balance.packets - self._status.balance.packets
        made = self._gathering.take_bucket(begin, status.now_ns, packets)
        self._waiting.grace.add(made.exchanges, self._gathering.names.apis)
        self._offsets.take_groups()
        positions = self._offsets.tick(status.now_ns)
        offset_state = OffsetState(positions, self._end_rates.of(positions, status.now_ns))
        with self._lock:
            self._window.add(made)
            if self._window.forget_names():
                self._gathering.names = self._window.names
            self._offset_state = offset_state
            self._last_messages = self._messages.now()
            self._status = status
