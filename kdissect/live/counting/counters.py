"""Monotonic counters since the start, by API, client, topic and error.

Cardinality is bounded: APIs and errors are those of Kafka and a few more, of clients and topics as
many as their limit have a name, see `label_names`. Arrays are preallocated for the maximum, so
counting is an indexed addition and reading is a copy.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.exchanges.exchange import OUTCOMES
from kdissect.live.counting import native_histograms
from kdissect.live.counting.columns import NONE, OTHER
from kdissect.live.counting.label_names import LabelNames
from kdissect.live.counting.latency_groups import FETCHES, PRODUCES
from kdissect.live.counting.time_buckets import MemberColumns, TimeBucket, Vocabulary
from kdissect.messages.old_protocols import OLD_APIS
from kdissect.protocol.apis import APIS
from kdissect.protocol.readers import NULL

# Kafka 4.3 has 134 error codes.
ERRORS: Final = 200
EVENTS: Final = 16  # kinds of rows of `members`: there are eight
UNKNOWN: Final = -1  # generation
# Upper bounds in ns; larger values have a bucket too.
BOUNDS_NS: Final = np.array(
    [
        100_000, 250_000, 500_000,
        1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000,
        100_000_000, 250_000_000, 500_000_000,
        1_000_000_000, 2_500_000_000, 5_000_000_000, 10_000_000_000, 30_000_000_000, 60_000_000_000,
    ]
)  # fmt: skip
# Of clients and topics, of which there are many.
FEW_BOUNDS_NS: Final = BOUNDS_NS[[3, 5, 7, 9, 11, 12, 14, 16]]
DIRECTIONS: Final = ("to_broker", "to_client")
TOPIC_DIRECTIONS: Final = ("produced", "fetched")

Counts = np.ndarray[Any, Any]


def api_names() -> LabelNames:
    """Names of all APIs; there is no room for more."""
    known = dict.fromkeys(api.name for api in APIS.values())
    known |= dict.fromkeys(api.name for apis in OLD_APIS.values() for api in apis.values())
    names = LabelNames(len(known))
    for name in known:
        names.code(name)
    return names


class GroupCounts(NamedTuple):
    """Counts by group: `events` of members by kind, `changes` of the generation, the highest one.

    Members of the newer groups reach an epoch one after the other, so a lower one is no change.
    """

    events: Counts
    changes: Counts
    generation: Counts

    def add(self, rows: MemberColumns) -> None:
        """Add rows, in the order of the responses."""
        named = rows.group != NONE
        np.add.at(self.events, (rows.group[named], rows.event[named]), 1)
        # Groups that share a label have no generation; nor does an error tell that of the group.
        known = named & (rows.group != OTHER) & (rows.generation >= 0) & (rows.error == NONE)
        columns = rows.group[known], rows.generation[known]
        for group, generation in zip(*(column.tolist() for column in columns), strict=True):
            before = int(self.generation[group])
            if generation > before:
                self.generation[group] = generation
                self.changes[group] += before != UNKNOWN

    def release(self, groups: list[int]) -> None:
        """Forget groups."""
        self.events[groups] = self.changes[groups] = 0
        self.generation[groups] = UNKNOWN


class Durations(NamedTuple):
    """Histograms by key: counts per bucket, not cumulative, and the sum in seconds.

    `native` are those of `native_histograms`; None without.
    """

    counts: Counts
    sums: Counts
    bounds_ns: Counts
    native: Counts | None = None

    def add(self, keys: Counts, durations_ns: Counts) -> None:
        bucket = np.searchsorted(self.bounds_ns, durations_ns, side="left")
        # In one dimension it takes a fraction of the time.
        np.add.at(self.counts.reshape(-1), keys * self.counts.shape[1] + bucket, 1)
        np.add.at(self.sums, keys, durations_ns / 1e9)
        if self.native is not None:
            places = keys * native_histograms.COUNT + native_histograms.places_of(durations_ns)
            np.add.at(self.native.reshape(-1), places, 1)

    def release(self, keys: Sequence[int]) -> None:
        """Forget keys."""
        self.counts[keys] = 0
        self.sums[keys] = 0
        if self.native is not None:
            self.native[keys] = 0


class ClientSegments(NamedTuple):
    """Segments of a side on the connections of a client, since the last tick."""

    client: str
    side: int
    retransmitted: int
    zero_windows: int


class Totals(NamedTuple):
    """All counts, as arrays indexed by label code; `outcomes` is of all exchanges.

    `topic_latency` is indexed by `topic_key`.
    """

    outcomes: Counts
    exchanges: Counts
    message_bytes: Counts
    errors: Counts
    client_errors: Counts
    topic_errors: Counts
    topic_bytes: Counts
    topic_records: Counts
    throttle_ms: Counts
    throttled: Counts
    retransmitted: Counts
    zero_windows: Counts
    groups: GroupCounts
    latency: Durations
    queue: Durations
    service: Durations
    work: Durations
    client_latency: Durations
    topic_latency: Durations


class Counters:
    """Totals, and the names of their indices."""

    def __init__(self, labels: int) -> None:
        self.names: Vocabulary[LabelNames] = Vocabulary(
            api_names(),
            LabelNames(labels),
            LabelNames(labels),
            LabelNames(ERRORS),
            LabelNames(labels),
            LabelNames(0),
            LabelNames(EVENTS),
            LabelNames(0),
        )
        apis, clients, topics, errors, groups = (names.limit + 2 for names in self.names[:5])
        self.totals = Totals(
            zeros(len(OUTCOMES)),
            zeros(apis, clients, len(OUTCOMES)),
            zeros(apis, clients, 2),
            zeros(apis, errors),
            zeros(clients, errors),
            zeros(topics, errors),
            zeros(topics, 2),
            zeros(topics, 2),
            zeros(clients),
            zeros(clients),
            zeros(clients, 2),
            zeros(clients, 2),
            GroupCounts(
                zeros(groups, EVENTS + 2), zeros(groups), np.full(groups, UNKNOWN, np.int64)
            ),
            durations(apis, BOUNDS_NS),
            durations(apis, BOUNDS_NS),
            durations(apis, BOUNDS_NS),
            durations(apis, BOUNDS_NS),
            durations(clients, FEW_BOUNDS_NS, has_native=True),
            durations(topics * len(TOPIC_DIRECTIONS), FEW_BOUNDS_NS, has_native=True),
        )

    def add(self, rows: TimeBucket, segments: Iterable[ClientSegments] = ()) -> None:
        """Count the rows of a time bucket, whose codes are of `names`, and segments."""
        clients = [(self.names.clients.code(one.client), one) for one in segments]
        self._release()
        for names in self._reused():
            names.tick(rows.end_ns)
        totals = self.totals
        exchanges, errors, topics = rows.exchanges, rows.errors, rows.topics
        api, client = exchanges.api, exchanges.client
        np.add.at(totals.outcomes, exchanges.outcome, 1)
        np.add.at(totals.exchanges, (api, client, exchanges.outcome), 1)
        sizes = exchanges.request_size.astype(np.int64), exchanges.response_size.astype(np.int64)
        for direction, size in enumerate(sizes):
            np.add.at(totals.message_bytes[:, :, direction], (api, client), size)
        np.add.at(totals.errors, (api[errors.row], errors.error), 1)
        np.add.at(totals.client_errors, (client[errors.row], errors.error), 1)
        of_topic = errors.topic != NONE
        np.add.at(totals.topic_errors, (errors.topic[of_topic], errors.error[of_topic]), 1)
        fetched = np.where(self._is_one_of(PRODUCES)[api[topics.row]], 0, 1)
        np.add.at(totals.topic_bytes, (topics.topic, fetched), topics.bytes)
        np.add.at(totals.topic_records, (topics.topic, fetched), topics.records)
        np.add.at(totals.throttle_ms, client, exchanges.throttle_ms.astype(np.int64))
        np.add.at(totals.throttled, client[exchanges.throttle_ms > 0], 1)
        for client_code, one in clients:
            totals.retransmitted[client_code, one.side] += one.retransmitted
            totals.zero_windows[client_code, one.side] += one.zero_windows
        totals.groups.add(rows.members)
        self._add_durations(rows)
        self._add_own_latencies(rows)

    def _is_one_of(self, apis: frozenset[str]) -> Counts:
        """Per code of an API, whether it is one of these."""
        return np.array([name in apis for name in self.names.apis.texts])

    def _reused(self) -> tuple[LabelNames, ...]:
        """Names whose codes may stand for others after a while."""
        return self.names.clients, self.names.topics, self.names.groups

    def _release(self) -> None:
        """Set the counts of names to 0 whose codes now stand for others."""
        totals, clients, topics = self.totals, self.names.clients, self.names.topics
        totals.exchanges[:, clients.released] = 0
        totals.message_bytes[:, clients.released] = 0
        for counts in (totals.client_errors, totals.throttle_ms, totals.throttled,
                       totals.retransmitted, totals.zero_windows):  # fmt: skip
            counts[clients.released] = 0
        totals.client_latency.release(clients.released)
        for way in range(len(TOPIC_DIRECTIONS)):
            totals.topic_latency.release([topic_key(code, way) for code in topics.released])
        for counts in (totals.topic_errors, totals.topic_bytes, totals.topic_records):
            counts[topics.released] = 0
        totals.groups.release(self.names.groups.released)
        for names in self._reused():
            names.released.clear()

    def _add_durations(self, rows: TimeBucket) -> None:
        exchanges, totals = rows.exchanges, self.totals
        answered = exchanges.latency != NULL
        api, latency = exchanges.api[answered], exchanges.latency[answered]
        queue, wait = exchanges.queue[answered], exchanges.wait[answered]
        totals.latency.add(api, latency)
        known = queue != NULL
        totals.queue.add(api[known], queue[known])
        totals.service.add(api[known], (latency - queue)[known])
        known &= wait != NULL
        totals.work.add(api[known], np.maximum(latency - queue - wait, 0)[known])

    def _add_own_latencies(self, rows: TimeBucket) -> None:
        """Latencies without long polls, by client and by topic."""
        exchanges, topics, totals = rows.exchanges, rows.topics, self.totals
        known = (exchanges.latency != NULL) & (exchanges.wait != NULL)
        own = np.maximum(exchanges.latency - exchanges.wait, 0)
        totals.client_latency.add(exchanges.client[known], own[known])
        for way, apis in enumerate((PRODUCES, FETCHES)):
            moves = self._is_one_of(apis)[exchanges.api[topics.row]]
            there = known[topics.row] & moves & (topics.topic != NONE)
            keys = topic_key(topics.topic[there], way)
            totals.topic_latency.add(keys, own[topics.row[there]])


def topic_key(code: Any, way: int) -> Any:
    """Index of a topic, or of several, and a direction."""
    return code * len(TOPIC_DIRECTIONS) + way


def durations(keys: int, bounds_ns: Counts, has_native: bool = False) -> Durations:
    """Histograms without any values."""
    native = np.zeros((keys, native_histograms.COUNT), np.uint32) if has_native else None
    return Durations(zeros(keys, len(bounds_ns) + 1), np.zeros(keys), bounds_ns, native)


def zeros(*shape: int) -> Counts:
    return np.zeros(shape, np.int64)
