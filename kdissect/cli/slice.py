"""``kdissect slice``: the packets of selected exchanges as a capture."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kdissect.cli import options
from kdissect.cli.anonymizing import anonymizing
from kdissect.cli.destination import check_free, destination
from kdissect.cli.documents import print_document
from kdissect.cli.durations import duration
from kdissect.cli.empty_result import explain_empty
from kdissect.cli.help import Choice, Command
from kdissect.cli.program import ANSWERED
from kdissect.cli.progress import Progress
from kdissect.text.human import counted, counted_of

if TYPE_CHECKING:
    from kdissect.slicing.rewriting import Rewriter
    from kdissect.slicing.slices import Anonymized, Selection

STDOUT: Final = "-"
FORMATS: Final = ("pcapng", "pcap")


@click.command(
    "slice",
    cls=Command,
    short_help="The packets of chosen exchanges, as a capture for Wireshark.",
    epilog=options.examples(
        'kdissect slice broker.pcapng --where "latency_ns > 1e9" -o slow.pcapng',
        "kdissect slice ring-*.pcap.gz --where \"client_id = 'svc-7'\" -o svc-7.pcap",
        'kdissect slice broker.pcapng --where "request_packet = 412" --context 50ms -o x.pcapng',
        'kdissect slice broker.pcapng --where "retransmits > 0" --connections -o - | tshark -r -',
    ),
)
@options.files
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    metavar="PATH",
    help="The capture to write, .pcapng or .pcap; - for stdout.",
)
@click.option(
    "--format",
    "format_",
    type=Choice(FORMATS),
    help="[default: pcap where the ending is .pcap or .cap, else pcapng]",
)
@options.where_exchanges
@click.option("--connections", is_flag=True, help="All packets of their connections.")
@click.option(
    "--before",
    callback=duration,
    metavar="TIME",
    help="Also packets up to this long before, like 50ms.",
)
@click.option(
    "--after", callback=duration, metavar="TIME", help="Also packets up to this long after."
)
@click.option(
    "--context", callback=duration, metavar="TIME", help="Sets both --before and --after."
)
@click.option(
    "--redact", is_flag=True, help="Mask credentials in the packets; reports what it could not."
)
@anonymizing("slice")
@click.option("--json", "is_json", is_flag=True, help="Report the counts as a JSON document.")
@options.force
@options.sharing
@options.reading
def command(
    files: tuple[str, ...],
    path: str,
    format_: str | None,
    where: str | None,
    connections: bool,
    before: int | None,
    after: int | None,
    context: int | None,
    redact: bool,
    anonymize: bool | bytes,
    is_json: bool,
    force: bool,
    jobs: int,
    settings: options.Settings,
    progress: bool | None,
) -> int:
    """Write the packets of chosen exchanges of the captures FILE... as a capture.

    Request and response with all segments between their first and last packet, the start of the
    connection (handshake, ApiVersions, SASL), and a response that names topics known by id
    only: everything that Wireshark and kdissect need to decode them. TLS, and exchanges not whole
    in the capture, come with their whole connection. --before, --after and --context are about the
    same connections. In pcapng each packet has a comment that says which frame of which file it
    was. With --anonymize, names and addresses are the pseudonyms that table and dissect give, and
    records have no payload. Docs: export.md.
    """
    from kdissect.slicing.ranges import Around
    from kdissect.slicing.slices import PCAPNG, SUFFIXES, anonymized, copy, select
    from kdissect.tables.pseudonyms import pseudonyms_for

    if context is not None and (before is not None or after is not None):
        raise click.UsageError("--context sets --before and --after: use either")
    if is_json and path == STDOUT:
        raise click.UsageError("stdout is either for the capture or for --json: use -o FILE")
    names = pseudonyms_for(anonymize, (), False)
    target = None if path == STDOUT else Path(path)
    if target is None and sys.stdout.isatty():
        raise click.UsageError("a capture is not for a terminal: use -o FILE")
    if target is not None:
        check_free(target, force)
    if format_ is None:
        format_ = PCAPNG if target is None else SUFFIXES.get(target.suffix, PCAPNG)
    around = Around(context or before or 0, context or after or 0, connections)
    with Progress(progress) as shown:
        reading = {**settings, "progress": shown.report}
        selection = select(list(files), where, around, jobs, reading)
        if not selection.packets:
            shown.clear()
            explain_empty("no exchanges for a slice", asdict(selection.balance), where)
            if is_json:
                print_document(counts(selection))
            return ANSWERED
        with destination(target, force, is_secret=True) as file:
            if names is None:
                lines = redaction_lines(copy(selection, file, format_, redacts=redact))
            else:
                lines = anonymity_lines(anonymized(selection, file, format_, names))
    if is_json:
        print_document(counts(selection))
    packets = counted_of(selection.packets, selection.balance.packets, "packet")
    exchanges = counted_of(selection.exchanges, selection.balance.exchanges, "exchange")
    click.echo(f"selected {packets}, {exchanges}", err=True)
    for line in lines:
        click.echo(line, err=True)
    return ANSWERED


def counts(selection: "Selection") -> dict[str, int]:
    """The selected share of the capture."""
    return {
        "packets": selection.packets,
        "packets_in_all": selection.balance.packets,
        "exchanges": selection.exchanges,
        "exchanges_in_all": selection.balance.exchanges,
    }


def redaction_lines(rewriter: "Rewriter | None") -> Iterator[str]:
    """Sensitive data in the packets, and its treatment."""
    if rewriter is None:
        yield "logins and payload are in the packets as captured: treat them so, or --redact"
        return
    yield f"credentials are masked in {counted(rewriter.masked, 'frame')}; payload is as captured"
    if rewriter.zeroed:
        frames = counted(rewriter.zeroed, "frame")
        yield f"{frames} in which they cannot be located: zeros behind the header"
    if rewriter.tls_packets:
        packets = counted(rewriter.tls_packets, "packet")
        yield f"{packets} of TLS cannot be redacted; the keys of TLS are not written"
    if rewriter.left_out:
        yield f"{counted(rewriter.left_out, 'fragment')} of IP packets cannot be redacted: left out"


def anonymity_lines(made: "Anonymized") -> Iterator[str]:
    """What an anonymized slice has not."""
    yield "names and addresses are pseudonyms; records have no payload, logins no credentials"
    if made.zeroed:
        frames = counted(made.zeroed, "frame")
        yield f"{frames} that could not be read in full: zeros behind the header"
    if made.emptied:
        batches = counted(made.emptied, "compressed batch")
        yield f"{batches} that could not be compressed to the same size: zeros, no records"
    if made.tls_packets:
        yield f"{counted(made.tls_packets, 'packet')} of TLS: without payload"
    if made.unknown_packets:
        packets = counted(made.unknown_packets, "packet")
        yield f"{packets} of connections without Kafka, or with that before 0.8: without payload"
