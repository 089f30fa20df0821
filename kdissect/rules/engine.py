"""All rules together: causes before symptoms, the worst first.

Where bytes are missing in a capture, only findings based on captured data alone are problems or
warnings. The cause of the others may be in the missing part: a follower's fetches behind a slow
Produce, the end of a transaction, the rebalance behind an error. They become notices. Longer than
other modules: the order of all rules is the point of this module.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from kdissect.analysis.questions.failovers import OF_LEADERSHIP
from kdissect.rules import (
    capture_rules,
    client_rules,
    connection_rules,
    error_rules,
    group_rules,
    latency_rules,
    produce_rules,
)
from kdissect.rules.catalogue import ERROR
from kdissect.rules.context import Context
from kdissect.rules.evidence_rows import ROWS
from kdissect.rules.finding import NOTICE, PROBLEM, Finding, weight
from kdissect.rules.formatting import listed, named
from kdissect.rules.overtaking import OUT_OF_ORDER
from kdissect.text.human import TEXT_LENGTH, count, counted, cut, plural

Rule = Callable[[Context], Iterator[Finding]]
RULES: Final[tuple[Rule, ...]] = (
    *capture_rules.RULES,
    *error_rules.RULES,
    *latency_rules.RULES,
    *produce_rules.RULES,
    *group_rules.RULES,
    *client_rules.RULES,
    *connection_rules.RULES,
)
# Error codes that are covered by the finding about their cause.
EXPLAINED: Final = {
    # Of batches in flight, the second reaches the new leader before the first, which was refused.
    "failover-blackout": (*OF_LEADERSHIP, OUT_OF_ORDER),
    # Producers give a batch up, with a new epoch; brokers could not replicate acks=all.
    "broker-unreachable": (
        OUT_OF_ORDER, "INVALID_PRODUCER_EPOCH", "UNKNOWN_PRODUCER_ID", "REQUEST_TIMED_OUT",
        *OF_LEADERSHIP,
    ),
    "hanging-transaction": ("CONCURRENT_TRANSACTIONS", "UNSTABLE_OFFSET_COMMIT"),
    "transactional-id-taken-over": (*produce_rules.DECIDED, OUT_OF_ORDER),
    # Batches that were on their way when their transaction was aborted.
    "transactions-abort": (OUT_OF_ORDER, "INVALID_PRODUCER_EPOCH"),
    "throttled-by-quota": ("THROTTLING_QUOTA_EXCEEDED",),
    "member-fenced": ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"),
    "coordinator-moved": (
        "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    ),
}  # fmt: skip
OF_REBALANCES: Final = (
    "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "FENCED_MEMBER_EPOCH",
    "STALE_MEMBER_EPOCH",
)  # fmt: skip
# A static member that was replaced while it was lost is fenced when it comes back. Else two members
# that run have one group.instance.id.
FENCED: Final = "FENCED_INSTANCE_ID"
LOST: Final = ("session-timeout", "max-poll-exceeded")
REBALANCES: Final = (
    "session-timeout", "max-poll-exceeded", "rebalance-storm", "rebalance-stops-group",
    "static-member-restart",
)  # fmt: skip
# Consequences of other findings about the same group.
OF_ONE_GROUP: Final = ("rebalance-stops-group", "member-fenced")
# Of brokers, in which they forget members.
SILENCES: Final = ("broker-stalls", "failover-blackout", "coordinator-moved")
# TLS on one side of a connection.
MISMATCHES: Final = ("tls-on-plaintext-port", "plaintext-on-tls-port")
# Symptom → causes: the first is suppressed when one of the others is found.
SYMPTOMS: Final = {
    "broker-slow": (
        "broker-stalls", "produce-latency-slow-follower", "network-makes-p99",
        "receiver-does-not-read", "client-fills-link",
    ),
    # A broker does not read requests of a throttled client.
    "receiver-does-not-read": ("throttled-by-quota",),
    "requests-unanswered": (
        "broker-stalls", "failover-blackout", "produce-sent-again", "plaintext-on-tls-port",
        "broker-unreachable",
    ),
    "connection-churn": ("authentication-fails", *MISMATCHES, "idle-connections-closed"),
    "connections-reset": ("authentication-fails", *MISMATCHES, "failover-blackout"),
    "connections-encrypted": ("tls-on-plaintext-port",),
    "advertised-listener-unreachable": ("idle-connections-closed", "broker-refuses-connections"),
    "broker-refuses-connections": ("failover-blackout", "acks-0-records-lost"),
    "produce-sent-again": ("failover-blackout", "broker-unreachable"),
    "static-member-restart": (ERROR + FENCED,),
    "coordinator-moved": ("failover-blackout", "broker-refuses-connections", "broker-stalls"),
    "fetch-mostly-long-poll": ("healthy",),
    "latencies": ("healthy",),
}  # fmt: skip
# Symptoms of old clients when brokers close their connections.
OF_REFUSED: Final = ("connection-churn", "requests-unanswered", "produce-sent-again")
# Symptoms of clients whose connections brokers end before they answer anything.
OF_TURNED_AWAY: Final = (
    "connection-churn", "requests-unanswered", "advertised-listener-unreachable",
)  # fmt: skip
# Findings about late or missing replicas, for which leaders hold requests.
OF_REPLICAS: Final = frozenset((
    "produce-latency-slow-follower", "replicas-missing", "failover-blackout",
))  # fmt: skip
REPLICATED: Final = latency_rules.COMMITS | {"Produce"}
LOSSES: Final = "capture-loses-packets"
# Findings that hold with missing bytes: error codes, times and versions that were captured, and
# findings about the capture itself.
CERTAIN: Final = frozenset((
    LOSSES, "connections-encrypted", "messages-undecoded", "not-asked", "no-kafka",
    "authentication-fails", "authorization-fails", "replicas-missing", "throttled-by-quota",
    "failover-blackout", "duplicates-in-log", "client-breaks-on-4.0", "broker-stalls",
    "broker-unreachable",
    *MISMATCHES, "round-trip-makes-latency", "connection-churn",
))  # fmt: skip
STALLS: Final = "broker-stalls"
NETWORK: Final = "network-makes-p99"
UNREACHABLE: Final = "broker-unreachable"
# Symptoms of a broker whose host is not there.
OF_UNREACHABLE: Final = (NETWORK, STALLS, "broker-refuses-connections", "broker-slow")
FEW_SEGMENTS: Final = 10
SLOW_FOLLOWER: Final = "produce-latency-slow-follower"
ONLY_IN_ALL: Final = ("may-lose-records",)
SHOWN: Final = 8
NOTICES: Final = 2
ALIKE: Final = 3  # findings of one id and severity that have a sentence each
# What findings of one id differ in, the first that all of them have.
ENTITIES: Final = ("group", "transaction", "broker", "client", "topic", "error", "api")
# Length of a sentence: it names three items at a time, of up to 150 characters each, in two or
# three places.
SENTENCE_LENGTH: Final = 1_500
LISTED: Final = ROWS  # items that a finding concerns; their number is reported beside them


def judge(seen: Context) -> list[Finding]:
    """All findings, the worst first."""
    found = [finding for rule in RULES for finding in judged(seen, rule)]
    found = [finding for finding in found if not is_explained(finding, found)]
    if all(finding.severity == NOTICE for finding in found):
        found += healthy(seen, [one for one in found if one.id.startswith(ERROR)])
    found = [one for one in found if not is_symptom(one, found)]
    if is_partial(found):
        found = [softened(one) for one in found]
    return [bounded(one) for one in sorted(found, key=weight)]


def is_partial(found: Iterable[Finding]) -> bool:
    """Return whether so many bytes are missing that causes may be among them."""
    return any(one.id == LOSSES for one in found)


def softened(finding: Finding) -> Finding:
    """A finding of a capture with missing bytes: a notice, unless it holds regardless."""
    if finding.severity == NOTICE or is_certain(finding):
        return finding
    text = f"{finding.text}; what is missing in the capture may explain it"
    return replace(finding, severity=NOTICE, text=text)


def is_certain(finding: Finding) -> bool:
    """Return whether the captured data suffice for the finding."""
    if not finding.id.startswith(ERROR):
        return finding.id in CERTAIN
    name = finding.id.removeprefix(ERROR)
    explained = name in (*OF_REBALANCES, FENCED) or any(
        name in names for names in EXPLAINED.values()
    )
    return not explained and "Produce" not in finding.concerns["apis"]


def judged(seen: Context, rule: Callable[[Context], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of a rule; where its evidence was cut, they state that more exists."""
    seen.cut.clear()
    for one in rule(seen):
        if seen.cut:
            text = f"{one.text}; at least: only the first {count(ROWS)} rows were examined"
            one = replace(one, text=text, numbers={**one.numbers, "is_at_least": True})
        yield one


def bounded(finding: Finding) -> Finding:
    """The finding with texts and lists limited for a page."""
    concerns: dict[str, Any] = {}
    for name, value in finding.concerns.items():
        if isinstance(value, str):
            concerns[name] = cut(value, TEXT_LENGTH)
        elif isinstance(value, list | tuple):
            concerns[name] = [
                cut(one, TEXT_LENGTH) if isinstance(one, str) else one for one in value[:LISTED]
            ]
            if len(value) > LISTED:
                concerns.setdefault(f"{name}_count", len(value))
        else:
            concerns[name] = value
    return replace(finding, text=cut(finding.text, SENTENCE_LENGTH), concerns=concerns)


def is_explained(finding: Finding, found: Iterable[Finding]) -> bool:
    """Return whether an error code is a consequence of another finding."""
    if not finding.id.startswith(ERROR):
        return False
    name = finding.id.removeprefix(ERROR)
    ids = {one.id for one in found}
    if name in OF_REBALANCES and ids.intersection((*REBALANCES, *SILENCES)):
        return True
    if name == FENCED and ids.intersection(LOST):
        return True
    if any(id_ in ids and name in names for id_, names in EXPLAINED.items()):
        return True
    return any(one.id == "produce-gave-up" and one.concerns["error"] == name for one in found)


def is_symptom(finding: Finding, found: Sequence[Finding]) -> bool:
    """Return whether a finding is the consequence of another one."""
    ids = {one.id for one in found}
    causes = SYMPTOMS.get(finding.id, ())
    if finding.id in OF_ONE_GROUP:
        return any(
            one.id in REBALANCES and one.id != finding.id
            and one.concerns["group"] == finding.concerns["group"]
            for one in found
        )  # fmt: skip
    if finding.id in OF_REFUSED and refused(found):
        return True
    if finding.id in OF_UNREACHABLE and is_unreachable(finding, found):
        return True
    if finding.id in OF_TURNED_AWAY and turned_away(found):
        return True
    if finding.id == "requests-unanswered" and any(
        one.id == LOSSES and one.severity == PROBLEM for one in found
    ):
        # The missing part is responses.
        return True
    if finding.id == "requests-unanswered" and leaves_unread(found):
        return True
    if finding.id == NETWORK:
        return is_filled_link(finding, found) or is_of_lost_leaders(finding, found)
    if finding.id == STALLS:
        # A leader of acks=all waits for followers; one that stalls holds all requests.
        is_held = REPLICATED.issuperset(finding.concerns["apis"]) or (
            finding.numbers["requests"] == 1
        )
        is_told = is_during(finding, found) or is_throttle(finding, found)
        if is_held and finding.severity != PROBLEM and is_another_down(finding, found):
            return True
        return (is_held and bool(ids & (OF_REPLICAS | {LOSSES}))) or is_told
    if finding.id == "broker-slow" and waits_for_lost(finding, found):
        return True
    if finding.id == SLOW_FOLLOWER:
        if finding.severity != PROBLEM and is_down(found):
            return True
        stalls = any(one.id == STALLS and not is_symptom(one, found) for one in found)
        return stalls or "failover-blackout" in ids
    return bool(ids.intersection(causes))


def leaves_unread(found: Iterable[Finding]) -> bool:
    """Return whether a slow broker did not even read all requests."""
    return any(one.id == "broker-slow" and one.numbers["zero_window_ns"] for one in found)


def is_unreachable(finding: Finding, found: Sequence[Finding]) -> bool:
    """Return whether all brokers of a finding are unreachable; one that resets is reachable."""
    own = finding.concerns.get("brokers") or [finding.concerns.get("broker")]
    gone = {one.concerns["broker"] for one in found if one.id == UNREACHABLE}
    return gone.issuperset(own) and not finding.numbers.get("refused")


def is_down(found: Iterable[Finding]) -> bool:
    """Return whether a broker is down: acks=all waits for it until it is out of the replicas."""
    return any(one.id in ("broker-refuses-connections", UNREACHABLE) for one in found)


def waits_for_lost(slow: Finding, found: Sequence[Finding]) -> bool:
    """Return whether a leader is slow only where it waits for followers, and a broker was lost."""
    is_held = slow.severity != PROBLEM and REPLICATED.issuperset(slow.concerns["apis"])
    is_lost = any(one.id == "coordinator-moved" for one in found)
    return is_held and (is_lost or is_another_down(slow, found))


def is_another_down(stall: Finding, found: Sequence[Finding]) -> bool:
    """Return whether another broker refuses connections; it may be the slow follower."""
    return any(
        set(one.concerns["brokers"]) - {stall.concerns["broker"]}
        for one in found
        if one.id == "broker-refuses-connections"
    )


def is_filled_link(network: Finding, found: Sequence[Finding]) -> bool:
    """Return whether all clients that lose packets are those that fill a link."""
    return any(
        set(network.concerns["clients"]) <= set(one.concerns["clients"])
        for one in found
        if one.id == "client-fills-link"
    )


def is_of_lost_leaders(network: Finding, found: Sequence[Finding]) -> bool:
    """Return whether clients waited for new leaders and few segments were retransmitted."""
    is_little = (network.numbers["retransmitted_segments"] or 0) < FEW_SEGMENTS
    return is_little and any(
        one.id == "failover-blackout" and one.severity == PROBLEM for one in found
    )


def is_during(stall: Finding, found: Sequence[Finding]) -> bool:
    """Return whether partitions changed their leader at that time."""
    for one in found:
        if one.id != "failover-blackout" or not one.first_time_ns or not stall.first_time_ns:
            continue
        until = (one.last_time_ns or 0) + (one.numbers["blackout_ns"] or 0)
        if one.first_time_ns <= (stall.last_time_ns or 0) and stall.first_time_ns <= until:
            return True
    return False


def is_throttle(stall: Finding, found: Sequence[Finding]) -> bool:
    """Return whether only throttled clients waited; before Kafka 2.0 responses are delayed."""
    return any(
        set(stall.concerns["clients"]) <= set(one.concerns["clients"])
        for one in found
        if one.id == "throttled-by-quota"
    )


def refused(found: Sequence[Finding]) -> bool:
    """Return whether brokers in this capture already close connections of old clients."""
    return any(one.numbers.get("unanswered") for one in found if one.id == "client-breaks-on-4.0")


def turned_away(found: Iterable[Finding]) -> bool:
    """Return whether brokers reset connections before they answered a first request."""
    return any(one.numbers["unanswered"] for one in found if one.id == "connections-reset")


def healthy(seen: Context, errors: Sequence[Finding]) -> Iterator[Finding]:
    """A finding that nothing is wrong, with typical values, and the errors of administration."""
    totals, rows = seen.summary.totals, latency_rules.usual_apis(seen)
    if not rows:
        return
    text = f"Nothing is wrong in {counted(totals.exchanges, 'exchange')}{_unmeasured(seen)}, "
    if errors:
        names = listed([one.id.removeprefix(ERROR) for one in errors], "code")
        text += f"{count(totals.with_errors)} with errors, some of them to admin requests ({names})"
    elif totals.with_errors:
        text += f"{count(totals.with_errors)} with errors that are part of the protocol"
    else:
        text += "none with errors"
    yield Finding(
        "healthy",
        NOTICE,
        f"{text}: {latency_rules.usual_text(rows)}",
        {f"{row.api.lower()}_p99_ns": row.latency.p99_ns for row in rows},
        {"apis": [row.api for row in rows]},
        totals.first_time_ns,
        totals.last_time_ns,
    )


def _unmeasured(seen: Context) -> str:
    """Exchanges of the sentence that are in no row of `latency`."""
    apis = [row for row in seen.summary.apis if row.latency.p99_ns is None]
    orphans = sum(row.exchanges for row in apis if row.api_key < 0)
    silent = sum(row.exchanges for row in apis if row.api_key >= 0)
    parts = [f"{counted(orphans, 'response')} without a captured request"] if orphans else []
    parts += [f"{count(silent)} of APIs without a response"] if silent else []
    return f" ({', '.join(parts)})" if parts else ""


def few(found: list[Finding]) -> list[Finding]:
    """The findings for a page: the worst, and a few of the notices."""
    worse = merged([one for one in found if one.severity != NOTICE])[:SHOWN]
    usual = [one for one in found if one.id in ("healthy", "latencies")]
    notices = [one for one in found if one.severity == NOTICE and one not in usual]
    # Errors of tools concern their users, and are in the table of errors.
    notices = [one for one in notices if one.id not in ONLY_IN_ALL and ERROR not in one.id]
    return [*worse, *notices[:NOTICES], *usual]


def merged(found: Sequence[Finding]) -> list[Finding]:
    """The findings, with those of an id and severity beyond the first few in one sentence."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for one in found:
        alike.setdefault((one.id, one.severity), []).append(one)
    return [
        one
        for each in alike.values()
        for one in (each if len(each) <= ALIKE else [*each[: ALIKE - 1], rest_of(each)])
    ]


def rest_of(alike: Sequence[Finding]) -> Finding:
    """One finding in place of those beyond the first few."""
    rest = alike[ALIKE - 1 :]
    entity = next((name for name in ENTITIES if all(name in one.concerns for one in rest)), None)
    text = f"{counted(len(rest), 'more finding')} of this kind"
    concerns: dict[str, Any] = {}
    if entity is not None:
        names = list(dict.fromkeys(one.concerns[entity] for one in rest))
        noun = entity if len(names) == 1 else plural(entity)
        text += f": {noun} {listed([named(str(name)) for name in names], entity)}"
        concerns = {f"{entity}s": names}
    first = [one.first_time_ns for one in rest if one.first_time_ns is not None]
    last = [one.last_time_ns for one in rest if one.last_time_ns is not None]
    return Finding(
        rest[0].id, rest[0].severity, text, {"findings": len(rest)}, concerns,
        min(first, default=None), max(last, default=None), rest[0].packet,
    )  # fmt: skip
