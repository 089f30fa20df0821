"""``kdissect FILE...`` = ``kdissect summary FILE...``: the summary of a capture."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from kdissect.checkpoint.worker_pool import early_pool
from kdissect.cli import options
from kdissect.cli.empty_result import NO_EXCHANGES, explain_empty
from kdissect.cli.ending import code_of_ending
from kdissect.cli.help import Choice, Command
from kdissect.cli.program import ANSWERED, code_of
from kdissect.cli.progress import Progress
from kdissect.cli.repeated_options import reading_options
from kdissect.cli.terminal import pager_option

if TYPE_CHECKING:
    from kdissect.rules.finding import Finding

FEW: Final = "few"
ALL: Final = "all"
NONE: Final = "none"


@click.command(
    "summary",
    cls=Command,
    short_help="What is slow, what fails, and why (the default command).",
    epilog=options.examples(
        "kdissect broker.pcapng",
        "kdissect ring-*.pcap.gz --port 9192",
        "kdissect broker.pcapng --findings all",
        "kdissect broker.pcapng --json | jq -r '.findings[] | [.severity, .id, .text] | @tsv'",
        "kdissect broker.pcapng --format json | jq '.apis[] | [.api, .latency.p99_ns]'",
    ),
)
@options.files
@click.option(
    "--top", type=click.IntRange(1), default=10, show_default=True, help="Rows of long tables."
)
@click.option("--full", "is_full", is_flag=True, help="All tables, not only what fits a screen.")
@pager_option
@click.option(
    "--format", "format_", type=Choice(("page", "json")), default="page", show_default=True
)
@click.option("--json", "format_", flag_value="json", help="The same as --format json.")
@click.option(
    "--findings",
    "shown",
    type=Choice((FEW, ALL, NONE)),
    default=FEW,
    show_default=True,
    help="The worst findings and typical latencies; all, running every analysis; or counters only.",
)
@options.failing(options.PROBLEM, options.WARNING)
@options.sharing
@options.reading
def command(
    files: tuple[str, ...],
    top: int,
    is_full: bool,
    format_: str,
    shown: str,
    jobs: int,
    fail_on: str | None,
    settings: options.Settings,
    progress: bool | None,
) -> int:
    """Show the summary of the captures FILE... (`-` is stdin), or of datasets.

    Findings: what fails, what is slow, and why, the worst first. Then totals, each API with its
    latencies, clients, topics, errors, degraded connections, problems, and where every captured
    byte went. Latencies are within 0.4 %.
    """
    pool = early_pool(files, 1 if settings["strict"] else jobs)
    from kdissect.api.reading import run_over
    from kdissect.api.summary_pass import SummaryPage, tables_of
    from kdissect.pipeline import Options
    from kdissect.rules.engine import few

    code, interruption = ANSWERED, ""
    found: list[Finding] = []
    with Progress(progress) as shown_progress, SummaryPage(shown != NONE) as page:
        reading = Options(
            **settings, tables=tables_of(shown != NONE), progress=shown_progress.report, jobs=jobs
        )
        with run_over(list(files), reading, pool) as run:
            try:
                page.add_all(run)
            except KeyboardInterrupt as ending:
                code, interruption = code_of_ending(ending), "this is what had been read"
            summary = page.summary(asdict(run.balance))
        del run  # the engine needs the room
        try:
            found = page.findings(summary, shown == ALL) if shown != NONE else []
        except KeyboardInterrupt as ending:
            code, interruption = code_of_ending(ending), "the findings are missing"
    chosen = few(found) if shown == FEW else found
    from kdissect.cli.summary_page import Asked, print_json, print_page

    asked = Asked(files, reading_options(), top, is_full or shown == ALL)
    if format_ == "json":
        print_json(summary, found, bool(interruption), sys.stdout, asked)
    else:
        print_page(summary, asked, interruption, chosen, len(found) - len(chosen))
    if interruption:
        return code
    if not summary.totals.exchanges:
        explain_empty(NO_EXCHANGES, summary.balance)
    return code_of(fail_on, options.conditions_of(one.severity for one in found))
