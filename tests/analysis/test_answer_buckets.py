"""Answers bucket by bucket, and by separate statements, are those of one query.

That query is refused here as DuckDB refuses it; what follows is executed as it is.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random

import duckdb
import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines import duckdb_tables
from kdissect.sql import separate_statements
from kdissect.sql.buckets import COUNTS
from kdissect.sql.spilled_percentiles import keep
from tests.seeds import SEED

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcapng"))
BUCKETED = [name for name, question in QUESTIONS.items() if question.bucketed_by]
CONDITIONS = (
    None,
    "response_end_ns - request_start_ns > 1000000 or error_code <> 0",
    "partition % 2 = 0",
    "topic like '%e%' or exchange_id in (select exchange_id from all_exchanges where api_key > 3)",
)
WHOLE = "the whole statement"
# The functions that keep the rows of a statement, in the modules that call them.
KEEPING = (
    (duckdb_tables, "keep"),
    (separate_statements, "keep"),
    (separate_statements, "keep_at_once"),
)

Keeping = Callable[[duckdb.DuckDBPyConnection, str, str], None]
Refusing = Callable[[], AbstractContextManager[list[str]]]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    """A context in which the first query is refused for want of memory; it has its text."""

    @contextmanager
    def refusing() -> Iterator[list[str]]:
        first: list[str] = []

        def refusing_first(keep_rows: Keeping) -> Keeping:
            def refuse(connection: duckdb.DuckDBPyConnection, table: str, sql: str) -> None:
                if not first:
                    first.append(sql)
                    raise duckdb.OutOfMemoryException("failed to pin block of size 256.0 KiB")
                keep_rows(connection, table, sql)

            return refuse

        with monkeypatch.context() as patched:
            for module, way in KEEPING:
                patched.setattr(module, way, refusing_first(getattr(module, way)))
            yield first

    return refusing


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_the_answer_is_that_of_one_statement(
    capture: Path, tmp_path: Path, refused: Refusing
) -> None:
    kdissect.write(capture, tmp_path)
    source = Random(f"{SEED} {capture.stem}")
    for name in sorted({*BUCKETED, *source.sample(sorted(QUESTIONS), 3)}):
        where = source.choice(CONDITIONS)
        expected = kdissect.analyse(name, tmp_path, where=where).table
        with refused() as times:
            found = kdissect.analyse(name, tmp_path, where=where).table
        assert times, name
        assert found.equals(expected), (name, where)


@pytest.mark.slow
def test_buckets_of_several_places_are_those_of_all(tmp_path: Path, refused: Refusing) -> None:
    source = Random(SEED)
    places = [tmp_path / str(number) for number in range(3)]
    for place in places:
        kdissect.write(source.choice(CAPTURES), place)
    for name in BUCKETED:
        expected = kdissect.analyse(name, places).table
        with refused() as times:
            assert kdissect.analyse(name, places).table.equals(expected), name
        assert times


@pytest.mark.slow
@pytest.mark.parametrize("name", ["topology", "clients", "upgrade"])
def test_what_is_known_of_all_clients_is_queried_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = Counter[str]()

    def refuse_whole(connection: duckdb.DuckDBPyConnection, table: str, sql: str) -> None:
        if not executed:
            executed[WHOLE] += 1
            raise duckdb.OutOfMemoryException("failed to pin block of size 256.0 KiB")
        executed[sql] += 1
        keep(connection, table, sql)

    kdissect.write(Random(SEED).choice(CAPTURES), tmp_path)
    with monkeypatch.context() as patched:
        for module in (duckdb_tables, separate_statements):
            patched.setattr(module, "keep", refuse_whole)
        found = kdissect.analyse(name, tmp_path).table
    assert found.equals(kdissect.analyse(name, tmp_path).table)
    assert {*executed.values()} == {1, COUNTS[0]}
    defining = [times for sql, times in executed.items() if """'|' AS "spoken\"""" in sql]
    assert {*defining} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clients", "upgrade"])
@pytest.mark.parametrize("by", [["client_ip"], ["broker"], ["client_id", "connection_id"]])
def test_clients_that_are_not_told_by_their_id_have_no_buckets(
    name: str,
    by: list[str],
    tmp_path: Path,
    refused: Refusing,
) -> None:
    kdissect.write(Random(SEED).choice(CAPTURES), tmp_path)
    expected = kdissect.analyse(name, tmp_path, by=by).table
    with refused():
        assert kdissect.analyse(name, tmp_path, by=by).table.equals(expected)
