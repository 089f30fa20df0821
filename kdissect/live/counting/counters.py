"""Monotonic counters since the start, by API, client, topic and error.

Cardinality is bounded: APIs and errors are those of Kafka and a few more, of clients and topics as
many as their limit have a name, see `label_names`. Arrays are preallocated for the maximum, so
counting is an indexed addition and reading is a copy.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.exchanges.exchange import OUTCOMES
from kdissect.live.counting.columns import NONE, OTHER
from kdissect.live.counting.label_names import LabelNames
from kdissect.live.counting.latency_groups import PRODUCES
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
    """Histograms by API: counts per bucket, not cumulative, and the sum in seconds."""

    counts: Counts
    sums: Counts

    def add(self, apis: Counts, durations_ns: Counts) -> None:
        bucket = np.searchsorted(BOUNDS_NS, durations_ns, side="left")
        np.add.at(self.counts, (apis, bucket), 1)
        np.add.at(self.sums, apis, durations_ns / 1e9)


class Totals(NamedTuple):
    """All counts, as arrays indexed by label code; `outcomes` is of all exchanges."""

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
    groups: GroupCounts
    latency: Durations
    queue: Durations
    service: Durations
    work: Durations


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
            GroupCounts(
                zeros(groups, EVENTS + 2), zeros(groups), np.full(groups, UNKNOWN, np.int64)
            ),
            *(Durations(zeros(apis, len(BOUNDS_NS) + 1), np.zeros(apis)) for _ in range(4)),
        )

    def add(self, rows: TimeBucket) -> None:
        """Count the rows of a time bucket, whose codes are of `names`."""
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
        is_produced = np.array([name in PRODUCES for name in self.names.apis.texts])
        fetched = np.where(is_produced[api[topics.row]], 0, 1)
        np.add.at(totals.topic_bytes, (topics.topic, fetched), topics.bytes)
        np.add.at(totals.topic_records, (topics.topic, fetched), topics.records)
        np.add.at(totals.throttle_ms, client, exchanges.throttle_ms.astype(np.int64))
        np.add.at(totals.throttled, client[exchanges.throttle_ms > 0], 1)
        totals.groups.add(rows.members)
        self._add_durations(rows)

    def _reused(self) -> tuple[LabelNames, ...]:
        """Names whose codes may stand for others after a while."""
        return self.names.clients, self.names.topics, self.names.groups

    def _release(self) -> None:
        """Set the counts of names to 0 whose codes now stand for others."""
        totals, clients, topics = self.totals, self.names.clients, self.names.topics
        totals.exchanges[:, clients.released] = 0
        totals.message_bytes[:, clients.released] = 0
        for counts in (totals.client_errors, totals.throttle_ms, totals.throttled):
            counts[clients.released] = 0
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


def zeros(*shape: int) -> Counts:
    return np.zeros(shape, np.int64)
