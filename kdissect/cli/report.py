"""``kdissect report``: one HTML page about captures."""

from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import click

from kdissect.checkpoint.worker_pool import early_pool
from kdissect.cli import options
from kdissect.cli.documents import print_document
from kdissect.cli.empty_result import NO_EXCHANGES, explain_empty
from kdissect.cli.help import Command
from kdissect.cli.output import check_free, destination
from kdissect.cli.program import code_of
from kdissect.cli.progress import Progress
from kdissect.cli.repeated_options import reading_options
from kdissect.cli.summary import severities_of
from kdissect.text.escape import escaped
from kdissect.text.human import counted, size

if TYPE_CHECKING:
    from kdissect.report.writing import Report

KEY_BYTES: Final = 16
KEY_LIMIT: Final = 4096


@click.command(
    "report",
    cls=Command,
    short_help="One HTML page: findings, plots, tables.",
    epilog=options.examples(
        "kdissect report broker.pcapng -o report.html",
        "kdissect report ring-*.pcap.gz --port 9192 -o report.html --force",
        "kdissect report broker.pcapng -o report.html --anonymize",
        "kdissect report dataset -o report.html --all",
    ),
)
@options.files
@options.to_file("The HTML file to write.", required=True)
@click.option("--all", "is_all", is_flag=True, help="Run every analysis for findings.")
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace addresses and names by pseudonyms, other ones in each page.",
)
@click.option(
    "--anonymize-key",
    "key",
    type=click.File("rb"),
    metavar="FILE",
    help="The same with a secret of 16 bytes or more: the same pseudonyms in all pages.",
)
@click.option("--json", "is_json", is_flag=True, help="Report the counts as a JSON document.")
@options.failing(options.PROBLEM, options.WARNING)
@options.force
@options.sharing
@options.reading
def command(
    files: tuple[str, ...],
    path: Path,
    is_all: bool,
    anonymize: bool,
    key: IO[bytes] | None,
    is_json: bool,
    fail_on: str | None,
    force: bool,
    jobs: int,
    settings: options.Settings,
    progress: bool | None,
) -> int:
    """Write one HTML page about the captures or datasets FILE...

    Findings first, each with its exchanges and packet numbers; then plots over time, latency heat
    maps, who talks to whom, and tables. The file needs no network, and has no record keys, values
    or headers. It stays below 2 MB. Docs: report.md.
    """
    check_free(path, force)
    secret = None if key is None else read_key(key)
    pool = early_pool(files, 1 if settings["strict"] else jobs)
    from kdissect.report.pseudonyms import Pseudonyms
    from kdissect.report.writing import make_report, title_of

    with Progress(progress) as shown:
        report = make_report(
            list(files), title=title_of(files), files=files, words=reading_options(),
            pseudonyms=Pseudonyms(secret) if anonymize or secret else None,
            asks_all=is_all, jobs=jobs, pool=pool,
            reading={**settings, "progress": shown.report},
        )  # fmt: skip
    with destination(path, force) as file:
        file.write(report.html)
    if is_json:
        print_document(counts(report))
    click.echo(said(path, report), err=True)
    if not report.summary.totals.exchanges:
        explain_empty(NO_EXCHANGES, report.summary.balance)
    return code_of(fail_on, severities_of(report.findings))


def read_key(file: IO[bytes]) -> bytes:
    """The secret of pseudonyms."""
    found = file.read(KEY_LIMIT)
    if len(found) < KEY_BYTES:
        raise click.UsageError(
            f"a key of {len(found)} bytes can be guessed: use {KEY_BYTES} or more"
        )
    return found


def counts(report: "Report") -> dict[str, int]:
    """Size of the page, and what it is about."""
    return {
        "bytes": len(report.html),
        "exchanges": report.summary.totals.exchanges,
        "findings": len(report.findings),
    }


def said(path: Path, report: "Report") -> str:
    """The written page, as a line or as JSON."""
    exchanges = counted(report.summary.totals.exchanges, "exchange")
    findings = counted(len(report.findings), "finding")
    return f"{escaped(str(path))}: {exchanges}, {findings}, {size(len(report.html))}"
