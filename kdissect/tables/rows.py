"""Exchange, connection, problem → packed rows: one 64-bit integer for each stored column.

The hot path of the tables: rows of a table are appended to one buffer, column after column in the
order of `schemas.py`; texts become indices into a dictionary of the batch. `batches.py` turns the
buffer into Arrow a column at a time.
"""

import base64
import ipaddress
from typing import Final

from librt.strings import BytesWriter, write_i64_le
from librt.vecs import vec
from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.messages.old_protocols import CODE_MASK, PROTOCOL_SHIFT
from kdissect.messages.partitions import (
    AT_ERROR_CODE,
    NO_ID,
    WIDTH,
    Partition,
    Partitions,
)
from kdissect.messages.record_columns import RecordColumns, ns_of_ms
from kdissect.messages.records import Batch, Record
from kdissect.protocol.readers import NULL
from kdissect.streams.events import OPENER, DirectionCounts
from kdissect.tls.session_properties import SessionProperties

# Codec column: index into this; -1 codecs and runs that differ are "mixed".
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd", "codec-5", "codec-6", "codec-7", "mixed")
TIMESTAMP_TYPES: Final = ("create", "append")
# Vendors follow the protocols before 0.8 in codes, by their index in `apis.VENDORS`.
VENDOR_BASE: Final = 16
# From this many partitions on it is faster to copy their cells through a bytes object.
MANY_ROWS: Final = 8
HEADER_BYTES: Final = 150  # a record's header as a pair, approximately
COPIED_ROWS: Final = 16_384  # at once: 2 MB


class Texts:
    """The dictionary of one text column of one batch: text → index, in order of appearance.

    `size` is the total number of characters.
    """

    __slots__ = ("indices", "size")

    def __init__(self) -> None:
        self.indices: dict[str, int] = {}
        self.size: i64 = 0

    def index(self, text: str) -> i64:
        """Index of `text`, added if new."""
        known = self.indices.get(text)
        if known is not None:
            return known
        size = len(self.indices)
        self.indices[text] = size
        self.size += len(text)
        return size

    def index_or_null(self, text: str) -> i64:
        """As `index`; NULL for the empty text."""
        return self.index(text) if text else NULL


class TopicIds:
    """The dictionary of a topic_id column: 16 raw bytes → index; the text form is computed once."""

    __slots__ = ("indices",)

    def __init__(self) -> None:
        self.indices: dict[bytes, int] = {}

    def index_or_null(self, topic_id: bytes) -> i64:
        """Index of `topic_id`, added if new; NULL for the zero id."""
        if topic_id == NO_ID:
            return NULL
        known = self.indices.get(topic_id)
        if known is not None:
            return known
        size = len(self.indices)
        self.indices[topic_id] = size
        return size


def topic_id_text(topic_id: bytes) -> str:
    """Return the text form that Kafka uses: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).decode("ascii").rstrip("=")


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


class ExchangeRows(Rows):
    """Rows of `exchanges`."""

    def __init__(self) -> None:
        super().__init__()
        self.client_ids = self.column("client_id")
        self.groups = self.column("group_id")
        self.transactional_ids = self.column("transactional_id")
        self.racks = self.column("rack_id")
        self.candidates = self.column("candidates")

    def add(self, x: Exchange) -> None:
        """Append one exchange."""
        b = self.buffer
        partitions = x.partitions
        client_id = x.client_id
        write_i64_le(b, x.capture)
        write_i64_le(b, x.connection_id)
        write_i64_le(b, x.exchange_id)
        write_i64_le(b, api_code(x))
        write_i64_le(b, x.api_version)
        write_i64_le(b, x.correlation_id)
        write_i64_le(b, NULL if client_id is None else self.client_ids.index(client_id))
        write_i64_le(b, x.outcome if x.outcome else NULL)
        write_i64_le(b, x.request_start)
        write_i64_le(b, x.request_end)
        write_i64_le(b, x.response_start)
        write_i64_le(b, x.response_end)
        write_i64_le(b, x.queue_ns)
        write_i64_le(b, x.wait_ns)
        write_i64_le(b, x.throttle_ms)
        write_i64_le(b, x.request_size)
        write_i64_le(b, x.response_size)
        write_i64_le(b, code_in(x.dialect, x.error_code))
        write_i64_le(b, x.error_count)
        write_i64_le(b, x.acks)
        write_i64_le(b, self.groups.index_or_null(x.group_id))
        write_i64_le(b, self.transactional_ids.index_or_null(x.transactional_id))
        producing = x.producing
        if producing is None:
            write_i64_le(b, NULL)
            write_i64_le(b, NULL)
            write_i64_le(b, NULL)
            write_i64_le(b, NULL)
        else:
            write_i64_le(b, or_null(producing.producer_id))
            write_i64_le(b, or_null(producing.producer_epoch))
            write_i64_le(b, producing.timeout_ms)
            write_i64_le(b, producing.is_commit)
        write_i64_le(b, x.replica_id if x.replica_id >= 0 else NULL)
        write_i64_le(b, self.racks.index_or_null(x.rack_id))
        write_i64_le(b, x.topic_count)
        if x.topic_count == NULL:
            write_i64_le(b, NULL)
        else:
            write_i64_le(b, 0 if partitions is None else partitions.count + partitions.unkept)
        write_i64_le(b, x.record_count)
        write_i64_le(b, x.record_bytes)
        write_i64_le(b, x.fetch_class if x.fetch_class else NULL)
        write_i64_le(b, x.retransmits)
        write_i64_le(b, x.zero_windows)
        write_i64_le(b, or_null(x.rtt_ns))
        write_i64_le(b, x.missing_bytes)
        write_i64_le(b, x.request_packet)
        write_i64_le(b, x.response_packet)
        write_i64_le(b, x.status)
        write_i64_le(b, self.candidates.index_or_null(x.candidates))
        write_i64_le(b, x.certainty)
        self.count += 1


class PartitionRows(Rows):
    """Rows of `partitions`: `cells`, and in the buffer the values that many of them share.

    A run covers one topic of an exchange: its columns in the order of the table, and its number of
    partitions. The cells are those of `messages.partitions`, in that order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.topics = self.column("topic")
        self.cells = BytesWriter()

    def add(self, x: Exchange) -> None:
        """Append the topic-partitions of an exchange."""
        partitions = x.partitions
        if partitions is None:
            return
        cells = partitions.cells
        start: i64 = 0
        at: i64 = 0
        while at < len(cells):
            at += WIDTH
            if at == len(cells) or cells[at] != cells[start]:
                self._add_run(x, partitions, cells[start], (at - start) // WIDTH)
                start = at
        self.count += partitions.count
        if x.dialect == 0 and partitions.count >= MANY_ROWS:
            if partitions.count <= COPIED_ROWS:
                self.cells.write(partitions.packed)
            else:
                self._write_some(cells)
            return
        b = self.cells
        at = 0
        while at < len(cells):
            end = at + WIDTH
            code = code_in(x.dialect, cells[at + AT_ERROR_CODE])
            while at < end:
                write_i64_le(b, code if at + WIDTH - end == AT_ERROR_CODE else cells[at])
                at += 1

    def _write_some(self, cells: vec[i64]) -> None:
        """Copy very many rows in portions."""
        size: i64 = COPIED_ROWS * WIDTH
        at: i64 = 0
        while at < len(cells):
            self.cells.write(bytes(memoryview(cells[at : at + size])))
            at += size

    def _add_run(self, x: Exchange, partitions: Partitions, topic: i64, count: i64) -> None:
        b = self.buffer
        write_i64_le(b, x.capture)
        write_i64_le(b, x.connection_id)
        write_i64_le(b, x.exchange_id)
        write_i64_le(b, self.topics.index_or_null(partitions.topics[topic]))
        write_i64_le(b, self.topic_ids.index_or_null(partitions.topic_ids[topic]))
        write_i64_le(b, count)


class BatchRows(Rows):
    """Rows of `batches`."""

    def __init__(self) -> None:
        super().__init__()
        self.topics = self.column("topic")

    def add(self, x: Exchange, p: Partition, batch: Batch, crc_ok: i64) -> None:
        """Append one batch; `crc_ok` is 1, 0 or NULL (not verified)."""
        b = self.buffer
        write_i64_le(b, x.capture)
        write_i64_le(b, x.connection_id)
        write_i64_le(b, x.exchange_id)
        write_i64_le(b, self.topics.index_or_null(p.topic))
        write_i64_le(b, self.topic_ids.index_or_null(p.topic_id))
        write_i64_le(b, p.partition)
        write_i64_le(b, batch.magic)
        write_i64_le(b, batch.codec)
        write_i64_le(b, batch.compressed_size)
        write_i64_le(b, batch.uncompressed_size if batch.uncompressed_size >= 0 else NULL)
        write_i64_le(b, batch.record_count if batch.record_count >= 0 else NULL)
        write_i64_le(b, batch.base_offset)
        write_i64_le(b, batch.last_offset)
        write_i64_le(b, ns_of_ms(batch.base_time_ms))
        write_i64_le(b, ns_of_ms(batch.max_time_ms))
        write_i64_le(b, batch.timestamp_type if batch.timestamp_type >= 0 else NULL)
        write_i64_le(b, batch.producer_id if batch.producer_id >= 0 else NULL)
        write_i64_le(b, batch.producer_epoch if batch.producer_id >= 0 else NULL)
        write_i64_le(b, batch.base_sequence if batch.producer_id >= 0 else NULL)
        write_i64_le(b, batch.leader_epoch)
        write_i64_le(b, 1 if batch.is_transactional else 0)
        write_i64_le(b, 1 if batch.is_control else 0)
        write_i64_le(b, aborted_or_null(batch))
        write_i64_le(b, batch.crc)
        write_i64_le(b, crc_ok)
        self.count += 1


def aborted_or_null(batch: Batch) -> i64:
    """1 when a batch is of an aborted transaction, 0 when not, NULL when unknown."""
    if batch.aborted >= 0:
        return batch.aborted
    return NULL if batch.is_transactional and not batch.is_control else 0


class RecordRows(Rows):
    """Rows of `records`: `columns`, and in the buffer the values that many of them share.

    A run covers one batch: its columns in the order of the table, and its number of records.
    Keys, values and headers are kept beside them when payload is requested.
    """

    def __init__(self) -> None:
        super().__init__()
        self.topics = self.column("topic")
        self.columns = RecordColumns()
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[list[tuple[bytes, bytes | None]]] = []

    def add_run(self, x: Exchange, p: Partition, count: i64, aborted: i64 = NULL) -> None:
        """Append a run for the last `count` records in the columns; `aborted`: 1, 0 or NULL."""
        if count == 0:
            return
        b = self.buffer
        write_i64_le(b, x.capture)
        write_i64_le(b, x.connection_id)
        write_i64_le(b, x.exchange_id)
        write_i64_le(b, self.topics.index_or_null(p.topic))
        write_i64_le(b, self.topic_ids.index_or_null(p.topic_id))
        write_i64_le(b, p.partition)
        write_i64_le(b, aborted)
        write_i64_le(b, count)
        self.count += count

    def add(self, record: Record) -> None:
        """Append one record to the columns; `add_run` assigns it to a batch."""
        self.columns.add(
            record.offset, record.time_ms, record.key_size, record.value_size, record.header_count
        )

    def add_payload(self, record: Record, is_secret: bool = False) -> None:
        """Append key, value and headers of the record; null for a secret one."""
        if is_secret:
            self.keys.append(None)
            self.values.append(None)
            self.headers.append([])
            return
        self.keys.append(record.key())
        self.values.append(record.value())
        self.headers.append(record.headers())
        self.text_size += record.end - record.start + HEADER_BYTES * record.header_count


class ErrorRows(Rows):
    """Rows of `errors`."""

    def __init__(self) -> None:
        super().__init__()
        self.paths = self.column("path")
        self.messages = self.column("message")
        self.topics = self.column("topic")
        self.groups = self.column("group_id")
        self.resources = self.column("resource")

    def add(self, x: Exchange) -> None:
        """Append the errors of one exchange; its own group where the error has none."""
        errors = x.errors
        if errors is None:
            return
        b = self.buffer
        for error in errors:
            write_i64_le(b, x.capture)
            write_i64_le(b, x.connection_id)
            write_i64_le(b, x.exchange_id)
            write_i64_le(b, self.paths.index(error.path))
            write_i64_le(b, code_in(x.dialect, error.code))
            write_i64_le(b, self.messages.index_or_null(error.message))
            write_i64_le(b, self.topics.index_or_null(error.topic))
            write_i64_le(b, self.topic_ids.index_or_null(error.topic_id))
            write_i64_le(b, error.partition)
            write_i64_le(b, self.groups.index_or_null(error.group or x.group_id))
            write_i64_le(b, self.resources.index_or_null(error.resource))
            self.count += 1


class ProblemRows(Rows):
    """Rows of `problems`."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = self.column("stage")
        self.kinds = self.column("kind")
        self.messages = self.column("message")

    def add(self, problem: Problem) -> None:
        """Append one problem."""
        b = self.buffer
        write_i64_le(b, problem.capture)
        write_i64_le(b, or_null(problem.connection_id))
        write_i64_le(b, or_null(problem.exchange_id))
        write_i64_le(b, self.stages.index(problem.stage))
        write_i64_le(b, self.kinds.index(problem.kind))
        write_i64_le(b, or_null(problem.time_ns))
        write_i64_le(b, or_null(problem.packet_number))
        write_i64_le(b, problem.bytes)
        write_i64_le(b, self.messages.index(problem.message))
        self.count += 1


class ConnectionRows(Rows):
    """Rows of `connections`."""

    def add(
        self,
        state: ConnectionState,
        framed: tuple[int, int],
        skipped: tuple[int, int],
        facts: SessionProperties | None,
    ) -> None:
        """Append a closed connection; framed and skipped bytes are by direction."""
        connection = state.connection
        b = self.buffer
        # An undecided connection is shown as if its opener were the client.
        up: i64 = state.request_direction if state.request_direction >= 0 else OPENER
        down = 1 - up
        flow = connection.flow
        size = len(flow)
        width = (size - 4) // 2
        addresses = (flow[:width], flow[width : 2 * width])
        ports = (flow[size - 4 : size - 2], flow[size - 2 :])
        to_broker = connection.counts[up]
        to_client = connection.counts[down]
        write_i64_le(b, connection.capture)
        write_i64_le(b, connection.id)
        write_i64_le(b, self.column("client_ip").index(address_text(addresses[up])))
        write_i64_le(b, int.from_bytes(ports[up], "big"))
        write_i64_le(b, self.column("broker_ip").index(address_text(addresses[down])))
        write_i64_le(b, int.from_bytes(ports[down], "big"))
        write_i64_le(b, self.column("broker_side_by").index_or_null(state.broker_side_by))
        proxied = address_text(state.proxied_ip) if state.proxied_ip else ""
        write_i64_le(b, self.column("proxied_client_ip").index_or_null(proxied))
        write_i64_le(b, state.proxied_port)
        write_i64_le(b, connection.first_time_ns)
        write_i64_le(b, connection.last_time_ns)
        write_i64_le(b, connection.first_packet)
        write_i64_le(b, 1 if connection.syn_seen else 0)
        write_i64_le(b, 1 if to_broker.fin_seen or to_client.fin_seen else 0)
        rst_by = "client" if to_broker.rst_seen else "broker" if to_client.rst_seen else ""
        write_i64_le(b, self.column("rst_by").index_or_null(rst_by))
        write_i64_le(b, self.column("closed_by").index_or_null(connection.closed_by))
        write_pair(b, to_broker.packets, to_client.packets)
        write_pair(b, to_broker.wire_bytes, to_client.wire_bytes)
        write_pair(b, to_broker.payload_bytes, to_client.payload_bytes)
        write_pair(b, retransmitted_bytes(to_broker), retransmitted_bytes(to_client))
        write_pair(b, to_broker.network_lost_bytes, to_client.network_lost_bytes)
        write_pair(b, to_broker.missing_bytes, to_client.missing_bytes)
        write_pair(b, to_broker.capture_lost_bytes, to_client.capture_lost_bytes)
        write_pair(b, to_broker.missing_cut_bytes, to_client.missing_cut_bytes)
        write_pair(b, framed[up], framed[down])
        write_pair(b, skipped[up], skipped[down])
        if facts is None:
            write_pair(b, 0, 0)
            write_pair(b, 0, 0)
        else:
            write_pair(b, facts.tls_bytes[up], facts.tls_bytes[down])
            write_pair(b, facts.encrypted_bytes[up], facts.encrypted_bytes[down])
        write_pair(b, to_broker.gaps, to_client.gaps)
        write_pair(b, to_broker.retransmitted_segments, to_client.retransmitted_segments)
        write_pair(b, to_broker.fast_retransmits, to_client.fast_retransmits)
        write_pair(b, to_broker.spurious_retransmits, to_client.spurious_retransmits)
        write_pair(b, to_broker.duplicate_acks, to_client.duplicate_acks)
        write_pair(b, to_broker.duplicate_packets, to_client.duplicate_packets)
        write_pair(b, to_broker.duplicate_packet_bytes, to_client.duplicate_packet_bytes)
        write_pair(b, to_broker.out_of_order_segments, to_client.out_of_order_segments)
        write_pair(b, to_broker.zero_windows, to_client.zero_windows)
        write_pair(b, to_broker.zero_window_ns, to_client.zero_window_ns)
        write_pair(b, to_broker.window_probes, to_client.window_probes)
        write_pair(b, to_broker.keepalives, to_client.keepalives)
        write_i64_le(b, or_null(connection.handshake_rtt_ns))
        write_i64_le(b, or_null(connection.handshake_half_ns[down]))
        write_i64_le(b, or_null(connection.handshake_half_ns[up]))
        write_i64_le(b, or_null(connection.min_rtt_ns[down]))
        write_i64_le(b, or_null(connection.min_rtt_ns[up]))
        write_i64_le(b, state.exchange_count)
        write_i64_le(b, self.column("protocol").index_or_null(state.protocol))
        self._add_tls(facts)
        login = state.login
        write_i64_le(b, self.column("sasl_mechanism").index_or_null(login.mechanism))
        write_i64_le(b, self.column("sasl_user").index_or_null(login.user))
        write_i64_le(b, self.column("sasl_outcome").index_or_null(login.outcome))
        write_i64_le(b, login.count)
        write_i64_le(b, self.column("client_software_name").index_or_null(state.software_name))
        version = state.software_version
        write_i64_le(b, self.column("client_software_version").index_or_null(version))
        self.count += 1

    def _add_tls(self, facts: SessionProperties | None) -> None:
        b = self.buffer
        if facts is None:
            for _ in range(6):
                write_i64_le(b, NULL)
            return
        write_i64_le(b, self.column("tls_version").index_or_null(facts.version))
        write_i64_le(b, self.column("tls_sni").index_or_null(facts.server_name))
        write_i64_le(b, self.column("tls_alpn").index_or_null(facts.alpn))
        write_i64_le(b, self.column("tls_cipher").index_or_null(facts.cipher))
        resumed = facts.is_resumed
        write_i64_le(b, NULL if resumed is None else 1 if resumed else 0)
        write_i64_le(b, self.column("tls_undecrypted").index_or_null(facts.undecrypted))


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


def write_pair(b: BytesWriter, to_broker: i64, to_client: i64) -> None:
    """Write the two columns of a count in both directions."""
    write_i64_le(b, to_broker)
    write_i64_le(b, to_client)


def or_null(value: i64) -> i64:
    """Return `value`, or NULL for the -1 that means "none" in a count, time or number."""
    return NULL if value == -1 else value


def address_text(address: bytes) -> str:
    """Format an IP address of 4 or 16 bytes, IPv6 in the shortest form (RFC 5952).

    >>> address_text(bytes([127, 0, 0, 1]))
    '127.0.0.1'
    """
    return str(ipaddress.ip_address(address))
