"""Writes what tshark says of the captures and of kio's messages to the oracle of the tests.

    python -m tools.tshark [CAPTURE...]       CAPTURE: others than those in captures/

Tests compare with the oracle, so that they need no tshark; one checks it where tshark is there.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.golden import CAPTURES, captures
from tools.tshark.crafted import crafted_frames, write_capture
from tools.tshark.oracle import CRAFTED, ORACLE, Line, chosen, write_oracle
from tools.tshark.pdml import Told, field_types, told_of, tshark_version


def all_told(paths: Sequence[Path], types: dict[str, str]) -> Iterator[tuple[str, Told]]:
    for path in paths:
        for told in told_of(path, types):
            yield path.name, told


def crafted_lines(pairs: Sequence[tuple[bytes, bytes]], types: dict[str, str]) -> Iterator[Line]:
    """Decode these requests and responses with tshark."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "crafted.pcap")
        write_capture(path, pairs)
        frames = {(int.from_bytes(pair[1][:4], "big"), side): pair[side]
                  for pair in pairs for side in (0, 1)}  # fmt: skip
        for told in told_of(path, types):
            frame = frames[told.correlation_id, int(told.is_response)]
            yield Line(CRAFTED, told, frame.hex())


def main() -> None:
    # The others contain messages that tshark does not know, takes for Kafka, or has nothing new
    # about.
    known = [path for path in captures() if path.parent == CAPTURES]
    paths = [Path(name).resolve() for name in sys.argv[1:]] or known
    types = field_types()
    lines = [Line(name, told, "") for name, told in chosen(all_told(paths, types))]
    lines += crafted_lines(list(crafted_frames()), types)
    size = write_oracle(tshark_version(), lines)
    print(f"{ORACLE.name}: {len(lines)} messages, {size} bytes")


if __name__ == "__main__":
    main()
