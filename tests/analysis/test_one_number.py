"""Numbers of the page beside those of the commands that it points to, on every capture."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyarrow import parquet

import kdissect
from kdissect.analysis.summary.counters import Quantiles
from kdissect.analysis.summary.summary import Summary
from kdissect.api.summary_pass import SummaryPage, tables_of
from kdissect.cli.program import run
from kdissect.pipeline import Options, Run
from tools.golden import captures

Row = Mapping[str, Any]


class Page(NamedTuple):
    """The counters of a page, and the tables of the same capture."""

    summary: Summary
    tables: Path

    def rows(self, question: str, **options: Any) -> list[Row]:
        """The answer of a command."""
        found: list[Row] = kdissect.analyse(question, self.tables, **options).to_arrow().to_pylist()
        return found

    def summary_code(self, name: str) -> int | None:
        return next((row.code for row in self.summary.errors if row.name == name), None)

    def size_fields(self) -> dict[str, tuple[int, int]]:
        """Bytes of the size fields of requests and responses by client id.

        `clients` counts them as they are on the wire, the page has the messages alone.
        """
        found: dict[str, tuple[int, int]] = {}
        for row in self.table("exchanges"):
            requests, responses = found.get(row["client_id"] or "", (0, 0))
            found[row["client_id"] or ""] = (
                requests + 4 * (row["request_size"] is not None),
                responses + 4 * (row["response_size"] is not None),
            )
        return found

    def table(self, name: str) -> list[Row]:
        """A table, as `kdissect table` prints it."""
        found: list[Row] = parquet.read_table(self.tables / f"{name}.parquet").to_pylist()
        return found


def sums(rows: list[Row], *names: str) -> list[int]:
    return [sum(row[name] or 0 for row in rows) for name in names]


def times(row: Row) -> tuple[int | None, ...]:
    return tuple(row[f"{name}_ns"] for name in ("p50", "p95", "p99", "max"))


def are_same(shown: Quantiles, row: Row) -> bool:
    """Return whether percentiles are the same but for the rounding of a fraction."""
    pairs = zip((shown.p50_ns, shown.p95_ns, shown.p99_ns, shown.max_ns), times(row), strict=True)
    return all(one == other or abs((one or -9) - (other or -9)) <= 1 for one, other in pairs)


def by_name(rows: list[Row], name: str) -> dict[Any, Row]:
    return {row[name]: row for row in rows}


@pytest.mark.sweep
@pytest.mark.parametrize("capture", captures(), ids=lambda path: path.name)
def test_the_page_has_the_numbers_of_its_commands(capture: Path, tmp_path: Path) -> None:
    keys = capture.with_name(f"{capture.name.split('.pcap')[0]}.keys")
    options: dict[str, Any] = {"keylog": (keys,)} if keys.exists() else {}
    kdissect.write(capture, tmp_path / "tables", **options)
    with SummaryPage(has_findings=False) as counted:
        run = Run(str(capture), Options(**options, tables=tables_of(False)))
        counted.add_all(run)
        page = Page(counted.summary(asdict(run.balance)), tmp_path / "tables")
    for check in CHECKS:
        check(page)


def apis(page: Page) -> None:
    """`kdissect latency`, also `--of work`."""
    rows, work = (by_name(page.rows("latency", of=of), "api") for of in ("latency", "work"))
    shown = {row.api: row for row in page.summary.apis if row.api_key >= 0}
    for name, row in shown.items():
        if name not in rows:  # of APIs without a name, and of orphans, there is one row together
            assert not row.answered or name.startswith("API "), name
            continue
        command = rows[name]
        assert (row.exchanges, row.answered) == (command["requests"], command["exchanges"]), name
        assert are_same(row.latency, command), name
        assert are_same(row.work, work[name]), name
        assert row.waited == pytest.approx(command["waited"], rel=1e-12), name


def totals(page: Page) -> None:
    """`kdissect clients`, `kdissect table connections`."""
    found, rows = page.summary.totals, page.rows("clients", by=["client"])
    assert found.connections == len(page.table("connections"))
    fields = page.size_fields()
    assert sums(rows, "exchanges", "failed", "request_bytes", "response_bytes") == [
        found.exchanges, found.with_errors,
        found.request_bytes + sum(requests for requests, _ in fields.values()),
        found.response_bytes + sum(responses for _, responses in fields.values()),
    ]  # fmt: skip
    assert found.exchanges == sum(found.outcomes.values())
    assert sum(row.unanswered for row in page.summary.apis) == sum(
        row["unanswered"] for row in rows
    )


def clients(page: Page) -> None:
    """`kdissect clients --by client`, `kdissect latency --by client`.

    Clients with an empty id and with none are one row of the page, two of the commands: of that row
    the sums and the maximum are compared; percentiles cannot be had from those of two parts.
    """
    fields = page.size_fields()
    rows, waits = (by_client(page.rows(name, by=["client"])) for name in ("clients", "latency"))
    assert [row.client_id for row in page.summary.clients if row.client_id not in rows] == []
    assert len(page.summary.clients) == len(rows)
    for row in page.summary.clients:
        names = ("exchanges", "failed", "request_bytes", "response_bytes")
        requests, responses = fields[row.client_id]
        assert [
            row.exchanges, row.with_errors,
            row.request_bytes + requests, row.response_bytes + responses,
        ] == sums(rows[row.client_id], *names)  # fmt: skip
        measured = [wait for wait in waits.get(row.client_id, ()) if wait["exchanges"]]
        assert [row.answered] == sums(measured, "exchanges")
        if len(measured) == 1:
            assert are_same(row.latency, measured[0]), row.client_id
        elif measured:
            assert row.client_id == ""
            assert row.latency.max_ns == max(wait["max_ns"] for wait in measured)


def by_client(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows by client id, "" for those without one, too."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["client"] or "", []).append(row)
    return found


def topics(page: Page) -> None:
    """`kdissect traffic`, `kdissect errors --by topic`."""
    rows = by_name(page.rows("traffic"), "topic")
    errors = {row["topic"]: row["errors"] for row in page.rows("errors", by=["topic"])}
    nameless = [row for row in page.summary.topics if not row.topic or row.topic.startswith("<")]
    for row in page.summary.topics:
        assert row.with_errors == errors.get(row.topic.strip("<>"), 0) or not row.topic, row.topic
        if row in nameless:
            continue
        command = rows.get(row.topic) or dict.fromkeys(next(iter(rows.values()), {}), 0)
        assert row.produced_bytes == (command.get("produced_bytes") or 0)
        assert row.produced_records == (command.get("produced_records") or 0)
        read = sums([command], "fetched_bytes", "replicated_bytes") if command else [0, 0]
        assert row.fetched_bytes == sum(read)
        if not page.summary.has_replication:
            assert row.fetched_records == (command.get("fetched_records") or 0)
            assert row.fetched_bytes == read[0]


def errors(page: Page) -> None:
    """`kdissect errors`."""
    rows = by_name(page.rows("errors", by=["error"]), "error")
    assert {row.name: (row.code, row.count, row.first_packet) for row in page.summary.errors} == {
        name: (page.summary_code(name), row["errors"], row["first_packet"])
        for name, row in rows.items()
    }


def network(page: Page) -> None:
    """`kdissect health --by capture`."""
    rows = page.rows("health", by=["capture"])
    found = page.summary.network
    names = ("retransmitted_segments", "lost_bytes", "zero_windows", "zero_window_ns")
    assert sums(rows, *names, "missing_bytes") == [
        found.retransmitted_segments, found.network_lost_bytes, found.zero_windows,
        found.zero_window_ns, found.missing_bytes,
    ]  # fmt: skip
    if len(rows) == 1:
        assert found.round_trip.p50_ns == rows[0]["rtt_p50_ns"]


def connections(page: Page) -> None:
    """`kdissect health --by connection`."""
    rows = by_name(page.rows("health", by=["connection"]), "connection")
    for one in page.summary.troubled:
        row = rows[one.connection_id]
        assert sums([row], "retransmitted_segments", "missing_bytes", "zero_windows") == [
            one.retransmitted_segments, one.missing_bytes, one.zero_windows
        ]  # fmt: skip
        assert one.round_trip_ns == row["rtt_p50_ns"]


def problems(page: Page) -> None:
    """`kdissect table problems`."""
    rows = page.table("problems")
    assert sum(row.count for row in page.summary.problems) == len(rows)
    for row in page.summary.problems:
        same = [one for one in rows if (one["stage"], one["kind"]) == (row.stage, row.kind)]
        assert (row.count, row.bytes) == (len(same), sum(one["bytes"] or 0 for one in same))


CHECKS = (apis, totals, clients, topics, errors, network, connections, problems)


def test_a_comparison_has_the_percentiles_of_latency(tmp_path: Path) -> None:
    """Each side's p50 and p99 of `compare` are those of `latency` with the side's condition."""
    kdissect.write("captures/quickstart.pcapng", tmp_path / "tables")
    tables, halves = tmp_path / "tables", ("request_packet % 4 < 2", "request_packet % 4 >= 2")
    found = kdissect.compare(tables, before=halves[0], after=halves[1], unchanged=True)
    sides = [
        by_name(kdissect.analyse("latency", tables, where=half).to_arrow().to_pylist(), "api")
        for half in halves
    ]
    compared = 0
    for row in found.to_arrow().to_pylist():
        if row["measure"] != "latency" or row["what"] not in ("p50", "p99"):
            continue
        for side, name in zip(sides, ("before", "after"), strict=True):
            if row["api"] in side and row[name] is not None:
                assert abs(side[row["api"]][f"{row['what']}_ns"] - row[name]) <= 1, row
                compared += 1
    assert compared >= 10


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["quickstart", "retries-4.3.1", "cluster-2.4.1", "sasl-2.8.2"])
def test_top_has_the_requests_and_times_of_latency(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts and the longest are equal; percentiles of one exchange within the 0.4 % of `top`."""
    path = f"captures/{name}.pcapng"
    assert run(["top", path, "--once", "--json", "--window", "24h"]) == 0
    shown = json.loads(capsys.readouterr().out)
    rows = by_name(kdissect.analyse("latency", path).to_arrow().to_pylist(), "api")
    assert {row["name"] for row in shown["apis"]} == rows.keys()
    for row in shown["apis"]:
        command = rows[row["name"]]
        assert round(row["rate"] * shown["window_s"]) == command["requests"], row
        assert row["max_ns"] == (command["max_ns"] if command["exchanges"] else -1), row
        if command["exchanges"] == 1:
            assert row["p50_ns"] == pytest.approx(command["p50_ns"], rel=0.004), row
            assert row["p99_ns"] == pytest.approx(command["p99_ns"], rel=0.004), row
