"""Packet numbers, and ids made of them, as they are in the whole, for speculative splits."""

from typing import Final

import numpy as np
import pyarrow as pa

from kdissect.checkpoint.boundary_state import BoundaryState
from kdissect.checkpoint.corrections import replaced
from kdissect.exchanges.connection_state import EXCHANGES_PER_PACKET
from kdissect.tables.batches import ints_of, numbers
from kdissect.tables.matrices import Ints

ORDINALS: Final = ("connection_id",)
EXCHANGES: Final = ("exchange_id",)
NUMBERS: Final = ("first_packet", "request_packet", "response_packet", "packet_number")


class Shifts:
    """Offsets to add to numbers from given ones on: they only grow from split to split."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.shifts: list[int] = []
        # True number of the first packet of the next split.
        self.next = 1

    def add(self, start: int, count: int) -> None:
        """Add a split whose numbers begin at `start`, and continue in the whole."""
        self.starts.append(start)
        self.shifts.append(self.next - start)
        self.next += count

    def apply(self, values: Ints, factor: int) -> Ints | None:
        """True numbers, times `factor` as those given; None if they are true already."""
        if not any(self.shifts):
            return None
        starts = np.array(self.starts, np.int64) * factor
        shifts = np.array(self.shifts, np.int64) * factor
        is_newest = values >= starts[-1]
        if is_newest.all() or not ((values >= starts[0]) & ~is_newest).any():
            # Smaller values are not numbers.
            return np.where(is_newest, values + shifts[-1], values)
        place = np.searchsorted(starts, values, side="right") - 1
        return np.where(place >= 0, values + shifts[np.maximum(place, 0)], values)


class Numbering:
    """Notified of each split in order, and applied to all rows that follow."""

    def __init__(self) -> None:
        self.ordinals = Shifts()
        self.numbers = Shifts()

    def add(self, boundary: BoundaryState) -> None:
        """Add a split, whose rows follow."""
        split, reached = boundary.split, boundary.reached
        if split.is_counted or reached is None:
            return
        self.ordinals.add(split.ordinal, reached.ordinal - split.ordinal)
        self.numbers.add(split.number, reached.number - split.number)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with true numbers and ids."""
        for shifts, names, factor in (
            (self.ordinals, ORDINALS, 1),
            (self.ordinals, EXCHANGES, int(EXCHANGES_PER_PACKET)),
            (self.numbers, NUMBERS, 1),
        ):
            if not any(shifts.shifts):
                continue
            for name in names:
                if name in batch.schema.names:
                    batch = with_shifts(batch, name, shifts, factor)
        return batch


def with_shifts(batch: pa.RecordBatch, name: str, shifts: Shifts, factor: int) -> pa.RecordBatch:
    """Return the batch with the true numbers in a column."""
    column = batch[name]
    moved = shifts.apply(ints_of(column), factor)
    return batch if moved is None else replaced(batch, name, numbers(moved, column.type))
