"""A sample of whole connections, chosen by the kernel's filter: one of `share`.

    hash = (sum of both addresses, in words of 32 bits, + both ports) * FACTOR, modulo 2^32

It is the same in both directions, and on any host and at any time. A connection is in the sample if
the upper 16 bits of its hash are less than 65536 / share. Fragments behind the first have no ports:
they pass.
"""

from typing import Final

from kdissect.sources.bpf_programs import (
    A_TO_X,
    ADD_X,
    IF_NOT_LESS,
    LOAD_HALF_FROM_X,
    LOAD_WORD,
    LOAD_X_STORED,
    MULTIPLY,
    SHIFT_RIGHT,
    STORE,
    Assembler,
)

# 2^32 divided by the golden ratio: neighbouring sums get hashes that are far from each other.
FACTOR: Final = 0x9E3779B1
BITS: Final = 16
MOST: Final = 1024
WORD: Final = 4
ADDRESSES: Final = 1  # place in the memory of the program: the sum of addresses
PORTS: Final = 2


def hash_of(flow: bytes) -> int:
    """Hash of a connection, by addresses and ports as in `packets.segment.Segment.flow`."""
    words = [flow[at : at + WORD] for at in range(0, len(flow) - WORD, WORD)]
    ports = flow[-4:-2], flow[-2:]
    return sum(int.from_bytes(part, "big") for part in (*words, *ports)) * FACTOR % (1 << 32)


def is_sampled(flow: bytes, share: int) -> bool:
    """Return whether the connection of this flow is in the sample, of one in `share`."""
    return hash_of(flow) >> BITS < (1 << BITS) // share


def sum_addresses(program: Assembler, first: int, size: int) -> None:
    """Store the sum of `size` bytes of addresses from `first` on; changes A and X."""
    program.add(LOAD_WORD, first)
    for at in range(first + WORD, first + size, WORD):
        program.add(A_TO_X)
        program.add(LOAD_WORD, at)
        program.add(ADD_X)
    program.add(STORE, ADDRESSES)


def choose_sampled(program: Assembler, share: int) -> None:
    """Pass the packet if its connection is in the sample; X is the offset of the TCP header."""
    program.add(LOAD_HALF_FROM_X, 0)
    program.add(STORE, PORTS)
    program.add(LOAD_HALF_FROM_X, 2)
    for place in (PORTS, ADDRESSES):
        program.add(LOAD_X_STORED, place)
        program.add(ADD_X)
    program.add(MULTIPLY, FACTOR)
    program.add(SHIFT_RIGHT, BITS)
    program.add(IF_NOT_LESS, (1 << BITS) // share, yes="drop")
    program.passes()
    program.drops()
