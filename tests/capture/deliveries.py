"""Feeds a file's bytes to a scanner in every way."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from kdissect.capture.formats import make_scanner
from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from tests.capture.writers import Given, given


def scan(data: bytes, pieces: Sequence[bytes] | None = None) -> tuple[list[Given], list[Problem]]:
    """Packets and problems of a file that is fed in pieces; whole when none are given."""
    scanner = make_scanner(data[:512])
    packets: list[Packet] = []
    for piece in [data] if pieces is None else pieces:
        packets += scanner.feed(piece)
    packets += scanner.finish()
    return given(packets), scanner.problems


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


def cut_at(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data cut at the given places, in any order; places outside it are allowed."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


CUTS = st.lists(st.integers(0, 1 << 16), max_size=20)
"""Places for `cut_at`."""


class CountedBytes(bytes):
    """Counts the bytes that `find` scans, where it is not compiled to something faster."""

    searched = 0

    def find(self, *arguments: Any) -> int:
        found = super().find(*arguments)
        self.searched += (found if found >= 0 else min(arguments[2], len(self))) - arguments[1]
        return found
