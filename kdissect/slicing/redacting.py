"""Stream bytes kept in a redacted slice: a `Plan`, made by all stages over the captures.

Only bytes known to hold no credential are kept:

    frame of a sound exchange    all of it; of an API with credentials without those (`Patch`)
    frame of another exchange    its size and header; the rest is zeros
    frame of no exchange         its size; a SASL token is masked (`sasl_masking`)
    PROXY header                 all of it
    any other byte               a zero
    TLS                          all of it: its content cannot be read without keys

A position of a stream and the sequence number of its TCP segments differ by a constant (`base`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kdissect.capture.files import Source, open_captures
from kdissect.capture.packet import Packet
from kdissect.dissection.dissector import Dissector
from kdissect.errors import DecodeError
from kdissect.exchanges.api_mismatches import doubt_of, guarded, is_overlong
from kdissect.exchanges.exchange import SUSPECT, Exchange
from kdissect.exchanges.sasl_masking import MASK, masked_token
from kdissect.framing.frames import Frame
from kdissect.messages.full_bodies import full_body
from kdissect.messages.redaction import has_secrets
from kdissect.messages.secret_places import header_size, secret_places
from kdissect.packets.segment import Segment, copied, flow_of
from kdissect.pipeline import Options, make_dissector
from kdissect.protocol.readers import NULL
from kdissect.streams.events import Chunk, Connection, End, Event
from kdissect.streams.sequence import MASK as SEQUENCE_MASK
from kdissect.tls.keylog import KeyLog

SIZE_FIELD: Final = 4
# The masked part of a frame of no exchange is kept in memory; larger frames hold no token.
LARGEST_TOKEN: Final = 1 << 20
PROXY_V1: Final = b"PROXY "
PROXY_V2: Final = b"\r\n\r\n\0\r\nQUIT\n"
LONGEST_PROXY_V1: Final = 107
SASL_FIELD: Final = "auth_bytes"
# Kinds of `Kept`: sound; with patches; a header, or a size, followed by zeros.
WHOLE: Final = 0
MASKED: Final = 1
ZEROED: Final = 2


class Replacement(Protocol):
    """Bytes from stream position `start` on that are written in place of those of the capture."""

    @property
    def start(self) -> int: ...

    @property
    def data(self) -> bytes: ...


class Patch(NamedTuple):
    """A replacement in memory."""

    start: int
    data: bytes


class Kept(NamedTuple):
    """Positions from `start` to `end` are kept, except for the patches."""

    start: int
    end: int
    kind: int = WHOLE
    patches: tuple[Replacement, ...] = ()


class Stream:
    """One direction of a connection: its kept ranges, in order once the plan is made."""

    def __init__(self, connection_id: int, base: int) -> None:
        self.connection_id = connection_id
        self.base = base
        self.is_tls = False
        # Of an anonymized slice: its packets are written without payload.
        self.is_dropped = False
        self.by_position: dict[int, Kept] = {}
        self.kept: list[Kept] = []

    def settle(self) -> None:
        """Sort the kept ranges; merge neighbours without patches."""
        self.kept = list(merged(sorted(self.by_position.values())))
        self.by_position = {}


class Plan:
    """The streams by flow, those of one flow in order."""

    def __init__(self) -> None:
        self.streams: dict[bytes, list[Stream]] = {}


def make_plan(sources: Sequence[Source], reading: dict[str, Any]) -> Plan:
    """Dissect the captures once more, without TLS keys."""
    return planned(Planner(dissector_of(reading)), sources)


def dissector_of(reading: dict[str, Any]) -> Dissector:
    """A dissector without TLS keys that keeps frames."""
    options = Options(**{**reading, "keylog": (), "tables": (), "progress": None})
    return make_dissector(options, collects=True, keeps_frames=True, keys=KeyLog())


def planned(planner: "Planner", sources: Sequence[Source]) -> Plan:
    """The plan of captures."""
    with open_captures(sources) as capture:
        for packets in capture:
            planner.feed(packets)
    return planner.finish()


class Planner:
    """Makes a plan: call `feed` with all packets in order, then `finish`.

    Drives the stages of a dissector itself, as it needs every frame.
    """

    def __init__(self, dissector: Dissector) -> None:
        self.plan = Plan()
        self.decoder = dissector.decoder
        self.tcp = dissector.streams
        self.tls = dissector.tls
        self.frames = dissector.frames
        self.exchanges = dissector.exchanges
        self.streams: dict[tuple[int, int], Stream] = {}

    def feed(self, packets: Iterable[Packet]) -> None:
        """Process packets in the order of the capture."""
        for packet in packets:
            segment = self.decoder.decode_next(packet)
            self.late()
            if segment is not None:
                self.segment(copied(segment))
        self.decoder.problems.clear()
        self.tcp.problems.clear()
        self.frames.problems.clear()
        self.exchanges.take_problems()

    def finish(self) -> Plan:
        """End of the captures."""
        self.decoder.finish()
        self.late()
        self.events(self.tcp.finish())
        return self.plan

    def late(self) -> None:
        late, self.decoder.late = self.decoder.late, []
        for segment in late:
            self.segment(segment)

    def segment(self, segment: Segment) -> None:
        flow = bytes(flow_of(segment))
        events = self.tcp.feed(segment)
        receiver = self.tcp.receiver_of(flow)
        if receiver is not None and receiver.next_sequence >= 0:
            connection, direction = receiver.connection, int(receiver.direction)
            stream = self.stream(connection, direction, flow)
            stream.base = int(receiver.next_sequence - receiver.next_position) & SEQUENCE_MASK
        self.events(events)

    def stream(self, connection: Connection, direction: int, flow: bytes) -> Stream:
        key = int(connection.id), direction
        if key not in self.streams:
            self.streams[key] = stream = Stream(int(connection.id), 0)
            self.plan.streams.setdefault(flow, []).append(stream)
        return self.streams[key]

    def events(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Chunk) and event.position == 0:
                self.proxy_header(event)
            is_clear = event.connection.clear_directions >> event.direction & 1
            if is_clear and not isinstance(event, End):
                self.clear(event)
                continue
            for inner in self.tls.feed(event):
                self.clear(inner)

    def clear(self, event: Event) -> None:
        """An event of an unencrypted connection, or the end of any."""
        if isinstance(event, End):
            for frame in self.frames.settle(event):
                self.frame(frame)
        for frame in self.frames.feed(event):
            self.frame(frame)
        if isinstance(event, End):
            self.end(event.connection)

    def end(self, connection: Connection) -> None:
        is_tls = self.tls.take_facts(connection) is not None
        left, _ = self.exchanges.end(connection)
        for exchange in left:
            self.exchange(exchange)
        self.frames.take_counts(connection)
        for direction in (0, 1):
            stream = self.streams.pop((int(connection.id), direction), None)
            if stream is not None:
                stream.is_tls = is_tls
                stream.settle()

    def frame(self, frame: Frame) -> None:
        """A frame counts as one of no exchange, until it gets one."""
        data = masked(frame)
        patch = Patch(int(frame.position) + SIZE_FIELD, data)
        kind = MASKED if data else ZEROED if frame.size else WHOLE
        self.keep(frame, len(data), kind, (patch,) if data else ())
        for exchange in self.exchanges.feed(frame):
            self.exchange(exchange)

    def keep(self, frame: Frame, size: int, kind: int, patches: tuple[Replacement, ...]) -> None:
        """Keep the size field of a frame and the following `size` bytes, except for patches."""
        stream = self.streams.get((int(frame.connection.id), int(frame.direction)))
        if stream is not None:
            start = int(frame.position)
            stream.by_position[start] = Kept(start, start + SIZE_FIELD + size, kind, patches)

    def exchange(self, exchange: Exchange) -> None:
        for frame, is_response in (
            (exchange.request_frame, False),
            (exchange.response_frame, True),
        ):
            if frame is not None:
                self.side(exchange, frame, is_response)

    def side(self, exchange: Exchange, frame: Frame, is_response: bool) -> None:
        """Keep the permitted part of a frame of an exchange."""
        try:
            patches = tuple(patches_of(exchange, frame, is_response))
        except DecodeError:
            size = min(len(frame.data), header_size(frame.data, is_response))
            self.keep(frame, size, ZEROED, ())
            return
        self.keep(frame, len(frame.data), MASKED if patches else WHOLE, patches)

    def proxy_header(self, chunk: Chunk) -> None:
        stream = self.streams.get((int(chunk.connection.id), int(chunk.direction)))
        size = proxy_size(bytes(chunk.data[chunk.start : chunk.end]))
        if stream is not None and size:
            stream.by_position[0] = Kept(0, size)


def patches_of(exchange: Exchange, frame: Frame, is_response: bool) -> Iterator[Patch]:
    """Replacements for credentials; DecodeError where they may be anywhere."""
    if exchange.dialect:
        return
    if exchange.status & SUSPECT or frame.missing or exchange.api_key == NULL:
        raise DecodeError("an exchange that is not sound")
    if is_overlong(exchange):
        raise DecodeError("a client id that may reach into the body")
    key, version = int(exchange.api_key), int(exchange.api_version)
    doubt = doubt_of(exchange)
    if doubt and not is_response:
        body = full_body(key, version, frame.data, False)
        if guarded(body, doubt) != body:
            raise DecodeError("a request without an answer, in which may be a token")
    if not has_secrets(key, "response" if is_response else "request"):
        return
    for place in secret_places(key, version, frame.data, is_response):
        content = frame.data[place.start : place.end]
        is_token = place.field == SASL_FIELD
        data = masked_token(content) if is_token else MASK * len(content)
        yield Patch(int(frame.position) + SIZE_FIELD + place.start, data)


def masked(frame: Frame) -> bytes:
    """The kept part of a frame of no exchange."""
    data = bytes(frame.data)
    return masked_token(data) if 0 < len(data) <= LARGEST_TOKEN and not frame.missing else b""


def proxy_size(data: bytes) -> int:
    """The size of a PROXY protocol header at the start of data, 0 without one."""
    if data.startswith(PROXY_V1):
        return data.find(b"\r\n", 0, LONGEST_PROXY_V1) + 2 if b"\r\n" in data[:107] else 0
    if data.startswith(PROXY_V2) and len(data) >= 16:
        return min(len(data), 16 + int.from_bytes(data[14:16], "big"))
    return 0


def is_plain(kept: Kept) -> bool:
    """Whether it is kept as captured."""
    return kept.kind == WHOLE and not kept.patches


def merged(kept: Iterable[Kept]) -> Iterator[Kept]:
    """Merge neighbours that are kept whole."""
    before: Kept | None = None
    for one in kept:
        if before is not None and before.end == one.start and is_plain(before) and is_plain(one):
            before = Kept(before.start, one.end)
            continue
        if before is not None:
            yield before
        before = one
    if before is not None:
        yield before
