"""One split of a capture → rows that may need corrections, and a `BoundaryState`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from kdissect.capture.splits import Split, SplitReader, read_split
from kdissect.checkpoint.boundary_state import (
    BoundaryState,
    Left,
    Open,
    Times,
    Totals,
    empty_boundary,
)
from kdissect.checkpoint.split_dissector import SplitDissector
from kdissect.dissection.dissector import Dissector
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.pipeline import Options, PausedCollector, add_secrets, make_exchanges, make_keys
from kdissect.streams.events import FIRST_SEEN, SUPPRESSED, Chunk
from kdissect.streams.recent_chunks import COMPARED
from kdissect.tables.batches import builders_of


class SplitRows(NamedTuple):
    """Record batches of a split's tables in order, to be corrected by a merger, which takes each
    once; and its boundary state.

    `is_undone`: the split was not dissected, there are no batches.
    """

    batches: Iterable[tuple[str, pa.RecordBatch]]
    boundary: BoundaryState
    is_undone: bool = False


class SplitRun:
    """One pass over a split: iterate over it for ``(table, record batch)``, then take `boundary`.

    `captures` are the names of the files, by `Split.capture`; `names` are known topic names.
    `between` is called whenever some packets were dissected. `copy` is where the split's bytes are,
    if not at its path.
    """

    def __init__(
        self,
        split: Split,
        options: Options,
        captures: Sequence[str],
        names: dict[bytes, str] | None = None,
        between: Callable[[], object] = lambda: None,
        copy: str | None = None,
    ) -> None:
        self.split = split
        self.between = between
        self.options = options
        self.reader: SplitReader = read_split(split, copy=copy)
        keys = make_keys(options.keylog)
        # Problems of a key log are reported once, by the whole.
        keys.problems.clear()
        self.dissector = SplitDissector(
            make_exchanges(options),
            frozenset(options.tables),
            is_first=split.ordinal == 1,
            has_payload=options.payload,
            verifies_crc=options.verify_crc,
            limits=options.limits,
            keys=keys,
        )
        self.dissector.exchanges.names.update(names or {})
        known = self.dissector.exchanges.names
        made = {name: made_columns(options.columns.get(name)) for name in options.tables}
        self.builders = builders_of(options.tables, captures, known, made, held_limit=0)
        self._secrets = 0

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        dissector = self.dissector
        keys = dissector.tls.keys
        with PausedCollector():
            for packets in self.reader:
                add_secrets(keys, self.reader.secrets[self._secrets :])
                self._secrets = len(self.reader.secrets)
                dissector.feed(packets)
                dissector.add_problems(self.reader.take_problems())
                yield from self._batches(self.options.batch_rows)
                self.between()
            dissector.add_problems(self.reader.take_problems())
            yield from self._batches(1)

    def _batches(self, row_limit: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        for name in self.dissector.full_tables(row_limit):
            batch = self.builders[name].batch(self.dissector.take_rows(name))
            if batch.num_rows:
                yield name, batch

    @property
    def boundary(self) -> BoundaryState:
        """Return the state left open; call it once, after all rows were taken."""
        dissector = self.dissector
        edges = dissector.edges
        streams = dissector.streams
        opened, flows = find_open(dissector)
        clock = streams.clock
        edges.groups.take(int(edges.count))
        # Only the whole knows where a time may be wrong: by the packets on both sides.
        is_whole = (
            dissector.decoder.fragments > 0
            or bool(dissector.waiting.given_up)
            or clock.back_count > 0
            or streams.is_last_odd
            or edges.count == 1
            or edges.groups.is_too_long
            or shares_past(dissector)
            # A connection that began here ended by silence, and its flow continues: both or neither
            # count.
            or any(flow in edges.prefixes for flow in edges.born_flows)
            or any(left.flow in edges.used_again for left in flows)
        )
        names = dissector.exchanges.names
        bodies = dissector.exchanges.bodies
        users = bodies.sessions.users
        problems = tuple(edges.sink.of_packets)
        for ended in edges.ended:
            forget_answered(ended.state)
        times = Times(int(clock.first_ns), int(clock.lowest_ns), int(clock.now_ns))
        boundary = empty_boundary(
            self.split, problems, totals_of(dissector), times, self.reader.reached
        )
        if is_whole:
            return boundary
        return boundary._replace(
            is_whole=False,
            prefixes=tuple(dict.fromkeys(edges.prefixes.values())),
            born=tuple(zip(edges.born_flows, edges.born_ids, strict=True)),
            open=tuple(opened),
            left_open=tuple(flows),
            ended=tuple(edges.ended),
            deferred=tuple(edges.deferred),
            history_used=tuple(edges.history_used_ids),
            locked=tuple(edges.locked_ids),
            inside_ended=tuple(edges.inside_ended),
            link_types=frozenset(dissector.decoder.unknown_link_types),
            problem_counts=edges.sink.counts,
            marks=tuple(streams.copies.placed()),
            chunks=tuple(compared_part(chunk) for chunk in streams.recent.remembered()),
            segments=int(edges.count),
            names=dict(names),
            groups=tuple(edges.groups.learned),
            sessions=bodies.sessions.by_number,
            closed_sessions=tuple(sorted(users.closed)) if users is not None else (),
            shared=tuple(sorted(users.shared)) if users is not None else (),
            waiting=tuple(dissector.waiting.waiting()),
        )


def dissect_split(
    split: Split,
    options: Options,
    captures: Sequence[str],
    names: dict[bytes, str] | None = None,
) -> SplitRows:
    """Return rows and boundary state of a split; raise CaptureError when it cannot be read."""
    run = SplitRun(split, replace(options, progress=None), captures, names)
    batches = list(run)
    return SplitRows(batches, run.boundary)


def undone_split(split: Split) -> SplitRows:
    """A split of a part of a file, of which only the problems and the end are known."""
    reader = SplitReader(split, counts_only=True)
    for _ in reader:
        pass
    totals = Totals(0, 0, {}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {}, {})
    boundary = empty_boundary(
        split, tuple(reader.take_problems()), totals, Times(-1, -1, -1), reader.reached
    )
    return SplitRows((), boundary, True)


def made_columns(wanted: Sequence[str] | None) -> list[str] | None:
    """Columns that have to be made, so that rows can be corrected."""
    if wanted is None:
        return None
    more = ["connection_id"]
    if "topic" in wanted:
        more.append("topic_id")
    if "rtt_ns" in wanted:
        more.append("response_start")
    return [*wanted, *(name for name in more if name not in wanted)]


def compared_part(chunk: Chunk) -> Chunk:
    """The chunk with those of its bytes that may be compared with others."""
    end = min(chunk.end, chunk.start + COMPARED)
    data = chunk.data[chunk.start : end]
    made = Chunk(
        chunk.connection, chunk.direction, chunk.position, chunk.time_ns, chunk.packet,
        chunk.ordinal, chunk.capture, data, 0, len(data),
    )  # fmt: skip
    made.seen = chunk.seen
    return made


def find_open(dissector: Dissector) -> tuple[list[Open], list[Left]]:
    """Connections that can be continued, and those that cannot."""
    opened: list[Open] = []
    flows: list[Left] = []
    for opener in dissector.streams.openers():
        connection = opener.connection
        state = dissector.exchanges.states.get(connection.id)
        is_old = state is not None and state.old is not None
        if state is not None:
            state.old = None  # they know each other
        if connection.edge in (SUPPRESSED, FIRST_SEEN):
            continue
        if is_old or dissector.tls.has_session(connection):
            flows.append(Left(connection.flow, int(connection.id), int(connection.given)))
            continue
        if state is not None:
            forget_answered(state)
        framings = dissector.frames.framings(connection)
        opened.append(Open(opener, *framings, state, dissector.tls.watch_of(connection)))
    return opened, flows


def shares_past(dissector: SplitDissector) -> bool:
    """Return whether a fetch session from before the split is in more than one hand.

    Either several connections use one, of which the merger may dissect only some again, or the only
    one has begun another without closing it, so that its positions are not those of a connection;
    or there were too many to know.
    """
    users = dissector.exchanges.bodies.sessions.users
    if users is None:
        return False
    older = {one for prefix in dissector.edges.prefixes.values() for one in prefix.ids}
    return users.is_unknown or not older.isdisjoint(users.shared)


def forget_answered(state: ConnectionState) -> None:
    """Transfer only waiting requests; the ones before them stay in the list for a while."""
    state.pending = state.pending[int(state.pending_head) :]
    state.pending_head = 0
    state.by_id = None


def totals_of(dissector: Dissector) -> Totals:
    """Counts of a dissector."""
    totals = dissector.totals
    return Totals(
        int(totals.packets),
        int(totals.captured_bytes),
        dissector.decoder.reasons(),
        int(totals.payload_bytes),
        int(totals.framed_bytes),
        int(totals.skipped_bytes),
        int(totals.duplicate_bytes),
        int(totals.missing_bytes),
        int(totals.tls_bytes),
        int(totals.encrypted_bytes),
        int(totals.encrypted_connections),
        int(totals.connections),
        int(totals.exchanges),
        dict(totals.protocols),
        dict(dissector.sink.problem_counts),
    )
