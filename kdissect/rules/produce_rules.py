"""Findings about producers' writes: lost, repeated, late; and about transactions."""

from collections.abc import Iterator
from typing import Final

from kdissect.analysis.dimensions import SECOND_NS
from kdissect.analysis.questions.failovers import OF_LEADERSHIP
from kdissect.rules.conditions import among, some
from kdissect.rules.context import Context, number, time_ns
from kdissect.rules.evidence_rows import Chosen, Row, Rows
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding
from kdissect.rules.formatting import client_of, clients_of, column_of, listed, named, their
from kdissect.rules.latency_rules import MOVED
from kdissect.text.human import agreeing, count, counted, duration

NO_ANSWER: Final = ("unanswered", "sent again")
LONG_NS: Final = 60 * SECOND_NS
ABORTS: Final = 5
FEW: Final = 3  # connections
BROKEN: Final = ("refused", "no_answer", "reset_by_broker")  # connections, by a broker
DECIDED: Final = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")  # reported by transactions


def duplicates(seen: Context) -> Iterator[Finding]:
    """Batches that are in the log twice."""
    rows = seen.chosen("delivery", some("written_twice"))
    if rows:
        twice = rows.total("records_twice")
        yield Finding(
            "duplicates-in-log",
            PROBLEM,
            f"{counted(twice, 'record')} of {clients_of(rows)} {agreeing(twice, 'is', 'are')} "
            f"in the log twice ({_topics(rows)}): {_batches(rows, 'written_twice')} got two offsets"
            + _cause(seen, rows),
            {
                "records": twice,
                "batches": rows.total("written_twice"),
            },
            their(rows) | column_of("topics", "topic", rows),
            rows.earliest("first_sent"),
            rows.latest("last_sent"),
            _packet(seen, rows),
        )


def given_up(seen: Context) -> Iterator[Finding]:
    """Batches that producers gave up."""
    by_error = seen.grouped("delivery", lambda row: row["last_error"], some("given_up"))
    for error, those in by_error.items():
        # The last try may have been at a new leader that the capture does not have.
        if error in MOVED or (error in OF_LEADERSHIP and _is_failover(seen)):
            continue
        # The code means that another producer took over, which is reported as such.
        if error in DECIDED:
            continue
        yield Finding(
            "produce-gave-up",
            PROBLEM,
            f"{_batches(those, 'given_up')} of {clients_of(those)} to {_topics(those)} "
            f"{_were(those, 'given_up')} refused on the last attempt, too: {named(error)}",
            {"batches": those.total("given_up")},
            their(those) | column_of("topics", "topic", those) | {"error": error},
            those.earliest("first_sent"),
            those.latest("last_sent"),
        )


def sent_again(seen: Context) -> Iterator[Finding]:
    """Batches that were sent again because a response was missing."""
    rows = seen.chosen("retries", among("cause", NO_ANSWER))
    if not rows:
        return
    slowest = rows.largest("until_success_ns")
    lost = rows.total("not_written")
    text = f"{_batches(rows, 'batches')} of {clients_of(rows)} to {_topics(rows)}"
    text += f" {_were(rows, 'batches')} retried"
    text += f" (up to {counted(rows.largest('tries'), 'attempt')}), because no response came in "
    text += f"time from {_brokers(rows)}"
    if slowest:
        text += f"; up to {duration(slowest)} until they were written"
    if lost:
        text += f"; {count(lost)} {agreeing(lost, 'was', 'were')} not written by the end of the "
        text += "capture"
    yield Finding(
        "produce-sent-again",
        WARNING,
        text,
        {
            "batches": rows.total("batches"), "tries": rows.largest("tries"),
            "until_success_ns": slowest, "not_written": lost,
        },
        their(rows) | column_of("topics", "topic", rows),
        rows.earliest("first_sent"),
        rows.latest("last_sent"),
        rows.first_packet(),
    )  # fmt: skip


def unsafe(seen: Context) -> Iterator[Finding]:
    """Producers that do not wait for all replicas."""
    rows = seen.chosen("delivery", among("acks", (0, 1)))
    if rows:
        yield Finding(
            "may-lose-records",
            NOTICE,
            f"{clients_of(rows)} would not notice records lost in a failover: "
            f"{_batches(rows, 'batches')} with acks=0 or 1 to {_topics(rows)}",
            {"batches": rows.total("batches")},
            their(rows) | column_of("topics", "topic", rows),
            rows.earliest("first_sent"),
            rows.latest("last_sent"),
        )


def lost_unnoticed(seen: Context) -> Iterator[Finding]:
    """Producers with acks=0 whose connections broke: records in flight are lost."""
    rows = seen.chosen("delivery", among("acks", (0,)))
    if not rows:
        return
    addresses = {row["client_ip"] for row in rows}
    broken = seen.chosen("health", some(*BROKEN), lambda row: row["client_ip"] in addresses)
    number_broken = sum(map(broken_connections, broken))
    if number_broken < FEW:
        return
    brokers = list(dict.fromkeys(str(row["broker"]) for row in broken))
    yield Finding(
        "acks-0-records-lost",
        WARNING,
        f"{clients_of(rows)} wrote to {_topics(rows)} with acks=0 while "
        f"{listed(brokers, 'broker')} refused or reset {counted(number_broken, 'connection')} "
        f"from {agreeing(len(addresses), 'that address', 'those addresses')}: records in flight "
        "at that time are lost, without an error",
        {"connections": number_broken, "batches": rows.total("batches")},
        their(rows) | column_of("topics", "topic", rows) | {"brokers": brokers},
        rows.earliest("first_sent"),
        rows.latest("last_sent"),
    )


def broken_connections(row: Row) -> int:
    """Connections of a client at a broker that the broker refused or reset."""
    return sum(number(row, name) for name in BROKEN)


def transactions(seen: Context) -> Iterator[Finding]:
    """Transactions that hang, time out, take long or are taken over."""
    rows = seen.rows("transactions")
    for row in rows:
        if row["outcome"] == "hanging":
            yield _transaction(
                "hanging-transaction", PROBLEM, row,
                f"{_whose(row)} is open and has been idle for {duration(row['idle_ns'])}"
                f" ({_extent(row)}): read_committed consumers are blocked behind it",
            )  # fmt: skip
        elif row["outcome"] == "timed out":
            yield _transaction(
                "hanging-transaction", PROBLEM, row,
                f"{_whose(row)} was left open by its producer ({_extent(row)}) until the "
                f"coordinator aborted it after {duration(row['duration_ns'])}: until then, "
                "read_committed consumers were blocked behind it",
            )  # fmt: skip
        elif row["outcome"] == "taken over":
            yield _transaction(
                "transactional-id-taken-over", WARNING, row,
                f"{_whose(row)} was ended after {duration(row['duration_ns'])} by "
                f"{named(row['ended_by'])}, which took over the same id",
            )  # fmt: skip
        elif (row["duration_ns"] or 0) >= LONG_NS:
            yield _transaction(
                "long-transaction",
                WARNING,
                row,
                f"{_whose(row)} took {duration(row['duration_ns'])}",
            )


def aborts(seen: Context) -> Iterator[Finding]:
    """Transactional ids whose transactions are aborted repeatedly."""
    by_id = seen.grouped(
        "transactions", lambda row: row["transactional_id"], among("outcome", ["aborted"])
    )
    for name, those in by_id.items():
        if those.taken >= ABORTS:
            yield Finding(
                "transactions-abort", WARNING,
                f"{counted(those.taken, 'transaction')} of {named(name)} ({clients_of(those)}) "
                "were aborted",
                {"transactions": those.taken}, {"transaction": name} | their(those),
                those.earliest("started"), those.latest("started"), those.first_packet(),
            )  # fmt: skip


def _transaction(id_: str, severity: str, row: Row, text: str) -> Finding:
    numbers = {name: row[name] for name in ("duration_ns", "idle_ns", "partitions", "records")}
    concerns = {"transaction": row["transactional_id"]} | their(Rows([row]))
    started = time_ns(row, "started")
    packet = row["first_packet"]
    return Finding(id_, severity, text, numbers, concerns, started, started, packet)


def _extent(row: Row) -> str:
    """Amount written by a transaction: ``3 records in 1 partition``."""
    records, partitions = row["records"] or 0, row["partitions"] or 0
    return f"{counted(records, 'record')} in {counted(partitions, 'partition')}"


def _whose(row: Row) -> str:
    return f"A transaction of {named(row['transactional_id'])} ({client_of(row)})"


def _is_failover(seen: Context) -> bool:
    return any(row["old_broker"] for row in seen.every("failovers"))


def _batches(rows: Rows, column: str) -> str:
    return counted(rows.total(column), "batch")


def _were(rows: Rows, column: str) -> str:
    return agreeing(rows.total(column), "was", "were")


def _topics(rows: Rows) -> str:
    names = _topic_names(rows)
    return listed(names, "topic", rows.distinct("topic", len(names)))


def _topic_names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(named(row["topic"]) for row in rows))


def _brokers(rows: Chosen) -> str:
    names = list(dict.fromkeys(row["broker"] for row in rows if row["broker"]))
    # Where rows are left out, those without a broker count as one more at most.
    total = rows.distinct("broker") if rows.taken > len(rows) else 0
    return listed(names, "broker", total)


def _again(seen: Context, rows: Rows) -> Chosen:
    clients = {(row["client_id"], row["client_ip"]) for row in rows}
    return seen.chosen(
        "retries", wanted=lambda row: (row["client_id"], row["client_ip"]) in clients
    )


def _cause(seen: Context, rows: Rows) -> str:
    causes = list(dict.fromkeys(row["cause"] for row in _again(seen, rows)))
    words = {"unanswered": "no response came", "sent again": "the response was late or lost"}
    reasons = [words.get(cause, cause) for cause in causes]
    return f"; they were retried because {' or '.join(reasons)}" if reasons else ""


def _packet(seen: Context, rows: Rows) -> int | None:
    return _again(seen, rows).first_packet()


RULES: Final = (
    duplicates, given_up, sent_again, unsafe, lost_unnoticed, transactions, aborts,
)  # fmt: skip
