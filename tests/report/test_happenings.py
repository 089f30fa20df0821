"""Partitions, rebalances, failovers and lag of a page are those of the tables and analyses."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.report.axis import MS
from kdissect.report.lag import GROUPS, Lag
from kdissect.report.writing import make_report
from tests.report.pages import QUICKSTART
from tests.report.test_numbers import CAPTURES, data_of
from tests.seeds import SEED

Row = dict[str, Any]
# Captures with rebalances, failovers and lag.
EVENTFUL = [
    path
    for path in CAPTURES
    if path.stem.startswith(("quickstart", "cluster", "groups", "incident", "streams"))
]


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", EVENTFUL, ids=lambda path: path.name)
def test_bands_and_lag_are_those_of_the_analyses(path: Path) -> None:
    data = data_of(make_report(path, asks_all=True).html)
    axis = data["time"]
    rebalances = answer("rebalances", path)
    check_bands([(row["start"], row["end"]) for row in rebalances], "rebalance", data)
    failovers = answer("failovers", path)
    lasted = [
        (row["started"], row["started"] + (row["blackout_ns"] or row["failing_ns"] or 0))
        for row in failovers
    ]
    check_bands(lasted, "failover", data)
    check_rows(rebalances, table_of(data, "rebalances"), "group_id", "cause", "request_packet")
    check_rows(failovers, table_of(data, "failovers"), "topic", "partition", "blackout_ns")
    check_lag(answer("lag", path, window=axis["width_ms"] * MS), data)


def answer(question: str, path: Path, **options: Any) -> list[Row]:
    """The rows, with times in ns as the evidence has them: whole microseconds."""
    table = kdissect.analyse(question, path, **options).to_arrow()
    rows: list[Row] = [{} for _ in range(table.num_rows)]
    for name in table.column_names:
        column = table[name]
        is_time = str(column.type).startswith("timestamp")
        for row, value in zip(rows, column.cast("int64") if is_time else column, strict=True):
            plain = value.as_py()
            row[name] = plain if plain is None or not is_time else (plain + 500) // 1000 * 1000
    return rows


def table_of(data: Row, name: str) -> list[Row]:
    (table,) = (one for one in data["tables"] if one["name"] == name)
    paths = [column["path"] for column in table["columns"]]
    return [dict(zip(paths, row, strict=True)) for row in table["rows"]]


def check_bands(times: list[tuple[int, int | None]], kind: str, data: Row) -> None:
    """Each bin is in a band when something lasts in it; a band counts what begins in it."""
    start, width = data["time"]["start_ms"] * MS, data["time"]["width_ms"] * MS
    most = data["time"]["count"] - 1
    places = [
        [min(max((time - start) // width, 0), most) for time in (first, last or first)]
        for first, last in times
    ]
    lasting = {bin_ for first, last in places for bin_ in range(first, last + 1)}
    begun = Counter(first for first, _ in places)
    drawn = set()
    for band in (one for one in data["bands"] if one["kind"] == kind):
        bins = range((band["from_ms"] * MS - start) // width, (band["to_ms"] * MS - start) // width)
        assert band["count"] == sum(begun[bin_] for bin_ in bins)
        assert not drawn & set(bins)
        drawn |= set(bins)
    assert drawn == lasting


def check_rows(expected: list[Row], shown: list[Row], *names: str) -> None:
    key = [tuple(row[name] for name in names) for row in expected]
    assert Counter(key) == Counter(tuple(row[name] for name in names) for row in shown)


def check_lag(rows: list[Row], data: Row) -> None:
    """The sum over partitions of the last lag of each, at each bin."""
    start, width, count = (data["time"][name] for name in ("start_ms", "width_ms", "count"))
    groups = {row["group_id"] for row in rows if row["lag"] is not None}
    expected = {}
    for group in groups:
        own = sorted(
            (row for row in rows if row["group_id"] == group), key=lambda row: row["window"]
        )
        last: dict[tuple[str, int], int] = {}
        values: list[int | None] = [None] * count
        for bin_ in range(count):
            for row in own:
                if (row["window"] // MS - start) // width == bin_ and row["lag"] is not None:
                    last[row["topic"], row["partition"]] = row["lag"]
            values[bin_] = sum(last.values()) if last else None
        expected[group] = values
    drawn = {one["name"]: one["values"] for one in data["lag"]}
    known = {name: values for name, values in drawn.items() if any(v is not None for v in values)}
    assert len(known) == min(len(groups), GROUPS)
    assert known.items() <= expected.items()
    at_end = {row["group"]: row["lag"] for row in table_of(data, "groups")}
    ends = {name: values[-1] for name, values in expected.items() if values[-1] is not None}
    assert {name: lag for name, lag in at_end.items() if lag is not None} == ends


def test_lag_is_the_same_with_few_exchanges_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose exchange was let go are joined in a second pass over the exchanges."""
    path = EVENTFUL[SEED % len(EVENTFUL)]
    whole = data_of(make_report(path).html)["lag"]
    monkeypatch.setattr("kdissect.report.lag.HELD", 0)
    monkeypatch.setattr(Lag, "_found", late_first(Lag._found))
    assert data_of(make_report(path).html)["lag"] == whole


def late_first(found: Any) -> Any:
    """Joins nothing with an exchange that is seen for the first time."""
    seen: set[int] = set()

    def join(self: Lag, rows: Any, known: Any) -> Any:
        if not len(known.ids) or int(known.ids[0]) in seen:
            return found(self, rows, known)
        seen.add(int(known.ids[0]))
        return rows

    return join


def test_lag_in_too_many_cells_has_wider_bins_and_ends_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = data_of(make_report(QUICKSTART).html)
    monkeypatch.setattr("kdissect.report.lag.MOST_CELLS", 20)
    few = data_of(make_report(QUICKSTART).html)
    assert any("lag is drawn in steps of" in text for text in few["folded"])
    fine = {one["name"]: one["values"] for one in whole["lag"]}
    coarse = {one["name"]: one["values"] for one in few["lag"]}
    assert coarse.keys() == fine.keys() != set()
    for name, values in coarse.items():
        assert values[-1] == fine[name][-1]
        assert set(values) <= set(fine[name])


def test_lag_of_too_many_partitions_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.report.lag.MOST_PLACES", 1)
    monkeypatch.setattr("kdissect.report.build.MOST_PLACES", 1)
    folded = data_of(make_report(QUICKSTART).html)["folded"]
    assert "lag is of the first 1 partitions of groups only" in folded


def test_partitions_are_those_of_the_tables() -> None:
    path = CAPTURES[SEED % len(CAPTURES)]
    data = data_of(make_report(path).html)
    consuming = "('Fetch', 'MultiFetch', 'ShareFetch')"
    asked = f"""
        select coalesce(p.topic, '<' || p.topic_id || '>') as topic, partition, count(*),
          sum(if(is_fetched, 0, record_bytes)), sum(if(is_fetched, 0, record_count)),
          sum(if(is_fetched, record_bytes, 0)), sum(if(is_fetched, record_count, 0)),
          count(*) filter (p.error_code <> 0)
        from (select partitions.*,
            fetch_offset is not null or coalesce(api, '') in {consuming} as is_fetched
            from partitions left join exchanges using (exchange_id)) as p
        where partition is not null group by 1, 2"""  # noqa: S608
    import duckdb

    with duckdb.connect() as base:
        for table in ("exchanges", "partitions"):
            base.register(table, kdissect.read(path, table=table).to_arrow())
        expected = {
            (*row[:3], *(value or 0 for value in row[3:])) for row in base.execute(asked).fetchall()
        }
    shown = {tuple(row.values()) for row in table_of(data, "partitions")}
    assert shown == expected
