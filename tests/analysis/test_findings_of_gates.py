"""The default page has every problem and warning that asking all has: no gate is shut on one."""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import kdissect
from kdissect.rules.finding import NOTICE
from kdissect.rules.indicators import Indicators
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import TABLES
from tests.analysis.capture_parts import drawn_part
from tests.conversation import conversation
from tests.exchange_builders import request, response
from tests.messages.record_builders import make_batch, make_record
from tests.recovery.captures import EVERY
from tests.recovery.talks import CAPTURES
from tests.seeds import SEED
from tools.golden import captures

PLAIN: Final = [path for path in captures() if path.name.endswith(".pcapng")]


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", EVERY)
def test_default_page_equals_the_page_of_all_analyses(name: str) -> None:
    asked, every = (
        [(one.id, one.severity, one.text) for one in found if one.severity != NOTICE]
        for found in (
            kdissect.findings(CAPTURES / name),
            kdissect.findings(CAPTURES / name, asks_all=True),
        )
    )
    assert asked == every


@pytest.mark.sweep(3)
@pytest.mark.parametrize("capture", PLAIN, ids=lambda path: path.name)
def test_default_page_of_a_part_equals_the_page_of_all_analyses(
    capture: Path, tmp_path: Path
) -> None:
    part = drawn_part(capture, tmp_path)
    asked, every = (
        [(one.id, one.severity, one.text) for one in found if one.severity != NOTICE]
        for found in (kdissect.findings(part), kdissect.findings(part, asks_all=True))
    )
    assert asked == every, SEED


def counted(table: str, *rows: dict[str, object]) -> Indicators:
    signs = Indicators()
    signs.add(table, pa.RecordBatch.from_pylist(list(rows), arrow_schema(TABLES[table])))
    return signs


def place(topic: str = "orders", partition: int = 0, **more: int) -> dict[str, object]:
    return {"topic": topic, "partition": partition, **more}


def test_group_lag_counts_uncommitted_records() -> None:
    """A client that fetches ahead leaves nothing behind its fetches."""
    ahead = place(fetch_offset=4_990, record_count=10, high_watermark=5_000)
    assert counted("partitions", ahead, place(committed_offset=4_000)).most_behind == 1_000
    assert counted("partitions", ahead, place(committed_offset=4_001)).most_behind == 999
    elsewhere = place("clicks", committed_offset=10)
    assert counted("partitions", ahead, elsewhere).most_behind == 0
    left = place(fetch_offset=100, record_count=10, high_watermark=5_000)
    assert counted("partitions", left).most_behind == 4_890


def test_a_group_is_behind_by_the_sum_of_its_partitions() -> None:
    rows = [
        place(partition=number, fetch_offset=90, record_count=10, high_watermark=100)
        for number in range(6)
    ]
    rows += [place(partition=number, committed_offset=10) for number in range(5)]
    rows.append(place(partition=5, committed_offset=100))
    assert counted("partitions", *rows).most_behind == 5 * 90


def test_log_end_follows_the_last_produced_batch() -> None:
    produced = place(base_offset=700, record_count=10, record_bytes=900)
    committed = place(committed_offset=200)
    assert counted("partitions", produced, committed).most_behind == 500
    refused = place(base_offset=-1, record_count=10, record_bytes=900)
    assert counted("partitions", refused, committed).most_behind == 0


def test_batches_of_one_record_are_counted_beside_those_of_many() -> None:
    lonely = place(record_count=813, batch_count=813)
    good = place("clicks", record_count=90_000, batch_count=100)
    assert counted("partitions", lonely, good).single_batches == 813
    assert counted("partitions", good).single_batches == 0
    fetched = place(fetch_offset=0, record_count=3, batch_count=3)
    assert counted("partitions", fetched).single_batches == 0


@pytest.mark.parametrize(
    ("sent_ms", "closed_by", "in_flight"),
    [(9_500, "capture-end", 1), (8_500, "capture-end", 0), (9_500, "fin", 0)],
)
def test_a_request_is_in_flight_when_the_capture_ends_under_it(
    sent_ms: int, closed_by: str, in_flight: int
) -> None:
    request = {"outcome": "unanswered", "request_end": sent_ms * 1_000_000, "api": "Metadata",
               "connection_id": 7}  # fmt: skip
    signs = counted("exchanges", request)
    ends = {"connection_id": 7, "closed_by": closed_by, "broker_ip": "10.0.0.9"}
    schema = arrow_schema(TABLES["connections"])
    signs.add("connections", pa.RecordBatch.from_pylist([ends], schema))
    assert signs.in_flight(10_000 * 1_000_000)["Metadata"] == in_flight


def sent_twice() -> bytes:
    """A capture of two connections with one batch, which gets two offsets."""
    talk = conversation().open()
    records = make_batch([make_record(b"k", b"paid")])
    topic = {"name": "orders", "partition_data": [{"index": 3, "records": records}]}
    for offset in (4, 5):
        places = [{"index": 3, "error_code": 0, "base_offset": offset}]
        answer = response(
            "Produce", 7, 1, responses=[{"name": "orders", "partition_responses": places}]
        )
        talk = talk.client(request("Produce", 7, 1, acks=-1, topic_data=[topic]))
        talk = talk.broker(answer).close()
        talk = talk.port_reuse() if offset == 4 else talk
    return talk.pcap()


SENT = {"api": "Produce", "client_id": "p"}
HERE = {"client_ip": "10.0.0.1", "broker_ip": "10.0.0.9", "broker_port": 9092}


@pytest.mark.parametrize(
    ("sent", "here", "has_returned"),
    [
        ({}, {}, True),
        ({"client_id": "other"}, {}, False),
        ({"api": "Fetch"}, {}, False),
        ({}, {"client_ip": "10.0.0.2"}, False),
        ({}, {"broker_ip": "10.0.0.8"}, False),
        ({}, {"broker_port": 9093}, False),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_producer_that_connects_again_may_send_again(
    sent: dict[str, object], here: dict[str, object], has_returned: bool, is_late: bool
) -> None:
    """The rows of connections come before those of their exchanges, or after them."""
    tables = {
        "exchanges": [SENT | {"connection_id": 1}, SENT | {"connection_id": 2} | sent],
        "connections": [HERE | {"connection_id": 1}, HERE | {"connection_id": 2} | here],
    }
    signs = Indicators()
    for table in sorted(tables, reverse=is_late):
        signs.add(table, pa.RecordBatch.from_pylist(tables[table], arrow_schema(TABLES[table])))
    assert signs.producers.have_returned is has_returned


@pytest.mark.parametrize("table", ["exchanges", "connections"])
def test_of_many_producers_one_may_have_returned(table: str) -> None:
    signs = Indicators()
    rows = [SENT | {"connection_id": 1}]
    signs.add("exchanges", pa.RecordBatch.from_pylist(rows, arrow_schema(TABLES["exchanges"])))
    assert not signs.producers.have_returned
    own = SENT if table == "exchanges" else HERE
    rows = [own | {"connection_id": number} for number in range(10_002)]
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(TABLES[table]))
    for _ in range(3):
        signs.add(table, batch)
    assert signs.producers.have_returned


def test_a_batch_that_is_sent_again_on_another_connection_is_on_the_default_page(
    tmp_path: Path,
) -> None:
    """A tap at the broker, which answered all: the response was lost behind the tap."""
    path = tmp_path / "made.pcap"
    path.write_bytes(sent_twice())
    (found,) = (one for one in kdissect.findings(path) if one.id == "duplicates-in-log")
    assert found.severity == "problem"
