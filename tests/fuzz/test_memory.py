"""Sizes and counts of the wire that lie cost no memory: peaks are small multiples of the bytes."""

import gzip
import struct
import zlib
from contextlib import suppress
from types import ModuleType
from typing import Any

import lz4.frame
import pytest
import zstandard

from kdissect.errors import DecodeError, DecompressionLimit
from kdissect.messages.bodies import decode
from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.headers import read_request_header
from kdissect.messages.layout_choice import REQUEST, RESPONSE
from kdissect.messages.records import decode_records, read_records, scan_batches
from kdissect.protocol.apis import APIS
from kdissect.protocol.readers import Sink
from kdissect.system.extras import fast_inflate
from tests.measuring import peak_memory
from tests.messages.record_builders import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    compress_snappy_block,
    make_batch,
    make_message,
    make_varint,
    make_wrapper,
)

KIB, MIB = 1 << 10, 1 << 20
# A value of a byte becomes at most a struct with a few fields: a dict of up to 400 bytes, its place
# in a list, and as much again while redaction copies the body.
FULL_RATIO = 600
BASE = 300 * KIB  # readers of a layout
SIZE = 20_000
PATTERNS = {
    "counts and lengths of 2^31 - 1": b"\x7f\xff\xff\xff",
    "counts and lengths of 2^24": b"\x01\x00\x00\x00",
    "varints of 2^32 - 1": b"\xff\xff\xff\xff\x0f",
    "varints of 2^28": b"\x80\x80\x80\x80\x01",
    "counts and lengths of 127": b"\x7f",
    "counts of 1": b"\x00\x00\x00\x01",
    "elements of a byte": b"\x01",
    "nothing": b"\x00",
}


def decode_any(key: int, version: int, direction: str, data: bytes) -> None:
    with suppress(DecodeError):
        decode(key, version, direction, data)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_no_count_or_length_of_any_layout_is_believed_beyond_the_bytes(pattern: bytes) -> None:
    for key, api in APIS.items():
        for version in (api.lowest, (api.lowest + api.highest) // 2, api.highest):
            for direction in (REQUEST, RESPONSE):
                # After three zero bytes, too: the byte before them is then 0.
                for data in (pattern * 60, bytes(3) + pattern * 60):
                    decode_any(key, version, direction, data)
                    peak = peak_memory(lambda: decode_any(key, version, direction, data))  # noqa: B023
                    assert peak < BASE + FULL_RATIO * len(data), (api.name, version, direction)


@pytest.mark.parametrize(
    ("api", "version", "direction", "start", "element"),
    [
        pytest.param("Metadata", 1, REQUEST, b"", b"\x00\x00", id="empty strings"),
        pytest.param("DescribeGroups", 0, RESPONSE, b"", bytes(14), id="small structs"),
        pytest.param("ApiVersions", 0, RESPONSE, b"\x00\x00", bytes(6), id="structs of integers"),
        pytest.param("LeaderAndIsr", 0, REQUEST, bytes(8), b"\x00" * 30, id="structs of arrays"),
    ],
)
def test_an_honest_count_costs_a_small_multiple_of_its_elements(
    api: str, version: int, direction: str, start: bytes, element: bytes
) -> None:
    count = SIZE // len(element)
    data = start + struct.pack(">i", count) + element * count
    decode_data = data + (bytes(4) if api == "LeaderAndIsr" else b"")
    decode(api, version, direction, decode_data)
    peak = peak_memory(lambda: decode(api, version, direction, decode_data))
    assert peak < BASE + FULL_RATIO * len(data)


def test_as_many_tags_as_fit_cost_a_small_multiple_of_their_bytes() -> None:
    tags = b"".join(unsigned_varint(1000 + number) + b"\x00" for number in range(10_000))
    section = unsigned_varint(10_000) + tags
    body = bytes(4) + section  # a ListPartitionReassignments: timeout, no topics, tags
    values = decode("Heartbeat", 4, RESPONSE, bytes(6) + section)
    assert len(values["unknown_tags"]) == 10_000
    peak = peak_memory(lambda: decode("Heartbeat", 4, RESPONSE, bytes(6) + section))
    assert peak < BASE + 200 * len(body)


def test_tags_of_a_header_cost_nothing() -> None:
    tags = b"".join(unsigned_varint(1000 + number) + b"\x00" for number in range(10_000))
    frame = bytes.fromhex("0003 0009 00000001 ffff") + unsigned_varint(10_000) + tags
    assert peak_memory(lambda: read_request_header(frame)) < 10 * KIB


def test_a_projected_decode_of_hostile_counts_costs_nothing() -> None:
    plans, sink = fact_plans(), Sink()
    for pattern in PATTERNS.values():
        for key, api in APIS.items():
            for is_response in (False, True):
                plan = plans.get(key, api.highest, is_response)
                data = pattern * 60

                def run(plan: Any = plan, data: bytes = data) -> None:
                    with suppress(DecodeError):
                        plan.run(data, 0, sink)

                run()
                assert peak_memory(run) < 20 * KIB, (api.name, is_response)


def bomb(codec: int, size: int) -> bytes:
    plain = bytes(size)
    if codec == GZIP:
        return gzip.compress(plain, mtime=0)
    if codec == SNAPPY:
        return compress_snappy_block(plain)
    if codec == LZ4:
        return bytes(lz4.frame.compress(plain))
    return zstandard.compress(plain)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_in_a_batch_costs_its_limit_twice_at_most(codec: int) -> None:
    data = make_batch([], codec=codec, record_count=1, packed=bomb(codec, 16 * MIB))
    limit = 4 * MIB
    for batch in scan_batches(data, 0, len(data)).batches:
        peak = peak_memory(lambda: read_records(data, batch, limit))  # noqa: B023
        assert peak < 2 * limit + len(data) + 2 * MIB
        assert isinstance(read_records(data, batch, limit).error, DecompressionLimit)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_bomb_in_an_old_wrapper_costs_its_limit_twice_at_most(magic: int, codec: int) -> None:
    data = make_message(magic, bomb(codec, 16 * MIB), attributes=codec)
    limit = 4 * MIB
    [batch] = scan_batches(data, 0, len(data)).batches
    assert peak_memory(lambda: read_records(data, batch, limit)) < 2 * limit + len(data) + 2 * MIB
    assert isinstance(read_records(data, batch, limit).error, DecompressionLimit)


def test_a_wrapper_in_a_wrapper_is_not_unpacked() -> None:
    inner = make_wrapper(1, GZIP, [make_message(1, bytes(8 * MIB))], offset=0)
    data = make_wrapper(1, GZIP, [inner], offset=0)
    assert peak_memory(lambda: decode_records(data)) < MIB


def test_many_bombs_in_a_field_are_not_held_together() -> None:
    data = make_batch([], codec=GZIP, record_count=1, packed=bomb(GZIP, 2 * MIB)) * 40
    limit = 4 * MIB
    assert peak_memory(lambda: decode_records(data, limit)) < 2 * limit + 2 * MIB


def state_of(module: ModuleType) -> int:
    """The memory of a decompressor of gzip."""
    return peak_memory(lambda: module.decompressobj(31))


@pytest.mark.parametrize("record_count", [1, 1 << 20, (1 << 31) - 1])
def test_a_count_of_records_is_not_believed(record_count: int) -> None:
    data = make_batch([], codec=GZIP, record_count=record_count, packed=gzip.compress(b""))
    # The state of ISA-L, where it is installed, is larger than zlib's.
    more = state_of(fast_inflate() or zlib) - state_of(zlib)
    assert peak_memory(lambda: decode_records(data)) < 100 * KIB + more


def test_a_count_of_headers_is_not_believed() -> None:
    body = b"\x00\x00\x00\x01\x01" + make_varint((1 << 31) - 1)
    data = make_batch([make_varint(len(body)) + body])
    assert peak_memory(lambda: decode_records(data)) < 100 * KIB


def test_the_smallest_records_cost_a_small_multiple_of_their_bytes() -> None:
    records = [b"\x0c\x00\x00\x00\x01\x01\x00"] * 20_000
    data = make_batch(records)
    assert len(decode_records(data)[0]["records"]) == 20_000  # type: ignore[arg-type]
    assert peak_memory(lambda: decode_records(data)) < 100 * len(data)
    [batch] = scan_batches(data, 0, len(data)).batches
    assert peak_memory(lambda: read_records(data, batch)) < 50 * len(data)


def test_the_smallest_entries_cost_a_small_multiple_of_their_bytes() -> None:
    # Runs of one message each: magic and time type change from one to the next.
    data = (make_message(0, b"") + make_message(1, b"")) * 5_000
    assert len(scan_batches(data, 0, len(data)).batches) == 10_000
    assert peak_memory(lambda: scan_batches(data, 0, len(data))) < 30 * len(data)
    assert peak_memory(lambda: decode_records(data)) < 150 * len(data)


def unsigned_varint(value: int) -> bytes:
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
