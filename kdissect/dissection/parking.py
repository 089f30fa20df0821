"""Connections that are silent for longest, kept small: `Parking`.

The state of an open connection takes some 3 KB in 20 objects. Of a parked one there are the
`Connection` with its counts, and one `Parked`: the integers of its other objects that differ from
those of new ones, and the texts. With its next segment, or its end, the objects are made again,
with the same values; so parking changes no row. Parts that hold bytes, frames or requests stay as
they are.

Interpreted: the work is done by attrgetter, map and setattr.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import chain, compress, repeat
from operator import attrgetter, ne
from typing import Any, Final, NamedTuple

from kdissect.encoding.classes import attribute_names
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.pairing import Exchanges
from kdissect.exchanges.sasl import Login
from kdissect.framing.frame_search import Waiting
from kdissect.framing.frames import Frames, FramingState
from kdissect.packets.segment import Segment
from kdissect.streams.acknowledged import Acknowledged
from kdissect.streams.connections import Streams, reverse_flow
from kdissect.streams.events import ACCEPTER, OPENER, Connection
from kdissect.streams.reassembly_buffer import ReassemblyBudget, ReassemblyBuffer
from kdissect.streams.receiver import Receiver
from kdissect.streams.recent_chunks import RecentChunks
from kdissect.streams.resent import Resent
from kdissect.streams.tcp_analysis import TcpAnalysis

NOWHERE: Final = Connection(-1, 0, b"", 0, 0)
BUDGET: Final = ReassemblyBudget(0)
RECENT: Final = RecentChunks()
STATE_TEXTS: Final = (
    "broker_side_by", "protocol", "software_name", "software_version", "last_client_id",
    "client_id_bytes", "proxied_ip",
)  # fmt: skip
LOGIN_TEXTS: Final = ("mechanism", "user", "outcome", "proven_mechanism", "proven_user")
TEXTS: Final = attrgetter(*STATE_TEXTS)
TEXTS_OF_LOGIN: Final = attrgetter(*LOGIN_TEXTS)


class Part:
    """The integers and bools of the objects of a class, found by the values of a new one.

    All other attributes must be in `others`: whoever makes an object again sets these.
    """

    def __init__(self, blank: object, others: Sequence[str] = ()) -> None:
        values = {name: getattr(blank, name) for name in sorted(attribute_names(blank))}
        self.ints = {name: value for name, value in values.items() if type(value) is int}
        self.bools = {name: value for name, value in values.items() if type(value) is bool}
        left = values.keys() - {*self.ints, *self.bools, *others}
        if left:
            raise TypeError(f"{type(blank).__name__}: how is {min(left)} parked?")
        self.get_ints = getter(tuple(self.ints))
        self.get_bools = getter(tuple(self.bools))


def getter(names: Sequence[str]) -> Callable[[object], tuple[int, ...]]:
    """Function that returns the values of so many attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


RECEIVER: Final = (
    Part(
        Receiver(NOWHERE, 0, 0, BUDGET, RECENT),
        ("connection", "counts", "peer", "tcp_analysis", "acknowledged", "resent", "stray", "held",
         "recent"),
    ),
    Part(TcpAnalysis()),
    Part(Acknowledged()),
    Part(Resent()),
)  # fmt: skip
FRAMING: Final = (
    Part(FramingState(NOWHERE, 0), ("connection", "parts", "waiting")),
    Part(Waiting(), ("events",)),
)
STATE: Final = (
    Part(
        ConnectionState(NOWHERE),
        ("connection", "pending", "by_id", "login", "positions", "held", "early", "old", "refusal",
         *STATE_TEXTS),
    ),
    Part(Login(), LOGIN_TEXTS),
)  # fmt: skip


class Layout:
    """The values of several objects as bytes: only those that a new object does not have.

    First the numbers of integers and of bools, then which they are, then the integers. A bool that
    differs is the other one.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        ints = [(at, *one) for at, part in enumerate(parts) for one in part.ints.items()]
        bools = [(at, *one) for at, part in enumerate(parts) for one in part.bools.items()]
        self.int_owners, self.int_names, self.ints = zip(*ints, strict=True)
        self.bool_owners, self.bool_names, self.bools = zip(*bools, strict=True)
        self.others = tuple(not value for value in self.bools)
        self.int_numbers = range(len(ints))
        self.bool_numbers = range(len(bools))

    def pack(self, objects: Sequence[object]) -> bytes:
        """Bytes of the objects' values."""
        pairs = [*zip(self.parts, objects, strict=True)]
        ints = [*chain.from_iterable([part.get_ints(one) for part, one in pairs])]
        bools = chain.from_iterable([part.get_bools(one) for part, one in pairs])
        differ = [*map(ne, ints, self.ints)]
        which = bytes(compress(self.int_numbers, differ))
        flags = bytes(compress(self.bool_numbers, map(ne, bools, self.bools)))
        values = array("q", compress(ints, differ)).tobytes()
        return b"%c%c%b%b%b" % (len(which), len(flags), which, flags, values)

    def unpack(self, packed: bytes, objects: Sequence[object]) -> None:
        """Set the values of new objects."""
        middle = 2 + packed[0]
        end = middle + packed[1]
        which, flags = packed[2:middle], packed[middle:end]
        owners = map(objects.__getitem__, map(self.int_owners.__getitem__, which))
        names = map(self.int_names.__getitem__, which)
        deque(map(setattr, owners, names, memoryview(packed[end:]).cast("q")), 0)
        owners = map(objects.__getitem__, map(self.bool_owners.__getitem__, flags))
        names = map(self.bool_names.__getitem__, flags)
        deque(map(setattr, owners, names, map(self.others.__getitem__, flags)), 0)


# By the parts that are there: both receivers, so many framing states, a state of the exchanges.
LAYOUTS: Final = {
    (framings, states): Layout((*RECEIVER, *RECEIVER, *FRAMING * framings, *STATE * states))
    for framings in (0, 1, 2)
    for states in (0, 1)
}


class Parked(NamedTuple):
    """A parked connection: its integers, the directions of its framing states, and the rest.

    `held` are the buffers and strays of both directions, None where all are empty; `texts` is None
    where the state of the exchanges is not parked, `positions` where there are none.
    """

    connection: Connection
    packed: bytes
    directions: tuple[int, ...]
    held: tuple[tuple[ReassemblyBuffer, Segment | None], ...] | None
    texts: tuple[Any, ...] | None
    positions: dict[Any, Any] | None


class Parking:
    """Parked connections of all stages, the longest silent first."""

    def __init__(self, streams: Streams, frames: Frames, exchanges: Exchanges) -> None:
        self.streams = streams
        self.frames = frames
        self.exchanges = exchanges
        # Ordered, as a dict would look for its first item behind all that were removed.
        self.parked: OrderedDict[bytes, Parked] = OrderedDict()

    def __len__(self) -> int:
        return len(self.parked)

    def park(self, opener: Receiver) -> None:
        """Park an open connection."""
        connection = opener.connection
        objects = objects_of(opener) + objects_of(opener.peer)
        directions = []
        for framing in self.frames.framings(connection):
            if framing is not None and framing.is_at_rest:
                objects += (framing, framing.waiting)
                directions.append(int(framing.direction))
                self.frames.forget_direction(framing)
        texts = positions = None
        state = self.exchanges.states.get(connection.id)
        if state is not None and is_done(state):
            objects += (state, state.login)
            texts = TEXTS(state) + TEXTS_OF_LOGIN(state.login)
            # It may be shared with a fetch session of the broker.
            positions = state.positions if state.positions or state.session_id else None
            state.pending_head = 0
            self.exchanges.forget(connection)
        packed = LAYOUTS[len(directions), int(texts is not None)].pack(objects)
        held = tuple((one.held, one.stray) for one in (opener, opener.peer))
        is_empty = all(buffer.is_empty and stray is None for buffer, stray in held)
        self.streams.park(opener)
        self.parked[connection.flow] = Parked(
            connection, packed, tuple(directions), None if is_empty else held, texts, positions
        )

    def has(self, flow: bytes) -> bool:
        """Return whether the connection of this flow, of either direction, is parked."""
        return flow in self.parked or reverse_flow(flow) in self.parked

    def wake(self, flow: bytes) -> bool:
        """Make the state of a connection again, by the flow of either direction."""
        found = self.parked.pop(flow, None) or self.parked.pop(reverse_flow(flow), None)
        if found is None:
            return False
        self._restore(found)
        return True

    def wake_first(self) -> bytes:
        """The same for the longest silent one; returns its flow."""
        flow, parked = self.parked.popitem(last=False)
        self._restore(parked)
        return flow

    def first(self) -> Connection | None:
        """Return the longest silent connection, None without one."""
        for parked in self.parked.values():
            return parked.connection
        return None

    def _restore(self, parked: Parked) -> None:
        """Give the stages what they had."""
        connection = parked.connection
        opener = Receiver(connection, OPENER, 0, BUDGET, RECENT)
        accepter = Receiver(connection, ACCEPTER, 0, BUDGET, RECENT)
        for receiver in (opener, accepter):
            receiver.own_analysis()
            receiver.own_resent()
        framings = [FramingState(connection, direction) for direction in parked.directions]
        objects = objects_of(opener) + objects_of(accepter)
        for framing in framings:
            objects += (framing, framing.own_waiting())
        state: ConnectionState | None = None
        if parked.texts is not None:
            state = ConnectionState(connection)
            objects += (state, state.login)
        LAYOUTS[len(framings), int(state is not None)].unpack(parked.packed, objects)
        opener.peer, accepter.peer = accepter, opener
        if parked.held is not None:
            (opener.held, opener.stray), (accepter.held, accepter.stray) = parked.held
        self.streams.unpark(opener)
        for framing in framings:
            self.frames.take_direction(framing)
        if state is not None and parked.texts is not None:
            deque(map(setattr, repeat(state), STATE_TEXTS, parked.texts), 0)
            of_login = parked.texts[len(STATE_TEXTS) :]
            deque(map(setattr, repeat(state.login), LOGIN_TEXTS, of_login), 0)
            if parked.positions is not None:
                state.positions = parked.positions
            self.exchanges.take_in(state)


def is_done(state: ConnectionState) -> bool:
    """Return whether no request or frame of a connection waits."""
    return (
        state.pending_head == len(state.pending)
        and not state.held
        and not state.early
        and state.old is None
        and state.refusal is None
    )


def objects_of(receiver: Receiver) -> tuple[object, ...]:
    """Objects of a direction, in the order of RECEIVER."""
    return receiver, receiver.tcp_analysis, receiver.acknowledged, receiver.resent
