import io
import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kdissect.analysis.summary.arrow_columns import groups
from kdissect.analysis.summary.counters import ApiRow, ClientRow, ErrorRow, Quantiles, TopicRow
from kdissect.analysis.summary.network import Network, TroubledConnection
from kdissect.analysis.summary.summary import (
    KEPT,
    ProblemRow,
    ProtocolRow,
    Summary,
    Totals,
    summarise,
)
from kdissect.cli.summary_lines import balance_lines, network_lines
from kdissect.cli.summary_page import Asked, print_json, print_page
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import BOOL, TABLES, TEXT

START = 1_700_000_000_000_000_000
MS = 1_000_000


def batch(table: str, *rows: dict[str, Any]) -> tuple[str, pa.RecordBatch]:
    """A batch of the table, in which columns that are not given are null."""
    schema = arrow_schema(TABLES[table])
    plain = {TEXT: pa.string(), BOOL: pa.bool_()}
    columns = []
    for column, field in zip(TABLES[table].columns, schema, strict=True):
        values = [row.get(column.name) for row in rows]
        made = pa.array(values, plain.get(column.type, pa.int64()))
        columns.append(made.cast(field.type))
    return table, pa.RecordBatch.from_arrays(columns, schema=schema)


def exchange(api_key: int, api: str, client: str | None, **more: Any) -> dict[str, Any]:
    return {
        "api_key": api_key, "api": api, "api_version": 1, "client_id": client,
        "outcome": "answered", "request_start": START, "response_end": START + 9 * MS,
        "latency_ns": 100, "wait_ns": 0, "request_size": 10, "response_size": 20,
        "error_count": 0,
    } | more  # fmt: skip


BATCHES = [
    batch(
        "exchanges",
        exchange(0, "Produce", "shop", latency_ns=200, error_count=1, exchange_id=700_001,
                 response_packet=12),
        exchange(1, "Fetch", "shop", api_version=3, wait_ns=50),
        exchange(1, "Fetch", None, latency_ns=None, wait_ns=None, outcome="unanswered",
                 response_size=None, response_end=None, error_count=None),
        exchange(999, None, "shop", latency_ns=None, outcome="unanswered"),  # type: ignore[arg-type]
    ),
    batch("exchanges", exchange(1, "Fetch", "shop", api_version=4)),
    batch(
        "partitions",
        {"topic": "orders", "partition": 0, "record_bytes": 70, "record_count": 7,
         "error_code": 0},
        {"topic": "orders", "partition": 0, "record_bytes": 30, "record_count": 3,
         "error_code": 0, "fetch_offset": 5},
        {"topic": "orders", "partition": 1, "error_code": 3},
        {"topic_id": "cjI4FNtqRK6PFx2bOekQtA", "partition": 1, "error_code": 100},
    ),
    batch(
        "errors",
        {"exchange_id": 700_001, "code": 3, "name": "UNKNOWN", "path": "a", "topic": "orders",
         "partition": 1},
        {"exchange_id": 800_000, "code": 3, "name": "UNKNOWN", "path": "b"},
        {"exchange_id": 900_000, "code": 3, "name": "UNKNOWN", "path": "b"},
    ),
    batch(
        "problems",
        {"stage": "frames", "kind": "resync", "bytes": 9, "packet_number": 4, "message": "first"},
        {"stage": "frames", "kind": "resync", "bytes": 1, "packet_number": 5, "message": "second"},
    ),
    batch(
        "connections",
        {"connection_id": 1, "client_ip": "10.0.0.1", "client_port": 5000, "broker_ip": "10.0.0.2",
         "broker_port": 9092, "first_time": START - MS, "last_time": START + MS,
         "protocol": "kafka", "rst_by": "client", "payload_bytes_to_broker": 5,
         "payload_bytes_to_client": 6, "gaps_to_client": 2, "missing_bytes_to_client": 50,
         "capture_lost_bytes_to_client": 40, "packets_to_broker": 3, "packets_to_client": 4,
         "zero_windows_to_broker": 1, "zero_window_ns_to_broker": MS,
         "handshake_rtt_broker_ns": 300, "min_rtt_broker_ns": 200, "min_rtt_client_ns": 50,
         "client_software_name": "java", "client_software_version": "4.0"},
        {"connection_id": 2, "protocol": "tls", "skipped_bytes_to_broker": 9,
         "payload_bytes_to_broker": 9},
        {"connection_id": 3, "protocol": "tls", "skipped_bytes_to_broker": 9, "gaps_to_broker": 1},
        {"connection_id": 4, "protocol": "none", "rst_by": "client"},
        {"connection_id": 5, "protocol": "http", "rst_by": "broker", "payload_bytes_to_client": 8,
         "skipped_bytes_to_client": 8, "min_rtt_broker_ns": 9, "duplicate_packets_to_client": 5},
        {"connection_id": 6, "rst_by": "broker"},
    ),
]  # fmt: skip


def test_a_summary_counts_everything() -> None:
    summary = summarise(BATCHES, {"packets": 10})
    none = Quantiles(None, None, None, None)
    assert summary == Summary(
        totals=Totals(
            first_time_ns=START - MS, last_time_ns=START + 9 * MS, connections=6, exchanges=5,
            outcomes={"answered": 3, "unanswered": 2}, with_errors=1, request_bytes=50,
            response_bytes=80,
        ),
        protocols={"tls": 2, "unknown": 1, "http": 1, "kafka": 1, "none": 1},
        others=[
            ProtocolRow("tls", 2, 9), ProtocolRow("http", 1, 8), ProtocolRow("none", 1, 0),
            ProtocolRow("unknown", 1, 0),
        ],
        software={"java 4.0": 1},
        apis=[
            ApiRow(
                "Fetch", 1, [1, 3, 4], 3, 0, 1, Quantiles(100, 100, 100, 100), none, 0.25, 30, 40,
                2,
            ),
            ApiRow(
                "Produce", 0, [1], 1, 1, 0, Quantiles(200, 200, 200, 200), none, 0.0, 10, 20, 1
            ),
            ApiRow("API 999", 999, [1], 1, 0, 1, none, none, 0.0, 10, 20),
        ],
        clients=[
            ClientRow("shop", 4, 1, Quantiles(100, 190, 198, 200), 40, 80, 3),
            ClientRow("", 1, 0, none, 10, 0),
        ],
        clients_left_out=0,
        topics=[
            TopicRow("orders", 70, 7, 30, 3, 1),
            TopicRow("<cjI4FNtqRK6PFx2bOekQtA>", 0, 0, 0, 0, 0),
        ],
        topics_left_out=0,
        errors=[ErrorRow("UNKNOWN", 3, 3, "b", "orders-1", 700_001, 12)],
        network=Network(
            packets=7, payload_bytes=20, retransmitted_segments=0, fast_retransmits=0,
            spurious_retransmits=0, network_lost_bytes=0, zero_windows=1, zero_window_ns=MS,
            missing_bytes=50, capture_lost_bytes=40, cut_bytes=0, duplicate_packets=0,
            round_trip=Quantiles(250, 250, 250, 250),
        ),
        troubled=[
            TroubledConnection(
                connection_id=1, client="10.0.0.1:5000", broker="10.0.0.2:9092", protocol="kafka",
                payload_bytes=11, round_trip_ns=250, retransmitted_segments=0,
                network_lost_bytes=0, gaps=2, missing_bytes=50, capture_lost_bytes=40,
                skipped_bytes=0, zero_windows=1, zero_window_ns=MS, rst_by="client",
            ),
            TroubledConnection(
                connection_id=3, client="None:None", broker="None:None", protocol="tls",
                payload_bytes=0, round_trip_ns=None, retransmitted_segments=0,
                network_lost_bytes=0, gaps=1, missing_bytes=0, capture_lost_bytes=0,
                skipped_bytes=0, zero_windows=0, zero_window_ns=0, rst_by="",
            ),
        ],
        troubled_count=2,
        problems=[ProblemRow("frames", "resync", 2, 10, 4, "first")],
        balance={"packets": 10},
    )  # fmt: skip


def test_how_the_rows_are_cut_into_batches_does_not_matter() -> None:
    rows = [
        (table, whole.slice(row, 1)) for table, whole in BATCHES for row in range(whole.num_rows)
    ]
    assert asdict(summarise(rows)) == asdict(summarise(BATCHES))


def test_clients_without_number_are_kept_in_bounded_memory() -> None:
    many = [exchange(3, "Metadata", f"client-{number}") for number in range(5 * KEPT)]
    summary = summarise([batch("exchanges", *many)])
    assert len(summary.clients) <= 2 * KEPT
    assert len(summary.clients) + summary.clients_left_out == 5 * KEPT
    assert summary.totals.exchanges == 5 * KEPT


def test_nothing_gives_an_empty_summary() -> None:
    summary = summarise([])
    assert summary.totals == Totals(None, None, 0, 0, {}, 0, 0, 0)


def test_groups_give_each_value_with_its_rows() -> None:
    found = groups(np.array(["b", None, "b", "a"], object))
    assert [(key, rows.tolist()) for key, rows in found] == [("b", [0, 2]), (None, [1]), ("a", [3])]
    numbers = groups(np.array([7, 3, 7]))
    assert [(key, rows.tolist()) for key, rows in numbers] == [(3, [1]), (7, [0, 2])]


def test_the_page_of_nothing_and_of_everything_can_be_printed(capsys: Any) -> None:
    print_page(summarise([]), Asked(["empty.pcap"], is_full=True))
    asked = Asked(["\x1b[31m.pcap"], top=1, is_full=True)
    print_page(summarise(BATCHES, {"packets": 10}), asked, "this is what had been read")
    page = capsys.readouterr().out
    assert "\x1b" not in page
    assert "\\e[31m.pcap" in page
    assert "Clients (top 1 of 2)" in page


def test_bytes_that_do_not_add_up_are_reported() -> None:
    balance = {
        "payload_bytes": 100, "framed_bytes": 60, "skipped_bytes": 20, "duplicate_bytes": 15,
        "missing_bytes": 7, "packets_by_reason": {"non-tcp": 3, "fragment": 0},
    }  # fmt: skip
    assert balance_lines(balance) == [
        "TCP payload 100 bytes = 60 framed + 20 skipped + 15 duplicate + 5 UNACCOUNTED",
        "missing from the capture: 7 bytes",
        "packets without TCP: 3 non-tcp",
    ]


NETWORK = Network(
    packets=1000, payload_bytes=900, retransmitted_segments=7, fast_retransmits=2,
    spurious_retransmits=1, network_lost_bytes=2000, zero_windows=1, zero_window_ns=3 * MS,
    missing_bytes=100, capture_lost_bytes=60, cut_bytes=30, duplicate_packets=1,
    round_trip=Quantiles(1000, 2000, 3000, 4000),
)  # fmt: skip
CALM = Network(1000, 900, *[0] * 10, Quantiles(None, None, None, None))


def test_the_network_and_the_capture_have_a_line_each() -> None:
    assert network_lines(NETWORK) == [
        "network: round trip 1 µs p50, 4 µs max; 7 segments retransmitted (0.7 %, 2 fast, "
        "1 spurious, 2 kB lost); 1 zero window in 3 ms",
        "capture: 100 B missing (10 %): 60 B dropped by capture, 30 B cut off by snaplen, 10 B "
        "lost by capture or network; 1 duplicate packet",
    ]


@pytest.mark.parametrize(
    ("network", "lines"),
    [
        (CALM, []),
        (
            replace(CALM, retransmitted_segments=1),
            ["network: 1 segment retransmitted (0.1 %, 0 B lost)"],
        ),
        (replace(CALM, zero_windows=2), ["network: 2 zero windows"]),
        (replace(CALM, duplicate_packets=2), ["capture: 2 duplicate packets"]),
        (
            replace(CALM, missing_bytes=100, cut_bytes=100),
            ["capture: 100 B missing (10 %): 100 B cut off by snaplen"],
        ),
    ],
)
def test_the_network_line_appears_only_with_counts(network: Network, lines: list[str]) -> None:
    assert network_lines(network) == lines


def test_json_has_the_network_too() -> None:
    file = io.StringIO()
    print_json(summarise(BATCHES), [], False, file, Asked([]))
    assert json.loads(file.getvalue())["network"] == asdict(summarise(BATCHES).network)
