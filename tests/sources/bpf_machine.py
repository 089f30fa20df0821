"""Runs classic BPF as the kernel does (Documentation/networking/filter.rst), to test programs."""

import operator
from typing import NamedTuple

from kdissect.sources.bpf_programs import MAXIMUM_SIZE, Program
from kdissect.sources.interfaces import ARPHRD_ETHER

U32 = 0xFFFFFFFF
ANCILLARY = 0xFFFFF000


class Asked(NamedTuple):
    """Metadata of a packet in the kernel."""

    protocol: int = 0
    packet_type: int = 0
    hardware_type: int = ARPHRD_ETHER

    def answer(self, offset: int) -> int:
        return {0: self.protocol, 4: self.packet_type, 28: self.hardware_type}[offset]


PLAIN = Asked()
ARITHMETIC = {
    0x00: operator.add, 0x20: operator.mul, 0x50: operator.and_, 0x60: operator.lshift,
    0x70: operator.rshift,
}  # fmt: skip


class OutsidePacket(Exception):
    """A load outside the packet ends the program, and the packet is dropped."""


def load(data: bytes, at: int, size: int, asked: Asked) -> int:
    if at >= ANCILLARY:
        return asked.answer(at - ANCILLARY)
    if at + size > len(data):
        raise OutsidePacket
    return int.from_bytes(data[at : at + size], "big")


def run(program: Program, data: bytes, asked: Asked = PLAIN) -> int:
    """Number of bytes of the packet that pass."""
    assert 0 < len(program) <= MAXIMUM_SIZE
    try:
        return _run(program, data, asked)
    except OutsidePacket:
        return 0


def _run(program: Program, data: bytes, asked: Asked) -> int:
    a = x = at = 0
    memory = [0] * 16
    while True:
        code, yes, no, k = program[at]
        at += 1
        kind = code & 0x07
        if kind == 0x06:
            return k if code == 0x06 else a
        if kind == 0x00:
            size = {0x00: 4, 0x08: 2, 0x10: 1}[code & 0x18]
            mode = code & 0xE0
            if mode == 0x60:
                a = memory[k]
            elif mode == 0x00:
                a = k
            elif mode == 0x80:
                a = len(data)
            else:
                a = load(data, (k + x if mode == 0x40 else k) & U32, size, asked)
        elif kind == 0x01:
            if code == 0xB1:
                x = 4 * (load(data, k, 1, asked) & 0x0F)
            else:
                x = {0x00: k, 0x60: memory[k & 15]}[code & 0xE0]
        elif kind == 0x02:
            memory[k] = a
        elif kind == 0x07:
            a, x = (x, x) if code == 0x87 else (a, a)
        elif kind == 0x04:
            value = x if code & 0x08 else k
            a = ARITHMETIC[code & 0xF0](a, value) & U32
        else:
            value = x if code & 0x08 else k
            jump = code & 0xF0
            if jump == 0x00:
                at += k
            else:
                is_true = {
                    0x10: a == value, 0x20: a > value, 0x30: a >= value, 0x40: bool(a & value)
                }[jump]  # fmt: skip
                at += yes if is_true else no
