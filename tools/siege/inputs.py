"""Draws a capture, changes it, and gives the bytes of a file.

A capture is a committed one, one of the hostile generators of the tests, one with credentials, or
one with hostile names. Packets are changed first, then the file, then it is compressed. All of it
depends on `source` only, so a seed and a number determine everything.
"""

import gzip
import random
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import zstandard

from kdissect.capture.pcap import MICROSECONDS, NANOSECONDS
from tests.capture.writers import Captured, make_pcap, make_pcapng
from tests.checkpoint.clocks import AMOUNTS, drawn_step, stepped
from tests.checkpoint.law import CAPTURES, link_type_of, read_packets
from tests.hostile.catalogue import HOSTILE
from tests.secret_conversations import SECRETS, secret_talks
from tools.siege import texts

COMMITTED = sorted(path for path in CAPTURES.rglob("*.pcap*") if path.stat().st_size < 1 << 20)
MOST_PACKETS = 2_000
SIZES = (2_000, 20_000, 100_000, 300_000)  # bytes of a hostile generator's capture
HEADERS = 66  # bytes of a packet before its payload: Ethernet, IPv4, TCP with timestamps
LATEST_NS = (1 << 32) * 1_000_000_000 - 1
FAR_NS = (10**18, -(10**18), 10**15, -(10**15))
SNAPLENS = (0, 14, 34, 54, 66, 70, 96, 128, 200, 500, 1500)
NAMES = ("a", "a", "a", "a b", "\x1b[31mred", "new\nline", "\u202ertl", "=1+1", "a\udcff", "-x'\"")

Packets = list[Captured]
Change = Callable[[Packets, random.Random], Packets]


class Input(NamedTuple):
    """A file to be dissected; `size` is that of its packets, `secrets` must not occur in output."""

    name: str
    origin: str
    data: bytes
    size: int
    secrets: frozenset[bytes] = frozenset()
    protocol: str = "auto"
    changes: tuple[str, ...] = ()


class Drawn(NamedTuple):
    """Packets before they are changed; with `raw` a file that is not taken apart."""

    origin: str
    packets: Packets
    link_type: int = 1
    raw: bytes = b""
    secrets: frozenset[bytes] = frozenset()
    protocol: str = "auto"


def draw_input(source: random.Random) -> Input:
    """A changed capture."""
    drawn = source.choices((committed, hostile, secret, named), (4, 4, 1, 3))[0](source)
    chosen = []
    packets = drawn.packets
    kinds = FAITHFUL if drawn.secrets else CHANGES
    for _ in range(source.choice((0, 1, 1, 2, 3)) if packets else 0):
        change = source.choice(kinds)
        chosen.append(change.__name__)
        packets = change(packets, source)
    data = written(packets, drawn.link_type, source) if packets else drawn.raw
    size = len(data)
    if not drawn.secrets and source.random() < 0.4:
        edit = source.choice(EDITS)
        chosen.append(edit.__name__)
        data = edit(data, source)
        size = max(size, len(data))
    suffix, data = compressed(data, source)
    name = source.choice(NAMES) + suffix
    return Input(name, drawn.origin, data, size, drawn.secrets, drawn.protocol, tuple(chosen))


# Captures


def committed(source: random.Random) -> Drawn:
    """Some neighbouring packets of a committed capture."""
    path = source.choice(COMMITTED)
    packets, link_type = packets_of(str(path))
    first = source.choice((0, source.randrange(max(1, len(packets)))))
    few = packets[first : first + source.randint(1, MOST_PACKETS)]
    raw = path.read_bytes() if source.random() < 0.3 or not few else b""
    return Drawn(str(path.relative_to(CAPTURES)), [] if raw else few, link_type, raw)


@lru_cache(maxsize=16)
def packets_of(path: str) -> tuple[Packets, int]:
    return read_packets(path), link_type_of(path)


def hostile(source: random.Random) -> Drawn:
    """Capture made by a generator of the tests."""
    name = source.choice(sorted(HOSTILE))
    one = HOSTILE[name]
    raw = one.capture(source.randrange(1 << 31), source.choice(SIZES))
    return Drawn(name, [], raw=raw, protocol=one.protocol)


@lru_cache(maxsize=1)
def secret_packets() -> tuple[Captured, ...]:
    return tuple(secret_talks().captured())


def secret(source: random.Random) -> Drawn:
    del source
    return Drawn("credentials", list(secret_packets()), secrets=frozenset(SECRETS))


def named(source: random.Random) -> Drawn:
    return Drawn("hostile names", texts.talk(source).captured())


# Changes of packets. The first keep the payload: a credential keeps its place.


def dropped(packets: Packets, source: random.Random) -> Packets:
    share = source.choice((0.01, 0.1, 0.5))
    return [packet for packet in packets if source.random() >= share] or packets[:1]


def doubled(packets: Packets, source: random.Random) -> Packets:
    share = source.choice((0.01, 0.3, 1.0))
    return [one for packet in packets for one in [packet] * (1 + (source.random() < share))]


def reordered(packets: Packets, source: random.Random) -> Packets:
    """Packets change places with those near them; their times go with them or stay."""
    reach = source.choice((2, 10, 100))
    places = sorted(range(len(packets)), key=lambda at: at + source.uniform(0, reach))
    if source.random() < 0.5:
        return [packets[at] for at in places]
    return [packets[at]._replace(time_ns=packets[to].time_ns) for to, at in enumerate(places)]


def cut(packets: Packets, source: random.Random) -> Packets:
    """Truncate all or some packets, as a snaplen does."""
    size, share = source.choice(SNAPLENS), source.choice((0.05, 1.0))
    return [
        Captured(packet.data[:size], packet.time_ns, packet.wire_length)
        if source.random() < share
        else packet
        for packet in packets
    ]


def clock_set(packets: Packets, source: random.Random) -> Packets:
    """The clock is set, once or some times, by much or by little."""
    steps = [
        drawn_step(source, len(packets), source.choice(AMOUNTS + FAR_NS), source.random() < 0.3)
        for _ in range(source.randint(1, 4))
    ]
    return stepped(packets, *steps)


def first_part(packets: Packets, source: random.Random) -> Packets:
    return packets[: source.randint(1, len(packets))]


def last_part(packets: Packets, source: random.Random) -> Packets:
    return packets[source.randrange(len(packets)) :]


def headers_flipped(packets: Packets, source: random.Random) -> Packets:
    return flipped(packets, source, 0, HEADERS)


def payloads_flipped(packets: Packets, source: random.Random) -> Packets:
    return flipped(packets, source, HEADERS, 1 << 16)


def frame_heads_changed(packets: Packets, source: random.Random) -> Packets:
    """Sizes, keys, versions and ids of frames: the first bytes of payloads."""
    return flipped(packets, source, 54, 86)


def flipped(packets: Packets, source: random.Random, first: int, last: int) -> Packets:
    """Some bytes of some packets are others, among those from `first` to `last`."""
    share = source.choice((0.01, 0.1, 0.5))
    made = list(packets)
    for at, packet in enumerate(packets):
        if len(packet.data) > first and source.random() < share:
            data = bytearray(packet.data)
            for _ in range(source.choice((1, 1, 4))):
                where = source.randrange(first, min(last, len(data)))
                data[where] = source.choice((0, 0x7F, 0x80, 0xFF, source.randrange(256)))
            made[at] = packet._replace(data=bytes(data))
    return made


def names_replaced(packets: Packets, source: random.Random) -> Packets:
    """Runs of letters in payloads become hostile text of the same size."""
    share = source.choice((0.1, 1.0))
    return [
        packet._replace(data=renamed(packet.data, source)) if source.random() < share else packet
        for packet in packets
    ]


def renamed(data: bytes, source: random.Random) -> bytes:
    made = bytearray(data)
    at = HEADERS
    while at < len(made):
        end = at
        while end < len(made) and 0x2D <= made[end] <= 0x7A:
            end += 1
        if end - at >= 3 and source.random() < 0.5:
            made[at:end] = texts.raw(source, end - at)
        at = end + 1
    return bytes(made)


FAITHFUL: tuple[Change, ...] = (
    dropped, doubled, reordered, cut, clock_set, first_part, last_part,
)  # fmt: skip
CHANGES: tuple[Change, ...] = (
    *FAITHFUL, headers_flipped, payloads_flipped, frame_heads_changed, names_replaced,
)  # fmt: skip


# Files


def written(packets: Packets, link_type: int, source: random.Random) -> bytes:
    """Write as any file format, with times in its resolution."""
    fit = [one._replace(time_ns=min(max(0, one.time_ns), LATEST_NS)) for one in packets]
    order = source.choice("<<<>")
    if source.random() < 0.5:
        return make_pcapng(fit, order, link_type)
    return make_pcap(fit, source.choice((MICROSECONDS, NANOSECONDS)), order, link_type)


def truncated(data: bytes, source: random.Random) -> bytes:
    return data[: source.randrange(len(data) + 1)]


def bytes_changed(data: bytes, source: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(source.choice((1, 3, 30)) if made else 0):
        made[source.randrange(len(made))] = source.randrange(256)
    return bytes(made)


def word_changed(data: bytes, source: random.Random) -> bytes:
    """A length or a time, anywhere or at the start, is an extreme one."""
    at = source.randrange(max(1, source.choice((64, len(data))) - 4))
    value = source.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, source.getrandbits(32)))
    return data[:at] + struct.pack(source.choice("<>") + "I", value) + data[at + 4 :]


def inserted(data: bytes, source: random.Random) -> bytes:
    at = source.randrange(len(data) + 1)
    return data[:at] + source.randbytes(source.choice((1, 4, 1000))) + data[at:]


def taken_out(data: bytes, source: random.Random) -> bytes:
    at = source.randrange(len(data) + 1)
    return data[:at] + data[at + source.choice((1, 4, 1000)) :]


def repeated(data: bytes, _: random.Random) -> bytes:
    return data + data


EDITS = (truncated, bytes_changed, word_changed, inserted, taken_out, repeated)


def compressed(data: bytes, source: random.Random) -> tuple[str, bytes]:
    """The ending of a name, and the file: plain, compressed, or compressed and then damaged."""
    kind = source.choices((".pcap", ".pcapng", ".pcap.gz", ".pcap.zst"), (3, 3, 1, 1))[0]
    if kind.endswith(".gz"):
        data = gzip.compress(data, 1, mtime=0)
    elif kind.endswith(".zst"):
        data = zstandard.compress(data, 1)
    else:
        return kind, data
    if source.random() < 0.2:
        data = source.choice((truncated, bytes_changed))(data, source)
    return kind, data
