"""Findings about connections: TLS on one side only, idle closes, long round trips."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kdissect.analysis.dimensions import MS, SECOND_NS
from kdissect.rules.conditions import ALL, among, least, some
from kdissect.rules.context import PEERS, Context, number
from kdissect.rules.evidence_rows import CLIENT, Chosen, Row
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding
from kdissect.rules.formatting import (
    client_of,
    clients_of,
    column_of,
    listed,
    named,
    their,
    up_to,
)
from kdissect.rules.indicators import MOST_LOOKERS
from kdissect.text.human import agreeing, counted, duration, share
from kdissect.text.human import size as human_size

FEW: Final = 3
MISMATCHES: Final = 2  # connections: one may be a probe
LOOKS: Final = 5  # Metadata requests
MANY_LOOKS: Final = 10
LOOK_EVERY_NS: Final = 10 * SECOND_NS
IDLE_NS: Final = SECOND_NS
SILENT_NS: Final = 2_500 * MS  # four retransmissions, whose timer doubles from 200 ms
ALIKE: Final = 1.5  # the longest idle time may be so many times the shortest
ROUND_TRIP_NS: Final = 20 * MS
ROUND_TRIPS: Final = 4  # in a p99
BUSY: Final = 0.3  # share of the capture in which a client's responses come in
MOST: Final = 0.8  # share of the payload
ENOUGH: Final = 100  # exchanges of all such clients


def mismatches(seen: Context) -> Iterator[Finding]:
    """Clients that speak TLS to a listener without it, or the other way round."""
    refused = seen.signs.mismatched("tls-refused")
    if len(refused) >= MISMATCHES:
        # A connection closed without a byte may also be due to a broker that shuts down.
        yield _mismatch(
            "tls-on-plaintext-port",
            refused,
            "starts TLS with {broker}, which ended {connections} without a response: it does "
            "not speak TLS on that port",
        )
    alerted = seen.signs.mismatched("plain-client")
    if len(alerted) >= MISMATCHES:
        yield _mismatch(
            "plaintext-on-tls-port",
            alerted,
            "connects without TLS to {broker}, which answered {connections} with a TLS alert",
        )


def _mismatch(id_: str, places: list[tuple[str, str]], sentence: str) -> Finding:
    addresses = [address for address, _ in Counter(one for one, _ in places).most_common()]
    brokers = [broker for broker, _ in Counter(one for _, one in places).most_common()]
    text = sentence.format(
        broker=listed(brokers, "broker"), connections=counted(len(places), "connection")
    )
    return Finding(
        id_,
        PROBLEM,
        f"{listed(addresses, 'address')} {text}",
        {"connections": len(places)},
        {"brokers": brokers, "client_ips": addresses},
    )


def lookers(seen: Context) -> Iterator[Finding]:
    """Clients that get metadata only: they do not reach the advertised brokers."""
    if len(seen.signs.lookers) >= MOST_LOOKERS:
        return
    often = {name: times for name, times in seen.signs.lookers.items() if times >= LOOKS}
    if not often:
        return
    failing = {row["client"] for row in seen.every("errors", least(exchanges=FEW))}
    connections: Counter[str] = Counter()
    theirs = among("client", often) if all(often) else ALL  # "" is null in the rows
    for row in seen.every("health", least(connections=1) & theirs):
        connections[row["client"] or ""] += row["connections"]
    found = {
        name: times
        for name, times in often.items()
        if name not in failing and is_lost(times, connections[name], seen.span_ns)
    }
    if found:
        times = sum(found.values())
        yield Finding(
            "advertised-listener-unreachable",
            WARNING,
            f"{listed([named(name) for name in found], 'client')} requested metadata "
            f"{counted(times, 'time')} and did nothing else: the advertised listeners may be "
            "unreachable, or their names may not resolve",
            {"metadata": times},
            {"clients": list(found)},
        )


def is_lost(times: int, connections: int, span_ns: int) -> bool:
    """Return whether metadata is requested too often, or on too many connections, for a tool."""
    is_hasty = times >= MANY_LOOKS and times * SECOND_NS >= span_ns
    is_new = times <= 2 * connections and times * LOOK_EVERY_NS >= span_ns
    return is_hasty or is_new


def idle_closes(seen: Context) -> Iterator[Finding]:
    """Connections that brokers close after the same idle time, and that clients open again."""
    # Connections of clients that had used them.
    by_broker = seen.grouped("health", lambda row: str(row["broker"]), some("closed_by_broker"))
    for broker, rows in by_broker.items():
        closed = rows.total("closed_by_broker")
        shortest = min(number(row, "idle_min_ns") for row in rows)
        longest = rows.largest("idle_max_ns")
        if closed < FEW or shortest < IDLE_NS or longest > ALIKE * shortest:
            continue
        if rows.total("reconnects") < FEW:
            continue
        yield Finding(
            "idle-connections-closed",
            NOTICE,
            f"{broker} closed {counted(closed, 'connection')} of {clients_of(rows)} that were idle "
            f"for {duration(shortest)} or longer; they reconnected "
            f"{counted(rows.total('reconnects'), 'time')}",
            {
                "closed_by_broker": closed,
                "idle_min_ns": shortest,
                "idle_max_ns": longest,
                "reconnects": rows.total("reconnects"),
            },
            {"broker": broker} | their(rows),
        )


def full_links(seen: Context) -> Iterator[Finding]:
    """Clients that read as fast as their link allows, while writes of others wait."""
    if seen.summary.network.zero_windows:
        return  # it is a receiver that does not take more
    downloads = seen.signs.downloads
    size = sum(of_client for _, of_client in downloads.values())
    busy_ns = max((time_ns for time_ns, _ in downloads.values()), default=0)
    payload = seen.summary.network.payload_bytes
    if not downloads or busy_ns < BUSY * seen.span_ns or size < MOST * payload:
        return
    largest = sorted(downloads, key=lambda client: -downloads[client][1])
    rate = max(of_client * SECOND_NS // max(1, ns) for ns, of_client in downloads.values())
    is_one = len(largest) == 1
    text = f"{listed([named(client) for client in largest], 'client')} "
    text += f"{'fills its' if is_one else 'fill their'} link: {share(size, payload)} of all "
    text += f"payload is responses to {'it' if is_one else 'them'}, at up to {human_size(rate)}/s; "
    text += f"receiving them took {duration(busy_ns)} of {duration(seen.span_ns)}"
    yield Finding(
        "client-fills-link",
        WARNING,
        text,
        {"bytes": size, "download_ns": busy_ns, "share": size / max(1, payload)},
        {"clients": largest},
    )


def far_clients(seen: Context) -> Iterator[Finding]:
    """Clients whose latency is the round trip to the broker."""
    rows = seen.chosen_named("health", least(rtt_p50_ns=ROUND_TRIP_NS), is_far)
    if rows.total("exchanges") < ENOUGH:
        return
    trips = [number(row, "rtt_p50_ns") for row in rows]
    clients = rows.distinct(CLIENT, len({client_of(row) for row in rows}))
    yield Finding(
        "round-trip-makes-latency",
        WARNING,
        f"{clients_of(rows)} {agreeing(clients, 'is', 'are')} far from "
        f"{listed(_brokers(rows), 'broker')}: every request spends {up_to(rows)}"
        f"{duration(max(trips))} on a round trip, and p99 is {up_to(rows)}"
        f"{duration(rows.largest('time_p99_ns'))}",
        {"rtt_ns": max(trips), "time_p99_ns": rows.largest("time_p99_ns")},
        their(rows) | column_of("brokers", "broker", rows),
    )


def is_far(row: Row) -> bool:
    """Return whether a client's time is mostly round trips; brokers are left to replication."""
    trip = number(row, "rtt_p50_ns")
    is_most = number(row, "time_p99_ns") <= ROUND_TRIPS * trip
    return is_most and not PEERS.match(row["client"] or "")


def _brokers(rows: Chosen) -> list[str]:
    return list(dict.fromkeys(str(row["broker"]) for row in rows))


def unreachable(seen: Context) -> Iterator[Finding]:
    """Brokers from whose host nothing came back, not even an acknowledgment."""
    silent = least(unacknowledged_ns=SILENT_NS)
    by_broker = seen.grouped("health", lambda row: str(row["broker"]), silent)
    for broker, rows in by_broker.items():
        longest = rows.largest("unacknowledged_ns")
        yield Finding(
            "broker-unreachable",
            PROBLEM,
            f"{broker} acknowledged nothing for {up_to(rows)}{duration(longest)}, while "
            f"{_senders(rows)} sent data or SYNs again: its host, or the network to it, was down; "
            "the host of a paused or ended process would have answered",
            {"unacknowledged_ns": longest},
            {"broker": broker, "brokers": [broker]} | their(rows),
        )


def _senders(rows: Chosen) -> str:
    """Clients by name; those that never connected have none, and are their addresses."""
    named_rows = [row for row in rows if row["client"]]
    known = {row["client_ip"] for row in named_rows}
    names = [client_of(row) for row in named_rows]
    names += [str(row["client_ip"]) for row in rows if row["client_ip"] not in known]
    return listed(list(dict.fromkeys(names)), "client")


RULES: Final = (mismatches, lookers, idle_closes, full_links, far_clients, unreachable)
