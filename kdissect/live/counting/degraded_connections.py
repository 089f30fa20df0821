"""Degraded connections of the window, and those with overdue requests now."""

from typing import NamedTuple

import numpy as np

from kdissect.live.counting.addresses import Addresses
from kdissect.live.counting.merged_buckets import MergedBuckets
from kdissect.live.counting.snapshot import LISTED, DegradedConnection, Focus
from kdissect.live.counting.waiting import Late, Waiting
from kdissect.tables.matrices import Ints


class Losses(NamedTuple):
    """Summed losses of one connection's exchanges, and the client of the last of them."""

    retransmits: int = 0
    zero_windows: int = 0
    missing_bytes: int = 0
    unanswered: int = 0
    client: str = ""


def degraded(
    merged: MergedBuckets, waiting: Waiting, addresses: Addresses, focus: Focus, now_ns: int
) -> tuple[DegradedConnection, ...]:
    """Overdue connections by age, then those with unanswered requests and losses."""
    late = {key: one for key, one in waiting.late.items() if is_late(one, focus, now_ns)}
    losses = losses_of(merged)
    found = []
    for connection_id in dict.fromkeys([*late, *losses]):
        loss = losses.get(connection_id, Losses())
        one = late.get(connection_id)
        waits = waiting.by_connection.get(connection_id) if one is None else one.waits
        found.append(
            DegradedConnection(
                connection_id,
                one.client if one is not None else loss.client,
                "",
                "",
                *loss[:4],
                0 if waits is None else waits.waiting,
                -1 if waits is None else max(0, now_ns - waits.since_ns),
                "" if waits is None else waits.api,
            )
        )
    found.sort(key=lambda one: need(one, one.connection_id in late), reverse=True)
    return tuple(with_addresses(one, addresses) for one in found[:LISTED])


def is_late(one: Late, focus: Focus, now_ns: int) -> bool:
    """Return whether a connection has an overdue request within the focus."""
    return (
        one.waits.due_ns < now_ns
        and focus.api in ("", one.waits.api)
        and focus.client in ("", one.client)
        and (not focus.topic or focus.topic in one.topics)
    )


def need(one: DegradedConnection, is_waiting_too_long: bool) -> tuple[int, ...]:
    age = one.waiting_ns if is_waiting_too_long else -1
    return age, one.unanswered, one.missing_bytes, one.retransmits, one.zero_windows


def with_addresses(one: DegradedConnection, addresses: Addresses) -> DegradedConnection:
    client, broker = addresses.of(one.connection_id)
    return one._replace(client_address=client, broker_address=broker)


def losses_of(merged: MergedBuckets) -> dict[int, Losses]:
    """Connections with losses, the top ones by each kind of loss, up to the list limit."""
    tcp_events = merged.tcp_events()
    if not len(tcp_events.row):
        return {}
    ids, which = np.unique(tcp_events.connection_id, return_inverse=True)
    sums = [np.bincount(which, column).astype(np.int64) for column in tcp_events[2:]]
    last = np.zeros(len(ids), np.int64)
    np.maximum.at(last, which, tcp_events.row)
    chosen = most(sums)
    clients = [merged.names.clients.texts[code] for code in merged.at("client", last[chosen])]
    rows = zip(*(column[chosen].tolist() for column in sums), clients, strict=True)
    return {key: Losses(*row) for key, row in zip(ids[chosen].tolist(), rows, strict=True)}


def most(sums: list[Ints]) -> Ints:
    """Indices of the highest sums of each kind."""
    return np.unique(np.concatenate([np.argsort(-column)[:LISTED] for column in sums]))
