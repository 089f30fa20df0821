"""The generated queries run on Parquet files, by DuckDB."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.rules.compiled_sql import (
    SHARING,
    KeptAnswer,
    kept_answers,
    query,
    table_of,
    whole_query,
)
from kdissect.rules.evidence_rows import ROWS, Row, shortened
from kdissect.rules.evidence_sources import EveryRow, KeptRows, row_batches
from kdissect.sql.buckets import Choose, keep_by_buckets
from kdissect.sql.connections import locked_connection
from kdissect.sql.failures import engine_failures, lacks_memory, reason_of
from kdissect.sql.files import PlainPaths, parquet_files
from kdissect.sql.interruption import interruptible
from kdissect.sql.memory_limits import first_limits
from kdissect.sql.separate_statements import keep_if_it_fits, keep_or_separate
from kdissect.sql.times import with_zone
from kdissect.tables.schemas import TABLES, TIME

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# The machine has other work, and where there are not many rows a second thread only takes memory.
# With less memory most queries spill, and take twice as long.
ONE_THREAD: Final = {"threads": "1"}
LITTLE: Final = {**ONE_THREAD, "memory_limit": "160MB"}
# For more rows, all threads and the memory of an analysis; `LITTLE` takes several times as long.
MANY_ROWS: Final = 10_000_000  # of all tables: 2 GB of capture


class Answers(NamedTuple):
    """Evidence name → its first rows, or the reason where the engine gave up.

    `more` has all rows of those that have more, while the connection is open; `unread` are
    those too large for the engine to keep in full.
    """

    rows: dict[str, list[Row]]
    failures: dict[str, str]
    more: dict[str, EveryRow]
    unread: set[str]


@contextmanager
def answers(
    directory: Path, columns: Mapping[str, Sequence[str]], names: Iterable[str], rows: int = 0
) -> Iterator[Answers]:
    """Results of the generated queries over `directory`, which has a file for each table.

    `rows` is how many the tables have in all, if they may have many.
    """
    found = Answers({}, {}, {}, set())
    with PlainPaths() as paths, ExitStack() as opened:
        files = {table: paths.of(str(directory / f"{table}.parquet")) for table in columns}
        left = list(names)
        limit = {"memory_limit": first_limits()[0]}
        first, more = (limit, {}) if rows > MANY_ROWS else (LITTLE, ONE_THREAD)
        # `more` has no limit of its own: that of all other queries, for state that does not spill.
        for settings in (first, more):
            if left:
                settings = {"preserve_insertion_order": "false", **settings}
                connection = opened.enter_context(locked_connection(files.values(), settings))
                choose = partial(_choose, connection, columns, files)
                for table in columns:
                    choose(table)
                left = _ask_each(connection, left, choose, found)
        yield found


def _ask_each(
    connection: "DuckDBPyConnection", names: Sequence[str], choose: Choose, found: Answers
) -> list[str]:
    """Ask for evidence; return the names of what took too much memory."""
    over: dict[str, KeptAnswer] = {}
    for name, shared in _shared(names).items():
        keep_answer = partial(_keep_answer, connection, name, shared, choose)
        if interruptible(keep_answer, connection.interrupt):
            over |= dict.fromkeys(shared.cuts, shared)
    left = []
    for name in names:
        ask = partial(_ask, connection, name, over.get(name), choose, found)
        if not interruptible(ask, connection.interrupt):
            left.append(name)
    return left


def _choose(
    connection: "DuckDBPyConnection",
    columns: Mapping[str, Sequence[str]],
    files: Mapping[str, str],
    table: str,
    condition: str = "",
) -> None:
    """Make a table of a file, or of its rows for which a condition holds."""
    source = parquet_files([files[table]])
    select = f"SELECT {_selection(table, columns[table])} FROM {source}"  # noqa: S608  # ours
    if condition:
        select = f"SELECT * FROM ({select}) WHERE {condition}"  # noqa: S608  # ours
    connection.execute(f"CREATE OR REPLACE VIEW {table} AS {select}")


def _shared(names: Sequence[str]) -> dict[str, KeptAnswer]:
    """The answers that two of the names share."""
    pairs = {one for one, other in SHARING.items() if one in names and other in names}
    return {one: shared for one, shared in kept_answers().items() if one in pairs}


def _keep_answer(
    connection: "DuckDBPyConnection", name: str, shared: KeptAnswer, choose: Choose
) -> bool:
    """Keep the answer of a question that findings and pages ask, so that it is found once.

    False: the engine cannot keep it, so each asks the question itself.
    """
    try:
        if not shared.keys:
            keep_or_separate(connection, table_of(name), shared.answer)
        elif not keep_if_it_fits(connection, table_of(name), shared.answer):
            keep_by_buckets(connection, table_of(name), shared.buckets, shared.keys, choose)
    except engine_failures():
        return False
    return True


def _ask(
    connection: "DuckDBPyConnection",
    name: str,
    over: KeptAnswer | None,
    choose: Choose,
    found: Answers,
) -> bool:
    """Keep the rows of an evidence, or why there are none; false when they took too much memory.

    `over` is the answer that is kept for it.
    """
    if _keep_all(connection, name, over, choose, found):
        return True
    try:
        # Not by a cursor, whose query `interrupt` would not end.
        batches = row_batches(connection.execute(query(name)))
        found.rows[name] = [shortened(row) for rows in batches for row in rows]
    except engine_failures() as error:
        found.failures[name] = reason_of(error)
        return not lacks_memory(error)
    found.failures.pop(name, None)
    if len(found.rows[name]) > ROWS:
        found.unread.add(name)
    return True


def _keep_all(
    connection: "DuckDBPyConnection",
    name: str,
    over: KeptAnswer | None,
    choose: Choose,
    found: Answers,
) -> bool:
    """Keep all rows of an evidence in the engine, which spills rows that do not fit into memory.

    So the query runs once, however many rows it has. False: the engine cannot keep them.
    """
    every = f"every_{name}"
    kept = KeptRows(connection, every)
    answer = kept_answers().get(name)
    try:
        if over is not None or answer is None or not answer.keys:
            keep_or_separate(connection, every, over.whole(name) if over else whole_query(name))
        elif not keep_if_it_fits(connection, every, whole_query(name)):
            keep_by_buckets(connection, table_of(name), answer.buckets, answer.keys, choose)
            keep_or_separate(connection, every, answer.whole(name))
            connection.execute(f"DROP TABLE {table_of(name)}")
        found.rows[name] = [shortened(row) for row in kept.first(ROWS + 1)]
    except engine_failures():
        return False
    found.failures.pop(name, None)
    if len(found.rows[name]) > ROWS:
        found.more[name] = kept
    return True


def gather(
    directory: Path, columns: Mapping[str, Sequence[str]], names: Iterable[str]
) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """The first rows of evidence, and the reasons where the engine gave up."""
    with answers(directory, columns, names) as found:
        return found.rows, found.failures


def _selection(table: str, chosen: Sequence[str]) -> str:
    kinds = {column.name: column.type for column in TABLES[table].columns}
    columns = []
    for name in chosen:
        if kinds[name] == TIME:
            columns += [with_zone(name), f'epoch_ns("{name}") AS "{name}_ns"']
        else:
            columns.append(f'"{name}"')
    return ", ".join(columns)
