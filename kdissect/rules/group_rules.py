"""Findings about consumer groups: rebalances and their causes, commits, lag."""

from collections.abc import Iterator, Mapping
from typing import Final

from kdissect.analysis.dimensions import SECOND_NS
from kdissect.analysis.questions.commits import SHARED
from kdissect.rules.conditions import ALL, Condition, among, either, some
from kdissect.rules.context import Context, Wanted, number, time_ns
from kdissect.rules.evidence_rows import NAMED_CLIENT, Chosen, Row, Rows
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding
from kdissect.rules.formatting import client_of, clients_of, listed, named, their
from kdissect.rules.rejoins import Wait
from kdissect.text.human import agreeing, count, counted, duration, share

TIMEOUT: Final = "session timeout"
REQUESTS_OF_GROUPS: Final = (
    "table exchanges --where 'group_id is not null' "
    "--columns request_start,client_id,group_id,api,error"
)
MEMBERS_OF_GROUPS: Final = (
    "table members --where 'group_id is not null' "
    "--columns time,client_id,member_id,generation,event,protocol,error"
)
LOST: Final = either(some("lost"), among("cause", [TIMEOUT]))
MAX_POLL: Final = "max poll exceeded"
STATIC: Final = "static restart"
EMPTIED: Final = "emptied"
LEAVE: Final = "leave"
STORM: Final = 5  # rebalances
STORM_EVERY_NS: Final = 30 * SECOND_NS
STOPPED: Final = 0.1  # share of the capture
MOSTLY_STOPPED: Final = 0.5
# A member that joins or leaves costs less: the others learn of it with their next heartbeat,
# each 3 s by default.
LONG_STOP_NS: Final = 5 * SECOND_NS
OFTEN: Final = 3  # rebalances
AGAIN: Final = 10  # records
MUCH_AGAIN: Final = 500  # as many as one poll returns at most, by default
BEHIND: Final = 1_000
FAR_BEHIND: Final = 10_000
GROWTH: Final = 1.5
# Fewer count where the oldest of them waits longer than between two commits (every 5 s by default).
SOME_BEHIND: Final = 500
LATE_NS: Final = 10 * SECOND_NS
FALLEN_NS: Final = 5 * SECOND_NS


def by_group(
    seen: Context, condition: Condition = ALL, wanted: Wanted | None = None
) -> dict[str, Chosen]:
    """The rebalances of each group that match a rule."""
    return seen.grouped("rebalances", lambda row: named(row["group_id"]), condition, wanted)


def by_cause(seen: Context, wanted: Wanted) -> dict[str, dict[str, Chosen]]:
    """The same by their causes."""
    found: dict[str, dict[str, Chosen]] = {}
    both = seen.grouped(
        "rebalances", lambda row: (named(row["group_id"]), named(row["cause"])), wanted=wanted
    )
    for (group, cause), rows in both.items():
        found.setdefault(group, {})[cause] = rows
    return found


def timeouts(seen: Context) -> Iterator[Finding]:
    """Members that vanished."""
    # In a rebalance with another cause the client is the one that caused it, not the one lost.
    known = by_group(seen, among("cause", [TIMEOUT]), lambda row: row["client_id"])
    for group, lost in by_group(seen, LOST, is_lost).items():
        member = clients_of(known[group]) if group in known else "a member"
        text = f"Group {group} lost {member} to a session timeout"
        times = sum(times_lost(row) for row in lost)
        # Of rebalances that were counted together, some may have lost nothing.
        sure = Rows(row for row in lost if times_lost(row) == number(row, "rebalances"))
        text += _stalled(sure, times) + _after(lost)
        yield _about("session-timeout", PROBLEM, group, lost, text)


def expelled(seen: Context) -> Iterator[Finding]:
    """Members that fell silent and were unknown afterwards, in groups whose joins were not seen."""
    reported = by_group(seen, LOST, is_lost)
    for one in seen.signs.expelled.silences():
        group = named(one.group)
        if group in reported:
            continue
        yield Finding(
            "session-timeout",
            PROBLEM,
            f"Group {group} lost {named(one.client)} to a session timeout: it sent nothing to the "
            f"coordinator for {duration(one.silent_ns)}, which then no longer knew it as a member",
            {"silent_ns": one.silent_ns},
            {"group": group, "clients": [one.client]},
            one.last_ns,
            one.refused_ns,
            one.packet,
            REQUESTS_OF_GROUPS,
        )


def is_lost(row: Row) -> bool:
    """Return whether a member stopped responding."""
    is_other = row["cause"] in (MAX_POLL, STATIC)
    return row["cause"] == TIMEOUT or (number(row, "lost") > 0 and not is_other)


def times_lost(row: Row) -> int:
    """Rebalances of a row that a member's silence made, or in which one was missing."""
    return number(row, "rebalances") if row["cause"] == TIMEOUT else number(row, "lost")


def slow_polls(seen: Context) -> Iterator[Finding]:
    """Members that exceeded their poll interval."""
    for group, slow in by_group(seen, among("cause", [MAX_POLL])).items():
        text = f"{clients_of(slow)} exceeded max.poll.interval.ms and left group {group}"
        text += f"{_stalled(slow)}{_after(slow)}"
        yield _about("max-poll-exceeded", PROBLEM, group, slow, text)


def storms(seen: Context) -> Iterator[Finding]:
    """Groups that rebalance constantly."""
    causes = by_cause(seen, is_real)
    # A consumer that leaves in order and comes back stops no other member.
    left = by_group(seen, among("outcome", [EMPTIED]) & among("cause", [LEAVE]))
    restarts = {group: rows.total("rebalances") for group, rows in left.items()}
    for group, real in by_group(seen, wanted=is_real).items():
        times = real.total("rebalances")
        # Also while the group had no members: they left, or crashed, and came again.
        stopped = real.total("all_stopped_ns")
        is_often = times >= STORM and seen.span_ns < times * STORM_EVERY_NS
        if is_often and stopped >= STOPPED * seen.span_ns:
            text = f"Group {group} rebalanced {counted(times, 'time')} in {duration(seen.span_ns)}"
            text += f", its partitions stalled for {duration(stopped)} in all "
            text += f"({share(stopped, seen.span_ns)}): {_causes(causes[group])}"
            is_short = stopped < MOSTLY_STOPPED * seen.span_ns
            is_mild = is_short and times <= restarts.get(group, 0) + 1
            yield _about("rebalance-storm", NOTICE if is_mild else PROBLEM, group, real, text)


def is_real(row: Row) -> bool:
    """Return whether a group continued with other members."""
    return bool(row["outcome"] != EMPTIED and row["cause"] != STATIC)


def stops(seen: Context) -> Iterator[Finding]:
    """Long rebalances without one of the above causes."""
    causes = by_cause(seen, is_long)
    for group, long in by_group(seen, wanted=is_long).items():
        text = f"Partitions of group {group} stalled for up to "
        text += f"{duration(long.largest('stopped_ns'))} in "
        text += f"{counted(long.total('rebalances'), 'rebalance')}: {_causes(causes[group])}"
        is_usual = long.largest("stopped_ns") < LONG_STOP_NS and long.total("rebalances") < OFTEN
        severity = NOTICE if is_usual else WARNING
        yield _about("rebalance-stops-group", severity, group, long, text)


def waits(seen: Context) -> Iterator[Finding]:
    """Members that waited in a rebalance of a group whose assignments were not captured."""
    rejoins = seen.signs.rejoins.waits()
    known = by_group(seen, wanted=is_reported) if rejoins else {}
    for one in rejoins:
        group, times = named(one.group), one.rebalances
        if group in known:
            continue
        is_usual = one.waited_ns < LONG_STOP_NS and times < OFTEN
        yield Finding(
            "member-fenced" if one.refused else "rebalance-stops-group",
            NOTICE if is_usual else WARNING,
            _fenced(one) if one.refused else _waited(one),
            {"waited_ns": one.waited_ns, "rebalances": times},
            {"group": group, "clients": [one.client]},
            one.first_ns,
            one.first_ns + one.waited_ns,
            shown_by=MEMBERS_OF_GROUPS,
        )


def is_reported(row: Row) -> bool:
    """Return whether another rule reports a rebalance."""
    return is_long(row) or is_lost(row) or row["cause"] == MAX_POLL


def _waited(one: Wait) -> str:
    """The members of a classic group that waited."""
    text = f"Members of group {named(one.group)} waited up to {duration(one.waited_ns)} for the "
    text += f"others in {counted(one.rebalances, 'rebalance')}, longest {named(one.client)}: they "
    return (
        f"{text}had joined again, and held no partitions ({named(one.protocol)} assigns all anew)"
    )


def _fenced(one: Wait) -> str:
    """The members of a group of the new protocols that were refused."""
    often = f"{counted(one.rebalances, 'time')}, up to " if one.rebalances > 1 else ""
    text = f"Members of group {named(one.group)} held no partitions for {often}"
    text += f"{duration(one.waited_ns)}, longest {named(one.client)}: it had been refused "
    return f"{text}({one.refused}), joined again, and was assigned none until then"


def is_long(row: Row) -> bool:
    """Return whether a group stalled for long for another reason."""
    is_other = row["cause"] not in (MAX_POLL, STATIC) and not is_lost(row)
    return is_other and _stopped(row) >= SECOND_NS


def static_restarts(seen: Context) -> Iterator[Finding]:
    """Static members that returned."""
    for group, back in by_group(seen, among("cause", [STATIC])).items():
        names = list(dict.fromkeys(named(row["group_instance_id"]) for row in back))
        members = back.distinct("group_instance_id", len(names))
        text = f"{agreeing(members, 'Static member', 'Static members')} "
        text += f"{listed(names, 'member', members)} of group {group} rejoined "
        text += f"({clients_of(back)}){_stalled(back)}"
        yield _about("static-member-restart", NOTICE, group, back, text)


def _about(id_: str, severity: str, group: str, rows: Rows, text: str) -> Finding:
    return Finding(
        id_,
        severity,
        text,
        {
            "rebalances": rows.total("rebalances"),
            "stopped_ns": rows.largest("stopped_ns"),
            "all_stopped_ns": rows.total("all_stopped_ns"),
            "members": rows[0]["members"],
        },
        {"group": group} | their(rows),
        rows.earliest("start"),
        rows.latest("last_start"),
        rows.first_packet("request_packet"),
    )


def moved_coordinators(seen: Context) -> Iterator[Finding]:
    """Groups that got no answer while another broker took over."""
    for move in seen.signs.coordinators.moves():
        text = f"The coordinator of group {named(move.group)} moved from {move.before} to "
        text += f"{move.after}: {listed([named(one) for one in move.clients], 'client')} got no "
        text += f"response for {duration(move.stopped_ns)} (one every "
        text += f"{duration(move.usual_ns)} before)"
        yield Finding(
            "coordinator-moved",
            WARNING,
            text,
            {"stopped_ns": move.stopped_ns, "usual_ns": move.usual_ns},
            {"group": move.group, "broker": move.before, "brokers": [move.before, move.after],
             "clients": list(move.clients)},
            move.last_ns,
            move.first_ns,
            move.packet,
        )  # fmt: skip


def _stopped(row: Row) -> int:
    """Duration of the group's stall, if it had members."""
    return number(row, "stopped_ns") if number(row, "members_before") else 0


def _stalled(rows: Rows, times: int | None = None) -> str:
    stopped = rows.largest("stopped_ns") if rows else 0
    times = rows.total("rebalances") if times is None else times
    often = f", {counted(times, 'time')}" if times > 1 else ""
    most = f"{'up to ' if often else ''}{duration(stopped)}"
    return f"{often}: its partitions stalled for {most}" if stopped else often


def _after(rows: Rows) -> str:
    left = rows.largest("members")
    if any(row["outcome"] == EMPTIED for row in rows) and not left:
        return "; the group was empty afterwards"
    return f"; {counted(left, 'member')} remained" if left else ""


def _causes(causes: Mapping[str, Chosen]) -> str:
    often = {cause: rows.total("rebalances") for cause, rows in causes.items()}
    worst = sorted(often, key=lambda cause: -often[cause])
    return ", ".join(_cause(cause, causes[cause], sum(often.values())) for cause in worst)


def _cause(cause: str, rows: Chosen, of: int) -> str:
    clients = list(dict.fromkeys(client_of(row) for row in rows if row["client_id"]))
    text = f"{count(rows.total('rebalances'))} by {cause}" if of > 1 else cause
    if not clients:
        return text
    return f"{text} ({listed(clients, 'client', rows.distinct(NAMED_CLIENT))})"


def lags(seen: Context) -> Iterator[Finding]:
    """Groups that lag, increasingly."""
    for row in seen.rows("lag"):
        first, last = number(row, "first_lag"), number(row, "last_lag")
        is_late = last >= SOME_BEHIND and number(row, "lag_time_ns") >= LATE_NS
        is_growing = (last >= BEHIND or is_late) and last >= GROWTH * first
        is_growing |= is_later(row)
        if is_growing or (last >= FAR_BEHIND and last >= first):
            yield _lag(row, first, last, is_growing)


def is_later(row: Row) -> bool:
    """Return whether a group commits, and is later each time: it processes records too slowly.

    Records that it has not fetched may not be known.
    """
    is_late = number(row, "lag_time_ns") >= LATE_NS
    return is_late and number(row, "fallen_ns") >= FALLEN_NS


def _lag(row: Row, first: int, last: int, is_growing: bool) -> Finding:
    waits, undelivered = row["lag_time_ns"], number(row, "undelivered")
    text = f"Group {row['group_id']} is {counted(last, 'record')} behind on {_place(row)}"
    if last >= GROWTH * first or not is_later(row):
        text += f", {count(first)} at the start"
        text += f"; the oldest has waited {duration(waits)}" if waits else ""
    else:
        text += f", as far as the ends are known; the oldest has waited {duration(waits)}, "
        text += f"{duration(row['fallen_ns'])} longer than at the start"
    if undelivered >= last:
        text += "; none was fetched yet"
    else:
        is_unread = undelivered >= last / 2
        text += f"; most were {'not fetched yet' if is_unread else 'fetched but not committed'}"
    return Finding(
        "consumer-lag-grows" if is_growing else "consumer-behind",
        WARNING,
        text,
        {
            "lag": last,
            "first_lag": first,
            "undelivered": undelivered,
            "lag_time_ns": waits,
            "partitions": row["partitions"],
        },
        {"group": row["group_id"], "topic": row["topic"], "client": row["client_id"]},
        time_ns(row, "first_window"),
        time_ns(row, "last_window"),
    )


def commits(seen: Context) -> Iterator[Finding]:
    """Groups whose commits skip or repeat records."""
    for row in seen.rows("commits"):
        skipped, again = number(row, "ahead"), number(row, "redelivered")
        if str(row["risk"]).startswith("skips"):
            text = f"Group {row['group_id']} committed up to {counted(skipped, 'record')} of "
            text += f"{_place(row)} that were not delivered to it: they may never be processed"
            yield _commit("commit-skips-records", WARNING, row, text)
        elif row["rhythm"] == SHARED and again >= AGAIN:
            text = f"Members of share group {row['group_id']} acquired {counted(again, 'record')} "
            text += f"of {_place(row)} that had been delivered before: members released them, or "
            text += "did not acknowledge them in time"
            severity = WARNING if again >= MUCH_AGAIN else NOTICE
            yield _commit("share-group-redelivers", severity, row, text)
        elif str(row["risk"]).startswith("repeated") and again >= AGAIN:
            text = f"{counted(again, 'record')} of {_place(row)} were redelivered to group "
            text += f"{row['group_id']}"
            # A crash repeats the records since the last commit; this repeats more.
            is_much = again >= MUCH_AGAIN
            severity = WARNING if is_much else NOTICE
            yield _commit("records-delivered-again", severity, row, text)


def _commit(id_: str, severity: str, row: Row, text: str) -> Finding:
    return Finding(
        id_,
        severity,
        text,
        {name: row[name] for name in ("ahead", "redelivered", "partitions")},
        {"group": row["group_id"], "topic": row["topic"]},
        time_ns(row, "first_commit"),
        time_ns(row, "last_commit"),
    )


def _place(row: Row) -> str:
    return f"{named(row['topic'])} ({counted(number(row, 'partitions'), 'partition')})"


RULES: Final = (
    timeouts, expelled, slow_polls, storms, stops, waits, static_restarts, lags, commits,
    moved_coordinators,
)  # fmt: skip
