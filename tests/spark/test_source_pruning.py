"""What the data source does not read, by filters: the rows are those of all captures, filtered."""

import ast
import operator
import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kdissect.capture.pcap import NANOSECONDS
from kdissect.checkpoint import run_choice
from kdissect.checkpoint.jobs_run import JobsRun
from kdissect.errors import KdissectError
from kdissect.spark import source
from kdissect.spark.source import KdissectDataSource, KdissectReader
from kdissect.spark.source_pruning import TIMES
from tests.capture.writers import make_pcap
from tests.seeds import SEED
from tests.spark.rotated import CAPTURES, library_rows, packets_of, rotate, spark_rows

GROUPS = "groups-4.3.1.pcapng"
SASL = "sasl-4.3.1.pcapng"
MANY = "cluster-3.9.1.pcapng"
HOUR_NS = 3600 * 1_000_000_000
COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    GreaterThan: operator.gt, GreaterThanOrEqual: operator.ge, LessThan: operator.lt,
    LessThanOrEqual: operator.le, EqualTo: operator.eq,
}  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(
    place: Path, table: str, filters: Sequence[Filter] = (), **options: str
) -> list[dict[str, Any]]:
    """Rows of all taps, with their days and taps; filters are pushed as Spark does it."""
    given = KdissectDataSource({"table": table, "path": str(place), **options})
    extra = [("tap", "string"), *([("day", "date")] if table in TIMES else [])]
    schema = given.schema()
    for name, kind in extra:
        schema = schema.add(name, kind)
    reader = given.reader(schema)
    # What Spark compares before it refuses a reader in a session without filter pushdown.
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
    assert list(reader.pushFilters(list(filters))) == []
    rows = [
        row
        for one in reader.partitions()
        for batch in reader.read(one)
        for row in batch.to_pylist()
    ]
    return sorted(rows, key=str)


def holds(row: dict[str, Any], one: Any) -> bool:
    value = row[one.attribute[0]]
    if value is None:
        return False
    return value in one.value if isinstance(one, In) else COMPARISONS[type(one)](value, one.value)


def in_hours(capture: str, directory: Path, hours: Sequence[int]) -> list[str]:
    """A tap of several captures, each some hours after the recording, at the same place in it."""
    packets = packets_of(CAPTURES / capture)
    directory.mkdir(parents=True)
    paths = []
    for number, hour in enumerate(hours):
        moved = [one._replace(time_ns=one.time_ns + hour * HOUR_NS) for one in packets]
        path = directory / f"ring.pcap{number}"
        path.write_bytes(make_pcap(moved, magic=NANOSECONDS, link_type=1))
        paths.append(str(path))
    return paths


@pytest.fixture
def dissected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the captures that are dissected."""
    paths: list[str] = []
    make_run = source.make_run

    def noted(sources: list[str], options: Any) -> Any:
        paths.extend(str(Path(path).relative_to(Path(path).parents[1])) for path in sources)
        return make_run(sources, options)

    monkeypatch.setattr(source, "make_run", noted)
    return paths


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize("number", range(20))
def test_drawn_filters_give_the_rows_of_all_captures_that_pass(
    number: int, tmp_path: Path, dissected: list[str]
) -> None:
    chance = random.Random(f"{SEED} {number}")
    in_hours(chance.choice((GROUPS, SASL)), tmp_path / "one", [0, 1, 30])
    in_hours(chance.choice((GROUPS, SASL)), tmp_path / "two", [100, 130])
    table = chance.choice([*TIMES])
    every = rows_of(tmp_path / "*", table)
    columns = [*TIMES[table], *(f"{name}_ns" for name in TIMES[table]), "day", "tap"]
    for _ in range(5):
        filters = [filter_of(chance, every, columns) for _ in range(chance.randint(1, 2))]
        expected = [row for row in every if all(holds(row, one) for one in filters)]
        assert rows_of(tmp_path / "*", table, filters) == expected, filters
    dissected.clear()
    assert rows_of(tmp_path / "*", table, [EqualTo(("day",), date(2001, 2, 3))]) == []
    assert dissected == []


def filter_of(chance: random.Random, rows: Sequence[dict[str, Any]], columns: list[str]) -> Filter:
    column = chance.choice(columns)
    values = [row[column] for row in rows if row[column] is not None] or [value_of(column)]
    kind = chance.choice((*COMPARISONS, In))
    value = chance.choice(values)
    if type(value) is int:
        value += chance.choice((-1, 0, 1, HOUR_NS, -9 * HOUR_NS))
    elif isinstance(value, datetime):
        value += timedelta(hours=chance.choice((0, 0, 1, -40)))
    elif isinstance(value, date):
        value += timedelta(days=chance.choice((0, 0, 1, -3)))
    return In((column,), (value,)) if kind is In else kind((column,), value)


def value_of(column: str) -> Any:
    """A value of the column's type, as Spark pushes no other: for tables without rows."""
    if column.endswith("_ns"):
        return 0
    return {"day": EPOCH.date(), "tap": "one-ring"}.get(column, EPOCH)


def test_taps_without_a_packet_in_the_time_are_not_dissected(
    tmp_path: Path, dissected: list[str]
) -> None:
    in_hours(SASL, tmp_path / "one", [0, 1])
    in_hours(SASL, tmp_path / "two", [100, 130])
    every = rows_of(tmp_path / "*", "exchanges")
    late = max(row["request_start"] for row in every) - timedelta(hours=20)
    dissected.clear()
    found = rows_of(tmp_path / "*", "exchanges", [GreaterThan(("request_start",), late)])
    assert dissected == ["two/ring.pcap0", "two/ring.pcap1"]  # connections may continue
    assert found == [row for row in every if row["request_start"] > late]
    assert found
    dissected.clear()
    rows_of(tmp_path / "*", "exchanges", [EqualTo(("tap",), "one-ring")])
    assert dissected == ["one/ring.pcap0", "one/ring.pcap1"]
    # Timestamps of records are those of producers.
    dissected.clear()
    assert rows_of(tmp_path / "*", "records", [GreaterThan(("time",), late)]) == []
    assert len(dissected) == 4


def test_context_reads_the_captures_around_the_time_alone(
    tmp_path: Path, dissected: list[str]
) -> None:
    paths = in_hours(SASL, tmp_path / "one", [0, 10, 20, 30])
    every = rows_of(tmp_path / "*", "exchanges")
    dissected.clear()
    first = min(row["request_start"] for row in every)
    begin, end = first + timedelta(hours=5), first + timedelta(hours=15)
    second = [GreaterThan(("request_start",), begin), LessThan(("request_start",), end)]
    found = rows_of(tmp_path / "*", "exchanges", second, context="3600")
    assert dissected == ["one/ring.pcap1"]
    own = library_rows(paths[1:2], tables=("exchanges",))["exchanges"]
    expected = [row for row in every if all(holds(row, one) for one in second)]
    assert sorted(row["request_start_ns"] for row in found) == sorted(
        row["request_start_ns"] for row in expected
    )
    assert sorted(row["exchange_id"] for row in found) == sorted(
        ast.literal_eval(row)["exchange_id"] for row in own
    )
    dissected.clear()
    rows_of(tmp_path / "*", "exchanges", second, context="36000")
    assert dissected == ["one/ring.pcap0", "one/ring.pcap1", "one/ring.pcap2"]
    with pytest.raises(KdissectError, match="context is in seconds, not 'a day'"):
        rows_of(tmp_path / "*", "exchanges", second, context="a day")


def test_day_is_that_of_the_first_packet_of_a_row(tmp_path: Path) -> None:
    in_hours(GROUPS, tmp_path / "one", [0, 24])
    for table in TIMES:
        for row in rows_of(tmp_path / "*", table):
            since = row[TIMES[table][0] + "_ns"]
            day = None if since is None else (EPOCH + timedelta(seconds=since // 10**9)).date()
            assert row["day"] == day
    given = KdissectDataSource({"table": "records", "path": str(tmp_path)})
    with pytest.raises(KdissectError, match="no column 'day' in records"):
        given.reader(given.schema().add("day", "date"))


@pytest.mark.slow
@pytest.mark.parametrize("table", ["exchanges", "partitions", "problems"])
def test_processes_of_a_task_give_the_rows_of_one(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate(MANY, tmp_path / "ring", 3, seed=24)
    monkeypatch.setattr(run_choice, "is_worthwhile", lambda *_: True)
    monkeypatch.setattr(run_choice, "split_sizes", lambda total, *_: [total // 5] * 5)
    runs: list[type] = []
    shared = run_choice.shared_run
    monkeypatch.setattr(
        run_choice, "shared_run", lambda *given: runs.append(type(run := shared(*given))) or run
    )
    given = KdissectDataSource({"table": table, "path": str(tmp_path / "ring"), "jobs": "3"})
    reader = given.reader(given.schema())
    (only,) = reader.partitions()
    assert spark_rows(table, reader.read(only)) == library_rows(paths, tables=(table,)).get(
        table, []
    )
    assert runs == [JobsRun]


def test_a_task_has_as_many_processes_as_spark_gives_it_processors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Given:
        def cpus(self) -> int:
            return 4

    def jobs(**options: str) -> int:
        given = KdissectDataSource({"path": str(tmp_path), **options})
        reader = given.reader(given.schema())
        assert isinstance(reader, KdissectReader)
        return reader.made_options().jobs

    assert jobs() == 1
    monkeypatch.setattr(source.TaskContext, "get", Given)
    assert (jobs(), jobs(jobs="2")) == (4, 2)
