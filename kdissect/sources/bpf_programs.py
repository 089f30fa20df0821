"""Classic BPF programs, which the kernel runs on each packet: build, combine, attach.

https://www.kernel.org/doc/html/latest/networking/filter.html
"""

import ctypes
import errno
import socket
import struct
from typing import Final, NamedTuple, TypeAlias

from kdissect.errors import CaptureError

SO_ATTACH_FILTER: Final = 26
# Maximum number of instructions (BPF_MAXINSNS).
MAXIMUM_SIZE: Final = 4096
# Maximum distance of a conditional jump.
MAXIMUM_JUMP: Final = 255

# Offset at which the kernel has the number of the interface (SKF_AD_OFF + SKF_AD_IFINDEX).
INTERFACE_NUMBER: Final = 0xFFFFF008

LOAD_WORD: Final = 0x20
LOAD_HALF: Final = 0x28
LOAD_BYTE: Final = 0x30
LOAD_HALF_FROM_X: Final = 0x48
LOAD_BYTE_FROM_X: Final = 0x50
LOAD_STORED: Final = 0x60
LOAD_X: Final = 0x01
LOAD_X_STORED: Final = 0x61
LOAD_X_HEADER_SIZE: Final = 0xB1  # 4 * (byte & 15)
STORE: Final = 0x02
ADD: Final = 0x04
ADD_X: Final = 0x0C
MULTIPLY: Final = 0x24
SHIFT_LEFT: Final = 0x64
SHIFT_RIGHT: Final = 0x74
AND: Final = 0x54
A_TO_X: Final = 0x07
X_TO_A: Final = 0x87
JUMP: Final = 0x05
IF_EQUAL: Final = 0x15
IF_GREATER: Final = 0x25
IF_NOT_LESS: Final = 0x35
IF_BITS: Final = 0x45
RETURN: Final = 0x06


class Instruction(NamedTuple):
    """One instruction; `yes` and `no` are the numbers of instructions skipped."""

    code: int
    yes: int
    no: int
    value: int


Program: TypeAlias = list[Instruction]
NOTHING: Final[Program] = [Instruction(RETURN, 0, 0, 0)]


class _Line(NamedTuple):
    """An instruction that jumps to labels, "" for the next one."""

    code: int
    value: int
    yes: str
    no: str


class Assembler:
    """Assembles programs; jumps go to the next place with their label, which may recur."""

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
        assert max(yes, no) <= MAXIMUM_JUMP  # noqa: S101  # for any ports
        return Instruction(line.code, yes, no, line.value)

    def _distance(self, at: int, label: str) -> int:
        if not label:
            return 0
        return next(place for place in self.labels[label] if place > at) - at - 1


def both(first: Program, second: Program) -> Program:
    """Pass packets that both programs pass, up to the length that `first` allows."""
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


def of_interface(program: Program, number: int) -> Program:
    """Pass packets of the interface with this number that the program passes."""
    return [
        Instruction(LOAD_WORD, 0, 0, INTERFACE_NUMBER),
        Instruction(IF_EQUAL, 1, 0, number),
        *NOTHING,
        *program,
    ]


def attach(listening: socket.socket, program: Program) -> None:
    """Attach the program to the socket as a filter; raises CaptureError."""
    packed = b"".join(struct.pack("=HBBI", *one) for one in program)
    instructions = ctypes.create_string_buffer(packed, len(packed))
    # struct sock_fprog: count and address.
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
