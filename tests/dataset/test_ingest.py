"""Directories of live captures in a dataset: the rows of their rotations, each once."""

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import kdissect
from kdissect.cli.program import run
from kdissect.dataset.compaction import compact
from kdissect.dataset.live_rotations import ingest
from kdissect.dataset.maintenance import check
from kdissect.errors import DatasetError, InvalidArgument, KdissectError
from kdissect.spark.pipeline import dissect
from kdissect.tables.ids import TAP_BITS
from kdissect.tables.rotations import rotations_in, runs_in
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES
from tests.cli.test_json_documents import VALIDATOR
from tests.dataset.test_runs import killed
from tests.live.replays import CAPTURES, read_run, replay
from tests.plain_rows import plain_rows
from tests.seeds import SEED
from tests.spark.rotated import Rows, as_spark, contents_of, dataset_rows

EVERY = tuple(TABLES)
PER_PACKET = 100_000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of several rotations, with connections open over them."""
    directory = tmp_path_factory.mktemp("live") / "broker-1"
    for name in ("groups-4.3.1", "transactions-4.3.1"):
        replay(CAPTURES / f"{name}.pcapng", directory, EVERY, count=40, every_s=1)
    assert min(len(rotations_in(one)) for one in runs_in(directory)) > 3
    return directory


def live_rows(run_directory: Path, shift: int = 0, tap: int = 0) -> Rows:
    """Rows of a run as live wrote them, with ids of a dataset."""
    rows: Rows = {}
    for table in EVERY:
        for row in plain_rows(read_run(run_directory, table)):
            made = as_spark(table, row, tap)
            for name, factor in (("connection_id", 1), ("exchange_id", PER_PACKET)):
                if made.get(name) is not None:
                    made[name] = int(str(made[name])) + shift * factor
            rows.setdefault(table, []).append(repr(made))
    return {table: sorted(found) for table, found in sorted(rows.items()) if found}


def highest(run_directory: Path) -> int:
    """Highest number of a packet in ids of a run."""
    found = 0
    for table in EVERY:
        rows = read_run(run_directory, table)
        for name, factor in (("connection_id", 1), ("exchange_id", PER_PACKET)):
            if name in rows.schema.names:
                ids = [one for one in rows[name].to_pylist() if one is not None]
                found = max([found, *(one // factor for one in ids)])
    return found


def both(*parts: Rows) -> Rows:
    tables = sorted({table for one in parts for table in one})
    return {table: sorted(row for one in parts for row in one.get(table, [])) for table in tables}


def copied(rotations: Sequence[Path], to: Path) -> None:
    for one in rotations:
        shutil.copytree(one, to / one.parent.name / one.name)


@pytest.mark.slow
def test_the_dataset_has_the_rows_of_live_however_often_it_is_asked(
    recorded: Path, tmp_path: Path
) -> None:
    draw = random.Random(f"{SEED} ingest")
    live, dataset = tmp_path / "broker-1", tmp_path / "dataset"
    coming = [one for each in runs_in(recorded) for one in rotations_in(each)]
    count = 0
    while coming:
        step = draw.randint(1, 3)
        copied(coming[:step], live)
        del coming[:step]
        with killed(draw.randint(0, 40), is_after=draw.random() < 0.5):
            ingest([live], dataset, tables=EVERY)
        count += 1
        ingest([live], dataset, tables=EVERY)
        first, *second = runs_in(live)
        parts = [live_rows(one, shift=highest(first) + 1) for one in second]
        assert dataset_rows(dataset) == both(live_rows(first), *parts)
    assert ingest([live], dataset) == ingest([live], dataset)
    assert ingest([live], dataset).rotations == 0
    (tap,) = contents_of(dataset).taps
    assert (tap.name, len(tap.captures)) == (
        "broker-1",
        sum(len(rotations_in(one)) for one in runs_in(live)),
    )
    assert tap.balance["exchanges"] == tap.rows["exchanges"]
    assert check(dataset).wrong == ()
    rows = DeltaTable(dataset / "connections").to_pyarrow_table()
    assert rows.num_rows == len({*rows["connection_id"].to_pylist()})
    assert count > 1


@pytest.mark.slow
def test_two_captures_that_write_to_one_directory_at_the_same_time(
    recorded: Path, tmp_path: Path
) -> None:
    """Rotations of two runs in turn: an id is that of one connection, whenever it was seen."""
    draw = random.Random(f"{SEED} turns")
    live, dataset = tmp_path / "live", tmp_path / "dataset"
    queues = [rotations_in(one) for one in runs_in(recorded)]
    while any(queues):
        queue = draw.choice([one for one in queues if one])
        copied([queue.pop(0)], live)
        ingest([live], dataset, name="one", tables=EVERY)
    found = dataset_rows(dataset)
    parts = [live_rows(one) for one in runs_in(recorded)]
    assert without_ids(found) == without_ids(both(*parts))
    moved: dict[tuple[int, int], set[int]] = {}
    for number, part in enumerate(parts):
        at = {without_id(row): own_id(row) for row in part["connections"]}
        for row in found["connections"]:
            if without_id(row) in at:
                moved.setdefault((number, at[without_id(row)]), set()).add(own_id(row))
    assert {len(one) for one in moved.values()} == {1}
    connections = {own_id(row) for row in found["connections"]}
    assert len(connections) == len(found["connections"])
    for row in found["exchanges"]:
        assert own_id(row) in connections


def own_id(row: str) -> int:
    return int(eval(row)["connection_id"])  # noqa: S307  # reprs of our own rows


def without_id(row: str) -> str:
    made = eval(row)  # noqa: S307  # reprs of our own rows
    return repr({name: value for name, value in made.items() if not name.endswith("ion_id")})


def without_ids(rows: Rows) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {}
    for table, found in rows.items():
        for row in found:
            one: dict[str, Any] = eval(row)  # noqa: S307  # reprs of our own rows
            for name in ("connection_id", "exchange_id"):
                one.pop(name, None)
            made.setdefault(table, []).append(repr(one))
    return {table: sorted(found) for table, found in made.items()}


def test_live_directories_and_captures_are_in_one_dataset(recorded: Path, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    dissect(None, [CAPTURES / "retries-4.3.1.pcapng"], dataset)
    before = dataset_rows(dataset)
    assert ingest([recorded], dataset).taps == 1
    first, second = runs_in(recorded)
    expected = both(before, live_rows(first, tap=1), live_rows(second, highest(first) + 1, tap=1))
    expected = {table: rows for table, rows in expected.items() if table in DEFAULT_TABLES}
    assert dataset_rows(dataset) == expected
    dissect(None, [CAPTURES / "sasl-4.3.1.pcapng"], dataset)
    names = [tap.name for tap in contents_of(dataset).taps]
    assert names == ["retries-4.3.1", "broker-1", "sasl-4.3.1"]
    compact(dataset)
    assert kdissect.analyse("latency", dataset, by=["tap"]).to_arrow().num_rows >= 3
    kdissect.findings(dataset)
    ids = DeltaTable(dataset / "exchanges").to_pyarrow_table()
    assert {one >> TAP_BITS for one in ids["connection_id"].to_pylist()} == {0, 1, 2}


def test_directories_are_taps_of_their_own(recorded: Path, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    places = [tmp_path / f"rack-{number}" / "live" for number in (1, 2)]
    for place, one in zip(places, runs_in(recorded), strict=True):
        copied(rotations_in(one), place)
    with pytest.raises(InvalidArgument, match="are both tap live: give a pattern"):
        ingest(places, dataset)
    assert ingest(places, dataset, tap="rack-[12]").taps == 2
    assert [tap.name for tap in contents_of(dataset).taps] == ["rack-1", "rack-2"]
    # A copy elsewhere is the same rotation.
    shutil.copytree(places[0], tmp_path / "copy")
    assert ingest([tmp_path / "copy"], dataset, name="rack-1").rotations == 0


def test_what_is_no_rotation_is_an_error(recorded: Path, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    with pytest.raises(InvalidArgument, match="a name is for one directory"):
        ingest([tmp_path, tmp_path], dataset, name="a")
    with pytest.raises(KdissectError, match="no such file"):
        ingest([tmp_path / "none"], dataset)
    live = tmp_path / "live"
    copied(rotations_in(runs_in(recorded)[0]), live)
    broken = rotations_in(runs_in(live)[0])[1] / "exchanges.parquet"
    broken.write_bytes(b"no parquet")
    with pytest.raises(DatasetError, match="was not written by kdissect"):
        ingest([live], dataset)
    dissect(None, [CAPTURES / "quickstart.pcapng"], dataset)
    with pytest.raises(InvalidArgument, match="has a tap quickstart, of captures"):
        ingest([live], dataset, name="quickstart")


def test_the_command(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["dataset", "ingest", str(recorded), "-o", str(tmp_path / "dataset")]
    assert run(words) == 0
    assert capsys.readouterr().out.endswith("rows, 1 tap\n")
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    VALIDATOR.validate(document)
    assert (document["command"], document["rotations"]) == ("dataset ingest", 0)
