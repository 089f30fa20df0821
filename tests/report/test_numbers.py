"""Numbers of a page are those of the tables, asked of DuckDB."""

import bisect
import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import kdissect
from kdissect.report.axis import MS, latency_bins
from kdissect.report.heat import PARTS
from kdissect.report.writing import make_report
from tests.seeds import SEED

CAPTURES = sorted(Path(__file__).parents[2].glob("captures/*.pcapng"))
DATA = re.compile(rb'<script type="application/json" id="data">(.*?)</script>', re.S)


def data_of(html: bytes) -> dict[str, Any]:
    found = DATA.search(html)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_time_heat_and_pairs_are_those_of_the_tables(path: Path) -> None:
    html = make_report(path).html
    assert len(html) < 2_000_000
    data = data_of(html)
    exchanges = kdissect.read(path).to_arrow()
    connections = kdissect.read(path, table="connections").to_arrow()
    with duckdb.connect() as base:
        base.register("exchanges", exchanges)
        base.register("connections", connections)
        check_time(base, data["time"])
        check_percentiles(base, data["time"])
        check_heat(base, data["heat"])
        check_pairs(base, data)
        check_evidence(base, data)


def check_time(base: Any, time: dict[str, Any]) -> None:
    asked = """
        select (epoch_ns(coalesce(request_start, request_end, response_start, response_end)) // $w)
            - $s // $w as bin,
          count(*), count(*) filter (coalesce(error_code, 0) <> 0 or coalesce(error_count, 0) > 0),
          sum(coalesce(request_size, 0)), sum(coalesce(response_size, 0)),
          sum(coalesce(missing_bytes, 0))
        from exchanges group by 1"""
    given = {"w": time["width_ms"] * MS, "s": time["start_ms"] * MS}
    rows = {row[0]: row[1:] for row in base.execute(asked, given).fetchall()}
    names = ("exchanges", "errors", "request_bytes", "response_bytes", "missing_bytes")
    for bin_ in range(time["count"]):
        assert tuple(time[name][bin_] for name in names) == tuple(rows.get(bin_, (0,) * 5))


def check_percentiles(base: Any, time: dict[str, Any]) -> None:
    asked = """
        select (epoch_ns(request_start) // $w) - $s // $w,
          quantile_cont(latency_ns, [0.5, 0.95, 0.99, 1.0])
        from exchanges where outcome = 'answered' and latency_ns is not null group by 1"""
    given = {"w": time["width_ms"] * MS, "s": time["start_ms"] * MS}
    rows = dict(base.execute(asked, given).fetchall())
    for bin_ in range(time["count"]):
        shown = [time[name][bin_] for name in ("p50_ns", "p95_ns", "p99_ns", "max_ns")]
        assert shown == pytest.approx(rows.get(bin_, [None] * 4), abs=1)


def check_heat(base: Any, heat: dict[str, Any]) -> None:
    """The sum over all latency bins of each part, for every map of a name and for all."""
    columns = {"all": "'(others)'", "api": "api", "client": "coalesce(client_id, '')"}
    maps = {(one["by"], one["name"]): one["cells"] for one in heat["maps"]}
    for (by, name), cells in maps.items():
        if by not in columns or (name == "(others)" and by != "all"):
            continue
        for part, column in PARTS.items():
            least = 0 if part == "latency" else 1
            asked = (
                f"select {column} from exchanges where outcome = 'answered' and {columns[by]} = ?"  # noqa: S608
                f" and latency_ns is not null and {column} >= {least}"
            )
            values = [row[0] for row in base.execute(asked, [name]).fetchall()]
            flat = cells.get(part, [])
            assert sum(flat[2::3]) == len(values), (by, name, part)
            counts = [0] * (len(BOUNDS) + 1)
            for bin_, many in zip(flat[1::3], flat[2::3], strict=True):
                counts[bin_] += many
            assert counts == binned(values)


# Where each bin but the first begins in ns: eight a decade from 1 µs, which are 33 % wide.
BOUNDS = [math.ceil(Decimal(1_000) * Decimal(10) ** (Decimal(n) / 8)) for n in range(1, 72)]


def binned(values: list[int]) -> list[int]:
    counts = [0] * (len(BOUNDS) + 1)
    for value in values:
        counts[bisect.bisect_right(BOUNDS, value)] += 1
    return counts


def test_bins_begin_at_their_bounds() -> None:
    ends = [bound - 1 for bound in BOUNDS]
    assert latency_bins(np.array(BOUNDS)).tolist() == list(range(1, len(BOUNDS) + 1))
    assert latency_bins(np.array(ends)).tolist() == list(range(len(BOUNDS)))


def check_pairs(base: Any, data: dict[str, Any]) -> None:
    asked = """
        select coalesce(client_id, ''), broker_ip || ':' || broker_port, count(*),
          count(*) filter (coalesce(error_code, 0) <> 0 or coalesce(error_count, 0) > 0),
          sum(coalesce(request_size, 0) + coalesce(response_size, 0)),
          max(latency_ns) filter (outcome = 'answered')
        from exchanges join connections using (connection_id) group by 1, 2"""
    (table,) = (one for one in data["tables"] if one["name"] == "clients_brokers")
    shown = {tuple(row[:5]) + (row[7],) for row in table["rows"]}
    assert shown == set(base.execute(asked).fetchall())
    of_groups = """
        select group_id, count(*),
          count(*) filter (coalesce(error_code, 0) <> 0 or coalesce(error_count, 0) > 0),
          sum(coalesce(request_size, 0) + coalesce(response_size, 0)),
          quantile_cont(latency_ns, [0.5, 0.99, 1.0]) filter (outcome = 'answered')
        from exchanges where coalesce(group_id, '') <> '' group by 1"""
    (table,) = (one for one in data["tables"] if one["name"] == "groups")
    expected = {row[0]: row[1:] for row in base.execute(of_groups).fetchall()}
    assert {row[0] for row in table["rows"]} == expected.keys()
    for name, *counts, p50, p99, longest, _ in table["rows"]:
        *others, times = expected[name]
        assert counts == others
        assert [p50, p99, longest] == pytest.approx(times or [None] * 3, abs=1)


def check_evidence(base: Any, data: dict[str, Any]) -> None:
    """Exchanges behind a finding are rows of the tables, and the finding's packet is the first."""
    packets = set(base.execute("select request_packet, response_packet from exchanges").fetchall())
    for finding, evidence in zip(data["findings"], data["evidence"], strict=True):
        rows = [(row["request_packet"], row["response_packet"]) for row in evidence["rows"]]
        assert packets.issuperset(rows)
        packet = finding["packet"]
        named = [row for row in rows if packet is not None and packet in row]
        assert not named or rows[0] in named


@pytest.mark.slow
def test_rows_that_were_kept_in_files_give_the_same_page(monkeypatch: pytest.MonkeyPatch) -> None:
    path = CAPTURES[SEED % len(CAPTURES)]
    whole = data_of(make_report(path).html)
    from kdissect.tables import spilled_tables

    class Small(spilled_tables.KeptTables):
        def __init__(self, columns: Any, limit: int = 0, streamed_rows: int = 0) -> None:
            super().__init__(columns, limit=2_000, streamed_rows=0)

    monkeypatch.setattr("kdissect.api.summary_pass.KeptTables", Small)
    assert data_of(make_report(path).html) == whole
