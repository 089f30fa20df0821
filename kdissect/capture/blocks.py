"""Blocks of a pcapng file that are not packets, and the common block structure.

    block  = 4 bytes type, 4 bytes total length, content, 4 bytes total length again
    option = 2 bytes code, 2 bytes length, value, padding to a multiple of 4 bytes

`order` is always ``<`` or ``>``, the byte order of the section; `content` excludes the type and the
lengths.
"""

import struct
from typing import Final, NamedTuple

from kdissect.capture.scanner import find_either

SECTION_HEADER: Final = 0x0A0D0D0A  # the same in either byte order
INTERFACE_DESCRIPTION: Final = 1
OBSOLETE_PACKET: Final = 2
SIMPLE_PACKET: Final = 3
INTERFACE_STATISTICS: Final = 5
ENHANCED_PACKET: Final = 6
DECRYPTION_SECRETS: Final = 10
# Skipped by kdissect, but numbered by Wireshark like packets: systemd's journal, custom blocks,
# sysdig's events.
NUMBERED_BLOCKS: Final = frozenset((9, 0xBAD, 0x40000BAD, 0x204, 0x208, 0x216, 0x217, 0x221, 0x222))

PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
ORDER_BIG: Final = b"\x1a\x2b\x3c\x4d"
ORDER_LITTLE: Final = b"\x4d\x3c\x2b\x1a"

# Type, length and length again.
BLOCK_FRAME_SIZE: Final = 12
# Up to and including the byte order magic, which is needed to read the length of a section header.
SECTION_START_SIZE: Final = 12
SECTION_HEADER_SIZE: Final = 28
# Fixed fields and framing of an Enhanced (or obsolete) Packet and a Simple Packet Block.
ENHANCED_SIZE: Final = 32
SIMPLE_SIZE: Final = 16
# A packet of the maximum size with 15 MiB of options; Wireshark's limit is the same.
MAXIMUM_BLOCK_SIZE: Final = 16 << 20
MAXIMUM_INTERFACES: Final = 1 << 16
MAXIMUM_SECRETS_SIZE: Final = 16 << 20
TLS_KEY_LOG: Final = 0x544C534B  # "TLSK"

END_OF_OPTIONS: Final = 0
ISB_IFDROP: Final = 5
ISB_OSDROP: Final = 7

# Results of `claimed_length` instead of a length.
NO_BLOCK: Final = -1
UNDECIDED: Final = 0


class Option(NamedTuple):
    """One option of a pcapng block."""

    code: int
    value: bytes


class Secrets(NamedTuple):
    """Content of a Decryption Secrets Block; `kind` TLS_KEY_LOG is a TLS key log."""

    kind: int
    content: bytes


class Block(NamedTuple):
    """A block that later packets, those with a number greater than `number`, depend on.

    A Simple Packet Block, whose packet is the next one, has no content.
    """

    number: int
    kind: int
    content: bytes
    order: str


class Dropped(NamedTuple):
    """Packets lost by the capturing host so far, from an Interface Statistics Block."""

    interface: int
    packets: int


def read_options(content: bytes, offset: int, order: str) -> list[Option]:
    """Options from `offset` on, up to their end mark or the first truncated one."""
    options: list[Option] = []
    while offset + 4 <= len(content):
        code, length = struct.unpack_from(order + "HH", content, offset)
        offset += 4
        if code == END_OF_OPTIONS or offset + length > len(content):
            break
        options.append(Option(code, content[offset : offset + length]))
        offset += length + -length % 4
    return options


def read_dropped(content: bytes, order: str) -> Dropped:
    """Number of lost packets in an Interface Statistics Block.

    Raises `struct.error` when the fixed fields are incomplete.
    """
    interface: int = struct.unpack_from(order + "I8x", content, 0)[0]
    packets = 0
    for option in read_options(content, 12, order):
        if option.code in (ISB_IFDROP, ISB_OSDROP) and len(option.value) == 8:
            packets += int(struct.unpack(order + "Q", option.value)[0])
    return Dropped(interface, packets)


def read_secrets(content: bytes, order: str) -> Secrets:
    """Keys of a Decryption Secrets Block, fewer than its length declares if that is invalid.

    Raises `struct.error` when the fixed fields are incomplete.
    """
    kind, size = struct.unpack_from(order + "II", content, 0)
    return Secrets(kind, content[8 : 8 + size])


class Found(NamedTuple):
    """Result of the search for a block at which reading can resume.

    `at` is its index, -1 if there is none. `is_sure`: its two lengths agree; otherwise, unless it
    is the end of the file, more bytes will decide. `examined` is the index of the first byte that
    the result does not depend on.
    """

    at: int
    is_sure: bool
    examined: int


def find_block(data: bytes, at: int, order: str, at_end: bool) -> Found:
    """Find the next packet block or section header from `at` on."""
    packet = struct.pack(order + "I", ENHANCED_PACKET)
    examined = at
    while True:
        found = find_either(data, packet, PCAPNG_MAGIC, at)
        if found == len(data):
            return Found(-1, False, examined)
        length = claimed_length(data, found, order)
        end = found + length
        if length == UNDECIDED or end > len(data):
            if not at_end:
                return Found(found, False, examined)
        elif length != NO_BLOCK:
            examined = max(examined, end)
            if data[found + 4 : found + 8] == data[end - 4 : end]:
                return Found(found, True, examined)
        at = found + 1


def claimed_length(data: bytes, at: int, order: str) -> int:
    """Total length of the block at `at`, NO_BLOCK if none can start so, or UNDECIDED."""
    if at + SECTION_START_SIZE > len(data):
        return UNDECIDED
    if data[at : at + 4] == PCAPNG_MAGIC:
        magic = data[at + 8 : at + SECTION_START_SIZE]
        if magic != ORDER_BIG and magic != ORDER_LITTLE:
            return NO_BLOCK
        order = ">" if magic == ORDER_BIG else "<"
    length: int = struct.unpack_from(order + "I", data, at + 4)[0]
    if length < SECTION_HEADER_SIZE or length & 3 or length > MAXIMUM_BLOCK_SIZE:
        return NO_BLOCK
    return length
