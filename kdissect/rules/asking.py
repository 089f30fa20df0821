"""The printed queries put to Parquet files, by DuckDB."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kdissect.human import TEXT_LENGTH, cut
from kdissect.rules.printed import query
from kdissect.rules.seen import Rows
from kdissect.tables.schemas import TABLES, TIME


def gather(
    directory: Path, columns: Mapping[str, Sequence[str]], names: Iterable[str]
) -> tuple[dict[str, Rows], dict[str, str]]:
    """Evidence name → rows, and name → why there are none when the engine gave up.

    `directory` has a file for every table, with these columns.
    """
    import duckdb

    rows: dict[str, Rows] = {}
    failures: dict[str, str] = {}
    # Answers are small, the machine is somebody's: one thread, as the dissector has.
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET preserve_insertion_order = false")
        for table, chosen in columns.items():
            file = str(directory / f"{table}.parquet").replace("'", "''")
            select = f"SELECT {_selection(table, chosen)} FROM read_parquet('{file}')"  # noqa: S608
            connection.execute(f"CREATE VIEW {table} AS {select}")
        for name in names:
            try:
                found = connection.execute(query(name))
                titles = [column[0] for column in found.description or ()]
                rows[name] = [_row(titles, row) for row in found.fetchall()]
            except duckdb.Error as error:
                failures[name] = str(error).strip().splitlines()[0]
    return rows, failures


def _row(titles: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """A row of evidence, in which no text from the wire is longer than a page can show."""
    told = (cut(value, TEXT_LENGTH) if isinstance(value, str) else value for value in values)
    return dict(zip(titles, told, strict=True))


def _selection(table: str, chosen: Sequence[str]) -> str:
    kinds = {column.name: column.type for column in TABLES[table].columns}
    told = []
    for name in chosen:
        if kinds[name] == TIME:
            told += [f'"{name}"::TIMESTAMPTZ AS "{name}"', f'epoch_ns("{name}") AS "{name}_ns"']
        else:
            told.append(f'"{name}"')
    return ", ".join(told)
