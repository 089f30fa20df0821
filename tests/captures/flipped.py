"""Exchanges with credentials, each with one changed header byte, and all output about them.

The frames are those of captures and of `secret_conversations`, alone on a connection or between
intact exchanges.
"""

import io
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kdissect.api.dissected import Dissection
from kdissect.cli.tree import exchange_json, exchange_lines
from kdissect.errors import DecodeError, KdissectError
from kdissect.messages.headers import read_request_header
from kdissect.pipeline import Options, Run
from kdissect.tables.schemas import TABLES
from tests.captures import secrets
from tests.conversation import conversation
from tests.exchange_builders import request, response, sized
from tests.secret_conversations import (
    BEARER,
    KERBEROS,
    PLAIN,
    PROOF,
    SECRETS,
    VERIFIER,
    messages,
)

SIZE_FIELD = 4
KEY, VERSION, CORRELATION_ID, CLIENT_ID = 0, 2, 4, 8
# Of these every change is of interest, of the other bytes each flipped bit.
EVERY_VALUE = (1, 3, 8, 9)
RESPONSE_HEADER = 5
PART = 8
RAW_LOGINS = {
    "PLAIN": [PLAIN, b""],
    "SCRAM-SHA-256": [
        b"n,,n=alice,r=nonce", b"r=nonce2,s=c2FsdA==,i=4096",
        b"c=biws,r=nonce2,p=" + PROOF, b"v=" + VERIFIER,
    ],
    "OAUTHBEARER": [BEARER, b""],
    "GSSAPI": [KERBEROS, KERBEROS],
}  # fmt: skip
HEX = re.compile(rb"(?:[0-9a-fA-F]{2}\s?\s?){8,}")
# A row of a hex dump: its bytes, without the offset and the ASCII column.
DUMP_ROW = re.compile(rb"\n *[0-9a-f]{8}  ((?:[0-9a-f]{2} *){1,16}).*")


class Talk(NamedTuple):
    """Frames without their sizes, sent by one side in turn, and their secret parts.

    `changed` is the number of the frame that is to be changed.
    """

    frames: tuple[tuple[bool, bytes], ...]
    changed: int
    secrets: frozenset[bytes]


def made_talks() -> Iterator[Talk]:
    """Each message of the made conversations that has a credential."""
    for api, version, side, values in messages():
        asked = request(api, version, 7, **(values if side == "request" else {}))[SIZE_FIELD:]
        answer = response(api, version, 7, **(values if side == "response" else {}))[SIZE_FIELD:]
        yield from around([asked, answer], set(SECRETS))


def captured_talks(capture: Path) -> Iterator[Talk]:
    """Each exchange of a capture that has a credential, with the one before on its connection."""
    known = secrets.secrets_of(capture)
    before: dict[int, list[bytes]] = {}
    for exchange in Dissection(str(capture)):
        frames = [exchange.raw_frame(side) for side in ("request", "response")]
        if any(secret in frame for secret in known for frame in frames):
            yield from around(frames, known, before.get(exchange.connection_id, []))
        before[exchange.connection_id] = frames


def around(frames: Sequence[bytes], known: set[bytes], before: Sequence[bytes] = ()) -> list[Talk]:
    """Request and response alone, behind the exchange before, and between others."""
    own = [(number % 2 == 0, frame) for number, frame in enumerate(frames)]
    first = [(number % 2 == 0, frame) for number, frame in enumerate(before)]
    plain = [(True, request("ApiVersions", 3, 5)[4:]), (False, response("ApiVersions", 3, 5)[4:])]
    later = [(True, request("Metadata", 12, 9)[4:]), (False, response("Metadata", 12, 9)[4:])]
    talks: dict[Talk, None] = {}
    for all_ in (own, [*first, *own], [*plain, *first, *own, *later]):
        frozen = tuple(one for one in all_ if one[1])
        shown = frozenset(one for one in known if any(one in frame for _, frame in frozen))
        for number, one in enumerate(frozen):
            if one in [*first, *own]:
                talks[Talk(frozen, number, shown)] = None
    return list(talks)


def raw_logins() -> Iterator[Talk]:
    """Logins with raw tokens, after SaslHandshake v0: the token or a size is changed."""
    for mechanism, tokens in RAW_LOGINS.items():
        asked = request("SaslHandshake", 0, 3, mechanism=mechanism)[SIZE_FIELD:]
        answer = response("SaslHandshake", 0, 3)[SIZE_FIELD:]
        frames = [(True, asked), (False, answer)]
        frames += [(number % 2 == 0, token) for number, token in enumerate(tokens)]
        known = frozenset(one for one in SECRETS if any(one in token for token in tokens))
        yield from (Talk(tuple(frames), number, known) for number in range(len(frames)))


def changes(talk: Talk) -> list[tuple[int, int]]:
    """Each position in the size and header of the frame, with the XOR mask of a change there."""
    is_request, frame = talk.frames[talk.changed]
    end = min(len(frame), header_size(frame) if is_request else RESPONSE_HEADER)
    places = [(at - SIZE_FIELD, 1 << bit) for at in range(SIZE_FIELD) for bit in range(8)]
    for at in range(end):
        every = at in EVERY_VALUE if is_request else at == RESPONSE_HEADER - 1
        places += [
            (at, value) for value in (range(1, 256) if every else map((1).__lshift__, range(8)))
        ]
    return places


def header_size(frame: bytes) -> int:
    try:
        return int(read_request_header(frame).body_offset)
    except DecodeError:
        return CLIENT_ID + 2


def changed(talk: Talk, at: int, value: int) -> bytes:
    """The capture of a talk with one byte changed."""
    told = conversation().open()
    for number, (is_request, frame) in enumerate(talk.frames):
        data = bytearray(sized(frame))
        if number == talk.changed:
            data[at + SIZE_FIELD] ^= value
        told = told.client(bytes(data)) if is_request else told.broker(bytes(data))
    return told.close().pcap()


class _Named(io.BytesIO):
    name = "capture"


def said(capture: bytes) -> Iterator[tuple[str, bytes]]:
    """Output of all commands for a capture, by name."""
    try:
        for exchange in Dissection(_Named(capture)):
            yield "show", "\n".join(exchange_lines(exchange, True)).encode()
            told = json.dumps(exchange_json(exchange, True), ensure_ascii=False)
            yield "jsonl", told.encode("utf-8", "backslashreplace")
            for side in ("request", "response"):
                yield "frame_bytes", exchange.frame_bytes(side)
        run = Run(_Named(capture), Options(tables=tuple(TABLES), payload=True, verify_crc=True))
        for name, batch in run:
            yield name, repr(batch.to_pylist()).encode("utf-8", "backslashreplace")
    except KdissectError as error:
        yield "error", str(error).encode("utf-8", "backslashreplace")


class Search:
    """Looks for parts of secrets: as they are, escaped, in base64, and in any run of hex digits."""

    def __init__(self, known: frozenset[bytes]) -> None:
        parts = {part for secret in known for part in parts_of(secret)}
        forms = {form: one for one in parts for form in secrets.forms(one)}
        self.forms = {form: one for form, one in forms.items() if len(form) >= PART}
        self.pattern = alternatives(self.forms)
        self.known: dict[Talk, set[bytes]] = {}
        self.raw = alternatives(parts)

    def said_anyway(self, talk: Talk) -> set[bytes]:
        """The parts that occur in the output for an unchanged talk."""
        if talk not in self.known:
            texts = (text for _, text in said(changed(talk, -1, 0)))
            self.known[talk] = {part for text in texts for part in self.found(text)}
        return self.known[talk]

    def found(self, text: bytes) -> set[bytes]:
        """The parts that a text has, also in hex dumps, row by row."""
        hits = {self.forms[hit.group()] for hit in self.pattern.finditer(text)}
        for digits in HEX.findall(DUMP_ROW.sub(rb" \1", text)):
            pairs = b"".join(digits.split())
            shown = bytes.fromhex(pairs[: len(pairs) & ~1].decode())
            hits |= {hit.group() for hit in self.raw.finditer(shown)}
        return hits


def parts_of(secret: bytes) -> set[bytes]:
    """Pieces of a secret that are too long to be there by chance."""
    return {secret[at : at + PART] for at in range(max(1, len(secret) - PART + 1))}


def alternatives(texts: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or b"(?!)")


def leaks(talk: Talk, at: int, value: int, search: Search) -> dict[str, set[bytes]]:
    """Parts of secrets in the output for a changed talk.

    A part that also occurs in the output for the unchanged talk belongs to a word that is no
    secret.
    """
    found: dict[str, set[bytes]] = {}
    for name, text in said(changed(talk, at, value)):
        if hits := search.found(text) - search.said_anyway(talk):
            found.setdefault(name, set()).update(hits)
    return found


def sampled(
    talks: Sequence[Talk], count: int, chance: random.Random
) -> Iterator[tuple[Talk, int, int]]:
    """Changes of talks, drawn."""
    for _ in range(count):
        talk = chance.choice(talks)
        yield (talk, *chance.choice(changes(talk)))
