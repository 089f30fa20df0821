"""The generated queries run on Parquet files, by DuckDB."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.rules.compiled_sql import (
    SHARING,
    SharedAnswer,
    query,
    shared_answers,
    table_of,
    whole_query,
)
from kdissect.rules.evidence_rows import ROWS, Row
from kdissect.sql.connections import locked_connection
from kdissect.sql.failures import engine_failures, lacks_memory, reason_of
from kdissect.sql.files import PlainPaths, parquet_files
from kdissect.sql.interruption import interruptible
from kdissect.sql.separate_statements import keep_or_separate
from kdissect.sql.times import with_zone
from kdissect.tables.schemas import TABLES, TIME
from kdissect.text.human import TEXT_LENGTH, cut

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Answers are small, and the machine has other work: one thread, as the dissector has. With less
# memory most queries spill, and take twice as long.
LITTLE: Final = {"threads": "1", "preserve_insertion_order": "false", "memory_limit": "160MB"}
# For state that cannot be spilled: the limit of all other queries.
MORE: Final = {name: value for name, value in LITTLE.items() if name != "memory_limit"}
FETCHED_ROWS: Final = 1_000  # at once: 1 MB, as most rows are


class Answers(NamedTuple):
    """Evidence name → its first rows, or the reason where the engine gave up.

    `more` returns all rows of those that have more, while the connection is open; `unread` are
    those too large for the engine to keep in full.
    """

    rows: dict[str, list[Row]]
    failures: dict[str, str]
    more: dict[str, Callable[[], Iterator[Row]]]
    unread: set[str]


@contextmanager
def answers(
    directory: Path, columns: Mapping[str, Sequence[str]], names: Iterable[str]
) -> Iterator[Answers]:
    """Results of the generated queries over `directory`, which has a file for each table."""
    found = Answers({}, {}, {}, set())
    with PlainPaths() as paths, ExitStack() as opened:
        files = {table: paths.of(str(directory / f"{table}.parquet")) for table in columns}
        left = list(names)
        for settings in (LITTLE, MORE):
            if left:
                connection = opened.enter_context(locked_connection(files.values(), settings))
                for table, chosen in columns.items():
                    source = parquet_files([files[table]])
                    select = f"SELECT {_selection(table, chosen)} FROM {source}"  # noqa: S608  # ours
                    connection.execute(f"CREATE VIEW {table} AS {select}")
                over: dict[str, SharedAnswer] = {}
                end = connection.interrupt
                for name, shared in _shared(left).items():
                    if interruptible(partial(_keep_answer, connection, name, shared), end):
                        over |= dict.fromkeys(shared.cuts, shared)
                asked = {
                    one: interruptible(partial(_ask, connection, one, over.get(one), found), end)
                    for one in left
                }
                left = [one for one, is_answered in asked.items() if not is_answered]
        yield found


def _shared(names: Sequence[str]) -> dict[str, SharedAnswer]:
    """The answers that two of the names share."""
    pairs = {one for one, other in SHARING.items() if one in names and other in names}
    return {one: shared for one, shared in shared_answers().items() if one in pairs}


def _keep_answer(connection: "DuckDBPyConnection", name: str, shared: SharedAnswer) -> bool:
    """Keep the answer of a question that findings and pages ask, so that it is found once.

    False: the engine cannot keep it, so each asks the question itself.
    """
    try:
        keep_or_separate(connection, table_of(name), shared.answer)
    except engine_failures():
        return False
    return True


def _ask(
    connection: "DuckDBPyConnection", name: str, over: SharedAnswer | None, found: Answers
) -> bool:
    """Keep the rows of an evidence, or why there are none; false when they took too much memory.

    `over` is the answer that is kept for it.
    """
    if _keep_all(connection, name, over, found):
        return True
    try:
        # Not by a cursor, whose query `interrupt` would not end.
        found.rows[name] = list(_fetched(connection.execute(query(name)), is_shortened=True))
    except engine_failures() as error:
        found.failures[name] = reason_of(error)
        return not lacks_memory(error)
    found.failures.pop(name, None)
    if len(found.rows[name]) > ROWS:
        found.unread.add(name)
    return True


def _keep_all(
    connection: "DuckDBPyConnection", name: str, over: SharedAnswer | None, found: Answers
) -> bool:
    """Keep all rows of an evidence in the engine, which spills rows that do not fit into memory.

    So the query runs once, however many rows it has. False: the engine cannot keep them.
    """
    select = f"SELECT * FROM every_{name}"  # noqa: S608  # a name of ours
    try:
        whole = over.whole(name) if over else whole_query(name)
        keep_or_separate(connection, f"every_{name}", whole)
        first = connection.execute(f"{select} LIMIT {ROWS + 1}")
        found.rows[name] = list(_fetched(first, is_shortened=True))
    except engine_failures():
        return False
    found.failures.pop(name, None)
    if len(found.rows[name]) > ROWS:
        found.more[name] = partial(_rows, connection, select)
    return True


def gather(
    directory: Path, columns: Mapping[str, Sequence[str]], names: Iterable[str]
) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """The first rows of evidence, and the reasons where the engine gave up."""
    with answers(directory, columns, names) as found:
        return found.rows, found.failures


def _rows(connection: "DuckDBPyConnection", sql: str) -> Iterator[dict[str, Any]]:
    """The rows of a kept answer; others may be read at the same time."""
    return _fetched(connection.cursor().execute(sql))


def _fetched(cursor: "DuckDBPyConnection", is_shortened: bool = False) -> Iterator[dict[str, Any]]:
    """The rows of a query, with texts from the wire as they are or cut."""
    titles = [column[0] for column in cursor.description or ()]
    while rows := cursor.fetchmany(FETCHED_ROWS):
        for row in rows:
            found = dict(zip(titles, row, strict=True))
            yield shortened(found) if is_shortened else found


def shortened(row: Row) -> dict[str, Any]:
    """A row of evidence, with texts from the wire truncated for a page."""
    return {
        name: cut(value, TEXT_LENGTH) if isinstance(value, str) else value
        for name, value in row.items()
    }


def _selection(table: str, chosen: Sequence[str]) -> str:
    kinds = {column.name: column.type for column in TABLES[table].columns}
    columns = []
    for name in chosen:
        if kinds[name] == TIME:
            columns += [with_zone(name), f'epoch_ns("{name}") AS "{name}_ns"']
        else:
            columns.append(f'"{name}"')
    return ", ".join(columns)
