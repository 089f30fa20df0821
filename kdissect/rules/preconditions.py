"""Evidence to query: none that would only repeat the counters.

A gate is open when the rules on that evidence could find something, judged by counters of the whole
capture: it may open in vain, but behind a closed one no rule would have found anything. The
exception is `commits`, see there and docs/decisions/findings.md.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Final

from kdissect.analysis.brokers import FOLLOWER
from kdissect.analysis.dimensions import MS, SECOND_NS
from kdissect.analysis.questions.failovers import OF_LEADERSHIP
from kdissect.analysis.summary.counters import ApiRow
from kdissect.rules.capture_rules import SILENT
from kdissect.rules.client_rules import (
    CHURN,
    FEW,
    OFTEN,
    SINGLE,
    SKEWED,
    SKEWED_BYTES,
    SKEWED_PARTITIONS,
)
from kdissect.rules.compiled_sql import DIRECTORY
from kdissect.rules.connection_rules import LOOKS
from kdissect.rules.context import Context
from kdissect.rules.group_rules import AGAIN, SOME_BEHIND
from kdissect.rules.latency_rules import OWN, SLOW_NS, SOME

LONG_NS: Final = 500 * MS  # a single exchange this long is examined
GIVEN_UP_NS: Final = SECOND_NS  # no client's request timeout is shorter
SPOKEN: Final = "spoken.json"


def wanted(seen: Context, is_all: bool = False) -> list[str]:
    """The names of the evidence to query, in the order in which rules use it."""
    if not seen.summary.totals.exchanges:
        # Brokers that refuse all connections leave nothing else.
        is_silent = all(row.protocol == SILENT for row in seen.summary.others)
        return ["health"] if is_silent and seen.signs.silent >= FEW else []
    return [name for name, is_open in GATES.items() if is_all or is_open(seen)]


def drawn(seen: Context, is_all: bool = False) -> list[str]:
    """The names of the evidence that a page draws."""
    return [name for name, is_open in PAGE_GATES.items() if is_all or is_open(seen)]


def has_errors(seen: Context) -> bool:
    return bool(seen.summary.errors)


def has_blackouts(seen: Context) -> bool:
    if any(row.name in OF_LEADERSHIP for row in seen.summary.errors):
        return True
    # Clients that leave a request unanswered and continue at another broker.
    left = sum(row.unanswered for row in _of(seen, "Produce", "Fetch", "Metadata"))
    return left > 0 and len(seen.signs.brokers) > 1


def has_slow_acks(seen: Context) -> bool:
    is_slow = any((row.latency.p99_ns or 0) >= SLOW_NS for row in _of(seen, "Produce"))
    follower = re.compile(FOLLOWER)
    has_followers = any(follower.match(row.client_id) for row in seen.summary.clients)
    return is_slow and has_followers and seen.signs.acks_all > 0


def has_slow_work(seen: Context) -> bool:
    return any(
        (row.work.p99_ns or 0) >= SLOW_NS and row.exchanges >= SOME
        for row in seen.summary.apis
        if row.api in OWN
    )


def has_long_work(seen: Context) -> bool:
    return any((row.work.max_ns or 0) >= LONG_NS for row in _of(seen, *OWN))


def may_repeat(seen: Context) -> bool:
    """Return whether a producer may have had a reason to send a batch again."""
    is_degraded = seen.summary.troubled_count > 0 or seen.signs.resets > 0
    is_degraded |= seen.signs.producers.have_returned
    return any(
        row.with_errors or row.unanswered or is_degraded or (row.latency.max_ns or 0) >= GIVEN_UP_NS
        for row in _of(seen, "Produce")
    )


def has_commits(seen: Context) -> bool:
    """Return whether groups were active enough for their commits and deliveries to be read."""
    if seen.signs.redelivered >= AGAIN:
        return True
    apis = _of(seen, "OffsetCommit", "TxnOffsetCommit", "Fetch")
    return bool(apis) and seen.signs.members > 0


def is_behind(seen: Context) -> bool:
    """Groups whose commits are far behind an end, even if their members have fetched ahead."""
    return bool(_of(seen, "OffsetCommit", "OffsetFetch")) and seen.signs.most_behind >= SOME_BEHIND


def has_old_versions(seen: Context) -> bool:
    known = spoken()
    return any(
        row.versions and row.versions[0] < known[row.api][0]
        for row in seen.summary.apis
        if row.api in known
    )


def has_odd_traffic(seen: Context) -> bool:
    signs = seen.signs
    lonely = signs.single_batches >= SINGLE * OFTEN
    metadata = sum(row.exchanges for row in _of(seen, "Metadata"))
    fetches = sum(row.exchanges for row in _of(seen, "Fetch"))
    return signs.throttled > 0 or metadata >= OFTEN or lonely or _per_second(seen, fetches) >= OFTEN


def is_unhealthy(seen: Context) -> bool:
    network, signs = seen.summary.network, seen.signs
    sent_again = network.retransmitted_segments if network.network_lost_bytes else 0
    is_degraded = sent_again + network.zero_windows >= FEW
    is_refused = signs.resets >= FEW or signs.silent >= FEW or signs.closed_by_broker >= FEW
    if any(times >= LOOKS for times in signs.lookers.values()):
        return True
    if has_slow_work(seen):
        return True  # how far brokers are is a part of their times
    return bool(is_degraded or is_refused) or seen.summary.totals.connections > CHURN


def has_odd_topics(seen: Context) -> bool:
    """Return whether a partition is hot, or there are several codecs: brokers may recompress."""
    is_skewed = seen.signs.skewed_topics(SKEWED_BYTES, SKEWED_PARTITIONS, SKEWED) > 0
    return is_skewed or len(seen.signs.codecs) > 1


def has_failed_logins(seen: Context) -> bool:
    return seen.signs.failed_logins > 0


@cache
def spoken() -> dict[str, tuple[int, int]]:
    """API → oldest and newest version of the release that `upgrade` checks."""
    text = (DIRECTORY / SPOKEN).read_text(encoding="utf-8")
    return {name: (low, high) for name, (low, high) in json.loads(text).items()}


def _of(seen: Context, *names: str) -> list[ApiRow]:
    return [row for row in seen.summary.apis if row.api in names]


def _per_second(seen: Context, number: int) -> float:
    return number * SECOND_NS / seen.span_ns if seen.span_ns else 0.0


GATES: Final[dict[str, Callable[[Context], bool]]] = {
    "failovers": has_blackouts,
    "errors": has_errors,
    "logins": has_failed_logins,
    "slowest": has_long_work,
    "work": has_slow_work,
    "acks": has_slow_acks,
    "retries": may_repeat,
    "delivery": may_repeat,
    "rebalances": lambda seen: seen.signs.members > 0,
    "commits": has_commits,
    "lag": is_behind,
    "transactions": lambda seen: seen.signs.transactional > 0,
    "traffic": has_odd_traffic,
    "health": is_unhealthy,
    "upgrade": has_old_versions,
    "skew": has_odd_topics,
}
PAGE_GATES: Final[dict[str, Callable[[Context], bool]]] = {
    "rebalance_times": GATES["rebalances"],
    "failover_times": GATES["failovers"],
}
