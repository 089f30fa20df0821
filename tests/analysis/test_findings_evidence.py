"""Evidence: the printed SQL equals the expressions, and runs only when needed."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kdissect.analysis.engines.duckdb_tables import DuckTables
from kdissect.analysis.engines.ibis_tables import unconditional_tables
from kdissect.analysis.engines.stored_tables import directory_place
from kdissect.analysis.execution import Engine
from kdissect.analysis.summary.counters import ErrorRow
from kdissect.api.summary_pass import findings
from kdissect.api.writing import write
from kdissect.errors import OutputError
from kdissect.rules import executor
from kdissect.rules.compiled_sql import DIRECTORY, SHARING, columns_needed, names
from kdissect.rules.context import Context
from kdissect.rules.evidence import EVIDENCE, expression
from kdissect.rules.executor import LITTLE, gather
from kdissect.rules.indicators import Indicators
from kdissect.rules.page_evidence import PAGE_EVIDENCE
from kdissect.rules.preconditions import GATES, PAGE_GATES, spoken, wanted
from kdissect.sql.memory_limits import MEMORY_VARIABLE
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import TABLES
from kdissect.tables.spilled_tables import KeptTables, Streams
from tests.analysis.made_findings import api, made_summary
from tools.print_evidence import files

CAPTURES = Path(__file__).parent.parent.parent / "captures"
EVERY = {**EVIDENCE, **PAGE_EVIDENCE}
USED = ("quickstart", "cluster-3.9.1", "retries-2.8.2", "transactions-2.8.2", "groups-0.10.2.2")


@pytest.mark.slow
def test_committed_evidence_matches_the_expressions() -> None:
    there = {path.name: path.read_text() for path in DIRECTORY.iterdir()}
    assert there == files(), "run python -m tools.print_evidence"


def test_every_evidence_is_printed_and_has_a_gate() -> None:
    assert set(EVIDENCE) == set(GATES)
    assert set(PAGE_EVIDENCE) == set(PAGE_GATES)
    assert set(names()) == set(EVERY)


@pytest.mark.parametrize("one", SHARING)
def test_what_findings_and_pages_ask_is_answered_once(
    one: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are those of two queries, and neither of these is run."""
    tables = tmp_path / "tables"
    write(CAPTURES / "cluster-3.9.1.pcapng", tables, tables=list(columns_needed()))
    pair = (one, SHARING[one])
    alone = {name: gather(tables, columns_needed(), [name])[0][name] for name in pair}
    assert all(alone.values())

    def never(name: str) -> str:
        raise AssertionError(f"{name} is asked apart")

    monkeypatch.setattr(executor, "whole_query", never)
    monkeypatch.setattr(executor, "query", never)
    assert gather(tables, columns_needed(), pair) == (alone, {})


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("capture", USED)
def test_the_printed_sql_gives_the_rows_of_the_expressions(capture: str, tmp_path: Path) -> None:
    tables = list(columns_needed())
    write(CAPTURES / f"{capture}.pcapng", tmp_path / "tables", tables=tables)
    found, failures = gather(tmp_path / "tables", columns_needed(), names())
    assert failures == {}
    with DuckTables([directory_place(tmp_path / "tables")], tables) as engine:
        for name in names():
            assert found[name] == rows_of(engine, name), name


@cache
def expression_of(name: str) -> Any:
    return expression(EVERY[name], unconditional_tables())


def rows_of(engine: Engine, name: str) -> list[dict[str, Any]]:
    """The rows of the expression, with times as the printed query has them."""
    made = engine.rows(expression_of(name))
    columns = {
        field.name: made[field.name].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        if pa.types.is_timestamp(field.type)
        else made[field.name]
        for field in made.schema
    }
    return [dict(row) for row in pa.table(columns).to_pylist()]


def test_an_analysis_that_the_engine_cannot_run_is_reported(tmp_path: Path) -> None:
    columns = {"errors": ["exchange_id"]}
    (tmp_path / "errors.parquet").write_bytes(b"")
    schema = arrow_schema(TABLES["errors"], ["exchange_id"])
    parquet.write_table(pa.Table.from_pylist([], schema), tmp_path / "errors.parquet")
    rows, failures = gather(tmp_path, columns, ["errors"])
    assert rows == {}
    assert list(failures) == ["errors"]


def kept_batch(rows: int) -> pa.RecordBatch:
    schema = arrow_schema(TABLES["errors"], ["exchange_id", "code"])
    arrays = [pa.array(range(rows), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@pytest.mark.parametrize("streamed_rows", [0, 150, 1 << 30])
@pytest.mark.parametrize("limit", [0, 500, 1 << 30])
def test_tables_are_the_same_from_memory_and_from_files(limit: int, streamed_rows: int) -> None:
    columns = {"errors": ["exchange_id"], "members": ["exchange_id"]}
    with KeptTables(columns, limit, streamed_rows) as kept:
        for _ in range(3):
            kept.add("errors", kept_batch(100))
            kept.add("problems", kept_batch(100))
        assert (kept.made is not None) == (limit < 3 * 800 or streamed_rows < 300)
        assert (kept.streams is None) == (kept.made is None or streamed_rows < 300)
        directory = kept.files()
        assert sorted(path.name for path in directory.iterdir()) == [
            "errors.parquet", "members.parquet",
        ]  # fmt: skip
        read = parquet.read_table(directory / "errors.parquet")
        assert read.to_pydict() == {"exchange_id": list(range(100)) * 3}
    assert not directory.exists()


def test_kept_tables_are_removed_when_no_longer_referenced() -> None:
    with KeptTables({"errors": ["exchange_id"]}, 0) as kept:
        kept.add("errors", kept_batch(10))
        made = kept.made
        assert made is not None
        assert made.exists()
    assert not made.exists()


@pytest.mark.slow
def test_query_out_of_memory_is_retried_with_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(CAPTURES / "groups-4.3.1.pcapng", tmp_path, tables=list(columns_needed()))
    expected = gather(tmp_path, columns_needed(), names())
    assert expected[1] == {}
    monkeypatch.setitem(LITTLE, "memory_limit", "300KB")
    assert gather(tmp_path, columns_needed(), names()) == expected
    monkeypatch.setenv(MEMORY_VARIABLE, "300KB")
    rows, failures = gather(tmp_path, columns_needed(), names())
    assert {*rows, *failures} == {*names()}
    assert failures["rebalances"].startswith("it takes more memory than 300KB")


def test_a_full_disk_costs_findings_and_not_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OutputError("no space left")

    for owner, method, rows in (
        (KeptTables, "add", 9),
        (Streams, "write", 9),
        (KeptTables, "files", 0),
    ):
        monkeypatch.setattr(KeptTables.__init__, "__defaults__", (0, rows * 1_000_000))
        monkeypatch.setattr(owner, method, refuse)
        found = findings(CAPTURES / "quickstart.pcapng")
        assert [one.id for one in found] == ["not-asked", "latencies"]
        assert found[0].text.startswith("No results of failovers, errors, slowest,")
        assert found[0].text.endswith(": no space left")
        monkeypatch.undo()


def look(*apis: Any, signs: dict[str, int] | None = None, **more: Any) -> Context:
    counted = Indicators()
    for name, value in (signs or {}).items():
        setattr(counted, name, value)
    return Context(made_summary(*apis, **more), counted)


FAILED = ErrorRow("MESSAGE_TOO_LARGE", 10, 1, "path", "tiny-0", 900_000)
NOT_LEADER = ErrorRow("NOT_LEADER_OR_FOLLOWER", 6, 1, "path", "orders-0", 900_000)
PRODUCE = api("Produce")


@pytest.mark.parametrize(
    ("seen", "names"),
    [
        (look(), []),
        (look(PRODUCE), []),
        (look(PRODUCE, errors=[FAILED]), ["errors"]),
        (look(PRODUCE, errors=[NOT_LEADER]), ["failovers", "errors"]),
        (look(api("Produce", p99_ms=60)), ["work", "health"]),
        (look(api("Produce", p99_ms=60), clients=("broker-1-fetcher-0",), signs={"acks_all": 9}),
         ["work", "acks", "health"]),
        (look(api("Produce", p99_ms=1200)), ["slowest", "work", "retries", "delivery", "health"]),
        (look(api("Produce", unanswered=1)), ["retries", "delivery"]),
        (look(PRODUCE, signs={"members": 1}), ["rebalances"]),
        (look(PRODUCE, api("OffsetCommit"), signs={"members": 1}), ["rebalances", "commits"]),
        (look(PRODUCE, api("OffsetCommit"), signs={"furthest_behind": 500}), ["lag"]),
        (look(PRODUCE, api("OffsetCommit"), signs={"furthest_behind": 499}), []),
        (look(api("Fetch"), signs={"members": 1}), ["rebalances", "commits"]),
        (look(PRODUCE, signs={"transactional": 1}), ["transactions"]),
        (look(PRODUCE, signs={"throttled": 1}), ["traffic"]),
        (look(PRODUCE, signs={"single_batches": 80}), ["traffic"]),
        (look(PRODUCE, signs={"single_batches": 79}), []),
        (look(PRODUCE, api("Metadata", 100)), ["traffic"]),
        (look(PRODUCE, network={"network_lost_bytes": 1, "retransmitted_segments": 3}), ["health"]),
        (look(PRODUCE, network={"network_lost_bytes": 0, "retransmitted_segments": 3}), []),
        (look(PRODUCE, network={"zero_windows": 3}), ["health"]),
        (look(PRODUCE, signs={"silent": 3}), ["health"]),
        (look(PRODUCE, signs={"failed_logins": 1}), ["logins"]),
        (look(api("Fetch", versions=[3])), ["upgrade"]),
        (look(api("SomethingNew", versions=[0])), []),
    ],
)  # fmt: skip
def test_only_evidence_with_a_chance_of_findings_is_queried(
    seen: Context, names: list[str]
) -> None:
    assert wanted(seen) == names
    assert wanted(seen, is_all=True) == (list(GATES) if seen.summary.apis else [])


def test_versions_of_the_release_are_those_that_upgrade_asks_about() -> None:
    assert spoken()["Fetch"] == (4, 17)
    assert json.loads((DIRECTORY / "spoken.json").read_text())["Produce"][0] == 3
