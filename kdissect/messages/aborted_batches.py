"""Marks batches of aborted transactions in a read_committed fetch.

The response lists the aborted transactions that touch its batches: producer id and first offset
(KIP-98). From its first offset on a producer's transactional batches are aborted, up to the ABORT
marker, a control batch of the same producer. Consumers filter in the same way.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.messages.batches import Batch
from kdissect.messages.records import read_records

ABORT: Final = 0  # index in CONTROL_TYPES
# Brokers write markers of 16 bytes, one a batch, never packed.
MARKER_LIMIT: Final = 4096


def mark_aborted(
    data: bytes, batches: list[Batch], producers: list[int], first_offsets: list[int]
) -> None:
    """Set `aborted` of every transactional batch of `data` that is not a marker itself.

    `producers` and `first_offsets` are the aborted transactions in any order, empty without any.
    """
    if not first_offsets:
        # Nearly always nothing is aborted.
        for batch in batches:
            if batch.is_transactional and not batch.is_control:
                batch.aborted = 0
        return
    order = sorted(zip(first_offsets, producers, strict=True))
    begun: i64 = 0
    open_producers: set[int] = set()
    for batch in batches:
        while begun < len(order) and order[begun][0] <= batch.last_offset:
            open_producers.add(order[begun][1])
            begun += 1
        if batch.is_control:
            if batch.producer_id in open_producers and is_abort_marker(data, batch):
                open_producers.discard(batch.producer_id)
        elif batch.is_transactional:
            batch.aborted = 1 if batch.producer_id in open_producers else 0


def is_abort_marker(data: bytes, batch: Batch) -> bool:
    """Return whether a control batch aborts a transaction."""
    records = read_records(data, batch, MARKER_LIMIT, 1).records
    return len(records) > 0 and records[0].control_type() == ABORT
