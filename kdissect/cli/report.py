"""``kdissect report``: one HTML page about captures, or a page for each day."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kdissect.checkpoint.worker_pool import early_pool
from kdissect.cli import options
from kdissect.cli.anonymizing import anonymizing
from kdissect.cli.destination import check_free, destination
from kdissect.cli.durations import duration
from kdissect.cli.empty_result import NO_EXCHANGES, explain_empty
from kdissect.cli.help import Choice, Command
from kdissect.cli.program import ANSWERED, code_of
from kdissect.cli.program import report as say
from kdissect.cli.progress import Progress
from kdissect.cli.repeated_options import reading_options
from kdissect.errors import InvalidArgument, KdissectError
from kdissect.text.escape import escaped
from kdissect.text.human import counted, size

if TYPE_CHECKING:
    from kdissect.checkpoint.worker_pool import WorkerPool
    from kdissect.report.asked import Asked as Sequences
    from kdissect.report.writing import Report
    from kdissect.tables.pseudonyms import Pseudonyms

LOOKS_NS: Final = 5_000_000_000  # between two looks of a served page for new rows


@click.command(
    "report",
    cls=Command,
    short_help="One HTML page: findings, plots, tables.",
    epilog=options.examples(
        "kdissect report broker.pcapng -o report.html",
        "kdissect report broker.pcapng -o report.html --connection 41200000 --packet 412",
        "kdissect report dataset -o report.html --all --anonymize",
        "kdissect report /var/lib/kdissect --by day -o site/ --every 5m",
        "kdissect report /var/lib/kdissect --serve",
    ),
)
@options.files
@options.to_file(
    "The HTML file to write, or the directory of --by day.",
    type=click.Path(path_type=Path),
)
@click.option(
    "--by",
    type=Choice(["day"]),
    help="A page for each day of datasets and live captures, and a calendar of them.",
)
@click.option(
    "--every",
    metavar="TIME",
    callback=duration,
    help="Write again this often, like 5m, until Ctrl-C; only what is new.",
)
@click.option(
    "--serve",
    is_flag=True,
    help="Serve the page on loopback in place of -o, at an address that it prints.",
)
@click.option(
    "--serve-port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="N",
    help="Port of --serve.  [default: a free one]",
)
@click.option(
    "--connection",
    "connections",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Also draw the connection with this connection_id; repeatable.",
)
@click.option(
    "--packet",
    "packets",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Also draw what is around the exchange of this packet; repeatable.",
)
@click.option("--all", "is_all", is_flag=True, help="Run every analysis for findings.")
@anonymizing("page")
@click.option("--json", "is_json", is_flag=True, help="Report the counts as a JSON document.")
@options.failing(options.PROBLEM, options.WARNING)
@options.force
@options.sharing
@options.reading
def command(
    files: tuple[str, ...],
    path: Path | None,
    by: str | None,
    every: int | None,
    serve: bool,
    serve_port: int,
    connections: tuple[int, ...],
    packets: tuple[int, ...],
    is_all: bool,
    anonymize: bool | bytes,
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
    or headers. It stays below 2 MB.

    With --by day, FILE... are datasets or directories of live captures, and only the pages of days
    with new rows are made again. With --serve they are such, too; the page renews itself.
    Docs: report.md.
    """
    check_together(path, by, serve, is_json)
    words = reading_options()
    if by is not None and (connections or packets):
        raise click.UsageError("--connection and --packet are about one page: without --by")
    asked = Asked(
        files, path or Path(), is_all, anonymize, is_json, fail_on, force, words, connections,
        packets,
    )  # fmt: skip
    if by is not None:
        return until_stopped(asked.write_site, every)
    if serve:
        return asked.serve(serve_port, every or LOOKS_NS, jobs, settings)
    check_free(asked.path, force)
    pool = early_pool(files, 1 if settings["strict"] else jobs)
    if every is None:
        return asked.write_page(jobs, pool, settings, progress)
    return until_stopped(Renewed(asked, jobs, settings, progress), every)


def check_together(path: Path | None, by: str | None, serve: bool, is_json: bool) -> None:
    """Raise a usage error for options that do not go together."""
    if serve and (path is not None or by is not None or is_json):
        raise click.UsageError("--serve writes nothing: it goes without -o, --by and --json")
    if not serve and path is None:
        raise click.UsageError("Missing option '-o' / '--output', or --serve.")


def until_stopped(act: Callable[[], int], every: int | None) -> int:
    """The exit code of acting once, or again and again."""
    if every is None:
        return act()
    from kdissect.cli.repeating import repeat, until_signal

    with until_signal() as stopped:
        repeat(act, every, stopped)
    return ANSWERED


def print_counts(counts: Mapping[str, Any]) -> None:
    """Print a document; its writer is loaded after the pass, which needs the room."""
    from kdissect.cli.documents import print_document

    print_document(counts)


@dataclass
class Asked:
    """The options of a report."""

    files: tuple[str, ...]
    path: Path
    is_all: bool
    anonymize: bool | bytes
    is_json: bool
    fail_on: str | None
    force: bool
    words: list[str]
    connections: tuple[int, ...]
    packets: tuple[int, ...]

    @cached_property
    def pseudonyms(self) -> "Pseudonyms | None":
        """The same for all pages of this process."""
        from kdissect.tables.pseudonyms import pseudonyms_for

        return pseudonyms_for(self.anonymize, (), has_payload=False)

    @property
    def sequences(self) -> "Sequences":
        """The diagrams to draw."""
        from kdissect.report.asked import Asked as Sequences

        return Sequences(self.connections, self.packets)

    def write_page(
        self, jobs: int, pool: "WorkerPool | None", settings: options.Settings,
        progress: bool | None,
    ) -> int:  # fmt: skip
        """Write one page and say so."""
        from kdissect.report.writing import make_report, title_of

        with Progress(progress) as shown:
            report = make_report(
                list(self.files), title=title_of(self.files), files=self.files,
                words=self.words, pseudonyms=self.pseudonyms, asks_all=self.is_all,
                jobs=jobs, pool=pool, reading={**settings, "progress": shown.report},
                sequences=self.sequences,
            )  # fmt: skip
        with destination(self.path, self.force) as file:
            report.page.write(file)
        if self.is_json:
            print_counts(report.counts)
        click.echo(said(self.path, report), err=True)
        if not report.summary.totals.exchanges:
            explain_empty(NO_EXCHANGES, report.summary.balance)
        return code_of(self.fail_on, options.conditions_of(one.severity for one in report.findings))

    def write_site(self) -> int:
        """Bring a site up to date and say what was made."""
        from kdissect.report.site import write_site
        from kdissect.report.writing import title_of

        found = write_site(
            list(self.files), self.path, title=title_of(self.files), files=self.files,
            words=self.words, asks_all=self.is_all, pseudonyms=self.pseudonyms,
            force=self.force,
        )  # fmt: skip
        self.force = False  # all pages are new now
        if self.is_json:
            print_counts({**found.counts, "made": found.made, "kept": found.kept})
        made = counted(len(found.made), "page")
        click.echo(f"{escaped(str(self.path))}: {made} made, {len(found.kept)} kept", err=True)
        return code_of(self.fail_on, options.conditions_of(found.severities))

    def serve(self, port: int, every: int, jobs: int, settings: options.Settings) -> int:
        """Serve the page until a signal."""
        from kdissect.cli.repeating import until_signal
        from kdissect.report.serving import Renewing, serve
        from kdissect.report.site import growing, state_of_sources
        from kdissect.report.writing import make_report, title_of

        def make(state: str) -> bytes:
            return make_report(
                list(self.files), title=title_of(self.files), files=self.files,
                words=self.words, pseudonyms=self.pseudonyms, asks_all=self.is_all,
                jobs=jobs, reading=settings, sequences=self.sequences,
                more={"renewed": {"state": state, "every_ms": every // 1_000_000}},
            ).html  # fmt: skip

        try:
            growing(self.files)
        except InvalidArgument:
            raise
        except KdissectError as error:  # nothing is rotated yet
            say(error)
        with until_signal() as stopped:
            serving = serve(Renewing(lambda: state_of_sources(self.files), make), port)
            try:
                click.echo(serving.address)
                stopped.wait()
            finally:
                serving.server.close()
        return ANSWERED


class Renewed:
    """Writes a page when its sources have changed."""

    def __init__(
        self, asked: Asked, jobs: int, settings: options.Settings, progress: bool | None
    ) -> None:
        self.asked, self.jobs, self.settings, self.progress = asked, jobs, settings, progress
        self._seen: object = None

    def __call__(self) -> int:
        from kdissect.report.site import state_of_sources

        now = state_of_sources(self.asked.files)
        if now == self._seen:
            return ANSWERED
        code = self.asked.write_page(self.jobs, None, self.settings, self.progress)
        self._seen, self.asked.force = now, True  # the next one replaces our own
        return code


def said(path: Path, report: "Report") -> str:
    """The written page, as a line or as JSON."""
    exchanges = counted(report.summary.totals.exchanges, "exchange")
    findings = counted(len(report.findings), "finding")
    return f"{escaped(str(path))}: {exchanges}, {findings}, {size(report.page.size)}"
