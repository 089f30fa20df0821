"""A slow or narrow link between the client's namespace and the bridge, made of raw sockets.

The client's cable ends at a program that forwards frames after a delay, since not every kernel has
netem. It runs in a process of its own, in the namespace of the bridge, and ends with it.
"""

import heapq
import itertools
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.record.networks import CLIENT, MIDDLE, inside

FRAME_SIZE = 65_536
QUEUE_SECONDS = 0.5  # queue limit of a narrow link; packets beyond it are dropped
ETHERTYPE_ALL = 3
SOL_PACKET = 263  # <linux/socket.h>
PACKET_IGNORE_OUTGOING = 23  # <linux/if_packet.h>: frames that we send are not for us
START_SECONDS = 0.5
REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def delayed(milliseconds: int) -> Iterator[None]:
    """Every frame takes so long, each way."""
    with _link(milliseconds, 0):
        yield


@contextmanager
def rate_limited(kilobytes_per_second: int) -> Iterator[None]:
    """A link of this rate, each way, with a queue of half a second."""
    with _link(0, kilobytes_per_second):
        yield


@contextmanager
def _link(milliseconds: int, rate: int) -> Iterator[None]:
    """Cut the client's cable in the middle and put the program between: client2 at the bridge,
    client towards the client.
    """
    for command in (
        f"-n {MIDDLE} link set client nomaster",
        f"-n {MIDDLE} link add client2 type veth peer name client3",
        f"-n {MIDDLE} link set client2 master shop up",
        f"-n {MIDDLE} link set client3 up",
    ):
        subprocess.run(["ip", *command.split()], check=True, timeout=10)
    program = [sys.executable, "-m", "benchmarks.causes.delays", str(milliseconds), str(rate)]
    for namespace, interface in ((CLIENT, "eth0"), ("kdissect-broker", "eth0")):
        offload = [
            "ethtool",
            "-K",
            interface,
            "tso",
            "off",
            "gso",
            "off",
            "gro",
            "off",
            "tx",
            "off",
        ]
        subprocess.run([*inside(namespace), *offload], check=True, timeout=10, capture_output=True)
    process = subprocess.Popen([*inside(MIDDLE), *program], cwd=REPOSITORY)
    time.sleep(START_SECONDS)
    try:
        yield
    finally:
        process.kill()
        process.wait()
        for command in (
            f"-n {MIDDLE} link delete client2",
            f"-n {MIDDLE} link set client master shop",
        ):
            subprocess.run(["ip", *command.split()], check=True, timeout=10)


def pass_frames(delay_seconds: float, bytes_per_second: float) -> None:
    """Pass frames between the two interfaces until the process ends."""
    ends = [_open("client"), _open("client3")]
    waiting: list[tuple[float, int, int, bytes]] = []  # due, number, end to send at, frame
    numbers = itertools.count()
    free_at = [0.0, 0.0]  # when each direction's link is free
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for ready in select.select(ends, [], [], timeout)[0]:
            frame = ready.recv(FRAME_SIZE)
            end = 1 - ends.index(ready)
            now = time.monotonic()
            due = now + delay_seconds
            if bytes_per_second:
                due = max(free_at[end], now) + len(frame) / bytes_per_second
                if due > now + QUEUE_SECONDS:
                    continue
                free_at[end] = due
            heapq.heappush(waiting, (due, next(numbers), end, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, frame = heapq.heappop(waiting)
            ends[end].send(frame)


def _open(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_ALL))
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.bind((interface, ETHERTYPE_ALL))
    return end


if __name__ == "__main__":
    pass_frames(float(sys.argv[1]) / 1000, float(sys.argv[2]) * 1000)
