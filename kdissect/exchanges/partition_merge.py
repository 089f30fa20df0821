"""Merges the rows of a request and its response into one per topic-partition."""

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from kdissect.messages.batches import ANY_NUMBER
from kdissect.messages.partitions import (
    AT_BATCH_COUNT,
    AT_CODEC,
    AT_COMMITTED_OFFSET,
    AT_CONTROL_COUNT,
    AT_FETCH_OFFSET,
    AT_LEADER_EPOCH,
    AT_PARTITION,
    AT_RECORD_BYTES,
    AT_RECORD_COUNT,
    NO_ID,
    WIDTH,
    Partitions,
)
from kdissect.protocol.readers import NULL

NO_PARTITION: Final = 1 << 32  # in place of a number that a row does not have
PARTITION_BITS: Final = 33


def merge_partitions(
    asked: Partitions | None, answered: Partitions, most: i64 = ANY_NUMBER
) -> Partitions:
    """Merge the rows of the request and the response into one row per topic-partition.

    Rows of the response come first, in its order; partitions it does not answer follow, up to
    `most` rows. `answered` receives the result.
    """
    if asked is None:
        return answered
    if asked.unkept == 0 and answered.unkept == 0:
        return merge_rows(asked, answered, most)
    # It is unknown which of the partitions without a row both sides name.
    named = max(asked.count + asked.unkept, answered.count + answered.unkept)
    merged = merge_rows(asked, answered, most if answered.unkept == 0 else answered.count)
    merged.unkept = max(named - merged.count, 0)
    return merged


def merge_rows(asked: Partitions, answered: Partitions, most: i64) -> Partitions:
    """Like `merge_partitions`; rows beyond `most` are added to `unkept`."""
    ours = answered.cells
    theirs = asked.cells
    count = answered.count
    # Topics of the previous row.
    one: i64 = -1
    other: i64 = -1
    gives_id = False
    index: i64 = 0
    while index < count:
        # Nearly always they come in the order of the request.
        at = index * WIDTH
        if index == asked.count or theirs[at + AT_PARTITION] != ours[at + AT_PARTITION]:
            return merge_unordered(asked, answered, index, most)
        if theirs[at] != one or ours[at] != other:
            one = theirs[at]
            other = ours[at]
            if not are_same(asked, one, answered, other):
                return merge_unordered(asked, answered, index, most)
            gives_id = answered.topic_ids[other] == NO_ID and asked.topic_ids[one] != NO_ID
        absorb_numbers(ours, at, theirs, at)
        if ours[at + AT_RECORD_BYTES] == NULL:
            absorb_records(answered, index, asked, index)
        if gives_id:
            ours[at] = answered.topic_index(answered.topics[other], asked.topic_ids[one])
        index += 1
    while index < asked.count:
        add_within(answered, asked, index, most)
        index += 1
    return answered


def add_within(answered: Partitions, asked: Partitions, row: i64, most: i64) -> None:
    """Add a row of the request unless there are `most` already."""
    if answered.count < most:
        answered.add(asked, row)
    else:
        answered.unkept += 1


def are_same(asked: Partitions, one: i64, answered: Partitions, other: i64) -> bool:
    """Return whether topic `one` of the request is topic `other` of the response."""
    return is_same_topic(
        asked.topics[one], asked.topic_ids[one], answered.topics[other], answered.topic_ids[other]
    )


def is_same_topic(one: str, one_id: bytes, other: str, other_id: bytes) -> bool:
    """Compare by topic id where both have one, else by name: a name may be learnt in between."""
    if one_id != NO_ID and other_id != NO_ID:
        return one_id == other_id
    return one == other


def merge_unordered(asked: Partitions, answered: Partitions, matched: i64, most: i64) -> Partitions:
    """Like `merge_rows`; the first `matched` of both are merged already."""
    numbers: dict[object, int] = {}
    waiting: dict[int, list[int]] = {}
    index = matched
    while index < asked.count:
        at = index * WIDTH
        topic = asked.cells[at]
        name: object = asked.topic_ids[topic]
        if name == NO_ID:
            name = asked.topics[topic]
        key = row_key(numbers.setdefault(name, len(numbers)), asked.cells[at + AT_PARTITION])
        known = waiting.get(key)
        if known is None:
            waiting[key] = [index]
        else:
            known.append(index)
        index += 1
    count = answered.count
    index = matched
    while index < count:
        at = index * WIDTH
        partition = answered.cells[at + AT_PARTITION]
        topic = answered.cells[at]
        found: list[int] | None = None
        number = numbers.get(answered.topic_ids[topic])
        if number is not None:
            found = waiting.get(row_key(number, partition))
        if not found:
            number = numbers.get(answered.topics[topic])
            if number is not None:
                found = waiting.get(row_key(number, partition))
        if found:
            absorb(answered, index, asked, found.pop(0))
        index += 1
    for left in waiting.values():
        for row in left:
            add_within(answered, asked, row, most)
    return answered


def row_key(number: i64, partition: i64) -> i64:
    """One number for a topic's number and a partition."""
    # A partition has 32 bits, and a body far less than 2^29 topics.
    low: i64 = NO_PARTITION if partition == NULL else partition & 0xFFFF_FFFF
    return number << PARTITION_BITS | low


def absorb(answered: Partitions, index: i64, asked: Partitions, row: i64) -> None:
    """Copy into row `index` of a response the fields that only row `row` of the request has."""
    ours = answered.cells
    at = index * WIDTH
    absorb_numbers(ours, at, asked.cells, row * WIDTH)
    if ours[at + AT_RECORD_BYTES] == NULL:
        absorb_records(answered, index, asked, row)
    if answered.topic_ids[ours[at]] == NO_ID:
        known = asked.topic_ids[asked.cells[row * WIDTH]]
        if known != NO_ID:
            ours[at] = answered.topic_index(answered.topics[ours[at]], known)


def absorb_numbers(ours: vec[i64], at: i64, theirs: vec[i64], of: i64) -> None:
    """Copy the offsets and the epoch that only the request's row has."""
    if ours[at + AT_FETCH_OFFSET] == NULL:
        ours[at + AT_FETCH_OFFSET] = theirs[of + AT_FETCH_OFFSET]
    if ours[at + AT_COMMITTED_OFFSET] == NULL:
        ours[at + AT_COMMITTED_OFFSET] = theirs[of + AT_COMMITTED_OFFSET]
    if ours[at + AT_LEADER_EPOCH] == NULL:
        ours[at + AT_LEADER_EPOCH] = theirs[of + AT_LEADER_EPOCH]


def absorb_records(answered: Partitions, index: i64, asked: Partitions, row: i64) -> None:
    """Copy the request's values about its records."""
    ours = answered.cells
    theirs = asked.cells
    at = index * WIDTH
    of = row * WIDTH
    ours[at + AT_RECORD_BYTES] = theirs[of + AT_RECORD_BYTES]
    ours[at + AT_RECORD_COUNT] = theirs[of + AT_RECORD_COUNT]
    ours[at + AT_CONTROL_COUNT] = theirs[of + AT_CONTROL_COUNT]
    ours[at + AT_BATCH_COUNT] = theirs[of + AT_BATCH_COUNT]
    ours[at + AT_CODEC] = theirs[of + AT_CODEC]
    if asked.held is not None:
        answered.hold(index, asked.batches_of(row))
