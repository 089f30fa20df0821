"""A stand-in for a broker of Kafka 0.7: logs in memory, the five requests, one thread a connection.

No registry has a broker of 0.7 any more, so its side of the recording is ours: what it answers is
what seed documents and the notes on 0.7's source say, and what the recorded clients take.
"""

import socketserver
import struct
import threading
from collections.abc import Callable

NO_ERROR = 0
OFFSET_OUT_OF_RANGE = 1
WRONG_PARTITION = 3
LATEST = -1
Place = tuple[str, int]


class Logs:
    """The partitions' bytes, as they were produced."""

    def __init__(self, partitions: dict[str, int]) -> None:
        self.partitions = partitions
        self.logs: dict[Place, bytes] = {}
        self.lock = threading.Lock()

    def append(self, topic: str, partition: int, messages: bytes) -> None:
        with self.lock:
            self.logs[topic, partition] = self.logs.get((topic, partition), b"") + messages

    def fetch(self, topic: str, partition: int, offset: int, size: int) -> tuple[int, bytes]:
        if topic not in self.partitions:
            return NO_ERROR, b""
        if not 0 <= partition < self.partitions[topic]:
            return WRONG_PARTITION, b""
        log = self.logs.get((topic, partition), b"")
        if not 0 <= offset <= len(log):
            return OFFSET_OUT_OF_RANGE, b""
        return NO_ERROR, log[offset : offset + size]

    def offsets(self, topic: str, partition: int, time: int, count: int) -> list[int]:
        end = len(self.logs.get((topic, partition), b""))
        return ([end, 0] if time == LATEST and end else [0])[:count]


class Request:
    """Reads the fields of one request frame."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return int(value)

    def raw(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def place(self) -> Place:
        topic = self.raw(self.number(">h")).decode()
        return topic, self.number(">i")


class Conversation(socketserver.BaseRequestHandler):
    """One connection."""

    server: "Broker"

    def handle(self) -> None:
        answers: dict[int, Callable[[Request], bytes | None]] = {
            0: self.produce,
            1: self.fetch,
            2: self.multifetch,
            3: self.multiproduce,
            4: self.offsets,
        }
        while size := self.receive(4):
            request = Request(self.receive(struct.unpack(">i", size)[0]))
            answer = answers[request.number(">h")](request)
            if answer is not None:
                self.request.sendall(struct.pack(">i", len(answer)) + answer)

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (part := self.request.recv(size - len(data))):
            data += part
        return data

    def produce(self, request: Request) -> None:
        topic, partition = request.place()
        self.server.logs.append(topic, max(partition, 0), request.raw(request.number(">i")))

    def multiproduce(self, request: Request) -> None:
        for _ in range(request.number(">h")):
            self.produce(request)

    def fetch(self, request: Request) -> bytes:
        topic, partition = request.place()
        offset, size = request.number(">q"), request.number(">i")
        error, messages = self.server.logs.fetch(topic, partition, offset, size)
        return struct.pack(">h", error) + messages

    def multifetch(self, request: Request) -> bytes:
        answers = [self.fetch(request) for _ in range(request.number(">h"))]
        sized = [struct.pack(">i", len(answer)) + answer for answer in answers]
        return struct.pack(">h", NO_ERROR) + b"".join(sized)

    def offsets(self, request: Request) -> bytes:
        topic, partition = request.place()
        time, count = request.number(">q"), request.number(">i")
        found = self.server.logs.offsets(topic, partition, time, count)
        return struct.pack(f">hi{len(found)}q", NO_ERROR, len(found), *found)


class Broker(socketserver.ThreadingTCPServer):
    """Listens on the loopback."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, logs: Logs) -> None:
        super().__init__(("127.0.0.1", port), Conversation)
        self.logs = logs
