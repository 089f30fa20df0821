"""The vectors of kio as a capture, so that tshark decodes every layout it knows."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kdissect.protocol.apis import APIS, find_api
from tests.capture.writers import make_pcap
from tests.messages.record_builders import make_batch, make_message, make_record
from tests.packets.builders import BROKER, CLIENT, make_tcp_packet
from tools.fuzz.seeds import written
from tools.fuzz.targets import frame_of
from tools.tshark.oracle import NEWEST_OF_TSHARK

PORTS: Final = (50000, 9092)
SEGMENT: Final = 1400
KEY: Final = b"key"  # of the first record
PER_LAYOUT: Final = 5
PRODUCE: Final = 0
FETCH: Final = 1


def crafted_frames() -> Iterator[tuple[bytes, bytes]]:
    """Pairs of request and response frames, without sizes, of all layouts of tshark's table.

    kio writes random bytes as records, so messages with records are written here.
    """
    names = {api.name for api in APIS.values()}
    bodies: dict[tuple[int, int], dict[str, list[bytes]]] = {}
    for writer, name, version, releases, raw in written():
        if releases or not writer.startswith("kio"):
            continue
        role = "response" if name.endswith("Response") else "request"
        api = name.removesuffix("Response").removesuffix("Request")
        if api in names and version <= NEWEST_OF_TSHARK.get(find_api(api).key, -1):
            roles = bodies.setdefault((find_api(api).key, version), {})
            roles.setdefault(role, []).append(raw)
    for version in range(NEWEST_OF_TSHARK[PRODUCE] + 1):
        bodies[PRODUCE, version]["request"] = [make_produce(version)] * PER_LAYOUT
    for version in range(NEWEST_OF_TSHARK[FETCH] + 1):
        bodies[FETCH, version]["response"] = [make_fetched(version)] * PER_LAYOUT
    number = 0
    for (key, version), roles in sorted(bodies.items()):
        pairs = zip(roles["request"], roles["response"], strict=False)
        for asked, answer in list(pairs)[:PER_LAYOUT]:
            number += 1
            correlation = number.to_bytes(4, "big")
            request = frame_of(key, version, "request", asked)
            response = frame_of(key, version, "response", answer)
            yield request[:4] + correlation + request[8:], correlation + response[4:]


def make_produce(version: int) -> bytes:
    """A Produce request of one partition with records."""
    start = struct.pack(">h2s", 2, b"tx") if version > 2 else b""
    magic = min(version, 3) * 2 // 3  # 0, 0, 1, 2, 2 ...
    records = make_records(magic, version % 5)
    return start + struct.pack(">hii", -1, 30000, 1) + make_topic(b"", records)


def make_fetched(version: int) -> bytes:
    """A Fetch response of one partition with records."""
    start = struct.pack(">i", 17) if version > 0 else b""
    start += struct.pack(">hi", 0, 4711) if version > 6 else b""
    partition = struct.pack(">hq", 0, 1000)
    partition += struct.pack(">q", 999) if version > 3 else b""
    partition += struct.pack(">q", 5) if version > 4 else b""
    partition += struct.pack(">iqq", 1, 7, 8) if version > 3 else b""
    partition += struct.pack(">i", 3) if version > 10 else b""
    records = make_records(min(version // 2, 2), version % 5)
    return start + struct.pack(">i", 1) + make_topic(partition, records)


def make_topic(partition: bytes, records: bytes) -> bytes:
    """A topic whose partition has these fields between its index and its records."""
    index = struct.pack(">h6sii", 6, b"orders", 1, 2)
    return index + partition + struct.pack(">i", len(records)) + records


def make_records(magic: int, codec: int) -> bytes:
    """Two messages, or a batch of two records."""
    if magic < 2:
        return b"".join(make_message(magic, b"value", key=KEY, offset=at) for at in (40, 41))
    plain = [
        make_record(KEY, b"first", headers=[(b"header", b"content")]),
        make_record(None, b"second", offset_delta=1, time_delta=250),
    ]
    producer = (4711, 12, 34)
    return make_batch(plain, codec=codec, attributes=0x18, base_offset=40, producer=producer)


def write_capture(path: Path, pairs: Sequence[tuple[bytes, bytes]]) -> None:
    """One connection that carries all of it."""
    sequences = [1001, 70001]
    packets = [make_tcp_packet(b"", CLIENT, BROKER, *PORTS, 1000, 0, flags=2)]
    for pair in pairs:
        for side, frame in enumerate(pair):
            data = len(frame).to_bytes(4, "big") + frame
            for start in range(0, len(data), SEGMENT):
                part = data[start : start + SEGMENT]
                addresses = (CLIENT, BROKER) if side == 0 else (BROKER, CLIENT)
                ports = PORTS if side == 0 else PORTS[::-1]
                packets.append(
                    make_tcp_packet(
                        part, *addresses, *ports, sequences[side], sequences[1 - side], 0x18
                    )
                )
                sequences[side] += len(part)
    path.write_bytes(make_pcap(packets))
