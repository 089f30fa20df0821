"""The printed queries put to Parquet files, by DuckDB."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from kdissect.human import TEXT_LENGTH, cut
from kdissect.rules.printed import query
from kdissect.rules.seen import Rows
from kdissect.sql.connections import locked_connection
from kdissect.sql.files import PlainPaths, parquet_files
from kdissect.tables.schemas import TABLES, TIME

# Answers are small, and the machine has other work: one thread, as the dissector has.
SETTINGS: Final = {"threads": "1", "preserve_insertion_order": "false"}


def gather(
    directory: Path, columns: Mapping[str, Sequence[str]], names: Iterable[str]
) -> tuple[dict[str, Rows], dict[str, str]]:
    """Evidence name → rows, and name → why there are none when the engine gave up.

    `directory` has a file for every table, with these columns.
    """
    import duckdb

    rows: dict[str, Rows] = {}
    failures: dict[str, str] = {}
    with ExitStack() as opened:
        paths = opened.enter_context(PlainPaths())
        files = {table: paths.of(str(directory / f"{table}.parquet")) for table in columns}
        connection = opened.enter_context(locked_connection(files.values(), SETTINGS))
        for table, chosen in columns.items():
            source = parquet_files([files[table]])
            select = f"SELECT {_selection(table, chosen)} FROM {source}"  # noqa: S608  # ours
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
