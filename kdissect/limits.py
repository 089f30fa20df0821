"""`Limits`: bounds on the memory that input may take; each limit reached is a `Problem`."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kdissect.errors import InvalidArgument
from kdissect.text.suggestions import known_words

MIB: Final = 1 << 20
# socket.request.max.bytes is 100 MiB; a response may carry as much plus a header.
LARGEST_FRAME: Final = 100 * MIB + (64 << 10)
# Rows of 279 620 partitions (120 bytes each): clusters coordinated by ZooKeeper had up to 200 000
# in all. As rows, columns and an answer merged with its request they exist 6 times at worst.
DECODED_BYTES: Final = 32 * MIB
# DEFLATE compresses 1032 to 1 at best, LZ4 255 and Snappy 21; zstd 32 768.
UNPACKED_RATIO: Final = 1000
# For a whole capture with its packets' headers: text compresses 10 to 1, repeated text 50. A
# megabyte of capture can expand to 100 MB, a quarter of a second.
UNPACKED_RATIO_IN_ALL: Final = 100


class Limits(NamedTuple):
    """Bounds of one run; `LIMIT_MEANINGS` explains each.

    The defaults are chosen to keep a capture of 10 GB under 500 MB.
    """

    connections: int = 262_144
    idle_seconds: int = 15 * 60
    reassembly_bytes: int = 8 * MIB
    reassembly_bytes_in_all: int = 64 * MIB
    frame_bytes: int = LARGEST_FRAME
    frame_bytes_in_all: int = 128 * MIB
    search_bytes_in_all: int = 64 * MIB
    pending_requests: int = 10_000
    unpacked_bytes: int = 100 * MIB
    name_wait_bytes: int = 32 * MIB
    fragment_bytes: int = 4 * MIB
    fragmented_packets: int = 256
    early_responses: int = 256
    undecided_frames: int = 16
    waiting_bytes_in_all: int = 64 * MIB
    tls_bytes: int = MIB
    tls_bytes_in_all: int = 64 * MIB
    pending_bytes_in_all: int = 128 * MIB
    decoded_bytes: int = DECODED_BYTES
    unpacked_ratio: int = UNPACKED_RATIO
    unpacked_ratio_in_all: int = UNPACKED_RATIO_IN_ALL
    active_connections: int = 131_072

    @property
    def unparked_connections(self) -> int:
        """Connections whose state is at hand: all that may be open where none is parked."""
        return min(self.connections, self.active_connections)


LIMIT_MEANINGS: Final = {
    "connections": "connections open at once; the longest silent end (connection-limit)",
    "idle_seconds": "a connection silent for so long has ended: its row has closed_by idle",
    "reassembly_bytes": "bytes of one direction behind a hole, which is then skipped (held-limit)",
    "reassembly_bytes_in_all": "the same of all connections together (held-limit)",
    "frame_bytes": "size of a frame; a larger one is no frame (bad-frame-size)",
    "frame_bytes_in_all": "bytes of incomplete frames; beyond it, no frame buffers more bytes "
    "(frame-held-limit)",
    "search_bytes_in_all": "bytes that are searched for a first frame; beyond it, fewer are "
    "searched (search-limit)",
    "pending_requests": "pending requests of one connection; the oldest is dropped (pending-limit)",
    "unpacked_bytes": "decompressed records of one message; those beyond are not read "
    "(corrupt-records)",
    "name_wait_bytes": "exchanges that wait for the name of a topic id; the oldest remain without "
    "(late-topic-name)",
    "fragment_bytes": "IP fragments that wait for the rest of their packet; the oldest packets "
    "are flushed incomplete (ip-fragment)",
    "fragmented_packets": "IP packets that wait for the rest of their fragments; the same "
    "(ip-fragment)",
    "early_responses": "responses of one connection that wait for a request from behind a hole; "
    "the oldest becomes an orphan (early-limit)",
    "undecided_frames": "frames of one connection kept until it is known that they are Kafka's; "
    "later ones are lost (undecided-limit)",
    "waiting_bytes_in_all": "bytes of such responses and frames of all connections; the connection "
    "with the newest drops them (early-limit, undecided-limit)",
    "tls_bytes": "TLS records of one connection that are incomplete, or wait for a hello; beyond "
    "it, the connection stays encrypted (tls-held-limit)",
    "tls_bytes_in_all": "the same of all connections; the one that has waited longest stays "
    "encrypted (tls-held-limit)",
    "pending_bytes_in_all": "pending requests of all connections; the oldest are dropped "
    "(pending-limit)",
    "decoded_bytes": "rows, texts and fields of one message; those beyond are only "
    "counted (decoded-limit)",
    "unpacked_ratio": "decompressed records of one message by their size, plus 16 MiB; "
    "those beyond are not read (corrupt-records)",
    "unpacked_ratio_in_all": "decompressed records of all messages by the captured bytes, plus "
    "256 MiB; those beyond are not read (unpacked-limit)",
    "active_connections": "of the open connections, those whose state is at hand; that of others, "
    "silent for longer, is packed",
}

UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_limits(texts: Iterable[str]) -> Limits:
    """Parse limits from ``name=value`` texts, 64M being 64 * 2**20; raises KdissectError.

    >>> parse_limits(["connections=1000", "frame_bytes=2M"])[:5]
    (1000, 900, 8388608, 67108864, 2097152)
    """
    values: dict[str, int] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in Limits._fields:
            raise InvalidArgument(f"no limit {name!r}; {known_words(name, Limits._fields)}")
        number = parse_number(value)
        if number < 0:
            raise InvalidArgument(f"limit {text!r} is not NAME=NUMBER, with K, M or G behind it")
        values[name] = number
    return Limits(**values)


def parse_number(text: str) -> int:
    """Parse a number with an optional suffix K, M or G; -1 unless it has one to nine digits.

    >>> parse_number("64M"), parse_number("12"), parse_number("-3")
    (67108864, 12, -1)
    """
    unit = UNITS.get(text[-1:].lower(), 1)
    # More digits could overflow where limits are 64-bit integers of nanoseconds.
    digits = text if unit == 1 else text[:-1]
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 9
    return int(digits) * unit if is_number else -1
