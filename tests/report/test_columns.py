"""Each column of a page is explained by the words of the documentation, as a browser shows them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kdissect.text.escape import escaped
from tests.report.conftest import Opened
from tests.report.pages import QUICKSTART, written
from tests.report.test_numbers import data_of

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `(\w+)` \| [^|]* \| [^|]* \| (.*) \|$")
# What a column of a page is of: columns of tables, or a table whose rows are counted.
LATENCIES = {f"latency.{name}_ns": "exchanges.latency_ns" for name in ("p50", "p95", "p99", "max")}
COUNTS = {
    "exchanges": "exchanges", "answered": "exchanges.latency_ns",
    "with_errors": "exchanges.error_count", "request_bytes": "exchanges.request_size",
    "response_bytes": "exchanges.response_size", **LATENCIES,
}  # fmt: skip
RECORDS = {
    "topic": "partitions.topic", "produced_bytes": "partitions.record_bytes",
    "produced_records": "partitions.record_count", "fetched_bytes": "partitions.record_bytes",
    "fetched_records": "partitions.record_count", "with_errors": "partitions.error",
}  # fmt: skip
EDGES = {
    "exchanges": "exchanges", "errors": "exchanges.error_count",
    "bytes": "exchanges.request_size exchanges.response_size", "p50_ns": "exchanges.latency_ns",
    "p99_ns": "exchanges.latency_ns", "max_ns": "exchanges.latency_ns",
}  # fmt: skip
BROKER = "connections.broker_ip connections.broker_port"
EXPLAINED_BY = {
    "apis": {
        "api": "exchanges.api", "versions": "exchanges.api_version", **COUNTS,
        "unanswered": "exchanges.outcome", "work.p99_ns": "exchanges.work_ns",
        "waited": "exchanges.wait_ns",
    },
    "clients": {"client_id": "exchanges.client_id", **COUNTS},
    "topics": RECORDS,
    "errors": {
        "name": "errors.name", "code": "errors.code", "count": "errors", "path": "errors.path",
        "concerns": "errors.topic errors.group_id errors.resource errors.message",
        "first_packet": "exchanges.response_packet",
    },
    "problems": {
        "stage": "problems.stage", "kind": "problems.kind", "count": "problems",
        "bytes": "problems.bytes", "packet_number": "problems.packet_number",
        "message": "problems.message",
    },
    "clients_brokers": {"from": "exchanges.client_id", "to": BROKER, **EDGES},
    "brokers_topics": {"from": BROKER, "to": "partitions.topic", **EDGES},
    "clients_groups": {"from": "exchanges.client_id", "to": "exchanges.group_id", **EDGES},
    "partitions": {"partition": "partitions.partition", "exchanges": "partitions", **RECORDS},
    "groups": {"group": "exchanges.group_id", **EDGES, "lag": "lag.lag"},
    "connections": {"client": "connections.client_ip connections.client_port", "broker": BROKER},
}  # fmt: skip
# The others are columns of this name, of the table or answer of the page's table.
OF_ANSWERS = ("rebalances", "failovers")
OTHER_NAMES = {("rebalances", "started"): "start", ("rebalances", "ended"): "end"}


@pytest.fixture(scope="module")
def words() -> dict[str, str]:
    """Table, or table.column, to its meaning, as the pages of the documentation say."""
    found: dict[str, str] = {}
    for page in ("tables.md", "analysis.md"):
        table = ""
        for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
            if line.startswith("## "):
                table = line[3:]
            elif page == "tables.md" and line.startswith("A row is "):
                found[table] = line.removeprefix("A row is ").partition(".")[0]
            elif (row := ROW.match(line)) is not None:
                found.setdefault(f"{table}.{row[1]}", row[2].replace("\\|", "|"))
    return found


def expected_of(table: str, path: str) -> list[str]:
    known = EXPLAINED_BY.get(table, {})
    if path in known:
        return known[path].split()
    assert table in (*OF_ANSWERS, "connections"), (table, path)
    return [f"{table}.{OTHER_NAMES.get((table, path), path)}"]


def test_each_column_has_the_words_of_the_documentation(
    words: dict[str, str], tmp_path: Path
) -> None:
    tables = data_of(written(QUICKSTART, tmp_path).read_bytes())["tables"]
    assert {one["name"] for one in tables} == {*EXPLAINED_BY, *OF_ANSWERS}
    for table in tables:
        assert table["columns"]
        for column in table["columns"]:
            for name in expected_of(table["name"], column["path"]):
                assert words[name] in column["meaning"], (table["name"], column)


@pytest.mark.slow
def test_a_browser_shows_the_words_below_each_table_and_in_its_headings(
    tmp_path: Path, opened: Callable[..., Opened]
) -> None:
    target = written(QUICKSTART, tmp_path)
    shown = opened(target)
    filled = [one for one in data_of(target.read_bytes())["tables"] if one["rows"]]
    assert len(filled) > 8
    for table in filled:
        place = f"#table-{table['name']}"
        meanings = [escaped(column["meaning"]) for column in table["columns"]]
        assert shown.texts(f"{place} .meanings dd") == meanings
        assert shown.texts(f"{place} .meanings dt") == shown.texts(f"{place} th")
        titles = "q => [...document.querySelectorAll(q)].map(one => one.title)"
        assert shown.page.evaluate(titles, f"{place} th button") == meanings
    assert shown.said == []
