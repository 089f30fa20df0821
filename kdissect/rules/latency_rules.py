"""Findings about latency: brokers, followers, the network, quotas; and typical values."""

from collections.abc import Iterator
from typing import Final

from kdissect.analysis.dimensions import MS, SECOND_NS
from kdissect.analysis.summary.counters import ApiRow
from kdissect.rules.context import (
    PEERS,
    Context,
    first_packet,
    largest,
    number,
    time_ns,
    total,
)
from kdissect.rules.evidence_rows import Row
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding
from kdissect.rules.formatting import clients_of, column_of, listed, several, their
from kdissect.text.human import count, counted, duration, share

STALL_NS: Final = 500 * MS
STALL_MANY: Final = 2  # connections or requests that make one long exchange a stall
SLOW_NS: Final = 50 * MS
VERY_SLOW_NS: Final = 100 * MS
SLOWER: Final = 5.0  # times the median, of other brokers or of the API
HALF: Final = 0.5
POLLED_NS: Final = 100 * MS
POLLED: Final = 0.8
DEGRADED: Final = 3
NETWORK_NS: Final = 50 * MS
NETWORK: Final = 0.6  # share of p99
MANY: Final = 3  # requests
SLOWER_FOLLOWER: Final = 2  # times the others
MAIN_APIS: Final = ("Produce", "Fetch", "ShareFetch")
# APIs that a broker handles alone: no waiting for others, the controller or a failed login.
OWN: Final = frozenset((
    "Produce", "Fetch", "Metadata", "ListOffsets", "OffsetCommit", "OffsetFetch", "Heartbeat",
    "FindCoordinator", "ApiVersions", "DescribeGroups", "ListGroups", "TxnOffsetCommit",
    "OffsetForLeaderEpoch", "DescribeConfigs",
))  # fmt: skip
ENOUGH: Final = 100  # exchanges sufficient for a p99
SOME: Final = 10  # exchanges sufficient for a p50


def stalls(seen: Context) -> Iterator[Finding]:
    """Times at which a broker delayed all its requests."""
    long = [
        row for row in seen.rows("slowest")
        if number(row, "work_ns") >= STALL_NS and row["api"] in OWN
        and not PEERS.match(row["client_id"] or "")  # whose fetches wait for the others, too
    ]  # fmt: skip
    by_broker: dict[str, list[Row]] = {}
    for row in sorted(long, key=lambda row: number(row, "request_start")):
        by_broker.setdefault(str(row["broker"]), []).append(row)
    for broker, rows in by_broker.items():
        episodes = [those for those in overlapping(rows) if is_stall(seen, those)]
        if episodes:
            yield _stall(broker, episodes)


def overlapping(rows: list[Row]) -> list[list[Row]]:
    """Rows in order of their requests, split where all earlier ones were answered."""
    episodes: list[list[Row]] = []
    until = 0
    for row in rows:
        start = time_ns(row, "request_start") or 0
        if not episodes or start > until:
            episodes.append([])
        episodes[-1].append(row)
        until = max(until, start + number(row, "latency_ns"))
    return episodes


def is_stall(seen: Context, rows: list[Row]) -> bool:
    """Whether the broker is the cause: several waited, or the slowest is far from the usual."""
    usual = seen.apis[rows[0]["api"]].work.p50_ns if rows[0]["api"] in seen.apis else None
    return len(rows) >= STALL_MANY or usual is None or number(rows[0], "work_ns") >= SLOWER * usual


def _stall(broker: str, episodes: list[list[Row]]) -> Finding:
    rows = [row for episode in episodes for row in episode]
    longest = max(episodes, key=lambda episode: largest(episode, "work_ns"))
    most = largest(longest, "work_ns")
    apis = ", ".join(several(rows, "api"))
    text = f"Broker {broker} stalled for up to {duration(most)}: "
    text += f"{counted(len(rows), 'request')} ({apis}) of {clients_of(rows)} waited "
    text += f"{duration(min(number(row, 'work_ns') for row in rows))} or longer"
    if len(episodes) > 1:
        text += f", at {count(len(episodes))} times"
    starts = [time_ns(row, "request_start") or 0 for row in rows]
    return Finding(
        "broker-stalls",
        PROBLEM,
        text,
        {"work_ns": most, "requests": len(rows), "times": len(episodes)},
        {"broker": broker, "apis": apis.split(", ")} | their(rows),
        min(starts),
        max(start + number(row, "latency_ns") for start, row in zip(starts, rows, strict=True)),
        first_packet(longest, "request_packet"),
    )


def followers(seen: Context) -> Iterator[Finding]:
    """The follower that acks=all waits for."""
    rows = seen.rows("acks")
    known = [row for row in rows if row["follower"] is not None]
    if not known:
        return
    worst = max(known, key=lambda row: number(row, "replication_p99_ns"))
    p99, replication = number(worst, "p99_ns"), number(worst, "replication_p99_ns")
    others = [row for row in known if row is not worst]
    is_alone = replication >= SLOWER_FOLLOWER * largest(others, "replication_p99_ns")
    if p99 < SLOW_NS or not worst["slow"] or replication < HALF * p99 or not is_alone:
        return
    slow = total(rows, "slow")
    text = f"Produce with acks=all waits for broker {worst['follower']}: p99 is {duration(p99)} "
    text += f"where it was the last to replicate, {duration(replication)} of that until it had"
    if others:
        text += f" ({duration(largest(others, 'replication_p99_ns'))} where others were last)"
    if slow >= MANY:
        text += f"; {count(number(worst, 'slow'))} of the {count(slow)} slowest requests"
    yield Finding(
        "produce-latency-slow-follower",
        PROBLEM if p99 >= VERY_SLOW_NS else WARNING,
        text,
        {
            "p99_ns": p99,
            "replication_p99_ns": replication,
            "all_p99_ns": worst["all_p99_ns"],
            "slow": worst["slow"],
            "share": number(worst, "slow") / slow,
            "exchanges": number(worst, "exchanges"),
        },
        {"broker": worst["follower"], "api": "Produce"},
    )


def slow_brokers(seen: Context) -> Iterator[Finding]:
    """Brokers that are slow where others are fast, or slow at everything."""
    # Fetches of followers wait for the others, and are among those of their leaders.
    is_cluster = any(PEERS.match(row.client_id) for row in seen.summary.clients)
    judged = [
        row for row in seen.rows("work")
        if row["api"] in OWN and not (is_cluster and row["api"] == "Fetch")
        and number(row, "exchanges") >= SOME
    ]  # fmt: skip
    by_broker: dict[str, list[tuple[Row, int | None]]] = {}
    for row in judged:
        others = [
            number(other, "p99_ns") for other in judged
            if other["api"] == row["api"] and other["broker"] != row["broker"]
        ]  # fmt: skip
        usual = sorted(others)[len(others) // 2] if others else None
        is_slower = usual is not None and number(row, "p99_ns") >= max(SLOWER * usual, SLOW_NS)
        if is_slower or is_slow(row):
            slower_than = usual if is_slower else None
            by_broker.setdefault(str(row["broker"]), []).append((row, slower_than))
    for broker, found in by_broker.items():
        yield _slow_broker(broker, found)


def is_slow(row: Row) -> bool:
    """Whether the p99 is long, or half of all when there are too few for one."""
    is_rarely = number(row, "exchanges") >= ENOUGH and number(row, "p99_ns") >= VERY_SLOW_NS
    return is_rarely or number(row, "p50_ns") >= SLOW_NS


def _slow_broker(broker: str, found: list[tuple[Row, int | None]]) -> Finding:
    found.sort(key=lambda one: -number(one[0], "exchanges") * number(one[0], "p99_ns"))
    parts = [
        f"{row['api']} {duration(row['p99_ns'])} (p50 {duration(row['p50_ns'])})"
        + (f", {duration(usual)} at other brokers" if usual is not None else "")
        for row, usual in found[:2]
    ]
    first = found[0][0]
    return Finding(
        "broker-slow",
        PROBLEM if number(first, "p99_ns") >= VERY_SLOW_NS else WARNING,
        f"Broker {broker} is slow itself: p99 of broker time is {'; '.join(parts)}",
        {name: first[name] for name in ("p50_ns", "p99_ns", "max_ns", "exchanges")},
        {"broker": broker, "apis": [row["api"] for row, _ in found]},
    )


def network(seen: Context) -> Iterator[Finding]:
    """Clients whose p99 is dominated by the network."""
    rows = seen.chosen_named("health", is_degraded)
    totals = seen.summary.network
    if not rows or not (totals.network_lost_bytes or totals.zero_windows):
        return
    longest = largest(rows, "time_p99_ns")
    (worst, *_) = seen.chosen_named(
        "health", lambda row: is_degraded(row) and number(row, "time_p99_ns") == longest
    )
    yield Finding(
        "network-makes-p99",
        PROBLEM if number(worst, "time_p99_ns") >= VERY_SLOW_NS else WARNING,
        f"The network makes up to {share(worst['network'], 1)} of p99 of {clients_of(rows)}: "
        f"{duration(worst['time_p99_ns'])}, {duration(worst['untroubled_p99_ns'])} without the "
        f"{counted(number(worst, 'troubled'), 'exchange')} with retransmissions or full windows",
        {
            "time_p99_ns": worst["time_p99_ns"], "untroubled_p99_ns": worst["untroubled_p99_ns"],
            "share": worst["network"],
            "retransmitted_segments": total(rows, "retransmitted_segments"),
        },
        their(rows) | column_of("brokers", "broker", rows),
    )  # fmt: skip


def is_degraded(row: Row) -> bool:
    """Whether retransmissions or full windows dominate a client's p99."""
    return (
        (row["network"] or 0) >= NETWORK
        and number(row, "time_p99_ns") >= NETWORK_NS
        and number(row, "troubled") >= DEGRADED
        and number(row, "retransmitted_segments") + number(row, "zero_windows") >= DEGRADED
    )


def quotas(seen: Context) -> Iterator[Finding]:
    """Clients throttled by brokers."""
    rows = seen.chosen("traffic", lambda row: row["throttled"])
    if rows:
        longest = largest(rows, "throttle_max_ms")
        yield Finding(
            "throttled-by-quota",
            PROBLEM if longest * MS >= SECOND_NS else WARNING,
            f"Brokers throttled {clients_of(rows)} {counted(total(rows, 'throttled'), 'time')}, "
            f"for up to {duration(longest * MS)}",
            {"throttled": total(rows, "throttled"), "throttle_max_ms": longest},
            their(rows),
        )


def polls(seen: Context) -> Iterator[Finding]:
    """Fetches that are slow because they asked to wait (long polls)."""
    row = seen.apis.get("Fetch")
    if row is None or not is_polled(row):
        return
    yield Finding(
        "fetch-mostly-long-poll",
        NOTICE,
        f"p99 of Fetch is {duration(row.latency.p99_ns)}, {share(row.waited, 1)} of it long poll; "
        f"p99 of broker time is {duration(row.work.p99_ns)}",
        {
            "p99_ns": row.latency.p99_ns, "waited": row.waited, "work_p99_ns": row.work.p99_ns,
            "exchanges": row.exchanges,
        },
        {"api": "Fetch"},
    )  # fmt: skip


def latencies(seen: Context) -> Iterator[Finding]:
    """Typical latencies, of writes and reads."""
    chosen = usual_apis(seen)
    # Long polls have a sentence of their own.
    if parts := [row for row in chosen if not (row.api == "Fetch" and is_polled(row))]:
        yield Finding(
            "latencies",
            NOTICE,
            usual_text(parts),
            {f"{row.api.lower()}_p99_ns": row.latency.p99_ns for row in chosen},
            {"apis": [row.api for row in chosen]},
            seen.summary.totals.first_time_ns,
            seen.summary.totals.last_time_ns,
        )


def usual_apis(seen: Context) -> list[ApiRow]:
    """The write and read APIs, else the one with most exchanges."""
    rows = [row for row in seen.summary.apis if row.latency.p99_ns is not None]
    return [row for row in rows if row.api in MAIN_APIS] or rows[:1]


def usual_text(rows: list[ApiRow]) -> str:
    """Their p99, and the part of it that was a requested wait."""
    parts = [
        f"{row.api} {duration(row.latency.p99_ns)}"
        + (f" ({share(row.waited, 1)} long poll, broker time {duration(row.work.p99_ns)})"
           if row.waited >= HALF else "")
        for row in rows
    ]  # fmt: skip
    return f"p99 of {listed(parts, 'API')}"


def is_polled(row: ApiRow) -> bool:
    """Whether its latency is the wait that consumers requested."""
    return (row.latency.p99_ns or 0) >= POLLED_NS and row.waited >= POLLED


RULES: Final = (stalls, followers, slow_brokers, network, quotas, polls, latencies)
