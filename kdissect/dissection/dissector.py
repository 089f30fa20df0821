"""Packets → rows: runs the stages over one capture; compiled, so it uses rows but no Arrow.

A few bytes can become many rows, so with `feed_from` the stages pause where rows are to be taken:

    packets ──▶ events ──▶ frames ──▶ exchanges ──▶ rows
            1          2                       3

1: between two packets. 2: the events of a segment wait in `_events`. 3: the exchanges that one
event completes wait in `_unwritten`, and the records of a large exchange in `_steps`. Waiting items
are written first on resumption, so the order of rows is the same with and without pauses.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mypy_extensions import i64

from kdissect.boundaries.left_edge import Ended, LeftEdge
from kdissect.capture.packet import Packet
from kdissect.errors import CorruptRecords, DecodeError, DecompressionLimit, Problem
from kdissect.exchanges.api_mismatches import blanked, doubt_of, guarded, withhold
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import (
    ANSWERED,
    API_HEARTBEAT,
    ORPHAN,
    PENDING,
    SUSPECT,
    UNANSWERED,
    Exchange,
    is_group_api,
)
from kdissect.exchanges.pairing import Exchanges
from kdissect.exchanges.protocol_detection import ProtocolDetector
from kdissect.exchanges.provisional import note_tls, until_now
from kdissect.exchanges.topic_name_resolution import NameWait, held_size
from kdissect.framing.frames import GIVES_FRAME, NEEDS_FRAMING, Frame, Frames
from kdissect.limits import Limits
from kdissect.messages.batches import Batch
from kdissect.messages.extracted import ROW_BYTES
from kdissect.messages.full_bodies import body_json, full_body, topic_names
from kdissect.messages.internal_topics import is_opened
from kdissect.messages.layout_choice import UNEXPECTED_NULLS, Body
from kdissect.messages.memberships import memberships
from kdissect.messages.message_sets import check_read_set_crc, read_set_within
from kdissect.messages.metadata_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID
from kdissect.messages.old_bodies import full_old_body
from kdissect.messages.partitions import Partition, Partitions
from kdissect.messages.record_slices import read_set_slices, read_slices
from kdissect.messages.records import (
    Budget,
    RecordScan,
    check_read_crc,
    has_inner_crc,
    pack_within,
    read_within,
)
from kdissect.messages.unpacking import Unpacking
from kdissect.messages.value_budget import LEFT_OUT
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.fragments import Fragments
from kdissect.packets.segment import Segment, copied
from kdissect.protocol.readers import NULL, ValueBudget
from kdissect.streams.connections import GIVES_CHUNK, NEEDS_SLOW_PATH, Streams
from kdissect.streams.events import FIRST_SEEN, INSIDE, SYNCHRONIZED, Chunk, Connection, End, Event
from kdissect.tables.body_rows import BodyRows, MemberRows
from kdissect.tables.rows import (
    BatchRows,
    ConnectionRows,
    ErrorRows,
    ExchangeRows,
    PartitionRows,
    ProblemRows,
    RecordRows,
    Rows,
    aborted_or_null,
)
from kdissect.tables.shed_counters import ShedCounters
from kdissect.tls.keylog import KeyLog
from kdissect.tls.session_properties import SessionProperties
from kdissect.tls.stage import Tls

# Characters of long texts in the rows of a table at which they become a batch.
TEXT_LIMIT: Final = 16 << 20
# Approximate bytes of rows of all tables at which the stages pause. Converting them to columns
# takes four copies.
ROWS_LIMIT: Final = 16 << 20
EXCHANGE_BYTES: Final = 328  # its row of 41 integers
ERROR_BYTES: Final = 280  # an error and its row
RECORD_BYTES: Final = 32  # of a row without payload
BATCH_BYTES: Final = 200
MEMBER_BYTES: Final = 500  # an event with its row
PROBLEM_BYTES: Final = 500  # a problem with its text, and its row
# An exchange with more records than this on the wire, or records in it, is written in steps.
LARGE_RECORD_BYTES: Final = 256 << 10
LARGE_RECORD_COUNT: Final = 65_536
DONE: Final = object()
NO_RECORDS: Final = RecordScan()  # of a batch that is not scanned; nothing is added to it
TOO_MANY: Final = "too many records and headers in one message"
# Steps of work between calls of `pulse`: a tenth of a second. In steps of `frame_search`; a byte of
# a frame is about one.
PULSE_STEPS: Final = 1 << 24
FRAME_STEPS: Final = 256
RECORD_STEPS: Final = 64

# Levels of detail, see `Dissector.set_detail`; each leaves out all that those before it leave out.
ALL: Final = 0
NO_RECORD_ROWS: Final = 1
NO_BODIES: Final = 2
NO_PARTITIONS: Final = 3


class Kept(NamedTuple):
    """What exchanges keep at full detail, see `Exchanges`."""

    frames: bool
    batches: bool
    records: bool


class Dissector:
    """All stages over one capture: feed packets, take rows of tables or exchanges.

    `tables` names the tables whose rows are made. With `collects` the exchanges themselves are
    kept in `exchanges_done` for the caller to take. Exchanges whose bodies may be inspected
    wait for names of topics; without `waits` they do not.
    """

    def __init__(
        self,
        exchanges: Exchanges,
        tables: frozenset[str],
        has_payload: bool = False,
        verifies_crc: bool = False,
        collects: bool = False,
        waits: bool = True,
        limits: Limits | None = None,
        keys: KeyLog | None = None,
    ) -> None:
        if limits is None:
            limits = Limits()
        self.decoder = PacketDecoder(Fragments(limits.fragmented_packets, limits.fragment_bytes))
        self.streams = Streams(
            max_connections=limits.connections,
            idle_ns=limits.idle_seconds * 1_000_000_000,
            max_held=limits.reassembly_bytes,
            max_held_in_all=limits.reassembly_bytes_in_all,
        )
        self.tls = Tls(
            keys if keys is not None else KeyLog(), limits.tls_bytes, limits.tls_bytes_in_all
        )
        self.frames = Frames(
            ProtocolDetector(exchanges),
            limits.frame_bytes,
            limits.frame_bytes_in_all,
            limits.search_bytes_in_all,
        )
        self.exchanges = exchanges
        self.has_payload = has_payload
        self.verifies_crc = verifies_crc
        self.collects = collects
        self.unpacking = Unpacking(
            limits.unpacked_bytes, limits.unpacked_ratio, limits.unpacked_ratio_in_all
        )
        self.decoded_limit: i64 = limits.decoded_bytes
        # Rows are to be taken before continuing, where `pauses` is set.
        self.is_full: bool = False
        self.pauses: bool = False
        # Bytes of rows made since rows were taken last, and the limit.
        self._made: i64 = 0
        self.rows_limit: i64 = ROWS_LIMIT
        # Waiting items, see the top of the module; `_holds_back` when there may be any.
        self._holds_back: bool = False
        self._events: deque[Event] = deque()
        self._unwritten: deque[Exchange] = deque()
        self._unshown: deque[Exchange] = deque()
        self._steps: Iterator[None] | None = None
        self._is_ending: bool = False
        self._is_over: bool = False
        self.exchanges_done: list[Exchange] = []
        self.waiting = NameWait(exchanges.names, limits.name_wait_bytes)
        self.waits = waits
        # Called after every PULSE_STEPS of work. Once it returns False `is_ended` is set: no packet
        # is taken and no frame is searched any more; work already begun is finished.
        self.pulse: Callable[[], bool] | None = None
        self.is_ended: bool = False
        self._worked: i64 = 0
        self._pulse_due: i64 = PULSE_STEPS
        # For a split of a capture other than its first, see `left_edge`.
        self.edges: LeftEdge | None = None
        # Kind → count; and the first one, for strict callers.
        self.problem_counts: dict[str, int] = {}
        self.first_problem: Problem | None = None
        self.packets: i64 = 0
        self.captured_bytes: i64 = 0
        self.payload_bytes: i64 = 0
        self.framed_bytes: i64 = 0
        self.skipped_bytes: i64 = 0
        self.duplicate_bytes: i64 = 0
        self.missing_bytes: i64 = 0
        self.tls_bytes: i64 = 0
        self.encrypted_bytes: i64 = 0
        self.encrypted_connections: i64 = 0
        self.connection_count: i64 = 0
        self.exchange_count: i64 = 0
        self.protocols: dict[str, int] = {}
        self.tables = tables
        self.kept = Kept(
            exchanges.keeps_frames,
            exchanges.bodies.sink.keeps_batches,
            exchanges.bodies.sink.keeps_records,
        )
        self.unmade = ShedCounters()
        # Detail was reduced at some time.
        self.has_shed: bool = False
        self.makes_connections: bool = "connections" in tables
        self.makes_exchanges: bool = "exchanges" in tables
        self.makes_partitions: bool = "partitions" in tables
        self.makes_batches: bool = "batches" in tables
        self.makes_records: bool = "records" in tables
        self.makes_errors: bool = "errors" in tables
        self.makes_members: bool = "members" in tables
        self.makes_bodies: bool = "bodies" in tables
        self.makes_problems: bool = "problems" in tables
        self.connection_rows = ConnectionRows()
        self.exchange_rows = ExchangeRows()
        self.partition_rows = PartitionRows()
        self.batch_rows = BatchRows()
        self.record_rows = RecordRows()
        self.error_rows = ErrorRows()
        self.member_rows = MemberRows()
        self.body_rows = BodyRows()
        self.problem_rows = ProblemRows()

    def feed(self, packets: list[Packet]) -> int:
        """Process packets in the order of the capture, however many rows that makes.

        Returns how many were processed: all of them, unless `pulse` ended it.
        """
        if self.edges is not None:
            self._feed_at_edge(packets, self.edges)
            return len(packets)
        self.pauses = False
        return self._feed_from(packets, 0)

    def feed_from(self, packets: list[Packet], at: i64) -> i64:
        """Process packets from `at` on until rows are to be taken; return the next one's index.

        Call it again, after taking rows or exchanges, as long as there are packets or `is_behind`.
        Not for a split of a capture. Once `pulse` has returned False no packet is taken any more.
        """
        self.pauses = True
        return self._feed_from(packets, at)

    @property
    def is_behind(self) -> bool:
        """Whether items of packets already fed wait until rows are taken."""
        return self._holds_back or (self._is_ending and not self._is_over)

    def _feed_from(self, packets: list[Packet], at: i64) -> i64:
        if self._holds_back:
            self._go_on()
        decoder = self.decoder
        streams = self.streams
        captured: i64 = 0
        count: i64 = len(packets)
        first = at
        try:
            while at < count and not self._holds_back:
                if self.pulse is not None:
                    self._look()
                    if self.is_ended:
                        break
                packet = packets[at]
                at += 1
                captured += packet.end - packet.start
                segment = decoder.decode_next(packet)
                if decoder.late:
                    self._late()
                if segment is None:
                    continue
                step = streams.step(segment)
                if step == GIVES_CHUNK:
                    self._chunk(streams.chunk)
                elif step == NEEDS_SLOW_PATH:
                    if streams.odd is not None:
                        self._take_events(streams.take_odd(segment.time_ns))
                    self._take_events(streams.feed_with_care(copied(segment)))
        finally:
            # Of packets already begun: what an interruption leaves is still fully accounted for.
            self.captured_bytes += captured
            self.unpacking.captured = self.captured_bytes
        self.packets += at - first
        self._take_problems()
        return at

    def _look(self) -> None:
        """Call `pulse` if enough work was done since its last call."""
        done = self.frames.steps + self._worked
        if self.pulse is not None and not self.is_ended and done >= self._pulse_due:
            self._pulse_due = done + PULSE_STEPS
            self.is_ended = not self.pulse()
            if self.is_ended:
                self.frames.searches = False

    def _take_events(self, events: list[Event]) -> None:
        """Process events in order; when the stages pause, the others wait."""
        for event in events:
            if self._holds_back:
                self._events.append(event)
            else:
                self._event(event)
                self._look()

    def _go_on(self) -> None:
        """Process waiting items until rows have to be taken again."""
        while not self.is_full:
            if self._steps is not None:
                self._step()
            elif self._unwritten:
                self._write(self._unwritten.popleft())
            elif self._unshown:
                self._show(self._unshown.popleft())
            elif self._events:
                self._holds_back = False
                self._event(self._events.popleft())
            else:
                self._holds_back = False
                return
            self._holds_back = True
            self._look()

    def _step(self) -> None:
        """Continue with the records of one exchange."""
        if self._steps is not None and next(self._steps, DONE) is DONE:
            self._steps = None

    def _note_made(self, size: i64) -> None:
        """Count bytes of rows, and pause when there are many."""
        self._made += size
        if self._made > self.rows_limit and self.pauses:
            self.is_full = True
            self._holds_back = True

    def _feed_at_edge(self, packets: list[Packet], edges: LeftEdge) -> None:
        """As `feed`, for a split of a capture."""
        decoder = self.decoder
        streams = self.streams
        for packet in packets:
            self.captured_bytes += packet.end - packet.start
            segment = decoder.decode_next(packet)
            if segment is None:
                continue
            step = streams.step(segment)
            if step == NEEDS_SLOW_PATH:
                events = streams.feed_with_care(copied(segment))
                prefix = edges.note(segment)
                for event in events:
                    self._event(event)
            else:
                prefix = edges.note(segment)
                if step == GIVES_CHUNK:
                    self._chunk(streams.chunk)
            if prefix is not None and edges.can_synchronize(prefix):
                # Rows up to here are suppressed.
                self._take_problems()
                edges.join(prefix)
        # Fragments make splits inseparable: late segments are not used.
        decoder.late = []
        self.unpacking.captured = self.captured_bytes
        self.packets += len(packets)
        self._take_problems()

    def replay(self, segment: Segment) -> None:
        """Process a segment of a packet that is counted elsewhere."""
        for event in self.streams.feed(segment):
            self._event(event)
        self._take_problems()

    def take_waiting(self, exchange: Exchange) -> None:
        """Add an exchange that waits for the names of its topics; it was counted elsewhere."""
        for named in self.waiting.feed(exchange):
            self._named(named)

    def advance(self, passed_ns: i64) -> None:
        """Advance the clock by the time since the latest segment."""
        self._take_events(self.streams.advance(passed_ns))
        self._take_problems()

    def begin_replay(self, first_ns: i64) -> None:
        """Begin the replay of a split whose first segment has that time, see `Streams`."""
        self._take_events(self.streams.begin_replay(first_ns))

    def end_replay(self, now_ns: i64) -> None:
        """End the replay; the split's clock stands at this time."""
        self._take_events(self.streams.end_replay(now_ns))
        self._take_problems()

    def end_silent(self, since: i64, most: i64) -> int:
        """End at most `most` connections silent since that time; return their number."""
        count = self.connection_count
        self._take_events(self.streams.end_silent(since, most))
        self._take_problems()
        return self.connection_count - count

    def finish(self) -> None:
        """End of capture: end every connection that is still open."""
        self.pauses = False
        self.is_full = False
        self._finish()

    def finish_from(self) -> None:
        """As `finish` until rows are to be taken: to be called again as long as it `is_behind`."""
        self.pauses = True
        self._finish()

    def _finish(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            self.decoder.finish()
            self._late()
            self._take_events(self.streams.finish())
        if self._holds_back:
            self._go_on()
        if not self._holds_back:
            for exchange in self.waiting.finish():
                self._named(exchange)
        if not self._holds_back and not self._is_over:
            self._is_over = True
            self._given_up()
        self._take_problems()

    def _late(self) -> None:
        """Segments that the decoder returns before the one just decoded."""
        late, self.decoder.late = self.decoder.late, []
        for segment in late:
            for event in self.streams.feed_late(segment):
                self._event(event)

    def open_connection_rows(self) -> ConnectionRows:
        """Return a row for each open connection, as if it ended now; nothing changes."""
        rows = ConnectionRows()
        for opener in self.streams.openers():
            connection = opener.connection
            session = self.tls.session_of(connection)
            facts: SessionProperties | None = None
            if session is not None:
                facts = session.facts
            state = until_now(self.exchanges, connection, facts)
            framed, skipped = self.frames.counts_until_now(connection)
            rows.add(state, framed, skipped, facts)
        return rows

    def set_detail(self, level: i64) -> None:
        """Set the detail from now on: ALL that was requested, or less, counted by `shed_counters`.

        NO_RECORD_ROWS: records are not unpacked. NO_BODIES: in addition no rows of `bodies`, and no
        messages kept for them. NO_PARTITIONS: in addition no rows of `partitions` and `batches`.
        Rows of other tables stay as they are. Call it between two `feed`; not where exchanges are
        collected.
        """
        tables = self.tables
        self.has_shed = self.has_shed or level > ALL
        self.makes_records = level < NO_RECORD_ROWS and "records" in tables
        self.makes_bodies = level < NO_BODIES and "bodies" in tables
        self.makes_partitions = level < NO_PARTITIONS and "partitions" in tables
        self.makes_batches = level < NO_PARTITIONS and "batches" in tables
        reads = self.makes_records or (self.makes_batches and self.verifies_crc)
        self.exchanges.keep(
            self.kept.frames and level < NO_BODIES,
            self.kept.batches and (self.makes_records or self.makes_batches),
            self.kept.records and reads,
        )
        if not self.makes_bodies:
            for exchange in self.waiting.finish():
                self._leave_out_bodies(exchange)

    def add_problems(self, problems: list[Problem]) -> None:
        """Add problems of the stage before, which this class does not see."""
        edges = self.edges
        for problem in problems:
            if edges is not None and not edges.count_problem(problem):
                continue
            if self.first_problem is None:
                self.first_problem = problem
            self.problem_counts[problem.kind] = self.problem_counts.get(problem.kind, 0) + 1
            if self.makes_problems:
                self.problem_rows.add(problem)
                self._note_made(PROBLEM_BYTES)

    def full_tables(self, row_limit: i64) -> list[str]:
        """Names of the tables with at least `row_limit` rows waiting (and at least one).

        Tables with long texts are full earlier. The caller takes all of them: with a `row_limit` of
        1 these are all waiting rows, so that it can go on.
        """
        if row_limit <= 1:
            self._made = 0
            self.is_full = False
        full: list[str] = []
        for name, rows in self._tables().items():
            is_full = rows.count >= row_limit or rows.all_text_size() >= TEXT_LIMIT
            if is_full and rows.count > 0:
                full.append(name)
        return full

    def take_rows(self, table: str) -> Rows:
        """Return the waiting rows of a table; later rows go to new ones."""
        self._made = 0
        rows = self._tables()[table]
        if table == "connections":
            self.connection_rows = ConnectionRows()
        elif table == "exchanges":
            self.exchange_rows = ExchangeRows()
        elif table == "partitions":
            self.partition_rows = PartitionRows()
        elif table == "batches":
            self.batch_rows = BatchRows()
        elif table == "records":
            self.record_rows = RecordRows()
        elif table == "errors":
            self.error_rows = ErrorRows()
        elif table == "members":
            self.member_rows = MemberRows()
        elif table == "bodies":
            self.body_rows = BodyRows()
        else:
            self.problem_rows = ProblemRows()
        return rows

    def take_exchanges(self) -> list[Exchange]:
        """Exchanges completed since the last call, if the dissector collects them."""
        done = self.exchanges_done
        self.exchanges_done = []
        self._made = 0
        self.is_full = False
        return done

    def _tables(self) -> dict[str, Rows]:
        return {
            "connections": self.connection_rows,
            "exchanges": self.exchange_rows,
            "partitions": self.partition_rows,
            "batches": self.batch_rows,
            "records": self.record_rows,
            "errors": self.error_rows,
            "members": self.member_rows,
            "bodies": self.body_rows,
            "problems": self.problem_rows,
        }

    def _chunk(self, chunk: Chunk) -> None:
        """Process the common event, as `_event` would."""
        if not chunk.connection.clear_directions >> chunk.direction & 1:
            for inner in self.tls.feed(chunk):
                self._clear_event(inner)
            return
        step = self.frames.step(chunk)
        if step == GIVES_FRAME:
            self._frame(self.frames.frame)
        elif step == NEEDS_FRAMING:
            for frame in self.frames.cut(chunk):
                self._frame(frame)

    def _frame(self, frame: Frame) -> None:
        self._worked += FRAME_STEPS + len(frame.data)
        for exchange in self.exchanges.feed(frame):
            self._exchange(exchange)

    def _event(self, event: Event) -> None:
        if event.connection.clear_directions >> event.direction & 1 and not isinstance(event, End):
            self._clear_event(event)
            return
        for inner in self.tls.feed(event):
            self._clear_event(inner)

    def _clear_event(self, event: Event) -> None:
        facts: SessionProperties | None = None
        if isinstance(event, End):
            facts = self.tls.take_facts(event.connection)
            if facts is not None:
                note_tls(self.exchanges, self.exchanges.state_of(event.connection), facts)
            for frame in self.frames.settle(event):
                self._frame(frame)
        for frame in self.frames.feed(event):
            self._frame(frame)
        if isinstance(event, End):
            left, state = self.exchanges.end(event.connection)
            for exchange in left:
                self._exchange(exchange)
            self._connection(state, facts)

    def _connection(self, state: ConnectionState, facts: SessionProperties | None) -> None:
        connection = state.connection
        framed, skipped = self.frames.take_counts(connection)
        if connection.edge == INSIDE:
            if self.edges is not None:
                self.edges.end_inside(connection, facts is not None and not facts.plaintext_bytes)
            self.add_connection(state, framed, skipped, facts)
        elif connection.edge == SYNCHRONIZED and self.edges is not None:
            self.edges.ended.append(Ended(state, framed, skipped))

    def add_connection(
        self,
        state: ConnectionState,
        framed: tuple[int, int],
        skipped: tuple[int, int],
        facts: SessionProperties | None,
    ) -> None:
        """Count a closed connection; framed and skipped bytes are by direction."""
        connection = state.connection
        for counts in connection.counts:
            self.payload_bytes += counts.payload_bytes
            self.duplicate_bytes += counts.duplicate_bytes
            self.missing_bytes += counts.missing_bytes
        self.framed_bytes += framed[0] + framed[1]
        self.skipped_bytes += skipped[0] + skipped[1]
        if facts is not None:
            encrypted = facts.encrypted_bytes[0] + facts.encrypted_bytes[1]
            self.tls_bytes += facts.tls_bytes[0] + facts.tls_bytes[1]
            self.encrypted_bytes += encrypted
            self.encrypted_connections += 1 if encrypted and not facts.plaintext_bytes else 0
        self.connection_count += 1
        self.protocols[state.protocol] = self.protocols.get(state.protocol, 0) + 1
        if self.makes_connections:
            self.connection_rows.add(state, framed, skipped, facts)

    def _exchange(self, exchange: Exchange) -> None:
        connection = exchange.connection
        if connection.edge != INSIDE and not self._is_synchronized(exchange, connection):
            return
        connection.given += 1
        self.exchange_count += 1
        if exchange.status & SUSPECT or exchange.outcome in (UNANSWERED, PENDING):
            withhold(exchange)
        if self._holds_back:
            self._unwritten.append(exchange)
        else:
            self._write(exchange)

    def _write(self, exchange: Exchange) -> None:
        """Write the rows of an exchange that counts."""
        self._note_made(size_of_rows(exchange))
        if self.has_shed:
            self._exchange_in_part(exchange)
            return
        if self.collects or self.makes_bodies:
            if self.waits:
                for named in self.waiting.feed(exchange):
                    self._named(named)
            else:
                self._named(exchange)
        if exchange.asks is not None and self.edges is not None:
            self._detail(exchange)
            self.edges.defer(exchange)
            return
        self.add_rows(exchange)
        self._detail(exchange)

    def _exchange_in_part(self, exchange: Exchange) -> None:
        """Write an exchange with rows left out, now or when it began."""
        if self.makes_bodies:
            for named in self.waiting.feed(exchange):
                self._named(named)
        elif "bodies" in self.tables:
            self._leave_out_bodies(exchange)
        self.add_rows(exchange)
        self._detail(exchange)
        partitions = exchange.partitions
        if partitions is None:
            return
        if "partitions" in self.tables and not self.makes_partitions:
            self.unmade.partitions += partitions.count
        if "records" in self.tables:
            self.unmade.add_records(partitions, self.makes_records)
        if "batches" in self.tables:
            # Rows that are made, now or later, are subtracted.
            self.unmade.add_batches(partitions)

    def _leave_out_bodies(self, exchange: Exchange) -> None:
        if exchange.api_key != NULL:
            self.unmade.bodies += 1

    def _is_synchronized(self, exchange: Exchange, connection: Connection) -> bool:
        """Whether an exchange of a connection from before the split counts."""
        if connection.edge != SYNCHRONIZED:
            if exchange.outcome == ANSWERED:
                connection.edge = FIRST_SEEN
            return False
        if exchange.asks is None and self.edges is not None:
            self.edges.step(exchange)
        return True

    def add_rows(self, exchange: Exchange) -> None:
        """Add the rows of an exchange that depend on its fetch session."""
        if self.makes_exchanges:
            self.exchange_rows.add(exchange)
        if self.makes_partitions:
            self.partition_rows.add(exchange)

    def _detail(self, exchange: Exchange) -> None:
        """Add the rows of its errors, members, batches and records."""
        if self.makes_errors and exchange.errors is not None:
            self.error_rows.add(exchange)
        if self.makes_members and is_group_api(exchange.api_key):
            self._members(exchange)
        partitions = exchange.partitions
        if partitions is None:
            return
        if (self.makes_batches or self.makes_records) and partitions.held is not None:
            budget = self.unpacking.budget(max(exchange.record_bytes, 0))
            if self.makes_records and is_large(exchange):
                self._begin_steps(exchange, partitions, budget)
                return
            for index in sorted(partitions.held):
                self._batches(exchange, partitions.row(index), budget)
            self.unpacking.settle(budget)

    def _begin_steps(self, exchange: Exchange, partitions: Partitions, budget: Budget) -> None:
        """Write batches and records of a large exchange, as far as there is room."""
        self._steps = self._large(exchange, partitions, budget)
        while self._steps is not None and not self.is_full:
            self._step()
        if self._steps is not None:
            self._holds_back = True

    def _named(self, exchange: Exchange) -> None:
        """Process an exchange whose topic names are final."""
        if self._holds_back:
            self._unshown.append(exchange)
        else:
            self._show(exchange)

    def _show(self, exchange: Exchange) -> None:
        """Pass an exchange to the consumers of whole exchanges."""
        if self.collects:
            self.exchanges_done.append(exchange)
            self._note_made(held_size(exchange))
        if self.has_shed and lacks_frame(exchange):
            self._leave_out_bodies(exchange)
        elif self.makes_bodies and exchange.api_key != NULL:
            self._bodies(exchange)

    def _given_up(self) -> None:
        """Problems for records of Kafka's own topics whose name came too late to open them."""
        for topic_id, count in self.waiting.given_up.items():
            name = self.exchanges.names.get(topic_id, "")
            if is_opened(name):
                text = f"records of {name} in {count} exchanges not opened: its name came too late"
                self.add_problems([Problem("messages", "late-topic-name", text)])

    def _members(self, exchange: Exchange) -> None:
        """Add rows of a group's exchange; most are heartbeats without changes."""
        if exchange.api_key == API_HEARTBEAT and exchange.error_code in (0, NULL):
            return
        request = self._body(exchange, False)
        if request is not None:
            response = self._body(exchange, True)
            if doubt_of(exchange):
                request, response = blanked(request), blanked(response)
            name = exchange.group_protocol[1]
            is_known = response is not None
            before = self.member_rows.all_text_size()
            for event in memberships(int(exchange.api_key), request, response, name, is_known):
                self.member_rows.add(exchange, event)
                self._note_made(MEMBER_BYTES)
            self._note_made(self.member_rows.all_text_size() - before)
            if not self.makes_bodies:
                for side, body in (("request", request), ("response", response)):
                    count = left_out_of(body)
                    if count > 0:
                        text = f"{count} values of the {side} not among the members"
                        self._body_problem(exchange, side, "decoded-limit", text)

    def _bodies(self, exchange: Exchange) -> None:
        shown = self._body_text(exchange, "request"), self._body_text(exchange, "response")
        self.body_rows.add(exchange, shown[0], shown[1])
        self._note_made(len(shown[0]) + len(shown[1]))

    def _body_text(self, exchange: Exchange, side: str) -> str:
        """Return a body as JSON; problems report oddities in it."""
        body = self._body(exchange, side == "response")
        self._nulls(exchange, side, body)
        allowance = ValueBudget(self.decoded_limit)
        text = body_json(body, self.has_payload, allowance)
        count = int(allowance.left_out) + left_out_of(body)
        if count > 0:
            self._body_problem(exchange, side, "decoded-limit", f"{count} values not in the {side}")
        return text

    def _body_problem(self, exchange: Exchange, side: str, kind: str, text: str) -> None:
        """Report a problem with the request or the response of an exchange."""
        is_answer = side == "response"
        time = exchange.response_start if is_answer else exchange.request_start
        packet = exchange.response_packet if is_answer else exchange.request_packet
        self._problem(exchange, kind, text, time, packet, 0)

    def _nulls(self, exchange: Exchange, side: str, body: Body | None) -> None:
        """Report nulls that the layout does not allow; only the full decode sees them."""
        if body is None or UNEXPECTED_NULLS not in body:
            return
        places = body[UNEXPECTED_NULLS]
        first = f"{places[0]['path']}, byte {places[0]['offset']}"
        more = f", and {len(places) - 1} more" if len(places) > 1 else ""
        text = f"null in the {side} at {first}{more}"
        self._body_problem(exchange, side, "unexpected-null", text)

    def _body(self, exchange: Exchange, is_response: bool) -> Body | None:
        """Return a body in full; None if absent or not decodable (with a problem).

        A body with a hole is not decoded.
        """
        asked = exchange.request_frame
        frame = exchange.response_frame if is_response else asked
        if frame is None or not frame.data or frame.missing:
            return None
        key, version = int(exchange.api_key), int(exchange.api_version)
        request = b"" if asked is None else asked.data
        names = topic_names(exchange.partitions, self.exchanges.names)
        try:
            if exchange.dialect:
                dialect = int(exchange.dialect)
                return full_old_body(
                    dialect, key, frame.data, is_response, request, self.decoded_limit,
                    self.unpacking,
                )  # fmt: skip
            body = full_body(
                key, version, frame.data, is_response, request, names, exchange.group_protocol,
                self.decoded_limit, self.unpacking,
            )  # fmt: skip
        except DecodeError:
            return None
        shown: Body = guarded(body, doubt_of(exchange))
        return shown

    def _batches(self, exchange: Exchange, partition: Partition, budget: Budget) -> None:
        batches = partition.batches
        if batches is None:
            return
        for batch in batches:
            scan = NO_RECORDS
            if self.makes_records and partition.records:
                scan = self._records(exchange, partition, batch, budget)
            elif self.verifies_crc and has_inner_crc(batch):
                scan = self._read(exchange, partition, batch, budget)
            self._batch_row(exchange, partition, batch, scan, budget)

    def _batch_row(
        self,
        exchange: Exchange,
        partition: Partition,
        batch: Batch,
        scan: RecordScan,
        budget: Budget,
    ) -> None:
        """Add the row of a batch, with the results of `scan` of its records."""
        if scan.error is not None and self.makes_records:
            self._lost(exchange, partition, scan, budget)
        if self.makes_batches:
            crc_ok: i64 = NULL
            if self.verifies_crc:
                crc_ok = 1 if crc_is_right(exchange, partition, batch, scan) else 0
            self.batch_rows.add(exchange, partition, batch, crc_ok)
            self._note_made(BATCH_BYTES)
            if self.has_shed:
                self.unmade.batches -= 1
        self._look()

    def _large(self, exchange: Exchange, partitions: Partitions, budget: Budget) -> Iterator[None]:
        """Add the rows of the batches of an exchange, some records at a time."""
        held = partitions.held
        if held is None:
            return
        for index in sorted(held):
            partition = partitions.row(index)
            for batch in partition.batches or ():
                told = RecordScan()
                for scan in self._slices(exchange, partition, batch, budget):
                    self._add_run(exchange, partition, batch, scan, budget)
                    note_told(told, scan, batch)
                    if self.is_full:
                        yield
                self._batch_row(exchange, partition, batch, told, budget)
                self.unpacking.settle(budget)
                if self.is_full:
                    yield

    def _slices(
        self, exchange: Exchange, partition: Partition, batch: Batch, budget: Budget
    ) -> Iterator[RecordScan]:
        if exchange.dialect:
            return read_set_slices(partition.records, batch, budget, self.unpacking.limit)
        return read_slices(partition.records, batch, budget, self.unpacking.limit)

    def _read(
        self, exchange: Exchange, partition: Partition, batch: Batch, budget: Budget
    ) -> RecordScan:
        if exchange.dialect:
            return read_set_within(partition.records, batch, budget, self.unpacking.limit)
        return read_within(partition.records, batch, budget, self.unpacking.limit)

    def _records(
        self, exchange: Exchange, partition: Partition, batch: Batch, budget: Budget
    ) -> RecordScan:
        """Add the rows of the records of a batch."""
        if self.has_payload or exchange.dialect:
            scan = self._read(exchange, partition, batch, budget)
        else:
            columns, limit = self.record_rows.columns, self.unpacking.limit
            scan = pack_within(partition.records, batch, budget, columns, limit)
        self._add_run(exchange, partition, batch, scan, budget)
        return scan

    def _add_run(
        self,
        exchange: Exchange,
        partition: Partition,
        batch: Batch,
        scan: RecordScan,
        budget: Budget,
    ) -> None:
        """Add the rows of records of one batch."""
        count = scan.packed_count
        if scan.records:
            count += self._add_records(partition, scan, budget)
        self._worked += RECORD_STEPS * count
        self.record_rows.add_run(exchange, partition, count, aborted_or_null(batch))
        self._note_made(RECORD_BYTES * count)

    def _add_records(self, partition: Partition, scan: RecordScan, budget: Budget) -> i64:
        """Add records that were read one by one; return their number."""
        # Credentials are among the records of the metadata log; opened bodies have them redacted.
        is_secret = partition.topic_id == CLUSTER_METADATA_ID or partition.topic == CLUSTER_METADATA
        rows = self.record_rows
        count: i64 = 0
        for record in scan.records:
            if not budget.take(1 + record.header_count if self.has_payload else 1):
                scan.fail(CorruptRecords(TOO_MANY), len(scan.records) - count)
                break
            rows.add(record)
            if self.has_payload:
                before = rows.text_size
                rows.add_payload(record, is_secret)
                self._note_made(rows.text_size - before)
            count += 1
        return count

    def _lost(
        self, exchange: Exchange, partition: Partition, scan: RecordScan, budget: Budget
    ) -> None:
        """Report records of a batch that could not be read."""
        text = f"partition {partition.partition}: {scan.lost_count} records lost: {scan.error}"
        kind = "corrupt-records"
        if budget.is_of_all and isinstance(scan.error, DecompressionLimit):
            kind = "unpacked-limit"
            text += f", what is left of {self.unpacking.ratio_in_all} times the captured bytes"
        self._problem(
            exchange,
            kind,
            text,
            exchange.request_start,
            exchange.request_packet,
            partition.record_bytes,
        )

    def _problem(
        self, exchange: Exchange, kind: str, text: str, time: i64, packet: i64, size: i64
    ) -> None:
        """Report a problem with the messages of one exchange; NULL is no time and no packet."""
        problem = Problem(
            "messages",
            kind,
            text,
            time if time != NULL else -1,
            packet if packet != NULL else -1,
            size,
            exchange.connection_id,
            exchange.exchange_id,
            exchange.capture,
        )
        self.add_problems([problem])

    def _take_problems(self) -> None:
        """Drain the stages' problems into the table, in the order of the stages."""
        if self.decoder.problems:
            found = self.decoder.problems
            self.decoder.problems = []
            self.add_problems(found)
        if self.streams.problems:
            found = self.streams.problems
            self.streams.problems = []
            self.add_problems(found)
        for problems in (self.tls.keys.problems, self.tls.problems):
            self.add_problems(problems)
            problems.clear()
        if self.frames.problems:
            found = self.frames.problems
            self.frames.problems = []
            self.add_problems(found)
        found = self.exchanges.take_problems()
        if found:
            self.add_problems(found)


def size_of_rows(exchange: Exchange) -> i64:
    """Approximate bytes of the rows of an exchange, its partitions and errors."""
    size: i64 = EXCHANGE_BYTES
    partitions = exchange.partitions
    if partitions is not None:
        size += partitions.count * ROW_BYTES + partitions.spent
    if exchange.errors is not None:
        size += len(exchange.errors) * ERROR_BYTES
    return size


def is_large(exchange: Exchange) -> bool:
    """Whether an exchange may have very many records."""
    if exchange.record_bytes > LARGE_RECORD_BYTES:
        return True
    return exchange.record_count > LARGE_RECORD_COUNT


def left_out_of(body: Body | None) -> int:
    """Number of values of a body that had no room."""
    if body is None or LEFT_OUT not in body:
        return 0
    count: int = body[LEFT_OUT]["count"]
    return count


def note_told(told: RecordScan, scan: RecordScan, batch: Batch) -> None:
    """Take the results for a batch once all its slices are read."""
    told.lost_count += scan.lost_count
    if told.error is None:
        told.error = scan.error
    if has_inner_crc(batch):
        # Records inside a wrapper come in one slice, and are few enough.
        told.records = scan.records


def lacks_frame(exchange: Exchange) -> bool:
    """Whether bytes of an exchange were not kept because it began while bodies were left out."""
    if exchange.outcome == ORPHAN:
        return exchange.response_frame is None
    return exchange.request_frame is None


def crc_is_right(exchange: Exchange, partition: Partition, batch: Batch, scan: RecordScan) -> bool:
    """Whether the checksums of a batch are right, and those of the messages of `scan` inside it."""
    if exchange.dialect:
        return check_read_set_crc(partition.records, batch, scan)
    return check_read_crc(partition.records, batch, scan)
