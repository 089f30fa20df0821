"""``kdissect table``: the rows of one table."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from kdissect.cli import options
from kdissect.cli.anonymizing import anonymizing
from kdissect.cli.destination import destination
from kdissect.cli.empty_result import explain_empty
from kdissect.cli.help import Choice, Command
from kdissect.cli.output import chosen_format, make_writer
from kdissect.cli.program import code_of
from kdissect.cli.progress import Progress
from kdissect.tables.schemas import TABLES


@click.command(
    "table",
    cls=Command,
    short_help="The rows of one table.",
    epilog=options.examples(
        "kdissect table exchanges broker.pcap --where \"api = 'Fetch' and latency_ns > 1e9\"",
        "kdissect table errors broker.pcap --columns name,topic,partition -o errors.csv",
        'kdissect table batches broker.pcap --verify-crc --where "not crc_ok"',
        "kdissect table exchanges *.pcap --sort latency_ns:desc --limit 10",
        "kdissect table exchanges *.pcap | jq .client_id",
        "kdissect table exchanges broker.pcap --anonymize -o exchanges.parquet",
    ),
)
@click.argument("name", type=Choice(list(TABLES)), metavar="NAME")
@options.files
@options.columns
@options.selecting
@options.failing(options.ROWS_CONDITION)
@options.output(options.FORMATS)
@options.reading
@options.verifying
@options.payload
@anonymizing("table")
def command(
    name: str,
    files: tuple[str, ...],
    columns: list[str] | None,
    where: str | None,
    limit: int | None,
    keys: tuple[Any, ...],
    fail_on: str | None,
    format_: str | None,
    path: Path | None,
    force: bool,
    settings: options.Settings,
    progress: bool | None,
    payload: bool,
    verify_crc: bool,
    anonymize: bool | bytes,
) -> int:
    """Print the rows of table NAME.

    NAME is one of connections, exchanges, partitions, batches, records, errors, members, bodies,
    problems; their columns are in docs/tables.md.
    """
    from kdissect import read
    from kdissect.tables.batches import arrow_schema

    format_ = chosen_format(format_, path)
    rows = 0
    with Progress(progress) as shown, destination(path, force, is_secret=payload) as file:
        result = read(
            list(files),
            table=name,
            columns=columns,
            where=where,
            limit=limit,
            sort=keys,
            **settings,
            payload=payload,
            verify_crc=verify_crc,
            anonymize=anonymize,
            progress=shown.report,
        )
        writer = make_writer(
            format_, file, columns, arrow_schema(TABLES[name], columns), {"table": name}
        )
        for batch in result:
            shown.clear()
            writer.write(batch)
            rows += batch.num_rows
        writer.close()
    if not rows and result.balance is not None:
        explain_empty(f"no rows in {name}", asdict(result.balance), where)
    return code_of(fail_on, [options.ROWS_CONDITION] if rows else [])
