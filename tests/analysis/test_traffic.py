"""Traffic: volumes, batches, spread and wasted requests."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kdissect
from kdissect.analysis.question import RATE, SHARE
from kdissect.cli.analyses import readable
from tests.analysis.made_tables import START, Row, asked, connection, exchange, write_tables

CAPTURES = Path("captures")
FOLLOWER = "broker-2-fetcher-0"


def carried(exchange_id: int, size: int, records: int = 1, topic: str = "t", **more: Any) -> Row:
    """A partition with records, also good as a batch of them."""
    row = {"exchange_id": exchange_id, "topic": topic, "partition": 0}
    return row | {"record_bytes": size, "record_count": records} | more


def batch(exchange_id: int, records: int, sizes: tuple[int, int | None], **more: Any) -> Row:
    """A batch with its size as compressed and before."""
    row = {"exchange_id": exchange_id, "topic": "t", "partition": 0, "codec": "lz4"}
    sized = {"compressed_size": sizes[0], "uncompressed_size": sizes[1]}
    return row | {"record_count": records} | sized | more


def test_a_topic_is_produced_fetched_and_replicated(tmp_path: Path) -> None:
    exchanges = [
        exchange(1, "Produce", client_id="p", throttle_ms=20),
        exchange(2, "Fetch", client_id="c", fetch_class="data"),
        exchange(3, "Fetch", client_id="c", fetch_class="empty"),
        exchange(4, "Fetch", client_id=FOLLOWER, fetch_class="data"),
        exchange(5, "Metadata", client_id="p"),
    ]
    partitions = [
        carried(1, 300, 6), carried(1, 100, 2, partition=1), carried(2, 800, 16),
        carried(3, 0, 0), carried(4, 400, 8), carried(5, 0, 0),
    ]  # fmt: skip
    batches = [
        batch(1, 5, (200, 600)), batch(1, 1, (100, None)), batch(1, 2, (100, 100), codec="none"),
        batch(2, 16, (800, 1600), codec="zstd"), batch(4, 8, (400, 800), codec="gzip"),
    ]  # fmt: skip
    (row,) = asked(
        "traffic", tmp_path, exchanges=exchanges, partitions=partitions, batches=batches,
        connections=[connection()],
    )  # fmt: skip
    assert row == {
        "topic": "t", "produced_bytes": 400, "produced_records": 8, "fetched_bytes": 800,
        "fetched_records": 16, "fan_out": 2.0, "replicated_bytes": 400, "batches": 3,
        "batch_records": 8 / 3, "batch_bytes": 133, "single": 1 / 3, "compression": 700 / 300,
        "produced_codecs": "lz4, none", "fetched_codecs": "zstd", "partitions": 2,
        "top_partition": "t-0", "top_share": 0.75, "gini": 0.25, "produces": 1, "fetches": 2,
        "empty": 0.5, "metadata": None, "throttled": 1, "throttle_max_ms": 20,
    }  # fmt: skip


def test_racks_are_those_that_consumers_say(tmp_path: Path) -> None:
    """A follower has no client id here; it is recognized by its replica id under any name."""
    exchanges = [
        exchange(1, "Fetch", client_id="c", rack_id="east"),
        exchange(2, "Fetch", client_id="d", rack_id="west"),
        exchange(3, "Fetch", client_id="e", rack_id="west"),
        exchange(4, "Fetch", client_id="f", replica_id=2),
    ]
    rows = asked(
        "traffic", tmp_path, {"by": ["rack"]}, exchanges=exchanges,
        partitions=[carried(number, 100 * number) for number in (1, 2, 3, 4)],
        connections=[connection()],
    )  # fmt: skip
    columns = ("rack", "fetched_bytes", "replicated_bytes", "fetches", "fan_out")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("west", 500, 0, 2, None), ("east", 100, 0, 1, None), (None, 0, 400, 0, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "gini", "top"),
    [((5, 5, 5), 0, 1 / 3), ((0, 0, 9), 2 / 3, 1), ((1, 2, 3), 2 / 9, 1 / 2), ((4,), None, 1)],
)
def test_the_spread_over_partitions_is_a_gini_coefficient(
    tmp_path: Path, sizes: tuple[int, ...], gini: float | None, top: float
) -> None:
    partitions = [carried(1, size, partition=number) for number, size in enumerate(sizes)]
    (row,) = asked(
        "traffic", tmp_path, exchanges=[exchange(1, "Fetch")], partitions=partitions,
        connections=[connection()],
    )  # fmt: skip
    assert (row["gini"], row["top_share"]) == (pytest.approx(gini), pytest.approx(top))
    assert row["top_partition"] == f"t-{len(sizes) - 1}"


def test_clients_have_their_metadata_and_their_empty_fetches(tmp_path: Path) -> None:
    exchanges = [
        *[exchange(number, "Metadata", client_id="storm") for number in range(1, 6)],
        exchange(6, "Fetch", client_id="idle", fetch_class="empty"),
        exchange(7, "Produce", client_id="p"),
    ]
    rows = asked(
        "traffic", tmp_path, {"by": ["client"]}, exchanges=exchanges, connections=[connection()],
        partitions=[carried(7, 10)],
    )  # fmt: skip
    shown = [
        (row["client"], row["produced_bytes"], row["metadata"], row["empty"], row["fan_out"])
        for row in rows
    ]
    assert shown == [
        ("p", 10, 0, None, None), ("idle", None, 0, 1.0, None), ("storm", None, 5, None, None)
    ]  # fmt: skip


def test_windows_are_in_the_order_of_time(tmp_path: Path) -> None:
    exchanges = [exchange(number, "Produce", at_s=number) for number in (1, 2, 3)]
    partitions = [carried(number, 100 * number) for number in (1, 2, 3)]
    rows = asked(
        "traffic", tmp_path, {"by": ["window"], "window": 2_000_000_000}, exchanges=exchanges,
        partitions=partitions, connections=[connection()],
    )  # fmt: skip
    assert [(row["window"].timestamp() - START / 1e9, row["produced_bytes"]) for row in rows] == [
        (0, 100), (2, 500),
    ]  # fmt: skip


def test_condition_selects_counted_rows(tmp_path: Path) -> None:
    exchanges = [exchange(1, "Produce"), exchange(2, "Fetch")]
    tables = write_tables(
        tmp_path, exchanges=exchanges, partitions=[carried(1, 10), carried(2, 20)],
        batches=[batch(1, 1, (1, 1)), batch(2, 2, (1, 1))], connections=[connection()],
    )  # fmt: skip
    (row,) = kdissect.analyse("traffic", tables, where="api = 'Fetch'").to_arrow().to_pylist()
    assert (row["produced_bytes"], row["fetched_bytes"], row["batches"]) == (0, 20, 0)


def test_records_of_a_real_session_are_those_that_its_producers_tell() -> None:
    sidecar = json.loads((CAPTURES / "quickstart.json").read_text())
    produced = sidecar["produced"]
    column = produced["columns"].index("topic")
    told = Counter(row[column] for row in produced["rows"])
    rows = kdissect.analyse("traffic", CAPTURES / "quickstart.pcapng").to_arrow().to_pylist()
    found = {row["topic"]: row for row in rows}
    kept = ("orders", "clicks", "payments")  # the others are refused
    assert {topic: found[topic]["produced_records"] for topic in kept} == {
        topic: told[topic] for topic in kept
    }
    assert found["clicks"]["single"] == 1.0
    assert found["orders"]["produced_codecs"] == "gzip, lz4, none, snappy, zstd"


def test_quotas_are_seen_where_the_broker_throttled() -> None:
    sidecar = json.loads((CAPTURES / "throttling-4.3.1.json").read_text())
    columns = sidecar["exchanges"]["columns"]
    told = Counter(
        row[columns.index("client_id")]
        for row in sidecar["exchanges"]["rows"]
        if row[columns.index("throttle_ms")]
    )
    answer = kdissect.analyse("traffic", CAPTURES / "throttling-4.3.1.pcapng", by=["client"])
    found = {row["client"]: row["throttled"] for row in answer.to_arrow().to_pylist()}
    assert {client: number for client, number in found.items() if number} == told


def test_shares_are_read_in_percent_and_rates_as_numbers() -> None:
    fields = [pa.field(name, pa.float64(), metadata={"type": name}) for name in (SHARE, RATE)]
    shown = readable(pa.table([[0.5], [2.7336]], schema=pa.schema(fields)))
    assert shown.to_pylist() == [{SHARE: "50.0%", RATE: "2.73"}]
