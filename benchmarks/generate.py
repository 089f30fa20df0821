"""Makes large captures out of recorded sessions: real messages, cut into new TCP segments.

    python -m benchmarks.generate SEED OUT.pcap --megabytes 200 [--mss 1448] [--connections 8]
                                  [--apis Produce,Fetch] [--min-size 0] [--clients a,b]
                                  [--exchanges-each 4 --connections 100000]

Every connection of the seed capture is replayed over and over, each time as a new connection with
its own client port and fetch session; `--connections` of them are interleaved message by message.
Requests and responses keep their order and their time distances. ACKs are written as a receiver
with delayed ACK would send them: for every second full segment, and at the end of a message.

With `--exchanges-each` there are exactly `--connections`, at most `OPEN_AT_ONCE` of them open at
once (or `--open`), whatever size that is: each goes on where the one before it ended, through all
connections of the seed and round again, without a greeting. So the mix is the same for any number.
The pause between two messages is `--longest-pause` nanoseconds at most.
"""

import argparse
import struct
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import kdissect
from benchmarks.fetch_session_ids import in_session, session_place

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
OPEN_AT_ONCE = 10_000
LONGEST_PAUSE_NS = SECOND // 10


class Message(NamedTuple):
    """One frame with its size field, and the time since the message before it.

    `session` is the place of the id of its fetch session, -1 without one.
    """

    is_request: bool
    data: bytes
    pause_ns: int
    session: int = -1


Timed = list[tuple[int, Message]]  # its one or two messages with their times, ns


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
        """Flush the buffer."""
        self.file.write(b"".join(self.buffer))
        self.buffer, self.buffered = [], 0


class Conversation:
    """One connection being replayed: `step` writes its next message; false at the end."""

    def __init__(
        self, wire: Wire, messages: list[Message], number: int, ports: int = PORTS
    ) -> None:
        self.wire = wire
        self.messages = messages
        self.number = number
        self.at = 0
        client = (FIRST_CLIENT_ADDRESS + number // ports, FIRST_PORT + number % ports)
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
        data = in_session(message.data, message.session, self.number)
        self._message(0 if message.is_request else 1, data)
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


class Wanted(NamedTuple):
    """Filter of the seed's exchanges; all APIs and clients when empty."""

    apis: frozenset[str] = frozenset()
    min_size: int = 0  # of request and response together, bytes
    clients: frozenset[str] = frozenset()
    has_greeting: bool = True  # ApiVersions stays, as a client begins with it

    def has(self, exchange: kdissect.DissectedExchange, size: int) -> bool:
        """Return whether this one is wanted."""
        if self.clients and exchange.client_id not in self.clients:
            return False
        if self.has_greeting and exchange.api == "ApiVersions":
            return True
        return size >= self.min_size and (not self.apis or exchange.api in self.apis)


def seed_exchanges(seed: Path, wanted: Wanted) -> list[list[Timed]]:
    """Select exchanges from each connection of the seed that has more than a handshake."""
    found: dict[int, list[Timed]] = {}
    for exchange in kdissect.dissect(str(seed)):
        frames = (
            (True, exchange.request_end, exchange.raw_frame("request")),
            (False, exchange.response_end, exchange.raw_frame("response")),
        )
        messages = []
        for is_request, time_ns, data in frames:
            if data and time_ns is not None:
                whole = len(data).to_bytes(4, "big") + data
                place = session_place(exchange, is_request, whole)
                messages.append((time_ns, Message(is_request, whole, 0, place)))
        if messages and wanted.has(exchange, sum(len(data) for _, _, data in frames)):
            found.setdefault(exchange.connection_id, []).append(messages)
    least = 3 if wanted.has_greeting else 1
    return [session for session in found.values() if sum(len(one) for one in session) >= least]


def sessions(seed: Path, wanted: Wanted) -> list[list[Message]]:
    """The messages of every connection of the seed, in order."""
    return [timed(session) for session in seed_exchanges(seed, wanted)]


def timed(exchanges: list[Timed], longest_ns: int = LONGEST_PAUSE_NS) -> list[Message]:
    """Messages in time order with the pauses between them."""
    ordered = sorted((pair for one in exchanges for pair in one), key=lambda pair: pair[0])
    before = ordered[0][0]
    result = []
    for time_ns, message in ordered:
        result.append(message._replace(pause_ns=min(time_ns - before, longest_ns)))
        before = time_ns
    return result


def portions(
    found: list[list[Timed]], each: int, count: int, longest_ns: int = LONGEST_PAUSE_NS
) -> Iterator[list[Message]]:
    """`count` connections of `each` exchanges: cycling through the seed connections."""
    which = at = 0
    for _ in range(count):
        messages: list[Message] = []
        left = each
        while left:
            part = found[which][at : at + left]
            messages += timed(part, longest_ns)
            left -= len(part)
            at += len(part)
            if at == len(found[which]):
                which, at = (which + 1) % len(found), 0
        yield messages


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


def play_together(
    wire: Wire,
    conversations: Iterator[list[Message]],
    ports: int = PORTS,
    most_open: int = OPEN_AT_ONCE,
) -> None:
    """Message by message in turn; one that ends makes room for the next."""
    open_ones: list[Conversation] = []
    numbered = enumerate(conversations)
    while True:
        for number, one in islice(numbered, most_open - len(open_ones)):
            open_ones.append(Conversation(wire, one, number, ports))
        if not open_ones:
            break
        open_ones = [one for one in open_ones if one.step()]
    wire.flush()


def closed(open_ones: list[Conversation]) -> list[Conversation]:
    """Finish the connections in progress."""
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
    parser.add_argument("--clients", default="")
    parser.add_argument("--exchanges-each", type=int, default=0)
    parser.add_argument("--ports", type=int, default=PORTS, help="connections of a client address")
    parser.add_argument("--open", type=int, default=OPEN_AT_ONCE)
    parser.add_argument("--longest-pause", type=int, default=LONGEST_PAUSE_NS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    apis, clients = (
        frozenset(name for name in names.split(",") if name)
        for names in (options.apis, options.clients)
    )
    wanted = Wanted(apis, options.min_size, clients, not options.exchanges_each)
    found = seed_exchanges(options.seed, wanted)
    if not found:
        sys.exit(f"{options.seed}: no connection with exchanges that are wanted")
    with options.out.open("wb") as file:
        wire = Wire(file, options.mss)
        if options.exchanges_each:
            count = options.connections
            each, pause = options.exchanges_each, options.longest_pause
            play_together(wire, portions(found, each, count, pause), options.ports, options.open)
        else:
            size = options.megabytes * 1_000_000
            count = replay(wire, [timed(one) for one in found], size, options.connections)
    exchanges = sum(len(session) for session in found)
    print(f"{options.out}: {count} connections out of {len(found)} with {exchanges} exchanges")


if __name__ == "__main__":
    main()
