"""Findings about latency: brokers, followers, the network, quotas; and typical values.

Longer than other modules: the rules of latency share their thresholds and helpers.
"""

from collections.abc import Callable, Iterator
from typing import Final

from kdissect.analysis.dimensions import MS, SECOND_NS
from kdissect.analysis.summary.counters import ApiRow
from kdissect.rules.conditions import among, least, some
from kdissect.rules.context import PEERS, Context, number, time_ns
from kdissect.rules.evidence_rows import Chosen, Row, Rows
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding
from kdissect.rules.formatting import (
    client_of,
    clients_of,
    column_of,
    listed,
    several,
    their,
    up_to,
)
from kdissect.text.human import count, counted, duration, share

LEAST_TIMEOUT_NS: Final = 200 * MS  # of retransmissions, in Linux
MOST_TIMEOUTS: Final = 15  # and so many of them, then it gives up
STALL_NS: Final = 500 * MS
ACKS_ALL: Final = -1
STALL_MANY: Final = 2  # connections or requests that make one long exchange a stall
STALL_OFTEN: Final = 3  # times that a single request waited
SLOW_NS: Final = 50 * MS
VERY_SLOW_NS: Final = 100 * MS
TIMES: Final = ("p50_ns", "p99_ns", "max_ns")
SLOWER: Final = 5.0  # times the median, of other brokers or of the API
HALF: Final = 0.5
POLLED_NS: Final = 100 * MS
POLLED: Final = 0.8
DEGRADED: Final = 3
NETWORK_NS: Final = 50 * MS
NETWORK: Final = 0.6  # share of p99
MANY: Final = 3  # requests
SLOWER_FOLLOWER: Final = 2  # times the others
OFTENER: Final = 4  # times the others are slow
MAIN_APIS: Final = ("Produce", "Fetch", "ShareFetch")
# APIs that a broker handles alone: no waiting for others, the controller or a failed login.
OWN: Final = frozenset((
    "Produce", "Fetch", "Metadata", "ListOffsets", "OffsetCommit", "OffsetFetch", "Heartbeat",
    "FindCoordinator", "ApiVersions", "DescribeGroups", "ListGroups", "TxnOffsetCommit",
    "OffsetForLeaderEpoch", "DescribeConfigs",
))  # fmt: skip
COMMITS: Final = frozenset(("OffsetCommit", "TxnOffsetCommit"))
# Clients that start at once wait for each other, and for classes to be loaded.
OF_STARTS: Final = frozenset(("ApiVersions", "Metadata", "FindCoordinator"))
# Response of a new coordinator after it has loaded the groups.
OF_GROUPS: Final = COMMITS | {"Heartbeat"}
# Codes of requests to a broker that does not lead any more, or not yet.
MOVED: Final = frozenset((
    "NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "LEADER_NOT_AVAILABLE",
))  # fmt: skip
ENOUGH: Final = 100  # exchanges sufficient for a p99
SOME: Final = 10  # exchanges sufficient for a p50


def stalls(seen: Context) -> Iterator[Finding]:
    """Times without any response of a broker while requests waited for it."""
    long = [
        row for row in seen.rows("slowest")
        if held_ns(row) >= STALL_NS and row["api"] in OWN
        and not PEERS.match(row["client_id"] or "")  # their fetches wait for others, too
        and not is_sent_again(seen, row)
    ]  # fmt: skip
    by_broker: dict[str, Rows] = {}
    for row in sorted(long, key=lambda row: number(row, "request_start")):
        by_broker.setdefault(str(row["broker"]), Rows()).append(row)
    has_moved = has_moved_coordinators(seen)
    for broker, rows in by_broker.items():
        episodes = [
            those for those in overlapping(rows)
            if is_stall(seen, those)
            and not (has_moved and all(row["api"] in OF_GROUPS for row in those))
        ]  # fmt: skip
        own = [those for those in episodes if not all(map(is_replicated, those))]
        if own:
            yield _stall(broker, own)
        elif any(len(those) >= STALL_MANY for those in episodes) or len(episodes) >= STALL_OFTEN:
            yield _stall_or_replication(broker, episodes)


def is_sent_again(seen: Context, row: Row) -> bool:
    """Return whether a network that loses packets explains how long a request took.

    Each time-out is twice the one before (RFC 6298), the first a little more than LEAST_TIMEOUT_NS.
    """
    times = min(number(row, "retransmits"), MOST_TIMEOUTS)
    explained_ns = LEAST_TIMEOUT_NS * 5 // 4 * ((1 << times) - 1)
    is_lossy = seen.summary.network.network_lost_bytes > 0
    return is_lossy and number(row, "work_ns") <= explained_ns


def has_moved_coordinators(seen: Context) -> bool:
    """Return whether a coordinator moved; the new one reads its groups first."""
    return any(seen.every("errors", among("error", ["NOT_COORDINATOR"])))


def overlapping(rows: Rows) -> list[Rows]:
    """Rows in order of their requests, split where all earlier ones were answered."""
    episodes: list[Rows] = []
    until = 0
    for row in rows:
        start = time_ns(row, "request_start") or 0
        if not episodes or start > until:
            episodes.append(Rows())
        episodes[-1].append(row)
        until = max(until, start + number(row, "latency_ns"))
    return episodes


def is_stall(seen: Context, rows: Rows) -> bool:
    """Return whether waiting is unusual: several waited, or the slowest is far from the usual."""
    usual = seen.apis[rows[0]["api"]].work.p50_ns if rows[0]["api"] in seen.apis else None
    return len(rows) >= STALL_MANY or usual is None or number(rows[0], "work_ns") >= SLOWER * usual


def held_ns(row: Row) -> int:
    """Part of the broker time of a request without any response of the broker."""
    return min(number(row, "work_ns"), number(row, "silent_ns"))


def is_replicated(row: Row) -> bool:
    """Return whether the broker may have waited for a follower.

    Coordinators write commits with acks=all, too.
    """
    return row["api"] in COMMITS or bool(row["api"] == "Produce" and row["acks"] == ACKS_ALL)


def _stall(broker: str, episodes: list[Rows]) -> Finding:
    rows = Rows(row for episode in episodes for row in episode)
    text = f"Broker {broker} stalled for up to {duration(max(map(held_ns, rows)))}: "
    text += f"{counted(len(rows), 'request')} ({_apis(rows)}) of {clients_of(rows)} waited "
    text += f"{duration(min(number(row, 'work_ns') for row in rows))} or longer{_often(episodes)}"
    return _silent(broker, PROBLEM, episodes, text)


def _stall_or_replication(broker: str, episodes: list[Rows]) -> Finding:
    """Finding for a stall of replicated requests only, which a silent follower explains, too."""
    rows = Rows(row for episode in episodes for row in episode)
    longest = duration(max(map(held_ns, rows)))
    text = f"Broker {broker} sent no captured response for up to {longest} "
    requests = f"{counted(len(rows), 'request')} ({_apis(rows)})"
    if all(row["api"] == "Produce" for row in rows):
        requests = f"{counted(len(rows), 'Produce request')} with acks=all"
    text += f"while {requests} of {clients_of(rows)} "
    text += f"waited{_often(episodes)}: it stalled, or a follower they waited for did"
    return _silent(broker, WARNING, episodes, text)


def _often(episodes: list[Rows]) -> str:
    return f" ({counted(len(episodes), 'time')})" if len(episodes) > 1 else ""


def _apis(rows: Rows) -> str:
    return ", ".join(several(rows, "api"))


def _silent(broker: str, severity: str, episodes: list[Rows], text: str) -> Finding:
    rows = Rows(row for episode in episodes for row in episode)
    longest = max(episodes, key=lambda episode: max(map(held_ns, episode)))
    starts = [time_ns(row, "request_start") or 0 for row in rows]
    return Finding(
        "broker-stalls",
        severity,
        text,
        {
            "silent_ns": max(map(held_ns, longest)), "work_ns": rows.largest("work_ns"),
            "requests": len(rows), "times": len(episodes),
        },
        {"broker": broker, "apis": _apis(rows).split(", ")} | their(rows),
        min(starts),
        max(start + number(row, "latency_ns") for start, row in zip(starts, rows, strict=True)),
        longest.first_packet("request_packet"),
    )  # fmt: skip


def followers(seen: Context) -> Iterator[Finding]:
    """The follower that acks=all waits for."""
    rows = seen.rows("acks")
    known = [row for row in rows if row["follower"] is not None]
    if not known:
        return
    worst = max(known, key=lambda row: number(row, "replication_p99_ns"))
    others = Rows(row for row in known if row is not worst and number(row, "exchanges") >= SOME)
    if not is_slow_follower(worst, others):
        return
    if number(worst, "exchanges") < ENOUGH and has_moved_leaders(seen):
        return
    p99, replication = number(worst, "p99_ns"), number(worst, "replication_p99_ns")
    exchanges, slow = number(worst, "exchanges"), number(worst, "slow")
    is_p99 = exchanges >= ENOUGH
    text = f"Produce with acks=all waits for broker {worst['follower']}: "
    if is_p99:
        text += f"p99 is {duration(p99)} where it replicated last, "
    else:
        text += f"of {counted(exchanges, 'request')} where it replicated last, "
        text += f"{count(slow)} took up to {duration(p99)}, "
    text += f"{duration(replication)} of it for replication"
    if others:
        text += f" ({duration(others.largest('replication_p99_ns'))} where others were last)"
    if is_p99:
        text += f"; {count(slow)} of the {counted(rows.total('slow'), 'slowest request')}"
    yield Finding(
        "produce-latency-slow-follower",
        PROBLEM if is_p99 and p99 >= VERY_SLOW_NS else WARNING,
        text,
        {
            "p99_ns": p99,
            "replication_p99_ns": replication,
            "all_p99_ns": worst["all_p99_ns"],
            "slow": worst["slow"],
            "share": slow / rows.total("slow"),
            "exchanges": exchanges,
        },
        {"broker": worst["follower"], "api": "Produce"},
    )


def has_moved_leaders(seen: Context) -> bool:
    """Return whether clients met leader changes, after which followers fetch elsewhere."""
    moved = seen.every("errors", among("error", MOVED))
    return any(not PEERS.match(row["client"] or "") for row in moved)


def is_slow_follower(row: Row, others: Rows) -> bool:
    """Return whether producers wait for a follower, and longer than for the others.

    Of fewer requests than a p99 takes, the longest is meant.
    """
    p99, replication = number(row, "p99_ns"), number(row, "replication_p99_ns")
    exchanges = number(row, "exchanges")
    if exchanges < SOME or not row["slow"] or p99 < SLOW_NS or replication < HALF * p99:
        return False
    # One slow request of a hundred makes the p99 of another follower, too.
    is_longer = replication >= SLOWER_FOLLOWER * others.largest("replication_p99_ns")
    is_oftener = number(row, "slow") >= max(MANY, OFTENER * (others.largest("slow") or MANY))
    if not is_longer and not is_oftener:
        return False
    usual = number(row, "replication_p50_ns")
    return exchanges < ENOUGH or (
        number(row, "slow") >= MANY
        and all(usual >= HALF * number(other, "replication_p50_ns") for other in others)
    )


def slow_brokers(seen: Context) -> Iterator[Finding]:
    """Brokers that are slow where others are fast, or slow at everything."""
    # Fetches of followers wait for the others, and are among those of their leaders.
    is_cluster = any(PEERS.match(row.client_id) for row in seen.summary.clients)
    left_out = {"Fetch"} if is_cluster else set()
    if waits_for_followers(seen):
        left_out.add("Produce")
    if has_moved_coordinators(seen):
        left_out |= OF_GROUPS
    # Until followers have found a new leader, requests wait for them.
    held = COMMITS | ({"Produce"} if seen.signs.acks_all else set())
    often = OF_STARTS | (held if has_moved_leaders(seen) else set())
    working = seen.rows("work")
    brokers = {str(row["broker"]) for row in working}
    # The longest of the round trips between the tap and a broker.
    far = seen.largest("health", "rtt_broker_p50_ns", "broker", brokers)
    judged = [
        at_broker(row, far.get(str(row["broker"]), 0)) for row in working
        if row["api"] in OWN - left_out
        and number(row, "exchanges") >= (ENOUGH if row["api"] in often else SOME)
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
    unread = unread_brokers(seen)
    for broker, found in by_broker.items():
        is_held = all(row["api"] in held for row, _ in found)
        yield _slow_broker(broker, found, is_held, unread.pop(broker, None))
    for broker, rows in unread.items():
        yield _unread_broker(seen, broker, rows)


def unread_brokers(seen: Context) -> dict[str, Chosen]:
    """Broker → its clients whose p99 is the wait for the broker to read what it has received."""
    if not seen.summary.network.zero_windows:
        return {}
    # A broker does not read requests of a throttled client.
    throttled = seen.chosen("traffic", some("throttled"))
    muted = {(row["client"], row["client_ip"]) for row in throttled}
    return seen.grouped(
        "health", lambda row: str(row["broker"]), least(troubled=DEGRADED),
        lambda row: is_unread_by_broker(row) and (row["client"], row["client_ip"]) not in muted,
    )  # fmt: skip


def _deducted(row: Row) -> str:
    """The clause on the round trip that `latency` includes, unless rounding hides it."""
    round_trip, p99 = number(row, "round_trip_ns"), number(row, "p99_ns")
    if duration(p99) == duration(p99 + round_trip):
        return ""
    return f"; {duration(round_trip)} of round trip between the capture and it are deducted"


def at_broker(row: Row, round_trip_ns: int) -> Row:
    """The row with times that are the broker's, where the tap is far from it."""
    times = {name: max(0, number(row, name) - round_trip_ns) for name in TIMES}
    return {**row, **times, "round_trip_ns": round_trip_ns}


def waits_for_followers(seen: Context) -> bool:
    """Return whether fetches of followers show that Produce with acks=all waits for them."""
    return any(
        row["follower"] is not None
        and number(row, "replication_p99_ns") >= HALF * max(1, number(row, "p99_ns"))
        for row in seen.rows("acks")
    )


def is_slow(row: Row) -> bool:
    """Return whether the p99 is long, or half of all when there are too few for one."""
    is_rarely = number(row, "exchanges") >= ENOUGH and number(row, "p99_ns") >= VERY_SLOW_NS
    return is_rarely or number(row, "p50_ns") >= SLOW_NS


def _slow_broker(
    broker: str, found: list[tuple[Row, int | None]], is_held: bool, unread: Chosen | None
) -> Finding:
    """The finding; a leader holds some requests until followers have them, seen or not."""
    found.sort(key=lambda one: -number(one[0], "exchanges") * number(one[0], "p99_ns"))
    parts = [
        f"{row['api']} {duration(row['p99_ns'])} (p50 {duration(row['p50_ns'])})"
        + (f", {duration(usual)} at other brokers" if usual is not None else "")
        for row, usual in found[:2]
    ]
    first = found[0][0]
    text = f"Broker {_or_follower(broker, is_held)} is slow: p99 of broker time is "
    text += f"{'; '.join(parts)}{_deducted(first)}"
    if unread:
        text += f"; {_unread_text(unread)}"
    return Finding(
        "broker-slow",
        PROBLEM if number(first, "p99_ns") >= VERY_SLOW_NS and not is_held else WARNING,
        text,
        {name: first[name] for name in (*TIMES, "exchanges", "round_trip_ns")}
        | {"zero_window_ns": unread.largest("zero_window_by_broker_ns") if unread else 0},
        {"broker": broker, "apis": [row["api"] for row, _ in found]},
    )


def _unread_broker(seen: Context, broker: str, rows: Chosen) -> Finding:
    """Finding for a broker that reads late; it reads nothing while followers are waited for."""
    is_held = seen.signs.acks_all > 0
    p99 = rows.largest("time_p99_ns")
    return Finding(
        "broker-slow",
        PROBLEM if p99 >= VERY_SLOW_NS and not is_held else WARNING,
        f"Broker {_or_follower(broker, is_held)} is slow: {_unread_text(rows)}; their p99 is "
        f"{up_to(rows)}{duration(p99)}",
        {
            "p99_ns": p99, "zero_windows": rows.total("zero_windows_by_broker"),
            "zero_window_ns": rows.largest("zero_window_by_broker_ns"),
        },
        {"broker": broker, "apis": ["Produce"]} | their(rows),
        shown_by="health --by client_id,client_ip,broker",
    )  # fmt: skip


def _unread_text(rows: Chosen) -> str:
    full = duration(rows.largest("zero_window_by_broker_ns"))
    return (
        f"it left requests of {clients_of(rows)} unread, with full windows for {up_to(rows)}{full}"
    )


def _or_follower(broker: str, is_held: bool) -> str:
    return f"{broker}, or a follower it waits for," if is_held else broker


def network(seen: Context) -> Iterator[Finding]:
    """Clients whose p99 is dominated by the network, or by a client that does not read.

    A broker that does not read is slow, see `slow_brokers`.
    """
    totals = seen.summary.network
    if totals.network_lost_bytes:
        yield from _held_up(seen, "network-makes-p99", is_retransmitted)
    if totals.zero_windows:
        yield from _held_up(seen, "receiver-does-not-read", is_unread)


def _held_up(seen: Context, id_: str, wanted: Callable[[Row], bool]) -> Iterator[Finding]:
    rows = seen.chosen_named("health", least(troubled=DEGRADED), wanted)
    if not rows:
        return
    longest = rows.largest("time_p99_ns")
    (worst, *_) = seen.chosen_named("health", least(troubled=DEGRADED, time_p99_ns=longest), wanted)
    text = _held_up_text(id_, rows, worst)
    yield Finding(
        id_,
        PROBLEM if number(worst, "time_p99_ns") >= VERY_SLOW_NS else WARNING,
        text,
        {
            "time_p99_ns": worst["time_p99_ns"], "untroubled_p99_ns": worst["untroubled_p99_ns"],
            "share": share_of(worst),
            "retransmitted_segments": rows.total("retransmitted_segments"),
            "zero_windows": rows.total("zero_windows"),
        },
        their(rows) | column_of("brokers", "broker", rows),
    )  # fmt: skip


def _held_up_text(id_: str, rows: Chosen, worst: Row) -> str:
    is_network = id_ == "network-makes-p99"
    is_compared = worst["untroubled_p99_ns"] is not None
    held = counted(number(worst, "troubled"), "exchange")
    text = "The network" if is_network else "A receiver that does not read"
    text += f" accounts for {'up to ' if is_compared else ''}{share(share_of(worst), 1)} of p99 of "
    text += f"{clients_of(rows)}: {duration(worst['time_p99_ns'])}"
    text += f" of {client_of(worst)}, " if len(rows) > 1 else ", "
    if not is_compared:
        full = duration(worst["zero_window_ns"])
        return f"{text}windows were full for {full} during all {held}"
    cause = "retransmissions or full windows" if is_network else "full windows"
    return f"{text}{duration(worst['untroubled_p99_ns'])} without the {held} with {cause}"


def share_of(row: Row) -> float:
    """The share of a client's p99 that is made by exchanges with retransmissions or full windows.

    Where all of them had full windows, none is there to compare with: the share of their time for
    which windows were full, at the least.
    """
    if row["network"] is not None or number(row, "troubled") < number(row, "exchanges"):
        return float(row["network"] or 0)
    longest = number(row, "time_p99_ns") * number(row, "exchanges")
    return min(1.0, number(row, "zero_window_ns") / longest) if longest else 0.0


def is_retransmitted(row: Row) -> bool:
    """Return whether it is the network that dominates a client's p99."""
    is_compared = row["untroubled_p99_ns"] is not None
    return is_degraded(row) and is_compared and not is_mostly_full(row)


def is_unread(row: Row) -> bool:
    """Return whether full windows dominate: the client has the data and does not read it."""
    return is_full(row) and not is_full_at_broker(row)


def is_unread_by_broker(row: Row) -> bool:
    """Return whether full windows dominate, and it is the broker that does not read."""
    return is_full(row) and is_full_at_broker(row)


def is_full_at_broker(row: Row) -> bool:
    """Return whether most full windows were the broker's."""
    return 2 * number(row, "zero_windows_by_broker") > number(row, "zero_windows")


def is_full(row: Row) -> bool:
    """Return whether full windows dominate a client's p99, and not lost packets."""
    return is_degraded(row) and is_mostly_full(row)


def is_mostly_full(row: Row) -> bool:
    """Return whether full windows explain what was sent again.

    A receiver without room drops what the sender had sent before it knew, so a few bytes are lost
    without any fault of the network: full windows count from one in two of the exchanges on.
    """
    zero_windows = number(row, "zero_windows")
    is_more = number(row, "retransmitted_segments") < zero_windows
    return is_more or 2 * zero_windows >= number(row, "troubled") or not number(row, "lost_bytes")


def is_degraded(row: Row) -> bool:
    """Return whether retransmissions or full windows dominate a client's p99."""
    return (
        share_of(row) >= NETWORK
        and number(row, "time_p99_ns") >= NETWORK_NS
        and number(row, "troubled") >= DEGRADED
        and number(row, "retransmitted_segments") + number(row, "zero_windows") >= DEGRADED
        and number(row, "lost_bytes") + number(row, "zero_windows") > 0
    )


def quotas(seen: Context) -> Iterator[Finding]:
    """Clients throttled by brokers."""
    rows = seen.chosen("traffic", some("throttled"))
    if rows:
        longest = rows.largest("throttle_max_ms")
        yield Finding(
            "throttled-by-quota",
            PROBLEM if longest * MS >= SECOND_NS else WARNING,
            f"Brokers throttled {clients_of(rows)} {counted(rows.total('throttled'), 'time')}, "
            f"for up to {duration(longest * MS)}",
            {"throttled": rows.total("throttled"), "throttle_max_ms": longest},
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
        f"p99 of Fetch is {duration(row.latency.p99_ns)}; {share(row.waited, 1)} of the time of "
        f"all Fetch requests is long poll, and p99 of broker time is {duration(row.work.p99_ns)}",
        {
            "p99_ns": row.latency.p99_ns, "waited": row.waited, "work_p99_ns": row.work.p99_ns,
            "exchanges": row.exchanges,
        },
        {"api": "Fetch"},
    )  # fmt: skip


def latencies(seen: Context) -> Iterator[Finding]:
    """Typical latencies, of writes and reads."""
    chosen = usual_apis(seen)
    # Long polls have a separate sentence.
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
    """Their p99, the longest of those with too few requests for one, and their broker time."""
    many = [_usual(row) for row in rows if row.exchanges >= ENOUGH]
    few = [_usual(row) for row in rows if row.exchanges < ENOUGH]
    parts = [f"p99 of {listed(many, 'API')}"] if many else []
    parts += [f"longest {listed(few, 'API')}"] if few else []
    return "; ".join(parts)


def _usual(row: ApiRow) -> str:
    is_many = row.exchanges >= ENOUGH
    latency, work = (
        (row.latency.p99_ns, row.work.p99_ns) if is_many else (row.latency.max_ns, row.work.max_ns)
    )
    is_long_poll = row.waited >= HALF and work is not None
    more = f" (broker time {duration(work)})" if is_long_poll else ""
    return f"{row.api} {duration(latency)}{more}"


def is_polled(row: ApiRow) -> bool:
    """Return whether its latency is the wait that consumers requested, and the broker is quick."""
    latency = row.latency.p99_ns or 0
    is_quick = (row.work.p99_ns or 0) <= (1 - POLLED) * latency
    is_long = latency >= POLLED_NS and row.waited >= POLLED
    return is_long and is_quick and row.exchanges >= ENOUGH


RULES: Final = (stalls, followers, slow_brokers, network, quotas, polls, latencies)
