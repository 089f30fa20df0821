"""Packets → rows: runs the stages over one capture; compiled, so it uses rows but no Arrow.

A few bytes can become many rows, so with `feed_from` the stages pause where rows are to be taken:

    packets ──▶ events ──▶ frames ──▶ exchanges ──▶ rows
            1          2                       3

1: between two packets. 2: the events of a segment wait in `_events`. 3: the exchanges that one
event completes wait in `_unwritten`, and the records of a large exchange in the `RecordWriter`.
Waiting items are written first on resumption, so the order of rows is the same with and without
pauses.

Longer than other modules: the loop calls every stage, and is compiled as one module.
"""

from collections import deque
from typing import Final, cast

from mypy_extensions import i64

from kdissect.capture.packet import Packet
from kdissect.dissection.body_writer import BodyWriter
from kdissect.dissection.cancellation import FRAME_STEPS, Cancellation
from kdissect.dissection.detail import Detail, lacks_frame
from kdissect.dissection.exchange_writer import ExchangeWriter, size_of_rows
from kdissect.dissection.parking import Parking
from kdissect.dissection.record_writer import RecordWriter
from kdissect.dissection.row_sink import RowSink
from kdissect.dissection.totals import CaptureTotals
from kdissect.errors import Problem
from kdissect.exchanges.api_mismatches import is_overlong, withhold
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import PENDING, SUSPECT, UNANSWERED, Exchange
from kdissect.exchanges.pairing import Exchanges
from kdissect.exchanges.protocol_detection import ProtocolDetector
from kdissect.exchanges.provisional import note_tls, until_now
from kdissect.exchanges.topic_name_resolution import NameWait, held_size
from kdissect.framing.frames import GIVES_FRAME, NEEDS_FRAMING, Frame, Frames
from kdissect.limits import Limits
from kdissect.messages.decompression_budget import Unpacking
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.fragments import Fragments
from kdissect.packets.segment import copied
from kdissect.protocol.readers import NULL
from kdissect.streams.connections import GIVES_CHUNK, NEEDS_SLOW_PATH, Streams
from kdissect.streams.events import Chunk, End, Event
from kdissect.tables.rows import ConnectionRows, Rows
from kdissect.tls.keylog import KeyLog
from kdissect.tls.session_properties import SessionProperties
from kdissect.tls.stage import Tls

ENDED_AT_ONCE: Final = 256  # parked connections, at the end of the capture
CONNECTION_BYTES: Final = 688  # its row of 86 integers


class Dissector:
    """All stages over one capture: feed packets, take rows of tables or exchanges.

    `tables` names the tables whose rows are made. With `collects` the exchanges themselves are
    kept in `exchanges_done` for the caller to take. Exchanges whose bodies may be inspected
    wait for names of topics; without `waits` they do not. `sink` is where rows and problems go.
    With `parks`, more connections may be open than `limits.active_connections` (see `parking`).
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
        sink: RowSink | None = None,
        parks: bool = False,
    ) -> None:
        if limits is None:
            limits = Limits()
        self.decoder = PacketDecoder(Fragments(limits.fragmented_packets, limits.fragment_bytes))
        self.streams = Streams(
            max_connections=limits.connections if parks else limits.unparked_connections,
            max_active=limits.active_connections,
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
        if parks:
            self.streams.parking = Parking(self.streams, self.frames, exchanges)
        self.unpacking = Unpacking(
            limits.unpacked_bytes, limits.unpacked_ratio, limits.unpacked_ratio_in_all
        )
        self.sink = sink if sink is not None else RowSink(tables)
        self.detail = Detail(tables, verifies_crc, exchanges)
        self.cancellation = Cancellation(self.frames)
        self.totals = CaptureTotals()
        self.records = RecordWriter(
            self.sink, self.detail, self.cancellation, self.unpacking, has_payload
        )
        self.bodies = BodyWriter(
            self.sink, self.detail, self.unpacking, exchanges.names, has_payload,
            limits.decoded_bytes,
        )  # fmt: skip
        self.writer = ExchangeWriter(self.sink, self.detail, self.records, self.bodies)
        self.collects = collects
        self.exchanges_done: list[Exchange] = []
        self.waiting = NameWait(exchanges.names, limits.name_wait_bytes)
        self.waits = waits
        # Waiting items, see the top of the module.
        self._events: deque[Event] = deque()
        self._unwritten: deque[Exchange] = deque()
        self._unshown: deque[Exchange] = deque()
        self._is_ending: bool = False
        self._is_over: bool = False

    def feed(self, packets: list[Packet]) -> int:
        """Process packets in the order of the capture, however many rows that makes.

        Returns how many were processed: all of them, unless `cancellation` ended it.
        """
        self.sink.pauses = False
        return self._feed_from(packets, 0)

    def feed_from(self, packets: list[Packet], at: i64) -> i64:
        """Process packets from `at` on until rows are to be taken; return the next one's index.

        Call it again, after taking rows or exchanges, as long as there are packets or `is_behind`.
        Not for a split of a capture. Once `cancellation` has ended it no packet is taken any more.
        """
        self.sink.pauses = True
        return self._feed_from(packets, at)

    @property
    def is_behind(self) -> bool:
        """Return whether items of packets already fed wait until rows are taken."""
        return self.sink.holds_back or (self._is_ending and not self._is_over)

    def _feed_from(self, packets: list[Packet], at: i64) -> i64:
        sink = self.sink
        if sink.holds_back:
            self._go_on()
        decoder = self.decoder
        streams = self.streams
        cancellation = self.cancellation
        captured: i64 = 0
        count: i64 = len(packets)
        first = at
        try:
            while at < count and not sink.holds_back:
                if cancellation.ask is not None:
                    cancellation.look()
                    if cancellation.is_ended:
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
            # Of packets already begun, so that bytes balance after an interruption.
            self._captured(captured)
        self.totals.packets += at - first
        self._take_problems()
        return at

    def _captured(self, size: i64) -> None:
        """Count bytes of packets."""
        self.totals.captured_bytes += size
        self.unpacking.captured = self.totals.captured_bytes

    def take_events(self, events: list[Event]) -> None:
        """Process events of `streams` that were not made of packets fed here."""
        self._take_events(events)
        self._take_problems()

    def _take_events(self, events: list[Event]) -> None:
        """Process events in order; when the stages pause, the others wait."""
        for event in events:
            if self.sink.holds_back:
                self._events.append(event)
            else:
                self._event(event)
                self.cancellation.look()

    def _go_on(self) -> None:
        """Process waiting items until rows have to be taken again."""
        sink = self.sink
        while not sink.is_full:
            if self.records.is_behind:
                self.records.step()
            elif self._unwritten:
                self._write(self._unwritten.popleft())
            elif self._unshown:
                self._show(self._unshown.popleft())
            elif self._events:
                sink.holds_back = False
                self._event(self._events.popleft())
            else:
                sink.holds_back = False
                return
            sink.holds_back = True
            self.cancellation.look()

    def advance(self, passed_ns: i64) -> None:
        """Advance the clock by the time since the latest segment."""
        self.take_events(self.streams.advance(passed_ns))

    def end_silent(self, since: i64, most: i64) -> int:
        """End at most `most` connections silent since that time; return their number."""
        count = self.totals.connections
        self.take_events(self.streams.end_silent(since, most))
        return self.totals.connections - count

    def finish(self) -> None:
        """End of capture: end every connection that is still open."""
        self.sink.pauses = False
        self.sink.is_full = False
        self._finish()

    def finish_from(self) -> None:
        """Like `finish` until rows are to be taken; call it again while it `is_behind`."""
        self.sink.pauses = True
        self._finish()

    def _finish(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            self.decoder.finish()
            self._late()
            self._take_events(self.streams.finish())
        if self.sink.holds_back:
            self._go_on()
        while not self.sink.holds_back and self.streams.parked_count > 0:
            self._take_events(self.streams.end_parked(ENDED_AT_ONCE))
        if not self.sink.holds_back:
            for exchange in self.waiting.finish():
                self._named(exchange)
        if not self.sink.holds_back and not self._is_over:
            self._is_over = True
            self.add_problems(self.waiting.late_names())
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
        """Set the detail from now on: ALL that was requested, or less, counted by `ShedCounters`.

        NO_RECORD_ROWS: records are not unpacked. NO_BODIES: in addition no rows of `bodies`, and no
        messages kept for them. NO_PARTITIONS: in addition no rows of `partitions` and `batches`.
        Rows of other tables stay as they are. Call it between two `feed`; not where exchanges are
        collected.
        """
        self.detail.set(level)
        if not self.detail.makes_bodies:
            for exchange in self.waiting.finish():
                self.detail.leave_out_bodies(exchange)

    def add_problems(self, problems: list[Problem]) -> None:
        """Add problems of the stage before, which this class does not see."""
        self.sink.add_problems(problems)

    def full_tables(self, row_limit: i64) -> list[str]:
        """Names of the tables with at least `row_limit` rows waiting (and at least one).

        Tables with long texts are full earlier. The caller takes all of them: with a `row_limit` of
        1 these are all waiting rows, so that it can continue.
        """
        return self.sink.full_tables(row_limit)

    def take_rows(self, table: str) -> Rows:
        """Return the waiting rows of a table; later rows go to new ones."""
        return self.sink.take(table)

    def take_exchanges(self) -> list[Exchange]:
        """Exchanges completed since the last call, if the dissector collects them."""
        done = self.exchanges_done
        self.exchanges_done = []
        self.sink.note_taken()
        return done

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
        self.cancellation.worked += FRAME_STEPS + len(frame.data)
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
            framed, skipped = self.frames.take_counts(event.connection)
            self._connection(state, framed, skipped, facts)

    def _connection(
        self,
        state: ConnectionState,
        framed: tuple[int, int],
        skipped: tuple[int, int],
        facts: SessionProperties | None,
    ) -> None:
        """Process a connection that has ended."""
        self.add_connection(state, framed, skipped, facts)

    def add_connection(
        self,
        state: ConnectionState,
        framed: tuple[int, int],
        skipped: tuple[int, int],
        facts: SessionProperties | None,
    ) -> None:
        """Count a closed connection; framed and skipped bytes are by direction."""
        self.totals.add_connection(state, framed, skipped, facts)
        if self.detail.makes_connections:
            rows = cast(ConnectionRows, self.sink.tables["connections"])
            rows.add(state, framed, skipped, facts)
            self.sink.note_made(CONNECTION_BYTES)

    def _exchange(self, exchange: Exchange) -> None:
        """Process an exchange that is complete."""
        exchange.connection.given += 1
        self.totals.exchanges += 1
        is_sound = not exchange.status & SUSPECT and exchange.outcome not in (UNANSWERED, PENDING)
        if not is_sound or is_overlong(exchange):
            withhold(exchange)
        if self.sink.holds_back:
            self._unwritten.append(exchange)
        else:
            self._write(exchange)

    def _write(self, exchange: Exchange) -> None:
        """Write the rows of an exchange."""
        self.sink.note_made(size_of_rows(exchange))
        if self.collects or self.detail.makes_bodies:
            if self.waits:
                self.wait_for_names(exchange)
            else:
                self._named(exchange)
        self._add_rows(exchange)
        if self.detail.has_shed:
            self.detail.count_left_out(exchange)

    def _add_rows(self, exchange: Exchange) -> None:
        """Add the rows of an exchange, except those of its bodies."""
        self.writer.add_rows(exchange)
        self.writer.add_details(exchange)

    def wait_for_names(self, exchange: Exchange) -> None:
        """Process an exchange, and others, once the names of its topics are known."""
        for named in self.waiting.feed(exchange):
            self._named(named)

    def _named(self, exchange: Exchange) -> None:
        """Process an exchange whose topic names are final."""
        if self.sink.holds_back:
            self._unshown.append(exchange)
        else:
            self._show(exchange)

    def _show(self, exchange: Exchange) -> None:
        """Pass an exchange to the consumers of whole exchanges."""
        if self.collects:
            self.exchanges_done.append(exchange)
            self.sink.note_made(held_size(exchange))
        if self.detail.has_shed and lacks_frame(exchange):
            self.detail.leave_out_bodies(exchange)
        elif self.detail.makes_bodies and exchange.api_key != NULL:
            self.bodies.write(exchange)

    def _take_problems(self) -> None:
        """Drain the stages' problems into the table, in the order of the stages."""
        if self.decoder.problems:
            self.add_problems(self.decoder.problems)
            self.decoder.problems = []
        if self.streams.problems:
            self.add_problems(self.streams.problems)
            self.streams.problems = []
        for problems in (self.tls.keys.problems, self.tls.problems):
            self.add_problems(problems)
            problems.clear()
        if self.frames.problems:
            self.add_problems(self.frames.problems)
            self.frames.problems = []
        self.add_problems(self.exchanges.take_problems())
