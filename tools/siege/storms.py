"""Hostile peers: storms of bounded size, on connections or into a pipe.

A storm gets a `Field`, which carries the peers' traffic: real sockets on the loopback and whole
Ethernet frames on a cable, or packets that are fed into a pipe.
"""

import contextlib
import random
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from kdissect.capture.packet import Packet
from kdissect.capture.pcap import PcapScanner
from kdissect.errors import CaptureError
from kdissect.packets.segment import SYN
from tests.conversation import conversation
from tests.exchange_builders import request, response, sized
from tests.hostile.catalogue import HOSTILE
from tests.hostile.wire import Talk, Wire
from tests.messages.record_builders import GZIP, make_batch, make_record
from tools.siege import texts
from tools.siege.listening import MARKER, Live

HOST, PORT = "127.0.0.1", 9092
GOOD_PORT = 9093  # of the peer that behaves well
TIMEOUT_S = 20.0
AT_ONCE = 32_000  # bytes that a socket takes without a reader
CONNECTIONS = 200
BYTES = 1_000_000
ETHERNET = 1
LARGE_SIZES = (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 100 << 20, (100 << 20) + (64 << 10), 1 << 24)
STEPS_NS = (3_600 * 10**9, -3_600 * 10**9, 10**10, -(10**10), 10**9, -(10**9), 10**16, -(10**16))

Said = list[tuple[bool, bytes]]  # True is of the client


class Field(ABC):
    """Network in which peers talk."""

    live: Live

    @abstractmethod
    def talk(self, said: Said, port: int = PORT, resets: bool = False) -> None:
        """A connection with this data, and its end."""

    @abstractmethod
    def send(self, packets: list[Packet]) -> None:
        """Packets of anybody."""

    def close(self) -> None:  # noqa: B027  # a pipe has nothing to end
        """Close open connections."""


class Sockets(Field):
    """Connections on the loopback, and frames on a cable."""

    def __init__(self, live: Live, sending: str) -> None:
        self.live = live
        self.held = contextlib.ExitStack()
        self.cable = self.held.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        self.cable.bind((sending, 0))
        self.servers = {
            port: self.held.enter_context(socket.create_server((HOST, port)))
            for port in (PORT, GOOD_PORT)
        }

    def talk(self, said: Said, port: int = PORT, resets: bool = False) -> None:
        with self.opened(port) as ends:
            for is_client, data in said:
                pass_on(ends[not is_client], ends[is_client], data)
            if resets:
                ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    @contextlib.contextmanager
    def opened(self, port: int) -> Iterator[tuple[socket.socket, socket.socket]]:
        with contextlib.ExitStack() as both:
            yield self.connect(port, both)

    def connect(
        self, port: int, stack: contextlib.ExitStack
    ) -> tuple[socket.socket, socket.socket]:
        """Both ends of a connection: the client's, and the broker's."""
        client = stack.enter_context(socket.create_connection((HOST, port), TIMEOUT_S))
        broker = stack.enter_context(self.servers[port].accept()[0])
        broker.settimeout(TIMEOUT_S)
        return client, broker

    def send(self, packets: list[Packet]) -> None:
        for packet in packets:
            data = packet.data[packet.start : packet.end]
            if 14 <= len(data) <= 1 << 16:
                # Frames that the interface does not take are not sent.
                with contextlib.suppress(OSError):
                    self.cable.send(data)

    def close(self) -> None:
        self.held.close()


def pass_on(sender: socket.socket, receiver: socket.socket, data: bytes) -> None:
    """Send so much that the other end can hold, and take it there."""
    for at in range(0, len(data), AT_ONCE):
        part = data[at : at + AT_ONCE]
        sender.sendall(part)
        left = len(part)
        while left:
            taken = len(receiver.recv(left))
            assert taken
            left -= taken


class Piped(Field):
    """Packets in a pipe, whose clock is set now and then."""

    def __init__(self, live: Live, source: random.Random) -> None:
        self.live = live
        self.source = source
        self.now_ns = 1_700_000_000 * 10**9
        self.number = 0
        live.feed(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, ETHERNET))

    def talk(self, said: Said, port: int = PORT, resets: bool = False) -> None:
        self.number += 1
        isn = self.source.getrandbits(32)
        talk = conversation(isn, isn ^ 0x5555AAAA)
        for is_client, data in said:
            talk = talk.client(data) if is_client else talk.broker(data)
        talk = talk.reset() if resets else talk.close()
        client_port = 20_000 + self.number % 30_000
        for one in talk.captured():
            self.write(with_ports(one.data, client_port, port), len(one.data))

    def send(self, packets: list[Packet]) -> None:
        for packet in packets:
            data = packet.data[packet.start : packet.end]
            self.write(data, max(len(data), packet.original_length))

    def write(self, data: bytes, wire_length: int) -> None:
        self.now_ns += 100_000
        if self.source.random() < 0.0005:
            self.step()
        seconds, rest = divmod(self.now_ns, 10**9)
        lengths = (len(data), wire_length & 0xFFFFFFFF)
        self.live.feed(struct.pack("<IIII", seconds & 0xFFFFFFFF, rest, *lengths) + data)

    def step(self) -> None:
        """The clock is set, within the range of a capture file."""
        self.now_ns = min(max(0, self.now_ns + self.source.choice(STEPS_NS)), (1 << 32) * 10**9)


def with_ports(data: bytes, client: int, broker: int) -> bytes:
    """The Ethernet frame of a conversation with other ports."""
    old = struct.unpack(">HH", data[34:38])
    ports = (broker, client) if old[0] == PORT else (client, broker)
    return data[:34] + struct.pack(">HH", *ports) + data[38:]


def marker(field: Field, number: int) -> None:
    """An exchange of the peer that behaves well."""
    asked = request("ApiVersions", 0, number, MARKER)
    field.talk([(True, asked), (False, response("ApiVersions", 0, number))], GOOD_PORT)


# Storms


def short_connections(field: Field, source: random.Random) -> None:
    for _ in range(CONNECTIONS):
        said = [(source.random() < 0.8, source.randbytes(source.randrange(1, 100)))]
        field.talk(said * source.randrange(3), resets=source.random() < 0.5)


def half_open(field: Field, source: random.Random) -> None:
    """Connections that never open: SYN alone, of many ports and addresses."""
    wire = Wire(BYTES // 2)
    number = source.randrange(1 << 20)
    while wire.has_room:
        number += 1
        Talk(wire, number=number).segment(True, b"", source.getrandbits(32), flags=SYN)
    field.send(packets_of(wire.file()))


def huge_lengths(field: Field, source: random.Random) -> None:
    for _ in range(5):
        size = struct.pack(">I", source.choice(LARGE_SIZES))
        head = source.choice((b"", request("Produce", 7, 1)[4:], b"\0\0\0\7", b"\0\x12\0\3"))
        said = [(source.random() < 0.7, size + head + bytes(source.randrange(BYTES // 5)))]
        field.talk(said, resets=True)


def api_versions(field: Field, source: random.Random) -> None:
    """The same request again and again, perhaps answered."""
    step = source.choice((0, 1))
    asked = b"".join(request("ApiVersions", 3, n * step, "again") for n in range(2_000))
    answer = b"".join(response("ApiVersions", 3, n * step) for n in range(2_000))
    field.talk([(True, asked), (False, answer[: source.choice((0, len(answer), 1001))])] * 3)


def zeros(field: Field, source: random.Random) -> None:
    field.talk([(source.random() < 0.5, bytes(BYTES // 2)) for _ in range(3)])


def random_bytes(field: Field, source: random.Random) -> None:
    field.talk([(source.random() < 0.5, source.randbytes(BYTES // 4)) for _ in range(3)])


def hostile_names(field: Field, source: random.Random) -> None:
    for _ in range(20):
        field.talk(list(texts.messages(source)))


def bombs(field: Field, source: random.Random) -> None:
    """Records that unpack to a thousand times their size, in one message or in many."""
    value = bytes(source.choice((1_000, 1_000_000, 8_000_000)))
    records = [make_record(None, value)] * (1 if len(value) > 1_000 else 5_000)
    batch = make_batch(records, codec=GZIP)
    topic = {"name": texts.text(source), "partition_data": [{"index": 0, "records": batch}]}
    said: Said = []
    for number in range(max(1, min(20, BYTES // len(batch)))):
        said.append((True, request("Produce", 7, number, acks=1, topic_data=[topic])))
        said.append((False, response("Produce", 7, number)))
    field.talk(said)


def many_names(field: Field, source: random.Random) -> None:
    """A client id of its own for each request, a topic of its own for each query."""
    said: Said = []
    for number in range(1_000):
        topics = [{"name": f"{source.getrandbits(60)}"}]
        client = f"{source.getrandbits(60)}"
        said.append((True, request("Metadata", 4, number, client, topics=topics)))
        said.append((False, response("Metadata", 4, number, topics=topics)))
    field.talk(said)


def empty_frames(field: Field, source: random.Random) -> None:
    unit = sized(source.choice((b"", b"\0", bytes(4), bytes(12))))
    field.talk([(source.random() < 0.5, unit * (BYTES // 4 // len(unit))) for _ in range(3)])


def captures(field: Field, source: random.Random) -> None:
    """The packets of a hostile generator of the tests."""
    one = HOSTILE[source.choice(sorted(HOSTILE))]
    if not one.is_pcapng:
        field.send(packets_of(one.capture(source.randrange(1 << 31), BYTES // 2)))


def packets_of(data: bytes) -> list[Packet]:
    """The packets of a pcap file as far as there are some."""
    try:
        return PcapScanner().feed(data)
    except CaptureError:
        return []


def metrics_clients(field: Field, source: random.Random) -> None:
    """Clients of the metrics port that send half a request, nothing, or too much, and leave.

    While they hold all places it refuses others; once they are gone it must answer again.
    """
    heads = (
        b"", b"GET", b"GET /metrics HTTP/1.1\r\nHost: x\r\n", b"\0" * 70_000, source.randbytes(500),
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/1.1\r\nA: b\r\n" * 500,
        b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"\x16\3\1\2\0\1",
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            # It may refuse or end a connection; whether it still answers is checked afterwards.
            with contextlib.suppress(OSError):
                talking = socket.create_connection((HOST, field.live.port), TIMEOUT_S)
                stack.enter_context(talking).settimeout(TIMEOUT_S)
                talking.sendall(source.choice(heads))


def held_connections(field: Field, source: random.Random) -> None:
    """Connections that stay open and send a part of a frame; the last ones are closed."""
    if not isinstance(field, Sockets):
        return half_open(field, source)
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            ends = field.connect(PORT, stack)
            pass_on(ends[0], ends[1], request("Fetch", 12, 1)[: source.randrange(1, 20)])
    return None


STORMS: tuple[Callable[[Field, random.Random], None], ...] = (
    short_connections, half_open, huge_lengths, api_versions, zeros, random_bytes, hostile_names,
    bombs, many_names, empty_frames, captures, captures, captures, metrics_clients,
    held_connections,
)  # fmt: skip
