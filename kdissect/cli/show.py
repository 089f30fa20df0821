"""``kdissect show``: exchanges one by one, with all fields."""

import json
import sys
from dataclasses import asdict

import click

from kdissect.cli import options
from kdissect.cli.empty_result import explain_empty
from kdissect.cli.program import FOUND, NOTHING_FOUND
from kdissect.cli.progress import Progress
from kdissect.text.escape import json_safe


@click.command(
    "show",
    short_help="Exchanges one by one, with all fields.",
    epilog=options.examples(
        "kdissect show broker.pcapng --limit 3",
        "kdissect show broker.pcapng --where \"api = 'Fetch' and latency_ns > 1e9\"",
        'kdissect show broker.pcapng --where "request_packet = 412" --payload',
        "kdissect show broker.pcapng --format jsonl | jq .request.topics",
    ),
)
@options.files
@options.selecting
@click.option(
    "--format", "format_", type=click.Choice(("text", "jsonl")), default="text", show_default=True
)
@options.payload
@click.option(
    "--undecoded",
    is_flag=True,
    help="Include the bytes of undecodable messages, in text; they may contain credentials.",
)
@options.reading
def command(
    files: tuple[str, ...],
    where: str | None,
    limit: int | None,
    format_: str,
    payload: bool,
    undecoded: bool,
    settings: options.Settings,
    progress: bool | None,
) -> int:
    """Show the exchanges of the captures FILE... in full: request, response, record batches.

    --where takes the columns of the exchanges table (docs/tables.md). Credentials are not shown,
    keys and values of records only with --payload, and bytes of undecodable messages, which may
    contain credentials, only with --undecoded. In JSON, bytes are text when they are UTF-8,
    else {"base64": "..."}; topic ids are resolved first, unlike in text (see kdissect.dissect).
    """
    from kdissect.api.dissected import Dissection
    from kdissect.cli.tree import exchange_json, exchange_lines

    shown_count = 0
    with Progress(progress) as shown:
        dissection = Dissection(
            list(files),
            where,
            waits=format_ == "jsonl",
            **settings,
            progress=shown.report,
        )
        for exchange in dissection:
            if shown_count == limit:
                break
            shown.clear()
            if format_ == "jsonl":
                line = json.dumps(exchange_json(exchange, payload), ensure_ascii=False)
                sys.stdout.write(f"{json_safe(line)}\n")
            else:
                sys.stdout.write("\n" if shown_count else "")
                # Not joined into one text: a large message has many.
                for line in exchange_lines(exchange, payload, undecoded):
                    sys.stdout.write(f"{line}\n")
            shown_count += 1
    if not shown_count and limit != 0:
        explain_empty("no exchanges to show", asdict(dissection.balance), where)
    return FOUND if shown_count else NOTHING_FOUND
