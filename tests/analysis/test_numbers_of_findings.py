"""Numbers in the sentences of findings, beside the rows of the command that each finding names.

Captures are drawn (KDISSECT_SEED), and of those a part or the whole.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

import kdissect
from kdissect.analysis.dimensions import SECOND_NS
from kdissect.rules.catalogue import KINDS
from kdissect.rules.error_rules import REPLICAS, WAITING_APIS
from kdissect.rules.finding import Finding
from kdissect.rules.latency_rules import OWN, STALL_NS
from kdissect.text.human import count, counted, duration, share, size
from tests.analysis.capture_parts import drawn_part
from tests.analysis.made_incidents import INCIDENTS
from tests.analysis.taps import Tap
from tests.seeds import SEED
from tools.golden import captures

Row = dict[str, Any]
PLAIN: Final = [path for path in captures() if path.name.endswith(".pcapng")]
READ: Final[dict[str, Callable[[str], Any]]] = {
    "--by": lambda text: text.split(","),
    "--number": int,
    "--window": lambda text: int(text.removesuffix("s")) * SECOND_NS,
}


class Told(NamedTuple):
    """A finding, and the tables that its command reads."""

    finding: Finding
    tables: Path

    def rows(self, command: str = "", **options: Any) -> list[Row]:
        """The rows of a command (the finding's own by default) about the finding's subjects."""
        name, *words = shlex.split(command or self.finding.command.removeprefix("kdissect "))
        if name == "table":
            return self._chosen(words[0], dict(zip(words[1::2], words[2::2], strict=True)))
        for word, value in zip(words[::2], words[1::2], strict=True):
            read = READ.get(word, str)
            options[word.removeprefix("--")] = read(value)
        found = kdissect.analyse(name, self.tables, **options).to_arrow().to_pylist()
        return [row for row in found if self.concerns(row)]

    def _chosen(self, table: str, options: dict[str, str]) -> list[Row]:
        """The rows of `kdissect table`."""
        rows = duckdb.read_parquet(str(self.tables / f"{table}.parquet"))
        rows = rows.filter(options.get("--where", "true"))
        found = rows.project(options.get("--columns", "*")).arrow()
        if not isinstance(found, pa.Table):  # newer releases
            found = found.read_all()
        return [row for row in found.to_pylist() if self.concerns(row)]

    def concerns(self, row: Row) -> bool:
        """Return whether a row is about the clients, topics and others that the finding names."""
        names = self.finding.concerns
        for column, one, several in (
            ("client_id", "client", "clients"), ("topic", "topic", "topics"),
            ("group_id", "group", "groups"), ("api", "api", "apis"),
            ("broker", "broker", "brokers"), ("old_broker", "broker", "brokers"),
            ("client_ip", "client_ip", "client_ips"), ("error", "error", "errors"),
            ("transactional_id", "transaction", "transactions"),
        ):  # fmt: skip
            known = names.get(several, [names[one]] if one in names else None)
            if column in row and known and (row[column] or None) not in known:
                return False
        return True

    def table(self, name: str) -> list[Row]:
        found: list[Row] = parquet.read_table(self.tables / f"{name}.parquet").to_pylist()
        return found


def total(rows: list[Row], name: str) -> int:
    return sum(row[name] or 0 for row in rows)


def largest(rows: list[Row], name: str) -> int:
    return max((row[name] or 0 for row in rows), default=0)


# Of `p99 of Produce 1.2 s and Fetch 5 s (broker time 3 ms)`.
USUAL: Final = re.compile(
    r"(p99 of |longest |and |, )([A-Z]\w+) ([\d.]+ \w+)"
    r"(?: \(broker time ([\d.]+ \w+)\))?"
)

# Of `in 8 exchanges (3 responses without a captured request)`, what is in no row of `latency`.
UNMEASURED: Final = re.compile(r"(\d\S*) (?:responses? without a captured|of APIs without a) re")

Fragments = Iterator[str]
OF: dict[str, Callable[[Told], Fragments]] = {}


def of(*ids: str) -> Callable[[Callable[[Told], Fragments]], Callable[[Told], Fragments]]:
    """Registers the expected parts of the sentences of kinds of findings."""

    def known(function: Callable[[Told], Fragments]) -> Callable[[Told], Fragments]:
        OF.update(dict.fromkeys(ids, function))
        return function

    return known


@of("healthy", "latencies")
def usual(told: Told) -> Fragments:
    latency, work = (
        {row["api"]: row for row in told.rows(question)}
        for question in ("latency", "latency --of work")
    )
    name = ""
    for many, api, shown, broker in USUAL.findall(told.finding.text):
        name = {"p99 of ": "p99_ns", "longest ": "max_ns"}.get(many, name)
        assert shown == duration(latency[api][name]), (SEED, api, told.finding.text)
        assert not broker or broker == duration(work[api][name]), (SEED, api, told.finding.text)
    assert name, told.finding.text
    if told.finding.id == "healthy":
        rest = UNMEASURED.findall(told.finding.text)
        every = kdissect.analyse("latency", told.tables).to_arrow().to_pylist()
        number = total(every, "requests") + sum(
            int("".join(re.findall(r"\d", one))) for one in rest
        )
        yield f"in {counted(number, 'exchange')}{' (' if rest else ', '}"


@of("fetch-mostly-long-poll")
def polls(told: Told) -> Fragments:
    (row,), (work,) = told.rows(), told.rows("latency --of work")
    yield f"p99 of Fetch is {duration(row['p99_ns'])}; {share(row['waited'], 1)} of the time"
    yield f"p99 of broker time is {duration(work['p99_ns'])}"


@of("may-lose-records")
def unsafe(told: Told) -> Fragments:
    batches = total([row for row in told.rows() if row["acks"] in (0, 1)], "batches")
    yield f": {count(batches)} batch{'es' * (batches != 1)} with acks=0 or 1"


@of("duplicates-in-log")
def duplicates(told: Told) -> Fragments:
    rows = [row for row in told.rows() if row["written_twice"]]
    yield f"{counted(total(rows, 'records_twice'), 'record')} of "
    yield f": {count(total(rows, 'written_twice'))} batch"


@of("produce-gave-up")
def given_up(told: Told) -> Fragments:
    error = told.finding.concerns["error"]
    rows = [row for row in told.rows() if row["last_error"] == error]
    yield f"{count(total(rows, 'given_up'))} batch"


@of("acks-0-records-lost")
def lost(told: Told) -> Fragments:
    names, addresses = ("refused", "no_answer", "reset_by_broker"), set()
    addresses.update(told.finding.concerns["client_ips"])
    every = kdissect.analyse("health", told.tables, by=["client_id", "client_ip", "broker"])
    rows = [row for row in every.to_arrow().to_pylist() if row["client_ip"] in addresses]
    broken = sum(total(rows, name) for name in names)
    yield f"refused or reset {counted(broken, 'connection')}"


@of("produce-sent-again")
def retried(told: Told) -> Fragments:
    rows = [row for row in told.rows() if row["cause"] in ("unanswered", "sent again")]
    rows = [row for row in rows if row["tries"] > 1]
    yield f"{count(len(rows))} batch"
    yield f"(up to {largest(rows, 'tries')} attempts)"
    if until := largest(rows, "until_success_ns"):
        yield f"up to {duration(until)} until they were written"


@of("client-breaks-on-4.0", "client-may-break-on-4.0")
def breaking(told: Told) -> Fragments:
    verdict = "breaks" if "-breaks-" in told.finding.id else "may break"
    rows = [row for row in told.rows() if row["verdict"] == verdict]
    clients = {(row["client_id"], row["client_ip"]) for row in rows}
    yield f"{count(len(clients))} clients " if len(clients) > 1 else " uses "
    assert told.finding.numbers["exchanges"] == total(rows, "exchanges")


@of(
    "session-timeout", "static-member-restart", "max-poll-exceeded", "rebalance-stops-group",
    "rebalance-storm",
)  # fmt: skip
def rebalanced(told: Told) -> Fragments:
    if told.finding.command != f"kdissect {told.finding.kind.command}":
        yield from (silence if told.finding.id == "session-timeout" else wait)(told)
        return
    by = ("group_id", "kind", "cause", "client_id", "client_ip", "outcome")
    alike: dict[tuple[Any, ...], list[Row]] = {}
    for row in told.rows("rebalances"):
        if row["group_id"] == told.finding.concerns["group"]:
            alike.setdefault(tuple(row[name] for name in by), []).append(row)
    chosen = [rows for rows in alike.values() if IS_OF[told.finding.id](rows)]
    every = [row for rows in chosen for row in rows]
    times, stopped = len(every), largest(every, "stopped_ns")
    assert told.finding.numbers["rebalances"] == times
    assert told.finding.numbers["stopped_ns"] == stopped
    assert told.finding.numbers["all_stopped_ns"] == total(every, "stopped_ns")
    if told.finding.id == "rebalance-storm":
        yield f"rebalanced {counted(times, 'time')} in "
        yield f"stalled for {duration(total(every, 'stopped_ns'))} in all"
    elif told.finding.id == "rebalance-stops-group":
        yield f"for up to {duration(stopped)} in {counted(times, 'rebalance')}: "
    elif told.finding.id == "session-timeout":
        times = sum(
            len(rows) if is_timeout(rows) else sum((row["lost"] or 0) > 0 for row in rows)
            for rows in chosen
        )
        sure = [row for rows in chosen for row in rows
                if is_timeout(rows) or all(row["lost"] for row in rows)]  # fmt: skip
        yield from stall(times, largest(sure, "stopped_ns"))
    else:
        yield from stall(times, stopped)


def silence(told: Told) -> Fragments:
    """Sessions of groups whose joins were not captured."""
    rows = sorted(told.rows(), key=lambda row: row["request_start"])
    place = next(at for at, row in enumerate(rows) if row["error"] == "UNKNOWN_MEMBER_ID")
    silent = rows[place]["request_start"] - rows[place - 1]["request_start"]
    yield f"for {duration(silent // timedelta(microseconds=1) * 1_000)}, "


def wait(told: Told) -> Fragments:
    """The same, of a rebalance: from the join of a member that was told to its sync."""
    at = {}
    longest, generations = timedelta(), set()
    for row in sorted(told.rows(), key=lambda row: row["time"]):
        at[row["member_id"], row["event"]] = row["time"]
        joined, was_told = (at.get((row["member_id"], name)) for name in ("join", "heartbeat"))
        if row["event"] == "sync" and joined and was_told and was_told < joined:
            generations |= (
                {row["generation"]} if row["time"] - joined >= timedelta(seconds=1) else set()
            )
            longest = max(longest, row["time"] - joined)
    yield f"waited up to {duration(longest // timedelta(microseconds=1) * 1_000)} for the others"
    yield f" in {counted(len(generations), 'rebalance')}, "


@of("member-fenced")
def fenced(told: Told) -> Fragments:
    """From the join of a member that was refused to the response that assigns it partitions."""
    joined = {}
    longest = timedelta()
    for row in sorted(told.rows(), key=lambda row: row["time"]):
        if row["event"] == "join":
            joined[row["member_id"]] = row["time"]
        elif row["event"] == "assign" and row["member_id"] in joined:
            longest = max(longest, row["time"] - joined.pop(row["member_id"]))
    yield f"held no partitions for {duration(longest // timedelta(microseconds=1) * 1_000)}, "


def stall(times: int, stopped_ns: int) -> Fragments:
    if times > 1:
        yield f", {count(times)} times"
    if stopped_ns:
        yield f"stalled for {'up to ' * (times > 1)}{duration(stopped_ns)}"


def is_timeout(rows: list[Row]) -> bool:
    return bool(rows[0]["cause"] == "session timeout")


def has_lost(rows: list[Row]) -> bool:
    is_other = rows[0]["cause"] in ("max poll exceeded", "static restart")
    return is_timeout(rows) or (not is_other and any(row["lost"] for row in rows))


def is_long(rows: list[Row]) -> bool:
    is_other = rows[0]["cause"] in ("max poll exceeded", "static restart") or has_lost(rows)
    return not is_other and largest(rows, "stopped_ns") >= SECOND_NS


# Kind → whether it is about rebalances of one cause, client and outcome.
IS_OF: Final[dict[str, Callable[[list[Row]], bool]]] = {
    "session-timeout": has_lost,
    "max-poll-exceeded": lambda rows: rows[0]["cause"] == "max poll exceeded",
    "static-member-restart": lambda rows: rows[0]["cause"] == "static restart",
    "rebalance-storm": lambda rows: (
        rows[0]["outcome"] != "emptied" and rows[0]["cause"] != "static restart"
    ),
    "rebalance-stops-group": is_long,
}


@of("broker-refuses-connections")
def refused(told: Told) -> Fragments:
    rows = told.rows()
    if number := total(rows, "refused"):
        yield f"refused {counted(number, 'connection')}"
    if number := total(rows, "no_answer"):
        yield f"did not answer {counted(number, 'connection attempt')}"


@of("connections-reset")
def reset(told: Told) -> Fragments:
    yield f"reset {counted(total(told.rows(), 'reset_by_broker'), 'connection')} of "


@of("capture-loses-packets")
def missing(told: Told) -> Fragments:
    yield f"lacks {size(total(told.rows(), 'missing_bytes'))} of payload"


@of("network-makes-p99", "receiver-does-not-read")
def network(told: Told) -> Fragments:
    rows = told.rows()
    p99 = told.finding.numbers["time_p99_ns"]
    (row,) = [row for row in rows if row["time_p99_ns"] == p99]
    yield f"{duration(row['time_p99_ns'])}"
    if row["untroubled_p99_ns"] is None:
        yield f"windows were full for {duration(row['zero_window_ns'])} during all "
        yield f" {counted(row['exchanges'], 'exchange')}"
    else:
        yield f", {duration(row['untroubled_p99_ns'])} without the "
        yield f" {counted(row['troubled'], 'exchange')} with "


@of("broker-stalls")
def stalled(told: Told) -> Fragments:
    rows = [
        row for row in told.rows()
        if min(row["work_ns"] or 0, row["silent_ns"] or 0) >= STALL_NS and row["api"] in OWN
        and row["api"] in told.finding.concerns["apis"]
    ]  # fmt: skip
    shown = re.search(r"for up to ([\d.]+ \w+)", told.finding.text)
    assert shown, told.finding.text
    assert shown[1] == duration(max(min(row["work_ns"], row["silent_ns"]) for row in rows))
    if at_least := re.search(r"waited ([\d.]+ \w+) or longer", told.finding.text):
        assert at_least[1] == duration(min(row["work_ns"] for row in rows))
    is_of_produce = "with acks=all" in told.finding.text
    yield f" {counted(len(rows), 'Produce request' if is_of_produce else 'request')} "


@of("broker-slow")
def slow(told: Told) -> Fragments:
    """The round trip between the capture and the broker is deducted, and the sentence says so."""
    numbers = told.finding.numbers
    if "round_trip_ns" not in numbers:  # it does not read requests
        rows = told.rows()
        yield f"full windows for {'up to ' * (len(rows) > 1)}"
        yield duration(largest(rows, "zero_window_by_broker_ns"))
        yield f"p99 is {'up to ' * (len(rows) > 1)}{duration(largest(rows, 'time_p99_ns'))}"
        return
    near = numbers["round_trip_ns"] or 0
    rows = [row for row in told.rows() if row["p99_ns"] == (numbers["p99_ns"] or 0) + near]
    assert len(rows) == 1, told.finding.text
    shown = duration(rows[0]["p99_ns"] - near)
    yield f" {rows[0]['api']} {shown} (p50 {duration(rows[0]['p50_ns'] - near)})"
    if shown != duration(rows[0]["p99_ns"]):
        yield f"; {duration(near)} of round trip between the capture and it are deducted"


@of("produce-latency-slow-follower")
def follower(told: Told) -> Fragments:
    (row,) = [row for row in told.rows() if row["follower"] == told.finding.concerns["broker"]]
    yield duration(row["p99_ns"])
    yield f"{duration(row['replication_p99_ns'])} of it for replication"
    if "where it replicated last, " in told.finding.text and "of " in told.finding.text:
        assert told.finding.numbers["exchanges"] == row["exchanges"]


@of("hanging-transaction", "transactional-id-taken-over", "long-transaction")
def transaction(told: Told) -> Fragments:
    rows = [r for r in told.rows() if r["duration_ns"] == told.finding.numbers["duration_ns"]]
    assert len(rows) == 1
    took = rows[0]["idle_ns"] if rows[0]["outcome"] == "hanging" else rows[0]["duration_ns"]
    yield duration(took)
    if told.finding.id == "hanging-transaction":
        yield f"{counted(rows[0]['records'] or 0, 'record')} in "
        yield f" in {counted(rows[0]['partitions'] or 0, 'partition')}"


@of("throttled-by-quota")
def throttled(told: Told) -> Fragments:
    rows = told.rows()
    yield f" {counted(total(rows, 'throttled'), 'time')}, for up to "
    yield duration(largest(rows, "throttle_max_ms") * 1_000_000)


@of("failover-blackout")
def failover(told: Told) -> Fragments:
    """Rows of clients: the waits of followers are left out."""
    rows = [
        row for row in kdissect.analyse("failovers", told.tables).to_arrow().to_pylist()
        if row["old_broker"] == told.finding.concerns["broker"]
        and row["cause"] not in REPLICAS
        and (row["access"] in ("produce", "fetch") or is_leaderless(row))
    ]  # fmt: skip
    ways = {"written": "produce", "read": "fetch", "had no leader": "metadata"}
    of = {way: [row for row in rows if row["access"] == access] for way, access in ways.items()}
    for way, some in of.items():
        if longest := largest(some, "blackout_ns"):
            yield f"{way} for up to {duration(longest)}"
    yield f"{counted(max(map(len, of.values())), 'partition')} of "
    yield f", {counted(total(rows, 'errors'), 'partition error')}"
    unfinished = max(sum(row["blackout_ns"] is None for row in some) for some in of.values())
    if unfinished:
        yield f", {count(unfinished)} of them until the last attempt in the capture"
    if (slowest := largest(rows, "slowest_client_ns")) > largest(rows, "blackout_ns"):
        yield f"; the slowest client took {duration(slowest)}"


def is_leaderless(row: Row) -> bool:
    """Return whether metadata had no leader for a second."""
    longest = max(row["blackout_ns"] or 0, row["failing_ns"] or 0)
    return row["cause"] == "LEADER_NOT_AVAILABLE" and longest >= SECOND_NS


@of("broker-unreachable")
def unreachable(told: Told) -> Fragments:
    rows = told.rows()
    longest = duration(largest(rows, "unacknowledged_ns"))
    yield f" acknowledged nothing for {'up to ' * (len(rows) > 1)}{longest}, while "


@of("replicas-missing")
def replicas(told: Told) -> Fragments:
    named = set(re.findall(r"NOT_ENOUGH_REPLICAS\w*", told.finding.text))
    errors = [row for row in told.rows("errors") if row["error"] in named]
    yield f" {counted(total(errors, 'exchanges'), 'time')} to "
    rows = [row for row in told.rows() if row["cause"] in named]
    if longest := largest(rows, "blackout_ns"):
        yield f"for up to {duration(longest)}"
    if unfinished := sum(row["blackout_ns"] is None for row in rows):
        yield f"; {counted(unfinished, 'partition')} until the capture's end"


@of("authentication-fails")
def logins(told: Told) -> Fragments:
    codes = [row for row in told.rows() if row["error"] and row["error"] in told.finding.text]
    without = re.search(r"; (\d+) without an error code", told.finding.text)
    number = total(codes, "errors") + (int(without[1]) if without else 0)
    if codes:
        yield f"{counted(number, 'login')} of "
    else:
        failed = kdissect.analyse("clients", told.tables).to_arrow().to_pylist()
        yield f"{counted(total(failed, 'failed_logins'), 'login')} of "


@of("records-delivered-again", "share-group-redelivers")
def redelivered(told: Told) -> Fragments:
    rows = [row for row in told.rows() if row["redelivered"]]
    yield counted(total(rows, "redelivered"), "record")
    yield f"({counted(len(rows), 'partition')})"


@of("commit-skips-records")
def skipped(told: Told) -> Fragments:
    yield f"committed up to {counted(largest(told.rows(), 'ahead_max'), 'record')} of "


@of("broker-recompresses")
def codecs(told: Told) -> Fragments:
    row = next(row for row in told.rows() if row["topic"] == told.finding.concerns["topics"][0])
    yield f"produced with {row['produced_codecs']}, fetched with {row['fetched_codecs']}"


@of("connections-encrypted", "no-kafka")
def unread(told: Told) -> Fragments:
    rows = told.table("connections")
    if told.finding.id == "no-kafka":
        for number, name in re.findall(r"(\d+) connections? of ([\w/-]+)", told.finding.text):
            assert int(number) == sum((row["protocol"] or "unknown") == name for row in rows), name
        yield ""
        return
    yield f"of {counted(len(rows), 'connection')} ("
    yield f"{count(sum(row['protocol'] == 'tls' for row in rows))} of "


def code(told: Told) -> Fragments:
    """`error-…`: `kdissect errors`."""
    yield f" {counted(total(told.rows(), 'exchanges'), 'time')} to "


@of("tls-on-plaintext-port", "plaintext-on-tls-port")
def mismatched(told: Told) -> Fragments:
    rows = [row for row in told.rows() if row["ended_by"] == "broker"]
    yield counted(len(rows), "connection")


@of("authorization-fails")
def denied(told: Told) -> Fragments:
    rows = [row for row in told.rows() if "AUTHORIZATION_FAILED" in (row["error"] or "")]
    yield f"{rows[0]['error']} {counted(total(rows, 'exchanges'), 'time')}"


@of("metadata-storm")
def stormed(told: Told) -> Fragments:
    rows = told.rows()
    yield f"requested metadata {counted(total(rows, 'metadata'), 'time')} ("
    yield f"{count(total(rows, 'produces'))} produce requests and "
    yield f"{count(total(rows, 'fetches'))} fetches"


@of("advertised-listener-unreachable")
def lookers(told: Told) -> Fragments:
    yield f"requested metadata {counted(total(told.rows(), 'metadata'), 'time')} and "


@of("client-fills-link")
def filled(told: Told) -> Fragments:
    rows = told.rows()
    assert total(rows, "response_size") == told.finding.numbers["bytes"]
    yield f"receiving them took {duration(total(rows, 'download_ns'))} of "


@of("round-trip-makes-latency")
def far(told: Told) -> Fragments:
    rows = told.rows()
    yield f"every request spends {most(rows, 'rtt_p50_ns')} on a round trip"
    yield f"p99 is {most(rows, 'time_p99_ns')}"


@of("connection-churn")
def churned(told: Told) -> Fragments:
    rows = told.rows()
    yield f"reconnected {counted(total(rows, 'reconnects'), 'time')}; "
    yield f"lasted {most(rows, 'life_p50_ns')}"


def most(rows: list[Row], name: str) -> str:
    return f"{'up to ' if len(rows) > 1 else ''}{duration(largest(rows, name))}"


@of("consumer-lag-grows", "consumer-behind")
def behind(told: Told) -> Fragments:
    """The first and the last window of each partition."""
    by_place: dict[int, list[Row]] = {}
    for row in sorted(told.rows(), key=lambda row: row["window"]):
        by_place.setdefault(row["partition"], []).append(row)
    first, last = (sum(rows[at]["lag"] for rows in by_place.values()) for at in (0, -1))
    yield f" is {counted(last, 'record')} behind on "
    if "as far as the ends are known" in told.finding.text:
        yield f" has waited {duration(max(rows[-1]['lag_time_ns'] for rows in by_place.values()))}"
    else:
        yield f"({counted(len(by_place), 'partition')}), {count(first)} at the start"


@of("transactions-abort")
def aborted(told: Told) -> Fragments:
    rows = [row for row in told.rows() if row["outcome"] == "aborted"]
    yield f"{counted(len(rows), 'transaction')} of {rows[0]['transactional_id']} "


@of("coordinator-moved")
def moved(told: Told) -> Fragments:
    times = sorted(row["response_end"] for row in told.rows() if row["response_end"])
    longest = max(
        (after - before) // timedelta(microseconds=1) for before, after in pairwise(times)
    )
    yield f"no response for {duration(longest * 1_000)} ("


@of("messages-undecoded")
def undecoded(told: Told) -> Fragments:
    rows = told.rows()
    names = ("skipped_bytes_to_broker", "skipped_bytes_to_client")
    yield f"{size(sum(total(rows, name) for name in names))} ("


@of("idle-connections-closed")
def idle(told: Told) -> Fragments:
    rows = told.rows()
    yield f" closed {counted(total(rows, 'closed_by_broker'), 'connection')} of "
    yield f"idle for {duration(min(row['idle_min_ns'] for row in rows))} or longer"
    yield f"reconnected {counted(total(rows, 'reconnects'), 'time')}"


@of("single-record-batches")
def single(told: Told) -> Fragments:
    rows = told.rows()
    batches = total(rows, "batches")
    yield f" {share(sum(row['single'] * row['batches'] for row in rows), batches)} of "
    yield f"{count(batches)} batches "


@of("empty-polls")
def polled(told: Told) -> Fragments:
    rows = told.rows()
    fetches = total(rows, "fetches")
    yield f"fetched {counted(fetches, 'time')} ("
    yield f"{share(sum(row['empty'] * row['fetches'] for row in rows), fetches)} of "


@of("partition-skew")
def skewed(told: Told) -> Fragments:
    (row,) = told.rows()
    yield f"{row['top_partition']} received {share(row['top_share'], 1)} of the bytes "
    yield f"({counted(row['partitions'], 'partition')})"


@of("requests-unanswered")
def unanswered(told: Told) -> Fragments:
    """Requests of the last second are left out, and the sentence says how many."""
    of_all = Told(replace(told.finding, concerns={}), told.tables)
    rows = [row for row in of_all.rows() if row["api"] not in WAITING_APIS]
    asked = [row for row in told.table("exchanges") if row["api"] not in WAITING_APIS]
    young = int(told.finding.numbers["in_flight"] or 0)
    orphans = sum(row["outcome"] == "orphan" for row in asked)
    yield f"{counted(len(rows) - young, 'request')} of {count(len(asked) - orphans - young)} ("
    if young:
        yield f", without {count(young)} of the last second"


# Evidence that could not be queried is of no command.
NOT_COMPARED: Final = {"not-asked"}


def test_each_kind_of_finding_is_compared_or_is_not_with_a_reason() -> None:
    assert OF.keys() | NOT_COMPARED | {"error-CODE"} == KINDS.keys()
    assert not OF.keys() & NOT_COMPARED


@pytest.mark.slow
@pytest.mark.parametrize("kind", INCIDENTS)
def test_kinds_of_findings_have_the_numbers_of_their_command(kind: str, tmp_path: Path) -> None:
    tap = Tap()
    INCIDENTS[kind](tap)
    finding = tap.findings(tmp_path, asks_all=True)[kind]
    kdissect.write(tmp_path / "tap.pcap", tmp_path / "tables")
    compare(Told(finding, tmp_path / "tables"))


@pytest.mark.sweep
@pytest.mark.parametrize("capture", PLAIN, ids=lambda path: path.name)
def test_sentences_have_the_numbers_of_the_command_they_name(capture: Path, tmp_path: Path) -> None:
    part = drawn_part(capture, tmp_path)
    keys = capture.with_name(f"{capture.name.split('.pcap')[0]}.keys")
    reading: dict[str, Any] = {"keylog": (keys,)} if keys.exists() else {}
    found = kdissect.findings(part, asks_all=True, reading=reading)
    kdissect.write(part, tmp_path / "tables", **reading)
    for finding in found:
        compare(Told(finding, tmp_path / "tables"))


def compare(told: Told) -> None:
    finding = told.finding
    if finding.id in NOT_COMPARED or "more findings of this kind" in finding.text:
        return
    check = code if finding.id.startswith("error-") else OF.get(finding.id)
    assert check, f"{finding.id}: no comparison of its numbers with {finding.command}"
    for fragment in check(told):
        assert fragment in finding.text, (SEED, finding.command, finding.text)
