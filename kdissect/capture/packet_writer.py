"""Write packets as read: the same bytes, lengths and times, in pcapng or pcap.

pcapng: one little-endian section. Interfaces keep their options and clock; identical ones of
several files or sections are written once. Packets keep their options; comments may be added. Other
blocks (statistics, host names) are not written, and Decryption Secrets only on request.

    EPB = 4 bytes interface, 2 x 4 bytes time, 4 bytes captured length, 4 bytes original length,
          the captured bytes, padding, options
"""

import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import IO, Final, Protocol

from kdissect.capture.blocks import (
    BLOCK_FRAME_SIZE,
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    INTERFACE_DESCRIPTION,
    MAXIMUM_INTERFACES,
    OBSOLETE_PACKET,
    ORDER_LITTLE,
    SECTION_HEADER,
    SIMPLE_PACKET,
    Block,
    Option,
    read_options,
    read_secrets,
)
from kdissect.capture.format_context import PcapLayout
from kdissect.capture.interfaces import IF_TSOFFSET, IF_TSRESOL
from kdissect.capture.packet import SECOND_NS, Packet
from kdissect.capture.pcap import FILE_HEADER_SIZE, NANOSECONDS
from kdissect.errors import OutputError

LITTLE: Final = "<"
OPT_COMMENT: Final = 1
SHB_USERAPPL: Final = 4
# Numeric options of packets and interfaces: code → format.
PACKET_NUMBERS: Final = {2: "I", 4: "Q", 5: "Q", 6: "I"}
INTERFACE_NUMBERS: Final = {8: "Q", 10: "I", 14: "q"}
# Of the options of an obsolete Packet Block only these mean the same: comment and flags.
OBSOLETE_OPTIONS: Final = (OPT_COMMENT, 2)
LONGEST_OPTION: Final = 0xFFFF
PACKET_FIELDS: Final = 28  # from the start of the block to the packet's bytes
IN_US: Final = Option(IF_TSRESOL, b"\x06")
IN_NS: Final = Option(IF_TSRESOL, b"\x09")
LARGEST_SNAP_LENGTH: Final = 262_144
LAST_SECOND: Final = 0xFFFFFFFF
UNKNOWN_SECTION_LENGTH: Final = -1


class Copier(Protocol):
    """Copies chosen packets of a capture opened with `keeps_blocks`, in its order.

    `pass_over` is called now and then with the last packets, chosen or not: numbers by file.
    `content` is written in place of the packet's bytes; it has the same length.
    """

    def write(self, packet: Packet, comment: str, content: bytes | None = None) -> None: ...

    def pass_over(self, numbers: Mapping[int, int]) -> None: ...

    def finish(self) -> None: ...


class Blocks(Protocol):
    """What a pcapng file is written from: an open capture."""

    @property
    def names(self) -> Sequence[str]: ...

    def layout(self, capture: int) -> PcapLayout | None: ...

    def take_blocks(self, capture: int) -> list[Block]: ...


class _Origin:
    """State of one input file."""

    def __init__(self) -> None:
        self.order = LITTLE
        # Interfaces: the numbers they were written with, the content of the first one.
        self.interfaces: list[int] = []
        self.first = b""
        self.blocks: list[Block] = []
        # Number of the packet of the last Simple Packet Block.
        self.simple = -1


class PcapngCopier:
    """Writes pcapng; with `with_secrets`, the keys of TLS sessions are written too."""

    def __init__(
        self, file: IO[bytes], capture: Blocks, comment: str, program: str, with_secrets: bool
    ) -> None:
        self._file = file
        self._capture = capture
        self._with_secrets = with_secrets
        self._origins = [_Origin() for _ in capture.names]
        # Digest of the content and position in the section → number.
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._secrets: set[bytes] = set()
        version = struct.pack("<HHq", 1, 0, UNKNOWN_SECTION_LENGTH)
        options = [Option(OPT_COMMENT, text_value(comment)), Option(SHB_USERAPPL, program.encode())]
        self._block(SECTION_HEADER, ORDER_LITTLE + version + packed_options(options))

    def write(self, packet: Packet, comment: str, content: bytes | None = None) -> None:
        """Write the packet, adding the comment to existing ones."""
        data = packet.data[packet.start : packet.end] if content is None else content
        origin = self._origins[packet.capture]
        self._follow(packet.capture, origin, packet.number)
        layout = self._capture.layout(packet.capture)
        added = [Option(OPT_COMMENT, text_value(comment))]
        if layout is not None:
            number = self._of_pcap(layout)
            self._packet(packet, data, number, packet.time_ns // layout.fraction_ns, added)
        elif origin.simple == packet.number:
            # Without a timestamp of its own; the interface's clock may be too coarse for the one
            # assigned.
            self._packet(packet, data, self._in_ns(origin.first), packet.time_ns, added)
        else:
            self._enhanced(packet, data, origin, added)

    def pass_over(self, numbers: Mapping[int, int]) -> None:
        """Process the blocks up to these packets, so that they do not accumulate."""
        for index, number in numbers.items():
            self._follow(index, self._origins[index], number + 1)

    def finish(self) -> None:
        """Finish the capture: blocks after the last packet may matter, too."""
        for index, origin in enumerate(self._origins):
            self._follow(index, origin, None)

    def _follow(self, index: int, origin: _Origin, number: int | None) -> None:
        """Process the blocks before packet `number`; all of them if None."""
        origin.blocks += self._capture.take_blocks(index)
        taken = 0
        for block in origin.blocks:
            if number is not None and block.number >= number:
                break
            self._take(origin, block)
            taken += 1
        del origin.blocks[:taken]

    def _take(self, origin: _Origin, block: Block) -> None:
        if block.kind == SECTION_HEADER:
            origin.order = block.order
            origin.interfaces = []
        elif block.kind == INTERFACE_DESCRIPTION:
            place = len(origin.interfaces)
            content = described(block)
            origin.first = content if place == 0 else origin.first
            origin.interfaces.append(self._interface(content, place))
        elif block.kind == SIMPLE_PACKET:
            origin.simple = block.number + 1
        elif block.kind == DECRYPTION_SECRETS and self._with_secrets:
            self._write_secrets(block)

    def _of_pcap(self, layout: PcapLayout) -> int:
        """The only interface of a pcap file."""
        clock = IN_NS if layout.fraction_ns == 1 else IN_US
        content = struct.pack("<HHI", layout.link_type & 0xFFFF, 0, layout.snap_length)
        return self._interface(content + packed_options([clock]), 0)

    def _in_ns(self, content: bytes) -> int:
        """The same interface with a clock in ns."""
        options = read_options(content, 8, LITTLE)
        others = [one for one in options if one.code not in (IF_TSRESOL, IF_TSOFFSET)]
        return self._interface(content[:8] + packed_options([*others, IN_NS]), 0)

    def _interface(self, content: bytes, place: int) -> int:
        """Number of the interface; written unless an identical one is in the same position."""
        key = sha256(content).digest(), place
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            if number == MAXIMUM_INTERFACES:
                raise OutputError(f"a slice has at most {MAXIMUM_INTERFACES} different interfaces")
            self._block(INTERFACE_DESCRIPTION, content)
        return number

    def _enhanced(
        self, packet: Packet, written: bytes, origin: _Origin, added: list[Option]
    ) -> None:
        """The packet of the Enhanced or obsolete Packet Block that surrounds its bytes."""
        data, order = packet.data, origin.order
        start = packet.start - PACKET_FIELDS
        kind, length, interface, high, low = struct.unpack_from(order + "5I", data, start)
        if kind == OBSOLETE_PACKET:
            interface = struct.unpack_from(order + "H", data, start + 8)[0]
        size = packet.end - packet.start
        behind = data[packet.end + -size % 4 : start + length - 4]
        options = [
            in_little_endian(option, order, PACKET_NUMBERS)
            for option in read_options(behind, 0, order)
            if kind == ENHANCED_PACKET or option.code in OBSOLETE_OPTIONS
        ]
        number = origin.interfaces[interface]
        self._packet(packet, written, number, high << 32 | low, options + added)

    def _packet(
        self,
        packet: Packet,
        data: bytes,
        interface: int,
        timestamp: int,
        options: Sequence[Option],
    ) -> None:
        fields = struct.pack(
            "<5I", interface, timestamp >> 32 & 0xFFFFFFFF, timestamp & 0xFFFFFFFF,
            len(data), packet.original_length,
        )  # fmt: skip
        self._block(ENHANCED_PACKET, fields + padded(data) + packed_options(options))

    def _write_secrets(self, block: Block) -> None:
        kind, content = read_secrets(block.content, block.order)
        written = struct.pack("<II", kind, len(content)) + padded(content)
        if written not in self._secrets:
            self._secrets.add(written)
            self._block(DECRYPTION_SECRETS, written)

    def _block(self, kind: int, content: bytes) -> None:
        length = struct.pack("<I", len(content) + BLOCK_FRAME_SIZE)
        self._file.write(struct.pack("<I", kind) + length + content + length)


class PcapCopier:
    """Writes pcap with ns timestamps; one link type and no comments."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._link_type = -1

    def write(self, packet: Packet, comment: str, content: bytes | None = None) -> None:
        """Write the packet without the comment."""
        if self._link_type < 0:
            self._link_type = packet.link_type
            header = struct.pack(
                "<IHHIIII", NANOSECONDS, 2, 4, 0, 0, LARGEST_SNAP_LENGTH, packet.link_type
            )
            assert len(header) == FILE_HEADER_SIZE  # noqa: S101  # of the format
            self._file.write(header)
        if packet.link_type != self._link_type:
            kinds = f"{self._link_type} and {packet.link_type}"
            raise OutputError(
                f"a pcap file has packets of one link type, these are of {kinds}: write pcapng"
            )
        seconds, fraction = divmod(packet.time_ns, SECOND_NS)
        size = packet.end - packet.start
        if seconds > LAST_SECOND:
            raise OutputError("pcap has no times after 2106: write pcapng")
        self._file.write(struct.pack("<4I", seconds, fraction, size, packet.original_length))
        self._file.write(packet.data[packet.start : packet.end] if content is None else content)

    def pass_over(self, numbers: Mapping[int, int]) -> None:
        """Do nothing: packets depend on the link type only, which they have."""

    def finish(self) -> None:
        """Do nothing: nothing follows the packets."""


def described(block: Block) -> bytes:
    """Content of an Interface Description Block in little-endian."""
    link_type, reserved, snap_length = struct.unpack_from(block.order + "HHI", block.content)
    options = read_options(block.content, 8, block.order)
    return struct.pack("<HHI", link_type, reserved, snap_length) + packed_options(
        [in_little_endian(option, block.order, INTERFACE_NUMBERS) for option in options]
    )


def in_little_endian(option: Option, order: str, numbers: dict[int, str]) -> Option:
    """Convert an option from byte order `order`; `numbers` are the codes of numeric options."""
    form = numbers.get(option.code)
    if order == LITTLE or form is None or len(option.value) != struct.calcsize(LITTLE + form):
        return option
    number = struct.unpack(order + form, option.value)[0]
    return Option(option.code, struct.pack(LITTLE + form, number))


def packed_options(options: Sequence[Option]) -> bytes:
    """Options and their end mark."""
    parts = [
        struct.pack("<HH", option.code, len(option.value)) + padded(option.value)
        for option in options
    ]
    return b"".join(parts) + bytes(4)


def padded(data: bytes) -> bytes:
    """Pad to a multiple of 4 bytes."""
    return data + bytes(-len(data) % 4)


def text_value(text: str) -> bytes:
    """Encode a text, truncated to the size of an option."""
    return text.encode("utf-8", "replace")[:LONGEST_OPTION]
