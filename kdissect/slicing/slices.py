"""A slice of captures: select exchanges, mark their packets, copy those.

The captures are read three times, in memory that grows with them only by one bit per packet,
so they must be files.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from kdissect.analysis.engines.ibis_tables import askable
from kdissect.api.answers import places_of
from kdissect.capture.capture_file import STDIN
from kdissect.capture.files import Source, is_pipe, listed, open_captures
from kdissect.capture.packet_writer import Copier, PcapCopier, PcapngCopier
from kdissect.errors import InvalidArgument, OutputExists
from kdissect.pipeline import Balance
from kdissect.slicing.anonymous_plan import make_anonymous_plan, spooled
from kdissect.slicing.packet_selection import Marking, Marks
from kdissect.slicing.ranges import ASKED, NEEDED, Around, Ranges, find_ranges
from kdissect.slicing.rebuilding import Rebuilder, anonymous_copier, write_all
from kdissect.slicing.redacting import make_plan
from kdissect.slicing.renaming import Renaming
from kdissect.slicing.rewriting import Rewriter
from kdissect.sql.conditions import check_condition
from kdissect.system.confined import SECRET, replacing
from kdissect.system.version import __version__
from kdissect.tables.pseudonyms import Pseudonyms, pseudonyms_for

PCAPNG: Final = "pcapng"
PCAP: Final = "pcap"
SUFFIXES: Final = {".pcapng": PCAPNG, ".pcap": PCAP, ".cap": PCAP}
LONGEST_COMMENT: Final = 16_000
ALL: Final = "true"


class Selection(NamedTuple):
    """The packets to copy; `exchanges` were selected, of all in `balance`."""

    sources: list[Source]
    where: str
    ranges: Ranges
    marks: Marks
    balance: Balance
    reading: dict[str, Any]

    @property
    def packets(self) -> int:
        return self.marks.count

    @property
    def exchanges(self) -> int:
        return self.ranges.exchanges


class Anonymized(NamedTuple):
    """What could not be anonymized, and is therefore not there.

    `zeroed` frames have zeros behind their header; packets of TLS and of connections without Kafka
    have no payload; `emptied` compressed batches have zeros in place of their records.
    """

    zeroed: int
    tls_packets: int
    unknown_packets: int
    emptied: int


def write_slice(
    source: Source | Sequence[Source],
    path: str | Path,
    where: str | None = None,
    *,
    connections: bool = False,
    before_ns: int = 0,
    after_ns: int = 0,
    force: bool = False,
    redacts: bool = False,
    anonymize: bool | bytes = False,
    jobs: int = 0,
    **reading: Any,
) -> Selection:
    """Write the packets of the exchanges for which `where` is true as a pcapng or pcap file.

    `where` is an SQL condition over the columns of `exchanges`. With `connections` their whole
    connections are written, else the packets needed to decode them (see `ranges`), and those of the
    same connections within the given times before and after. `reading` are keywords of `Options`.
    Without a matching exchange no file is written: check `packets`. Only the owner may read the
    file: packets have logins and payload; with `redacts` credentials are masked (see `redacting`).
    `anonymize`, True or a key of 16 bytes or more, has pseudonyms for names and addresses, and no
    payload of records (see `anonymous_plan`). Raises OutputError for an existing file, unless
    `force`.
    """
    path = Path(path)
    names = pseudonyms_for(anonymize, (), False)
    if path.exists() and not force:
        raise OutputExists(f"{path} exists; force overwrites it")
    around = Around(before_ns, after_ns, connections)
    selection = select(source, where, around, jobs, reading)
    if selection.packets:
        with replacing(path, SECRET) as file:
            format_ = SUFFIXES.get(path.suffix, PCAPNG)
            if names is None:
                copy(selection, file, format_, redacts=redacts)
            else:
                anonymized(selection, file, format_, names)
    return selection


def select(
    source: Source | Sequence[Source],
    where: str | None,
    around: Around,
    jobs: int = 0,
    reading: dict[str, Any] | None = None,
) -> Selection:
    """Select the packets of the matching exchanges; reads the captures twice."""
    sources = files_of(source)
    if where:
        check_condition(where, "--where", askable(ASKED))
    with places_of(sources, NEEDED, jobs, reading or {}) as (places, balance):
        if balance is None:
            raise InvalidArgument("a slice is made of captures; tables have no packets")
        ranges = find_ranges(places, where or ALL, around)
    marking = Marking(ranges)
    if ranges.times:
        with open_captures(sources) as capture:
            for packets in capture:
                marking.feed(packets)
        marking.finish()
    return Selection(sources, where or ALL, ranges, marking.marks, balance, reading or {})


def copy(
    selection: Selection, file: IO[bytes], format_: str = PCAPNG, *, redacts: bool = False
) -> Rewriter | None:
    """Write the packets; in pcapng each has a comment with its origin.

    With `redacts` credentials in them are masked, see `redacting`, and the captures are read once
    more; the returned counts account for the packets.
    """
    rewriter = None
    if redacts:
        rewriter = Rewriter(make_plan(selection.sources, selection.reading))
    with open_captures(selection.sources, keeps_blocks=True) as capture:
        names = short_names(capture.names)
        copier: Copier = PcapCopier(file)
        if format_ == PCAPNG:
            comment = f"kdissect: a slice of {', '.join(names)}; exchanges where {selection.where}"
            copier = PcapngCopier(
                file,
                capture,
                comment[:LONGEST_COMMENT],
                f"kdissect {__version__}",
                selection.ranges.has_tls and not redacts,
            )
        marks = selection.marks
        for packets in capture:
            for packet in packets:
                is_chosen = packet.ordinal in marks
                content = None
                if rewriter is not None:
                    content = rewriter.rewritten(packet, is_chosen)
                if is_chosen and (rewriter is None or content is not None):
                    where_from = names[packet.capture]
                    comment = f"kdissect: frame {packet.number} of {where_from}"
                    copier.write(packet, comment, content)
            copier.pass_over({packet.capture: packet.number for packet in packets})
        copier.finish()
    return rewriter


def anonymized(
    selection: Selection, file: IO[bytes], format_: str, names: Pseudonyms
) -> Anonymized:
    """Write the packets with pseudonyms, without payload of records; reads the captures twice."""
    with spooled() as spool:
        renaming = Renaming(names)
        sources, chosen = selection.sources, selection.ranges.times
        plan = make_anonymous_plan(sources, selection.reading, chosen, renaming, spool)
        rebuilder = Rebuilder(plan, names.cipher, selection.marks)
        with open_captures(sources) as capture:
            copier = anonymous_copier(file, len(capture.names), format_ == PCAPNG)
            for packets in capture:
                for packet in packets:
                    write_all(copier, rebuilder.packets(packet))
            write_all(copier, rebuilder.finish())
            copier.finish()
    return Anonymized(
        rebuilder.zeroed,
        rebuilder.tls_packets,
        rebuilder.unknown_packets,
        renaming.records.emptied,
    )


def files_of(source: Source | Sequence[Source]) -> list[Source]:
    """The sources one by one; raises KdissectError for one that can be read only once."""
    sources = listed(source)
    for one in sources:
        name = os.fspath(one) if isinstance(one, str | os.PathLike) else ""
        if name in ("", STDIN) or is_pipe(name):
            raise InvalidArgument(
                f"{name or 'an open file'}: a slice is made in three passes, so it needs a file: "
                "save the capture first, for example with tcpdump -w FILE"
            )
    return sources


def short_names(names: Sequence[str]) -> list[str]:
    """Names of files without their directories, where these are unique."""
    shorts = Counter(Path(name).name for name in names)
    return [Path(name).name if shorts[Path(name).name] == 1 else name for name in names]
