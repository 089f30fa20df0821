"""Recognizes requests of Kafka 0.7, which have no signature, by their consistent sizes.

A request of 0.7 has a topic where later ones have a version, a correlation id and a client id. So
the topic's length and characters, a partition, sizes that end exactly where the frame ends and
messages that fill their set exactly are all required. The drafts of 2012 have the header of later
requests, so they are never searched for.
"""

from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from kdissect.messages.message_sets import is_whole_set
from kdissect.messages.old_protocols import FETCH, MULTIFETCH, OFFSETS, PRODUCE

TOPIC_BYTES: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
MAX_TOPIC: Final = 255
MAX_PARTITION: Final = 1 << 16  # of one topic on one broker; hundreds was a large number then
FETCH_TAIL: Final = 12  # int64 offset, int32 size; or int64 time, int32 count of offsets
NO: Final = -1


def is_request_07(data: bytes, size: i64) -> bool:
    """Return whether a frame of `size` bytes, of which `data` are the first, is a request of 0.7.

    In an incomplete one, the topic and the partition of the first entry must be present.
    """
    if len(data) < 4:
        return False
    kind: i64 = i64(read_i16_be(data, 0))
    if kind < PRODUCE or kind > OFFSETS:
        return False
    if kind in (FETCH, OFFSETS):
        return fetch_end(data, 2) == size
    if kind == PRODUCE:
        return produce_end(data, 2, size) == size
    count: i64 = i64(read_i16_be(data, 2))
    return count > 0 and entries_fit(data, size, kind, count)


def entries_fit(data: bytes, size: i64, kind: i64, count: i64) -> bool:
    """Return whether `count` entries of a MULTIFETCH or MULTIPRODUCE end where the frame does."""
    at: i64 = 4
    for _ in range(count):
        before = at
        at = fetch_end(data, at) if kind == MULTIFETCH else produce_end(data, at, size)
        if at < 0:
            # Entries behind the captured bytes cannot contradict the first.
            return before > 4 and len(data) < size and before + entry_size(data, before) > len(data)
    return at == size


def entry_size(data: bytes, at: i64) -> i64:
    """Minimum size of the entry at `at`: more than the rest when its topic is cut off."""
    if at + 2 > len(data):
        return 2
    length: i64 = i64(read_i16_be(data, at))
    return length + 10 if 0 < length <= MAX_TOPIC else 0


def fetch_end(data: bytes, at: i64) -> i64:
    """End of a topic, a partition and 12 bytes; NO if they cannot be them."""
    after = partition_end(data, at)
    return after + FETCH_TAIL if after > 0 else NO


def produce_end(data: bytes, at: i64, frame_size: i64) -> i64:
    """End of a topic, a partition and a sized set; NO if they cannot be them."""
    after = partition_end(data, at)
    if after < 0 or after + 4 > len(data):
        return NO
    size: i64 = i64(read_i32_be(data, after))
    start = after + 4
    if size < 0 or size > frame_size - start:
        return NO
    end = start + size
    if end <= len(data) and not is_whole_set(data, start, end):
        return NO
    return end


def partition_end(data: bytes, at: i64) -> i64:
    """End of a topic and a partition; NO if they cannot be them."""
    if at + 2 > len(data):
        return NO
    length: i64 = i64(read_i16_be(data, at))
    start = at + 2
    after = start + length
    if length < 1 or length > MAX_TOPIC or after + 4 > len(data):
        return NO
    for byte in data[start:after]:
        if byte not in TOPIC_BYTES:
            return NO
    partition: i64 = i64(read_i32_be(data, after))
    return after + 4 if -1 <= partition < MAX_PARTITION else NO
