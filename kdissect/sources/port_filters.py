"""Classic BPF programs, made from ports: the kernel passes only packets that may be Kafka.

A program is run on the frame of an Ethernet socket, or on the IP packet of a cooked one, where the
kernel supplies the ethertype (SKF_AD_PROTOCOL). The outermost VLAN tag is not in the frame any more
when the program runs; one more may be. Undecidable packets pass: later fragments of TCP, IPv6 with
many extension headers, an authentication header.

    loopback's own copy of sent packets         drop
    ethertype, perhaps behind a tag             IPv4, IPv6, else drop
    IPv4: protocol, fragment offset, options    TCP, else drop
    IPv6: next header, up to 4 extensions       TCP, else drop
    source or destination port                  pass, else drop
    with a sample: hash of the connection       pass, else drop
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from kdissect.errors import CaptureError
from kdissect.sources.bpf_programs import (
    A_TO_X,
    ADD,
    ADD_X,
    AND,
    IF_BITS,
    IF_EQUAL,
    IF_GREATER,
    IF_NOT_LESS,
    JUMP,
    LOAD_BYTE,
    LOAD_BYTE_FROM_X,
    LOAD_HALF,
    LOAD_HALF_FROM_X,
    LOAD_STORED,
    LOAD_WORD,
    LOAD_X,
    LOAD_X_HEADER_SIZE,
    MAXIMUM_SIZE,
    SHIFT_LEFT,
    STORE,
    X_TO_A,
    Assembler,
    Program,
)
from kdissect.sources.interfaces import ARPHRD_LOOPBACK, ETHERNET
from kdissect.sources.sampling import choose_sampled, sum_addresses

# Port tests that share an end, which must be in reach of a conditional jump.
RANGES_TOGETHER: Final = 100

# Loads from here on query the kernel instead of the packet (SKF_AD_OFF).
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


def port_filter(ports: Iterable[int], link_type: int, snaplen: int, share: int = 1) -> Program:
    """Pass TCP from and to the ports, all TCP without any; raises CaptureError for too many.

    With a `share`, of one in so many connections, see `sampling`.
    """
    ranges = list(port_ranges(ports))
    program = Assembler(snaplen)
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
        # A packet sent on a VLAN has the tag in front, but still IP at its start.
        program.add(LOAD_BYTE, base)
        program.add(AND, 0xF0)
        program.add(IF_EQUAL, 0x40, yes=f"ipv4 {base}")
        program.add(IF_EQUAL, 0x60, yes=f"ipv6 {base}")
        program.drops()
    for start in (base, base + 4):
        _ipv4(program, start, share)
        _ipv6(program, start, share)
    program.here("ports")
    if ranges:
        for at in (0, 2):
            program.add(LOAD_HALF_FROM_X, at)
            _ports(program, ranges, share)
        program.drops()
    if share > 1:
        program.here("sample")
        choose_sampled(program, share)
    elif not ranges:
        program.passes()
    made = program.program()
    if len(made) > MAXIMUM_SIZE:
        raise CaptureError(
            f"{len(ranges)} ranges of ports make a filter of {len(made)} instructions, and the"
            f" kernel takes {MAXIMUM_SIZE}: name fewer ports, or none and --filter 'portrange A-B'"
        )
    return made


def port_ranges(ports: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last port of each consecutive range, in order."""
    wanted = sorted(set(ports))
    breaks = [at for at, (one, next_one) in enumerate(pairwise(wanted), 1) if next_one > one + 1]
    for start, end in pairwise([0, *breaks, len(wanted)]):
        if start < end:
            yield wanted[start], wanted[end - 1]


def _drop_copies(program: Assembler) -> None:
    """Drop copies: loopback shows each packet twice, when sent and when received."""
    program.add(LOAD_WORD, HARDWARE_TYPE)
    program.add(IF_EQUAL, ARPHRD_LOOPBACK, no="other")
    program.add(LOAD_WORD, PACKET_TYPE)
    program.add(IF_EQUAL, OUTGOING, yes="drop")
    program.here("other")


def _by_ethertype(
    program: Assembler, start: int, more: Sequence[tuple[int, str]], ends: bool = True
) -> None:
    known = [(ETHERTYPE_IPV4, f"ipv4 {start}"), (ETHERTYPE_IPV6, f"ipv6 {start}"), *more]
    for ethertype, label in known:
        program.add(IF_EQUAL, ethertype, yes=label)
    if ends:
        program.drops()


def _ipv4(program: Assembler, start: int, share: int) -> None:
    """Set X to the offset of the TCP header."""
    program.here(f"ipv4 {start}")
    program.add(LOAD_BYTE, start + 9)
    program.add(IF_EQUAL, TCP, no="drop")
    program.add(LOAD_HALF, start + 6)
    program.add(IF_BITS, 0x1FFF, yes="pass")
    if share > 1:
        sum_addresses(program, start + 12, 8)
    program.add(LOAD_X_HEADER_SIZE, start)
    program.add(X_TO_A)
    program.add(ADD, start)
    program.add(A_TO_X)
    program.add(JUMP, yes="ports")
    program.drops()
    program.passes()


def _ipv6(program: Assembler, start: int, share: int) -> None:
    """The same for IPv6; A is the next header, and X its offset."""
    program.here(f"ipv6 {start}")
    if share > 1:
        sum_addresses(program, start + 8, 32)
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


def _skip_extension(program: Assembler) -> None:
    """Skip an extension: its second byte is the length in 8 bytes, excluding the first 8."""
    program.add(LOAD_BYTE_FROM_X, 0)
    program.add(STORE, 0)
    program.add(LOAD_BYTE_FROM_X, 1)
    program.add(ADD, 1)
    program.add(SHIFT_LEFT, 3)
    program.add(ADD_X)
    program.add(A_TO_X)
    program.add(LOAD_STORED, 0)


def _ports(program: Assembler, ranges: Sequence[tuple[int, int]], share: int) -> None:
    for at in range(0, len(ranges), RANGES_TOGETHER):
        for first, last in ranges[at : at + RANGES_TOGETHER]:
            if first == last:
                program.add(IF_EQUAL, first, yes="pass")
            else:
                program.add(IF_NOT_LESS, first, no="outside")
                program.add(IF_GREATER, last, no="pass")
                program.here("outside")
        program.add(JUMP, yes="others")
        if share > 1:
            program.here("pass")
            program.add(JUMP, yes="sample")
        else:
            program.passes()
        program.here("others")
