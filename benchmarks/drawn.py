"""Draws captures that no one has tuned to: recorded sessions, mixed by parameters of a seed.

    python -m benchmarks.drawn SEED OUT.pcap --megabytes 200
                               [--kind mixed|small|bulk|wide] [--from RECORDING,...] [--dry-run]

What is drawn is printed with the seed: the recordings (those of `captures/` unless `--from` names
others), the connections that are open at a time, the names that copies of a recording share, the
segment size, loss, and the share of small requests. A recording is replayed as a whole: its
connections keep their times and their brokers, so an incident stays one. Each copy
has clients and fetch sessions of its own, and topics (with their ids), groups and transactional ids
of one of a number of sets: names of the same length, so that messages keep their sizes.
"""

import argparse
import heapq
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import kdissect
from benchmarks.fetch_session_ids import in_session, makes_session, session_place
from benchmarks.generate import (
    ACK,
    ETHERNET,
    FIN,
    FIRST_CLIENT_ADDRESS,
    FIRST_PORT,
    IPV4,
    PACE_NS,
    PORTS,
    PSH,
    SECOND,
    SYN,
    TCP,
    Wire,
)
from benchmarks.workloads import ROOT
from kdissect.capture.files import open_captures
from kdissect.dissection.options import Options
from kdissect.pipeline import feed_all, make_dissector

KINDS: Final = ("mixed", "small", "bulk", "wide")
OF_TODAY: Final = ("4.3.1", "4.0.1", "3.9.1", "2.8.2")
SMALL_SIZE: Final = 2_000  # of request and response, bytes
SEGMENTS: Final = (1448, 1448, 8948, 65_160)  # Ethernet, jumbo frames, segmentation offload
LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz0123456789"
NAMES: Final = ("topic", "group_id", "transactional_id")


class Drawn(NamedTuple):
    """Parameters of a capture."""

    seed: int
    kind: str
    recordings: tuple[str, ...]
    connections: int  # open at a time
    name_sets: int
    mss: int
    loss: float  # share of segments that the capture lacks
    small_share: float  # of the larger exchanges, which are left out
    time_factor: float  # pauses become so many times as long


class Frame(NamedTuple):
    """A message of a recording: when, on which connection, which way, and its bytes.

    `session` is the place of the id of its fetch session, -1 without one.
    """

    time_ns: int
    connection: int
    is_request: bool
    data: bytes
    session: int


class Recording(NamedTuple):
    """The messages of a recording in time order, its connections' brokers, and its names."""

    frames: list[Frame]
    brokers: dict[int, tuple[int, int]]
    names: tuple[bytes, ...]


class Peer:
    """One connection of a copy: its ends and sequence numbers."""

    def __init__(self, number: int, broker: tuple[int, int]) -> None:
        client = (FIRST_CLIENT_ADDRESS + number // PORTS, FIRST_PORT + number % PORTS)
        self.ends = ((client, broker), (broker, client))
        self.sequence = [number * 7919 & 0xFFFFFFFF, number * 104_729 & 0xFFFFFFFF]


def draw(seed: int, kind: str, recordings: tuple[str, ...]) -> Drawn:
    """The parameters of a seed."""
    chance = random.Random(f"{seed}-{kind}")
    chosen = recordings or recordings_of(kind)
    return Drawn(
        seed,
        kind,
        tuple(sorted(chance.sample(chosen, min(len(chosen), chance.randint(2, 8))))),
        connections=int(10 ** chance.uniform(1, 4 if kind == "bulk" else 5)),
        name_sets=int(2 ** chance.uniform(0, 7)),
        mss=chance.choice(SEGMENTS),
        loss=chance.choice((0.0, 0.0, 0.0001, 0.002)),
        small_share={"small": 0.98, "mixed": chance.uniform(0.0, 0.9)}.get(kind, 0.0),
        time_factor=10 ** chance.uniform(-1, 1),
    )


def recordings_of(kind: str) -> tuple[str, ...]:
    """The committed captures of a kind of today's brokers."""
    directory = ROOT / "captures"
    found = [
        path
        for path in sorted(directory.glob("*.pcapng"))
        if any(version in path.name for version in OF_TODAY) and "tls" not in path.name
    ]
    if kind == "mixed":
        return tuple(map(str, found))
    begins = {"small": ("groups", "quickstart", "incident-slow", "consumer"), "bulk": ("cluster",)}
    return tuple(str(one) for one in found if one.name.startswith(begins.get(kind, ("quorum",))))


def recording(path: Path, drawn: Drawn, chance: random.Random) -> Recording:
    """Read the parameters of a recording."""
    frames: list[Frame] = []
    brokers: dict[int, int] = {}
    for exchange in kdissect.dissect(str(path)):
        sides = (
            (True, exchange.request_end, exchange.raw_frame("request")),
            (False, exchange.response_end, exchange.raw_frame("response")),
        )
        size = sum(len(data or b"") for _, _, data in sides)
        is_left_out = size >= SMALL_SIZE and chance.random() < drawn.small_share
        # Later fetches refer to the session that this one creates.
        if is_left_out and not makes_session(exchange):
            continue
        brokers.setdefault(exchange.connection_id, exchange.broker_port)
        for is_request, time_ns, data in sides:
            if data and time_ns is not None:
                whole = len(data).to_bytes(4, "big") + data
                place = session_place(exchange, is_request, whole)
                frames.append(Frame(time_ns, exchange.connection_id, is_request, whole, place))
    frames.sort(key=lambda one: one.time_ns)
    return Recording(frames, brokers_by_port(brokers), names_of(path))


def brokers_by_port(brokers: dict[int, int]) -> dict[int, tuple[int, int]]:
    """One address for each broker of the recording, where they were told apart by port."""
    ports = sorted(set(brokers.values()))
    return {one: (0x0A000009 + ports.index(port), port) for one, port in brokers.items()}


def names_of(path: Path) -> tuple[bytes, ...]:
    """Topics, groups and transactional ids that are long enough to be told apart, and topic ids."""
    found: set[str] = set()
    for table, columns in (("partitions", ("topic",)), ("exchanges", NAMES[1:])):
        rows = kdissect.read(str(path), table=table, columns=list(columns)).to_arrow()
        for column in columns:
            found |= {name for name in rows[column].to_pylist() if name}
    long = [name.encode() for name in found if len(name) >= 4 and not name.startswith("__")]
    return (*sorted(long, key=len, reverse=True), *sorted(ids_of(path, long)))


def ids_of(path: Path, names: list[bytes]) -> set[bytes]:
    """The ids of topics with these names, wherever a broker tells them."""
    options = Options(tables=())
    dissector = make_dissector(options, collects=True, keeps_frames=False)
    for _ in feed_all(open_captures(str(path)), dissector, options):
        dissector.take_exchanges()
    told = dissector.exchanges.names
    return {topic_id for topic_id, name in told.items() if name.encode() in names}


def renamed(data: bytes, names: tuple[bytes, ...], number: int) -> bytes:
    """The message with names of another set: the last two letters, or bytes, are its number's."""
    if not number:
        return data
    suffix = bytes((LETTERS[number // 36 % 36], LETTERS[number % 36]))
    for name in names:
        if name in data:
            data = data.replace(name, name[:-2] + suffix)
    return data


class Copies:
    """Replays of recordings that begin one after the other, so that enough connections are open."""

    def __init__(self, drawn: Drawn, found: list[Recording], chance: random.Random) -> None:
        self.drawn = drawn
        self.found = found
        self.chance = chance
        self.waiting: list[tuple[int, int, int]] = []  # time, copy, place
        self.copies: dict[int, tuple[int, dict[int, Peer], int, int]] = {}
        self.variants: dict[tuple[int, int], list[bytes]] = {}
        self.started = 0
        self.opened = 0
        self.open = 0

    def start(self, now: int) -> None:
        """Begin replays until the drawn number of connections is open."""
        while self.open < self.drawn.connections:
            which = self.chance.randrange(len(self.found))
            one = self.found[which]
            peers = {}
            for connection, broker in one.brokers.items():
                peers[connection] = Peer(self.opened, broker)
                self.opened += 1
            number = self.chance.randrange(self.drawn.name_sets)
            if (which, number) not in self.variants:
                self.variants[which, number] = [
                    renamed(frame.data, one.names, number) for frame in one.frames
                ]
            length = one.frames[-1].time_ns - one.frames[0].time_ns
            begins = now + int(self.chance.random() * length * self.drawn.time_factor / 4)
            self.copies[self.started] = (which, peers, begins, number)
            heapq.heappush(self.waiting, (begins, self.started, 0))
            self.open += len(peers)
            self.started += 1

    def messages(self) -> Iterator[tuple[int, Peer, bool, bytes, list[Peer]]]:
        """Time, connection, direction, bytes; and the connections that end after it."""
        self.start(1_700_000_000 * SECOND)
        while self.waiting:
            time_ns, copy, place = heapq.heappop(self.waiting)
            which, peers, begins, number = self.copies[copy]
            one = self.found[which]
            frame = one.frames[place]
            is_last = place + 1 == len(one.frames)
            data = in_session(self.variants[which, number][place], frame.session, copy)
            ending = list(peers.values()) if is_last else []
            yield time_ns, peers[frame.connection], frame.is_request, data, ending
            if is_last:
                self.open -= len(peers)
                del self.copies[copy]
                self.start(time_ns)
            else:
                passed = one.frames[place + 1].time_ns - one.frames[0].time_ns
                then = begins + int(passed * self.drawn.time_factor)
                heapq.heappush(self.waiting, (max(then, time_ns), copy, place + 1))


class Line:
    """Writes segments of messages, and leaves some out."""

    def __init__(self, file: BinaryIO, drawn: Drawn, chance: random.Random) -> None:
        self.wire = Wire(file, drawn.mss)
        self.loss = drawn.loss
        self.chance = chance
        self.greeted: set[int] = set()

    def message(self, time_ns: int, peer: Peer, is_request: bool, data: bytes) -> None:
        """A message in segments, with the greeting of a connection before its first one."""
        self.wire.now = max(self.wire.now, time_ns)
        if id(peer) not in self.greeted:
            self.greeted.add(id(peer))
            self.segment(peer, 0, b"", SYN)
            self.segment(peer, 1, b"", SYN | ACK)
            self.segment(peer, 0, b"", ACK)
        side, mss = 0 if is_request else 1, self.wire.mss
        for number, start in enumerate(range(0, len(data), mss)):
            end = min(start + mss, len(data))
            self.segment(peer, side, data[start:end], ACK | (PSH if end == len(data) else 0))
            if number % 2 or end == len(data):
                self.segment(peer, 1 - side, b"", ACK)

    def close(self, peers: list[Peer]) -> None:
        """FINs of connections."""
        for peer in peers:
            if id(peer) in self.greeted:
                self.greeted.discard(id(peer))
                self.segment(peer, 0, b"", FIN | ACK)
                self.segment(peer, 1, b"", FIN | ACK)
                self.segment(peer, 0, b"", ACK)

    def segment(self, peer: Peer, side: int, payload: bytes, flags: int) -> None:
        """One packet, now."""
        (source, source_port), (target, target_port) = peer.ends[side]
        acknowledged = peer.sequence[1 - side] if flags & ACK else 0
        total = IPV4.size + TCP.size + len(payload)
        ip = IPV4.pack(0x45, 0, total, 0, 0x4000, 64, 6, 0, source, target)
        tcp = TCP.pack(
            source_port, target_port, peer.sequence[side], acknowledged, 0x50, flags, 65_535, 0, 0
        )
        if not (payload and self.loss and self.chance.random() < self.loss):
            self.wire.packet(ETHERNET + ip + tcp, payload)
        self.wire.now += PACE_NS
        consumed = len(payload) + (1 if flags & (SYN | FIN) else 0)
        peer.sequence[side] = (peer.sequence[side] + consumed) & 0xFFFFFFFF


def make(drawn: Drawn, out: Path, size: int) -> None:
    """Write a capture of the drawn parameters, of `size` bytes."""
    chance = random.Random(drawn.seed)
    found = [recording(Path(path), drawn, chance) for path in drawn.recordings]
    found = [one for one in found if one.frames]
    copies = Copies(drawn, found, chance)
    with out.open("wb") as file:
        line = Line(file, drawn, chance)
        for time_ns, peer, is_request, data, closing in copies.messages():
            line.message(time_ns, peer, is_request, data)
            if closing:
                line.close(closing)
            if line.wire.size >= size:
                break
        line.wire.flush()


def parser(described: str | None) -> argparse.ArgumentParser:
    """The command line of a benchmark over drawn captures, one of each kind."""
    found = argparse.ArgumentParser(
        description=described, formatter_class=argparse.RawTextHelpFormatter
    )
    found.add_argument("--megabytes", type=int, default=30)
    found.add_argument("--kinds", default=",".join(KINDS))
    found.add_argument("--seed", type=int, default=2)
    return found


def captures(
    options: argparse.Namespace, connections: int, directory: Path
) -> Iterator[tuple[str, Path]]:
    """Each kind with its capture, which the next one overwrites."""
    capture = directory / "drawn.pcap"
    for kind in options.kinds.split(","):
        parameters = draw(options.seed, kind, ())._replace(connections=connections)
        make(parameters, capture, options.megabytes * 1_000_000)
        yield kind, capture


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("seed", type=int)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--kind", choices=KINDS, default="mixed")
    parser.add_argument("--from", dest="recordings", default="", help="captures, with commas")
    parser.add_argument("--connections", type=int, default=0, help="default: drawn")
    parser.add_argument("--dry-run", action="store_true", help="only print what is drawn")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    recordings = tuple(filter(None, options.recordings.split(",")))
    drawn = draw(options.seed, options.kind, recordings)
    if options.connections:
        drawn = drawn._replace(connections=options.connections)
    json.dump(drawn._asdict(), sys.stdout, indent=1)
    print()
    if not options.dry_run:
        make(drawn, options.out, options.megabytes * 1_000_000)


if __name__ == "__main__":
    main()
