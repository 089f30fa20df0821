"""``kdissect spans``: exchanges as spans of OpenTelemetry."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kdissect.cli import options
from kdissect.cli.destination import destination
from kdissect.cli.documents import print_document
from kdissect.cli.empty_result import explain_empty
from kdissect.cli.help import Choice, Command
from kdissect.cli.program import ANSWERED
from kdissect.cli.progress import Progress
from kdissect.text.human import counted

if TYPE_CHECKING:
    from kdissect.spans.sending import Target


@click.command(
    "spans",
    cls=Command,
    short_help="Exchanges as spans of OpenTelemetry, to a file or a collector.",
    epilog=options.examples(
        "kdissect spans broker.pcapng -o spans.jsonl",
        'kdissect spans broker.pcapng --where "latency_ns > 1e8" --parts | gzip > slow.jsonl.gz',
        "kdissect spans broker.pcapng --endpoint http://localhost:4318",
    ),
)
@options.files
@options.to_file("Write to this file instead of stdout.")
@click.option(
    "--endpoint",
    metavar="URL",
    help="Send spans to this OTLP receiver (HTTP); /v1/traces is added to a bare address.",
)
@click.option(
    "--format",
    "format_",
    type=Choice(("json", "proto")),
    default="json",
    show_default=True,
    help="OTLP as JSON, one line per batch, or as length-delimited protobuf.",
)
@click.option("--parts", is_flag=True, help="A span for each part too: upload, queue, wait, ...")
@click.option(
    "--links/--no-links",
    default=True,
    help="Look for trace contexts (traceparent) in the headers of records.  [default: links]",
)
@click.option(
    "--json",
    "is_json",
    is_flag=True,
    help="Report the counts as a JSON document. Needs -o or --endpoint.",
)
@options.where_exchanges
@options.force
@options.reading
def command(
    files: tuple[str, ...],
    path: Path | None,
    endpoint: str | None,
    format_: str,
    parts: bool,
    links: bool,
    is_json: bool,
    where: str | None,
    force: bool,
    settings: options.Settings,
    progress: bool | None,
) -> int:
    """Export the exchanges of the captures FILE... as OpenTelemetry spans (OTLP).

    A span lasts from the first byte of the request to the last of the response, with an error's
    name as status. A Produce whose records have one trace context (header traceparent) is a child
    of that span; with several contexts, and for fetched records, the span links to them. Exporting
    twice gives the same ids. Without --endpoint, nothing is sent over the network. Docs: export.md.
    """
    from kdissect.spans.exporting import Spans, send_spans

    if endpoint is not None and path is not None:
        raise click.UsageError("-o writes a file, --endpoint sends: use one of the two")
    if is_json and endpoint is None and path is None:
        raise click.UsageError("stdout is either for the spans or for --json: use -o or --endpoint")
    # The target comes first: where it cannot be had, no capture was opened.
    with Progress(progress) as shown, _target(endpoint, path, format_, force) as target:
        spans = Spans(
            list(files),
            where,
            has_links=links,
            has_parts=parts,
            **settings,
            progress=shown.report,
        )
        send_spans(spans, target)
    if is_json:
        print_document({"exchanges": spans.count})
    if not spans.count:
        explain_empty("no exchanges for spans", asdict(spans.balance), where)
        return ANSWERED
    if endpoint is not None:
        click.echo(f"{counted(spans.count, 'exchange')} sent to {endpoint}", err=True)
    return ANSWERED


@contextmanager
def _target(
    endpoint: str | None, path: Path | None, format_: str, force: bool
) -> "Iterator[Target]":
    from kdissect.spans.sending import EndpointTarget, FileTarget

    if endpoint is not None:
        yield EndpointTarget(endpoint)
        return
    with destination(path, force) as file:
        yield FileTarget(file, format_)
