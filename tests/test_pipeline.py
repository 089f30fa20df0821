"""Captures in, tables out: the options, and the account of every byte."""

import io
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdissect
from kdissect.api.reading import read
from kdissect.api.writing import write
from kdissect.capture.files import open_captures
from kdissect.errors import CaptureError, KdissectError, OutputError
from kdissect.pipeline import Balance, Options, ProblemFound, Run
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES
from tests.capture.writers import Captured, make_pcap
from tests.conversation import conversation
from tests.exchange_builders import request, response
from tests.test_delivery import packets_of, session
from tools.golden import captures

CAPTURE = str(Path(__file__).parents[1] / "captures" / "quickstart.pcapng")
Row = dict[str, Any]


def rows_of(table: str, source: Any = CAPTURE, **asked: Any) -> list[Row]:
    found: list[Row] = read(source, table=table, **asked).to_arrow().to_pylist()
    return found


def run_all(source: Any, **options: Any) -> tuple[dict[str, list[Row]], Balance]:
    run = Run(source, Options(tables=tuple(TABLES), **options))
    found: dict[str, list[Row]] = {name: [] for name in TABLES}
    for name, batch in run:
        found[name] += batch.to_pylist()
    return found, run.balance


def small_talk(count: int = 3) -> bytes:
    """A capture of some heartbeats."""
    talk = conversation()
    for number in range(count):
        talk = talk.client(request("Heartbeat", 4, number, group_id=f"group-{number}"))
        talk = talk.broker(response("Heartbeat", 4, number, error_code=number * 25))
    return talk.close().pcap()


# Reading one table


def test_reading_gives_the_rows_of_a_table() -> None:
    table = read(io.BytesIO(small_talk())).to_arrow()
    assert table.schema == arrow_schema(TABLES["exchanges"])
    assert table["group_id"].to_pylist() == ["group-0", "group-1", "group-2"]


def test_reading_gives_pandas_with_nanoseconds_and_categories() -> None:
    frame = read(CAPTURE, columns=["request_start", "api", "latency_ns"]).to_pandas()
    times = [row["request_start"].value for row in rows_of("exchanges")]
    assert [time.value for time in frame["request_start"]] == times
    assert str(frame["request_start"].dtype) == "datetime64[ns, UTC]"
    assert str(frame["api"].dtype) == "category"
    assert any(time % 1000 for time in times)


def test_columns_are_those_asked_for_in_their_order() -> None:
    whole = rows_of("exchanges")
    names = ["latency_ns", "api", "correlation_id"]
    assert rows_of("exchanges", columns=names) == [
        {name: row[name] for name in names} for row in whole
    ]
    assert list(rows_of("exchanges", columns=names, limit=1)[0]) == names


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_the_same_values_alone_and_with_others(table: str) -> None:
    whole = rows_of(table)
    for column in TABLES[table].columns[::5]:
        assert rows_of(table, columns=[column.name]) == [
            {column.name: row[column.name]} for row in whole
        ]


def test_where_is_a_condition_over_all_columns() -> None:
    whole = rows_of("exchanges")
    assert rows_of("exchanges", where="api = 'Produce' and latency_ns > 1e9") == [
        row for row in whole if row["api"] == "Produce" and (row["latency_ns"] or 0) > 1e9
    ]
    found = rows_of("exchanges", where="error is not null", columns=["correlation_id"])
    assert found == [{"correlation_id": r["correlation_id"]} for r in whole if r["error"]]
    assert rows_of("exchanges", where="error_code is null and outcome = 'answered'") == []


def test_where_compares_times_in_utc() -> None:
    whole = rows_of("exchanges")
    middle = whole[100]["request_start"].floor("us")
    before = [row for row in whole if row["request_start"].floor("us") < middle]
    assert len(before) > 50
    for literal in (f"'{middle.isoformat()}'", f"timestamptz '{middle.isoformat()}'"):
        assert rows_of("exchanges", where=f"request_start < {literal}") == before


@pytest.mark.parametrize("limit", [0, 1, 7, 10_000])
def test_limit_is_a_number_of_rows(limit: int) -> None:
    for batch_rows in (3, 100_000):
        found = rows_of("exchanges", limit=limit, batch_rows=batch_rows)
        assert found == rows_of("exchanges", batch_rows=batch_rows)[:limit]


def test_limit_counts_the_rows_that_where_leaves() -> None:
    whole = [row for row in rows_of("exchanges") if row["api"] == "Fetch"]
    for batch_rows in (1, 100_000):
        found = rows_of("exchanges", where="api = 'Fetch'", limit=5, batch_rows=batch_rows)
        assert found == whole[:5]


def test_reading_stops_when_the_limit_is_reached() -> None:
    progress: list[tuple[int, int | None]] = []
    big = make_pcap(
        [
            Captured(packet.data, packet.time_ns + turn * 100_000_000_000)
            for turn in range(8)
            for packet in packets_of(session())
        ]
    )
    reading = read(
        io.BytesIO(big), limit=2, batch_rows=1,
        progress=lambda done, total: progress.append((done, total)),
    )  # fmt: skip
    assert reading.to_arrow().num_rows == 2
    assert 0 < progress[-1][0] < len(big)


@pytest.mark.parametrize("batch_rows", [1, 10, 1_000])
def test_rows_do_not_depend_on_the_size_of_batches(batch_rows: int) -> None:
    many, _ = run_all(CAPTURE, batch_rows=batch_rows, payload=True)
    whole, _ = run_all(CAPTURE, payload=True)
    for table in TABLES:
        assert sorted(map(repr, many[table])) == sorted(map(repr, whole[table]))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            {"table": "exchange"},
            r"no table 'exchange'; did you mean 'exchanges'\? there are: connections, exchanges,",
        ),
        (
            {"columns": ["api", "latency"]},
            r"no column 'latency' in exchanges; did you mean 'latency_ns'\? there are: capture,",
        ),
        ({"limit": -1}, "limit is a number of rows, not -1"),
        ({"where": "latency > 5"}, "--where 'latency > 5': no column 'latency'; did you mean"),
        ({"where": "api ="}, "--where 'api =': Parser Error"),
        ({"brokers": ["somewhere"]}, "'somewhere' is not address:port"),
        (
            {"brokers": ["10.0.0.1:70000"]},
            "'70000' in '10.0.0.1:70000' is not a port",
        ),
    ],
)
def test_invalid_requests_are_reported(asked: Row, text: str) -> None:
    with pytest.raises(KdissectError, match=text):
        read(CAPTURE, **asked).to_arrow()


def test_a_wrong_condition_is_an_error_even_without_rows() -> None:
    empty = make_pcap([Captured(b"not a packet", 1)])
    assert read(io.BytesIO(empty), where="api = 'Fetch'").to_arrow().num_rows == 0
    with pytest.raises(KdissectError, match="no column 'no_such_column'; there are: capture,"):
        read(io.BytesIO(empty), where="no_such_column").to_arrow()


def test_a_run_refuses_tables_and_columns_that_are_not_there() -> None:
    with pytest.raises(KdissectError, match="no table 'nothing'"):
        Run(CAPTURE, Options(tables=("exchanges", "nothing")))
    with pytest.raises(KdissectError, match="no column 'nothing' in errors"):
        Run(CAPTURE, Options(tables=("errors",), columns={"errors": ["code", "nothing"]}))


def test_files_that_are_no_captures_raise_capture_error(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"hello world, hello world")
    for source in (str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap"), [], str(tmp_path)):
        with pytest.raises(CaptureError):
            read(source).to_arrow()


def test_payload_is_there_only_when_asked_for() -> None:
    assert {row["value"] for row in rows_of("records")} == {None}
    assert any(row["value"] for row in rows_of("records", payload=True))


def test_checksums_are_verified_only_when_asked_for() -> None:
    assert {row["crc_ok"] for row in rows_of("batches")} == {None}
    assert {row["crc_ok"] for row in rows_of("batches", verify_crc=True)} == {True}


def test_public_names_are_those_of_the_pipeline() -> None:
    assert kdissect.read is read
    assert kdissect.write is write
    assert kdissect.Run is Run
    assert kdissect.Options is Options


# Sides


def test_ports_and_brokers_are_configurable() -> None:
    talk = conversation().client(request("Heartbeat", 4, 1)).start_late(3)
    (row,) = rows_of("connections", io.BytesIO(talk.pcap()))
    assert row["broker_side_by"] == "port"
    told = rows_of("connections", io.BytesIO(talk.pcap()), brokers=["10.0.0.9:9092"])
    assert told[0]["broker_side_by"] == "user"
    (row,) = rows_of("connections", io.BytesIO(talk.pcap()), ports=[50_000])
    assert row["broker_side_by"] == "content"  # both ports are known, so neither shows the side


# Strict


def test_a_strict_run_stops_at_the_first_problem() -> None:
    with pytest.raises(ProblemFound, match="exchanges: Metadata request v13: 3 bytes") as raised:
        run_all(CAPTURE, strict=True)
    assert raised.value.problem.kind == "leftover-request"
    (row,) = rows_of("problems", limit=1)
    assert raised.value.problem.packet_number == row["packet_number"]


def test_a_strict_run_without_problems_gives_everything() -> None:
    found, _ = run_all(io.BytesIO(small_talk()), strict=True)
    assert len(found["exchanges"]) == 3


def test_a_strict_run_finds_the_problem_at_the_very_end() -> None:
    data = small_talk()[:-3]  # the last packet is cut off
    with pytest.raises(ProblemFound, match="capture: "):
        run_all(io.BytesIO(data), strict=True)
    found, balance = run_all(io.BytesIO(data))
    assert [(row["stage"], row["kind"]) for row in found["problems"]] == [
        ("capture", next(iter(balance.problems)))
    ]


# Several files, and other places


def two_files(directory: Path) -> tuple[Path, Path]:
    packets = [packet for packets in open_captures(CAPTURE) for packet in packets]
    captured = [Captured(p.data[p.start : p.end], p.time_ns, p.original_length) for p in packets]
    link_type = packets[0].link_type
    half = len(captured) // 2
    first, second = directory / "ring-1.pcap", directory / "ring-2.pcap"
    first.write_bytes(make_pcap(captured[:half], magic=0xA1B23C4D, link_type=link_type))
    second.write_bytes(make_pcap(captured[half:], magic=0xA1B23C4D, link_type=link_type))
    return first, second


PER_FILE = ("capture", "request_packet", "response_packet", "packet_number", "first_packet")


def without_files(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in PER_FILE} for row in rows]


def test_several_files_are_one_capture_however_they_are_named(tmp_path: Path) -> None:
    first, second = two_files(tmp_path)
    whole, balance = run_all(CAPTURE)
    for source in ([second, first], str(tmp_path / "ring-*.pcap"), [str(tmp_path)]):
        found, found_balance = run_all(source)
        assert found_balance == balance
        for table in TABLES:
            assert without_files(found[table]) == without_files(whole[table])
        names = {row["capture"] for row in found["exchanges"]}
        assert names == {str(first), str(second)}


def test_packet_numbers_are_those_of_their_file(tmp_path: Path) -> None:
    two_files(tmp_path)
    whole = {row["exchange_id"]: row["request_packet"] for row in rows_of("exchanges")}
    half = 1318 // 2
    for row in rows_of("exchanges", [str(tmp_path)]):
        number = whole[row["exchange_id"]]
        assert row["request_packet"] == (number if number <= half else number - half)


def test_stdin_is_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO(Path(CAPTURE).read_bytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=data))
    found = rows_of("exchanges", "-", columns=["exchange_id", "api", "latency_ns"])
    assert found == rows_of("exchanges", columns=["exchange_id", "api", "latency_ns"])


def test_progress_reports_the_bytes_read() -> None:
    told: list[tuple[int, int | None]] = []
    run_all(CAPTURE, progress=lambda done, total: told.append((done, total)))
    size = Path(CAPTURE).stat().st_size
    assert told[-1] == (size, size)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


# Writing


def test_writing_gives_a_file_for_each_table(tmp_path: Path) -> None:
    written, balance = write(CAPTURE, tmp_path / "out")
    assert set(written) == set(DEFAULT_TABLES)
    assert "records" not in written
    for name, (path, count) in written.items():
        assert path == tmp_path / "out" / f"{name}.parquet"
        table = pq.read_table(path)
        assert table.num_rows == count == len(rows_of(name))
        assert table.schema.equals(arrow_schema(TABLES[name]), check_metadata=True)
    assert balance == run_all(CAPTURE)[1]


def test_written_tables_equal_read_tables(tmp_path: Path) -> None:
    write(CAPTURE, tmp_path, tables=tuple(TABLES), payload=True)
    whole, _ = run_all(CAPTURE, payload=True)
    for name in TABLES:
        assert pq.read_table(tmp_path / f"{name}.parquet").to_pylist() == whole[name]


def test_writing_chosen_tables_and_columns(tmp_path: Path) -> None:
    written, _ = write(
        CAPTURE, tmp_path, tables=["errors", "records"], columns={"errors": ["code", "path"]}
    )
    assert set(written) == {"errors", "records"}
    assert pq.read_schema(tmp_path / "errors.parquet").names == ["code", "path"]


def test_writing_twice_needs_force(tmp_path: Path) -> None:
    write(CAPTURE, tmp_path)
    with pytest.raises(OutputError, match="exists already"):
        write(io.BytesIO(small_talk()), tmp_path)
    assert pq.read_table(tmp_path / "exchanges.parquet").num_rows > 300
    write(io.BytesIO(small_talk()), tmp_path, force=True)
    assert pq.read_table(tmp_path / "exchanges.parquet").num_rows == 3


def test_a_run_that_fails_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ProblemFound):
        write(CAPTURE, tmp_path / "out", strict=True)
    with pytest.raises(CaptureError):
        write(str(tmp_path / "none.pcap"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# The account of every byte


def assert_balanced(found: dict[str, list[Row]], balance: Balance) -> None:
    assert balance.payload_bytes == (
        balance.framed_bytes + balance.skipped_bytes + balance.duplicate_bytes
        + balance.tls_bytes + balance.encrypted_bytes
    )  # fmt: skip
    names = (
        "payload", "framed", "skipped", "tls", "encrypted", "retransmitted", "duplicate_packet",
        "missing",
    )  # fmt: skip
    totals = dict.fromkeys(names, 0)
    for row in found["connections"]:
        for way in ("to_broker", "to_client"):
            counts = {name: row[f"{name}_bytes_{way}"] for name in totals}
            assert counts["payload"] == (
                counts["framed"] + counts["skipped"] + counts["tls"] + counts["encrypted"]
                + counts["retransmitted"] + counts["duplicate_packet"]
            )  # fmt: skip
            for name, count in counts.items():
                totals[name] += count
    totals["duplicate"] = totals.pop("retransmitted") + totals.pop("duplicate_packet")
    assert totals == {
        "payload": balance.payload_bytes, "framed": balance.framed_bytes,
        "skipped": balance.skipped_bytes, "duplicate": balance.duplicate_bytes,
        "tls": balance.tls_bytes, "encrypted": balance.encrypted_bytes,
        "missing": balance.missing_bytes,
    }  # fmt: skip
    assert balance.connections == len(found["connections"])
    assert balance.exchanges == len(found["exchanges"])
    assert sum(row["exchanges"] for row in found["connections"]) == balance.exchanges
    assert sum(balance.protocols.values()) == balance.connections
    assert sum(balance.problems.values()) == len(found["problems"])


@pytest.mark.parametrize("capture", captures(), ids=lambda path: path.name)
def test_the_counts_of_every_capture_balance(capture: Path) -> None:
    found, balance = run_all(str(capture))
    assert_balanced(found, balance)


def test_quickstart_has_no_bytes_that_are_not_framed() -> None:
    _, balance = run_all(CAPTURE)
    assert (balance.skipped_bytes, balance.missing_bytes) == (0, 0)
    assert balance.framed_bytes == sum(
        row["request_size"] + 4 + (row["response_size"] + 4 if row["response_size"] else 0)
        for row in rows_of("exchanges")
    )
    assert balance.packets == 1318


@settings(max_examples=25)
@given(st.integers(0, 1 << 32), st.sampled_from([0.01, 0.1, 0.5]), st.integers(0, 1500))
def test_the_counts_of_a_damaged_capture_balance(seed: int, loss: float, snap: int) -> None:
    source = random.Random(seed)
    ports = source.sample(sorted({wire.client_port for wire in session()}), 8)
    kept = [w for w in session() if w.client_port in ports and source.random() >= loss]
    kept += source.sample(kept, len(kept) // 5)
    packets = [Captured(p.data[: 54 + snap], p.time_ns, len(p.data)) for p in packets_of(kept)]
    found, balance = run_all(io.BytesIO(make_pcap(packets, magic=0xA1B23C4D)))
    assert_balanced(found, balance)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=300)), max_size=8))
def test_the_counts_of_any_bytes_balance(said: list[tuple[bool, bytes]]) -> None:
    talk = conversation()
    for is_client, message in said:
        talk = talk.client(message) if is_client else talk.broker(message)
    found, balance = run_all(io.BytesIO(talk.pcap()))
    assert_balanced(found, balance)


def test_a_table_of_no_rows_has_its_schema() -> None:
    empty = io.BytesIO(make_pcap([Captured(b"not a packet", 1)]))
    table = read(empty, table="partitions").to_arrow()
    assert (table.num_rows, table.schema) == (0, arrow_schema(TABLES["partitions"]))
    assert isinstance(table, pa.Table)


def test_the_balance_is_known_after_reading() -> None:
    reading = read(CAPTURE)
    assert reading.balance is None
    reading.to_arrow()
    assert reading.balance is not None
    assert reading.balance.exchanges == 331


def test_an_orphan_of_several_versions_has_no_body(tmp_path: Path) -> None:
    talk = conversation(has_acks=False)
    rows = [{"error_code": 0, "name": f"topic-{n}", "partitions": []} for n in range(3)]
    for number in range(1, 4):
        talk = talk.broker(response("Metadata", 7, number, topics=rows))
    path = tmp_path / "alone.pcap"
    path.write_bytes(talk.pcap())
    found = list(kdissect.dissect(str(path)))
    assert [(one.api, one.api_version, one.response) for one in found] == [
        ("Metadata", None, None)
    ] * 3
    assert {one.candidates for one in found} == {"Metadata 3-7"}
