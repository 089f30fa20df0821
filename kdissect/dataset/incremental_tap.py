"""Incremental reading of one tap's captures: each call continues after the previous ones."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from kdissect.capture.splits import UNKNOWN_END, Split, read_split
from kdissect.checkpoint.checkpoint import Checkpoint
from kdissect.checkpoint.merger import Merger
from kdissect.checkpoint.validation import going_on
from kdissect.dataset.storage_captures import local_copy
from kdissect.dataset.tasks import read_again, secrets_in
from kdissect.encoding.documents import Document, dump, load
from kdissect.encoding.kinds import BYTES, INT, TEXT, Many, named
from kdissect.errors import CaptureError, KdissectError
from kdissect.pipeline import Options, PausedCollector, add_secrets
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from kdissect.tables.spool import Spool


class Followed(NamedTuple):
    """State after some captures; `captures` are the last of them, from number `first` on.

    Earlier captures have no connections that are still open. `content` is the serialized
    `Checkpoint`.
    """

    first: int
    captures: tuple[str, ...]
    content: bytes

    def to_bytes(self) -> bytes:
        """Serialize for `from_bytes`."""
        return dump(DOCUMENT, self)

    @classmethod
    def from_bytes(cls, content: bytes) -> "Followed":
        """Deserialize; raises EncodingError for invalid bytes."""
        followed: Followed = load(DOCUMENT, content)
        return followed


VERSION: Final = 1
DOCUMENT: Final = Document(
    3,
    "state of this version of kdissect",
    VERSION,
    named(Followed, first=INT, captures=Many(TEXT, tuple), content=BYTES),
)


def follow(
    before: Followed | None, count: int, paths: Sequence[str], options: Options, to: Path
) -> tuple[Followed, list[tuple[str, str]]]:
    """Continue from the state `before` with the captures `paths`, which follow `count` others.

    Settled rows of the only table of `options` are written to the file `to`. Returns the new state,
    and the captures that cannot be read, with the reason.
    """
    known = ("",) * before.first + before.captures if before is not None else ()
    if len(known) != count:
        raise KdissectError(f"what is known is of {len(known)} captures, not of {count}")
    names = [*known, *paths]
    lost = []
    with PausedCollector(), Spool(to) as spool, going_on("the state of the batch before"):
        state = None if before is None else Checkpoint.from_bytes(before.content)
        again = () if state is None else [split.path for split in state.splits]
        merger = Merger(
            options, read_again, lambda: secrets_in(list(dict.fromkeys([*again, *paths]))), state
        )
        rows = OwnRows(merger, options, names)
        for capture, path in enumerate(paths, count):
            try:
                for _ in fed(merger, path, capture):
                    spool_all(spool, rows.batches(options.batch_rows))
            except CaptureError as error:
                lost.append((path, str(error)))
        after = merger.state()
        spool_all(spool, rows.batches(1))
        first = min(after.oldest_capture(), len(names))
        return Followed(first, tuple(names[first:]), after.to_bytes()), lost


def fed(merger: Merger, path: str, capture: int) -> Iterator[None]:
    """Feed a capture to a merger, in batches of packets."""
    dissector = merger.dissector
    split = Split(path, capture, 0, UNKNOWN_END, True, 1, merger.balance.packets + 1, 0)
    merger.splits.append(split)
    with local_copy(path) as copy:
        reader = read_split(split, copy=copy)
        secrets = 0
        for packets in reader:
            add_secrets(dissector.tls.keys, reader.secrets[secrets:])
            secrets = len(reader.secrets)
            dissector.feed(packets)
            dissector.add_problems(reader.take_problems())
            yield
        dissector.add_problems(reader.take_problems())


class OwnRows:
    """Rows of the only table of `options` that the merger itself outputs."""

    def __init__(self, merger: Merger, options: Options, captures: Sequence[str]) -> None:
        self.dissector = merger.dissector
        (self.table,) = options.tables
        names = self.dissector.exchanges.names
        columns = options.columns[self.table]
        # No row waits for its topic's name: rows are final once they are returned.
        self.builder = BatchBuilder(TABLES[self.table], captures, names, columns, 0)

    def batches(self, row_limit: int) -> Iterator[pa.RecordBatch]:
        """Yield pending rows once there are `row_limit` of them."""
        if self.table in self.dissector.full_tables(row_limit):
            yield self.builder.batch(self.dissector.take_rows(self.table))


def spool_all(spool: Spool, batches: Iterator[pa.RecordBatch]) -> None:
    """Add batches to a spool."""
    for batch in batches:
        spool.add(batch)
        spool.write()
