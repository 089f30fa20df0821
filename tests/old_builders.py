"""Frames of Kafka 0.7, byte by byte, after the seed documents and the facts of its source.

The result is a frame without its size field; `sized` of `exchange_builders` adds it.
"""

import gzip
import struct
import zlib
from collections.abc import Sequence

import snappy

GZIP = 1
SNAPPY = 2


def string16(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


# Seed 001, MESSAGE: LENGTH, MAGIC, COMPRESSION (magic 1 only), CHECKSUM of the payload, PAYLOAD.


def message(payload: bytes, magic: int = 1, codec: int = 0, crc: int | None = None) -> bytes:
    checksum = zlib.crc32(payload) if crc is None else crc
    head = struct.pack(">bb", magic, codec) if magic else struct.pack(">b", magic)
    content = head + struct.pack(">I", checksum) + payload
    return struct.pack(">i", len(content)) + content


def wrapper(inner: bytes, codec: int = GZIP) -> bytes:
    packed = gzip.compress(inner, mtime=0) if codec == GZIP else xerial(inner)
    return message(packed, codec=codec)


def xerial(content: bytes) -> bytes:
    """The stream of snappy-java: magic, version 1, compatible version 1, sized blocks."""
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    blocks = [content[at : at + 32_768] for at in range(0, len(content), 32_768)]
    packed = [snappy.compress(block) for block in blocks]
    return head + b"".join(struct.pack(">i", len(block)) + block for block in packed)


# Seed 001, the requests; types 2 and 3 by facts section 4, which the seed leaves out.


def produce_entry(topic: str, partition: int, messages: bytes) -> bytes:
    return (
        string16(topic) + struct.pack(">i", partition) + struct.pack(">i", len(messages)) + messages
    )


def fetch_entry(topic: str, partition: int, offset: int, max_size: int) -> bytes:
    return string16(topic) + struct.pack(">iqi", partition, offset, max_size)


def produce(topic: str, messages: bytes, partition: int = 0) -> bytes:
    return struct.pack(">h", 0) + produce_entry(topic, partition, messages)


def fetch(topic: str, offset: int, partition: int = 0, max_size: int = 300_000) -> bytes:
    return struct.pack(">h", 1) + fetch_entry(topic, partition, offset, max_size)


def multifetch(*entries: bytes) -> bytes:
    return struct.pack(">hh", 2, len(entries)) + b"".join(entries)


def multiproduce(*entries: bytes) -> bytes:
    return struct.pack(">hh", 3, len(entries)) + b"".join(entries)


def offsets(topic: str, time: int = -1, partition: int = 0, max_offsets: int = 1) -> bytes:
    return (
        struct.pack(">h", 4) + string16(topic) + struct.pack(">iqi", partition, time, max_offsets)
    )


# The responses: seed 001, and for MULTIFETCH facts section 4.


def fetched(messages: bytes = b"", error: int = 0) -> bytes:
    return struct.pack(">h", error) + messages


def multifetched(*entries: tuple[int, bytes]) -> bytes:
    parts = [struct.pack(">ih", len(content) + 2, error) + content for error, content in entries]
    return struct.pack(">h", 0) + b"".join(parts)


def listed(positions: Sequence[int], error: int = 0) -> bytes:
    return struct.pack(">hi", error, len(positions)) + b"".join(
        struct.pack(">q", position) for position in positions
    )
