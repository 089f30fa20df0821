"""Rows are packed in the order of the schemas, and every value survives unchanged."""

import base64
import ipaddress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import Problem
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import ANSWERED, FETCH_WAITED, REQUEST_FAILED, Exchange
from kdissect.messages.batches import Batch, Record
from kdissect.messages.extracted import ErrorFact
from kdissect.messages.memberships import Membership
from kdissect.messages.partitions import MIXED_CODEC, WIDTH, Partition, partitions_of
from kdissect.messages.record_columns import MAX_MS, ns_of_ms
from kdissect.messages.request_fields import RequestFields
from kdissect.protocol.primitives import uuid_text
from kdissect.protocol.readers import NULL
from kdissect.streams.events import OPENER, Connection
from kdissect.tables.batches import ARROW_TYPES, BatchBuilder, arrow_schema
from kdissect.tables.body_rows import BodyRows, MemberRows
from kdissect.tables.row_buffers import Rows, address_text
from kdissect.tables.rows import (
    BatchRows,
    ConnectionRows,
    ErrorRows,
    ExchangeRows,
    PartitionRows,
    ProblemRows,
    RecordRows,
)
from kdissect.tables.schemas import BINARY, INT8, INT16, INT32, INT64, TABLES, TEXT, TIME, Table
from kdissect.tls.session_properties import SessionProperties
from tests.packets.builders import make_flow

START = 1_700_000_000_123_456_789
MS = 1_000_000
TOPIC_ID = bytes(range(16))
CAPTURES = ["a.pcap", "b.pcap"]
KEYS = {"capture": "b.pcap", "connection_id": 11, "exchange_id": 1_200_003}
Row = dict[str, Any]


def make_connection() -> Connection:
    flow = make_flow("10.0.0.1", "10.0.0.9", 50_000, 9092)
    connection = Connection(11, 1, flow, START, 7)
    connection.last_time_ns = START + 5
    connection.syn_seen = True
    connection.closed_by = "fin"
    connection.ended_by = 0
    connection.handshake_rtt_ns = 31
    connection.handshake_half_ns = (13, 18)
    connection.min_rtt_ns = (41, 42)
    for direction, counts in enumerate(connection.counts):
        for place, name in enumerate(COUNTS):
            setattr(counts, name, 100 * (direction + 1) + place)
    connection.counts[0].fin_seen = True
    connection.counts[1].rst_seen = True
    return connection


COUNTS = (
    "packets", "wire_bytes", "payload_bytes", "duplicate_bytes", "missing_bytes", "gaps",
    "retransmitted_segments", "duplicate_packets", "duplicate_packet_bytes",
    "out_of_order_segments", "zero_windows", "network_lost_bytes", "capture_lost_bytes",
    "missing_cut_bytes", "fast_retransmits", "spurious_retransmits", "duplicate_acks",
    "zero_window_ns", "window_probes", "keepalives", "unacknowledged_ns",
)  # fmt: skip


def make_exchange() -> Exchange:
    exchange = Exchange(make_connection(), 0, 1_200_003, 1)
    fields = {
        "api_key": 1, "api_version": 11, "correlation_id": -7, "client_id": "shop",
        "outcome": ANSWERED, "request_start": START, "request_end": START + 10,
        "response_start": START + 110, "response_end": START + 150, "queue_ns": 20, "wait_ns": 30,
        "throttle_ms": 4, "request_size": 50, "response_size": 60, "error_code": 6,
        "error_count": 1, "topic_count": 2, "record_count": 8, "record_bytes": 900,
        "fetch_class": FETCH_WAITED, "retransmits": 3, "zero_windows": 2, "rtt_ns": 70,
        "missing_bytes": 21,
        "request_packet": 12,
        "response_packet": 15, "status": REQUEST_FAILED, "candidates": "Fetch 4-6, Metadata 2",
        "certainty": 50,
    }  # fmt: skip
    for name, value in fields.items():
        setattr(exchange, name, value)
    exchange.asked = RequestFields()
    asked = {
        "acks": -1, "group_id": "workers", "transactional_id": "tx", "producer_id": 33,
        "producer_epoch": 2, "transaction_timeout_ms": 60_000, "is_commit": 1, "replica_id": 103,
        "rack_id": "east",
    }  # fmt: skip
    for name, value in asked.items():
        setattr(exchange.asked, name, value)
    exchange.partitions = partitions_of([make_partition()])
    return exchange


def make_partition() -> Partition:
    partition = Partition("orders", TOPIC_ID, 5)
    fields = {
        "error_code": 6, "base_offset": 100, "fetch_offset": 90, "committed_offset": 80,
        "high_watermark": 120, "last_stable_offset": 119, "log_start_offset": 3,
        "record_count": 8, "record_bytes": 900, "batch_count": 2, "codec": MIXED_CODEC,
        "leader_epoch": 2, "preferred_read_replica": 4, "control_count": 3, "redelivered_count": 5,
    }  # fmt: skip
    for name, value in fields.items():
        setattr(partition, name, value)
    partition.batches = [make_a_batch(), make_a_batch(codec=4)]
    return partition


def make_a_batch(codec: int = 2) -> Batch:
    return Batch(
        start=0, end=961, records_start=61, compressed_size=900, uncompressed_size=2_000, magic=2,
        attributes=0x30 | codec, codec=codec, timestamp_type=1, base_offset=100, last_offset=107,
        record_count=8, base_time_ms=1_700_000_000_000, max_time_ms=1_700_000_000_999,
        producer_id=33, producer_epoch=1, base_sequence=44, leader_epoch=2, crc=0xFFFFFFFF,
    )  # fmt: skip


def make_a_record() -> Record:
    return Record(b"..kkkvvvv", 0, 9, 101, 1_700_000_000_500, 2, 3, 5, 4, 0, 9)


def make_error() -> ErrorFact:
    error = ErrorFact("responses[].partitions[].error_code", 6)
    error.message = "not mine"
    error.topic = "orders"
    error.topic_id = TOPIC_ID
    error.partition = 5
    error.group = "others"
    error.resource = "broker 1"
    return error


def made(table: str, rows: Rows) -> list[Row]:
    builder = BatchBuilder(TABLES[table], CAPTURES, {})
    batch = builder.batch(rows)
    assert batch.schema == arrow_schema(TABLES[table])
    return with_plain_times(batch)


def with_plain_times(batch: pa.RecordBatch) -> list[Row]:
    columns = {
        name: (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.table(columns).to_pylist()


def both(name: str, to_broker: int, to_client: int) -> Row:
    return {f"{name}_to_broker": to_broker, f"{name}_to_client": to_client}


def exchange_rows() -> Rows:
    rows = ExchangeRows()
    rows.add(make_exchange())
    return rows


def partition_rows() -> Rows:
    rows = PartitionRows()
    rows.add(make_exchange())
    return rows


def batch_rows() -> Rows:
    rows = BatchRows()
    batch = make_a_batch()
    batch.aborted = 1
    rows.add(make_exchange(), make_partition(), batch, 0)
    return rows


def record_rows() -> Rows:
    rows = RecordRows()
    rows.add(make_a_record())
    rows.add_payload(make_a_record())
    rows.add_run(make_exchange(), make_partition(), 1, aborted=0)
    return rows


def error_rows() -> Rows:
    rows = ErrorRows()
    exchange = make_exchange()
    exchange.errors = [make_error()]
    rows.add(exchange)
    return rows


def member_rows() -> Rows:
    rows = MemberRows()
    rows.add(
        make_exchange(),
        Membership(
            "join", "workers", "m-1", "static", 7, "range", True, "orders users", "orders:0,1",
            "why", 25,
        ),
    )  # fmt: skip
    return rows


def body_rows() -> Rows:
    rows = BodyRows()
    rows.add(make_exchange(), '{"a": 1}', '{"b": "é"}')
    return rows


def problem_rows() -> Rows:
    rows = ProblemRows()
    rows.add(Problem("frames", "resync", "3 bytes skipped", START, 12, 3, 11, 1_200_003, 1))
    return rows


def connection_rows() -> Rows:
    state = ConnectionState(make_connection())
    state.request_direction = 0
    state.broker_side_by = "syn"
    state.proxied_ip = bytes([192, 0, 2, 7])
    state.proxied_port = 51_234
    state.protocol = "kafka"
    state.exchange_count = 17
    state.login.mechanism = "PLAIN"
    state.login.user = "alice"
    state.login.outcome = "ok"
    state.login.count = 2
    state.software_name = "librdkafka"
    state.software_version = "2.4.0"
    rows = ConnectionRows()
    tls = SessionProperties(
        OPENER, "TLS 1.3", "b.example", "kafka", "TLS_AES_128_GCM_SHA256", False, (71, 72),
        (81, 82), 103, "no secrets",
    )  # fmt: skip
    rows.add(state, (51, 52), (61, 62), tls)
    return rows


TOPIC_ID_TEXT = base64.urlsafe_b64encode(TOPIC_ID).decode().rstrip("=")
MADE: dict[str, Any] = {
    "connections": connection_rows, "exchanges": exchange_rows, "partitions": partition_rows,
    "batches": batch_rows, "records": record_rows, "errors": error_rows, "members": member_rows,
    "bodies": body_rows, "problems": problem_rows,
}  # fmt: skip
EXPECTED: dict[str, Row] = {
    "connections": {
        "capture": "b.pcap", "connection_id": 11, "client_ip": "10.0.0.1", "client_port": 50_000,
        "broker_ip": "10.0.0.9", "broker_port": 9092, "broker_side_by": "syn",
        "proxied_client_ip": "192.0.2.7", "proxied_client_port": 51_234,
        "first_time": START, "last_time": START + 5, "first_packet": 7, "syn_seen": True,
        "fin_seen": True, "rst_by": "broker", "ended_by": "client", "closed_by": "fin",
        **both("packets", 100, 200), **both("bytes", 101, 201), **both("payload_bytes", 102, 202),
        **both("retransmitted_bytes", -5, -5), **both("network_lost_bytes", 111, 211),
        **both("missing_bytes", 104, 204), **both("capture_lost_bytes", 112, 212),
        **both("cut_bytes", 113, 213), **both("framed_bytes", 51, 52),
        **both("skipped_bytes", 61, 62), **both("tls_bytes", 71, 72),
        **both("encrypted_bytes", 81, 82), **both("gaps", 105, 205),
        **both("retransmitted_segments", 106, 206), **both("fast_retransmits", 114, 214),
        **both("spurious_retransmits", 115, 215), **both("unacknowledged_ns", 120, 220),
        **both("duplicate_acks", 116, 216),
        **both("duplicate_packets", 107, 207), **both("duplicate_packet_bytes", 108, 208),
        **both("out_of_order_segments", 109, 209), **both("zero_windows", 110, 210),
        **both("zero_window_ns", 117, 217), **both("window_probes", 118, 218),
        **both("keepalives", 119, 219), "handshake_rtt_ns": 31, "handshake_rtt_broker_ns": 18,
        "handshake_rtt_client_ns": 13, "min_rtt_broker_ns": 42,
        "min_rtt_client_ns": 41, "exchanges": 17,
        "protocol": "kafka", "tls_version": "TLS 1.3", "tls_sni": "b.example",
        "tls_alpn": "kafka", "tls_cipher": "TLS_AES_128_GCM_SHA256", "tls_resumed": False,
        "tls_undecrypted": "no secrets",
        "sasl_mechanism": "PLAIN", "sasl_user": "alice",
        "sasl_outcome": "ok", "sasl_logins": 2,
        "client_software_name": "librdkafka", "client_software_version": "2.4.0",
    },
    "exchanges": {
        **KEYS, "api_key": 1, "api": "Fetch", "api_version": 11, "correlation_id": -7,
        "client_id": "shop", "outcome": "answered", "request_start": START,
        "request_end": START + 10, "response_start": START + 110, "response_end": START + 150,
        "latency_ns": 100, "upload_ns": 10, "download_ns": 40, "queue_ns": 20, "service_ns": 80,
        "wait_ns": 30, "work_ns": 50, "throttle_ms": 4, "request_size": 50, "response_size": 60,
        "error_code": 6, "error": "NOT_LEADER_OR_FOLLOWER", "error_count": 1, "acks": -1,
        "group_id": "workers", "transactional_id": "tx", "producer_id": 33,
        "producer_epoch": 2, "transaction_timeout_ms": 60_000, "is_commit": True,
        "replica_id": 103, "rack_id": "east", "topic_count": 2, "partition_count": 1,
        "record_count": 8, "record_bytes": 900, "fetch_class": "waited", "retransmits": 3,
        "zero_windows": 2, "rtt_ns": 70, "missing_bytes": 21, "request_packet": 12,
        "response_packet": 15, "decode_status": "request",
        "candidates": "Fetch 4-6, Metadata 2", "certainty": 50,
    },
    "partitions": {
        **KEYS, "topic": "orders", "topic_id": TOPIC_ID_TEXT, "partition": 5, "error_code": 6,
        "error": "NOT_LEADER_OR_FOLLOWER", "base_offset": 100, "fetch_offset": 90,
        "committed_offset": 80, "high_watermark": 120, "last_stable_offset": 119,
        "log_start_offset": 3, "record_count": 8, "record_bytes": 900, "batch_count": 2,
        "codec": "mixed", "leader_epoch": 2, "preferred_read_replica": 4, "control_count": 3,
        "redelivered_count": 5,
    },
    "batches": {
        **KEYS, "topic": "orders", "topic_id": TOPIC_ID_TEXT, "partition": 5, "magic": 2,
        "codec": "snappy", "compressed_size": 900, "uncompressed_size": 2_000, "record_count": 8,
        "base_offset": 100, "last_offset": 107, "base_time": 1_700_000_000_000 * MS,
        "max_time": 1_700_000_000_999 * MS, "timestamp_type": "append", "producer_id": 33,
        "producer_epoch": 1, "base_sequence": 44, "leader_epoch": 2, "is_transactional": True,
        "is_control": True, "is_aborted": True, "crc": 0xFFFFFFFF, "crc_ok": False,
    },
    "records": {
        **KEYS, "topic": "orders", "topic_id": TOPIC_ID_TEXT, "partition": 5, "offset": 101,
        "time": 1_700_000_000_500 * MS, "key_size": 3, "value_size": 4, "header_count": 0,
        "is_aborted": False, "key": b"kkk", "value": b"vvvv", "headers": None,
    },
    "errors": {
        **KEYS, "path": "responses[].partitions[].error_code", "code": 6,
        "name": "NOT_LEADER_OR_FOLLOWER", "is_retriable": True, "message": "not mine",
        "topic": "orders", "topic_id": TOPIC_ID_TEXT, "partition": 5, "group_id": "others",
        "resource": "broker 1",
    },
    "members": {
        **KEYS, "time": START, "client_id": "shop", "group_id": "workers", "member_id": "m-1",
        "group_instance_id": "static", "generation": 7, "event": "join", "protocol": "range",
        "is_leader": True, "subscription": "orders users", "assignment": "orders:0,1",
        "reason": "why", "error_code": 25, "error": "UNKNOWN_MEMBER_ID",
    },
    "bodies": {
        **KEYS, "api_key": 1, "api": "Fetch", "api_version": 11, "request": '{"a": 1}',
        "response": '{"b": "é"}',
    },
    "problems": {
        **KEYS, "stage": "frames", "kind": "resync", "time": START, "packet_number": 12,
        "bytes": 3, "message": "3 bytes skipped",
    },
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_every_column_comes_out_as_it_was_put_in(table: str) -> None:
    assert made(table, MADE[table]()) == [EXPECTED[table]]


@pytest.mark.parametrize("table", TABLES)
def test_the_columns_are_those_of_the_schema_in_their_order(table: str) -> None:
    assert list(EXPECTED[table]) == [column.name for column in TABLES[table].columns]


@pytest.mark.parametrize("table", TABLES)
def test_a_row_is_one_integer_a_stored_column(table: str) -> None:
    rows = MADE[table]()
    count = len(rows.buffer.getvalue()) // 8
    if isinstance(rows, RecordRows):
        # Five columns are of the record, the others and the number of records of the batch.
        columns = rows.columns
        sizes = (columns.key_sizes, columns.value_sizes, columns.header_counts)
        assert [len(column) for column in (columns.offsets, columns.times, *sizes)] == [
            8, 8, 4, 4, 4,
        ]  # fmt: skip
        count += 5 - 1
    if isinstance(rows, PartitionRows):
        # One cell is the topic's, one number of the run that of its partitions.
        assert len(rows.cells) == WIDTH
        count += WIDTH - 1 - 1
    assert count == len(TABLES[table].stored)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_the_type_of_the_schema(table: str) -> None:
    batch = BatchBuilder(TABLES[table], CAPTURES, {}).batch(MADE[table]())
    for column in TABLES[table].columns:
        assert batch.schema.field(column.name).type == ARROW_TYPES[column.type]
        batch.column(column.name).validate(full=True)


@pytest.mark.parametrize("table", TABLES)
def test_absent_values_are_null(table: str) -> None:
    rows = empty_rows()[table]
    (row,) = made(table, rows)
    told = {name for name, value in row.items() if value is not None}
    always = {
        "connections": {c.name for c in TABLES[table].columns if c.unit == "bytes"}
        | {n for n in EXPECTED[table] if n.endswith(("_to_broker", "_to_client"))}
        | {"capture", "connection_id", "client_ip", "client_port", "broker_ip", "broker_port",
           "first_time", "last_time", "first_packet", "syn_seen", "fin_seen", "exchanges",
               "sasl_logins"},
        "exchanges": {*KEYS, "topic_count", "partition_count", "retransmits",
                      "zero_windows", "missing_bytes", "decode_status", "certainty"},
        "partitions": {*KEYS, "partition"},
        "batches": {*KEYS, "partition", "magic", "codec", "compressed_size", "base_offset",
                    "last_offset", "leader_epoch", "is_transactional", "is_control",
                    "is_aborted", "crc"},
        "records": {*KEYS, "partition", "offset", "header_count"},
        "errors": {*KEYS, "path", "code", "name", "is_retriable"},
        "members": {*KEYS, "event"},
        "bodies": {*KEYS},
        "problems": {"capture", "stage", "kind", "bytes", "message"},
    }  # fmt: skip
    assert told == always[table]


def empty_rows() -> dict[str, Rows]:
    connection = Connection(11, 1, make_flow("::1", "::2", 1, 2), START, 7)
    exchange = Exchange(connection, 0, 1_200_003, 1)
    partition = Partition("", bytes(16), 5)
    nothing = Batch(0, 61, 61, 0, -1, 0, 0, 0, -1, 0, 0, -1, -1, -1, -1, -1, -1, -1, 0)
    rows: dict[str, Rows] = {name: make() for name, make in EMPTY.items()}
    ConnectionRows.add(rows["connections"], ConnectionState(connection), (0, 0), (0, 0), None)
    ExchangeRows.add(rows["exchanges"], exchange)
    exchange.partitions = partitions_of([partition])
    PartitionRows.add(rows["partitions"], exchange)
    BatchRows.add(rows["batches"], exchange, partition, nothing, NULL)
    record = Record(b"", 0, 0, 0, -1, 0, -1, 0, -1, 0, 0)
    RecordRows.add(rows["records"], record)
    RecordRows.add_payload(rows["records"], record)
    RecordRows.add_run(rows["records"], exchange, partition, 1)
    exchange.errors = [ErrorFact("error_code", 3)]
    ErrorRows.add(rows["errors"], exchange)
    MemberRows.add(rows["members"], exchange, Membership("leave", "", ""))
    BodyRows.add(rows["bodies"], exchange, "", "")
    ProblemRows.add(rows["problems"], Problem("frames", "resync", "x", capture=1))
    return rows


EMPTY: dict[str, Any] = {
    "connections": ConnectionRows, "exchanges": ExchangeRows, "partitions": PartitionRows,
    "batches": BatchRows, "records": RecordRows, "errors": ErrorRows, "members": MemberRows,
    "bodies": BodyRows, "problems": ProblemRows,
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_a_batch_of_no_rows_has_the_schema(table: str) -> None:
    batch = BatchBuilder(TABLES[table], CAPTURES, {}).batch(EMPTY[table]())
    assert (batch.num_rows, batch.schema) == (0, arrow_schema(TABLES[table]))


def test_the_groups_of_an_error_is_its_exchanges_when_it_names_none() -> None:
    exchange = make_exchange()
    error = make_error()
    error.group = ""
    exchange.errors = [error]
    rows = ErrorRows()
    rows.add(exchange)
    assert made("errors", rows)[0]["group_id"] == "workers"


def test_a_connection_is_described_from_the_clients_side() -> None:
    state = ConnectionState(make_connection())
    state.request_direction = 1
    rows = ConnectionRows()
    rows.add(state, (51, 52), (61, 62), None)
    (row,) = made("connections", rows)
    assert (row["client_ip"], row["client_port"]) == ("10.0.0.9", 9092)
    assert (row["broker_ip"], row["broker_port"]) == ("10.0.0.1", 50_000)
    assert (row["packets_to_broker"], row["packets_to_client"]) == (200, 100)
    assert (row["framed_bytes_to_broker"], row["skipped_bytes_to_client"]) == (52, 61)
    assert (row["min_rtt_broker_ns"], row["min_rtt_client_ns"]) == (41, 42)
    assert (row["rst_by"], row["ended_by"]) == ("client", "broker")


def test_record_headers_are_json_with_non_text_escaped() -> None:
    payload = b"\x02a\x04\xff!\x04b\xc3\x01"  # ("a", ff 21), ("b" c3, null)
    record = Record(payload, 0, len(payload), 0, 0, 0, -1, 0, -1, 2, 0)
    rows = RecordRows()
    rows.add(record)
    rows.add_payload(record)
    rows.add_run(make_exchange(), make_partition(), 1)
    assert made("records", rows)[0]["headers"] == b'[["a", "\\\\xff!"], ["b\\\\xc3", null]]'


def test_without_payload_keys_and_values_are_null() -> None:
    rows = RecordRows()
    rows.add(make_a_record())
    rows.add_run(make_exchange(), make_partition(), 1)
    (row,) = made("records", rows)
    assert (row["key_size"], row["value_size"]) == (3, 4)
    assert row["key"] is row["value"] is row["headers"] is None


LIMITS = {INT8: 1 << 7, INT16: 1 << 15, INT32: 1 << 31, INT64: 1 << 61}


@given(st.data())
def test_integers_of_every_width_come_out_as_they_are(data: st.DataObject) -> None:
    exchange = make_exchange()
    for column in TABLES["exchanges"].stored:
        if column.type in LIMITS and hasattr(exchange, column.name):
            limit = LIMITS[column.type]
            lowest = 0 if column.name == "replica_id" else -limit
            value = data.draw(st.one_of(st.just(NULL), st.integers(lowest, limit - 1)))
            setattr(exchange, column.name, value)
    rows = ExchangeRows()
    rows.add(exchange)
    (row,) = made("exchanges", rows)
    for column in TABLES["exchanges"].stored:
        if column.type in LIMITS and hasattr(exchange, column.name):
            value = getattr(exchange, column.name)
            assert row[column.name] == (None if value == NULL else value)


@given(st.lists(st.text(max_size=5) | st.none(), max_size=40))
def test_texts_come_out_as_they_are(texts: list[str | None]) -> None:
    rows = ExchangeRows()
    for text in texts:
        exchange = make_exchange()
        exchange.client_id = text
        rows.add(exchange)
    assert [row["client_id"] for row in made("exchanges", rows)] == texts


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_record_times_are_ns_or_null(ms: int) -> None:
    assert ns_of_ms(ms) == (ms * MS if 0 <= ms <= MAX_MS else NULL)
    assert MAX_MS * MS < 1 << 63


@given(st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16))
def test_addresses_are_those_of_the_standard_library(address: bytes) -> None:
    assert address_text(address) == str(ipaddress.ip_address(address))


def test_addresses_and_topic_ids_as_text() -> None:
    assert address_text(bytes([10, 0, 0, 9])) == "10.0.0.9"
    assert address_text(bytes(15) + b"\x01") == "::1"
    assert uuid_text(TOPIC_ID) == TOPIC_ID_TEXT


def test_columns_carry_meaning_and_unit() -> None:
    for table in TABLES.values():
        schema = arrow_schema(table)
        assert schema.metadata == {b"kdissect.table": table.name.encode()}
        for column in table.columns:
            assert column.meaning
            assert schema.field(column.name).metadata[b"meaning"] == column.meaning.encode()
            assert schema.field(column.name).metadata[b"unit"] == column.unit.encode()
            name = column.name.removesuffix("_to_broker").removesuffix("_to_client")
            assert name.endswith("_ns") == (column.unit == "ns")
            assert column.type in (*LIMITS, TIME, TEXT, BINARY, "bool")


def test_a_table_knows_its_stored_columns() -> None:
    table = Table("t", "a row", TABLES["records"].columns)
    assert [column.name for column in table.columns if column not in table.stored] == [
        "key", "value", "headers",
    ]  # fmt: skip
