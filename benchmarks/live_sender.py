"""Sends the frames of a capture through an interface, at a given rate, as new connections.

    python -m benchmarks.live_sender INTERFACE CAPTURE [--rate 100000] [--seconds 10]
                                     [--loops 0] [--packets 0]

What is printed is JSON: packets, bytes and seconds. Many frames are handed to the kernel at once
(sendmmsg on a packet socket), past the queue of the interface; nothing is done per packet. Without
a rate it is as fast as it can be. With loops or packets it ends after as many, else after the time,
in the middle of a loop.
"""

import argparse
import ctypes
import json
import os
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.live_frames import Frames

AT_ONCE = 512  # the kernel takes 1024
PIECES_A_SECOND = 2000
SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20
PIECE = np.dtype([("base", "u8"), ("size", "u8")])  # struct iovec
MESSAGE = np.dtype(  # struct mmsghdr
    [
        ("name", "u8"), ("name_size", "u8"), ("pieces", "u8"), ("piece_count", "u8"),
        ("control", "u8"), ("control_size", "u8"), ("flags", "u8"), ("sent_size", "u8"),
    ]
)  # fmt: skip


class Sent(NamedTuple):
    """Amount sent and the time it took."""

    packets: int
    bytes: int
    seconds: float


class Sender:
    """A packet socket, and the frames in the form that the kernel expects."""

    def __init__(self, interface: str, frames: Frames) -> None:
        self.frames = frames
        self.pieces = np.zeros(len(frames), PIECE)
        self.pieces["base"] = frames.buffer.ctypes.data + frames.starts
        self.pieces["size"] = frames.sizes
        self.messages: Any = np.zeros(len(frames), MESSAGE)
        first = self.pieces.ctypes.data
        self.messages["pieces"] = first + np.arange(len(frames)) * PIECE.itemsize
        self.messages["piece_count"] = 1
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        self.socket.bind((interface, 0))
        self._sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
        self._sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]

    def send(self, first: int, count: int) -> int:
        """Send some frames; gives how many the kernel took."""
        place = self.messages.ctypes.data + first * MESSAGE.itemsize
        taken = int(self._sendmmsg(self.socket.fileno(), place, count, 0))
        if taken < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot send: {os.strerror(number)}")
        return taken

    def play(self, rate: float, seconds: float, loops: int, most: int = 0) -> Sent:
        """Loop after loop, `rate` packets a second (0: as fast as possible), `most` packets."""
        started = time.perf_counter()
        packets = size = loop = 0
        while not loops or loop < loops:
            for first, end in self.portions(rate):
                wait = packets / rate - (time.perf_counter() - started) if rate else 0
                if wait > 0:
                    time.sleep(wait)
                self.frames.readdress(first, end, loop)
                at = first
                while at < end:
                    at += self.send(at, end - at)
                packets += end - first
                size += int(self.frames.sizes[first:end].sum())
                passed = time.perf_counter() - started
                is_late = not loops and not most and passed >= seconds
                if is_late or 0 < most <= packets:
                    return Sent(packets, size, passed)
            loop += 1
        return Sent(packets, size, time.perf_counter() - started)

    def portions(self, rate: float) -> list[tuple[int, int]]:
        """One loop, divided into batches for sending."""
        each = min(AT_ONCE, max(1, int(rate / PIECES_A_SECOND))) if rate else AT_ONCE
        count = len(self.frames)
        return [(first, min(first + each, count)) for first in range(0, count, each)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("interface")
    parser.add_argument("capture", type=Path)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--loops", type=int, default=0)
    parser.add_argument("--packets", type=int, default=0, help="at least; in whole batches")
    options = parser.parse_args()
    sender = Sender(options.interface, Frames(options.capture))
    sent = sender.play(options.rate, options.seconds, options.loops, options.packets)
    print(json.dumps(sent._asdict()))


if __name__ == "__main__":
    main()
