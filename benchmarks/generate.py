"""Makes large captures out of recorded sessions: real messages, cut into new TCP segments.

    python -m benchmarks.generate SEED OUT.pcap --megabytes 200 [--mss 1448] [--connections 8]
                                  [--apis Produce,Fetch] [--min-size 0]

Every connection of the seed capture is replayed over and over, each time as a new connection with
its own client port; `--connections` of them are interleaved message by message. Requests and
responses keep their order and their time distances. ACKs are written as a receiver with delayed
ACK would send them: one for every second full segment, and one at the end of a message.
"""

import argparse
import struct
import sys
from pathlib import Path
from typing import BinaryIO, NamedTuple

import kdissect

PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
RECORD = struct.Struct("<IIII")
ETHERNET = bytes.fromhex("0200000000020200000000010800")
IPV4 = struct.Struct(">BBHHHBBHII")
TCP = struct.Struct(">HHIIBBHHH")
HEADERS_SIZE = len(ETHERNET) + IPV4.size + TCP.size
BROKER_ADDRESS, BROKER_PORT = 0x0A000009, 9092
FIRST_CLIENT_ADDRESS = 0x0A010001
FIRST_PORT, PORTS = 20_000, 40_000
SECOND = 1_000_000_000
FIN, SYN, PSH, ACK = 0x01, 0x02, 0x08, 0x10
PACE_NS = 2_000  # between two segments of one message
MICRO_WRITE = 4 << 20


class Message(NamedTuple):
    """One frame with its size field, and the time since the message before it."""

    is_request: bool
    data: bytes
    pause_ns: int


class Wire:
    """Writes packets of interleaved connections to a pcap file with one running clock."""

    def __init__(self, file: BinaryIO, mss: int) -> None:
        self.file = file
        self.mss = mss
        self.now = 1_700_000_000 * SECOND
        self.size = file.write(PCAP_HEADER)
        self.buffer: list[bytes] = []
        self.buffered = 0

    def packet(self, header: bytes, payload: bytes) -> None:
        """Append one packet that happens now."""
        length = len(header) + len(payload)
        record = RECORD.pack(self.now // SECOND, self.now % SECOND, length, length)
        self.buffer += (record, header, payload)
        self.size += len(record) + length
        self.buffered += length
        if self.buffered > MICRO_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered."""
        self.file.write(b"".join(self.buffer))
        self.buffer, self.buffered = [], 0


class Conversation:
    """One connection being replayed: `step` writes its next message, False when there is none."""

    def __init__(self, wire: Wire, messages: list[Message], number: int) -> None:
        self.wire = wire
        self.messages = messages
        self.at = 0
        client = (FIRST_CLIENT_ADDRESS + number // PORTS, FIRST_PORT + number % PORTS)
        broker = (BROKER_ADDRESS, BROKER_PORT)
        self.ends = ((client, broker), (broker, client))
        self.sequence = [number * 7919 & 0xFFFFFFFF, number * 104_729 & 0xFFFFFFFF]
        self._send(0, b"", SYN)
        self._send(1, b"", SYN | ACK)
        self._send(0, b"", ACK)

    def step(self) -> bool:
        """Write the next message, or the FINs."""
        if self.at == len(self.messages):
            self._send(0, b"", FIN | ACK)
            self._send(1, b"", FIN | ACK)
            self._send(0, b"", ACK)
            return False
        message = self.messages[self.at]
        self.at += 1
        self.wire.now += message.pause_ns
        self._message(0 if message.is_request else 1, message.data)
        return True

    def _message(self, side: int, data: bytes) -> None:
        mss = self.wire.mss
        unacknowledged = 0
        for start in range(0, len(data), mss):
            end = min(start + mss, len(data))
            self._send(side, data[start:end], ACK | (PSH if end == len(data) else 0))
            unacknowledged += 1
            if unacknowledged == 2 or end == len(data):
                self._send(1 - side, b"", ACK)
                unacknowledged = 0

    def _send(self, side: int, payload: bytes, flags: int) -> None:
        (source, source_port), (target, target_port) = self.ends[side]
        total = IPV4.size + TCP.size + len(payload)
        acknowledgment = self.sequence[1 - side] if flags & ACK else 0
        ip = IPV4.pack(0x45, 0, total, 0, 0x4000, 64, 6, 0, source, target)
        tcp = TCP.pack(
            source_port, target_port, self.sequence[side], acknowledgment, 0x50, flags, 65_535, 0, 0
        )
        header = ETHERNET + ip + tcp
        self.wire.packet(header, payload)
        self.wire.now += PACE_NS
        consumed = len(payload) + (1 if flags & (SYN | FIN) else 0)
        self.sequence[side] = (self.sequence[side] + consumed) & 0xFFFFFFFF


def sessions(seed: Path, apis: frozenset[str], min_size: int) -> list[list[Message]]:
    """The messages of every connection of the seed, in order; only exchanges that are wanted.

    ApiVersions stays, as a client begins with it. An exchange is wanted when its API is in `apis`
    (all when empty) and request and response have `min_size` bytes together.
    """
    found: dict[int, list[tuple[int, Message]]] = {}
    for exchange in kdissect.dissect(str(seed)):
        frames = (
            (True, exchange.request_end, exchange.raw_frame("request")),
            (False, exchange.response_end, exchange.raw_frame("response")),
        )
        size = sum(len(data) for _, _, data in frames)
        if exchange.api != "ApiVersions" and (
            (apis and exchange.api not in apis) or size < min_size
        ):
            continue
        for is_request, time_ns, data in frames:
            if data and time_ns is not None:
                message = Message(is_request, len(data).to_bytes(4, "big") + data, 0)
                found.setdefault(exchange.connection_id, []).append((time_ns, message))
    return [timed(messages) for messages in found.values() if len(messages) > 2]


def timed(messages: list[tuple[int, Message]]) -> list[Message]:
    """Messages in time order with the pauses between them; at most 100 ms each."""
    ordered = sorted(messages, key=lambda pair: pair[0])
    before = ordered[0][0]
    result = []
    for time_ns, message in ordered:
        result.append(message._replace(pause_ns=min(time_ns - before, SECOND // 10)))
        before = time_ns
    return result


def replay(wire: Wire, found: list[list[Message]], size: int, connections: int) -> int:
    """Interleave conversations until the file has `size` bytes; gives how many there were."""
    numbers = iter(range(1 << 30))
    open_ones: list[Conversation] = []
    started = 0
    while wire.size < size or open_ones:
        while len(open_ones) < connections and wire.size < size:
            started = next(numbers)
            open_ones.append(Conversation(wire, found[started % len(found)], started))
        open_ones = (
            [one for one in open_ones if one.step()] if wire.size < size else closed(open_ones)
        )
    wire.flush()
    return started + 1


def closed(open_ones: list[Conversation]) -> list[Conversation]:
    """Play what is begun to its end."""
    for one in open_ones:
        while one.step():
            pass
    return []


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("seed", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--mss", type=int, default=1448)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--apis", default="")
    parser.add_argument("--min-size", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    apis = frozenset(name for name in options.apis.split(",") if name)
    found = sessions(options.seed, apis, options.min_size)
    if not found:
        sys.exit(f"{options.seed}: no connection with exchanges that are wanted")
    with options.out.open("wb") as file:
        count = replay(
            Wire(file, options.mss), found, options.megabytes * 1_000_000, options.connections
        )
    messages = sum(len(messages) for messages in found)
    print(f"{options.out}: {count} connections out of {len(found)} with {messages} messages")


if __name__ == "__main__":
    main()
