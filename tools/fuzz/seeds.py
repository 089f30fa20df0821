"""Seeds of the fuzzer: test vectors and messages of real captures."""

import base64
import json
import lzma
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import kdissect
from kdissect.errors import DecodeError
from kdissect.messages.headers import read_request_header, response_body_offset
from kdissect.protocol.apis import APIS, find_api
from tools.fuzz.corpus import EDITED
from tools.fuzz.faulty_captures import WRAPPINGS
from tools.fuzz.faulty_tls import WAYS, talks
from tools.golden import captures

VECTORS: Final = Path(__file__).parents[2] / "tests" / "protocol" / "vectors.jsonl.xz"
FRAME_LIMIT: Final = 2_000  # larger ones are slow to fuzz and show nothing more
CAPTURE_PACKETS: Final = 30
PER_LAYOUT: Final = 2
CONNECTIONS: Final = 400
# Of `faulty_captures`: nothing, and each kind of edit.
CHOICES: Final = {"packets": len(WRAPPINGS), "tls": WAYS * len(talks())}
FIRST_EDITS: Final = ((), *((5 + 3 * kind, kind, 40 + kind, 200) for kind in range(12)))


def seeds(target: str) -> list[bytes]:
    """Inputs of a target, laid out as in its docstring."""
    if target == "requests":
        return [*vectors("Request"), *recorded_bodies(False)]
    if target == "responses":
        return [*vectors("Response"), *recorded_bodies(True)]
    if target == "headers":
        return spread([frame for _, _, frame, _ in frames() if len(frame) < FRAME_LIMIT], 500)
    if target == "records":
        return list(records())
    if target == "packed-records":
        return [bytes([kind, 1]) + b"\x0e\0\0\0\x02k\x02v\0" for kind in range(15)]
    if target == "compression":
        return list(packed())
    if target == "embedded":
        return list(embedded())
    if target == "old":
        return [
            bytes([protocol, api]) + frame
            for pair in old_pairs()
            for frame in pair
            for protocol in range(3)
            for api in range(5)
        ]
    if target == "connections":
        return [*spread(list(connections()), CONNECTIONS), *old_connections()]
    if target in EDITED:
        choices = CHOICES.get(target, 16)
        return [bytes([choice]) + bytes(edit) for choice in range(choices) for edit in FIRST_EDITS]
    return spread(list(small_captures()), 100)


def chosen(key: int, version: int, body: bytes) -> bytes:
    """A body behind the two bytes that choose its layout."""
    return bytes([key, version - APIS[key].lowest]) + body


class Written(NamedTuple):
    """A message that Kafka's classes or kio wrote; `releases` are those of a variant, else ""."""

    writer: str
    name: str
    version: int
    releases: str
    raw: bytes


@cache
def written() -> list[Written]:
    """All vectors of the tests."""
    with lzma.open(VECTORS, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Written(*row[:4], base64.b64decode(row[4])) for row in rows]


def vector_lines() -> Iterator[Written]:
    """A few of every layout."""
    taken: Counter[tuple[str, int, str]] = Counter()
    for message in written():
        layout = (message.name, message.version, message.releases)
        if taken[layout] < PER_LAYOUT:
            taken[layout] += 1
            yield message


def vectors(role: str) -> Iterator[bytes]:
    for _, name, version, _, raw in vector_lines():
        if name.endswith(role) and name.removesuffix(role) in {api.name for api in APIS.values()}:
            yield chosen(find_api(name.removesuffix(role)).key, version, raw)


def frames() -> Iterator[tuple[int, int, bytes, bytes]]:
    """API key, version, request and response of every exchange in the captures."""
    for path in captures():
        for exchange in kdissect.dissect(str(path)):
            if exchange.api_key is not None:
                request, response = (
                    exchange.raw_frame("request"),
                    exchange.raw_frame("response"),
                )
                yield exchange.api_key, exchange.api_version, request, response


def recorded_bodies(is_response: bool) -> Iterator[bytes]:
    """A few of every layout."""
    taken: dict[tuple[int, int], int] = {}
    for key, version, request, response in frames():
        frame = response if is_response else request
        count = taken.get((key, version), 0)
        if not frame or len(frame) > FRAME_LIMIT or count == PER_LAYOUT or key not in APIS:
            continue
        # A response whose request was not captured has no known version.
        if version is None:
            continue
        taken[key, version] = count + 1
        try:
            offset = (
                response_body_offset(key, version, frame)
                if is_response
                else read_request_header(frame).body_offset
            )
        except DecodeError:
            continue
        yield chosen(key, version, frame[offset:])


def records() -> Iterator[bytes]:
    """Records fields of every magic and codec, made and recorded."""
    from tests.messages.record_builders import make_batch, make_message, make_record, make_wrapper

    plain = [make_record(b"k", b"v" * 9, offset_delta=at, headers=[(b"h", None)]) for at in (0, 1)]
    for codec in range(5):
        yield make_batch(plain, codec=codec)
        yield make_batch(plain[:1], codec=codec, attributes=0x28) + make_batch([], codec=codec)[:70]
    for magic in (0, 1):
        messages = [make_message(magic, b"value", key=b"k", offset=at) for at in (0, 1)]
        yield b"".join(messages)
        for codec in (1, 2, 3):
            yield make_wrapper(magic, codec, messages, offset=5)


def packed() -> Iterator[bytes]:
    from tests.messages.record_builders import compress, compress_snappy_block

    for codec in range(1, 5):
        for plain in (b"", b"abc" * 30, bytes(range(256)) * 3):
            for magic in range(3):
                yield bytes([codec + 16 * magic]) + compress(codec, plain) * (1 + magic)
    yield b"\x02" + compress_snappy_block(b"raw" * 100)


def embedded() -> Iterator[bytes]:
    """Members' bytes and own topics' records from the vectors' layouts, forwarded requests."""
    for _, name, version, _, raw in vector_lines():
        if name.startswith("ConsumerProtocol"):
            part = int(name.endswith("Assignment"))
            for assignor in range(7):
                yield bytes([0, part + 16 * assignor]) + version.to_bytes(2, "big") + raw
    for detail in range(256):
        yield bytes([0, detail]) + b"\0\1\0\0\0\1\0\5topic\0\0\0\1\0\0\0\0\0\0\0\0"
    for detail in range(5):
        for kind in range(12):
            key = b"\0" + bytes([kind]) + b"\0\1g\0\1t\0\0\0\0"
            yield bytes([1, detail, len(key)]) + key + b"\0\1" + bytes(60)
    for kind in range(40):
        yield bytes([1, 3, 0, 1, kind, 0]) + bytes(50)
        yield bytes([1, 4, 0, 0, kind, 0]) + bytes(50)
    for detail in range(8):
        yield bytes([2, detail]) + bytes(30)
    for key, _, request, response in frames():
        if len(request) < 200 and len(response) < 400 and key in (3, 11, 14, 18, 19):
            yield b"\3\0" + request
            yield bytes([4, len(request)]) + request + response
    yield b"\5\0\0\0\5User\6alice\0\0"


def connections() -> Iterator[bytes]:
    """Exchanges, one behind the other, as whole frames and in pieces."""
    talk: list[bytes] = []
    for _, _, request, response in frames():
        if len(request) + len(response) > FRAME_LIMIT:
            continue
        for side, frame in enumerate((request, response)):
            if frame:
                talk.append(packet(side, len(frame).to_bytes(4, "big") + frame))
        if len(talk) > 8:
            for start in range(4):
                yield bytes([start]) + b"".join(talk)
            talk = []


def spread(inputs: list[bytes], count: int) -> list[bytes]:
    """At most `count` of them, from all over the list."""
    return inputs[:: max(1, len(inputs) // count)]


def old_pairs() -> list[tuple[bytes, bytes]]:
    """Requests of 0.7 with their responses; produce requests have none."""
    from tests import old_builders as old

    messages = old.message(b"plain", 0) + old.message(b"magic 1") + old.wrapper(old.message(b"in"))
    entry = old.fetch_entry("topic", 0, 100, 1 << 20)
    return [
        (old.produce("topic", messages), b""),
        (old.multiproduce(old.produce_entry("topic", 1, messages)), b""),
        (old.fetch("topic", 100), old.fetched(messages)),
        (old.fetch("topic", 100), old.fetched(b"", 1)),
        (old.multifetch(entry, entry), old.multifetched((0, messages), (0, b""))),
        (old.offsets("topic"), old.listed([300, 200, 0])),
    ]


def old_connections() -> Iterator[bytes]:
    talk = b"".join(
        packet(side, len(frame).to_bytes(4, "big") + frame)
        for pair in old_pairs()
        for side, frame in enumerate(pair)
        if frame
    )
    for start in range(20):
        yield bytes([start]) + talk


def packet(side: int, payload: bytes) -> bytes:
    return bytes([side | (len(payload) >> 8) << 3, len(payload) & 0xFF]) + payload


def small_captures() -> Iterator[bytes]:
    """The first packets of the captures as pcap and as pcapng."""
    from kdissect.capture.files import open_captures
    from tests.capture.writers import Captured, make_pcap, make_pcapng

    for path in captures():
        packets = [packet for batch in open_captures(str(path)) for packet in batch]
        for start in range(0, min(len(packets), 600), CAPTURE_PACKETS * 4):
            part = [
                Captured(packet.data[packet.start : packet.end], time_ns=packet.time_ns)
                for packet in packets[start : start + CAPTURE_PACKETS]
            ]
            yield make_pcap(part)
            yield make_pcapng(part)
