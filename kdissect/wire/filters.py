"""Classic BPF programs, made from ports: the kernel gives only packets that may be of Kafka.

A program is run on the frame of an Ethernet socket, or on the IP packet of a cooked one, where the
kernel says the ethertype (SKF_AD_PROTOCOL). The outermost VLAN tag is not in the frame any more
when the program runs; one more may be. What cannot be judged passes: later fragments of TCP, IPv6
with many extension headers, an authentication header.

    loopback's own copy of what is sent         drop
    ethertype, perhaps behind a tag             IPv4, IPv6, else drop
    IPv4: protocol, fragment offset, options    TCP, else drop
    IPv6: next header, up to 4 extensions       TCP, else drop
    source or destination port                  pass, else drop
"""

import ctypes
import errno
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from kdissect.errors import CaptureError
from kdissect.wire.interfaces import ARPHRD_LOOPBACK, ETHERNET

SO_ATTACH_FILTER: Final = 26
# Instructions that the kernel takes (BPF_MAXINSNS).
MAXIMUM_SIZE: Final = 4096
# A conditional jump goes no further, so many tests of ports have an end of their own.
MAXIMUM_JUMP: Final = 255
RANGES_TOGETHER: Final = 100

LOAD_WORD: Final = 0x20
LOAD_HALF: Final = 0x28
LOAD_BYTE: Final = 0x30
LOAD_HALF_FROM_X: Final = 0x48
LOAD_BYTE_FROM_X: Final = 0x50
LOAD_STORED: Final = 0x60
LOAD_X: Final = 0x01
LOAD_X_HEADER_SIZE: Final = 0xB1  # 4 * (byte & 15)
STORE: Final = 0x02
ADD: Final = 0x04
ADD_X: Final = 0x0C
SHIFT_LEFT: Final = 0x64
AND: Final = 0x54
A_TO_X: Final = 0x07
X_TO_A: Final = 0x87
JUMP: Final = 0x05
IF_EQUAL: Final = 0x15
IF_GREATER: Final = 0x25
IF_NOT_LESS: Final = 0x35
IF_BITS: Final = 0x45
RETURN: Final = 0x06

# Loads from here on ask the kernel instead of the packet (SKF_AD_OFF).
ANCILLARY: Final = 0xFFFFF000
PROTOCOL: Final = ANCILLARY
PACKET_TYPE: Final = ANCILLARY + 4
HARDWARE_TYPE: Final = ANCILLARY + 28
OUTGOING: Final = 4

ETHERTYPE_IPV4: Final = 0x0800
ETHERTYPE_IPV6: Final = 0x86DD
ETHERTYPES_VLAN: Final = (0x8100, 0x88A8, 0x9100)
TCP: Final = 6
FRAGMENT: Final = 44
AUTHENTICATION: Final = 51
EXTENSIONS: Final = (0, 43, 60)  # hop-by-hop, routing, destination options
EXTENSIONS_WALKED: Final = 4


class Instruction(NamedTuple):
    """One instruction; `yes` and `no` are how many are left out."""

    code: int
    yes: int
    no: int
    value: int


Program: TypeAlias = list[Instruction]
NOTHING: Final[Program] = [Instruction(RETURN, 0, 0, 0)]


class _Line(NamedTuple):
    """An instruction that jumps to labels, "" to the next."""

    code: int
    value: int
    yes: str
    no: str


class _Assembler:
    """Jumps go to the next place with their label; a label may be at many."""

    def __init__(self, snaplen: int) -> None:
        self.lines: list[_Line] = []
        self.labels: dict[str, list[int]] = {}
        self.snaplen = snaplen

    def add(self, code: int, value: int = 0, yes: str = "", no: str = "") -> None:
        self.lines.append(_Line(code, value, yes, no))

    def here(self, label: str) -> None:
        self.labels.setdefault(label, []).append(len(self.lines))

    def passes(self) -> None:
        self.here("pass")
        self.add(RETURN, self.snaplen)

    def drops(self) -> None:
        self.here("drop")
        self.add(RETURN, 0)

    def program(self) -> Program:
        return [self._resolved(at, line) for at, line in enumerate(self.lines)]

    def _resolved(self, at: int, line: _Line) -> Instruction:
        if line.code == JUMP:
            return Instruction(JUMP, 0, 0, self._distance(at, line.yes))
        yes, no = self._distance(at, line.yes), self._distance(at, line.no)
        assert max(yes, no) <= MAXIMUM_JUMP  # noqa: S101  # whatever the ports are
        return Instruction(line.code, yes, no, line.value)

    def _distance(self, at: int, label: str) -> int:
        if not label:
            return 0
        return next(place for place in self.labels[label] if place > at) - at - 1


def port_filter(ports: Iterable[int], link_type: int, snaplen: int) -> Program:
    """Passes TCP from and to the ports, all TCP without any; raises CaptureError for too many."""
    ranges = list(port_ranges(ports))
    program = _Assembler(snaplen)
    _drop_copies(program)
    base = 14 if link_type == ETHERNET else 0
    if link_type == ETHERNET:
        program.add(LOAD_HALF, 12)
    else:
        program.add(LOAD_WORD, PROTOCOL)
    _by_ethertype(program, base, [(value, "tagged") for value in ETHERTYPES_VLAN])
    program.here("tagged")
    program.add(LOAD_HALF, base + 2)
    _by_ethertype(program, base + 4, [], ends=link_type == ETHERNET)
    if link_type != ETHERNET:
        # What is sent on a VLAN has the tag before it, and IP at its start all the same.
        program.add(LOAD_BYTE, base)
        program.add(AND, 0xF0)
        program.add(IF_EQUAL, 0x40, yes=f"ipv4 {base}")
        program.add(IF_EQUAL, 0x60, yes=f"ipv6 {base}")
        program.drops()
    for start in (base, base + 4):
        _ipv4(program, start)
        _ipv6(program, start)
    program.here("ports")
    if ranges:
        for at in (0, 2):
            program.add(LOAD_HALF_FROM_X, at)
            _ports(program, ranges)
        program.drops()
    else:
        program.passes()
    made = program.program()
    if len(made) > MAXIMUM_SIZE:
        raise CaptureError(
            f"{len(ranges)} ranges of ports make a filter of {len(made)} instructions, and the"
            f" kernel takes {MAXIMUM_SIZE}: name fewer ports, or none and --filter 'portrange A-B'"
        )
    return made


def both(first: Program, second: Program) -> Program:
    """Passes what both pass, and as much of it as `first` lets through."""
    passing = [one.value for one in first if one.code == RETURN and one.value]
    joined = [
        Instruction(JUMP, 0, 0, len(first) - at - 1) if one.code == RETURN and one.value else one
        for at, one in enumerate(first)
    ]
    snaplen = max(passing, default=0)
    for one in second:
        is_pass = one.code == RETURN and one.value
        joined.append(one._replace(value=snaplen) if is_pass else one)
    if len(joined) > MAXIMUM_SIZE:
        raise CaptureError(
            f"ports and --filter make a filter of {len(joined)} instructions, and the kernel takes"
            f" {MAXIMUM_SIZE}: name fewer ports"
        )
    return joined


def attach(listening: socket.socket, program: Program) -> None:
    """Let the kernel give the socket only what the program passes; raises CaptureError."""
    packed = b"".join(struct.pack("=HBBI", *one) for one in program)
    instructions = ctypes.create_string_buffer(packed, len(packed))
    # struct sock_fprog: how many, and where.
    asked = struct.pack("@HP", len(program), ctypes.addressof(instructions))
    try:
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, asked)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise CaptureError(
                f"the kernel has no room for a filter of {len(program)} instructions: name fewer"
                " ports, or raise net.core.optmem_max (sysctl)"
            ) from error
        raise CaptureError(f"the kernel does not take the filter: {error.strerror}") from error


def port_ranges(ports: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each row of ports that follow each other, in order."""
    wanted = sorted(set(ports))
    breaks = [at for at, (one, next_one) in enumerate(pairwise(wanted), 1) if next_one > one + 1]
    for start, end in pairwise([0, *breaks, len(wanted)]):
        if start < end:
            yield wanted[start], wanted[end - 1]


def _drop_copies(program: _Assembler) -> None:
    """Loopback shows each packet twice, when it is sent and when it comes."""
    program.add(LOAD_WORD, HARDWARE_TYPE)
    program.add(IF_EQUAL, ARPHRD_LOOPBACK, no="other")
    program.add(LOAD_WORD, PACKET_TYPE)
    program.add(IF_EQUAL, OUTGOING, yes="drop")
    program.here("other")


def _by_ethertype(
    program: _Assembler, start: int, more: Sequence[tuple[int, str]], ends: bool = True
) -> None:
    known = [(ETHERTYPE_IPV4, f"ipv4 {start}"), (ETHERTYPE_IPV6, f"ipv6 {start}"), *more]
    for ethertype, label in known:
        program.add(IF_EQUAL, ethertype, yes=label)
    if ends:
        program.drops()


def _ipv4(program: _Assembler, start: int) -> None:
    """X becomes the place of the TCP header."""
    program.here(f"ipv4 {start}")
    program.add(LOAD_BYTE, start + 9)
    program.add(IF_EQUAL, TCP, no="drop")
    program.add(LOAD_HALF, start + 6)
    program.add(IF_BITS, 0x1FFF, yes="pass")
    program.add(LOAD_X_HEADER_SIZE, start)
    program.add(X_TO_A)
    program.add(ADD, start)
    program.add(A_TO_X)
    program.add(JUMP, yes="ports")
    program.drops()
    program.passes()


def _ipv6(program: _Assembler, start: int) -> None:
    """The same; A is the next header, and X its place."""
    program.here(f"ipv6 {start}")
    program.add(LOAD_BYTE, start + 6)
    program.add(LOAD_X, start + 40)
    for _ in range(EXTENSIONS_WALKED):
        program.add(IF_EQUAL, TCP, yes="tcp")
        program.add(IF_EQUAL, FRAGMENT, yes="fragment")
        program.add(IF_EQUAL, AUTHENTICATION, yes="pass")
        for kind in EXTENSIONS[:-1]:
            program.add(IF_EQUAL, kind, yes="extension")
        program.add(IF_EQUAL, EXTENSIONS[-1], no="drop")
        program.here("extension")
        _skip_extension(program)
    program.passes()
    program.here("fragment")
    program.add(LOAD_BYTE_FROM_X, 0)
    program.add(IF_EQUAL, TCP, no="drop")
    program.add(LOAD_HALF_FROM_X, 2)
    program.add(IF_BITS, 0xFFF8, yes="pass")
    program.add(X_TO_A)
    program.add(ADD, 8)
    program.add(A_TO_X)
    program.here("tcp")
    program.add(JUMP, yes="ports")
    program.drops()
    program.passes()


def _skip_extension(program: _Assembler) -> None:
    """Its second byte counts 8 bytes each, the first 8 not counted."""
    program.add(LOAD_BYTE_FROM_X, 0)
    program.add(STORE, 0)
    program.add(LOAD_BYTE_FROM_X, 1)
    program.add(ADD, 1)
    program.add(SHIFT_LEFT, 3)
    program.add(ADD_X)
    program.add(A_TO_X)
    program.add(LOAD_STORED, 0)


def _ports(program: _Assembler, ranges: Sequence[tuple[int, int]]) -> None:
    for at in range(0, len(ranges), RANGES_TOGETHER):
        for first, last in ranges[at : at + RANGES_TOGETHER]:
            if first == last:
                program.add(IF_EQUAL, first, yes="pass")
            else:
                program.add(IF_NOT_LESS, first, no="outside")
                program.add(IF_GREATER, last, no="pass")
                program.here("outside")
        program.add(JUMP, yes="others")
        program.passes()
        program.here("others")
