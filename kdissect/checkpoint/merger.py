"""Seams in the order of their pieces → what the pieces could not know: the rest of the rows.

The `Stitcher` is all stages once more, with what is known of the whole. Of each piece it takes the
segments of the heads, so that it comes by itself to where the piece's own connections were joined;
where the two agree it takes over what the piece made of the connection, rows and state, and where
they do not it reads that connection's packets in the piece again. So what comes out is always what
one pass over everything gives; how much is read again decides only how long it takes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kdissect.boundaries.left_edge import Ended, Head
from kdissect.boundaries.synchronization import counted, join_state
from kdissect.capture.blocks import Secrets
from kdissect.capture.packet import Packet
from kdissect.capture.splits import Piece, read_piece
from kdissect.checkpoint.boundary_state import Open, Seam, Totals
from kdissect.checkpoint.connection_merge import Joined, opened, turned_state
from kdissect.checkpoint.corrections import Correction, Corrections
from kdissect.checkpoint.recent_segments import Rings
from kdissect.errors import Problem
from kdissect.exchanges.connection_state import PAST, ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.fetches import settle_asks
from kdissect.exchanges.pairing import end_login
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import Segment, flow_of
from kdissect.pipeline import Balance, Options, add_secrets, make_balance, make_dissector
from kdissect.streams.connections import reverse_flow
from kdissect.streams.duplicates import Mark
from kdissect.streams.events import INSIDE, SHARED_PAST, Chunk
from kdissect.streams.receiver import Receiver

if TYPE_CHECKING:
    from kdissect.checkpoint.checkpoint import State

Reread = Callable[[Piece], Iterable[list[Packet]]]
FindSecrets = Callable[[], Sequence[Secrets]]


class Stitcher:
    """Feed it the seams in order; what it gives itself are rows of its `dissector`.

    `reread` gives the packets of a piece again, `find_secrets` all that the captures hold of keys
    for TLS; both are called only when they are needed. With the `state` of another one it goes on
    behind what that was fed; see `carrying.carry_on`.
    """

    def __init__(
        self,
        options: Options,
        reread: Reread = read_piece,
        find_secrets: FindSecrets | None = None,
        state: "State | None" = None,
    ) -> None:
        self.options = options
        self.reread = reread
        self.dissector = make_dissector(options, collects=False, keeps_frames=False)
        self._find_secrets = find_secrets
        self.told: set[str] = set()
        # Those that were put together, as far as anybody may have to read them again.
        self.pieces: list[Piece] = []
        self.totals: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.protocols: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        # Connections taken over, pieces read again, and segments that were dissected twice.
        self.joins = 0
        self.read_again = 0
        self.replayed = 0
        if state is not None:
            # Nobody else needs it, and it brings all of TLS with it.
            from kdissect.checkpoint.resumed_merger import carry_on

            carry_on(self, state)

    def state(self) -> "State":
        """What is known now, so that another stitcher can go on.

        Write it down before this one goes on. Rows that are there stay here, to be taken.
        """
        from kdissect.checkpoint.resumed_merger import state_of

        return state_of(self)

    def add(self, seam: Seam) -> Corrections:
        """Put a piece behind those before it; what has to be corrected in its rows."""
        self.pieces.append(seam.piece)
        clock = self.dissector.streams.clock
        first_ns, lowest_ns, _ = seam.times
        is_set = first_ns >= 0 and not clock.goes_on(first_ns, lowest_ns)
        if seam.is_whole or is_set or self.dissector.decoder.is_waiting():
            return self._dissect_whole(seam)
        self._take_problems(seam.problems)
        self.dissector.decoder.unknown_link_types |= seam.link_types
        self.dissector.begin_replay(first_ns)
        step = _Step(self, seam)
        corrections = step.run()
        self._count(seam, corrections)
        return corrections

    def has_keys(self) -> bool:
        """Whether there are keys for TLS; then what pieces could not read is tried with all."""
        keys = self.dissector.tls.keys
        if self._find_secrets is not None:
            add_secrets(keys, self._find_secrets())
            self._find_secrets = None
        return len(keys) > 0

    def finish(self) -> None:
        """No piece follows."""
        self.dissector.finish()

    @property
    def balance(self) -> Balance:
        """What became of the bytes of all pieces; complete after `finish`."""
        own = make_balance(self.dissector)
        added = {name: getattr(own, name) + self.totals[name] for name in NUMBERS}
        return replace(
            own,
            **added,
            packets_by_reason=dict(self.reasons + Counter(own.packets_by_reason)),
            protocols=dict(self.protocols + Counter(own.protocols)),
            problems=dict(self.problems + Counter(own.problems)),
        )

    def _dissect_whole(self, seam: Seam) -> Corrections:
        """A piece that does not stand alone."""
        dissector = self.dissector
        self.read_again += 1
        self._take_problems([one for one in seam.problems if one.stage == "capture"])
        for packets in self.reread(seam.piece):
            dissector.feed(packets)
        corrections = Corrections()
        corrections.drops_all = True
        return corrections

    def _take_problems(self, problems: Iterable[Problem]) -> None:
        """Problems of reading and of packets; of a link type the first packet is told of."""
        for problem in problems:
            if problem.kind == "unknown-link-type":
                if problem.message in self.told:
                    continue
                self.told.add(problem.message)
            self.dissector.add_problems([problem])

    def _count(self, seam: Seam, corrections: Corrections) -> None:
        """Add what the piece counted, without what does not count."""
        totals = seam.totals
        self.reasons.update(totals.packets_by_reason)
        self.totals.update(packets=totals.packets, captured_bytes=totals.captured_bytes)
        if corrections.drops_all:
            return
        self.protocols.update(totals.protocols)
        self.problems.update(totals.problems)
        for (connection_id, kind), count in seam.problem_counts.items():
            if connection_id in corrections.dropped:
                self.problems[kind] -= count
        for name in COUNTED:
            self.totals[name] += getattr(totals, name)
        self.totals["exchanges"] -= corrections.dropped_exchanges


# The plain numbers among the totals, and those of them that are of connections.
NUMBERS: Final = tuple(
    name for name in Totals._fields if name not in ("packets_by_reason", "protocols", "problems")
)
COUNTED: Final = tuple(name for name in NUMBERS if name not in ("packets", "captured_bytes"))


class _Step:
    """One seam while it is put behind those before it."""

    def __init__(self, stitcher: Stitcher, seam: Seam) -> None:
        self.stitcher = stitcher
        self.seam = seam
        self.dissector = stitcher.dissector
        self.streams = stitcher.dissector.streams
        # By connection id in the piece.
        self.joined: dict[int, Joined] = {}
        self.corrections = Corrections()
        # Flows whose packets are read again, and the ordinal from which on, by both directions.
        self.again: dict[bytes, int] = {}
        self.is_all_again = False
        self.fed: dict[bytes, int] = {}
        # Positions of the connections that were taken over, by identity.
        self.own_positions: set[int] = set()
        self.joined_by_connection: dict[int, Joined] = {}
        # Exchanges that came out of connections, apart from those that began and ended inside.
        self.given: dict[int, int] = {left.connection_id: left.given for left in seam.left_open}
        for one in seam.open:
            self.given[int(one.opener.connection.id)] = int(one.opener.connection.given)
        for ended in seam.ended:
            self.given[int(ended.state.connection.id)] = int(ended.state.connection.given)
        # By both directions of their flow, those that began in the piece.
        self.born: dict[bytes, list[int]] = {}
        for flow, connection_id in seam.born:
            for one_way in (flow, reverse_flow(flow)):
                self.born.setdefault(one_way, []).append(connection_id)
        self.rings = Rings(self.streams)
        self.heads = {one: head for head in seam.heads for one in head.ids}
        # The whole's streams of a joined connection, by direction in the piece.
        self.joined_streams: dict[int, tuple[int, int]] = {}

    def run(self) -> Corrections:
        self._check_born()
        self._check_left()
        self._replay_heads()
        if self.again or self.is_all_again:
            self._read_again()
        if not self.is_all_again:
            self._take_over()
        self._take_rings()
        self.dissector.end_replay(self.seam.times.now_ns)
        self.corrections.drops_all = self.is_all_again
        return self.corrections

    # What does not count

    def _check_born(self) -> None:
        """Connections that began in the piece, unless they did not, or asked for the past."""
        seam = self.seam
        asked = set(seam.touched)
        if (seam.locked or seam.left_open) and self.stitcher.has_keys():
            asked |= set(seam.locked)
        for one in seam.open:
            connection = one.opener.connection
            if connection.edge == INSIDE and connection.touched & SHARED_PAST:
                asked.add(int(connection.id))
        for flow, connection_id in seam.born:
            if connection_id in asked or self.streams.receiver_of(flow) is not None:
                self._drop(flow, (connection_id,))
        for head in seam.heads:
            # Of a later connection on the flow.
            if not asked.isdisjoint(head.ids):
                self._drop(head.flow, ())

    def _check_left(self) -> None:
        for left in self.seam.left_open:
            self._drop(left.flow, (left.connection_id,))

    def _drop(self, flow: bytes, ids: Iterable[int]) -> None:
        """Connections of a flow are dissected again, with all that began on it in the piece."""
        for connection_id in {*ids, *self.born.get(flow, ())}:
            self.corrections.dropped.add(connection_id)
            self.corrections.dropped_exchanges += self.given.get(connection_id, 0)
            if connection_id in self.seam.inside_ended:
                # What they counted is among the counts of all.
                self.is_all_again = True
        first = self.fed.get(flow, -1)
        self.again[flow] = self.again[reverse_flow(flow)] = first

    # Heads

    def _replay_heads(self) -> None:
        for head in self.seam.heads:
            if not head.segments:
                self._head_ended(head)
        queue = sorted(
            (number, which, place)
            for which, head in enumerate(self.seam.heads)
            for place, number in enumerate(head.places)
        )
        for number, which, place in queue:
            head = self.seam.heads[which]
            self.rings.go_to(number)
            self._replay(head.segments[place])
            self.rings.note(head)
            if place == len(head.segments) - 1:
                self._head_ended(head)

    def _replay(self, segment: Segment) -> None:
        self.stitcher.replayed += 1
        self.dissector.replay(segment)

    def _head_ended(self, head: Head) -> None:
        if head.segments:
            last = int(head.segments[-1].ordinal)
            self.fed[head.flow] = self.fed[reverse_flow(head.flow)] = last
        if head.is_joined:
            joined = self._join(head)
            if joined is not None:
                self.stitcher.joins += 1
                self.joined[int(head.joined_id)] = joined
                self.joined_by_connection[id(head.joined)] = joined
                return
            self._drop(head.flow, head.ids[head.ids.index(head.joined_id) :])
        elif head.is_cut or head.flow in self.again:
            self._drop(head.flow, ())

    def _join(self, head: Head) -> Joined | None:
        """What the whole knows, when it is what the piece believes."""
        opener = self.streams.receiver_of(head.joined.flow)
        if opener is None or head.joined.touched or head.flow in self.again:
            return None
        is_turned = opener.connection.flow != head.joined.flow
        if is_turned:
            opener = opener.peer
        connection = opener.connection
        state = self.dissector.exchanges.states.get(connection.id)
        is_tls = self.dissector.tls.has_session(connection)
        if state is None or is_tls or connection.closed_by:
            return None
        cuttings = self.dissector.frames.cuttings(connection)
        known = join_state(opener, cuttings, state)
        expected = turned_state(head.state) if is_turned else head.state
        if known != expected or not self.rings.answers_alike(head.repeats):
            return None
        sides = (opener.peer, opener) if is_turned else (opener, opener.peer)
        self.joined_streams[int(head.joined_id)] = (int(sides[0].stream), int(sides[1].stream))
        own = [cutting for cutting in cuttings if cutting is not None]
        at = counted(opener, cuttings, state)
        epoch = int(self.streams.clock.epoch)
        return Joined(head, opener, state, own, at, is_turned, epoch)

    # Read again

    def _read_again(self) -> None:
        """Dissect the packets of flows, or of all, from where they were left."""
        self.stitcher.read_again += 1
        self.rings.go_back()
        decoder = PacketDecoder()
        number = 0
        for packets in self.stitcher.reread(self.seam.piece):
            for packet in packets:
                segment = decoder.decode(packet)
                if segment is None:
                    continue
                number += 1
                flow = flow_of(segment)
                first = self.fed.get(flow, -1) if self.is_all_again else self.again.get(flow, -2)
                if segment.ordinal > first != -2:
                    self.rings.go_to(number)
                    self._replay(segment)
                elif segment.ordinal == first:
                    self.rings.pass_by(segment, number)

    # Taken over

    def _take_over(self) -> None:
        for deferred in self.seam.deferred:
            self._take_deferred(*deferred)
        waiting = [
            exchange
            for exchange in self.seam.waiting
            if exchange.connection_id not in self.corrections.dropped
        ]
        for ended in self.seam.ended:
            self._take_ended(ended)
        for one in self.seam.open:
            self._take_open(one)
        for group, protocol in self.seam.groups.items():
            self.dissector.exchanges.bodies.groups.learn(group, protocol)
        self.dissector.exchanges.names.update(self.seam.names)
        self._take_sessions()
        for exchange in waiting:
            exchange.connection_id = exchange.connection.id
            self.dissector.take_waiting(exchange)

    def _take_deferred(self, exchange: Exchange, to_opener: int, to_accepter: int) -> None:
        """An exchange that only lacks what its fetch session stood at before."""
        joined = self.joined.get(int(exchange.connection_id))
        if joined is None:
            return
        settle_asks(exchange, joined.positions)
        exchange.connection_id = joined.connection.id
        exchange.rtt_ns = joined.rtt_ns(to_opener, to_accepter)
        self.dissector.add_rows(exchange)

    def _take_ended(self, ended: Ended) -> None:
        """A connection from before the piece that ended in it."""
        joined = self.joined.get(int(ended.state.connection.id))
        if joined is None:
            return
        self._note(joined)
        before = joined.head.at
        joined.take(ended.state)
        end_login(ended.state)
        framed = joined.cut(ended.framed, before.framed, joined.at.framed)
        skipped = joined.cut(ended.skipped, before.skipped, joined.at.skipped)
        self._forget(joined.opener)
        self._allow(ended.state)
        self.dissector.add_connection(ended.state, framed, skipped, None)

    def _take_open(self, one: Open) -> None:
        connection = one.opener.connection
        if connection.id in self.corrections.dropped:
            return
        joined = self.joined.get(int(connection.id))
        if joined is not None and one.state is not None:
            self._note(joined)
            # Before the two directions of what was known here no longer know each other.
            one = opened(joined, one, one.state)
            self._forget(joined.opener)
        connection.edge = INSIDE
        # A piece has one epoch of the clock, and that is the whole's.
        connection.epoch = self.streams.clock.epoch
        dissector = self.dissector
        self.streams.take_in(one.opener)
        dissector.frames.take_in(connection, (one.opener_cutting, one.accepter_cutting))
        dissector.tls.take_in(connection, one.watch)
        if one.state is not None:
            dissector.exchanges.take_in(one.state)
            self._allow(one.state)

    def _note(self, joined: Joined) -> None:
        """What has to be corrected in the rows of a joined connection."""
        head = joined.head
        steps = [(row, joined.rtt_ns(one, other)) for row, one, other in head.steps]
        self.corrections.joined[int(head.joined_id)] = Correction(int(joined.connection.id), steps)

    def _forget(self, opener: Receiver) -> None:
        """What the stitcher had of a connection that the piece has brought forward."""
        self.streams.forget(opener)
        self.dissector.tls.set_clear(opener.connection)
        self.dissector.frames.forget(opener.connection)
        self.dissector.exchanges.forget(opener.connection)

    def _allow(self, state: ConnectionState) -> None:
        self.own_positions.add(id(state.positions))

    def _take_sessions(self) -> None:
        """Fetch sessions of connections that were taken over, and of those that ended."""
        sessions = self.dissector.exchanges.bodies.sessions
        for session, positions in self.seam.sessions.items():
            if id(positions) in self.own_positions or (
                session not in sessions.by_number and PAST not in positions
            ):
                sessions.keep(session, positions)

    # What was seen last

    def _take_rings(self) -> None:
        """The last segments and chunks, as one pass would have them."""
        renewed = {
            id(joined.connection): joined.head.joined
            for joined in self.joined.values()
            if not self.is_all_again
        }

        def renew(chunk: Chunk) -> None:
            chunk.connection = renewed.get(id(chunk.connection), chunk.connection)

        self.rings.end(self.seam, self._stream_of, self._place, renew)

    def _stream_of(self, place: int, mark: Mark) -> int:
        """The number in the whole of a direction in the piece; -1 where it was replayed."""
        connection_id = mark.stream >> 1
        if self.is_all_again or connection_id in self.corrections.dropped:
            return -1
        head = self.heads.get(connection_id)
        if head is None:
            return mark.stream
        if not head.is_joined or head.flow in self.again or place < head.place:
            return -1
        if connection_id != head.joined_id:
            # One that began later on the same flow.
            return mark.stream
        return self.joined_streams[connection_id][mark.stream & 1]

    def _place(self, chunk: Chunk) -> bool:
        """Whether the chunk is of a connection that was taken over; it is where it was there."""
        receiver = self.streams.receiver_of(chunk.connection.flow)
        if receiver is None or receiver.connection is not chunk.connection:
            return False
        joined = self.joined_by_connection.get(id(chunk.connection))
        if joined is not None:
            if chunk.seen <= joined.head.place:
                # It is here already.
                return False
            if joined.is_turned:
                chunk.direction = 1 - chunk.direction
            chunk.position += joined.moved()[chunk.direction]
        return True
