"""The classic capture file format of libpcap (draft-ietf-opsawg-pcap).

    file   = magic, 2 x 2 bytes version, 2 x 4 bytes unused, 4 bytes snaplen, 4 bytes link type,
             then records
    record = 4 bytes seconds, 4 bytes fraction, 4 bytes captured length, 4 bytes original length,
             (modified format: 8 bytes more,) then the captured bytes

The magic number gives the byte order, the unit of the fraction (µs or ns), and the modified format
of A. Kuznetzov's Linux patches. Records have no start marker, so after a corrupt one the next is
guessed (by plausible times), confirmed by the records after it, and then trusted.
"""

import struct
from typing import Final, Literal

from librt.strings import read_i64_be, read_i64_le
from mypy_extensions import i64

from kdissect.capture.format_context import PcapLayout
from kdissect.capture.packet import SECOND_NS, Packet
from kdissect.capture.scanner import (
    MAXIMUM_PACKET_SIZE,
    RESYNC_LIMIT,
    RESYNC_STEP,
    U32,
    Scanner,
    find_either,
)
from kdissect.errors import TruncatedCapture, UnknownCaptureFormat

MICROSECONDS: Final = 0xA1B2C3D4
NANOSECONDS: Final = 0xA1B23C4D
MODIFIED: Final = 0xA1B2CD34
# Magic numbers as the first four bytes of a file, in either byte order.
U16: Final = 0xFFFF

PCAP_MAGICS: Final = frozenset(
    magic.to_bytes(4, order)
    for magic in (MICROSECONDS, NANOSECONDS, MODIFIED)
    for order in ("big", "little")
)

FILE_HEADER_SIZE: Final = 24
RECORD_HEADER_SIZE: Final = 16
MODIFIED_HEADER_SIZE: Final = 24
# The link type field also holds the length of the frame check sequence in its upper six bits.
LINK_TYPE_MASK: Final = 0x03FFFFFF

# Consecutive records that must be plausible after a corrupt one before the first of them is
# accepted. One of them alone: 2 of 16 bytes by the search, lengths below 2^20 (24 of 64 bits) and a
# fraction below 10^6 (12 of 32 bits): a random match has a chance of 1 in 2^52.
CONFIRMING_RECORDS: Final = 3
REFUTED: Final = -1
UNDECIDED: Final = -2
CONFIRMED: Final = 0


class PcapScanner(Scanner):
    """Scanner of pcap files. Raises `CaptureError`s only for the file header."""

    __slots__ = ("link_type", "snap_length", "_big", "_fraction_ns", "_header_size")

    def __init__(self, capture: i64 = 0, first_ordinal: i64 = 0) -> None:
        super().__init__(capture, first_ordinal)
        self.link_type: i64 = -1
        self.snap_length: i64 = 0
        self._big = False
        self._fraction_ns: i64 = 1
        # 0 until the file header has been read.
        self._header_size: i64 = 0
        self._wanted = FILE_HEADER_SIZE

    @property
    def layout(self) -> PcapLayout:
        """Layout from the file header."""
        return PcapLayout(
            self._big, self._fraction_ns, self._header_size, self.snap_length, self.link_type
        )

    def resume(self, layout: PcapLayout) -> None:
        """Resume after the file header, which has this `layout`."""
        self._big = layout.is_big_endian
        self._fraction_ns = layout.fraction_ns
        self._header_size = layout.record_header_size
        self.snap_length = layout.snap_length
        self.link_type = layout.link_type

    def _is_started(self) -> bool:
        return self._header_size > 0

    def _scan_end(self, data: bytes, packets: list[Packet]) -> i64:
        if self._header_size == 0:
            raise TruncatedCapture(
                f"the file ends inside the pcap file header: {len(data)} of 24 bytes"
            )
        self._at_end = True
        return self._scan(data, 0, packets)

    def _read_file_header(self, header: bytes) -> None:
        if header[:4] not in PCAP_MAGICS:
            raise UnknownCaptureFormat(f"not a pcap file: it starts with {header[:4].hex(' ')}")
        self._big = header[0] == 0xA1
        order = ">" if self._big else "<"
        magic, snap_length, link_type = struct.unpack(order + "I12xII", header)
        self._fraction_ns = 1 if magic == NANOSECONDS else 1000
        self._header_size = MODIFIED_HEADER_SIZE if magic == MODIFIED else RECORD_HEADER_SIZE
        self.snap_length = snap_length
        self.link_type = link_type & LINK_TYPE_MASK

    def _scan_records(self, data: bytes, at: i64, packets: list[Packet]) -> i64:
        """Scan records up to the end of `data` or, with `_lost_at` set, to a corrupt one."""
        size: i64 = len(data)
        if self._header_size == 0:
            if size - at < FILE_HEADER_SIZE:
                return at
            self._read_file_header(data[at : at + FILE_HEADER_SIZE])
            at += FILE_HEADER_SIZE
        header_size = self._header_size
        fraction_ns = self._fraction_ns
        link_type = self.link_type
        number = self.number
        time_ns = self.last_time_ns
        is_big = self._big
        counts_only = self.counts_only
        self._wanted = header_size
        while at + header_size <= size:
            if is_big:
                time = read_i64_be(data, at)
                lengths = read_i64_be(data, at + 8)
                seconds = time >> 32 & U32
                fraction = time & U32
                captured = lengths >> 32 & U32
                original = lengths & U32
            else:
                time = read_i64_le(data, at)
                lengths = read_i64_le(data, at + 8)
                seconds = time & U32
                fraction = time >> 32 & U32
                captured = lengths & U32
                original = lengths >> 32 & U32
            # A hole in a sparse file reads as zeros, which would pass for empty packets.
            if captured > MAXIMUM_PACKET_SIZE or (time == 0 and lengths == 0):
                self._lose(at, captured)
                break
            end = at + header_size + captured
            if end > size:
                self._wanted = end - at
                break
            number += 1
            # Both fields below 2^32: less than 4.3e18 + 4.3e12 ns, within 63 bits.
            time_ns = seconds * SECOND_NS + fraction * fraction_ns
            if counts_only:
                self._count_time(time_ns)
                at = end
                continue
            self._add(packets, number, time_ns, link_type, data, at + header_size, end, original)
            at = end
        self.number = number
        self.last_time_ns = time_ns
        return at

    def _lose(self, at: i64, captured: i64) -> None:
        self._lost_at = self._origin + at
        if captured == 0:
            self._reason = "record header of zeros"
        else:
            self._reason = f"record length {captured}, more than {MAXIMUM_PACKET_SIZE},"

    def _resynchronise(self, data: bytes, at: i64) -> i64:
        """Search the next record; if found, `_lost_at` is -1 and its index is returned."""
        size: i64 = len(data)
        last: i64 = size - self._header_size
        if self.last_time_ns < 0 or self._origin + at - self._lost_at > RESYNC_LIMIT:
            self._wanted = RESYNC_STEP
            return max(at, last + 1)
        # The upper half of the seconds changes every 65 536 s. The one of 2106 has no successor,
        # and a fraction of more than a second may even be beyond it.
        upper: int = min(self.last_time_ns // SECOND_NS >> 16, U16)
        order: Literal["big", "little"] = "big" if self._big else "little"
        now = upper.to_bytes(2, order)
        soon = min(upper + 1, U16).to_bytes(2, order)
        # In little-endian, the upper half is two bytes after the start.
        ahead: i64 = 0 if self._big else 2
        while True:
            candidate = find_either(data, now, soon, at + ahead) - ahead
            # The search ends at the same place regardless of the sizes fed.
            if candidate > last or self._origin + candidate - self._lost_at > RESYNC_LIMIT:
                self._wanted = RESYNC_STEP
                return max(at, last + 1)
            verdict = self._confirm(data, candidate)
            if verdict == CONFIRMED:
                self._report_lost(self._origin + candidate, "then the records go on")
                return candidate
            if verdict == UNDECIDED:
                return candidate
            at = candidate + 1

    def _confirm(self, data: bytes, at: i64) -> i64:
        """Probe for records at `at`: CONFIRMED, REFUTED or, for lack of bytes, UNDECIDED."""
        size: i64 = len(data)
        first = at
        for _ in range(CONFIRMING_RECORDS):
            if at == size and self._at_end and at > first:
                return CONFIRMED
            if at + self._header_size > size:
                # One record more: the bytes held are copied each time more are fed.
                self._wanted = at + self._header_size - first + RESYNC_STEP
                return REFUTED if self._at_end else UNDECIDED
            self._examined = max(self._examined, self._origin + at + self._header_size)
            captured = self._plausible_length(data, at)
            if captured < 0:
                return REFUTED
            at += self._header_size + captured
        return CONFIRMED

    def _plausible_length(self, data: bytes, at: i64) -> i64:
        """Captured length of the record at `at`, -1 if it is not plausible as a record."""
        order = ">IIII" if self._big else "<IIII"
        seconds, fraction, captured, original = struct.unpack_from(order, data, at)
        drift = (seconds >> 16) - (self.last_time_ns // SECOND_NS >> 16)
        is_plausible = bool(
            0 <= drift <= 1
            and fraction * self._fraction_ns < SECOND_NS
            and 0 < captured <= MAXIMUM_PACKET_SIZE
            and captured <= original <= MAXIMUM_PACKET_SIZE
        )
        return captured if is_plausible else -1
