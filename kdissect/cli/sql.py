"""``kdissect sql``: SQL over the tables of captures, and a prompt for it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kdissect.cli import options
from kdissect.cli.completing import completed_files, completed_list, table_names
from kdissect.cli.destination import destination
from kdissect.cli.help import Command, option
from kdissect.cli.output import chosen_format, make_writer
from kdissect.cli.program import code_of
from kdissect.cli.progress import Progress
from kdissect.errors import InvalidArgument
from kdissect.tables.ordering import check_keys, no_column, ordered
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES

if TYPE_CHECKING:
    import pyarrow as pa


@click.command(
    "sql",
    cls=Command,
    short_help="SQL over the tables, or a prompt for it.",
    epilog=options.examples(
        'kdissect sql broker.pcapng "select api, count(*) from exchanges group by api"',
        'kdissect sql tables "from exchanges join connections using (connection_id) '
        'select count(*)"',
        "echo 'from errors select name, count(*) group by all' | kdissect sql broker.pcapng",
    ),
)
@click.argument(
    "words", nargs=-1, required=True, metavar="FILE... [QUERY]", shell_complete=completed_files
)
@option(
    "--tables",
    callback=options.names,
    shell_complete=completed_list(table_names),
    metavar="A,B,...",
    help="Tables of the prompt.  [default: those of dissect]",
)
@options.columns
@options.limiting
@options.sorting
@options.failing(options.ROWS_CONDITION)
@options.output(options.FORMATS)
@options.sharing
@options.reading
@options.payload
def command(
    words: tuple[str, ...],
    tables: list[str] | None,
    columns: list[str] | None,
    limit: int | None,
    keys: tuple[Any, ...],
    fail_on: str | None,
    format_: str | None,
    path: Path | None,
    force: bool,
    jobs: int,
    settings: options.Settings,
    progress: bool | None,
    payload: bool,
) -> int:
    """Run one SELECT (DuckDB's SQL) over the tables of FILE...: captures, directories of tables,
    datasets, live directories. Without QUERY it is read from stdin; on a terminal, a prompt opens.

    `kdissect tables` lists the tables and columns. Nothing else can be read, and nothing written:
    no files, settings, extensions or other statements. Docs: sql.md.
    """
    from kdissect.api.querying import opened_tables
    from kdissect.sql.queries import tables_of

    files, query = divided(words)
    options.check_tables(tables or ())
    if query is None and not sys.stdin.isatty():
        query = sys.stdin.read()
        if not query.strip():
            raise click.UsageError("no query, neither as the last argument nor on stdin")
    format_ = chosen_format(format_, path)
    wanted = tables or list(DEFAULT_TABLES) if query is None else tables_of(query, TABLES)
    with Progress(progress) as shown:
        reading = {**settings, "payload": payload, "progress": shown.report}
        with opened_tables(files, wanted, jobs=jobs, reading=reading) as opened:
            shown.clear()
            if query is None:
                from kdissect.cli.sql_prompt import Prompt

                if path is not None:
                    raise click.UsageError("a prompt shows rows on the terminal: -o needs a query")
                Prompt(opened, format_, limit).run()
                return code_of(None, ())
            table = chosen(opened.query(query), columns, keys)
            with destination(path, force, is_secret=payload) as file:
                write(table.slice(0, limit), format_, file, columns)
    return code_of(fail_on, [options.ROWS_CONDITION] if table.num_rows else [])


def divided(words: tuple[str, ...]) -> tuple[list[str], str | None]:
    """The files, and the query: an argument with white space or a semicolon that is no file."""
    *files, last = words
    if any(is_query(word) and word.lower().startswith(STARTS) for word in files):
        raise click.UsageError("the query comes after the files: kdissect sql FILE... QUERY")
    if not is_query(last):
        return list(words), None
    if not files:
        raise click.UsageError("no captures given: kdissect sql FILE... QUERY")
    return files, last


# How a SELECT of DuckDB begins; names of files with white space do not.
STARTS: Final = ("select", "from", "with")


def is_query(word: str) -> bool:
    """Return whether an argument is no file but has white space or a semicolon."""
    return not Path(word).exists() and bool(set(word) & set(" \n\t;"))


def chosen(table: "pa.Table", columns: list[str] | None, keys: tuple[Any, ...]) -> "pa.Table":
    """The rows in order of the keys, with the selected columns."""
    names = table.column_names
    for name in columns or ():
        if name not in names:
            raise InvalidArgument(no_column("the answer", name, names))
    check_keys(keys, names, "the answer")
    rows = ordered(table, keys)
    return rows if columns is None else rows.select(columns)


def write(table: "pa.Table", format_: str, file: Any, columns: list[str] | None) -> None:
    """Write rows; a terminal shows the columns that the query or --columns selects."""
    names = columns if columns is not None or len(table.column_names) > 12 else table.column_names
    writer = make_writer(format_, file, names, table.schema)
    for batch in table.to_batches():
        writer.write(batch)
    writer.close()
