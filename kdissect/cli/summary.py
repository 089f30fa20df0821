"""``kdissect FILE...`` = ``kdissect summary FILE...``: the first page about a capture."""

import sys
from dataclasses import asdict

import click

from kdissect.cli import options
from kdissect.cli.program import FOUND, INTERRUPTED, NOTHING_FOUND
from kdissect.cli.progress import Progress
from kdissect.cli.reading import explain_empty
from kdissect.seams.crew import early_crew


@click.command(
    "summary",
    short_help="What is slow, what fails, who does it (the default command).",
    epilog=options.examples(
        "kdissect broker.pcapng",
        "kdissect ring-*.pcap.gz --port 9192",
        "kdissect broker.pcapng --format json | jq '.apis[] | [.api, .latency.p99_ns]'",
    ),
)
@options.files
@click.option(
    "--top", type=click.IntRange(1), default=10, show_default=True, help="Rows of long tables."
)
@click.option(
    "--format", "format_", type=click.Choice(("page", "json")), default="page", show_default=True
)
@options.sharing
@options.reading
def command(
    files: tuple[str, ...],
    top: int,
    format_: str,
    jobs: int,
    settings: options.Settings,
    progress: bool | None,
) -> int:
    """Show the page an engineer reads first about the captures FILE... (`-` is stdin).

    Totals, each API with its latencies, clients, topics, errors, connections with trouble,
    problems, and where every captured byte went. Latencies are within 0.4 %.
    """
    crew = early_crew(files, 1 if settings["strict"] else jobs)
    from kdissect.analysis.summary import TABLES, Summariser
    from kdissect.pipeline import Options
    from kdissect.seams.runs import make_run

    summariser = Summariser()
    is_interrupted = False
    with Progress(progress) as shown:
        reading = Options(**settings, tables=TABLES, progress=shown.report, jobs=jobs)
        run = make_run(list(files), reading, crew)
        try:
            for table, batch in run:
                summariser.add(table, batch)
        except KeyboardInterrupt:
            is_interrupted = True
    summary = summariser.finish(asdict(run.balance))
    if format_ == "json":
        from kdissect.cli.summary_page import print_json

        print_json(summary, is_interrupted, sys.stdout)
    else:
        from kdissect.cli.summary_page import print_page

        print_page(summary, files, top, is_interrupted)
    if is_interrupted:
        return INTERRUPTED
    if not summary.totals.exchanges:
        explain_empty("no Kafka exchanges", summary.balance)
        return NOTHING_FOUND
    return FOUND
