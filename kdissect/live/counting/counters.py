"""Monotonic counters since the start, by API, client, topic and error.

Cardinality is bounded: APIs and errors are those of Kafka and a few more, of clients and topics the
first ones up to a limit have a name. Arrays are preallocated for the maximum, so counting is an
indexed addition and reading is a copy.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.exchanges.exchange import OUTCOMES
from kdissect.live.counting.columns import NAME_SIZE, NONE, Names
from kdissect.live.counting.latency_groups import PRODUCES
from kdissect.live.counting.time_buckets import TimeBucket, Vocabulary
from kdissect.messages.old_protocols import OLD_APIS
from kdissect.protocol.apis import APIS
from kdissect.protocol.readers import NULL
from kdissect.text.escape import escaped_within

OTHER_LABEL: Final = "other"
NO_LABEL: Final = "none"
# Kafka 4.3 has 134 error codes of its own.
ERRORS: Final = 200
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


class LabelNames(Names):
    """Names as label values: escaped, and no longer than NAME_SIZE.

    Texts with the same label value have the same code, so no series occurs twice.
    """

    def code(self, text: str) -> int:
        known = self._codes.get(text)
        return super().code(label_value(text)) if known is None else known


def label_value(text: str) -> str:
    r"""Escape a text for display in a dashboard or shell.

    >>> label_value("a\u202eb")
    'a\\u202eb'
    """
    return escaped_within(text, NAME_SIZE)


def label_names(limit: int) -> Names:
    return LabelNames(limit, OTHER_LABEL, NO_LABEL)


def api_names() -> Names:
    """Names of all APIs; there is no room for more."""
    known = dict.fromkeys(api.name for api in APIS.values())
    known |= dict.fromkeys(api.name for apis in OLD_APIS.values() for api in apis.values())
    names = label_names(len(known))
    for name in known:
        names.code(name)
    return names


class Durations(NamedTuple):
    """Histograms by API: counts per bucket, not cumulative, and the sum in seconds."""

    counts: Counts
    sums: Counts

    def add(self, apis: Counts, durations_ns: Counts) -> None:
        bucket = np.searchsorted(BOUNDS_NS, durations_ns, side="left")
        np.add.at(self.counts, (apis, bucket), 1)
        np.add.at(self.sums, apis, durations_ns / 1e9)


class Totals(NamedTuple):
    """All counts, as arrays indexed by label code."""

    exchanges: Counts
    message_bytes: Counts
    errors: Counts
    client_errors: Counts
    topic_errors: Counts
    topic_bytes: Counts
    topic_records: Counts
    latency: Durations
    queue: Durations
    service: Durations
    work: Durations


class Counters:
    """Totals, and the names of their indices."""

    def __init__(self, labels: int) -> None:
        self.names = Vocabulary(
            api_names(),
            label_names(labels),
            label_names(labels),
            label_names(ERRORS),
            *(label_names(0) for _ in range(4)),
        )
        apis, clients, topics, errors = (names.limit + 2 for names in self.names[:4])
        self.totals = Totals(
            zeros(apis, clients, len(OUTCOMES)),
            zeros(apis, clients, 2),
            zeros(apis, errors),
            zeros(clients, errors),
            zeros(topics, errors),
            zeros(topics, 2),
            zeros(topics, 2),
            *(Durations(zeros(apis, len(BOUNDS_NS) + 1), np.zeros(apis)) for _ in range(4)),
        )

    def add(self, rows: TimeBucket) -> None:
        """Count the rows of a time bucket, whose codes are of `names`."""
        totals = self.totals
        exchanges, errors, topics = rows.exchanges, rows.errors, rows.topics
        api, client = exchanges.api, exchanges.client
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
        self._add_durations(rows)

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
