"""What the other sections show is that of the tables and of `--json`: findings, tables, maps."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kdissect
from kdissect.cli.program import ANSWERED, run
from kdissect.report.axis import MS
from kdissect.report.connections import LISTED
from kdissect.report.heat import PARTS
from kdissect.report.tables import cell
from kdissect.report.writing import make_report
from kdissect.text.escape import escaped
from tests.report.test_happenings import table_of
from tests.report.test_numbers import CAPTURES, binned, data_of

OF_DOCUMENT = ("apis", "clients", "topics", "errors", "problems")
FAILED = "coalesce(error_code, 0) <> 0 or coalesce(error_count, 0) > 0"
MEASURES = f"""count(*), count(*) filter ({FAILED}),
  sum(coalesce(request_size, 0) + coalesce(response_size, 0)),
  max(latency_ns) filter (outcome = 'answered')"""
BROKER = "broker_ip || ':' || broker_port"
VIEWS = f"""
  create view of_topics as
    select distinct exchange_id, coalesce(topic, '<' || topic_id || '>', '') as topic
    from partitions;
  create view brokers as
    select exchanges.*, {BROKER} as broker from exchanges join connections using (connection_id)"""  # noqa: S608
COPIED = (
    "api", "api_version", "client_id", "latency_ns", "queue_ns", "wait_ns", "work_ns", "outcome",
    "request_packet", "response_packet", "connection_id",
)  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_findings_and_tables_are_those_of_the_document(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = data_of(make_report(path, files=[str(path)]).html)
    capfd.readouterr()
    assert run([str(path), "--json", "--no-progress"]) == ANSWERED
    document = json.loads(capfd.readouterr().out)
    shown = [{name: one[name] for name in document_of(one)} for one in data["findings"]]
    assert shown == [safe(document_of(one)) for one in document["findings"]]
    for name in OF_DOCUMENT:
        (table,) = (one for one in data["tables"] if one["name"] == name)
        paths = [column["path"] for column in table["columns"]]
        expected = [[safe(cell(row, place)) for place in paths] for row in document[name]]
        assert table["rows"] == expected
    assert data["totals"] == safe(document["totals"])
    assert data["network"] == document["network"]


def document_of(finding: dict[str, Any]) -> dict[str, Any]:
    """A finding without what only the page has."""
    return {name: value for name, value in finding.items() if name != "next"}


def safe(value: Any) -> Any:
    """The value with its texts as a page writes them."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {name: safe(one) for name, one in value.items()}
    return [safe(one) for one in value] if isinstance(value, list) else value


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_pairs_heat_maps_connections_and_messages_are_those_of_the_tables(path: Path) -> None:
    data = data_of(make_report(path).html)
    with duckdb.connect() as base:
        for name in ("exchanges", "connections", "partitions"):
            base.register(name, kdissect.read(path, table=name).to_arrow())
        base.execute(VIEWS)
        check_unanswered(base, data["time"])
        check_pairs(base, data)
        check_heat(base, data["heat"])
        check_connections(base, table_of(data, "connections"))
        check_messages(base, data)


def check_unanswered(base: Any, time: dict[str, Any]) -> None:
    asked = """
        select (epoch_ns(coalesce(request_start, request_end, response_start, response_end)) // $w)
            - $s // $w, count(*)
        from exchanges where outcome = 'unanswered' group by 1"""
    given = {"w": time["width_ms"] * MS, "s": time["start_ms"] * MS}
    expected = dict(base.execute(asked, given).fetchall())
    assert time["unanswered"] == [expected.get(bin_, 0) for bin_ in range(time["count"])]


def check_pairs(base: Any, data: dict[str, Any]) -> None:
    of_topics = f"select broker, topic, {MEASURES} from brokers"  # noqa: S608
    of_topics += " join of_topics using (exchange_id)"
    of_groups = f"select coalesce(client_id, ''), group_id, {MEASURES} from exchanges"  # noqa: S608
    for name, asked in (
        ("brokers_topics", f"{of_topics} group by 1, 2"),
        ("clients_groups", f"{of_groups} where coalesce(group_id, '') <> '' group by 1, 2"),
    ):
        names = ("from", "to", "exchanges", "errors", "bytes", "max_ns")
        shown = {tuple(row[one] for one in names) for row in table_of(data, name)}
        assert shown == set(base.execute(asked).fetchall())


def check_heat(base: Any, heat: dict[str, Any]) -> None:
    """The maps of brokers and topics, by the latency bin of each part."""
    sources = {"broker": "brokers", "topic": "exchanges join of_topics using (exchange_id)"}
    maps = [one for one in heat["maps"] if one["by"] in sources and one["name"] != "(others)"]
    for one in maps:
        for part, column in PARTS.items():
            asked = (
                f"select {column} from {sources[one['by']]} where {one['by']} = ?"  # noqa: S608
                " and outcome = 'answered' and latency_ns is not null"
                f" and {column} >= {0 if part == 'latency' else 1}"
            )
            flat = one["cells"].get(part, [])
            counts = binned([])
            for bin_, many in zip(flat[1::3], flat[2::3], strict=True):
                counts[bin_] += many
            values = [row[0] for row in base.execute(asked, [one["name"]]).fetchall()]
            assert counts == binned(values), (one["by"], one["name"], part)


def check_connections(base: Any, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    names = ", ".join(name for name in rows[0] if name not in ("client", "broker"))
    asked = f"select client_ip || ':' || client_port, {BROKER}, {names} from connections"  # noqa: S608
    expected = {tuple(map(safe, row)) for row in base.execute(asked).fetchall()}
    assert {tuple(row.values()) for row in rows} <= expected
    assert len(rows) == min(len(expected), LISTED)


def check_messages(base: Any, data: dict[str, Any]) -> None:
    """Exchanges of diagrams and below findings, column by column."""
    columns = ", ".join(("exchange_id", *COPIED))
    known = {
        row[0]: row[1:]
        for row in base.execute(f"select {columns} from exchanges").fetchall()  # noqa: S608
    }
    lists = [one["exchanges"] for one in data["sequences"]]
    lists += [one["rows"] for one in data["evidence"]]
    for row in (row for rows in lists for row in rows):
        for name, value in zip(COPIED, known[row["exchange_id"]], strict=True):
            is_text = name in ("api", "client_id", "outcome")
            assert row.get(name, value) == ("" if value is None and is_text else safe(value)), name
