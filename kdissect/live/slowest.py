"""The slowest exchanges of the window, by the time that they did not ask for."""

from typing import Final

import numpy as np

from kdissect.live.addresses import Addresses
from kdissect.live.joined import Joined
from kdissect.live.snapshot import Slow
from kdissect.tables.matrices import Ints

LISTED: Final = 50
COLUMNS: Final = (
    "exchange_id", "time", "api", "client", "latency", "queue", "wait", "request_size",
    "response_size", "error", "connection_id",
)  # fmt: skip


def slowest(joined: Joined, addresses: Addresses) -> tuple[Slow, ...]:
    """The exchanges with the longest latency, less what a long poll waits by itself."""
    # NULL is far below 0: without latency it stays there.
    own = joined.column("latency") - np.maximum(joined.column("wait"), 0)
    some = np.argpartition(own, -LISTED)[-LISTED:] if len(own) > LISTED else np.arange(len(own))
    some = some[own[some] >= 0]
    some = some[np.argsort(-own[some], kind="stable")]
    rows = joined.rows()[some]
    topics = first_topics(joined, rows)
    names = joined.names
    values = zip(*(joined.at(name, rows) for name in COLUMNS), topics, strict=True)
    return tuple(
        Slow(
            exchange_id,
            time,
            names.apis.texts[api],
            names.clients.texts[client],
            topic,
            latency_ns,
            queue,
            max(waited, 0),
            request_size,
            response_size,
            names.errors.texts[error],
            addresses.of(connection)[0],
        )
        for (
            exchange_id, time, api, client, latency_ns, queue, waited, request_size,
            response_size, error, connection, topic,
        ) in values
    )  # fmt: skip


def first_topics(joined: Joined, rows: Ints) -> list[str]:
    """The first topic of each of a few exchanges; "" of those that name none."""
    topics = joined.topics
    is_wanted = np.zeros(joined.count, bool)
    is_wanted[rows] = True
    there = np.flatnonzero(is_wanted[topics.row])
    first = dict(
        zip(topics.row[there][::-1].tolist(), topics.topic[there][::-1].tolist(), strict=True)
    )
    return [joined.names.topics.texts[first.get(row, 0)] for row in rows.tolist()]
