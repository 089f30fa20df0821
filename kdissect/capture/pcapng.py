"""The pcapng capture file format (draft-ietf-opsawg-pcapng).

    file    = sections
    section = Section Header Block, then blocks, in the byte order given by the header's magic
    block   = 4 bytes type, 4 bytes total length, content, 4 bytes total length again

Packets come from Enhanced Packet, Simple Packet and the obsolete Packet blocks. Interface
Description blocks have their link type and clock, Interface Statistics blocks the number of packets
the capturing host lost, Decryption Secrets blocks TLS keys, kept in `secrets`. All other blocks and
options are skipped. After a corrupt block, reading resumes at the next Enhanced Packet or Section
Header block whose two lengths agree.

The module is long because the fields of a packet are read in place in either byte order.
"""

import struct

from librt.strings import read_i32_be, read_i64_be, read_i64_le
from mypy_extensions import i64

from kdissect.capture.blocks import (
    BLOCK_FRAME_SIZE,
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    ENHANCED_SIZE,
    INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS,
    MAXIMUM_BLOCK_SIZE,
    MAXIMUM_INTERFACES,
    MAXIMUM_SECRETS_SIZE,
    NUMBERED_BLOCKS,
    OBSOLETE_PACKET,
    ORDER_BIG,
    ORDER_LITTLE,
    PCAPNG_MAGIC,
    SECTION_HEADER,
    SECTION_START_SIZE,
    SIMPLE_PACKET,
    SIMPLE_SIZE,
    Block,
    Secrets,
    find_block,
    read_dropped,
    read_secrets,
)
from kdissect.capture.format_context import SectionLayout
from kdissect.capture.interfaces import Interface, make_interface, resume_interface
from kdissect.capture.packet import Packet
from kdissect.capture.scanner import MAXIMUM_PACKET_SIZE, RESYNC_LIMIT, RESYNC_STEP, U32, Scanner
from kdissect.errors import TruncatedCapture, UnknownCaptureFormat


class PcapngScanner(Scanner):
    """Scanner of pcapng files. Raises `CaptureError`s only for the first section header.

    With `keeps_blocks`, `blocks` are those that a copy of the packets needs; drained by the caller.
    """

    __slots__ = (
        "interfaces", "secrets", "keeps_blocks", "blocks", "_big", "_order", "_has_section",
        "_secrets_size",
    )  # fmt: skip

    def __init__(self, capture: i64 = 0, first_ordinal: i64 = 0) -> None:
        super().__init__(capture, first_ordinal)
        self.interfaces: list[Interface] = []
        self.secrets: list[Secrets] = []
        self.keeps_blocks = False
        self.blocks: list[Block] = []
        self._big = False
        self._order = "<"
        self._has_section = False
        self._secrets_size: i64 = 0
        self._wanted = BLOCK_FRAME_SIZE

    @property
    def layout(self) -> SectionLayout:
        """Context from the blocks so far that later blocks depend on."""
        interfaces = tuple(interface.layout for interface in self.interfaces)
        return SectionLayout(self._big, interfaces, tuple(self.secrets), self._secrets_size)

    def resume(self, layout: SectionLayout) -> None:
        """Resume inside a section, after the blocks described by `layout`."""
        self._big = layout.is_big_endian
        self._order = ">" if self._big else "<"
        self._has_section = True
        self.interfaces = [resume_interface(interface) for interface in layout.interfaces]
        self.secrets = list(layout.secrets)
        self._secrets_size = layout.secrets_size

    def _is_started(self) -> bool:
        return self._has_section

    def _scan_end(self, data: bytes, packets: list[Packet]) -> i64:
        if not self._has_section:
            raise TruncatedCapture(
                f"the file ends inside the pcapng section header: {len(data)} bytes"
            )
        self._at_end = True
        used = self._scan(data, 0, packets)
        self._report_interfaces()
        return used

    def _scan_records(self, data: bytes, at: i64, packets: list[Packet]) -> i64:
        """Scan records, but only up to a corrupt block, which sets `_lost_at`."""
        size: i64 = len(data)
        self._wanted = BLOCK_FRAME_SIZE
        while at + BLOCK_FRAME_SIZE <= size:
            # The first four bytes suffice: a section header may change the byte order.
            if data[at] == 0x0A and data[at : at + 4] == PCAPNG_MAGIC:
                self._set_byte_order(data, at)
                if self._lost_at >= 0:
                    break
            elif not self._has_section:
                self._lose(at, f"it starts with {data[at : at + 4].hex(' ')}")
            if self._big:
                head = read_i64_be(data, at)
                kind = head >> 32 & U32
                length = head & U32
            else:
                head = read_i64_le(data, at)
                kind = head & U32
                length = head >> 32 & U32
            if length < BLOCK_FRAME_SIZE or length & 3 or length > MAXIMUM_BLOCK_SIZE:
                self._lose(at, f"block length {length}")
                break
            end = at + length
            if end > size:
                self._wanted = length
                break
            if read_i32_be(data, at + 4) != read_i32_be(data, end - 4):
                # An incomplete file that ends before `end` would have waited for it.
                self._examined = max(self._examined, self._origin + end)
                self._lose(at, f"block of type {kind} with two different lengths")
                break
            if kind in (ENHANCED_PACKET, OBSOLETE_PACKET):
                self._read_packet(data, at, kind, length, packets)
            else:
                self._read_block(data, at, kind, length, packets)
                if self._lost_at >= 0:
                    self._examined = max(self._examined, self._origin + end)
                    break
            at = end
        return at

    def _read_packet(
        self, data: bytes, at: i64, kind: i64, length: i64, packets: list[Packet]
    ) -> None:
        """Read an Enhanced Packet Block, or the obsolete kind with a 16-bit interface."""
        if length < ENHANCED_SIZE:
            self._report_block("packet block too short", at, length)
            return
        if self._big:
            first = read_i64_be(data, at + 8)
            second = read_i64_be(data, at + 16)
            index = first >> 32 & U32
            high = first & U32
            low = second >> 32 & U32
            captured = second & U32
            if kind == OBSOLETE_PACKET:
                index >>= 16
            original = read_i64_be(data, at + 24) >> 32 & U32
        else:
            first = read_i64_le(data, at + 8)
            second = read_i64_le(data, at + 16)
            index = first & U32
            high = first >> 32 & U32
            low = second & U32
            captured = second >> 32 & U32
            original = read_i64_le(data, at + 24) & U32
        if kind == OBSOLETE_PACKET:
            # The other half is the number of packets lost since the last one.
            index &= 0xFFFF
        if captured > length - ENHANCED_SIZE or captured > MAXIMUM_PACKET_SIZE:
            self._report_block(f"captured length {captured} of a packet block", at, length)
            return
        if index >= len(self.interfaces):
            self._report_block(f"packet of interface {index}, which is not described", at, length)
            return
        interface = self.interfaces[index]
        self.last_time_ns = interface.time_of(high, low)
        self._append(data, at + 28, captured, original, interface.link_type, packets)

    def _append(
        self,
        data: bytes,
        start: i64,
        captured: i64,
        original: i64,
        link_type: i64,
        packets: list[Packet],
    ) -> None:
        number = self.number + 1
        self.number = number
        if self.counts_only:
            self._count_time(self.last_time_ns)
            return
        end = start + captured
        self._add(packets, number, self.last_time_ns, link_type, data, start, end, original)

    def _read_block(
        self, data: bytes, at: i64, kind: i64, length: i64, packets: list[Packet]
    ) -> None:
        """Read any other kind of block."""
        content = data[at + 8 : at + length - 4]
        try:
            if kind == SIMPLE_PACKET:
                self._read_simple(data, at, length, packets)
            elif kind == SECTION_HEADER:
                self._read_section_header(content, at)
            elif kind == INTERFACE_DESCRIPTION:
                self._read_interface(content, at)
            elif kind == INTERFACE_STATISTICS:
                self._read_dropped(content)
            elif kind == DECRYPTION_SECRETS:
                self._read_secrets(content, at)
            elif kind in NUMBERED_BLOCKS:
                # Not a packet, so it has no ordinal.
                self.number += 1
                self.first_ordinal -= 1
        except struct.error:
            self._report_block(f"block of type {kind} is too short", at, length)

    def _read_simple(self, data: bytes, at: i64, length: i64, packets: list[Packet]) -> None:
        """Read a packet of interface 0 without a time: it gets the time of the one before."""
        if length < SIMPLE_SIZE or not self.interfaces:
            self._report_block("Simple Packet Block without interface or length", at, length)
            return
        interface = self.interfaces[0]
        original: i64 = struct.unpack_from(self._order + "I", data, at + 8)[0]
        captured = min(original, length - SIMPLE_SIZE)
        if 0 < interface.snap_length < captured:
            captured = interface.snap_length
        if captured > MAXIMUM_PACKET_SIZE:
            self._report_block(f"captured length {captured} of a packet block", at, length)
            return
        self.last_time_ns = max(self.last_time_ns, 0)
        self._keep(SIMPLE_PACKET, b"")
        self._append(data, at + 12, captured, original, interface.link_type, packets)

    def _set_byte_order(self, data: bytes, at: i64) -> None:
        magic = data[at + 8 : at + SECTION_START_SIZE]
        if magic in (ORDER_BIG, ORDER_LITTLE):
            self._big = magic == ORDER_BIG
            self._order = ">" if self._big else "<"
        else:
            self._lose(at, f"section header with byte order magic {magic.hex(' ')}")

    def _read_section_header(self, content: bytes, at: i64) -> None:
        """Start a section: the interfaces described so far no longer apply."""
        major: int = struct.unpack_from(self._order + "4xH10x", content, 0)[0]
        if major != 1:
            self._lose(at, f"section header of unknown version {major}")
            return
        self._report_interfaces()
        self.interfaces = []
        self._has_section = True
        self._keep(SECTION_HEADER, content)

    def _read_interface(self, content: bytes, at: i64) -> None:
        if len(self.interfaces) >= MAXIMUM_INTERFACES:
            self._report_block("too many interfaces: this one is not used", at, len(content))
            return
        self.interfaces.append(make_interface(content, self._order))
        self._keep(INTERFACE_DESCRIPTION, content)

    def _read_dropped(self, content: bytes) -> None:
        dropped = read_dropped(content, self._order)
        if dropped.interface < len(self.interfaces) and dropped.packets < 1 << 63:
            # The counts are totals from the start of the capture, so the last block suffices.
            self.interfaces[dropped.interface].dropped = dropped.packets

    def _read_secrets(self, content: bytes, at: i64) -> None:
        self._secrets_size += len(content)
        if self._secrets_size > MAXIMUM_SECRETS_SIZE:
            self._report_block("too many secrets: this block is not kept", at, len(content))
        else:
            self.secrets.append(read_secrets(content, self._order))
            self._keep(DECRYPTION_SECRETS, content)

    def _keep(self, kind: i64, content: bytes) -> None:
        if self.keeps_blocks:
            self.blocks.append(Block(self.number, kind, content, self._order))

    def _resynchronise(self, data: bytes, at: i64) -> i64:
        """Search the next block; if found, `_lost_at` is -1 and it starts at the returned index."""
        if self._origin + at == self._lost_at:
            at += 1
        found: i64 = -1
        if self._origin + at - self._lost_at <= RESYNC_LIMIT:
            block = find_block(data, at, self._order, self._at_end)
            self._examined = max(self._examined, self._origin + block.examined)
            # The search ends at the same place regardless of the sizes fed.
            if self._origin + block.at - self._lost_at <= RESYNC_LIMIT:
                found = block.at
                if block.is_sure:
                    self._report_lost(self._origin + found, "then the blocks go on")
                    return found
        if found < 0:
            # Three bytes may be the beginning of a block type.
            found = max(at, len(data) - 3)
        self._wanted = len(data) - found + RESYNC_STEP
        return found

    def _lose(self, at: i64, reason: str) -> None:
        """Skip unreadable bytes at `at`; without a section header, the rest is unreadable too."""
        if not self._has_section:
            raise UnknownCaptureFormat(f"not a pcapng file: {reason} at offset {at}")
        self._lost_at = self._origin + at
        self._reason = reason

    def _report_block(self, message: str, at: i64, length: i64) -> None:
        """Report a skipped block; the ones after it are not affected."""
        self._report_record("corrupt-record", f"{message}, offset {self._origin + at}", length)

    def _report_interfaces(self) -> None:
        """Report the problems of the interfaces at the end of their section."""
        for index, interface in enumerate(self.interfaces):
            for kind, message in interface.complaints(index):
                self._report_record(kind, message, 0)
