"""Answers in parts, by separate statements, are those of one statement.

That is refused here as by DuckDB; the statements that follow are executed as they are.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random

import duckdb
import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines import duckdb_tables
from kdissect.analysis.engines.duckdb_statements import statements_of
from kdissect.analysis.engines.duckdb_tables import DuckTables
from kdissect.analysis.engines.ibis_tables import declared_tables
from kdissect.analysis.engines.stored_tables import directory_place
from tests.seeds import SEED

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcapng"))
IN_PARTS = [name for name, question in QUESTIONS.items() if question.parts]
CONDITIONS = (
    None,
    "response_end_ns - request_start_ns > 1000000 or error_code <> 0",
    "partition % 2 = 0",
    "topic like '%e%' or exchange_id in (select exchange_id from all_exchanges where api_key > 3)",
)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[list[str]]]:
    """A context in which whole answers are refused for want of memory, as often as it says."""

    @contextmanager
    def refusing():
        times: list[str] = []

        def refuse(_: duckdb.DuckDBPyConnection, table: str, __: str) -> None:
            times.append(table)
            raise duckdb.OutOfMemoryException("failed to pin block of size 256.0 KiB")

        with monkeypatch.context() as patched:
            patched.setattr(duckdb_tables, "keep", refuse)
            yield times

    return refusing


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_the_answer_is_that_of_one_statement(
    capture: Path, tmp_path: Path, refused: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    kdissect.write(capture, tmp_path)
    source = Random(f"{SEED} {capture.stem}")
    for name in {*IN_PARTS, *source.sample(sorted(QUESTIONS), 3)}:
        where = source.choice(CONDITIONS)
        expected = kdissect.analyse(name, tmp_path, where=where).table
        with refused() as times:
            found = kdissect.analyse(name, tmp_path, where=where).table
        assert times, name
        assert found.equals(expected), (name, where)


@pytest.mark.slow
def test_parts_of_several_places_are_those_of_all(
    tmp_path: Path, refused: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    source = Random(SEED)
    places = [tmp_path / str(number) for number in range(3)]
    for place in places:
        kdissect.write(source.choice(CAPTURES), place)
    for name in IN_PARTS:
        expected = kdissect.analyse(name, places).table
        with refused() as times:
            assert kdissect.analyse(name, places).table.equals(expected), name
        assert times


def test_a_part_is_kept_until_its_last_reader_only(tmp_path: Path) -> None:
    kdissect.write(CAPTURES[0], tmp_path)
    question = QUESTIONS["lag"]
    statements = statements_of(question.answer(declared_tables()).op())
    names = [part.name for part in statements.parts]
    for place, part in enumerate(statements.parts):
        after = [*[later.sql for later in statements.parts[place + 1 :]], statements.answer]
        for name in part.finished:
            assert name in names[: place + 1]
            assert not any(f'"{name}"' in sql for sql in after), (part.name, name)
    # Nothing is left behind.
    with DuckTables([directory_place(tmp_path)], question.tables) as tables:
        duckdb_tables.keep_separately(
            tables.connection, "found", question.answer(declared_tables()).op()
        )
        left = tables.connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    assert left == [("found",)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clients", "upgrade"])
@pytest.mark.parametrize("by", [["client_ip"], ["broker"], ["client_id", "connection_id"]])
def test_clients_that_are_not_told_by_their_id_are_not_parted(
    name: str,
    by: list[str],
    tmp_path: Path,
    refused: Callable[[], AbstractContextManager[list[str]]],
) -> None:
    kdissect.write(Random(SEED).choice(CAPTURES), tmp_path)
    expected = kdissect.analyse(name, tmp_path, by=by).table
    with refused():
        assert kdissect.analyse(name, tmp_path, by=by).table.equals(expected)
