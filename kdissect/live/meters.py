"""`Meters`: what came in the last seconds, in figures; it is what `kdissect top` shows.

Rows are kept as columns and counted when somebody looks: group-bys over arrays, never a loop over
rows. A window is of when rows came, in whole ticks: an unanswered request is known when its
connection ends.
"""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kdissect.exchanges.memory import ConnectionState
from kdissect.live.addresses import Addresses
from kdissect.live.columns import Codes
from kdissect.live.failing import failing
from kdissect.live.gathering import TABLES, Gathering
from kdissect.live.grouping import grouping
from kdissect.live.joined import EVERYTHING, Joined
from kdissect.live.listener import Listener, Standing
from kdissect.live.slices import Vocabulary
from kdissect.live.slowest import slowest
from kdissect.live.snapshot import Focus, Snapshot
from kdissect.live.timed import Exchanges
from kdissect.live.troubled import is_late, troubled
from kdissect.live.waiting import Waiting
from kdissect.live.window import SECOND_NS, Window
from kdissect.pipeline import Balance
from kdissect.tables.matrices import Ints
from kdissect.wire.wire import Counts

if TYPE_CHECKING:
    from kdissect.live.watcher import Watcher

NOTHING: Final = Balance(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {}, {}, {})
BEFORE: Final = Standing(0, NOTHING, Counts(), 0.0, 0)


class Meters(Listener):
    """Keeps the rows of the last `window_s` seconds, at most `kept_rows` of a kind.

    A row takes about 100 bytes, with its topics and errors. `snapshot` may be called from any
    thread at any time; all else is the watcher's.
    """

    tables = TABLES

    def __init__(self, window_s: float = 60, kept_rows: int = 300_000) -> None:
        self._window = Window(round(window_s * SECOND_NS), kept_rows)
        self._gathering = Gathering(self._window.names)
        self._states: Mapping[int, ConnectionState] = {}
        self._waiting = Waiting({}, {})
        self._standing = BEFORE
        self._lock = threading.Lock()

    def begin(self, watcher: "Watcher") -> None:
        self._states = watcher.dissector.exchanges.states
        self._waiting = Waiting(self._states, watcher.names)

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        self._gathering.take(table, batch)

    def tick(self, standing: Standing) -> None:
        self._waiting.look(standing.now_ns)
        self._close_slice(standing)

    def finish(self, standing: Standing) -> None:
        self.tick(standing)

    def set_window(self, window_s: float) -> None:
        """Keep rows for so long from now on; may be called from any thread."""
        self._window.window_ns = round(window_s * SECOND_NS)

    def snapshot(self, focus: Focus = EVERYTHING) -> Snapshot:
        """What there was until the last tick; with a focus, of those exchanges alone.

        With a topic, also the lists of topics and errors have that one only.
        """
        with self._lock:
            slices = self._window.slices
            names = Vocabulary(*(each.now() for each in self._window.names))
            standing, is_sampled = self._standing, self._window.is_sampled
            seconds = self._window.seconds
        joined = Joined(slices, names, focus)
        exchanges = Exchanges(joined, seconds)
        addresses = Addresses(self._states, joined.connections(), names.addresses)
        waiting, now = self._waiting, standing.now_ns
        clients = joined.column("client")
        problems = sorted(standing.balance.problems.items(), key=lambda item: -item[1])
        return Snapshot(
            standing,
            focus,
            seconds,
            is_sampled,
            exchanges.whole(),
            sum(each.packets for each in slices) / seconds,
            exchanges.by(joined.column("api"), names.apis.texts),
            exchanges.by(clients, names.clients.texts),
            exchanges.by_topic(),
            failing(joined, seconds),
            troubled(joined, waiting, addresses, focus, now),
            grouping(joined, waiting.late, now),
            slowest(joined, addresses),
            tuple(problems),
            waiting.count,
            sum(is_late(one, focus, now) for one in waiting.late.values()),
            different(clients),
            different(joined.topics.topic),
        )

    def _close_slice(self, standing: Standing) -> None:
        slices = self._window.slices
        # What came after a long silence came at its end.
        begin = -1
        if slices and slices[-1].end_ns <= standing.now_ns:
            begin = max(slices[-1].end_ns, standing.now_ns - self._window.window_ns)
        packets = standing.balance.packets - self._standing.balance.packets
        made = self._gathering.take_slice(begin, standing.now_ns, packets)
        with self._lock:
            self._window.add(made)
            if self._window.forget_names():
                self._gathering.names = self._window.names
            self._standing = standing


def different(codes: Ints | Codes) -> int:
    """How many different codes there are."""
    return int(np.count_nonzero(np.bincount(codes)))
