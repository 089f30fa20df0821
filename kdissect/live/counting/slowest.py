"""The slowest exchanges of the window, by latency without the wait they asked for."""

from typing import Final, NamedTuple

import numpy as np

from kdissect.live.counting.addresses import Addresses
from kdissect.live.counting.latency_groups import highest
from kdissect.live.counting.merged_buckets import MergedBuckets
from kdissect.live.counting.snapshot import Slow
from kdissect.protocol.readers import NULL
from kdissect.tables.matrices import Ints

LISTED: Final = 50
COLUMNS: Final = (
    "exchange_id", "time", "api", "client", "latency", "queue", "wait", "request_size",
    "response_size", "error", "connection_id",
)  # fmt: skip


class Candidates(NamedTuple):
    """Exchanges by index, and their latency without the requested wait, in ns."""

    row: Ints
    own: Ints


def candidates(merged: MergedBuckets) -> Candidates:
    """Exchanges with the longest latency, less the wait of a long poll.

    Exchanges whose wait is unknown are excluded.
    """
    # NULL is far below 0: a missing latency stays negative.
    wait = merged.column("wait")
    own = np.where(wait == NULL, -1, merged.column("latency") - wait)
    some = highest(own, LISTED)
    some = some[own[some] >= 0]
    return Candidates(merged.rows[some], own[some])


def slowest(merged: MergedBuckets, found: Candidates, addresses: Addresses) -> tuple[Slow, ...]:
    """The slowest of the candidates, the longest first."""
    some = highest(found.own, LISTED)
    rows = found.row[some[np.argsort(-found.own[some], kind="stable")]]
    topics = [merged.focus.topic or merged.first_topic(row) for row in rows.tolist()]
    names = merged.names
    values = zip(*(merged.at(name, rows) for name in COLUMNS), topics, strict=True)
    return tuple(
        Slow(
            exchange_id,
            time,
            names.apis.texts[api],
            names.clients.texts[client],
            topic,
            latency_ns,
            max(queue, 0),
            waited,
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
