"""``kdissect tables``: the tables, and the columns of one."""

from pathlib import Path
from typing import Any

import click

from kdissect.cli import options
from kdissect.cli.destination import destination
from kdissect.cli.help import Choice, Command
from kdissect.cli.output import chosen_format, make_writer
from kdissect.cli.program import code_of
from kdissect.tables.schemas import TABLES


@click.command(
    "tables",
    cls=Command,
    short_help="The tables, their columns and units.",
    epilog=options.examples(
        "kdissect tables",
        "kdissect tables exchanges",
        "kdissect tables exchanges --format csv",
    ),
)
@click.argument("name", required=False, type=Choice(list(TABLES)), metavar="[TABLE]")
@options.columns
@options.limiting
@options.sorting
@options.output(options.FORMATS)
def command(
    name: str | None,
    columns: list[str] | None,
    limit: int | None,
    keys: tuple[Any, ...],
    format_: str | None,
    path: Path | None,
    force: bool,
) -> int:
    """List the tables, or the columns of TABLE with their type, unit and meaning.

    The columns are the names of --where, --columns and --sort, and of `kdissect sql`.
    Docs: tables.md.
    """
    import pyarrow as pa

    from kdissect.cli.sql import chosen

    format_ = chosen_format(format_, path)
    rows = table_rows() if name is None else column_rows(name)
    table = chosen(pa.Table.from_pylist(rows), columns, keys).slice(0, limit)
    with destination(path, force) as file:
        writer = make_writer(format_, file, table.column_names, table.schema, {"table": name})
        for batch in table.to_batches():
            writer.write(batch)
        writer.close()
    return code_of(None, ())


def table_rows() -> list[dict[str, Any]]:
    """A row for each table."""
    return [
        {
            "table": table.name,
            "row": table.row,
            "columns": len(table.columns),
            "is_default": table.is_default,
        }
        for table in TABLES.values()
    ]


def column_rows(name: str) -> list[dict[str, Any]]:
    """A row for each column of a table."""
    return [
        {
            "column": column.name,
            "type": column.type,
            "unit": column.unit,
            "meaning": column.meaning,
        }
        for column in TABLES[name].columns
    ]
