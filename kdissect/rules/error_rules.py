"""Findings about failures: error codes, logins, ACLs, failovers, unanswered requests."""

from collections.abc import Iterator
from typing import Final

from kdissect.analysis.dimensions import MS, SECOND_NS
from kdissect.analysis.error_advice import ADVICE, UNKNOWN_PREFIX, advice_of
from kdissect.analysis.questions.failovers import LEADERLESS, OF_LEADERSHIP
from kdissect.rules.catalogue import ERROR
from kdissect.rules.client_rules import FAILED
from kdissect.rules.conditions import among
from kdissect.rules.context import PEERS, Context, number, time_ns
from kdissect.rules.evidence_rows import CLIENT, Chosen, Row, Rows
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding
from kdissect.rules.formatting import clients_of, named, several, their
from kdissect.rules.overtaking import OUT_OF_ORDER, overtaking
from kdissect.text.human import count, counted, duration, share

PART_OF_PROTOCOL: Final = "Part of the protocol"
LOGIN: Final = frozenset((
    "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE",
))  # fmt: skip
RIGHTS: Final = "AUTHORIZATION_FAILED"
# Responses of a running broker that is no longer the leader: leaders were moved, as before a
# restart.
# What clients take at most to learn of a new leader: some tries, with pauses that double from
# 100 ms to 1 s (retry.backoff.ms, retry.backoff.max.ms).
MOVE_NS: Final = 1_500 * MS
ONCE_EACH_WAY: Final = 2  # errors of a partition: one writes and one reads
OF_MOVES: Final = frozenset(("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH"))
REPLICAS: Final = frozenset(("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"))
# Client operations on partitions; leader changes of followers are not separate failures.
ACCESS: Final = {"produce": "written", "fetch": "read"}
TOPICS: Final = frozenset((
    "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID",
))  # fmt: skip
# Clients that write, read or are in a group; others are operators' tools, whose users see errors.
DATA_APIS: Final = frozenset((
    "Produce", "Fetch", "ShareFetch", "ShareAcknowledge", "OffsetCommit", "TxnOffsetCommit",
    "JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn",
))  # fmt: skip
# APIs called by programs, not people.
BACKGROUND_APIS: Final = DATA_APIS | {
    "Metadata", "FindCoordinator", "ApiVersions", "OffsetFetch", "ListOffsets", "SaslHandshake",
    "OffsetForLeaderEpoch", "AddOffsetsToTxn", "LeaveGroup",
}  # fmt: skip
# Kafka's own clients receive these with new topics, leaders and coordinators; for at most this
# long. A new partition is in the metadata before its broker leads it.
AT_FIRST: Final = frozenset((
    *TOPICS, "LEADER_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR", "NOT_CONTROLLER", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
))  # fmt: skip
# Failures of the broker itself, independent of the request.
OF_BROKERS: Final = frozenset(("UNKNOWN_SERVER_ERROR", "KAFKA_STORAGE_ERROR", "CORRUPT_MESSAGE"))
SETTLED_NS: Final = 5 * SECOND_NS
EXAMPLE: Final = 60
MESSAGE: Final = 80  # characters of a broker's own message
# Some of these are in flight whenever a client closes or the capture ends.
WAITING_APIS: Final = frozenset((
    "Fetch", "ShareFetch", "JoinGroup", "SyncGroup", "FetchSnapshot", "BrokerHeartbeat",
))  # fmt: skip
FEW: Final = 3  # requests, and names of APIs
UNANSWERED_SHARE: Final = 0.01


def failovers(seen: Context) -> Iterator[Finding]:
    """Partitions that had a leader, lost it and got a new one."""
    by_broker = seen.grouped("failovers", lambda row: row["old_broker"], wanted=is_failover)
    if not by_broker:
        return
    ways = seen.grouped(
        "failovers", lambda row: (row["old_broker"], row["access"]), wanted=is_failover
    )
    words = (*ACCESS, "metadata")
    of_these = FAILED & among("broker", by_broker)
    refused = seen.grouped("health", lambda row: row["broker"], of_these)
    for broker, rows in sorted(by_broker.items(), key=lambda one: -longest_time(one[1])):
        by_access = {access: ways.get((broker, access), Chosen()) for access in words}
        yield _blackout(broker, rows, by_access, refused.get(broker, Chosen()))


def longest_time(rows: Chosen) -> int:
    """The longest time that partitions were without a leader, or were tried in vain."""
    return max(map(rows.largest, ("blackout_ns", "slowest_client_ns", "failing_ns")))


def is_failover(row: Row) -> bool:
    """Return whether partitions moved away from a broker; creation and deletion do not count."""
    is_gone = row["cause"] in TOPICS and not row["new_broker"]
    is_access = row["access"] in ACCESS and row["cause"] not in REPLICAS
    is_access |= has_no_leader(row)
    return bool(row["old_broker"]) and is_access and not is_gone and was_tried(row)


def has_no_leader(row: Row) -> bool:
    """Return whether metadata of a partition had no leader for a second or longer."""
    is_long = max(number(row, "blackout_ns"), number(row, "failing_ns")) >= SECOND_NS
    return bool(row["access"] == "metadata" and row["cause"] == LEADERLESS) and is_long


def was_tried(row: Row) -> bool:
    """Return whether clients found no leader, rather than going where nothing was captured.

    After one refusal a client asks for the new leader, which may be a broker that the capture
    does not have.
    """
    is_over = number(row, "unfinished") < number(row, "blackouts")
    return is_over or bool(row["new_broker"]) or number(row, "failing_ns") >= SECOND_NS


def _blackout(broker: str, rows: Chosen, by_access: dict[str, Chosen], gone: Chosen) -> Finding:
    longest = rows.largest("blackout_ns")
    unfinished = max(those.total("unfinished") for those in by_access.values())
    failing = rows.largest("failing_ns")
    times = {word: by_access[access].largest("blackout_ns") for access, word in ACCESS.items()}
    accesses = " and ".join(f"{word} for up to {duration(ns)}" for word, ns in times.items() if ns)
    after = sorted({row["new_broker"] for row in rows if row["new_broker"]} - {broker})
    causes = ", ".join(several(rows, "cause"))
    partitions = max(those.total("blackouts") for those in by_access.values())
    slowest = rows.largest("slowest_client_ns")
    text = f"{counted(partitions, 'partition')} of {broker} "
    leaderless = by_access["metadata"]
    if leaderless:
        text += f"had no leader for up to {duration(longest_time(leaderless))}"
        text += f" ({_place(leaderless[0])})"
        text += f", and could not be {accesses}" if accesses else ""
    else:
        text += f"could not be {accesses or 'served'}"
    if unfinished:
        text += f", {count(unfinished)} of them until the last attempt in the capture"
        text += f" after {duration(failing)}" if failing else ""
    if after:
        text += f"; then {', '.join(after[:3])} took over"
    text += f": {causes}, {counted(rows.total('errors'), 'partition error')}"
    refused = gone.total("refused") + gone.total("no_answer")
    if refused:
        text += f"; {broker} refused {counted(refused, 'connection')}"
    if slowest > longest:
        text += f"; the slowest client took {duration(slowest)}"
    longest_of_all = longest_time(rows)
    is_own = all(row["refused_by"] == broker for row in rows)  # which was running
    is_orderly = not unfinished and OF_MOVES.issuperset(several(rows, "cause"))
    is_orderly &= refused < FEW or is_own
    is_once = rows.total("errors") <= ONCE_EACH_WAY * partitions
    is_usual = longest_of_all < (SETTLED_NS if is_once else MOVE_NS)
    severity = PROBLEM if longest_of_all >= SECOND_NS else WARNING
    return Finding(
        "failover-blackout",
        NOTICE if is_orderly and is_usual else severity,
        text,
        {
            "blackout_ns": longest, "slowest_client_ns": slowest, "partitions": partitions,
            "unfinished": unfinished, "errors": rows.total("errors"),
            "clients": rows.largest("clients"),
        },
        {"broker": broker, "new_brokers": after, "topic": rows[0]["topic"]},
        rows.earliest("started"),
        rows.latest("last_started"),
        rows.first_packet(),
    )  # fmt: skip


def _place(row: Row) -> str:
    topic, partition = named(row["topic"]), row["partition"]
    return topic if partition is None else f"{topic}-{partition}"


def replicas(seen: Context) -> Iterator[Finding]:
    """Fewer in-sync replicas than the topic requires."""
    rows = seen.chosen("errors", among("error", REPLICAS))
    if not rows:
        return
    blackouts = seen.chosen("failovers", among("cause", REPLICAS))
    longest = blackouts.largest("blackout_ns")
    until = f", for up to {duration(longest)}" if longest else ""
    open_ = blackouts.total("unfinished")
    names = dict.fromkeys(str(row["error"]) for row in rows)
    yield Finding(
        "replicas-missing",
        PROBLEM,
        f"Too few replicas were in sync: {' and '.join(names)} "
        f"{counted(rows.total('exchanges'), 'time')} to {clients_of(rows)}{until}"
        + (f"; {counted(open_, 'partition')} until the capture's end" if open_ else ""),
        {"errors": rows.total("errors"), "blackout_ns": longest, "unfinished": open_},
        {"topic": blackouts[0]["topic"]} if blackouts else {},
        rows.earliest("first_seen"),
        rows.latest("last_seen"),
        rows.first_packet(),
    )


def logins(seen: Context) -> Iterator[Finding]:
    """SASL logins that were rejected."""
    refused = seen.chosen("errors", among("error", LOGIN))
    silent = seen.chosen("logins")
    if not refused and not silent:
        return
    coded = refused.total("errors")
    failed = max(coded, silent.total("failed_logins"))
    causes = ", ".join(several(refused, "error")) or "the broker closed the connection"
    if 0 < coded < failed:  # `errors` has those with a code alone
        causes += f"; {count(failed - coded)} without an error code"
    mechanisms = ", ".join(dict.fromkeys(row["mechanisms"] for row in silent if row["mechanisms"]))
    # Of some clients no login failed with a code.
    clients = silent if silent.distinct(CLIENT) > refused.distinct(CLIENT) else refused
    yield Finding(
        "authentication-fails",
        PROBLEM,
        f"{counted(failed, 'login')} of {clients_of(clients)} failed"
        + (f" ({mechanisms})" if mechanisms else "")
        + f": {causes}"
        + _message(refused),
        {"logins": failed},
        their(clients),
        refused.earliest("first_seen") or silent.earliest("first_time"),
        refused.latest("last_seen") or silent.latest("last_time"),
        refused.first_packet() if refused else None,
    )


def rights(seen: Context) -> Iterator[Finding]:
    """Authorization failures of clients."""
    rows = seen.chosen("errors", wanted=lambda row: row["error"] and RIGHTS in row["error"])
    if rows:
        causes = ", ".join(several(rows, "error"))
        apis = ", ".join(several(rows, "api"))
        yield Finding(
            "authorization-fails",
            PROBLEM,
            f"{clients_of(rows)} lacked authorization ({apis}): {causes} "
            f"{counted(rows.total('exchanges'), 'time')}",
            {"errors": rows.total("errors"), "exchanges": rows.total("exchanges")},
            their(rows),
            rows.earliest("first_seen"),
            rows.latest("last_seen"),
            rows.first_packet(),
        )


def codes(seen: Context) -> Iterator[Finding]:
    """All other codes that healthy clients do not receive."""
    has_orphans = "orphan" in seen.summary.totals.outcomes
    overtook = overtaking(seen)

    def is_other(row: Row) -> bool:
        name = row["error"] or "UNKNOWN"
        if not row["client"] and has_orphans and name in AT_FIRST:
            return False  # of many clients whose requests were not captured: each may be its first
        explained = overtook.get((row["client"], row["client_ip"]), 0)
        if name == OUT_OF_ORDER and number(row, "errors") <= explained:
            return False
        return not (name in LOGIN | REPLICAS or RIGHTS in name or is_usual(name, row))

    by_error = seen.grouped("errors", lambda row: row["error"] or "UNKNOWN", wanted=is_other)
    for name, rows in by_error.items():
        yield _code(seen, name, rows)


def is_usual(name: str, row: Row) -> bool:
    """Return whether healthy clients receive the code, too."""
    if name in OF_LEADERSHIP and PEERS.match(row["client"] or ""):
        return True
    if name in AT_FIRST:
        first, last = time_ns(row, "first_seen"), time_ns(row, "last_seen")
        return (last or 0) - (first or 0) < SETTLED_NS
    # Tools describe a group with the new API first, then with the old one.
    if name == "GROUP_ID_NOT_FOUND" and named(row["api"]).endswith("GroupDescribe"):
        return True
    return ADVICE.get(name, "").startswith(PART_OF_PROTOCOL)


def _code(seen: Context, name: str, rows: Rows) -> Finding:
    is_of_broker = name in OF_BROKERS or name.startswith(UNKNOWN_PREFIX)
    is_final = any(row["is_retriable"] is False and row["api"] in DATA_APIS for row in rows)
    is_background = any(row["api"] in BACKGROUND_APIS for row in rows)
    apis = ", ".join(several(rows, "api"))
    example = next((row.concerns for row in seen.summary.errors if row.name == name), "")
    example = example if len(example) <= EXAMPLE else ""
    codes, responses = rows.total("errors"), rows.total("exchanges")
    advice = advice_of(name, {str(row["api"]) for row in rows})
    text = f"{name} {counted(responses, 'time')} to {clients_of(rows)} ({apis}"
    text += f"; for example {example})" if example else ")"
    return Finding(
        ERROR + name,
        PROBLEM if is_final else WARNING if is_background or is_of_broker else NOTICE,
        f"{text}{_message(rows)}" + (f". {advice.rstrip('.')}" if advice else ""),
        {"errors": codes, "exchanges": responses, "partitions": rows.largest("partitions")},
        their(rows) | {"error": name, "example": example, "apis": apis.split(", ")},
        rows.earliest("first_seen"),
        rows.latest("last_seen"),
        rows.first_packet(),
    )


def unanswered(seen: Context) -> Iterator[Finding]:
    """Requests without a response, other than those that wait for another client."""
    rows = [row for row in seen.summary.apis if row.api not in WAITING_APIS and row.api_key >= 0]
    in_flight = seen.signs.in_flight(seen.summary.totals.last_time_ns or 0)
    left_by = {row.api: row.unanswered - in_flight[row.api] for row in rows}
    left, asked = sum(left_by.values()), sum(row.exchanges - in_flight[row.api] for row in rows)
    is_some = left >= FEW and left >= UNANSWERED_SHARE * asked
    if not is_some and not (left and left == asked):
        return
    worst = sorted((api for api, times in left_by.items() if times), key=lambda api: -left_by[api])
    parts = ", ".join(f"{count(left_by[api])} {named(api)}" for api in worst[:FEW])
    young = sum(in_flight[row.api] for row in rows)
    parts += f", without {count(young)} of the last second" if young else ""
    yield Finding(
        "requests-unanswered",
        WARNING,
        f"{counted(left, 'request')} of {count(asked)} ({share(left, asked)}) got no response: "
        f"{parts}",
        {"unanswered": left, "share": left / asked, "in_flight": young},
        {"apis": worst},
        seen.summary.totals.first_time_ns,
        seen.summary.totals.last_time_ns,
    )


def _message(rows: Rows) -> str:
    text = next((row["message"] for row in rows if row["message"]), "").rstrip(".")
    short = text if len(text) <= MESSAGE else f"{text[: MESSAGE - 1]}…"
    return f" ({short})" if short else ""


RULES: Final = (failovers, replicas, logins, rights, codes, unanswered)
