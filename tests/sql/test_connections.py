"""Locked connections: the parts of the machine that they reach, for any query."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from kdissect.errors import KdissectError
from kdissect.rules.executor import LITTLE
from kdissect.sql.connections import PREFIX, locked_connection
from kdissect.sql.failures import engine_failures, lacks_memory, reason_of
from kdissect.sql.files import parquet_files
from kdissect.sql.memory_limits import MEMORY_VARIABLE
from tests.seeds import SEED
from tests.sql.attacks import CANARY, Prey, drawn, made_prey, scalars, statements, tables


@pytest.fixture
def prey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prey]:
    monkeypatch.setenv("KDISSECT_CANARY", CANARY)
    monkeypatch.chdir(tmp_path)
    with made_prey(tmp_path / "prey") as made:
        yield made


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "source.parquet"
    parquet.write_table(pa.table({"api": ["Fetch"]}), path)
    return str(path)


def test_files_that_were_given_are_read(source: str) -> None:
    with locked_connection([source]) as connection:
        assert connection.sql(f"FROM {parquet_files([source])}").fetchall() == [("Fetch",)]


def test_arrow_tables_are_readable() -> None:
    with locked_connection() as connection:
        connection.register("rows", pa.table({"api": ["Fetch"]}))
        assert connection.sql("FROM rows").fetchall() == [("Fetch",)]


def test_no_query_reaches_anything_else(prey: Prey, source: str) -> None:
    """The second wall: these are run as they are, without the check of conditions."""
    prey_frame = pa.table({"content": [CANARY]})  # a variable that DuckDB would find by its name
    before = prey.state()
    queries = [f"FROM {table}" for table in tables(prey)]
    queries += [f"SELECT {scalar}" for scalar in scalars(prey)]
    queries += statements(prey)
    chance = random.Random(SEED)
    queries += [f"SELECT true AS api WHERE ({drawn(chance, prey)})" for _ in range(60)]
    with locked_connection([source]) as connection:
        for query in queries:
            try:
                found = str(connection.sql(query) or "")
            except duckdb.Error as error:
                found = str(error)
            assert CANARY not in found.replace(query, ""), query
    assert prey_frame.num_rows == 1
    assert prey.state() == before
    assert not prey.was_called()


@pytest.mark.parametrize(
    "setting", ["enable_external_access = true", "threads = 2", "temp_directory = '/tmp'"]
)
def test_settings_cannot_be_changed(setting: str) -> None:
    with locked_connection() as connection, pytest.raises(duckdb.Error, match="locked"):
        connection.execute(f"SET {setting}")


@pytest.mark.parametrize(("settings", "expected"), [({}, 500e6), (LITTLE, 160e6)])
def test_memory_is_limited(settings: dict[str, str], expected: float) -> None:
    query = "SELECT value FROM duckdb_settings() WHERE name = 'memory_limit'"
    with locked_connection(settings=settings) as connection:
        (text,) = connection.execute(query).fetchall()[0]
    number, unit = text.split()
    assert unit == "MiB"
    assert float(number) * (1 << 20) == pytest.approx(expected, rel=0.01)


def test_the_environment_may_give_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    percentile = "SELECT quantile_cont(random(), 0.99) FROM range(20_000_000)"
    monkeypatch.setenv(MEMORY_VARIABLE, "50 MB")
    with locked_connection() as connection, pytest.raises(engine_failures()) as failure:
        connection.execute(percentile)
    assert lacks_memory(failure.value)
    assert reason_of(failure.value) == (
        "it takes more memory than 50 MB; KDISSECT_DUCKDB_MEMORY=4GB allows more"
    )
    monkeypatch.setenv(MEMORY_VARIABLE, "2GiB")
    with locked_connection() as connection:
        assert connection.execute(percentile).fetchall()[0][0] > 0.9


@pytest.mark.parametrize("text", ["much", "-1GB", "1GB; SELECT 1", "4", "1" * 10 + "GB", "٣GB"])
def test_a_limit_that_is_none_is_an_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, text)
    with pytest.raises(KdissectError, match="expected a size"), locked_connection():
        pass


def test_queries_over_the_memory_limit_spill_to_files_that_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "a[1] 'b'"))
    (tmp_path / "a[1] 'b'").mkdir()
    monkeypatch.chdir(tmp_path)
    query = "FROM (SELECT i, md5(i::VARCHAR) AS text FROM range(600_000) t(i) ORDER BY text)"
    peak = 0
    settings = {"memory_limit": "48MB", "threads": "1"}
    with locked_connection(settings=settings) as connection:
        rows = connection.execute(query)
        spilled = list((tmp_path / "a[1] 'b'").rglob("*"))
        peak = sum(path.stat().st_size for path in spilled if path.is_file())
        assert len(rows.fetchall()) == 600_000
    assert any(path.name.startswith(PREFIX) for path in spilled)
    assert peak > 1 << 20
    assert list((tmp_path / "a[1] 'b'").iterdir()) == []
    assert not (tmp_path / ".tmp").exists()


def test_connections_of_several_threads_do_not_share_anything(source: str) -> None:
    found: list[list[tuple[str]]] = []

    def ask() -> None:
        with locked_connection([source]) as connection:
            connection.execute(f"CREATE VIEW t AS FROM {parquet_files([source])}")
            found.append(connection.sql("FROM t").fetchall())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[("Fetch",)]] * 8
