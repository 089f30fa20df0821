"""Stream bytes of an anonymized slice: a `Plan` in which every kept byte was written anew.

    frame of a sound exchange    as `renaming` writes it
    frame of another exchange    its size, and its header with a pseudonym of the client id; of one
                                 without request or of an unknown API or version, its size
    of a protocol before 0.8     nothing, also of the rest of its connection
    frame of no exchange         its size, and of a SASL token the users' pseudonyms
    PROXY header                 with other addresses, without its extensions
    any other byte               a zero

Frames of connections that are not selected are not written anew. The new ones are in a temporary
file, so memory grows with their number only.
"""

import re
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, Any, Final

from kdissect.capture.files import Source
from kdissect.dissection.dissector import Dissector
from kdissect.errors import DecodeError
from kdissect.exchanges.api_mismatches import doubt_of, guarded, is_overlong
from kdissect.exchanges.exchange import (
    DAMAGED,
    NO_REQUEST,
    SUSPECT,
    UNKNOWN_API,
    UNKNOWN_VERSION,
    Exchange,
)
from kdissect.framing.frames import Frame
from kdissect.messages.full_bodies import full_body
from kdissect.messages.redaction import has_secrets
from kdissect.protocol.readers import NULL
from kdissect.slicing.redacting import (
    LARGEST_TOKEN,
    MASKED,
    SIZE_FIELD,
    WHOLE,
    ZEROED,
    Kept,
    Plan,
    Planner,
    dissector_of,
    planned,
    proxy_size,
)
from kdissect.slicing.renaming import Renaming
from kdissect.streams.events import Chunk
from kdissect.text.pseudonyms import is_ipv4

PROXY_LINE: Final = re.compile(rb"(PROXY TCP4 )([\d.]+) ([\d.]+)( \d{1,5} \d{1,5}\r\n)")
PROXY_BINARY: Final = b"\r\n\r\n\0\r\nQUIT\n"
PROXY_FIXED: Final = 16
PROXY_FAMILY_AT: Final = 13
# Family and transport of TCP over IPv4 and IPv6 → the size of an address.
PROXY_ADDRESSES: Final = {0x11: 4, 0x21: 16}
GUESSED: Final = NO_REQUEST | UNKNOWN_API | UNKNOWN_VERSION
REMEMBERED: Final = 4


class Spool:
    """Contents of frames in a temporary file."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # see `close`
        self._end = 0
        self.read = lru_cache(REMEMBERED)(self._read)

    def add(self, start: int, data: bytes) -> "Spooled":
        """Replacement bytes from stream position `start` on."""
        place, self._end = self._end, self._end + len(data)
        self._file.seek(place)
        self._file.write(data)
        return Spooled(self, start, place, len(data))

    def _read(self, place: int, size: int) -> bytes:
        self._file.seek(place)
        return self._file.read(size)

    def close(self) -> None:
        """Delete the file."""
        self._file.close()


@contextmanager
def spooled() -> Iterator[Spool]:
    """A temporary file that is deleted at the end."""
    spool = Spool()
    try:
        yield spool
    finally:
        spool.close()


class Spooled:
    """A `Replacement` of which the bytes are in the file."""

    __slots__ = ("_place", "_size", "_spool", "start")

    def __init__(self, spool: Spool, start: int, place: int, size: int) -> None:
        self._spool = spool
        self.start = start
        self._place = place
        self._size = size

    @property
    def data(self) -> bytes:
        return self._spool.read(self._place, self._size)


def make_anonymous_plan(
    sources: Sequence[Source],
    reading: dict[str, Any],
    chosen: Collection[int],
    renaming: Renaming,
    spool: Spool,
) -> Plan:
    """Dissect the captures once more, without TLS keys; `chosen` are ids of connections."""
    planner = AnonymousPlanner(dissector_of(reading), chosen, renaming, spool)
    return planned(planner, sources)


class AnonymousPlanner(Planner):
    """Writes frames anew, and keeps nothing else."""

    def __init__(
        self, dissector: Dissector, chosen: Collection[int], renaming: Renaming, spool: Spool
    ) -> None:
        super().__init__(dissector)
        self._chosen = chosen
        self._renaming = renaming
        self._spool = spool

    def frame(self, frame: Frame) -> None:
        """A frame counts as one of no exchange, until it gets one."""
        data = bytes(frame.data)
        is_token = 0 < len(data) <= LARGEST_TOKEN and not frame.missing and self.is_chosen(frame)
        token = self._renaming.token(data) if is_token else b""
        self.write(frame, token, MASKED if token else ZEROED if frame.size else WHOLE)
        for exchange in self.exchanges.feed(frame):
            self.exchange(exchange)

    def side(self, exchange: Exchange, frame: Frame, is_response: bool) -> None:
        """Write the frame of an exchange; protocols from before 0.8 have no payload."""
        if not self.is_chosen(frame):
            return
        if exchange.dialect:
            self.drop(frame)
            return
        try:
            check_sound(exchange, frame, is_response)
            key, version = int(exchange.api_key), int(exchange.api_version)
            data = self._renaming.frame(key, version, bytes(frame.data), is_response)
            self.write(frame, data, MASKED)
        except DecodeError:
            # The numbers of a header that was guessed may be part of a name.
            is_guessed = exchange.status & GUESSED
            data = b"" if is_guessed else bytes(frame.data)
            self.write(frame, self._renaming.head(data, is_response), ZEROED)

    def is_chosen(self, frame: Frame) -> bool:
        """Whether packets of its connection are selected."""
        return int(frame.connection.id) in self._chosen

    def drop(self, frame: Frame) -> None:
        """Write the stream without payload."""
        stream = self.streams.get((int(frame.connection.id), int(frame.direction)))
        if stream is not None:
            stream.is_dropped = True

    def write(self, frame: Frame, data: bytes, kind: int) -> None:
        """A frame: its size, these bytes, and zeros up to its end.

        The size is written, too: a segment that is sent again may have another one at its place.
        """
        size = (int(frame.size) & 0xFFFFFFFF).to_bytes(SIZE_FIELD, "big")
        self.keep(frame, len(data), kind, (self._spool.add(int(frame.position), size + data),))

    def proxy_header(self, chunk: Chunk) -> None:
        stream = self.streams.get((int(chunk.connection.id), int(chunk.direction)))
        data = bytes(chunk.data[chunk.start : chunk.end])
        size = proxy_size(data)
        if stream is not None and size:
            written = self.proxied(data[:size])
            stream.by_position[0] = Kept(0, size, WHOLE, (self._spool.add(0, written),))

    def proxied(self, header: bytes) -> bytes:
        """A PROXY header with other addresses; of those that cannot be written, zeros."""
        cipher = self._renaming.names.cipher
        if header.startswith(PROXY_BINARY):
            size = PROXY_ADDRESSES.get(header[PROXY_FAMILY_AT], 0)
            ports = PROXY_FIXED + 2 * size
            if not size or len(header) < ports + 4:
                return header[:PROXY_FIXED] + bytes(len(header) - PROXY_FIXED)
            ends = [header[at : at + size] for at in (PROXY_FIXED, PROXY_FIXED + size)]
            written = header[:PROXY_FIXED] + b"".join(map(cipher.address, ends))
            return written + header[ports : ports + 4] + bytes(len(header) - ports - 4)
        line = PROXY_LINE.fullmatch(header)
        texts = [one.decode() for one in line.groups()[1:3]] if line else []
        if line is None or not all(text.count(".") == 3 and is_ipv4(text) for text in texts):
            return b"PROXY UNKNOWN".ljust(max(0, len(header) - 2))[: len(header) - 2] + b"\r\n"
        source, target = (cipher.ipv4_text(text).encode() for text in texts)
        return line[1] + source + b" " + target + line[4]


def check_sound(exchange: Exchange, frame: Frame, is_response: bool) -> None:
    """Raise DecodeError for a frame of which the layout is in doubt.

    A whole request of which the answer is damaged is not, unless it may be a login.
    """
    damaged = exchange.status & SUSPECT == DAMAGED and not is_response
    is_suspect = exchange.status & SUSPECT and (
        not damaged or has_secrets(int(exchange.api_key), "request")
    )
    if exchange.dialect or is_suspect or frame.missing:
        raise DecodeError("an exchange that is not sound")
    if exchange.api_key == NULL or is_overlong(exchange):
        raise DecodeError("a message that is not known")
    doubt = doubt_of(exchange)
    if doubt and not is_response:
        key, version = int(exchange.api_key), int(exchange.api_version)
        body = full_body(key, version, frame.data, False)
        if guarded(body, doubt) != body:
            raise DecodeError("a request without an answer, in which may be a token")
