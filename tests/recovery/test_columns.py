"""The judge of values finds planted errors in any column, and lets only null pass."""

from collections.abc import Iterator
from typing import Any

import pytest

from kdissect.tables.schemas import TABLES
from tests.exchange_builders import Found, Row
from tests.recovery.captures import wrong_in_capture
from tests.recovery.columns import Wrong
from tests.recovery.relations import DETAILS, OF_LOSS, RELATIONS, Pair, Value, anything, holds
from tests.recovery.talks import dissect, numbered, packets_of, talks_in

CAPTURES = ("retries-4.3.1.pcapng", "groups-4.3.1.pcapng")
NOTHING = Pair({"outcome": "answered"}, {"outcome": "answered"})


def found_in(name: str) -> Found:
    """Result for a connection with rows in every table."""
    talk = max(
        talks_in(name),
        key=lambda one: (sum(bool(one.found.tables[table]) for table in TABLES), len(one.truth)),
    )
    return dissect(packets_of(numbered(talk.wires)))


def copied(found: Found) -> Found:
    """The same rows, that may be changed."""
    return Found([], {name: [dict(row) for row in rows] for name, rows in found.tables.items()})


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}!"
    if isinstance(value, bytes):
        return value + b"!"
    return value + 1


def places(found: Found) -> Iterator[tuple[str, int, str]]:
    """The first row of every table, and its columns."""
    for table, rows in found.tables.items():
        if rows and table != "problems":
            yield from ((table, 0, column) for column in rows[0])


def columns_of(wrongs: Iterator[Wrong]) -> set[tuple[str, str]]:
    return {(wrong.table, wrong.column) for wrong in wrongs}


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_is_right_against_itself(name: str) -> None:
    found = found_in(name)
    assert list(wrong_in_capture(copied(found), found)) == []


@pytest.mark.parametrize("name", CAPTURES)
def test_another_value_is_wrong_in_every_column_that_is_not_declared(name: str) -> None:
    true = found_in(name)
    for table, at, column in places(true):
        value = true.tables[table][at][column]
        if column in ("capture", "exchange_id", "connection_id", "topic", "topic_id", "partition"):
            continue  # rows are matched by these
        if (table, column) in RELATIONS or not isinstance(value, str | int | bool | bytes):
            continue
        found = copied(true)
        found.tables[table][at][column] = other(value)
        assert (table, column) in columns_of(wrong_in_capture(found, true)), (table, column)


@pytest.mark.parametrize("name", CAPTURES)
def test_null_is_right_in_every_column(name: str) -> None:
    true = found_in(name)
    for table, at, column in places(true):
        if column in ("exchange_id", "connection_id", "topic", "topic_id", "partition"):
            continue
        found = copied(true)
        found.tables[table][at][column] = None
        assert list(wrong_in_capture(found, true)) == [], (table, column)


def test_a_value_where_the_whole_has_none_is_wrong() -> None:
    for table, columns in {name: TABLES[name].columns for name in TABLES}.items():
        for column in columns:
            if (table, column.name) not in RELATIONS:
                assert not holds(table, column.name, Value(0, None, NOTHING)), column.name


def test_undeclared_columns_must_be_correct() -> None:
    assert not holds("exchanges", "a_new_column", Value(1, 2, NOTHING))
    assert holds("exchanges", "a_new_column", Value(None, 2, NOTHING))


def test_declared_exceptions_exist_and_have_a_reason() -> None:
    for (table, name), relation in RELATIONS.items():
        assert relation.reason
        assert name in {column.name for column in TABLES[table].columns} | {"exchange_id"}, name


def test_only_columns_about_the_capture_are_exempt() -> None:
    """Columns that may have any value: a new one among them is to be thought about."""
    free = {key for key, relation in RELATIONS.items() if relation.holds is anything}
    of_exchanges = {name for table, name in free if table == "exchanges"}
    assert of_exchanges == {
        "connection_id", "exchange_id", "retransmits", "zero_windows", "rtt_ns", "missing_bytes",
    }  # fmt: skip
    assert {name for table, name in free if table in DETAILS} == {"connection_id", "exchange_id"}


def test_a_row_that_the_whole_does_not_have_is_wrong() -> None:
    true = found_in(CAPTURES[0])
    for table in ("exchanges", "partitions", "bodies"):
        found = copied(true)
        row: Row = {**found.tables[table][0]}
        if table == "exchanges":
            row["exchange_id"] += 1
        found.tables[table].append(row)
        assert (table, "(row)") in columns_of(wrong_in_capture(found, true))


def test_a_problem_that_loss_does_not_bring_is_wrong() -> None:
    true = found_in(CAPTURES[0])
    problem: Row = {"kind": "undecodable-response", "message": "cannot decode"}
    found = copied(true)
    found.tables["problems"].append(problem)
    assert columns_of(wrong_in_capture(found, true)) == {("problems", "kind")}
    for kind in OF_LOSS:
        found.tables["problems"][-1] = problem | {"kind": kind}
        assert list(wrong_in_capture(found, true)) == []
