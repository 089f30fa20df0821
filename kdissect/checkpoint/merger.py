"""Boundary states in the order of their splits → the rows that the splits could not make.

The `Merger` is all stages once more, with the state of the whole. Of each split it replays the
segments of the prefixes, and so reaches the point where the split's own connections were
synchronized; where the two agree it takes over the split's rows and state of the connection, and
where they differ it reads that connection's packets in the split again. So the result is always
that of one pass over everything; the amount read again only affects the time it takes.

A connection of a split, and what becomes of its rows (`_Step`):

    began in the split ──unknown here, no history used──▶ kept
    began in the split ──known here, or history used──▶ dropped, read again
    has a prefix ──replayed, same state as the split's──▶ kept from there on; before: made here
    has a prefix ──never synchronized──▶ made here, as the prefix has all its segments
    has a prefix ──other state than the split's, or cut──▶ dropped, read again from there on
    open at the end, with TLS or a protocol from before 0.8 ──▶ dropped, read again
    ended in the split, and counted there ──to be dropped──▶ its counts are taken back, read again

Example, continued from `left_edge`. The prefix has 4 segments. The merger knows the two requests
that wait from split 1, and replays the prefix: the responses complete them, then the request in the
prefix is completed, and no request waits. The states agree, so rows of the split from segment 5 on
are kept, and the split's state of the connection replaces the merger's. If they did not agree, the
merger would read the connection's segments from 5 on again, and make its rows itself.

Longer than other modules: one merge changes all stages' state, the corrections and what is read
again together.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kdissect.capture.blocks import Secrets
from kdissect.capture.packet import Packet
from kdissect.capture.splits import Split, read_split
from kdissect.checkpoint.boundary_state import BoundaryState, Open, Totals
from kdissect.checkpoint.connection_merge import Synchronized, opened, turned_state
from kdissect.checkpoint.corrections import Correction, Corrections
from kdissect.checkpoint.group_history import GroupReplay
from kdissect.checkpoint.left_edge import Ended, InsideEnded, Prefix
from kdissect.checkpoint.recent_segments import Rings
from kdissect.checkpoint.synchronization import counted, has_same_past, sync_state
from kdissect.dissection.totals import OF_CONNECTIONS
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
    from kdissect.checkpoint.checkpoint import Checkpoint

Reread = Callable[[Split], Iterable[list[Packet]]]
FindSecrets = Callable[[], Sequence[Secrets]]


class Merger:
    """Feed it the boundary states in order; its own output are rows of its `dissector`.

    `reread` returns the packets of a split again, `find_secrets` all TLS keys in the captures; both
    are called only when needed. With the `state` of another merger it continues after that one's
    input; see `resumed_merger.carry_on`.
    """

    def __init__(
        self,
        options: Options,
        reread: Reread = read_split,
        find_secrets: FindSecrets | None = None,
        state: "Checkpoint | None" = None,
    ) -> None:
        self.options = options
        self.reread = reread
        self.dissector = make_dissector(options, collects=False, keeps_frames=False)
        self._find_secrets = find_secrets
        self.told: set[str] = set()
        # Merged splits, as far as they may have to be read again.
        self.splits: list[Split] = []
        self.totals: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.protocols: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        # Connections taken over, splits read again, and packets that were dissected twice.
        self.joins = 0
        self.read_again = 0
        self.replayed = 0
        if state is not None:
            # Not needed elsewhere, and it imports all of TLS.
            from kdissect.checkpoint.resumed_merger import carry_on

            carry_on(self, state)

    def state(self) -> "Checkpoint":
        """Return the current state, so that another merger can continue.

        Encode it before this one continues. Rows that are waiting stay here, to be taken.
        """
        from kdissect.checkpoint.resumed_merger import state_of

        return state_of(self)

    def add(self, boundary: BoundaryState) -> Corrections:
        """Merge a split after those before it; return the corrections of its rows."""
        self.splits.append(boundary.split)
        clock = self.dissector.streams.clock
        first_ns, lowest_ns, _ = boundary.times
        is_set = first_ns >= 0 and not clock.goes_on(first_ns, lowest_ns)
        is_waiting = self.dissector.decoder.is_waiting()
        if (
            boundary.is_whole
            or is_set
            or is_waiting
            or self._has_other_names(boundary)
            or self._separates(boundary)
        ):
            return self._dissect_whole(boundary)
        self._take_problems(boundary.problems)
        self.dissector.decoder.unknown_link_types |= boundary.link_types
        self.dissector.take_events(self.dissector.streams.begin_replay(first_ns))
        step = _Step(self, boundary)
        corrections = step.run()
        self._count(boundary, corrections)
        self._take_back(step.taken_back)
        return corrections

    def add_whole(self, boundary: BoundaryState) -> Iterator[None]:
        """Dissect a split that was not dissected; rows can be taken at each step."""
        self.splits.append(boundary.split)
        return self._dissect(boundary)

    def has_keys(self) -> bool:
        """Return whether there are TLS keys; if so, data unreadable to splits is tried with all."""
        keys = self.dissector.tls.keys
        if self._find_secrets is not None:
            add_secrets(keys, self._find_secrets())
            self._find_secrets = None
        return len(keys) > 0

    def _read_keys(self) -> None:
        """Read the TLS keys in the captures: a session needs one that is not known."""
        self.has_keys()

    def finish(self) -> None:
        """Finish: no split follows."""
        self.dissector.finish()

    @property
    def balance(self) -> Balance:
        """Balance of the bytes of all splits; complete after `finish`."""
        own = make_balance(self.dissector)
        added = {name: getattr(own, name) + self.totals[name] for name in NUMBERS}
        return replace(
            own,
            **added,
            packets_by_reason=dict(self.reasons + Counter(own.packets_by_reason)),
            protocols=dict(self.protocols + Counter(own.protocols)),
            problems=dict(self.problems + Counter(own.problems)),
        )

    def _has_other_names(self, boundary: BoundaryState) -> bool:
        """Return whether a topic has another name in the split: the first of the whole counts."""
        names = self.dissector.exchanges.names
        return any(names.get(one, name) != name for one, name in boundary.names.items())

    def _separates(self, boundary: BoundaryState) -> bool:
        """Return whether the whole would drop some connections that share a fetch session."""
        if not boundary.shared:
            return False
        dropped = asked_history(boundary) | set(boundary.locked)
        dropped.update(left.connection_id for left in boundary.left_open)
        known = self.dissector.streams.receiver_of
        dropped.update(one for flow, one in boundary.born if known(flow) is not None)
        return not dropped.isdisjoint(boundary.shared)

    def _dissect_whole(self, boundary: BoundaryState) -> Corrections:
        """Dissect a split that cannot be dissected alone."""
        self.read_again += 1
        for _ in self._dissect(boundary):
            pass
        corrections = Corrections()
        corrections.drops_all = True
        return corrections

    def _dissect(self, boundary: BoundaryState) -> Iterator[None]:
        """Dissect all packets of a split."""
        dissector = self.dissector
        self._take_problems([one for one in boundary.problems if one.stage == "capture"])
        keys = dissector.tls.keys
        for packets in self.reread(boundary.split):
            self.replayed += len(packets)
            if self._find_secrets is not None:
                keys.read_more = self._read_keys
            dissector.feed(packets)
            # Not a reference cycle that stays.
            keys.read_more = None
            yield

    def _take_problems(self, problems: Iterable[Problem]) -> None:
        """Take problems of reading and of packets; a link type is reported for its first packet."""
        for problem in problems:
            if problem.kind == "unknown-link-type":
                if problem.message in self.told:
                    continue
                self.told.add(problem.message)
            self.dissector.add_problems([problem])

    def _count(self, boundary: BoundaryState, corrections: Corrections) -> None:
        """Add the split's counts, without those that do not count."""
        totals = boundary.totals
        self.reasons.update(totals.packets_by_reason)
        self.totals.update(packets=totals.packets, captured_bytes=totals.captured_bytes)
        self.protocols.update(totals.protocols)
        self.problems.update(totals.problems)
        for (connection_id, kind), count in boundary.problem_counts.items():
            if connection_id in corrections.dropped:
                self.problems[kind] -= count
        for name in COUNTED:
            self.totals[name] += getattr(totals, name)
        self.totals["exchanges"] -= corrections.dropped_exchanges

    def _take_back(self, dropped: list[InsideEnded]) -> None:
        """Subtract the counts of connections that the split has counted and that are read again."""
        for one in dropped:
            self.protocols[one.protocol] -= 1
            for name, count in zip(OF_CONNECTIONS, one.counts, strict=True):
                self.totals[name] -= count


# The plain numbers among the totals, and those that are of connections.
NUMBERS: Final = tuple(
    name for name in Totals._fields if name not in ("packets_by_reason", "protocols", "problems")
)
COUNTED: Final = tuple(name for name in NUMBERS if name not in ("packets", "captured_bytes"))


class _Step:
    """The merge of one boundary state with those before it."""

    def __init__(self, merger: Merger, boundary: BoundaryState) -> None:
        self.merger = merger
        self.boundary = boundary
        self.dissector = merger.dissector
        self.streams = merger.dissector.streams
        # By connection id in the split.
        self.synchronized: dict[int, Synchronized] = {}
        self.corrections = Corrections()
        # Flows whose packets are read again, and the ordinal to start from, by both directions.
        self.again: dict[bytes, int] = {}
        # Connections that ended in the split, and those of them whose counts do not count.
        self.inside = {one.connection_id: one for one in boundary.inside_ended}
        self.taken_back: list[InsideEnded] = []
        self.fed: dict[bytes, int] = {}
        # Positions of the connections that were taken over, by identity.
        self.own_positions: set[int] = set()
        self.synchronized_by_connection: dict[int, Synchronized] = {}
        # Exchanges made by connections, apart from those that began and ended inside.
        self.given: dict[int, int] = {left.connection_id: left.given for left in boundary.left_open}
        for one in boundary.open:
            self.given[int(one.opener.connection.id)] = int(one.opener.connection.given)
        for inside in boundary.inside_ended:
            self.given[inside.connection_id] = inside.exchanges
        for ended in boundary.ended:
            self.given[int(ended.state.connection.id)] = int(ended.state.connection.given)
        # By both directions of their flow, connections that began in the split.
        self.born: dict[bytes, list[int]] = {}
        for flow, connection_id in boundary.born:
            for one_way in (flow, reverse_flow(flow)):
                self.born.setdefault(one_way, []).append(connection_id)
        self.rings = Rings(self.streams)
        self.prefixes = {one: prefix for prefix in boundary.prefixes for one in prefix.ids}
        self.groups = GroupReplay(
            self.dissector.exchanges.bodies.groups,
            boundary.groups,
            # Not a bound method: the step would be a reference cycle, and stay.
            partial(is_replayed, self.corrections.dropped, self.prefixes),
        )
        # The whole's streams of a synchronized connection, by direction in the split.
        self.synchronized_streams: dict[int, tuple[int, int]] = {}

    def run(self) -> Corrections:
        self._check_born()
        self._check_left()
        self._replay_prefixes()
        if self.again:
            self._read_again()
        self._take_over()
        self.groups.end(self.boundary.segments)
        self._take_rings()
        self.dissector.take_events(self.streams.end_replay(self.boundary.times.now_ns))
        return self.corrections

    # Items that do not count

    def _check_born(self) -> None:
        """Drop connections that began in the split but were known before, or used the history."""
        boundary = self.boundary
        asked = asked_history(boundary)
        if (boundary.locked or boundary.left_open) and self.merger.has_keys():
            asked |= set(boundary.locked)
        for flow, connection_id in boundary.born:
            if connection_id in asked or self.streams.receiver_of(flow) is not None:
                self._drop(flow, (connection_id,))
        for prefix in boundary.prefixes:
            # A later connection on the flow.
            if not asked.isdisjoint(prefix.ids):
                self._drop(prefix.flow, ())

    def _check_left(self) -> None:
        for left in self.boundary.left_open:
            self._drop(left.flow, (left.connection_id,))

    def _drop(self, flow: bytes, ids: Iterable[int]) -> None:
        """Dissect connections of a flow again, with all that began on it in the split."""
        # A connection may be dropped for several reasons, and its exchanges count once.
        for connection_id in {*ids, *self.born.get(flow, ())} - self.corrections.dropped:
            self.corrections.dropped.add(connection_id)
            self.corrections.dropped_exchanges += self.given.get(connection_id, 0)
            if connection_id in self.inside:
                self.taken_back.append(self.inside[connection_id])
        first = self.fed.get(flow, -1)
        self.again[flow] = self.again[reverse_flow(flow)] = first

    # Prefixes

    def _replay_prefixes(self) -> None:
        for prefix in self.boundary.prefixes:
            if not prefix.segments:
                self._end_prefix(prefix)
        queue = sorted(
            (number, which, place)
            for which, prefix in enumerate(self.boundary.prefixes)
            for place, number in enumerate(prefix.places)
        )
        for number, which, place in queue:
            prefix = self.boundary.prefixes[which]
            self.rings.go_to(number)
            self._replay(prefix.segments[place], number)
            self.rings.note(prefix)
            if place == len(prefix.segments) - 1:
                self._end_prefix(prefix)

    def _replay(self, segment: Segment, number: int) -> None:
        self.merger.replayed += 1
        self.groups.go_to(number)
        self.dissector.take_events(self.streams.feed(segment))
        self.groups.note(number)

    def _end_prefix(self, prefix: Prefix) -> None:
        if prefix.segments:
            last = int(prefix.segments[-1].ordinal)
            self.fed[prefix.flow] = self.fed[reverse_flow(prefix.flow)] = last
        if prefix.is_synchronized:
            synchronized = self._join(prefix)
            if synchronized is not None:
                self.merger.joins += 1
                self.synchronized[int(prefix.synchronized_id)] = synchronized
                self.synchronized_by_connection[id(prefix.synchronized)] = synchronized
                return
            self._drop(prefix.flow, prefix.ids[prefix.ids.index(prefix.synchronized_id) :])
        elif prefix.is_cut or prefix.flow in self.again:
            self._drop(prefix.flow, ())

    def _join(self, prefix: Prefix) -> Synchronized | None:
        """Return the state of the whole, if it matches the split's assumption."""
        opener = self.streams.receiver_of(prefix.synchronized.flow)
        if opener is None or prefix.flow in self.again:
            return None
        is_turned = opener.connection.flow != prefix.synchronized.flow
        if is_turned:
            opener = opener.peer
        connection = opener.connection
        state = self.dissector.exchanges.states.get(connection.id)
        is_tls = self.dissector.tls.has_session(connection)
        if state is None or is_tls or connection.closed_by:
            return None
        framings = self.dissector.frames.framings(connection)
        known = sync_state(opener, framings, state)
        expected = turned_state(prefix.state) if is_turned else prefix.state
        if known != expected or not self.rings.answers_alike(prefix.repeats):
            return None
        at = counted(opener, framings, state)
        answers = 1 - state.request_direction
        answers_of_split = 1 - answers if is_turned else answers
        if not has_same_past(
            prefix.synchronized.history_used,
            (prefix.at.gaps(answers_of_split), prefix.at.repeats_ids),
            (at.gaps(answers), at.repeats_ids),
        ):
            return None
        sides = (opener.peer, opener) if is_turned else (opener, opener.peer)
        self.synchronized_streams[int(prefix.synchronized_id)] = (
            int(sides[0].stream),
            int(sides[1].stream),
        )
        own = [framing for framing in framings if framing is not None]
        epoch = int(self.streams.clock.epoch)
        return Synchronized(prefix, opener, state, own, at, is_turned, epoch)

    # Read again

    def _read_again(self) -> None:
        """Dissect the packets of flows from where they were left."""
        self.merger.read_again += 1
        self.rings.go_back()
        self.groups.go_back()
        decoder = PacketDecoder()
        number = 0
        for packets in self.merger.reread(self.boundary.split):
            for packet in packets:
                segment = decoder.decode(packet)
                if segment is None:
                    continue
                number += 1
                flow = flow_of(segment)
                first = self.again.get(flow, -2)
                if segment.ordinal > first != -2:
                    self.rings.go_to(number)
                    self._replay(segment, number)
                elif segment.ordinal == first:
                    self.rings.pass_by(segment, number)

    # Taken over

    def _take_over(self) -> None:
        sessions = self.boundary.sessions.items()
        continued = {session for session, positions in sessions if PAST in positions}
        for deferred in self.boundary.deferred:
            self._take_deferred(*deferred)
        waiting = [
            exchange
            for exchange in self.boundary.waiting
            if exchange.connection_id not in self.corrections.dropped
        ]
        for ended in self.boundary.ended:
            self._take_ended(ended)
        for one in self.boundary.open:
            self._take_open(one)
        self.dissector.exchanges.names.update(self.boundary.names)
        self._take_sessions(continued)
        for exchange in waiting:
            exchange.connection_id = exchange.connection.id
            self.dissector.wait_for_names(exchange)

    def _take_deferred(self, exchange: Exchange, to_opener: int, to_accepter: int) -> None:
        """Take an exchange that only lacks the earlier positions of its fetch session."""
        synchronized = self.synchronized.get(int(exchange.connection_id))
        if synchronized is None:
            return
        settle_asks(exchange, synchronized.positions)
        exchange.connection_id = synchronized.connection.id
        exchange.rtt_ns = synchronized.rtt_ns(to_opener, to_accepter)
        self.dissector.writer.add_rows(exchange)

    def _take_ended(self, ended: Ended) -> None:
        """Take a connection from before the split that ended in it."""
        synchronized = self.synchronized.get(int(ended.state.connection.id))
        if synchronized is None:
            return
        self._note(synchronized)
        before = synchronized.prefix.at
        synchronized.take(ended.state)
        end_login(ended.state)
        framed = synchronized.cut(ended.framed, before.framed, synchronized.at.framed)
        skipped = synchronized.cut(ended.skipped, before.skipped, synchronized.at.skipped)
        self._forget(synchronized.opener)
        self._allow(ended.state)
        self.dissector.add_connection(ended.state, framed, skipped, None)

    def _take_open(self, one: Open) -> None:
        connection = one.opener.connection
        if connection.id in self.corrections.dropped:
            return
        synchronized = self.synchronized.get(int(connection.id))
        if synchronized is not None and one.state is not None:
            self._note(synchronized)
            # Before the two known directions are separated from each other.
            one = opened(synchronized, one, one.state)
            self._forget(synchronized.opener)
        connection.edge = INSIDE
        # A split has one epoch of the clock, which is that of the whole.
        connection.epoch = self.streams.clock.epoch
        dissector = self.dissector
        self.streams.take_in(one.opener)
        dissector.frames.take_in(connection, (one.opener_framing, one.accepter_framing))
        dissector.tls.take_in(connection, one.watch)
        if one.state is not None:
            dissector.exchanges.take_in(one.state)
            self._allow(one.state)

    def _note(self, synchronized: Synchronized) -> None:
        """Note the corrections for the rows of a synchronized connection."""
        prefix = synchronized.prefix
        steps = [(row, synchronized.rtt_ns(one, other)) for row, one, other in prefix.steps]
        self.corrections.synchronized[int(prefix.synchronized_id)] = Correction(
            int(synchronized.connection.id), steps
        )

    def _forget(self, opener: Receiver) -> None:
        """Forget the merger's state of a connection that the split has brought forward."""
        self.streams.forget(opener)
        self.dissector.tls.set_clear(opener.connection)
        self.dissector.frames.forget(opener.connection)
        self.dissector.exchanges.forget(opener.connection)

    def _allow(self, state: ConnectionState) -> None:
        self.own_positions.add(id(state.positions))

    def _take_sessions(self, continued: set[tuple[bytes, int]]) -> None:
        """Take fetch sessions of connections that were taken over, and of those that ended.

        The whole has those from before the split, which are `continued`, or has not seen them made.
        """
        sessions = self.dissector.exchanges.bodies.sessions
        for session in self.boundary.closed_sessions:
            sessions.by_number.pop(session, None)
        for session, positions in self.boundary.sessions.items():
            is_own = id(positions) in self.own_positions
            if session not in continued and (is_own or session not in sessions.by_number):
                sessions.keep(session, positions)

    # Recent segments

    def _take_rings(self) -> None:
        """Take the last segments and chunks, as in one pass."""
        renewed = {
            id(synchronized.connection): synchronized.prefix.synchronized
            for synchronized in self.synchronized.values()
        }

        def renew(chunk: Chunk) -> None:
            chunk.connection = renewed.get(id(chunk.connection), chunk.connection)

        self.rings.end(self.boundary, self._stream_of, self._place, renew)

    def _stream_of(self, place: int, mark: Mark) -> int:
        """Number in the whole of a direction in the split; -1 where it was replayed."""
        connection_id = mark.stream >> 1
        if connection_id in self.corrections.dropped:
            return -1
        prefix = self.prefixes.get(connection_id)
        if prefix is None:
            return mark.stream
        if not prefix.is_synchronized or prefix.flow in self.again or place < prefix.place:
            return -1
        if connection_id != prefix.synchronized_id:
            # A connection that began later on the same flow.
            return mark.stream
        return self.synchronized_streams[connection_id][mark.stream & 1]

    def _place(self, chunk: Chunk) -> bool:
        """Return whether the chunk's connection was taken over; moves the chunk here."""
        receiver = self.streams.receiver_of(chunk.connection.flow)
        if receiver is None or receiver.connection is not chunk.connection:
            return False
        synchronized = self.synchronized_by_connection.get(id(chunk.connection))
        if synchronized is not None:
            if chunk.seen <= synchronized.prefix.place:
                # Already here.
                return False
            if synchronized.is_turned:
                chunk.direction = 1 - chunk.direction
            chunk.position += synchronized.moved()[chunk.direction]
        return True


def asked_history(boundary: BoundaryState) -> set[int]:
    """Ids of connections that began in the split and used the history of others."""
    found = set(boundary.history_used)
    for one in boundary.open:
        connection = one.opener.connection
        if connection.edge == INSIDE and connection.history_used & SHARED_PAST:
            found.add(int(connection.id))
    return found


def is_replayed(
    dropped: Collection[int], prefixes: Mapping[int, Prefix], connection_id: int, number: int
) -> bool:
    """Return whether the whole dissects this segment of a split's connection."""
    if connection_id in dropped:
        return True
    prefix = prefixes.get(connection_id)
    return prefix is not None and bool(prefix.places) and number <= prefix.places[-1]
