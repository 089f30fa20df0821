"""`RingSource`: packets of an interface from a ring of memory that the kernel writes into (Linux).

The ring consists of blocks, which the kernel fills one after the other. A block is copied once and
returned at once, and its packets refer to the copy; so keeping packets does not occupy the ring. A
block that is not full is released anyway after `RETIRE_MS`.
"""

import ctypes
import errno
import mmap
import struct
import sys
from contextlib import suppress
from typing import Final

from kdissect.capture.packet import Packet
from kdissect.errors import CaptureError
from kdissect.sources.bpf_programs import Program
from kdissect.sources.interface_socket import SOL_PACKET, InterfaceSocket
from kdissect.sources.interface_source import InterfaceSource, pause_for
from kdissect.sources.ring_blocks import read_block

PACKET_RX_RING: Final = 5
PACKET_VERSION: Final = 10
TPACKET_V3: Final = 2
# Fields of the block's header: owner (1: user space), and bytes used.
STATUS: Final = 8
USED: Final = 20
IS_OURS: Final = 1
KERNELS: Final = b"\0\0\0\0"

# Each is released after RETIRE_MS, however full: 256 of them, 64 MiB, last 15 s on a quiet wire
# without a reader.
BLOCK_SIZE: Final = 1 << 18
# Block size of a small ring. The largest packets that the kernel merges have 64 KiB.
SMALL_BLOCK_SIZE: Final = 1 << 17
# Must only divide the block size; in this version packets take the room they need.
FRAME_SIZE: Final = 2048
# Latency on a quiet wire. tcpdump waits 1000 ms.
RETIRE_MS: Final = 60
# Bytes taken at a time, about 5000 packets of full size, before others get a turn.
READ_SIZE: Final = 8 << 20

# For mallopt (<malloc.h>): larger allocations have their own pages; more free memory is returned.
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
LARGEST_KEPT: Final = 4 << 20
KEPT: Final = 64 << 20


class NoRing(CaptureError):
    """Rings are not available here."""


class RingSource(InterfaceSource):
    """Reads a ring of about `buffer_bytes`; `source` is not bound yet, and owned.

    Without a program it is bound, but gets no packets until `source.admit`. Raises NoRing where the
    kernel provides none.
    """

    def __init__(self, source: InterfaceSocket, program: Program | None, buffer_bytes: int) -> None:
        self.names = [source.name]
        self.source = source
        self._buffer_bytes = buffer_bytes
        self._next = 0
        self._number = 1
        self._backlog = 0.0
        keep_memory()
        try:
            self._open()
            self._map()
            source.bind()
            if program is not None:
                source.admit(program)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self.source.socket.fileno()

    def take(self) -> list[Packet]:
        packets: list[Packet] = []
        self._backlog = self._ready() / self.block_count
        taken = 0
        while taken < READ_SIZE:
            start = self._next * self.block_size
            status, used = struct.unpack_from("=I8xI", self._ring, start + STATUS)
            if not status & IS_OURS:
                break
            block = self._ring[start : start + min(used, self.block_size)]
            self._ring[start + STATUS : start + STATUS + 4] = KERNELS
            self._next = (self._next + 1) % self.block_count
            taken += used
            self._read(block, packets)
        return packets

    def close(self) -> None:
        self._unmap()
        self.source.socket.close()

    def backlog(self) -> float:
        return self._backlog

    def _read(self, block: bytes, packets: list[Packet]) -> None:
        before = len(packets)
        is_sound = read_block(
            block, self.source.link_type, self._number, self.source.capture, packets
        )
        self._number += len(packets) - before
        if not is_sound:
            text = f"a block of {len(block)} bytes in the ring says what cannot be"
            self.source.add_problem("bad-block", f"{text}; {len(packets) - before} packets of it")

    def _ready(self) -> int:
        """Number of blocks ready to be read."""
        for ahead in range(self.block_count):
            at = (self._next + ahead) % self.block_count * self.block_size + STATUS
            if not self._ring[at] & IS_OURS:
                return ahead
        return self.block_count

    @property
    def _is_mapped(self) -> bool:
        return hasattr(self, "_ring")

    def _open(self) -> None:
        """Let the kernel make a ring for the socket."""
        self.block_size, self.block_count = self._open_ring(self._buffer_bytes)
        self.pause_s = pause_for(self.block_size * self.block_count)
        self._next = 0

    def _map(self) -> None:
        size = self.block_size * self.block_count
        self._ring = mmap.mmap(self.source.socket.fileno(), size)

    def _unmap(self) -> None:
        if self._is_mapped:
            self._ring.close()
            del self._ring

    def _open_ring(self, buffer_bytes: int) -> tuple[int, int]:
        """Size and number of the blocks; a smaller ring if memory is short."""
        if sys.byteorder != "little":
            raise NoRing("rings are read on little-endian machines alone")
        block_size = BLOCK_SIZE if buffer_bytes >= 4 * BLOCK_SIZE else SMALL_BLOCK_SIZE
        count = wanted = max(2, buffer_bytes // block_size)
        try:
            self.source.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
            while not self._has_room(block_size, count):
                count //= 2
        except OSError as error:
            raise NoRing(f"the kernel makes no ring: {error.strerror}") from error
        if count < wanted:
            given, asked = (blocks * block_size >> 20 for blocks in (count, wanted))
            text = f"memory for a ring of {given} MiB only, not {asked}"
            self.source.add_problem("small-buffer", text)
        return block_size, count

    def _has_room(self, block_size: int, count: int) -> bool:
        frames = block_size // FRAME_SIZE * count
        asked = struct.pack("=7I", block_size, count, FRAME_SIZE, frames, RETIRE_MS, 0, 0)
        try:
            self.source.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, asked)
        except OSError as error:
            if error.errno == errno.ENOMEM and count > 2:
                return False
            raise
        return True


def keep_memory() -> None:
    """Let copies reuse the memory of earlier ones, with glibc; at most `KEPT` bytes are kept.

    Memory returned to the system and allocated again costs a fault for each page: as much as all
    other work.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
        libc.mallopt(M_TRIM_THRESHOLD, KEPT)
