"""``kdissect show``: exchanges one by one, with all fields."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click

from kdissect.cli import options
from kdissect.cli.documents import DocumentWriter
from kdissect.cli.empty_result import explain_empty
from kdissect.cli.help import DOCUMENT, Choice, Command
from kdissect.cli.program import code_of
from kdissect.cli.progress import Progress
from kdissect.sql.conditions import check_condition
from kdissect.tables.ordering import check_keys
from kdissect.tables.schemas import EXCHANGES
from kdissect.text.escape import json_safe

if TYPE_CHECKING:
    from kdissect.api.dissected import DissectedExchange
    from kdissect.tables.ordering import Key

TEXT: Final = "text"
HELD: Final = 100  # exchanges beyond twice the limit that are held while they are sorted


@click.command(
    "show",
    cls=Command,
    short_help="Exchanges one by one, with all fields.",
    epilog=options.examples(
        "kdissect show broker.pcapng --limit 3",
        "kdissect show broker.pcapng --where \"api = 'Fetch' and latency_ns > 1e9\"",
        "kdissect show broker.pcapng --packet 412 --payload",
        "kdissect show broker.pcapng --packet 412 --hex",
        "kdissect show broker.pcapng --format jsonl | jq .request.topics",
    ),
)
@options.files
@options.selecting
@click.option("--format", "format_", type=Choice(("text", "jsonl")), show_default=TEXT)
@click.option(
    "--json",
    "format_",
    flag_value=DOCUMENT,
    help="One JSON document with schema_version and rows. Docs: json.md.",
)
@options.failing(options.ROWS_CONDITION)
@options.payload
@click.option(
    "--undecoded",
    is_flag=True,
    help="Include the bytes of undecodable messages, in text; they may contain credentials.",
)
@click.option(
    "--packet",
    metavar="N",
    type=click.IntRange(1),
    help="Only the exchange whose request or response is in this frame of Wireshark.",
)
@click.option(
    "--hex",
    "is_hex",
    is_flag=True,
    help="A line for each field of a message: its offset, its bytes, its value.",
)
@options.reading
def command(
    files: tuple[str, ...],
    where: str | None,
    limit: int | None,
    keys: tuple[Any, ...],
    fail_on: str | None,
    format_: str | None,
    payload: bool,
    undecoded: bool,
    packet: int | None,
    is_hex: bool,
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
    from kdissect.cli.hex_view import hex_lines
    from kdissect.cli.tree import exchange_json, exchange_lines, heading_lines

    format_ = format_ or TEXT  # no default of click: before 8.3, that of --json takes its place
    if is_hex and format_ != TEXT:
        raise click.UsageError("--hex is text; --format and --json have values")
    if where:
        check_condition(where, "--where")
    check_keys(keys, [column.name for column in EXCHANGES.columns], "exchanges")
    asked = where
    where = of_packet(where, packet)
    shown_count = 0
    with Progress(progress) as shown:
        dissection = Dissection(
            list(files),
            where,
            waits=format_ != TEXT,
            **settings,
            progress=shown.report,
        )
        document = DocumentWriter(sys.stdout.buffer) if format_ == DOCUMENT else None
        for exchange in in_order(dissection, keys, limit):
            if shown_count == limit:
                break
            shown.clear()
            if document is not None:
                document.write_object(exchange_json(exchange, payload))
            elif format_ == "jsonl":
                line = json.dumps(exchange_json(exchange, payload), ensure_ascii=False)
                sys.stdout.write(f"{json_safe(line)}\n")
            else:
                sys.stdout.write("\n" if shown_count else "")
                # Not joined into one text: a large message has many.
                lines = exchange_lines(exchange, payload, undecoded, exchange.topic_names())
                if is_hex:
                    lines = chain(heading_lines(exchange), hex_lines(exchange, payload, undecoded))
                for line in lines:
                    sys.stdout.write(f"{line}\n")
            shown_count += 1
        if document is not None:
            document.close()
    if not shown_count and limit != 0:
        found = "no exchanges to show" if packet is None else f"no message is in frame {packet}"
        explain_empty(found, asdict(dissection.balance), asked)
    return code_of(fail_on, [options.ROWS_CONDITION] if shown_count else [])


def of_packet(where: str | None, packet: int | None) -> str | None:
    """The condition, and that a message is in this frame."""
    if packet is None:
        return where
    own = f"request_packet = {packet} OR response_packet = {packet}"
    return own if where is None else f"({own}) AND (\n{where}\n)"


def in_order(
    exchanges: Iterable["DissectedExchange"], keys: tuple["Key", ...], limit: int | None
) -> Iterable["DissectedExchange"]:
    """The exchanges in order of their columns; those that are shown are held until the end."""
    if not keys:
        return exchanges
    kept: list[DissectedExchange] = []
    for exchange in exchanges:
        kept.append(exchange)
        if limit is not None and len(kept) > 2 * limit + HELD:
            kept = sorted_exchanges(kept, keys)[:limit]
    return sorted_exchanges(kept, keys)


def sorted_exchanges(
    exchanges: list["DissectedExchange"], keys: tuple["Key", ...]
) -> list["DissectedExchange"]:
    """The exchanges by the first key, then by the next; missing values come last."""
    for key in reversed(keys):
        there = [one for one in exchanges if one.columns[key.name] is not None]
        there.sort(key=lambda one: one.columns[key.name], reverse=key.is_descending)
        exchanges = there + [one for one in exchanges if one.columns[key.name] is None]
    return exchanges
