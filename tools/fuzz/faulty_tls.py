"""Fuzzing of TLS that knows its structure: inputs are edits of the records of small real sessions.

    input = a byte that chooses the session, and how it is captured and what keys there are; edits
    edit  = place, kind, where, value       (a byte each)

The place is a record; an edit changes its bytes, or their number, takes the record away, repeats or
moves it, lets the other side send it, or the capture miss it: see `faulty_captures.edit_bytes`,
where a piece's link type is the side here and its cut is what the capture misses.
"""

import json
from functools import cache
from pathlib import Path
from typing import Final

from kdissect.streams.connections import Streams
from kdissect.streams.events import Chunk
from kdissect.tls.keylog import KeyLog
from kdissect.tls.records import HEADER_SIZE, size_of
from kdissect.tls.stage import Tls
from tests.conversation import Conversation, conversation
from tests.tls.talks import Talk, read_talk
from tools.fuzz.faulty_captures import Piece, edit_bytes, edits

PLACE: Final = Path(__file__).parents[2] / "tests" / "tls"
SMALL_LIMIT: Final = 3_000
# As it is; keys of another session; the capture begins late; small segments; truncated packets; a
# small buffer limit.
WAYS: Final = 6
KEYS_OF_ANOTHER: Final = 1
LATE: Final = 2
SPLIT: Final = 3
CUT: Final = 4
LITTLE: Final = 5


@cache
def talks() -> tuple[Talk, ...]:
    """Sessions of all kinds of keys, new and resumed, with key updates and renegotiation."""
    small = json.loads((PLACE / "small_talks.json").read_text())
    special = json.loads((PLACE / "openssl_talks.json").read_text())
    return tuple(read_talk(told) for told in [*small, *special.values()])


@cache
def records(number: int) -> tuple[Piece, ...]:
    """The records of a session; link type 0 is the client's, 1 the broker's."""
    found = []
    for is_client, data in talks()[number].flights:
        at = 0
        while at < len(data):
            end = at + HEADER_SIZE + size_of(data, at)
            found.append(Piece(data[at:end], link_type=0 if is_client else 1))
            at = end
    return tuple(found)


def edited_talk(data: bytes) -> tuple[Conversation, Talk, int]:
    """Faulty capture, the session it was made from, and the kind of fault."""
    number, way = data[0] % len(talks()), data[0] // len(talks()) % WAYS
    pieces = [Piece(one.data, link_type=one.link_type) for one in records(number)]
    for place, kind, where, value in edits(data):
        edit_bytes(pieces, place % max(len(pieces), 1), kind, where, value)
    said = conversation(has_acks=False)
    lost: list[int] = []
    for piece in pieces:
        before = len(said.packets_sent)
        said = said.broker(piece.data) if piece.link_type & 1 else said.client(piece.data)
        if piece.cut:
            lost += range(before + 1, len(said.packets_sent) + 1)
    said = said.close().lose(*lost)
    if way == LATE:
        said = said.start_late(3 + len(data) % 8)
    elif way == SPLIT:
        said = said.split(13)
    elif way == CUT:
        said = said.cut(300)
    return said, talks()[number], way


def keylog_of(talk: Talk, way: int) -> bytes:
    """The session's secrets, or the lines of its log with those of another."""
    if way != KEYS_OF_ANOTHER:
        return talk.keylog
    lines = [line.split() for line in talk.keylog.splitlines() if not line.startswith(b"#")]
    return b"".join(
        b" ".join([*words[:-1], words[-1][::-1]]) + b"\n" for words in lines if len(words) == 3
    )


def check_plaintext(said: Conversation, talk: Talk, way: int) -> None:
    """Check that the output is part of the sent data, or of the data captured in clear."""
    keys = KeyLog()
    keys.add(keylog_of(talk, way), "log")
    limits = (SMALL_LIMIT, 2 * SMALL_LIMIT) if way == LITTLE else (1 << 20, 1 << 20)
    stage, streams = Tls(keys, *limits), Streams()
    events = [event for segment in said.segments() for event in streams.feed(segment)]
    events += streams.finish()
    captured = [b"", b""]
    for event in events:
        if isinstance(event, Chunk):
            captured[event.direction] += event.data[event.start : event.end]
    for event in events:
        for inner in stage.feed(event):
            if isinstance(inner, Chunk):
                content = inner.data[inner.start : inner.end]
                # Without the handshake it is unknown which direction is the client's.
                is_sent = way != KEYS_OF_ANOTHER and any(content in sent for sent in talk.sent)
                assert is_sent or content in captured[inner.direction], content
        assert stage.held <= limits[1], stage.held
    assert stage.held == 0, stage.held
