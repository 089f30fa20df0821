"""One row per topic-partition out of what a request and its response say of it."""

from mypy_extensions import i64

from kdissect.messages.facts import NO_ID, Partition
from kdissect.protocol.readers import NULL


def merge_partitions(asked: list[Partition] | None, answered: list[Partition]) -> list[Partition]:
    """One row per topic-partition from what the request and the response say of it.

    Those of the response come first, in its order; what it does not answer follows.
    """
    if not asked:
        return answered
    at: i64 = 0
    for row in answered:
        # Nearly always they come in the order they were asked for.
        if at == len(asked) or not is_same_partition(asked[at], row):
            return merge_unordered(asked, answered, at)
        absorb(row, asked[at])
        at += 1
    return answered + asked[at:] if at < len(asked) else answered


def is_same_partition(one: Partition, other: Partition) -> bool:
    """By topic id where both have one, else by name: a name may be learnt in between."""
    if one.partition != other.partition:
        return False
    if one.topic_id != NO_ID and other.topic_id != NO_ID:
        return one.topic_id == other.topic_id
    return one.topic == other.topic


def merge_unordered(
    asked: list[Partition], answered: list[Partition], matched: i64
) -> list[Partition]:
    """As `merge_partitions`; the first `matched` of both are merged already."""
    index: dict[object, list[Partition]] = {}
    for row in asked[matched:]:
        key: object = (row.topic_id if row.topic_id != NO_ID else row.topic, row.partition)
        known = index.get(key)
        if known is None:
            index[key] = [row]
        else:
            known.append(row)
    for row in answered[matched:]:
        waiting = index.get((row.topic_id, row.partition)) if row.topic_id != NO_ID else None
        if not waiting:
            waiting = index.get((row.topic, row.partition))
        if waiting:
            absorb(row, waiting.pop(0))
    merged = list(answered)
    for waiting in index.values():
        merged += waiting
    return merged


def absorb(row: Partition, request: Partition) -> None:
    """Put into a response's row what only the request's row says."""
    if row.fetch_offset == NULL:
        row.fetch_offset = request.fetch_offset
    if row.committed_offset == NULL:
        row.committed_offset = request.committed_offset
    if row.leader_epoch == NULL:
        row.leader_epoch = request.leader_epoch
    if row.record_bytes == NULL:
        row.record_count = request.record_count
        row.record_bytes = request.record_bytes
        row.batches = request.batches
        row.records = request.records
    if row.topic_id == NO_ID:
        row.topic_id = request.topic_id
