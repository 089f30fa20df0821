"""Tables of a dataset, read by other engines and without kdissect."""

import datetime as dt
import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

import kdissect
from kdissect.dataset.delta_actions import statistics_of
from kdissect.spark.pipeline import dissect
from kdissect.system.extras import MissingExtra
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES
from tests.seeds import SEED
from tests.spark.rotated import CAPTURES, dataset_rows, library_rows, rotate, spark_rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two taps, one of them by two runs, the second of which replaces files; a broken capture."""
    place = tmp_path_factory.mktemp("delta")
    paths = rotate("groups-4.3.1.pcapng", place / "ring", 2, seed=3)
    for number, path in enumerate(paths):
        Path(path).rename(place / f"rack 1-one.pcap{number}")
    broken = place / "broken.pcap"
    broken.write_bytes(b"no capture")
    pattern = r"(?P<tap>rack 1-one|retries|broken)"
    one = str(place / "rack 1-one.pcap*")
    dissect(None, [one.replace("*", "0"), CAPTURES / "retries-4.3.1.pcapng"], place / "dataset",
            tap=pattern)  # fmt: skip
    dissect(None, [one, broken], place / "dataset", tap=pattern)
    return place / "dataset"


def arrow_rows(dataset: Path, table: str) -> pa.Table:
    return DeltaTable(dataset / table).to_pyarrow_table()


@pytest.mark.parametrize("table", DEFAULT_TABLES)
def test_each_table_has_the_rows_of_the_dataset(table: str, made: Path) -> None:
    rows = arrow_rows(made, table)
    assert spark_rows(table, [rows]) == dataset_rows(made).get(table, [])
    # Replaced files are on disk, and count no more.
    if table == "connections":
        there = made.glob("connections/date=*/tap=*/*.parquet")
        assert len([*there]) > len(DeltaTable(made / table).file_uris())


def test_day_and_tap_are_columns(made: Path) -> None:
    rows = arrow_rows(made, "exchanges")
    assert {*rows["tap"].to_pylist()} == {"rack 1-one", "retries"}
    assert rows.schema.field("date").type == pa.date32()
    (problem,) = arrow_rows(made, "problems").filter(pc.field("date").is_null()).to_pylist()
    assert (problem["kind"], problem["tap"]) == ("unreadable-capture", "broken")


def test_the_version_before_is_still_there(made: Path) -> None:
    """Time travel."""
    first = DeltaTable(made / "exchanges", version=0)
    assert 0 < first.to_pyarrow_table().num_rows < arrow_rows(made, "exchanges").num_rows


def test_columns_have_comments_and_units(made: Path) -> None:
    for table in DEFAULT_TABLES:
        opened = DeltaTable(made / table)
        assert (opened.metadata().name, opened.metadata().partition_columns) == (
            table,
            ["date", "tap"],
        )
        assert opened.metadata().description == f"A row is {TABLES[table].row}."
        fields = {field.name: field for field in opened.schema().fields}
        for column in TABLES[table].columns:
            assert fields[column.name].metadata["comment"] == column.meaning
        assert all(field.metadata["comment"] for field in fields.values())
    units = {field.name: field.metadata.get("unit") for field in
             DeltaTable(made / "exchanges").schema().fields}  # fmt: skip
    assert (units["latency_ns"], units["request_start"], units["request_start_ns"]) == (
        "ns", "us", "ns"
    )  # fmt: skip


def test_bounds_of_ids_and_times_are_those_of_the_rows(made: Path) -> None:
    for file in made.glob("exchanges/date=*/tap=*/*.parquet"):
        rows = parquet.ParquetFile(file).read()
        told = json.loads(statistics_of(parquet.read_metadata(file)))
        assert told["numRecords"] == rows.num_rows
        assert {"connection_id", "exchange_id", "request_start"} <= told["minValues"].keys()
        for name in told["minValues"]:
            bounds = pc.min_max(rows[name]).as_py()
            assert [read(told[kind][name]) for kind in ("minValues", "maxValues")] == [
                bounds["min"],
                bounds["max"],
            ]
            assert told["nullCount"][name] == rows[name].null_count


def read(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return dt.datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=dt.UTC)


def test_files_are_pruned_by_time_and_no_row_is_missing(made: Path) -> None:
    rows = arrow_rows(made, "exchanges").sort_by("exchange_id")
    times = sorted(one for one in rows["request_start"].to_pylist() if one is not None)
    dataset = DeltaTable(made / "exchanges").to_pyarrow_dataset()
    for at in (times[0], times[len(times) // 2], times[-1]):
        chosen = (pc.field("request_start") >= at) & (pc.field("request_start") <= at)
        found = dataset.to_table(filter=chosen).sort_by("exchange_id")
        assert found.equals(rows.filter(chosen).select(found.schema.names))
        fragments = [*dataset.get_fragments(filter=chosen)]
        assert 0 < len(fragments) <= len([*dataset.get_fragments()])
    outside = pc.field("request_start") > times[-1]
    assert [*dataset.get_fragments(filter=outside)] == []


QUESTION = """
    SELECT tap, api, count(*) AS exchanges, max(latency_ns) AS most FROM {} GROUP BY ALL
    ORDER BY ALL
"""


def test_duckdb_and_pandas_answer_a_question_in_three_lines(made: Path) -> None:
    exchanges = DeltaTable(made / "exchanges").to_pyarrow_dataset()
    found = duckdb.sql(QUESTION.format("exchanges")).to_arrow_table().to_pylist()
    frame = DeltaTable(made / "exchanges").to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert exchanges.count_rows() == len(frame)
    counted = frame.groupby(["tap", "api"], observed=True).size().to_dict()
    assert {(one["tap"], one["api"]): one["exchanges"] for one in found} == counted
    files = DeltaTable(made / "exchanges").file_uris()
    named = f"read_parquet({files}, hive_partitioning = true)"
    assert found == duckdb.sql(QUESTION.format(named)).to_arrow_table().to_pylist()


@pytest.mark.parametrize("left", ["", "_commit_1f3e.json.tmp", "00000000000000000000.json#1"])
@pytest.mark.parametrize("table", ["runs", "connections", "exchanges"])
def test_a_table_whose_first_version_was_not_written_is_made(
    table: str, left: str, tmp_path: Path
) -> None:
    """What a writer leaves that is killed in its first commit to a table."""
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    log = tmp_path / "dataset" / table / "_delta_log"
    log.mkdir(parents=True)
    if left:
        (log / left).write_bytes(b"{")
    for count in (1, 2):
        dissect(None, paths[:count], tmp_path / "dataset", tables=tuple(TABLES))
        assert dataset_rows(tmp_path / "dataset") == library_rows(paths[:count])


# A run that the kernel kills when one of its commits has written so many bytes of a log.
KILLED = """
import resource, signal, sys
from contextlib import contextmanager
from kdissect.dataset import delta_tables, runs_table
from kdissect.spark.pipeline import dissect
from kdissect.tables.schemas import TABLES

dataset, commits, size, *captures = sys.argv[1:]
left, before = int(commits), delta_tables.conflicts

@contextmanager
def limited():
    global left
    left -= 1
    if not left:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
    with before():
        yield

delta_tables.conflicts = runs_table.conflicts = limited
dissect(None, captures, dataset, tables=tuple(TABLES))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_a_run_that_is_killed_while_it_writes_a_log_is_completed(
    number: int, tmp_path: Path
) -> None:
    """What is left then is the writer's, not what this test thinks of."""
    chance = random.Random(f"{SEED} {number}")
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    dataset = tmp_path / "dataset"
    was_killed = []
    for count in (1, 2):
        commits, size = chance.randint(1, 10), chance.choice((0, 1, chance.randint(2, 700)))
        told = [str(dataset), str(commits), str(size), *paths[:count]]
        run = subprocess.run([sys.executable, "-c", KILLED, *told], check=False, timeout=60)
        was_killed.append(run.returncode == -signal.SIGXFSZ)
        assert run.returncode in (0, -signal.SIGXFSZ)
        dissect(None, paths[:count], dataset, tables=tuple(TABLES))
        assert dataset_rows(dataset) == library_rows(paths[:count]), (commits, size)
    assert any(was_killed)


def test_what_was_opened_before_a_run_is_read_to_its_end(tmp_path: Path) -> None:
    """Snapshot isolation: the run replaces files that the reader has in its plan."""
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    dissect(None, paths[:1], tmp_path / "dataset")
    before = DeltaTable(tmp_path / "dataset" / "connections").to_pyarrow_dataset()
    dissect(None, paths, tmp_path / "dataset")
    expected = library_rows(paths[:1])["connections"]
    assert spark_rows("connections", [before.to_table()]) == expected
    assert dataset_rows(tmp_path / "dataset")["connections"] != expected


def test_only_datasets_need_the_extra(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    needed = r'^a dataset needs the extra "datasets": pip install'
    for use in (
        lambda: kdissect.analyse("latency", made),
        lambda: dissect(None, [CAPTURES / "quickstart.pcapng"], tmp_path / "new"),
    ):
        with pytest.raises(MissingExtra, match=needed):
            use()
    assert not (tmp_path / "new").exists()
    kdissect.write(CAPTURES / "quickstart.pcapng", tmp_path / "tables")
    assert kdissect.analyse("latency", tmp_path / "tables").to_arrow().num_rows
