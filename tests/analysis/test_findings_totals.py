"""Numbers of findings are those of all rows, however many there are; names are of the first."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kdissect.api.writing import write
from kdissect.cli.program import run
from kdissect.rules import executor
from kdissect.rules.compiled_sql import columns_needed, names, query, whole_query
from kdissect.rules.context import GROUPED_ROWS
from kdissect.rules.evidence_rows import ROWS, US, Chosen, Rows
from kdissect.rules.evidence_sources import KeptRows
from kdissect.rules.executor import answers
from kdissect.rules.finding import Finding
from kdissect.sql.separate_statements import keep_or_separate
from kdissect.tables.spilled_tables import KeptTables
from tests.analysis.made_findings import START_US, judged, seen
from tests.exchange_builders import request, response
from tests.hostile_captures import Talk, capture_of
from tests.seeds import SEED

LOGINS = 2_000
SASL_FAILED = 58


def refused_logins(number: int) -> bytes:
    """So many clients, each refused once on its own connection."""
    talks = []
    for at in range(number):
        talk = Talk(port=10_000 + at, begin_ns=at * 1_000_000)
        client = f"client-{at:05}"
        talk.client(request("SaslHandshake", 1, 1, client, mechanism="PLAIN"))
        talk.broker(response("SaslHandshake", 1, 1, mechanisms=["PLAIN"]))
        talk.client(request("SaslAuthenticate", 0, 2, client, auth_bytes=b"\0user\0wrong"))
        said = {"error_code": SASL_FAILED, "error_message": "no"}
        talks.append(talk.broker(response("SaslAuthenticate", 0, 2, **said)))
    return capture_of(talks)


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("totals") / "logins.pcap"
    path.write_bytes(refused_logins(LOGINS))
    return path


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The finding about logins that a summary as JSON has."""
    assert run(["summary", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    return next(dict(one) for one in found if one["id"] == "authentication-fails")


@pytest.mark.slow
def test_two_thousand_refused_logins_are_reported_as_two_thousand(
    logins: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, str(logins))
    assert found["numbers"] == {"logins": LOGINS}
    assert found["text"] == (
        "2000 logins of client-00000 at 10.0.0.1, client-00001 at 10.0.0.1, client-00002 at "
        "10.0.0.1 and 1997 more clients failed (PLAIN): SASL_AUTHENTICATION_FAILED (no)"
    )
    assert len(found["concerns"]["clients"]) == ROWS
    assert found["concerns"]["clients_count"] == LOGINS
    assert found["concerns"]["client_ips"] == ["10.0.0.1"]


@pytest.mark.slow
def test_counts_beyond_the_engines_memory_are_lower_bounds(
    logins: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: str) -> str:
        raise duckdb.OutOfMemoryException("no room")

    monkeypatch.setattr(KeptTables, "is_large", True)  # otherwise DuckDB is not queried
    monkeypatch.setattr(executor, "whole_query", fails)
    found = told(capsys, str(logins))
    assert found["numbers"] == {"logins": ROWS + 1, "is_at_least": True}
    assert "; at least: only the first 300 rows were examined" in found["text"]


@pytest.mark.slow
def test_rows_that_cannot_be_read_cost_the_findings_and_not_the_page(
    logins: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise duckdb.OutOfMemoryException("failed to pin block of size 256.0 KiB")

    monkeypatch.setattr(KeptTables, "is_large", True)
    monkeypatch.setattr(KeptRows, "batches", fails)
    assert run(["summary", "--json", str(logins)]) == 0
    page = json.loads(capsys.readouterr().out)
    (missing,) = [one for one in page["findings"] if one["id"] == "not-asked"]
    assert "it takes more memory than" in missing["text"]
    assert page["totals"]["exchanges"] == 2 * LOGINS


@pytest.mark.slow
def test_all_rows_of_an_answer_begin_with_the_first(logins: Path, tmp_path: Path) -> None:
    tables = list(columns_needed())
    write(logins, tmp_path / "tables", tables=tables)
    with answers(tmp_path / "tables", columns_needed(), ["errors", "logins"]) as found:
        assert (found.failures, found.unread) == ({}, set())
        for name in ("errors", "logins"):
            every = [row for rows in found.more[name].batches() for row in rows]
            assert len(every) == LOGINS
            assert every[: ROWS + 1] == found.rows[name]


@pytest.mark.slow
def test_findings_of_many_rows_are_the_same_with_all_threads(
    logins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(logins, tmp_path / "tables", tables=list(columns_needed()))
    settings = []

    def noted(connection: Any, name: str, sql: str) -> None:
        queried = "SELECT current_setting('threads'), current_setting('memory_limit')"
        settings.append(connection.execute(queried).fetchone())
        keep_or_separate(connection, name, sql)

    monkeypatch.setattr(executor, "keep_or_separate", noted)
    found = []
    for rows in (0, executor.MANY_ROWS + 1):
        with answers(tmp_path / "tables", columns_needed(), ["errors", "logins"], rows) as one:
            found.append((one.rows, one.failures))
    assert found[0] == found[1]
    few, many = settings[0], settings[-1]
    assert few == (1, "152.5 MiB")
    assert many == (len(os.sched_getaffinity(0)), "190.7 MiB")


@pytest.mark.slow
def test_the_query_of_an_evidence_with_many_rows_runs_once(
    logins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(name: str) -> str:
        raise AssertionError(f"{name} is queried a second time")

    write(logins, tmp_path / "tables", tables=list(columns_needed()))
    monkeypatch.setattr(executor, "query", never)
    with answers(tmp_path / "tables", columns_needed(), ["errors", "logins"]) as found:
        assert all(len(found.rows[name]) == ROWS + 1 for name in ("errors", "logins"))


def test_every_printed_query_has_a_limit_that_can_be_taken_away() -> None:
    for name in names():
        whole = whole_query(name)
        assert len(query(name)) - len(whole) == len(f" LIMIT {ROWS + 1}")
        assert f"LIMIT {ROWS + 1}" not in whole[-40:]


def rows_of(number: int, make: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    return [make(at) for at in range(number)]


def error(at: int, name: str, **more: Any) -> dict[str, Any]:
    return {
        "error": name, "api": "Fetch", "client": f"c{at}", "client_ip": "10.0.0.1",
        "errors": 2 + at % 3, "first_seen": START_US + 5 * at, "last_seen": START_US + 9 * at,
        "first_packet": 7 + at, **more,
    }  # fmt: skip


def producer(at: int, **more: Any) -> dict[str, Any]:
    return {"client_id": f"c{at}", "client_ip": "10.0.0.1", "topic": f"t{at}", **more}


def rebalance(at: int, **more: Any) -> dict[str, Any]:
    return {
        "group_id": "g", "client_id": f"c{at}", "client_ip": "10.0.0.1", "rebalances": 1,
        "members_before": 1, "stopped_ns": 10**9, "all_stopped_ns": 10**9, **more,
    }  # fmt: skip


# Evidence, how its rows are made, the finding, and the column of rows that each number is a sum of.
COUNTED: list[tuple[str, Callable[[int], dict[str, Any]], str, dict[str, str]]] = [
    ("logins", lambda at: {"client": f"c{at}", "failed_logins": 1 + at % 2},
     "authentication-fails", {"logins": "failed_logins"}),
    ("errors", lambda at: error(at, "TOPIC_AUTHORIZATION_FAILED"),
     "authorization-fails", {"errors": "errors"}),
    ("errors", lambda at: error(at, "NOT_ENOUGH_REPLICAS"),
     "replicas-missing", {"errors": "errors"}),
    ("errors", lambda at: error(at, "CORRUPT_MESSAGE"),
     "error-CORRUPT_MESSAGE", {"errors": "errors"}),
    ("delivery", lambda at: producer(at, written_twice=1 + at % 4, records_twice=10 + at),
     "duplicates-in-log", {"records": "records_twice", "batches": "written_twice"}),
    ("delivery", lambda at: producer(at, given_up=1 + at % 4, last_error="MESSAGE_TOO_LARGE"),
     "produce-gave-up", {"batches": "given_up"}),
    ("delivery", lambda at: producer(at, acks=1, batches=3 + at % 2),
     "may-lose-records", {"batches": "batches"}),
    ("retries", lambda at: producer(at, cause="unanswered", batches=4, not_written=at % 2, tries=2),
     "produce-sent-again", {"batches": "batches", "not_written": "not_written"}),
    ("traffic", lambda at: {"client": f"c{at}", "throttled": 1 + at % 5, "throttle_max_ms": 9},
     "throttled-by-quota", {"throttled": "throttled"}),
    ("traffic", lambda at: {"client": f"c{at}", "metadata": 200 + at},
     "metadata-storm", {"metadata": "metadata"}),
    ("traffic", lambda at: {"client": f"c{at}", "batches": 2000 + at, "single": 0.9},
     "single-record-batches", {"batches": "batches"}),
    ("health", lambda at: {"client": f"c{at}", "broker": f"b{at}", "reset_by_broker": 1 + at % 2},
     "connections-reset", {"reset_by_broker": "reset_by_broker"}),
    ("health", lambda at: {"client": f"c{at}", "client_ip": f"i{at}", "broker": "b", "refused": 1},
     "broker-refuses-connections", {"refused": "refused"}),
    ("health", lambda at: {"client": f"c{at}", "broker": f"b{at}", "reconnects": 30 + at,
                           "exchanges": 1, "life_p50_ns": 5},
     "connection-churn", {"reconnects": "reconnects"}),
    ("upgrade", lambda at: {"client": f"c{at}", "api": "Fetch", "api_version": 1,
                            "verdict": "breaks", "exchanges": 1 + at},
     "client-breaks-on-4.0", {"exchanges": "exchanges"}),
    ("rebalances", lambda at: rebalance(at, cause="session timeout"),
     "session-timeout", {"rebalances": "rebalances", "all_stopped_ns": "all_stopped_ns"}),
    ("rebalances", lambda at: rebalance(at, cause="max poll exceeded"),
     "max-poll-exceeded", {"rebalances": "rebalances"}),
    ("failovers", lambda at: {"access": "produce", "old_broker": "b", "cause": f"e{at}",
                              "blackouts": 1, "unfinished": at % 2, "errors": 2 + at,
                              "failing_ns": 2 * 10**9},
     "failover-blackout",
     {"partitions": "blackouts", "unfinished": "unfinished", "errors": "errors"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("evidence", "make", "id_", "sums"), COUNTED, ids=[one[2] for one in COUNTED]
)
def test_numbers_are_the_sums_of_all_rows(
    evidence: str, make: Callable[[int], dict[str, Any]], id_: str, sums: dict[str, str]
) -> None:
    for number in (ROWS, ROWS + 1, random.Random(f"{SEED} {id_}").randrange(ROWS + 2, 3_000)):
        rows = rows_of(number, make)
        found = one_of(judged(**{evidence: rows}), id_)
        expected = {name: sum(row[column] for row in rows) for name, column in sums.items()}
        told = {name: found.numbers[name] for name in sums}
        assert told == expected, f"seed {SEED}, {number} rows"
        assert "is_at_least" not in found.numbers
        assert "at least" not in found.text


def one_of(found: list[Finding], id_: str) -> Finding:
    (one,) = [one for one in found if one.id == id_]
    return one


def test_names_are_counted_and_the_times_are_those_of_all_rows() -> None:
    rows = rows_of(1_234, lambda at: error(at, "CORRUPT_MESSAGE"))
    found = one_of(judged(errors=rows), "error-CORRUPT_MESSAGE")
    assert (
        "c0 at 10.0.0.1, c1 at 10.0.0.1, c2 at 10.0.0.1 and 1\u202f231 more clients" in found.text
    )
    assert found.concerns["clients_count"] == 1_234
    assert (found.first_time_ns, found.last_time_ns, found.packet) == (
        START_US * 1000, (START_US + 9 * 1_233) * 1000, 7,
    )  # fmt: skip


def test_aborted_transactions_are_counted() -> None:
    rows = rows_of(
        1_500,
        lambda at: {"outcome": "aborted", "transactional_id": "t", "client_id": f"c{at % 700}"},
    )
    found = one_of(judged(transactions=rows), "transactions-abort")
    assert found.numbers == {"transactions": 1_500}
    assert found.concerns["clients_count"] == 700


def test_groups_beyond_the_first_are_omitted_with_a_note() -> None:
    rows = rows_of(ROWS + 1, lambda at: error(at, f"E{at}"))
    found = [one for one in judged(errors=rows) if one.id.startswith("error-E")]
    assert len(found) == ROWS
    assert all(one.numbers["is_at_least"] for one in found)


def test_the_rows_that_groups_keep_are_bounded() -> None:
    rows = rows_of(3 * GROUPED_ROWS, lambda at: error(at, f"E{at % (ROWS // 2)}"))
    groups = seen(errors=rows).grouped("errors", lambda row: row["error"])
    assert len(groups) == ROWS // 2
    assert sum(map(len, groups.values())) == GROUPED_ROWS
    assert all(one.taken == 3 * GROUPED_ROWS // (ROWS // 2) for one in groups.values())


def test_distinct_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.rules.evidence_rows.DISTINCT", 5)
    evidence = seen(errors=rows_of(6, lambda at: error(at, "E")))
    assert evidence.chosen("errors").has_more_names
    assert evidence.cut == {"errors"}


def test_the_numbers_of_rows_are_those_of_their_columns() -> None:
    """Totals of complete rows, and of rows that were cut."""
    chance = random.Random(SEED)
    rows = [
        {"a": chance.choice([None, chance.randrange(-(1 << 70), 1 << 70)]), "client": str(at % 9)}
        for at in range(chance.randrange(1, 900))
    ]
    chosen = Chosen()
    for row in rows:
        chosen.keep(row)
    chosen.add(rows)
    known = [int(row["a"]) for row in rows if row["a"] is not None]
    first, last = min(known, default=None), max(known, default=None)
    for found in (Rows(rows), chosen):
        assert (found.total("a"), found.lowest("a"), found.highest("a")) == (
            sum(known), first, last,
        )  # fmt: skip
        assert (found.largest("a"), found.first_packet("a")) == (last or 0, first)
        assert found.earliest("a") == (None if first is None else first * US)
        assert found.latest("a") == (None if last is None else last * US)
    assert chosen.distinct("client") == len({row["client"] for row in rows})
    assert Rows(rows).distinct("client", 9) == 9
    assert (chosen.taken, list(chosen)) == (len(rows), rows[:ROWS])


def test_rows_without_a_number_have_no_first_nor_last() -> None:
    for found in (Rows([{"a": None}]), Rows(), Chosen()):
        assert (found.total("a"), found.largest("a"), found.earliest("a")) == (0, 0, None)
