"""Records fields with all payload blanked: same bytes, sizes and offsets, valid checksums.

Keys, values and headers of records become zeros of the same size; the keys of control records stay,
and the values of transaction markers, which are Kafka's own and name nothing. A compressed batch is
compressed again to the same size (see `repacking`), or, where that cannot be, its records become
zeros. Nothing stays of what is not a whole valid batch: it is written as a batch that is cut, or as
none, as it was. A record that cannot be read is zeros.
Checksums that were valid are valid, others are not. The first bytes of a batch's payload are a
keyed hash of all of it: a batch that is sent again is still recognised by its checksum.
"""

import zlib
from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

import google_crc32c

from kdissect.errors import CorruptRecords, DecodeError, DecompressionLimit
from kdissect.messages.batches import CODEC_MASK, CONTROL_KEY_SIZE, MAGIC_AT, PREFIX_SIZE
from kdissect.messages.batches import Batch as Entry
from kdissect.messages.compression import decompress
from kdissect.messages.legacy_records import (
    ATTRIBUTES_AT,
    CRC_AT,
    MAGIC_0_BODY_AT,
    MAGIC_1_BODY_AT,
    OFFSET_SIZE,
)
from kdissect.messages.records import (
    CRC_AT as BATCH_CRC_AT,
)
from kdissect.messages.records import (
    CRC_FROM,
    check_crc,
    scan_batches,
)
from kdissect.messages.varints import read_varint, read_varlong
from kdissect.slicing.repacking import repacked
from kdissect.text.pseudonyms import Cipher

MARK: Final = 4
# The first bytes of a batch that is cut: it has more than any field.
CUT: Final = bytes(8) + b"\x7f\xff\xff\xff"
NO_MAGIC: Final = 0xFF
MARKER_SIZE: Final = 6  # version and coordinator epoch: the value of a transaction marker
LIMIT: Final = 104_857_600  # of what a batch decompresses to


class Span(NamedTuple):
    """Payload from `start` to `end`."""

    start: int
    end: int


class Blanking:
    """How payload is hashed, and how many batches could not be compressed to their size again."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher
        self.emptied = 0

    def mark(self, payload: bytes) -> bytes:
        """A few bytes by which the same payload is recognised."""
        return self._cipher.hash("payload", payload)[:MARK]

    def empty(self, packed: bytes) -> bytes:
        """Zeros in place of compressed records."""
        self.emptied += 1
        return bytes(len(packed))


def blanked(data: bytes, blanking: Blanking) -> bytes:
    """A records field without payload, of the same size."""
    made = bytearray(data)
    scan = scan_batches(data, 0, len(data))
    end = 0
    for entry in scan.batches:
        corrupt(made, end, int(entry.start))
        end = int(entry.end)
        if entry.magic == 2:
            blank_batch(data, made, entry, blanking)
        else:
            blank_messages(data, made, entry, blanking)
    cut_at = len(data) - int(scan.partial_size)
    corrupt(made, end, cut_at)
    if scan.partial_size >= PREFIX_SIZE:
        made[cut_at:] = CUT + bytes(len(data) - cut_at - PREFIX_SIZE)
    else:
        made[cut_at:] = bytes(len(data) - cut_at)
    return bytes(made)


def corrupt(made: bytearray, start: int, end: int) -> None:
    """Bytes that are no batch: nothing of them stays, and they are no batch again."""
    size = end - start
    made[start:end] = bytes(size)
    if size > MAGIC_AT:
        made[start + OFFSET_SIZE : start + PREFIX_SIZE] = (size - PREFIX_SIZE).to_bytes(4, "big")
        made[start + MAGIC_AT] = NO_MAGIC


def blank_batch(data: bytes, made: bytearray, entry: Entry, blanking: Blanking) -> None:
    """A batch of magic 2."""
    is_valid = check_crc(data, entry)
    start, end = int(entry.records_start), int(entry.end)
    packed = data[start:end]
    made[start:end] = blank_packed(packed, entry, blanking)
    if is_valid:
        crc = google_crc32c.value(bytes(made[entry.start + CRC_FROM : end]))
        place = int(entry.start) + BATCH_CRC_AT
        made[place : place + 4] = int(crc).to_bytes(4, "big")


def blank_packed(packed: bytes, entry: Entry, blanking: Blanking) -> bytes:
    codec = int(entry.codec)
    try:
        records = decompress(codec, packed, LIMIT, 2)
    except (CorruptRecords, DecompressionLimit):
        return blanking.empty(packed)
    is_control = bool(entry.is_control)
    spans = list(spans_of(records, int(entry.record_count), is_control))
    mark = blanking.mark(records)
    if codec == 0:
        return with_fill(records, spans, mark)
    room = sum(one.end - one.start for one in spans)
    for first in (mark, b""):
        build = partial(with_marked_fill, records, spans, first)
        found = repacked(codec, packed, max(0, room - len(first)), build)
        if found is not None:
            return found
    return blanking.empty(packed)


def with_marked_fill(records: bytes, spans: list[Span], mark: bytes, fill: bytes) -> bytes:
    """The same with a mark in front of the fill bytes."""
    return with_fill(records, spans, mark + fill)


def with_fill(records: bytes, spans: Iterable[Span], fill: bytes) -> bytes:
    """The records with the fill bytes, then zeros, in place of payload."""
    made = bytearray(records)
    used = 0
    for one in spans:
        size = one.end - one.start
        part = fill[used : used + size]
        used += len(part)
        made[one.start : one.end] = part + bytes(size - len(part))
    return bytes(made)


def spans_of(records: bytes, count: int, is_control: bool) -> Iterable[Span]:
    """Payload of records of magic 2; all that is not read as records is payload, too."""
    position = 0
    for _ in range(count):
        try:
            size, first = map(int, read_varint(records, position, len(records)))
        except DecodeError:
            break
        if size < 0 or size > len(records) - first:
            break
        position = first + size
        try:
            found = list(spans_of_record(records, first, position, is_control))
        except DecodeError:
            found = [Span(first, position)]
        yield from found
    if position < len(records):
        yield Span(position, len(records))


def spans_of_record(records: bytes, start: int, end: int, is_control: bool) -> Iterable[Span]:
    """Payload of a record; raises DecodeError if it is none to its last byte."""
    _, position = read_varlong(records, start + 1, end)
    _, position = read_varint(records, position, end)
    key, position = sized(records, int(position), end)
    value, position = sized(records, position, end)
    is_own = is_control and key.end - key.start == CONTROL_KEY_SIZE
    if not is_own:
        yield key
    if not (is_own and value.end - value.start == MARKER_SIZE):
        yield value
    count, at = read_varint(records, position, end)
    position = int(at)
    for _ in range(int(count)):
        for _part in ("name", "value"):
            span, position = sized(records, position, end)
            yield span
    if position != end:
        raise DecodeError("bytes behind a record")


def sized(records: bytes, at: int, end: int) -> tuple[Span, int]:
    """The bytes behind a varint that is their size."""
    size, start = map(int, read_varint(records, at, end))
    if size > end - start:
        raise DecodeError("a field that is longer than its record")
    after = start + max(size, 0)
    return Span(start, after), after


def blank_messages(data: bytes, made: bytearray, entry: Entry, blanking: Blanking) -> None:
    """A run of plain messages of magic 0 or 1, or a wrapper."""
    position, end = int(entry.start), int(entry.end)
    while position < end:
        after = position + PREFIX_SIZE + int.from_bytes(data[position + 8 : position + 12], "big")
        made[position:after] = blank_message(data[position:after], blanking)
        position = after


def blank_message(message: bytes, blanking: Blanking) -> bytes:
    """A message of magic 0 or 1, of which at least the fields of fixed size are there."""
    magic, codec = message[MAGIC_AT], message[ATTRIBUTES_AT] & CODEC_MASK
    is_valid = zlib.crc32(message[MAGIC_AT:]) == int.from_bytes(message[CRC_AT:MAGIC_AT], "big")
    body = MAGIC_0_BODY_AT if magic == 0 else MAGIC_1_BODY_AT
    made = bytearray(message)
    try:
        key, value = fields_of(message, body)
    except DecodeError:
        made[body:] = bytes(len(message) - body)
    else:
        made[key.start : key.end] = bytes(key.end - key.start)
        packed = message[value.start : value.end]
        made[value.start : value.end] = (
            blank_wrapped(packed, codec, magic, blanking)
            if codec
            else blanking.mark(packed)[: len(packed)].ljust(len(packed), b"\0")
        )
    if is_valid:
        made[CRC_AT:MAGIC_AT] = zlib.crc32(made[MAGIC_AT:]).to_bytes(4, "big")
    return bytes(made)


def blank_wrapped(packed: bytes, codec: int, magic: int, blanking: Blanking) -> bytes:
    """The compressed messages of a wrapper."""
    try:
        messages = decompress(codec, packed, LIMIT, magic)
    except (CorruptRecords, DecompressionLimit):
        return blanking.empty(packed)
    parts = list(parts_of(messages))
    room = sum(part.room for part in parts)

    for first in (blanking.mark(messages), b""):
        build = partial(joined, parts, first)
        found = repacked(codec, packed, max(0, room - len(first)), build)
        if found is not None:
            return found
    return blanking.empty(packed)


def joined(parts: "list[Part]", mark: bytes, fill: bytes) -> bytes:
    """Messages of a wrapper with a mark and fill bytes in place of payload."""
    made = []
    fill = mark + fill
    for part in parts:
        made.append(part.made(fill[: part.room]))
        fill = fill[part.room :]
    return b"".join(made)


class Part:
    """A message within a wrapper."""

    def __init__(self, message: bytes, spans: tuple[Span, ...], is_valid: bool) -> None:
        self.message = message
        self.spans = spans
        self.is_valid = is_valid
        self.room = sum(one.end - one.start for one in spans)

    def made(self, fill: bytes) -> bytes:
        """The message with other payload."""
        made = bytearray(with_fill(self.message, self.spans, fill))
        if self.is_valid:
            made[CRC_AT:MAGIC_AT] = zlib.crc32(made[MAGIC_AT:]).to_bytes(4, "big")
        return bytes(made)


def parts_of(messages: bytes) -> Iterable[Part]:
    """Messages in a decompressed set; what is none has only payload."""
    position = 0
    while position < len(messages):
        size = int.from_bytes(messages[position + 8 : position + 12], "big", signed=True)
        after = position + PREFIX_SIZE + size
        if size < ATTRIBUTES_AT - PREFIX_SIZE + 1 or after > len(messages):
            break
        yield part_of(messages[position:after])
        position = after
    if position < len(messages):
        rest = messages[position:]
        yield Part(rest, (Span(0, len(rest)),), False)


def part_of(message: bytes) -> Part:
    magic = message[MAGIC_AT]
    is_valid = zlib.crc32(message[MAGIC_AT:]) == int.from_bytes(message[CRC_AT:MAGIC_AT], "big")
    body = MAGIC_0_BODY_AT if magic == 0 else MAGIC_1_BODY_AT
    try:
        return Part(message, fields_of(message, body), is_valid)
    except DecodeError:
        body = min(body, len(message))
        return Part(message, (Span(body, len(message)),), is_valid)


def fields_of(message: bytes, body: int) -> tuple[Span, Span]:
    """Key and value of a message; raises DecodeError unless they end where it does."""
    key, at = sized32(message, body)
    value, at = sized32(message, at)
    if at != len(message) or message[MAGIC_AT] > 1:
        raise DecodeError("bytes behind a message")
    return key, value


def sized32(data: bytes, at: int) -> tuple[Span, int]:
    """The bytes behind an int32 that is their size."""
    size = int.from_bytes(data[at : at + 4], "big", signed=True)
    start = at + 4
    if start > len(data) or size > len(data) - start:
        raise DecodeError("a field that is longer than its message")
    after = start + max(size, 0)
    return Span(start, after), after
