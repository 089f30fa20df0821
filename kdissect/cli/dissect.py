"""``kdissect dissect``: all tables as Parquet files."""

from dataclasses import asdict
from pathlib import Path

import click

from kdissect.checkpoint.worker_pool import early_pool
from kdissect.cli import options
from kdissect.cli.anonymizing import anonymizing
from kdissect.cli.documents import print_document
from kdissect.cli.empty_result import NO_EXCHANGES, explain_empty
from kdissect.cli.help import Command
from kdissect.cli.program import ANSWERED
from kdissect.cli.progress import Progress
from kdissect.text import human
from kdissect.text.escape import escaped


@click.command(
    "dissect",
    cls=Command,
    short_help="All tables as Parquet files.",
    epilog=options.examples(
        "kdissect dissect broker.pcapng -o tables",
        "kdissect dissect ring-*.pcap.gz -o tables --tables exchanges,errors",
        "kdissect dissect broker.pcapng -o tables --records --payload --force",
        "kdissect dissect broker.pcapng -o for-spark --timestamps us",
        "kdissect dissect broker.pcapng -o for-others --anonymize",
    ),
)
@options.files
@click.option(
    "-o",
    "--output",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Directory for the files, one per table.",
)
@options.making
@options.verifying
@click.option(
    "--timestamps",
    type=click.Choice(["ns", "us"]),
    default="ns",
    show_default=True,
    help="Unit of times. us: for Spark, which has no nanoseconds; columns *_ns keep them.",
)
@click.option("--json", "is_json", is_flag=True, help="Report what was written as a JSON document.")
@options.sharing
@anonymizing("directory")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@options.reading
def command(
    files: tuple[str, ...],
    directory: Path,
    tables: list[str] | None,
    payload: bool,
    verify_crc: bool,
    timestamps: str,
    jobs: int,
    force: bool,
    is_json: bool,
    settings: options.Settings,
    progress: bool | None,
    anonymize: bool | bytes,
) -> int:
    """Write the tables of the captures FILE... as Parquet files.

    Each file gets its name when it is complete. Any Parquet reader can read them: pandas, DuckDB;
    Spark those with --timestamps us.
    """
    pool = early_pool(files, 1 if settings["strict"] else jobs)
    from kdissect import write

    with Progress(progress) as shown:
        written, balance = write(
            list(files),
            directory,
            tables=tables,
            force=force,
            pool=pool,
            jobs=jobs,
            payload=payload,
            verify_crc=verify_crc,
            anonymize=anonymize,
            timestamps=timestamps,
            **settings,
            progress=shown.report,
        )
    if is_json:
        rows = [
            {"table": name, "rows": count, "path": str(path)}
            for name, (path, count) in written.items()
        ]
        print_document({"rows": rows, "balance": asdict(balance)})
    width = max((len(name) for name in written), default=0)
    for name, (path, row_count) in written.items():
        noun = human.agreeing(row_count, "row ", "rows")
        line = f"{name:{width}}  {human.count(row_count):>12} {noun}  {escaped(str(path))}"
        click.echo(line, err=True)
    if not balance.exchanges:
        explain_empty(NO_EXCHANGES, asdict(balance))
    return ANSWERED
