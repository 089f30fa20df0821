"""Clients that do not stop, each in its own thread; what they did is written to a journal.

    python -m tools.soak.client ADDRESS JOURNAL [--seed 1] [--clients 4]

Each connection has a client id of its own, and asks some questions, some of them before the one
before is answered. Ends with SIGTERM: sessions are played to their end. `ADDRESS` is host:port.
"""

import argparse
import itertools
import random
import signal
import socket
import struct
import threading
import time
from pathlib import Path
from typing import TextIO

from tools.soak import requests
from tools.soak.journal import Asked, Session, to_line

TOPIC = "soak"
TIMEOUT_S = 15.0
AGAIN_S = 0.2
MOST_ASKED = 60
MOST_AT_ONCE = 3
MOST_PAUSE_S = 0.05
SMALL, LARGE = 300, 60_000  # bytes of a record; one in ten is up to LARGE
FETCH_WAIT_MS, FETCH_SIZE = 100, 100_000


class Talk:
    """One connection while it lasts."""

    def __init__(self, address: tuple[str, int], client_id: str, chance: random.Random) -> None:
        self.client_id = client_id
        self.chance = chance
        self.asked: list[Asked] = []
        self.opened_ns = time.time_ns()
        self.socket = socket.create_connection(address, TIMEOUT_S)

    def play(self) -> Session:
        """Run to the end, successful or not."""
        end = ""
        try:
            with self.socket:
                for _ in range(self.chance.randint(1, MOST_ASKED)):
                    self.ask(self.chance.randint(1, MOST_AT_ONCE))
                    time.sleep(self.chance.uniform(0, MOST_PAUSE_S))
        except (OSError, EOFError) as error:
            end = f"{type(error).__name__}: {error}"
        return Session(self.client_id, self.opened_ns, time.time_ns(), tuple(self.asked), end)

    def ask(self, count: int) -> None:
        """Some requests at once, then their responses."""
        first = len(self.asked)
        for _ in range(count):
            api, body = self.question()
            number = len(self.asked) + 1
            frame = requests.framed(api, requests.VERSIONS[api], number, self.client_id, body)
            self.asked.append(Asked(number, api, time.time_ns(), 0))
            self.socket.sendall(frame)
        for at in range(first, first + count):
            self.receive(self.asked[at].correlation_id)
            self.asked[at] = self.asked[at]._replace(answered_ns=time.time_ns())

    def question(self) -> tuple[int, bytes]:
        """Any of four."""
        chance = self.chance
        api = chance.choices(
            (requests.PRODUCE, requests.FETCH, requests.METADATA, requests.API_VERSIONS),
            (5, 3, 2, 1),
        )[0]
        if api == requests.PRODUCE:
            most = LARGE if chance.random() < 0.1 else SMALL
            return api, requests.produce(TOPIC, chance.randint(1, most))
        if api == requests.FETCH:
            # The first offset is always there: nothing is ever deleted.
            return api, requests.fetch(TOPIC, 0, FETCH_WAIT_MS, chance.randint(1, FETCH_SIZE))
        return api, requests.metadata(TOPIC) if api == requests.METADATA else b""

    def receive(self, correlation_id: int) -> None:
        """A response, which must belong to the request."""
        size, found = struct.unpack(">ii", self.exactly(8))
        self.exactly(size - 4)
        if found != correlation_id:
            raise RuntimeError(f"{self.client_id}: {found} answered instead of {correlation_id}")

    def exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.socket.recv(min(size, 1 << 16))
            if not part:
                raise EOFError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class Clients:
    """All of them, and their journal."""

    def __init__(self, address: tuple[str, int], journal: TextIO, seed: int) -> None:
        self.address = address
        self.journal = journal
        self.seed = seed
        self.stopping = threading.Event()
        self.writing = threading.Lock()
        self.numbers = itertools.count()

    def play(self, thread: int) -> None:
        """Session after session."""
        chance = random.Random(self.seed * 1000 + thread)  # noqa: S311  # what to ask is no secret
        while not self.stopping.is_set():
            client_id = f"soak-{thread}-{next(self.numbers)}"
            try:
                talk = Talk(self.address, client_id, chance)
            except OSError:
                self.stopping.wait(AGAIN_S)
                continue
            line = to_line(talk.play())
            with self.writing:
                self.journal.write(line)
                self.journal.flush()


def create_topic(address: tuple[str, int]) -> None:
    """The one that all of them use."""
    talk = Talk(address, "soak-begin", random.Random(0))  # noqa: S311
    body = requests.create_topic(TOPIC)
    version = requests.CREATE_TOPICS_VERSION
    talk.socket.sendall(requests.framed(requests.CREATE_TOPICS, version, 1, "soak-begin", body))
    talk.receive(1)
    talk.socket.close()


def main() -> None:
    parser = argparse.ArgumentParser("client")
    parser.add_argument("address")
    parser.add_argument("journal", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    address = (host, int(port))
    create_topic(address)
    with options.journal.open("w", encoding="utf-8") as journal:
        clients = Clients(address, journal, options.seed)
        signal.signal(signal.SIGTERM, lambda *_: clients.stopping.set())
        threads = [
            threading.Thread(target=clients.play, args=(number,))
            for number in range(options.clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
