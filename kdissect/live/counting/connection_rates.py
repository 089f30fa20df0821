"""All connections: those with exchanges in the window, the most first, then idle open ones."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

import numpy as np

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.live.counting.addresses import Addresses
from kdissect.live.counting.merged_buckets import EVERYTHING, MergedBuckets
from kdissect.live.counting.snapshot import LISTED, ConnectionRate
from kdissect.protocol.readers import NULL
from kdissect.tables.matrices import Ints

# Values per row, on average, that are not worth sorting.
SPARSE: Final = 4


def connection_rates(
    merged: MergedBuckets,
    states: Mapping[int, ConnectionState],
    addresses: Addresses,
    seconds: float,
) -> tuple[tuple[ConnectionRate, ...], int]:
    """The first by exchanges and by bytes, and how many connections there are in all."""
    found, seen = with_exchanges(merged, seconds)
    if merged.focus == EVERYTHING and len(found) < LISTED:
        known = {one.connection_id for one in found}
        idle = [number for number in islice(states, 2 * LISTED) if number not in known]
        found += [
            ConnectionRate(number, client_of(states.get(number)), "", "", 0.0, 0.0, 0.0, 0.0, -1, 0)
            for number in idle[: LISTED - len(found)]
        ]
    number = seen if merged.focus != EVERYTHING else max(seen, len(states))
    return tuple(placed(one, addresses) for one in found), number


def with_exchanges(merged: MergedBuckets, seconds: float) -> tuple[list[ConnectionRate], int]:
    ids, which = numbered(merged.column("connection_id"))
    counts = np.bincount(which, minlength=len(ids))
    if not counts.any():
        return [], 0
    sent, received, failed = (
        np.bincount(which, merged.column(name), len(ids)) / seconds
        for name in ("request_size", "response_size", "has_error")
    )
    longest = np.full(len(ids), -1, np.int64)
    latency = merged.column("latency")
    np.maximum.at(longest, which, np.where(latency == NULL, -1, latency))
    times = np.zeros(len(ids), np.int64)
    np.maximum.at(times, which, merged.column("time"))
    last = np.zeros(len(ids), np.int64)
    last[which] = merged.column("client")
    orders = [np.argsort(-measure, kind="stable") for measure in (counts, sent + received)]
    first = np.concatenate([one[:LISTED] for one in orders])
    chosen = list(dict.fromkeys(first[counts[first] > 0].tolist()))
    texts = merged.names.clients.texts
    found = [
        ConnectionRate(
            int(ids[at]), texts[last[at]], "", "", float(counts[at] / seconds), float(failed[at]),
            float(sent[at]), float(received[at]), int(longest[at]), int(times[at]),
        )
        for at in chosen
    ]  # fmt: skip
    return found, int(np.count_nonzero(counts))


def numbered(ids: Ints) -> tuple[Ints, Ints]:
    """Distinct values, possibly with others between them, and the index of each row's value.

    Ids of connections are dense, so that sorting them is seldom needed.
    """
    if not len(ids):
        return ids, ids
    first, last = int(ids.min()), int(ids.max())
    if last - first <= SPARSE * len(ids):
        return np.arange(first, last + 1), ids - first
    found, which = np.unique(ids, return_inverse=True)
    return found, which


def client_of(state: ConnectionState | None) -> str:
    """Client id of a connection's oldest waiting request, "" without one."""
    if state is None or len(state.pending) <= state.pending_head:
        return ""
    return state.pending[state.pending_head].client_id or ""


def placed(one: ConnectionRate, addresses: Addresses) -> ConnectionRate:
    client, broker = addresses.of(one.connection_id)
    return one._replace(client_address=client, broker_address=broker)
