"""Rows of evidence: the same from a list, a plan and DuckDB, in the order of the evidence."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from kdissect.api.writing import write
from kdissect.rules import executor
from kdissect.rules.compiled_sql import columns_needed
from kdissect.rules.conditions import ALL, Comparison, Condition, among, either, least, some
from kdissect.rules.engine import judge
from kdissect.rules.evidence_rows import ROWS, Row
from kdissect.rules.evidence_sources import EveryRow, GivenRows, KeptRows, PlannedRows
from kdissect.rules.executor import answers
from kdissect.rules.plans.columns import Column, literal, of_words
from tests.analysis.made_findings import columns_of, made_summary, seen
from tests.seeds import SEED

CAPTURE = Path("captures") / "quickstart.pcapng"
NAMES = ("a", "b", "", "é'\"", "a b", None)
NUMBERS = (None, 0, 1, 2, 3, -7, 1 << 40)
SHARES = (None, 0.0, 0.25, 0.9, 1.0)
COLUMNS = {"n": NUMBERS, "m": NUMBERS, "acks": (None, -1, 0, 1), "share": SHARES, "s": NAMES}


def drawn_rows(source: random.Random, count: int) -> list[dict[str, Any]]:
    return [{name: source.choice(values) for name, values in COLUMNS.items()} for _ in range(count)]


def drawn_clause(source: random.Random) -> list[tuple[str, Any]]:
    """Columns with the least number of each, or the values it is one of."""
    clause: list[tuple[str, Any]] = []
    for _ in range(source.choice((1, 1, 2, 3))):
        name = source.choice([*COLUMNS])
        values = [one for one in COLUMNS[name] if one is not None]
        is_list = name == "s" or (name == "acks" and source.random() < 0.5)
        clause.append((name, source.sample(values, 2) if is_list else source.choice(values)))
    return clause


def condition_of(clauses: list[list[tuple[str, Any]]]) -> Condition:
    return Condition(*(
        tuple(
            Comparison(name, among=value) if isinstance(value, list) else Comparison(name, value)
            for name, value in clause
        )
        for clause in clauses
    ))  # fmt: skip


def rows_by_pandas(rows: list[dict[str, Any]], clauses: list[list[tuple[str, Any]]]) -> list[Row]:
    """The rows of which pandas says that one comparison of each clause holds."""
    frame = pd.DataFrame(rows, dtype="object").astype(
        {"n": "Int64", "m": "Int64", "acks": "Int64", "share": "Float64", "s": "string"}
    )
    found = pd.Series(True, index=frame.index)
    for clause in clauses:
        held = [
            frame[name].isin(value) if isinstance(value, list) else frame[name].ge(value)
            for name, value in clause
        ]
        found &= pd.concat(held, axis=1).fillna(False).any(axis=1)
    return [row for row, is_chosen in zip(rows, found, strict=True) if is_chosen]


def planned(rows: list[dict[str, Any]]) -> PlannedRows:
    columns: dict[str, Column] = {}
    for name in COLUMNS:
        values = [row[name] for row in rows]
        if name == "s":
            columns[name] = of_words(values)
        else:
            given = pd.array(values, dtype="Float64" if name == "share" else "Int64")
            columns[name] = Column(given.to_numpy(na_value=0), ~given.isna())
    return PlannedRows(columns)


def kept(connection: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]]) -> KeptRows:
    connection.execute(
        "CREATE OR REPLACE TABLE kept (n HUGEINT, m BIGINT, acks SMALLINT, share DOUBLE, s VARCHAR)"
    )
    if rows:
        every = [tuple(row.values()) for row in rows]
        connection.executemany("INSERT INTO kept VALUES (?, ?, ?, ?, ?)", every)
    return KeptRows(connection, "kept")


def gathered(every: EveryRow, condition: Condition = ALL) -> list[Row]:
    return [row for rows in every.batches(condition) for row in rows]


def test_all_sources_give_the_rows_that_pandas_gives() -> None:
    source = random.Random(SEED)
    connection = duckdb.connect()
    for _ in range(40):
        rows = drawn_rows(source, source.choice((0, 1, 5, 200)))
        sources = (GivenRows(rows), planned(rows), kept(connection, rows))
        for _ in range(5):
            clauses = [drawn_clause(source) for _ in range(source.choice((0, 1, 2)))]
            expected = rows_by_pandas(rows, clauses) if rows else []
            for every in sources:
                found = gathered(every, condition_of(clauses))
                assert found == expected, f"seed {SEED}: {type(every)} {clauses} {rows}"


def test_all_sources_give_the_largest_numbers_that_pandas_gives() -> None:
    source = random.Random(SEED)
    connection = duckdb.connect()
    for _ in range(40):
        rows = drawn_rows(source, source.choice((1, 5, 200)))
        wanted = source.sample(["a", "b", "", "a b", "c"], 3)
        frame = pd.DataFrame(rows, columns=[*COLUMNS]).dropna(subset=["n", "s"])
        largest = frame[frame.s.isin(wanted)].groupby("s").n.max()
        expected = {name: int(value) for name, value in largest.items() if value > 0}
        for every in (GivenRows(rows), planned(rows), kept(connection, rows)):
            assert every.largest("n", "s", least(n=1) & among("s", wanted)) == expected, (
                f"seed {SEED}: {type(every)} {rows}"
            )


def test_a_column_of_one_value_is_of_all_rows() -> None:
    """Columns of plans are broadcast."""
    every = PlannedRows({"s": of_words(["a", "b"]), "n": literal(3)})
    assert gathered(every, some("n")) == [{"s": "a", "n": 3}, {"s": "b", "n": 3}]
    assert every.largest("n", "s", among("s", ["b"])) == {"b": 3}
    assert every.largest("n", "s", among("s", [])) == {}


def test_conditions_are_told_by_their_constructors() -> None:
    row = {"n": 2, "m": None, "s": "a"}
    assert (least(n=2) & among("s", ["a"])).holds(row)
    assert not (least(n=3) & among("s", ["a"])).holds(row)
    assert not least(n=2, m=0).holds(row)
    assert either(some("m"), among("s", "ab")).holds(row)
    assert not either(some("m"), among("s", ["b"])).holds(row)


def test_many_rows_are_read_in_order_with_all_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB's threads read parts of a table; a capture of 10 GB has evidence of as many rows."""
    count = 600_000
    query = f"SELECT 'c' || i AS client, hash(i) % 1000 AS n FROM range({count}) AS t(i)"  # noqa: S608
    query += " ORDER BY n DESC, client"
    write(CAPTURE, tmp_path / "tables", tables=list(columns_needed()))
    monkeypatch.setattr(executor, "whole_query", lambda _: query)
    monkeypatch.setattr("kdissect.sql.memory_limits.first_limits", lambda: ["500MB"])
    many = executor.MANY_ROWS + 1
    with answers(tmp_path / "tables", columns_needed(), ["errors"], many) as found:
        assert found.failures == {}
        every = found.more["errors"]
        for condition in (ALL, least(n=400), among("client", [f"c{at}" for at in range(999)])):
            order = [(-row["n"], row["client"]) for row in gathered(every, condition)]
            assert order == sorted(order)
            if condition is ALL:
                assert len(order) == count
                first = [(-row["n"], row["client"]) for row in found.rows["errors"]]
                assert first == order[: ROWS + 1]


class Counted:
    """Rows of which those given away are counted."""

    def __init__(self, rows: Sequence[Row], given: Counter[str], name: str) -> None:
        self.every = GivenRows(rows)
        self.given = given
        self.name = name

    def batches(self, condition: Condition = ALL) -> Iterator[list[Row]]:
        for rows in self.every.batches(condition):
            self.given[self.name] += len(rows)
            yield rows

    def largest(self, column: str, by: str, condition: Condition) -> dict[str, int]:
        return self.every.largest(column, by, condition)


def healthy_row(evidence: str, at: int) -> dict[str, Any]:
    """A client with nothing wrong."""
    told: dict[str, dict[str, Any]] = {
        "health": {"connections": 1, "exchanges": 4, "troubled": 0, "rtt_p50_ns": 90_000,
                   "rtt_broker_p50_ns": 9_000, "life_p50_ns": 10**9, "reconnects": 0, "refused": 0,
                   "broker": f"10.0.0.{at % 5}:9092", "time_p99_ns": 10**6},
        "traffic": {"produces": 2, "fetches": 2, "metadata": 1, "batches": 2, "throttled": 0},
        "delivery": {"acks": -1, "batches": 2, "written_twice": 0, "given_up": 0, "topic": "t"},
    }  # fmt: skip
    return dict.fromkeys(columns_of(evidence)) | {
        "client": f"c{at}", "client_ip": f"10.1.{at // 250}.{at % 250}", **told[evidence],
    }  # fmt: skip


def test_rules_read_no_rows_of_clients_with_nothing_wrong() -> None:
    source = random.Random(SEED)
    count, slow = source.randrange(2_000, 9_000), source.randrange(1, 40)
    rows = {
        name: [healthy_row(name, at) for at in range(count)]
        for name in ("health", "traffic", "delivery")
    }
    chosen = source.sample(range(count), slow)
    for at in chosen:
        rows["health"][at]["reset_by_broker"] = 1
        rows["traffic"][at]["throttled"] = 2
    lossy = made_summary(network={"network_lost_bytes": 9, "zero_windows": 3})
    given: Counter[str] = Counter()
    context = replace(
        seen(summary=lossy, **{name: some_rows[: ROWS + 1] for name, some_rows in rows.items()}),
        more={name: Counted(each, given, name) for name, each in rows.items()},
    )
    found = {one.id: one for one in judge(context)}
    if slow >= 3:
        assert found["connections-reset"].numbers["reset_by_broker"] == slow
    assert found["throttled-by-quota"].numbers["throttled"] == 2 * slow
    assert set(given) == {"health", "traffic"}
    assert given.total() <= 4 * slow, f"seed {SEED}: {given} of {count}, {slow}"
