"""The frames of a capture of `benchmarks.generate`, to be sent repeatedly.

Each time its clients have other addresses, so that all connections are new: nothing is taken for a
retransmission. Frames lie in one buffer, at addresses that do not change.
"""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generate import BROKER_ADDRESS, FIRST_CLIENT_ADDRESS
from benchmarks.rings import HEADER_SIZE, RECORD_SIZE, record_offsets

SOURCE_AT, TARGET_AT = 26, 30  # of an IPv4 address in an Ethernet frame
ADDRESS_SIZE = 4
LOOP_STEP = 256  # addresses: connections of one loop have less
LAST_CLIENT_ADDRESS = 0x0AFFFFFF
LOOPS = (LAST_CLIENT_ADDRESS - FIRST_CLIENT_ADDRESS) // LOOP_STEP
Numbers = np.ndarray[Any, np.dtype[Any]]


class Frames:
    """All frames of a pcap; `starts` and `sizes` are their places in `buffer`."""

    def __init__(self, capture: Path) -> None:
        content = bytearray(capture.read_bytes())
        del content[:HEADER_SIZE]
        records = record_offsets(content)
        self.buffer = np.frombuffer(content, np.uint8)
        self.starts: Numbers = records + RECORD_SIZE
        self.sizes: Numbers = np.diff(np.append(records, len(content))) - RECORD_SIZE
        sources = self._addresses(self.starts + SOURCE_AT)
        is_client = sources != BROKER_ADDRESS
        self._places: Numbers = self.starts + np.where(is_client, SOURCE_AT, TARGET_AT)
        self._clients = self._addresses(self._places).astype(np.uint32)

    def __len__(self) -> int:
        return len(self.starts)

    def readdress(self, first: int, end: int, loop: int) -> None:
        """Let the clients of frames `first` to `end` (without) be those of a loop, from 0."""
        step = np.uint32(loop % LOOPS * LOOP_STEP)
        addresses = (self._clients[first:end] + step).astype(">u4")
        places = self._places[first:end, None] + np.arange(ADDRESS_SIZE)
        self.buffer[places] = addresses[:, None].view(np.uint8)

    def _addresses(self, places: Numbers) -> Numbers:
        return self.buffer[places[:, None] + np.arange(ADDRESS_SIZE)].view(">u4")[:, 0]
