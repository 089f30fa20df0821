"""Compaction and deletion: the rows that stay are all there, and what was deleted is in no byte."""

import json
import random
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

import kdissect
from kdissect.api.querying import query
from kdissect.cli.program import run
from kdissect.dataset import runs
from kdissect.dataset.compaction import compact
from kdissect.dataset.deletion import forget
from kdissect.dataset.maintenance import check, expire
from kdissect.dataset.retention import drop_days
from kdissect.dataset.runs import Dataset
from kdissect.errors import InvalidArgument, KdissectError, OutputError
from kdissect.spark.pipeline import dissect
from kdissect.tables.schemas import TABLES
from tests.cli.test_json_documents import VALIDATOR
from tests.dataset.test_runs import killed, unlocked
from tests.seeds import IS_EVERY_CASE, SEED
from tests.spark.rotated import (
    ALL,
    CAPTURES,
    Rows,
    contents_of,
    dataset_rows,
    library_rows,
    rotate,
    spark_rows,
)

SOME = ("connections", "exchanges", "members")


def made(place: Path, capture: str = "groups-4.3.1.pcapng", **options: Any) -> Path:
    """A dataset by four runs."""
    dataset = place / "dataset"
    for path in rotate(capture, place / "ring", 4, seed=3):
        dissect(None, [path], dataset, **options)
    return dataset


def final_files(dataset: Path) -> int:
    files = [file for tap in contents_of(dataset).taps for file in tap.files]
    return len([file for file in files if not file.is_open and not file.is_nameless])


def delta_rows(dataset: Path) -> Rows:
    """Rows as `deltalake` and Arrow read them, without kdissect."""
    tables = contents_of(dataset).options["tables"]
    found = {
        name: spark_rows(name, [DeltaTable(dataset / name).to_pyarrow_table()]) for name in tables
    }
    return {name: rows for name, rows in sorted(found.items()) if rows}


def duckdb_counts(dataset: Path) -> dict[str, int]:
    counts = {}
    for name in contents_of(dataset).options["tables"]:
        rows = DeltaTable(dataset / name).to_pyarrow_dataset()
        ((counts[name],),) = duckdb.sql("SELECT count(*) FROM rows").fetchall()
        assert rows is not None
    return counts


def test_small_files_become_few_with_the_same_rows(tmp_path: Path) -> None:
    dataset = made(tmp_path, tables=ALL)
    before, few, there = dataset_rows(dataset), final_files(dataset), check(dataset).files
    told = compact(dataset, dry_run=True)
    assert dataset_rows(dataset) == before
    assert (check(dataset).files, told.made < told.files <= few) == (there, True)
    assert compact(dataset) == told
    assert dataset_rows(dataset) == delta_rows(dataset) == before
    assert check(dataset).files == there - told.files + told.made
    assert check(dataset).wrong == ()
    tables = {file.table for file in contents_of(dataset).taps[0].files}
    assert final_files(dataset) == len(tables - {"problems"}) + ("problems" in before)
    assert compact(dataset) == compact(dataset, dry_run=True)
    assert (compact(dataset).files, dataset_rows(dataset)) == (0, before)
    paths = sorted(str(path) for path in (tmp_path / "ring").iterdir())
    more = rotate("groups-4.3.1.pcapng", tmp_path / "again", 5, seed=4)
    assert before == library_rows(paths)
    dissect(None, more, dataset, tables=ALL, tap="(ring|again)")
    assert expire(dataset).files == 0


def test_readers_of_the_version_before_go_on_and_the_target_is_kept(tmp_path: Path) -> None:
    dataset = made(tmp_path, tables=SOME)
    reader = DeltaTable(dataset / "exchanges")
    before = reader.to_pyarrow_table().num_rows
    size = max(file.size for tap in contents_of(dataset).taps for file in tap.files) * 2
    told = compact(dataset, size)
    assert told.made > 0
    assert reader.to_pyarrow_table().num_rows == before
    # Each file is of less than the target, so that a unit of one byte is one group.
    assert all(file.size < 2 * size for tap in contents_of(dataset).taps for file in tap.files)
    with pytest.raises(InvalidArgument, match="must be positive"):
        compact(dataset, 0)


def test_each_unit_is_a_run(tmp_path: Path) -> None:
    dataset = made(tmp_path, tables=SOME)
    rows, before = dataset_rows(dataset), contents_of(dataset).run
    told = compact(dataset, unit_size=1)
    assert contents_of(dataset).run == before + told.made
    assert dataset_rows(dataset) == rows


def test_a_run_waits_for_upkeep_and_upkeep_for_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset, tables=SOME)
    for is_upkeep in (True, False):
        other = Dataset(dataset, is_upkeep=is_upkeep)
        other.__enter__()
        later = threading.Timer(0.3, other.__exit__, (None, None, None))
        later.start()
        if is_upkeep:
            dissect(None, paths, dataset, tables=SOME)
        else:
            compact(dataset)
        later.join()
    assert dataset_rows(dataset) == library_rows(paths, tables=SOME)
    monkeypatch.setattr(runs, "WAIT_S", 0.1)
    with Dataset(dataset), pytest.raises(OutputError, match="another run writes"):
        compact(dataset)


def test_without_locks_a_run_goes_on_after_a_compaction_and_not_after_a_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in stores: the compaction is the first one to commit."""
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 5, seed=3)
    dataset = tmp_path / "dataset"
    for end in (1, 2, 3):
        dissect(None, paths[:end], dataset, tables=SOME)
    unlocked(monkeypatch)
    change = Dataset._change
    steps: list[Callable[[], Any]] = [lambda: compact(dataset)]

    def meanwhile(self: Dataset, *values: Any) -> Any:
        if not self.is_upkeep and steps:
            steps.pop()()
        return change(self, *values)

    monkeypatch.setattr(Dataset, "_change", meanwhile)
    assert dissect(None, paths[:4], dataset, tables=SOME).contents.run == 5
    assert steps == []
    assert dataset_rows(dataset) == library_rows(paths[:4], tables=SOME)
    client = next(
        one for one in clients_of(dataset) if forget(dataset, client=one, dry_run=True).taps
    )
    steps.append(lambda: forget(dataset, client=client))
    with pytest.raises(KdissectError, match=r"first to commit|rewritten or removed it"):
        dissect(None, paths, dataset, tables=SOME)


def clients_of(dataset: Path) -> list[str]:
    """Client ids, those with the most exchanges first."""
    rows = DeltaTable(dataset / "exchanges").to_pyarrow_dataset()
    found = duckdb.sql(
        "SELECT client_id FROM rows WHERE client_id <> '' GROUP BY ALL ORDER BY count(*) DESC, 1"
    ).fetchall()
    assert rows is not None
    return [one for (one,) in found]


def without(rows: Rows, client: str, principal: str) -> Rows:
    """Rows that are not of a client, or a principal: an independent definition, by sets."""
    parsed = {
        table: [(one, eval(one)) for one in found]  # noqa: S307  # reprs of our own rows
        for table, found in rows.items()
    }
    exchanges = [row for _, row in parsed.get("exchanges", [])]
    own = {row["exchange_id"] for row in exchanges if client and row["client_id"] == client}
    users: dict[Any, set[Any]] = {}
    for row in exchanges:
        users.setdefault(row["connection_id"], set()).add(row["client_id"])
    gone = {one for one, names in users.items() if client and names - {None} == {client}}
    if principal:
        gone = {
            row["connection_id"]
            for _, row in parsed["connections"]
            if row["sasl_user"] == principal
        }
    naming = {
        row["exchange_id"]
        for _, row in parsed.get("members", [])
        if client and row["client_id"] == client
    }
    left = {
        table: [
            text
            for text, row in found
            if row.get("connection_id") not in gone
            and row.get("exchange_id") not in own
            and not (table == "members" and client and row["client_id"] == client)
            and not (table == "bodies" and row["exchange_id"] in naming)
        ]
        for table, found in parsed.items()
    }
    return {table: found for table, found in left.items() if found}


def bytes_with(dataset: Path, name: str) -> list[str]:
    """Files with a name in their bytes, also those of Parquet, whose pages are compressed."""
    found = []
    for path in dataset.rglob("*"):
        if not path.is_file():
            continue
        if path.suffix == ".parquet":
            rows = duckdb.sql(f"FROM read_parquet('{path}', hive_partitioning = false)").fetchall()
            content = repr(rows).encode()
        else:
            content = path.read_bytes()
        if name.encode() in content:
            found.append(str(path.relative_to(dataset)))
    return found


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("capture", ["groups-4.3.1", "sasl-4.3.1", "admin-4.3.1", "basics-4.3.1"])
def test_a_client_is_forgotten_and_all_other_rows_are_there(capture: str, tmp_path: Path) -> None:
    dataset = made(tmp_path, f"{capture}.pcapng", tables=ALL)
    before = dataset_rows(dataset)
    client = random.Random(f"{SEED} {capture}").choice(clients_of(dataset))
    expected = without(before, client, "")
    told = forget(dataset, client=client, dry_run=True)
    assert dataset_rows(dataset) == before
    assert told.rows == sum(map(len, before.values())) - sum(map(len, expected.values())) > 0
    assert bytes_with(dataset, client)
    done = forget(dataset, client=client)
    assert done[:3] == told[:3]
    assert dataset_rows(dataset) == delta_rows(dataset) == expected
    assert sum(duckdb_counts(dataset).values()) == sum(map(len, expected.values()))
    assert check(dataset).wrong == ()
    assert forget(dataset, client=client) == (0, 0, 0, 0, 0)
    assert client not in clients_of(dataset)
    exact = f"'{client}'"
    assert bytes_with(dataset, exact) == []


@pytest.mark.slow
def test_a_principal_is_forgotten_and_the_tap_goes_on(tmp_path: Path) -> None:
    paths = rotate("sasl-4.3.1.pcapng", tmp_path / "ring", 4, seed=3)
    dataset = tmp_path / "dataset"
    for end in (1, 2, 3):
        dissect(None, paths[:end], dataset)
    before = dataset_rows(dataset)
    users = sorted({eval(one)["sasl_user"] for one in before["connections"]} - {None})  # noqa: S307
    for user in users:
        expected = without(before, "", user)
        assert forget(dataset, principal=user).rows > 0
        assert dataset_rows(dataset) == delta_rows(dataset) == expected
        assert bytes_with(dataset, f"'{user}'") == []
        before = expected
    # The tap goes on, with a state that has nothing of them.
    dissect(None, paths, dataset)
    (tap,) = contents_of(dataset).taps
    assert [one.path for one in tap.captures] == paths
    now = dataset_rows(dataset)
    assert {*expected["exchanges"]} < {*now["exchanges"]}
    assert check(dataset).wrong == ()


def test_states_with_the_client_are_gone_and_others_stay(tmp_path: Path) -> None:
    rings = []
    for name, capture in (("one", "groups-4.3.1"), ("two", "transactions-4.3.1")):
        rings.append(rotate(f"{capture}.pcapng", tmp_path / name, 2, seed=2)[0])
    dataset = tmp_path / "dataset"
    dissect(None, rings, dataset, tables=SOME, tap="/(one|two)/")
    states = {tap.name: tap.state for tap in contents_of(dataset).taps}
    client = next(one for one in clients_of(dataset) if bytes_in(dataset, states["one"], one))
    is_in_both = bytes_in(dataset, states["two"], client)
    assert forget(dataset, client=client).taps == 1 + is_in_both
    after = {tap.name: tap.state for tap in contents_of(dataset).taps}
    assert after == {"one": "", "two": "" if is_in_both else states["two"]}
    assert not (dataset / states["one"]).exists()
    assert bytes_with(dataset, client) == []


def bytes_in(dataset: Path, state: str, client: str) -> bool:
    return client.encode() in (dataset / state).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [True, False])
def test_a_deletion_that_is_killed_is_done_by_the_next_run(is_after: bool, tmp_path: Path) -> None:
    before, dataset = made(tmp_path, tables=SOME), tmp_path / "copy"
    old = dataset_rows(before)
    client = clients_of(before)[0]
    new = without(old, client, "")
    found = []
    stride = 1 if IS_EVERY_CASE else 3
    for step in count(random.Random(f"{SEED} {is_after}").randrange(stride), stride):
        shutil.rmtree(dataset, ignore_errors=True)
        shutil.copytree(before, dataset)
        with killed(step, is_after) as kill:
            forget(dataset, client=client)
        rows = dataset_rows(dataset)
        found.append("old" if rows == old else "new" if rows == new else "neither")
        Dataset(dataset).__enter__().__exit__(None, None, None)
        rows = dataset_rows(dataset)
        assert rows in (old, new)
        assert found[-1] == "old" or rows == new
        forget(dataset, client=client)
        assert dataset_rows(dataset) == delta_rows(dataset) == new
        assert bytes_with(dataset, f"'{client}'") == []
        if kill.left >= 0:
            break
    counts = found.count("old"), found.count("new")
    assert found == ["old"] * counts[0] + ["new"] * counts[1]
    assert min(counts) > 0


def test_tables_get_columns_that_were_declared_later(tmp_path: Path) -> None:
    """Schema evolution: in files from before it, a column is null, for every reader."""
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=3)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:2], dataset)
    outdate(dataset, "exchanges", ("latency_ns", "error"))
    counted = "SELECT count(*) AS n, count(latency_ns) AS known, count(error) AS errors FROM {}"
    asked = counted.format("exchanges")
    (old,) = query(dataset, asked).to_pylist()
    assert (old["n"] > 0, old["known"], old["errors"]) == (True, 0, 0)
    kdissect.findings(dataset)
    dissect(None, paths, dataset)
    opened = DeltaTable(dataset / "exchanges")
    fields = {field.name: field for field in opened.schema().fields}
    assert fields["latency_ns"].metadata["unit"] == "ns"
    (new,) = query(dataset, asked).to_pylist()
    assert new["n"] > old["n"]
    assert 0 < new["known"] <= new["n"] - old["n"] + 10
    rows = opened.to_pyarrow_dataset()
    assert rows.count_rows() == new["n"]
    (found,) = duckdb.sql(counted.format("rows")).to_arrow_table().to_pylist()
    assert found == new
    kdissect.findings(dataset)
    compact(dataset)
    assert query(dataset, asked).to_pylist() == [new]
    # Time travel: before the column was declared.
    first = DeltaTable(dataset / "exchanges", version=0)
    assert "latency_ns" not in {field.name for field in first.schema().fields}
    assert first.to_pyarrow_table().num_rows == old["n"]


def outdate(dataset: Path, table: str, columns: Sequence[str]) -> None:
    """As if these columns had not been declared when the dataset was written."""
    for path in (dataset / table).rglob("*.parquet"):
        rows = parquet.ParquetFile(path).read().drop_columns([*columns])
        parquet.write_table(rows, path)
    (log,) = (dataset / table / "_delta_log").glob("*.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for one in lines:
        if "metaData" in one:
            schema = json.loads(one["metaData"]["schemaString"])
            fields = [field for field in schema["fields"] if field["name"] not in columns]
            one["metaData"]["schemaString"] = json.dumps({**schema, "fields": fields})
        if "add" in one:
            one["add"]["size"] = (dataset / table / unquote(one["add"]["path"])).stat().st_size
    log.write_text("\n".join(json.dumps(one) for one in lines) + "\n")


def test_filters_of_other_engines_find_the_rows(tmp_path: Path) -> None:
    """Columns without bounds in the log; `deltalake` would take theirs as null."""
    dataset = made(tmp_path, tables=SOME)
    for table in SOME:
        rows = DeltaTable(dataset / table).to_pyarrow_dataset()
        everything = rows.to_table()
        for name in everything.schema.names:
            values = [one for one in everything[name].unique().to_pylist() if one is not None]
            filters = [pc.field(name).is_null(), *(pc.field(name) == one for one in values[:2])]
            for chosen in filters:
                assert rows.to_table(filter=chosen).num_rows == everything.filter(chosen).num_rows


def test_days_are_dropped_from_all_tables_and_the_tap_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=3)
    other = CAPTURES / "retries-4.3.1.pcapng"
    dataset = tmp_path / "dataset"
    dissect(None, [*paths[:2], str(other)], dataset, tables=SOME)
    days = sorted({file.date for tap in contents_of(dataset).taps for file in tap.files})
    first = date.fromisoformat(days[0])
    before = dataset_rows(dataset)
    assert drop_days(dataset, first) == (0, 0)
    after = first + timedelta(days=1)
    told = drop_days(dataset, after, dry_run=True)
    assert dataset_rows(dataset) == before
    words = ["dataset", "expire", str(dataset), "--rows-before", str(after)]
    assert run(words) == 0
    assert f"{told.rows} rows before {after} dropped" in capsys.readouterr().out.replace(
        "\u202f", ""
    )
    left = {file.date for tap in contents_of(dataset).taps for file in tap.files}
    assert left == {*days} - {days[0]}
    gone = sum(map(len, before.values())) - sum(map(len, dataset_rows(dataset).values()))
    assert gone == told.rows > 0
    assert delta_rows(dataset) == dataset_rows(dataset)
    # Captures that are known are not dissected again; later ones continue their tap.
    assert dissect(None, paths, dataset, tables=SOME).captures == 1
    assert check(dataset).wrong == ()
    assert run([*words[:-1], "yesterday"]) == 2
    assert "is no day" in capsys.readouterr().err


def test_what_is_to_be_forgotten_must_be_said_and_known(tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    dissect(None, [CAPTURES / "quickstart.pcapng"], dataset, tables=("partitions",))
    for values in ({}, {"client": "a", "principal": "b"}):
        with pytest.raises(InvalidArgument, match="either a client or a principal"):
            forget(dataset, **values)
    with pytest.raises(KdissectError, match=r"no table exchanges, which .*; it has partitions"):
        forget(dataset, client="a")
    with pytest.raises(KdissectError, match="no table connections"):
        forget(dataset, principal="a")


def test_what_others_have_deleted_is_taken_first(tmp_path: Path) -> None:
    dataset = made(tmp_path, tables=SOME)
    before = dataset_rows(dataset)["members"]
    DeltaTable(dataset / "members").delete("member_id <> ''")
    after = delta_rows(dataset)["members"]
    assert len(after) < len(before)
    assert dataset_rows(dataset)["members"] == before
    compact(dataset)
    assert dataset_rows(dataset)["members"] == after


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = made(tmp_path, tables=SOME)
    client = clients_of(dataset)[0]
    words = ["dataset", "compact", str(dataset)]
    assert run([*words, "--dry-run"]) == run(words) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ files of [\d.]+ kB would become \d+", first)
    assert second == first.replace("would become", "became")
    words = ["dataset", "forget", str(dataset), "--client", client]
    assert run([*words, "--dry-run"]) == run(words) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"\d+ rows in \d+ files would be deleted, \d+ taps? would be begun anew", first
    )
    assert second == first.replace("would be", "were")
    assert re.fullmatch(r"\d+ files of [\d.]+ kB removed", third)
    for name, more in (("compact", ["--target-size", "1M"]), ("forget", ["--principal", "a"])):
        assert run(["dataset", name, str(dataset), *more, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        VALIDATOR.validate(document)
        assert document["command"] == f"dataset {name}"
    assert run(["dataset", "forget", str(dataset)]) == 2
    assert "either a client or a principal" in capsys.readouterr().err
    assert {*TABLES} >= {*SOME}
