"""Captures → tables: connects all the stages, in this module only.

`Run` yields the tables as record batches, in bounded memory.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kdissect.capture.blocks import TLS_KEY_LOG, Secrets
from kdissect.capture.files import Capture, Source, open_captures
from kdissect.dissection.dissector import Dissector
from kdissect.dissection.options import Options as Options
from kdissect.errors import InvalidArgument, KdissectError, Problem, not_among
from kdissect.exchanges.broker_side import DEFAULT_PORTS
from kdissect.exchanges.decode_as import endpoint_bytes, parse_decode_as
from kdissect.exchanges.memory_budget import MemoryBudget
from kdissect.exchanges.pairing import AUTO, Exchanges
from kdissect.messages.old_protocols import PROTOCOLS
from kdissect.tables.batches import arrow_schema, builders_of
from kdissect.tables.schemas import TABLES
from kdissect.text.suggestions import known_words
from kdissect.tls.cryptography_package import has_package, missing_text
from kdissect.tls.keylog import KeyLog, read_keylog


class ProblemFound(KdissectError):
    """The first problem of a strict run; `problem` is its row."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.stage}: {problem.message} (packet {problem.packet_number})")
        self.problem = problem


@dataclass(frozen=True)
class Balance:
    """Accounting of the captured bytes, over all connections of a run.

    captured payload_bytes = framed_bytes + skipped_bytes + duplicate_bytes + tls_bytes +
    encrypted_bytes: of TLS that is decrypted, the plaintext is framed or skipped, the rest is TLS
    overhead. missing_bytes were on the wire, but not in the capture. `encrypted_connections` have
    only encrypted bytes. `packets_by_reason` counts the packets not analyzed, by reason.
    """

    packets: int
    captured_bytes: int
    payload_bytes: int
    framed_bytes: int
    skipped_bytes: int
    duplicate_bytes: int
    tls_bytes: int
    encrypted_bytes: int
    missing_bytes: int
    connections: int
    encrypted_connections: int
    exchanges: int
    packets_by_reason: Mapping[str, int]
    protocols: Mapping[str, int]
    problems: Mapping[str, int]


class Run:
    """One pass over captures: iterate over it once for ``(table name, record batch)``.

    `sources` is a path, glob, "-" (stdin), an open binary file, or a list of those. Afterwards
    `balance` accounts for every byte. `names` are the file names shown in rows, where they differ
    from the paths opened. Raises CaptureError for unreadable input and, with strict, ProblemFound
    for the first problem.
    """

    def __init__(
        self,
        sources: Source | Sequence[Source],
        options: Options | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.options = options or Options()
        for name in self.options.tables:
            check_columns(name, self.options.columns.get(name, ()))
        self.dissector = make_dissector(
            self.options, collects=False, keeps_frames=False, parks=True
        )
        self.capture = open_captures(sources, names=names)
        known = self.dissector.exchanges.names
        wanted = self.options.columns
        self.builders = builders_of(self.options.tables, self.capture.names, known, wanted)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the captures."""
        self.capture.close()

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The Arrow schema of every table of the run."""
        return {
            name: arrow_schema(TABLES[name], builder.wanted)
            for name, builder in self.builders.items()
        }

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        for _ in feed_all(self.capture, self.dissector, self.options):
            yield from self._batches(self.options.batch_rows)
        yield from self._batches(1)
        for name, builder in self.builders.items():
            for batch in builder.finish():
                yield name, batch

    @property
    def balance(self) -> Balance:
        """Accounting of the bytes read so far; connections are counted when they end."""
        return make_balance(self.dissector)

    def _batches(self, row_limit: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.dissector.sink.is_full:
            row_limit = 1
        for name in self.dissector.full_tables(row_limit):
            batch = self.builders[name].batch(self.dissector.take_rows(name))
            if batch.num_rows:
                yield name, batch


def feed_all(capture: Capture, dissector: Dissector, options: Options) -> Iterator[None]:
    """Feed the whole capture; yield after every batch of packets and at the end.

    Also where rows or exchanges are to be taken, see `Dissector.feed_from`.
    """
    keys = dissector.tls.keys
    keys.read_more = lambda: add_secrets(keys, capture.find_secrets())
    with PausedCollector():
        for packets in capture:
            add_secrets(keys, capture.take_secrets())
            at = dissector.feed_from(packets, 0)
            while at < len(packets) or dissector.is_behind:
                check_problems(dissector, options)
                yield
                at = dissector.feed_from(packets, at)
            take_problems(capture, dissector)
            check_problems(dissector, options)
            if options.progress is not None:
                options.progress(capture.bytes_read, capture.bytes_total)
            # The stages keep no packet.
            capture.give_back(packets)
            yield
        take_problems(capture, dissector)
        dissector.finish_from()
        while dissector.is_behind:
            check_problems(dissector, options)
            yield
            dissector.finish_from()
        check_problems(dissector, options)
        yield


def check_problems(dissector: Dissector, options: Options) -> None:
    """Raise ProblemFound for the first problem of a strict run."""
    first = dissector.sink.first_problem
    if options.strict and first is not None:
        raise ProblemFound(first)


def make_keys(keylog: str | Path | Sequence[str | Path]) -> KeyLog:
    """Read the secrets of key log files; raises KdissectError, also if decryption is impossible."""
    keys = KeyLog()
    for path in [keylog] if isinstance(keylog, str | Path) else keylog:
        if not has_package():
            raise InvalidArgument(missing_text())
        read_keylog(path, keys)
    return keys


def add_secrets(keys: KeyLog, found: Sequence[Secrets]) -> None:
    """Add key logs embedded in a capture; report a problem when no decryption is possible."""
    for secrets in found:
        if secrets.kind == TLS_KEY_LOG:
            if not has_package():
                text = f"the capture has secrets of TLS sessions; {missing_text()}"
                keys.problems.append(Problem("tls", "tls-package-missing", text))
                return
            keys.add(secrets.content, "Decryption Secrets block")


def take_problems(capture: Capture, dissector: Dissector) -> None:
    """Pass the problems of reading on to the table."""
    if capture.problems:
        found, capture.problems = capture.problems, []
        dissector.add_problems(found)


class PausedCollector:
    """Pause the cycle collector: the stages leave no reference cycles, so it only costs time.

    That they do not is tested: what is in a cycle stays until the end of the run.
    """

    def __enter__(self) -> None:
        self.was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self.was_enabled:
            gc.enable()


def make_dissector(
    options: Options,
    collects: bool,
    keeps_frames: bool,
    waits: bool = True,
    keeps_records: bool = False,
    keys: KeyLog | None = None,
    parks: bool = False,
) -> Dissector:
    """Build all stages for a run; with `keeps_records`, batches include the bytes they are in.

    If `keys` are passed, the key logs of `options` are not read.
    """
    return Dissector(
        make_exchanges(options, collects, keeps_frames, keeps_records),
        frozenset(options.tables),
        has_payload=options.payload,
        verifies_crc=options.verify_crc,
        collects=collects,
        waits=waits,
        limits=options.limits,
        keys=make_keys(options.keylog) if keys is None else keys,
        parks=parks,
    )


def make_exchanges(
    options: Options,
    collects: bool = False,
    keeps_frames: bool = False,
    keeps_records: bool = False,
) -> Exchanges:
    """Build the exchanges stage for a run, see `make_dissector`."""
    tables = frozenset(options.tables)
    return Exchanges(
        ports=frozenset(DEFAULT_PORTS) | frozenset(options.ports),
        brokers=frozenset(endpoint_bytes(text) for text in options.brokers),
        keeps_frames=keeps_frames or "bodies" in tables,
        keeps_group_frames="members" in tables,
        keeps_batches=collects or bool(tables & {"batches", "records"}),
        keeps_records=keeps_records
        or (not collects and (options.verify_crc or "records" in tables)),
        dialect=dialect_of(options.protocol),
        rules=parse_decode_as(options.decode_as) if options.decode_as else None,
        pending_limit=options.limits.pending_requests,
        memory_budget=MemoryBudget(options.limits),
        decoded_bytes=options.limits.decoded_bytes,
    )


def dialect_of(protocol: str) -> int:
    """Number of the protocol that `Options` names; raises KdissectError."""
    if protocol == "auto":
        return AUTO
    if protocol not in PROTOCOLS:
        raise InvalidArgument(not_among(f"no protocol {protocol!r}", ("auto", *PROTOCOLS)))
    return PROTOCOLS.index(protocol)


def make_balance(dissector: Dissector) -> Balance:
    """Collect the counts of a dissector."""
    totals = dissector.totals
    return Balance(
        packets=totals.packets,
        captured_bytes=totals.captured_bytes,
        payload_bytes=totals.payload_bytes,
        framed_bytes=totals.framed_bytes,
        skipped_bytes=totals.skipped_bytes,
        duplicate_bytes=totals.duplicate_bytes,
        tls_bytes=totals.tls_bytes,
        encrypted_bytes=totals.encrypted_bytes,
        missing_bytes=totals.missing_bytes,
        connections=totals.connections,
        encrypted_connections=totals.encrypted_connections,
        exchanges=totals.exchanges,
        packets_by_reason=dissector.decoder.reasons(),
        protocols=dict(totals.protocols),
        problems=dict(dissector.sink.problem_counts),
    )


def check_columns(table: str, columns: Sequence[str]) -> None:
    """Raise KdissectError unless the table exists and has these columns."""
    if table not in TABLES:
        raise InvalidArgument(f"no table {table!r}; {known_words(table, TABLES)}")
    names = [column.name for column in TABLES[table].columns]
    for name in columns:
        if name not in names:
            raise InvalidArgument(f"no column {name!r} in {table}; {known_words(name, names)}")
