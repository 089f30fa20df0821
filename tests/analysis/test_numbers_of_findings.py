"""Numbers in the sentences of findings, beside the rows of the command that each finding names.

Captures are drawn (KDISSECT_SEED), and of those a part or the whole.
"""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from pyarrow import parquet

import kdissect
from kdissect.rules.catalogue import KINDS
from kdissect.rules.finding import Finding
from kdissect.text.human import count, counted, duration, share, size
from tests.analysis.capture_parts import Parts
from tests.seeds import SEED
from tools.golden import captures

Row = dict[str, Any]
PLAIN: Final = [path for path in captures() if path.name.endswith(".pcapng")]
OPTIONS: Final = {"--by": "by", "--of": "of"}
EVERY_ROW: Final = 100_000  # of `slowest`, which has 20 unless more are asked for


class Told(NamedTuple):
    """A finding, and the tables that its command reads."""

    finding: Finding
    tables: Path

    def rows(self, command: str = "", **options: Any) -> list[Row]:
        """The rows of a command, of the finding's own by default, about what it concerns."""
        name, *words = (command or self.finding.command.removeprefix("kdissect ")).split()
        for word, value in zip(words[::2], words[1::2], strict=True):
            options[OPTIONS[word]] = value.split(",") if word == "--by" else value
        if name == "slowest":
            options["number"] = EVERY_ROW
        found = kdissect.analyse(name, self.tables, **options).to_arrow().to_pylist()
        return [row for row in found if self.concerns(row)]

    def concerns(self, row: Row) -> bool:
        """Whether a row is about the clients, topics and others that the finding names."""
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
        every = kdissect.analyse("clients", told.tables).to_arrow().to_pylist()
        yield f"in {counted(total(every, 'exchanges'), 'exchange')}, "


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
    rows = kdissect.analyse("health", told.tables, by=["client_ip", "broker"]).to_arrow()
    names = ("refused", "no_answer", "reset_by_broker")
    broken = sum(
        total([row], name)
        for row in rows.to_pylist() for name in names
        if row["client_ip"] in told.finding.concerns["client_ips"]
    )  # fmt: skip
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
    rows = told.rows()
    stopped = told.finding.numbers["stopped_ns"]
    if stopped:
        assert stopped in [row["stopped_ns"] for row in rows]
        yield duration(stopped)


@of("broker-refuses-connections")
def refused(told: Told) -> Fragments:
    rows = told.rows("health --by client_ip,broker")
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
    yield f"{duration(row['time_p99_ns'])}, {duration(row['untroubled_p99_ns'])} without the "
    yield f" {counted(total(rows, 'troubled'), 'exchange')} with "


@of("broker-stalls")
def stalled(told: Told) -> Fragments:
    rows = told.rows()
    times = {duration(row["work_ns"] or 0) for row in rows}
    held = {duration(min(row["work_ns"] or 0, row["silent_ns"] or 0)) for row in rows}
    shown = re.search(r"for up to ([\d.]+ \w+)", told.finding.text)
    assert shown, told.finding.text
    assert shown[1] in held
    if at_least := re.search(r"waited ([\d.]+ \w+) or longer", told.finding.text):
        assert at_least[1] in times
        least = min(row["work_ns"] for row in rows if duration(row["work_ns"] or 0) == at_least[1])
        assert told.finding.numbers["requests"] <= sum(
            (row["work_ns"] or 0) >= least for row in rows
        )
    yield ""


@of("broker-slow")
def slow(told: Told) -> Fragments:
    """The round trip between the capture and the broker is deducted, and the sentence says so."""
    numbers = told.finding.numbers
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
    """Those of clients: what followers waited for is not told."""
    rows = kdissect.analyse("failovers", told.tables).to_arrow().to_pylist()
    for way, shown in re.findall(r"(written|read) for up to ([\d.]+ \w+)", told.finding.text):
        access = {"written": "produce", "read": "fetch"}[way]
        of_broker = [row for row in rows if row["old_broker"] == told.finding.concerns["broker"]]
        times = [row["blackout_ns"] or 0 for row in of_broker if row["access"] == access]
        assert shown in map(duration, times), (SEED, told.finding.text)
    yield ""


@of("replicas-missing")
def replicas(told: Told) -> Fragments:
    errors = [
        row for row in told.rows("errors") if row["error"] and row["error"] in told.finding.text
    ]
    yield f" {counted(total(errors, 'exchanges'), 'time')} to "
    yield f"for up to {duration(largest(told.rows(), 'blackout_ns'))}"


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
            assert int(number) == sum(row["protocol"] == name for row in rows), name
        yield ""
        return
    yield f"of {count(len(rows))} ("


def code(told: Told) -> Fragments:
    """`error-…`: `kdissect errors`."""
    yield f" {counted(total(told.rows(), 'exchanges'), 'time')} to "


# `show` lists exchanges, and what was in flight at the end of the capture is not counted.
NOT_COMPARED: Final = {"requests-unanswered", "not-asked"}
# Those that no committed capture has, though a drawn part may have one: test_findings holds their
# sentences against made rows.
NOT_IN_CAPTURES: Final = {
    "tls-on-plaintext-port", "plaintext-on-tls-port", "authorization-fails", "metadata-storm",
    "advertised-listener-unreachable", "client-fills-link", "round-trip-makes-latency",
    "consumer-lag-grows", "consumer-behind", "connection-churn", "transactions-abort",
    "coordinator-moved", "messages-undecoded", "idle-connections-closed", "single-record-batches",
    "empty-polls", "partition-skew",
}  # fmt: skip


def test_each_kind_of_finding_is_compared_or_is_not_with_a_reason() -> None:
    assert OF.keys() | NOT_COMPARED | NOT_IN_CAPTURES | {"error-CODE"} == KINDS.keys()
    assert not OF.keys() & (NOT_COMPARED | NOT_IN_CAPTURES)


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


def drawn_part(capture: Path, place: Path) -> Path:
    """The whole capture, or packets of one broker, of some connections or of some time."""
    chance = random.Random(f"{SEED} {capture.name}")
    parts = Parts(capture)
    kinds: list[Any] = [None, None, parts.tenth(is_last=chance.random() < 0.5)]
    if parts.brokers:
        kinds.append(parts.of(chance.choice(sorted(parts.brokers))))
    some = {one for one in parts.connections if chance.random() < 0.6}
    kinds.append(lambda block: block.connection in some)
    if (wanted := chance.choice(kinds)) is None:
        return capture
    parts.write(place / "part.pcapng", wanted)
    return place / "part.pcapng"


def compare(told: Told) -> None:
    finding = told.finding
    if finding.id in NOT_COMPARED | NOT_IN_CAPTURES or "more findings of this kind" in finding.text:
        return
    check = code if finding.id.startswith("error-") else OF.get(finding.id)
    assert check, f"{finding.id}: no comparison of its numbers with {finding.command}"
    for fragment in check(told):
        assert fragment in finding.text, (SEED, finding.command, finding.text)
