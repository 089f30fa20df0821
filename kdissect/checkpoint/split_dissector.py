"""The stages over one split of a capture: rows of connections from before it wait for the merger.

See `left_edge` for which rows count.
"""

from mypy_extensions import i64

from kdissect.capture.packet import Packet
from kdissect.checkpoint.left_edge import Ended, LeftEdge
from kdissect.checkpoint.split_sink import SplitSink
from kdissect.dissection.dissector import Dissector
from kdissect.dissection.totals import CaptureTotals
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import ANSWERED, Exchange
from kdissect.exchanges.fetches import SessionUsers
from kdissect.exchanges.pairing import Exchanges
from kdissect.limits import Limits
from kdissect.packets.segment import copied
from kdissect.streams.connections import GIVES_CHUNK, NEEDS_SLOW_PATH
from kdissect.streams.events import FIRST_SEEN, INSIDE, SYNCHRONIZED
from kdissect.tls.keylog import KeyLog
from kdissect.tls.session_properties import SessionProperties


class SplitDissector(Dissector):
    """A dissector for one split; `edges` is what its boundary state is made of.

    `is_first`: nothing precedes the split. It does not pause, and is not finished: what is open at
    the end of the split is left to the merger.
    """

    def __init__(
        self,
        exchanges: Exchanges,
        tables: frozenset[str],
        is_first: bool,
        has_payload: bool = False,
        verifies_crc: bool = False,
        limits: Limits | None = None,
        keys: KeyLog | None = None,
    ) -> None:
        sink = SplitSink(tables)
        super().__init__(
            exchanges, tables, has_payload, verifies_crc, False, True, limits, keys, sink
        )
        # No segment waits for the next one: where a time may be wrong the merger reads the split.
        self.streams.holds_odd = False
        exchanges.bodies.sessions.users = SessionUsers()
        self.edges = LeftEdge(self.streams, self.frames, exchanges, self.tls, sink, is_first)

    def feed(self, packets: list[Packet]) -> int:
        """Process packets in the order of the split."""
        decoder = self.decoder
        streams = self.streams
        edges = self.edges
        captured: i64 = 0
        for packet in packets:
            captured += packet.end - packet.start
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
                edges.synchronize(prefix)
        # Fragments make splits inseparable: late segments are not used.
        decoder.late = []
        self._captured(captured)
        self.totals.packets += len(packets)
        self._take_problems()
        return len(packets)

    def _connection(
        self,
        state: ConnectionState,
        framed: tuple[int, int],
        skipped: tuple[int, int],
        facts: SessionProperties | None,
    ) -> None:
        connection = state.connection
        if connection.edge == INSIDE:
            is_locked = facts is not None and not facts.plaintext_bytes
            share = CaptureTotals()
            share.add_connection(state, framed, skipped, facts)
            self.edges.end_inside(state, is_locked, share)
            self.add_connection(state, framed, skipped, facts)
        elif connection.edge == SYNCHRONIZED:
            self.edges.ended.append(Ended(state, framed, skipped))

    def _exchange(self, exchange: Exchange) -> None:
        connection = exchange.connection
        if connection.edge == INSIDE:
            super()._exchange(exchange)
        elif connection.edge == SYNCHRONIZED:
            if exchange.asks is None:
                self.edges.step(exchange)
            super()._exchange(exchange)
        elif exchange.outcome == ANSWERED:
            connection.edge = FIRST_SEEN

    def _add_rows(self, exchange: Exchange) -> None:
        if exchange.asks is None:
            super()._add_rows(exchange)
        else:
            self.writer.add_details(exchange)
            self.edges.defer(exchange)
