"""`DirectionDecryptor`: decrypt one direction of a TLS session, from records to plaintext.

A hole becomes one Gap: its plaintext's length is known if all records have the same overhead and
their number is found by trying; otherwise `Gap.is_exact` is false.
"""

from itertools import pairwise
from typing import Final

from kdissect.streams.events import Chunk, Connection, Event, Gap
from kdissect.tls import hellos
from kdissect.tls.epochs import Epochs, Opened, TrafficKeys
from kdissect.tls.records import (
    APPLICATION_DATA,
    HEADER_SIZE,
    Hole,
    Mark,
    Record,
    RecordCutter,
)

# Consecutive records that no key decrypts before a direction is given up. A server's handshake
# without handshake secrets has some more records than its four messages.
MAX_FAILURES: Final = 16
# Memory of a waiting record in addition to its bytes; an empty one has five.
WAITING_COST: Final = 512


class DirectionDecryptor:
    """One direction; without `is_start` its first bytes may be inside a record."""

    def __init__(self, connection: Connection, direction: int, is_start: bool) -> None:
        self.direction = direction
        self.cutter = RecordCutter(is_start)
        self.messages = hellos.Messages()
        self.is_changed = False  # a ChangeCipherSpec was seen
        self.epochs: Epochs | None = None
        self.waiting: list[Record | Hole] = []
        self.is_given_up = False
        # A hole where the hello should be: it is lost.
        self.is_hello_lost = not is_start
        # Captured bytes in; bytes still encrypted; plaintext bytes out.
        self.taken = 0
        self.encrypted = 0
        self.given = 0
        # The last hole since the last plaintext, or None.
        self.hole: Hole | None = None
        self._connection = connection
        self._waiting_size = 0
        self._failures = 0
        # Plaintext position of the next byte.
        self._position = 0
        # Missing data since the last plaintext: stream bytes, number of records, whether that is
        # known.
        self._lost = 0
        self._lost_records = 0
        self._is_count_sure = True
        self.has_early_data = False  # and the server accepted it, as far as known
        self._is_padded = False  # a record had a padding, so others may

    def be_of(self, connection: Connection) -> None:
        """Continue with another value of the same connection."""
        self._connection = connection

    @property
    def held(self) -> int:
        """Memory of held data."""
        waiting = self._waiting_size + len(self.waiting) * WAITING_COST
        return self.cutter.held + waiting + self.messages.held

    @property
    def own(self) -> int:
        """Bytes of TLS itself: neither plaintext nor still encrypted."""
        return self.taken - self.given - self.encrypted

    def take(self, event: Chunk | Gap) -> list[Record | Hole]:
        """Records and holes that an event completes; all bytes are counted here."""
        if isinstance(event, Gap):
            return [] if self.is_given_up else self.cutter.skip(event)
        size = event.end - event.start
        if self.taken == 0:
            self._position = event.position
        self.taken += size
        if self.is_given_up:
            self.encrypted += size
            return []
        return self.cutter.feed(event)

    def wait(self, one: Record | Hole) -> None:
        """Hold the record until the keys are known."""
        self.waiting.append(one)
        self._waiting_size += captured_size(one)

    def take_waiting(self) -> list[Record | Hole]:
        """Return the held records."""
        waiting, self.waiting = self.waiting, []
        self._waiting_size = 0
        return waiting

    def give_up(self) -> None:
        """Give up decryption; further bytes are only counted."""
        if not self.is_given_up:
            self.is_given_up = True
            self.encrypted += self.cutter.captured + self._waiting_size
            self.cutter = RecordCutter(False)
            self.messages.reset()
            self.take_waiting()

    def begin(self, epochs: Epochs) -> None:
        """Set the keys of the next records."""
        self.epochs = epochs
        if self.hole is not None:
            # The records before this one under the same keys may have been in the hole.
            epochs.lose(self._lost, -1)

    def open(self, record: Record) -> Opened | None:
        """Decrypt a record; None if the keys do not fit."""
        opened = None if self.epochs is None else self.epochs.open(record)
        if opened is not None:
            self._failures = 0
            if not self._is_count_sure and opened.passed > 0:
                self._lost_records += opened.passed
                self._is_count_sure = True
        return opened

    def give(self, record: Record, opened: Opened, out: list[Event]) -> None:
        """Turn application data into chunks, after a gap if something was lost."""
        content = opened.content
        overhead = len(record.body) - len(content)
        if isinstance(self.epochs, TrafficKeys) and overhead != self.epochs.overhead:
            self._is_padded = True
        if self.hole is not None:
            self._give_gap(self.hole, out)
        base = record.position + HEADER_SIZE + opened.prefix
        for start, end, mark in spread(len(content), base, record.marks):
            out.append(
                Chunk(
                    self._connection, self.direction, self._position + start, mark.time_ns,
                    mark.packet, mark.ordinal, mark.capture, content, start, end,
                )
            )  # fmt: skip
        self._position += len(content)
        self.given += len(content)

    def lose(self, hole: Hole) -> None:
        """Count incomplete records as lost."""
        self.encrypted += hole.captured
        self.messages.reset()
        self.hole = hole
        self._lost += hole.length
        if self.epochs is not None:
            self.epochs.lose(hole.length, hole.records)
        if hole.records >= 0:
            self._lost_records += hole.records
        else:
            self._is_count_sure = False

    def fail(self, record: Record, is_early: bool, is_rejected: bool) -> bool:
        """Count a record that no key decrypts as lost; return whether those are too many.

        If `is_early` it may be early data, which is no loss when the server rejected it: the client
        sends it again.
        """
        size = captured_size(record)
        self.encrypted += size
        self.messages.reset()
        # If many numbers are tried, even early data may not fail for long.
        if not is_early or (self.epochs is not None and self.epochs.unsure):
            self._failures += 1
        if self._failures >= MAX_FAILURES:
            return True
        if is_early and is_rejected:
            return False
        is_handshake = isinstance(self.epochs, TrafficKeys) and not self.given and not is_early
        if record.kind == APPLICATION_DATA and not is_handshake:
            self.hole = Hole(record.position, size, size, 1, None, record.marks[-1])
            self._lost += size
            self._lost_records += 1
            if self.epochs is not None and self.epochs.unsure:
                self._is_count_sure = False
        return False

    def end_handshake(self) -> None:
        """End the handshake: earlier losses are no application data, except for early data."""
        if self.has_early_data:
            self._is_count_sure = self.hole is None
        else:
            self.forget_loss()

    def forget_loss(self) -> None:
        """Reset the loss: it had no application data, or was reported by a gap."""
        self.hole = None
        self._lost = self._lost_records = 0
        self._is_count_sure = True

    def _give_gap(self, hole: Hole, out: list[Event]) -> None:
        """Return one gap for everything lost since the last plaintext."""
        overhead = -1 if self.epochs is None else self.epochs.overhead
        is_exact = self._is_count_sure and overhead >= 0 and self.given > 0 and not self._is_padded
        length = self._lost - max(self._lost_records, 1) * (HEADER_SIZE + max(overhead, 0))
        if length < 1:
            is_exact = False
            length = 1
        gap, mark = hole.gap, hole.mark
        out.append(
            Gap(
                self._connection, self.direction, self._position, mark.time_ns, mark.packet,
                mark.ordinal, mark.capture, length, gap is not None and gap.is_acknowledged,
                gap is not None and gap.is_cut, is_exact,
            )
        )  # fmt: skip
        self._position += length
        self.forget_loss()


def captured_size(one: Record | Hole) -> int:
    """Captured stream bytes of a record, including its header, or in a hole."""
    return one.captured if isinstance(one, Hole) else HEADER_SIZE + len(one.body)


def spread(size: int, base: int, marks: list[Mark]) -> list[tuple[int, int, Mark]]:
    """Assign `size` content bytes, the first at stream position `base`, to packets.

    The last byte is assigned to the packet that completed the record.
    """
    parts: list[tuple[int, int, Mark]] = []
    at = 0
    for mark, following in pairwise(marks):
        stop = min(max(following.position - base, 0), size - 1)
        if stop > at:
            parts.append((at, stop, mark))
            at = stop
    if size > at:
        parts.append((at, size, marks[-1]))
    return parts
