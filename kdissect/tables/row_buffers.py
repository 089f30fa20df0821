"""Buffers of rows, dictionaries of texts, and values as integers.

A writer appends the stored columns of one row of its table, column after column in the order of
`schemas`; its subclass is generated (`writers_source`) and belongs to one `Rows`. Longer than other
modules: functions that generated writers call by name.
"""

import ipaddress
from typing import Final

from librt.strings import BytesWriter, read_i16_be
from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.messages.extracted import ErrorFact
from kdissect.messages.memberships import Membership
from kdissect.messages.old_protocols import CODE_MASK, PROTOCOL_SHIFT
from kdissect.messages.partitions import NO_ID, Partition, Partitions
from kdissect.messages.records import Batch
from kdissect.protocol.readers import NULL
from kdissect.streams.direction_counts import DirectionCounts
from kdissect.streams.events import OPENER, UNKNOWN_SIDE
from kdissect.tls.session_properties import SessionProperties

# Codec column: index into this; -1 codecs and runs that differ are "mixed".
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd", "codec-5", "codec-6", "codec-7", "mixed")
TIMESTAMP_TYPES: Final = ("create", "append")
# Vendors follow the protocols before 0.8 in codes, by their index in `apis.VENDORS`.
VENDOR_BASE: Final = 16
IPV4_SIZE: Final = 4
# Texts of addresses: each of a client's connections has its own copy of the bytes.
KNOWN_ADDRESSES: Final = 4096
_known_addresses: dict[bytes, str] = {}


class Texts:
    """The dictionary of one text column of one batch: text → index, in order of appearance.

    `size` is the total number of characters. The text of a row is often that of the row before.
    """

    __slots__ = ("indices", "size", "_latest", "_latest_index")

    def __init__(self) -> None:
        self.indices: dict[str, int] = {}
        self.size: i64 = 0
        self._latest: str | None = None
        self._latest_index: i64 = 0

    def index(self, text: str) -> i64:
        """Index of `text`, added if new."""
        if text is not self._latest:
            self._latest = text
            self._latest_index = self._index(text)
        return self._latest_index

    def _index(self, text: str) -> i64:
        known = self.indices.get(text)
        if known is not None:
            return known
        size = len(self.indices)
        self.indices[text] = size
        self.size += len(text)
        return size

    def index_or_null(self, text: str) -> i64:
        """Like `index`; NULL for the empty text."""
        return self.index(text) if text else NULL

    def index_or_none(self, text: str | None) -> i64:
        """Like `index`; NULL for None."""
        return NULL if text is None else self.index(text)


class TopicIds:
    """The dictionary of a topic_id column: 16 raw bytes → index; the text form is computed once."""

    __slots__ = ("indices", "_latest", "_latest_index")

    def __init__(self) -> None:
        self.indices: dict[bytes, int] = {}
        self._latest: bytes = NO_ID
        self._latest_index: i64 = NULL

    def index_or_null(self, topic_id: bytes) -> i64:
        """Index of `topic_id`, added if new; NULL for the zero id."""
        if topic_id is not self._latest:
            self._latest = topic_id
            self._latest_index = self._index_or_null(topic_id)
        return self._latest_index

    def _index_or_null(self, topic_id: bytes) -> i64:
        if topic_id == NO_ID:
            return NULL
        known = self.indices.get(topic_id)
        if known is not None:
            return known
        size = len(self.indices)
        self.indices[topic_id] = size
        return size


class Rows:
    """Rows of one table since the last batch: a buffer, their number, and dictionaries.

    `text_size` approximates the characters of long texts held beside the dictionaries.
    """

    def __init__(self) -> None:
        self.buffer = BytesWriter()
        self.count: i64 = 0
        self.text_size: i64 = 0
        self.texts: dict[str, Texts] = {}
        self.topic_ids = TopicIds()

    def column(self, name: str) -> Texts:
        """Return the dictionary of the text column `name`."""
        texts = self.texts.get(name)
        if texts is None:
            texts = Texts()
            self.texts[name] = texts
        return texts

    def all_text_size(self) -> i64:
        """Approximate number of characters held in all."""
        size = self.text_size
        for texts in self.texts.values():
            size += texts.size
        return size


class ConnectionRow:
    """A closed connection and what its columns are made of; framed and skipped are by direction.

    `up` is the direction to the broker. An undecided connection is shown as if its opener were the
    client.
    """

    def __init__(
        self,
        state: ConnectionState,
        framed: tuple[int, int],
        skipped: tuple[int, int],
        facts: SessionProperties | None,
    ) -> None:
        self.state = state
        self.connection = state.connection
        self.framed = framed
        self.skipped = skipped
        self.facts = facts
        self.up: i64 = state.request_direction if state.request_direction >= 0 else OPENER
        self.down: i64 = 1 - self.up
        self.to_broker = state.connection.counts[self.up]
        self.to_client = state.connection.counts[self.down]

    def address(self, direction: i64) -> str:
        """Address of the side that sends in a direction."""
        flow = self.connection.flow
        width = (len(flow) - 4) // 2
        return address_text(flow[direction * width : (direction + 1) * width])

    def port(self, direction: i64) -> i64:
        """TCP port of the side that sends in a direction."""
        flow = self.connection.flow
        at = len(flow) - 4 + 2 * direction
        return i64(read_i16_be(flow, at)) & 0xFFFF

    def framed_bytes(self, direction: i64) -> i64:
        """Bytes of a direction that were cut into frames."""
        first, second = self.framed
        return first if direction == OPENER else second

    def skipped_bytes(self, direction: i64) -> i64:
        """Bytes of a direction that could not be cut into frames."""
        first, second = self.skipped
        return first if direction == OPENER else second

    def proxied_address(self) -> str:
        """Address of the client behind a proxy; "" if unknown."""
        return address_text(self.state.proxied_ip) if self.state.proxied_ip else ""

    def rst_by(self) -> str:
        """Side that reset the connection; "" for none."""
        return "client" if self.to_broker.rst_seen else "broker" if self.to_client.rst_seen else ""

    def ended_by(self) -> str:
        """Side that sent the first FIN or RST; "" for none, and where that is not known."""
        direction: i64 = self.connection.ended_by
        if direction < 0 or direction == UNKNOWN_SIDE:
            return ""
        return "client" if direction == self.up else "broker"


class ConnectionWriter:
    """Writes rows of `connections`."""

    def write(self, b: BytesWriter, c: ConnectionRow) -> None:
        """Append the columns of one row."""
        raise NotImplementedError


class ExchangeWriter:
    """Writes rows of `exchanges`."""

    def write(self, b: BytesWriter, x: Exchange) -> None:
        """Append the columns of one row."""
        raise NotImplementedError


class PartitionWriter:
    """Writes values shared by the partitions of a topic in an exchange."""

    def write(self, b: BytesWriter, x: Exchange, partitions: Partitions, topic: i64) -> None:
        """Append these columns once."""
        raise NotImplementedError


class BatchWriter:
    """Writes rows of `batches`."""

    def write(self, b: BytesWriter, x: Exchange, p: Partition, batch: Batch, crc_ok: i64) -> None:
        """Append the columns of one row."""
        raise NotImplementedError


class RecordWriter:
    """Writes values shared by the records of a batch."""

    def write(self, b: BytesWriter, x: Exchange, p: Partition, aborted: i64) -> None:
        """Append these columns once."""
        raise NotImplementedError


class ErrorWriter:
    """Writes rows of `errors`."""

    def write(self, b: BytesWriter, x: Exchange, error: ErrorFact) -> None:
        """Append the columns of one row."""
        raise NotImplementedError


class MemberWriter:
    """Writes rows of `members`."""

    def write(self, b: BytesWriter, x: Exchange, m: Membership) -> None:
        """Append the columns of one row."""
        raise NotImplementedError


class BodyWriter:
    """Writes rows of `bodies`."""

    def write(self, b: BytesWriter, x: Exchange, request: str, response: str) -> None:
        """Append the columns of one row."""
        raise NotImplementedError


class ProblemWriter:
    """Writes rows of `problems`."""

    def write(self, b: BytesWriter, problem: Problem) -> None:
        """Append the columns of one row."""
        raise NotImplementedError


def aborted_or_null(batch: Batch) -> i64:
    """1 when a batch is of an aborted transaction, 0 when not, NULL when unknown."""
    if batch.aborted >= 0:
        return batch.aborted
    return NULL if batch.is_transactional and not batch.is_control else 0


def partition_count(x: Exchange) -> i64:
    """Partitions of an exchange, with those without a row; NULL if unknown."""
    if x.topic_count == NULL:
        return NULL
    partitions = x.partitions
    if partitions is None:
        return 0
    return partitions.count + partitions.unkept


def retransmitted_bytes(counts: DirectionCounts) -> i64:
    """Retransmitted payload bytes, as far as they can be determined."""
    return counts.duplicate_bytes - counts.duplicate_packet_bytes


def code_in(dialect: i64, code: i64) -> i64:
    """Combine an API key or error code of an exchange with its protocol above the lower 16 bits.

    The columns of codes take the lower 16 bits, the columns of names all of them.
    """
    if dialect == 0 or code == NULL:
        return code
    return (dialect << PROTOCOL_SHIFT) | (code & CODE_MASK)


def api_code(x: Exchange) -> i64:
    """API key of an exchange, with its protocol or vendor above the 16 bits: see `code_in`."""
    return code_in(x.dialect if x.vendor == 0 else VENDOR_BASE + x.vendor, x.api_key)


def count_or_null(value: i64) -> i64:
    """Return `value`, or NULL for a negative one."""
    return value if value >= 0 else NULL


def flag_or_null(value: bool | None) -> i64:
    """Return 1 or 0, or NULL for None."""
    return NULL if value is None else 1 if value else 0


def or_null(value: i64) -> i64:
    """Return `value`, or NULL for the -1 that means "none" in a count, time or number."""
    return NULL if value == -1 else value


def in_direction(both: tuple[i64, i64], direction: i64) -> i64:
    """Return the value of a direction. Compiled, an index would make objects of both."""
    first, second = both
    return first if direction == OPENER else second


def address_text(address: bytes) -> str:
    """Format an IP address of 4 or 16 bytes, IPv6 in the shortest form (RFC 5952).

    >>> address_text(bytes([127, 0, 0, 1]))
    '127.0.0.1'
    """
    known = _known_addresses.get(address)
    if known is None:
        if len(address) == IPV4_SIZE:
            known = f"{address[0]}.{address[1]}.{address[2]}.{address[3]}"
        else:
            known = str(ipaddress.ip_address(address))
        if len(_known_addresses) >= KNOWN_ADDRESSES:
            _known_addresses.clear()
        _known_addresses[address] = known
    return known
