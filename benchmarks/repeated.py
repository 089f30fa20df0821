"""Makes a long capture out of a drawn one: copies of it, one after the other.

    python -m benchmarks.repeated DRAWN.pcap OUT --megabytes 10000 [--days 0] [--files]

Each copy begins when the one before it ended, or so much later that all of them begin within
`--days`, and has clients of its own: the second byte of their addresses counts the copies. OUT is a
pcap file of nanoseconds as `benchmarks.drawn` and `benchmarks.generate` write it, or with `--files`
a directory of them, one for each copy, named as tcpdump names the files of a ring.
"""

import argparse
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.generate import ETHERNET, FIRST_CLIENT_ADDRESS, PCAP_HEADER, RECORD

DAY: Final = 86_400  # s
# The bytes of a packet before the addresses of both ends.
ADDRESSES: Final = (RECORD.size + len(ETHERNET) + 12, RECORD.size + len(ETHERNET) + 16)
CLIENTS: Final = FIRST_CLIENT_ADDRESS >> 16  # the first two bytes
MOST: Final = 200  # copies, as the second byte of an address counts them


class Original:
    """A drawn capture in memory, and where its packets are."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        if not data.startswith(PCAP_HEADER):
            raise SystemExit(f"{path} was not made by benchmarks.drawn or benchmarks.generate")
        offsets, at = [], len(PCAP_HEADER)
        while at < len(data):
            offsets.append(at)
            at += RECORD.size + struct.unpack_from("<I", data, at + 8)[0]
        self.packets = np.frombuffer(data, np.uint8)[len(PCAP_HEADER) :].copy()
        self.offsets = np.array(offsets) - len(PCAP_HEADER)
        self.seconds = self._numbers(0)
        self.client_bytes = np.concatenate([self._of_clients(at) for at in ADDRESSES])

    @property
    def lasts(self) -> int:
        """Whole seconds from the first packet to behind the last one."""
        return int(self.seconds[-1] - self.seconds[0]) + 1

    def copy(self, number: int, later: int) -> bytes:
        """The packets, so many seconds later, with other clients."""
        seconds = (self.seconds + later).astype("<u4").view(np.uint8).reshape(-1, 4)
        for place in range(4):
            self.packets[self.offsets + place] = seconds[:, place]
        self.packets[self.client_bytes] = (CLIENTS & 0xFF) + number
        return self.packets.tobytes()

    def _numbers(self, place: int) -> "np.ndarray[Any, Any]":
        found = np.zeros(len(self.offsets), np.int64)
        for byte in range(4):
            found += self.packets[self.offsets + place + byte].astype(np.int64) << (8 * byte)
        return found

    def _of_clients(self, place: int) -> "np.ndarray[Any, Any]":
        """Where the second bytes of clients' addresses are, of sources or destinations."""
        at = self.offsets + place
        first, second = self.packets[at], self.packets[at + 1]
        found: np.ndarray[Any, Any] = (at + 1)[(first == CLIENTS >> 8) & (second == CLIENTS & 0xFF)]
        return found


def repeat(source: Path, target: Path, size: int, days: int = 0, is_each: bool = False) -> int:
    """Write copies until there are at least so many bytes; returns their number.

    With `is_each` the target is a directory for a file of each copy.
    """
    original = Original(source)
    copies = -(-size // len(original.packets))
    if copies > MOST:
        raise SystemExit(f"{copies} copies, {MOST} at the most: repeat a larger capture")
    step = max(original.lasts, days * DAY // copies)
    if is_each:
        target.mkdir()
    for number in range(copies):
        path = target / f"ring.pcap{number}" if is_each else target
        with path.open("wb" if is_each or not number else "ab") as file:
            file.write(PCAP_HEADER if is_each or not number else b"")
            file.write(original.copy(number, number * step))
    return copies


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("drawn", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=0)
    parser.add_argument("--files", action="store_true", help="a file for each copy")
    options = parser.parse_args()
    size = options.megabytes * 1_000_000
    copies = repeat(options.drawn, options.out, size, options.days, options.files)
    print(f"{copies} copies")


if __name__ == "__main__":
    main()
