"""The committed oracle: tshark's output for chosen messages, in one compressed file.

`tests/captures/tshark.jsonl.xz` begins with a line that names tshark's version; each further line
is a message, from a capture of captures/ or, with its bytes, one that kio wrote.
"""

import json
import lzma
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tools.tshark.pdml import Told

ORACLE: Final = Path(__file__).parents[2] / "tests" / "captures" / "tshark.jsonl.xz"
CRAFTED: Final = "crafted"
PER_SHAPE: Final = 1  # messages with the same fields, of one capture
PER_LAYOUT: Final = 12  # messages of one layout, of all captures
REQUEST_MISSING: Final = "Request missing"  # reported for responses
# The newest version of each API that tshark 4.0 declares; it knows no key above 47.
NEWEST_OF_TSHARK: Final = {
    0: 8, 1: 11, 2: 5, 3: 9, 4: 4, 5: 2, 6: 6, 7: 3, 8: 8, 9: 7, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5,
    15: 5, 16: 3, 17: 1, 18: 3, 19: 5, 20: 4, 21: 1, 22: 3, 23: 3, 24: 1, 25: 1, 26: 1, 27: 0,
    28: 3, 29: 2, 30: 2, 31: 2, 32: 2, 33: 1, 34: 1, 35: 1, 36: 2, 37: 2, 38: 2, 39: 2, 40: 2,
    41: 2, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: 0,
}  # fmt: skip


class Line(NamedTuple):
    """A message of the oracle; `data` is its frame without size, "" when it is in a capture."""

    capture: str
    told: Told
    data: str


def read_oracle() -> tuple[str, list[Line]]:
    """tshark's version and the messages."""
    first, *lines = lzma.decompress(ORACLE.read_bytes()).decode().splitlines()
    return json.loads(first), [line_of(*json.loads(line)) for line in lines]


def line_of(capture: str, told: list[Any], data: str) -> Line:
    *heading, complaints, tokens = told
    return Line(
        capture,
        Told(*heading, tuple(complaints), tuple((name, value) for name, value in tokens)),
        data,
    )


def write_oracle(version: str, lines: Iterable[Line]) -> int:
    """Replaces the committed oracle; the size of the file."""
    text = "\n".join([json.dumps(version), *(json.dumps(line) for line in lines)])
    packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    ORACLE.write_bytes(packed)
    return len(packed)


def chosen(told: Iterable[tuple[str, Told]]) -> Iterator[tuple[str, Told]]:
    """Pick a few different messages of every layout, with their captures."""
    shapes: Counter[object] = Counter()
    layouts: Counter[object] = Counter()
    for capture, message in told:
        layout = (message.api_key, message.api_version, message.is_response)
        shape = (layout, capture, message.complaints, frozenset(name for name, _ in message.tokens))
        if shapes[shape] < PER_SHAPE and layouts[layout] < PER_LAYOUT:
            shapes[shape] += 1
            layouts[layout] += 1
            yield capture, message if is_in_table(message) else message._replace(tokens=())


def is_in_table(message: Told) -> bool:
    """Return whether tshark knows the API and its version, and of a response the request."""
    newest = NEWEST_OF_TSHARK.get(message.api_key, -1)
    return message.api_version <= newest and REQUEST_MISSING not in message.complaints
