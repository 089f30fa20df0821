"""`Scanner`: common part of the scanners of all capture formats.

In: the bytes of one uncompressed capture file, in pieces of any size. Out: its packets, in order.
Independent of files, of the size of the pieces and of compression.

Packets refer to the piece they were fed in, so pieces are never copied. Only a record that spans
two pieces is reassembled in a separate buffer.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.capture.packet import Packet
from kdissect.errors import Problem

U32: Final = 0xFFFFFFFF
# Captured bytes of one packet. libpcap and Wireshark stop at 256 KiB; Linux builds GRO packets of
# up to 512 KiB (GSO_MAX_SIZE), so twice that. A larger length is invalid and would swallow the
# file.
MAXIMUM_PACKET_SIZE: Final = 1 << 20
# Bytes searched for the next record after a corrupt one, before the rest of the file is given up.
RESYNC_LIMIT: Final = 16 << 20
# Bytes requested at a time while searching.
RESYNC_STEP: Final = 1 << 16
LATEST_NS: Final = (1 << 63) - 1  # the year 2262
FIRST_SEARCH: Final = 256  # bytes


@mypyc_attr(allow_interpreted_subclasses=False)
class Scanner:
    """Scans one capture file for packets; `problems` is drained by the caller.

    `capture` is the index of the file and `first_ordinal` the number of packets of the files before
    it: both are set on the packets. `number` is the number of the last packet returned. With
    `counts_only`, packets are counted as usual, but not returned; `earliest_ns` and `latest_ns` are
    then the bounds of their times, the former being greater when there were none.
    """

    __slots__ = (
        "capture", "first_ordinal", "number", "problems", "last_time_ns", "counts_only",
        "earliest_ns", "latest_ns", "_carry", "_wanted", "_origin", "_fed", "_lost_at", "_reason",
        "_at_end", "_examined", "_spare", "_filled",
    )  # fmt: skip

    def __init__(self, capture: i64 = 0, first_ordinal: i64 = 0) -> None:
        self.capture: i64 = capture
        self.first_ordinal: i64 = first_ordinal
        self.number: i64 = 0
        self.problems: list[Problem] = []
        self.last_time_ns: i64 = -1
        self.counts_only = False
        self.earliest_ns: i64 = LATEST_NS
        self.latest_ns: i64 = -1
        # The beginning of a record whose end was not fed yet.
        self._carry = b""
        # Bytes, from the first unused one on, that `_scan` needs to make progress.
        self._wanted: i64 = 0
        # File offset of the first byte of the buffer that is being scanned.
        self._origin: i64 = 0
        self._fed: i64 = 0
        # File offset of the corrupt record, while the next valid one is searched; else -1.
        self._lost_at: i64 = -1
        self._reason = ""
        # The last bytes of the file are being scanned: no more follow.
        self._at_end = False
        # File offset up to which bytes were examined in the search for the next valid record.
        self._examined: i64 = 0
        # The list of a batch that was given back, and how much of the current one is filled.
        self._spare: list[Packet] = []
        self._filled: i64 = 0

    def start_at(self, offset: i64, number: i64, ordinal: i64, last_time_ns: i64) -> None:
        """Start in the middle: the next byte is that at `offset`, where a record starts.

        The next packet has the `number` and `ordinal`; the last one before had `last_time_ns`.
        """
        self._fed = offset
        self.number = number - 1
        self.first_ordinal = ordinal - number
        self.last_time_ns = last_time_ns

    def forget_times(self) -> None:
        """Reset `earliest_ns` and `latest_ns`."""
        self.earliest_ns = LATEST_NS
        self.latest_ns = -1

    @property
    def record_start(self) -> int:
        """File offset of the first record not read yet, where the file may be split, else -1.

        It may not be split before the end of the file header, nor where the bytes after it decided
        which record before it is the first valid one after a corrupt one.
        """
        start = self._fed - len(self._carry)
        if self._lost_at >= 0 or start < self._examined or not self._is_started():
            return -1
        return start

    def _count_time(self, time_ns: i64) -> None:
        self.earliest_ns = min(self.earliest_ns, time_ns)
        self.latest_ns = max(self.latest_ns, time_ns)

    def _is_started(self) -> bool:
        """Return whether the file's header was read."""
        raise NotImplementedError

    def feed(self, data: bytes) -> list[Packet]:
        """Feed the next bytes of the file; return the packets that are complete now."""
        packets = self._spare
        self._spare = []
        self._filled = 0
        start: i64 = 0
        if self._carry:
            start = self._scan_carry(data, packets)
        if start < len(data):
            self._origin = self._fed
            used = self._scan(data, start, packets)
            self._carry = data[used:]
        self._fed += len(data)
        if self._filled < len(packets):
            del packets[self._filled :]
        return packets

    def give_back(self, packets: list[Packet]) -> None:
        """Take back a batch to which nothing else refers: the next `feed` overwrites its packets.

        To make and free a packet would take a fifteenth of all work on it.
        """
        self._spare = packets

    def finish(self) -> list[Packet]:
        """Return the last packets of the file, if any; a truncated record becomes a `Problem`."""
        packets: list[Packet] = []
        self._spare = []
        self._filled = 0
        data = self._carry
        self._carry = b""
        self._origin = self._fed - len(data)
        rest = data[self._scan_end(data, packets) :]
        if self._lost_at >= 0:
            self._report_lost(self._fed, "no further packet was found")
        elif rest:
            self._report_cut(rest)
        return packets

    def _scan_carry(self, data: bytes, packets: list[Packet]) -> i64:
        """Complete the carried-over record, with no more bytes of `data` than it needs.

        Return the index of the first byte of `data` that is not used.
        """
        start: i64 = 0
        size: i64 = len(data)
        while self._carry and start < size:
            carried: i64 = len(self._carry)
            end: i64 = start + self._wanted - carried
            if end > size:
                self._carry += data[start:]
                return size
            buffer = self._carry + data[start:end]
            self._origin = self._fed + start - carried
            self._carry = buffer[self._scan(buffer, 0, packets) :]
            start = end
        return start

    def _scan(self, data: bytes, start: i64, packets: list[Packet]) -> i64:
        """Append the packets of ``data[start:]``; return the index of the first byte not used.

        `_wanted` is then more than the number of bytes left.
        """
        while True:
            if self._lost_at >= 0:
                start = self._resynchronise(data, start)
                if self._lost_at >= 0:
                    return start
            start = self._scan_records(data, start, packets)
            if self._lost_at < 0:
                return start

    def _add(
        self,
        packets: list[Packet],
        number: i64,
        time_ns: i64,
        link_type: i64,
        data: bytes,
        start: i64,
        end: i64,
        original: i64,
    ) -> None:
        """Add a packet to the batch: a spare one overwritten, or a new one."""
        filled = self._filled
        self._filled = filled + 1
        length = original if original > end - start else end - start
        ordinal = self.first_ordinal + number
        if filled == len(packets):
            capture = self.capture
            packets.append(
                Packet(number, time_ns, link_type, data, start, end, length, ordinal, capture)
            )
            return
        packet = packets[filled]
        packet.number = number
        packet.time_ns = time_ns
        packet.link_type = link_type
        if packet.data is not data:
            packet.data = data
        packet.start = start
        packet.end = end
        packet.original_length = length
        packet.ordinal = ordinal
        packet.capture = self.capture

    def _scan_records(self, data: bytes, at: i64, packets: list[Packet]) -> i64:
        """Scan records, but only up to a corrupt one, which sets `_lost_at`."""
        raise NotImplementedError

    def _resynchronise(self, data: bytes, at: i64) -> i64:
        """Search the next valid record; if found, `_lost_at` is -1 and its index is returned."""
        raise NotImplementedError

    def _scan_end(self, data: bytes, packets: list[Packet]) -> i64:
        """Scan the last bytes of the file, when no more can follow."""
        raise NotImplementedError

    def _report_cut(self, rest: bytes) -> None:
        """Report `rest`, a record truncated by the end of the file."""
        wanted = f" of {self._wanted}" if self._wanted > len(rest) else ""
        self.problems.append(
            Problem(
                "capture",
                "truncated-packet",
                f"the file ends inside a record: {len(rest)}{wanted} bytes "
                f"at offset {self._fed - len(rest)}",
                self.last_time_ns,
                self.number + 1,
                len(rest),
                capture=self.capture,
            )
        )

    def _report_lost(self, found_at: i64, outcome: str) -> None:
        """End the search that began at `_lost_at`; the bytes up to `found_at` are skipped."""
        skipped = found_at - self._lost_at
        self.problems.append(
            Problem(
                "capture",
                "corrupt-record",
                f"{self._reason} at offset {self._lost_at}; {skipped} bytes skipped, {outcome}",
                self.last_time_ns,
                self.number + 1,
                skipped,
                capture=self.capture,
            )
        )
        self._lost_at = -1

    def _report_record(self, kind: str, message: str, size: i64) -> None:
        """Report a problem with one record of `size` bytes that does not stop the scanner."""
        self.problems.append(
            Problem(
                "capture",
                kind,
                message,
                self.last_time_ns,
                self.number + 1,
                size,
                capture=self.capture,
            )
        )


def find_either(data: bytes, first: bytes, second: bytes, at: i64) -> i64:
    """Index of `first` or `second`, of equal size, from `at` on; the end if not found.

    Searches in steps that double in size: a value that never occurs is not searched up to the end
    each time.
    """
    end: i64 = len(data)
    size: i64 = len(first)
    step: i64 = FIRST_SEARCH
    while at < end:
        stop = at + step
        found: i64 = data.find(first, at, stop + size - 1)
        other: i64 = data.find(second, at, (found if found >= 0 else stop) + size - 1)
        if other >= 0:
            return other
        if found >= 0:
            return found
        at = stop
        step *= 2
    return end
