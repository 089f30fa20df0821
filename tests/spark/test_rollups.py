"""Rollups: counters are exact, percentiles within their bounds, however the rows are merged."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from kdissect import KdissectError, analyse
from kdissect.analysis.questions.latency import PERCENTILES
from kdissect.cli.program import run
from kdissect.dataset.rollup_answers import Group, Groups, asked_of_rollups, percentiles
from kdissect.dataset.rollup_rows import COUNTERS, LARGEST, MEASURES, SETS, hll_of, kll_of, sketches
from kdissect.spark.pipeline import dissect
from kdissect.spark.rollups import roll_up, rollups_in, units_of
from tests.seeds import SEED
from tests.spark.datasets import both_of
from tests.spark.rotated import contents_of, rotate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("datasketches", reason="rollups need datasketches: the extra `rollups`")
NAMES = ("quickstart", "retries-4.3.1", "cluster-4.3.1")
WINDOW = 600_000_000_000


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = both_of(NAMES, tmp_path_factory.mktemp("rollups")).dataset
    roll_up(made)
    return made


def rows_of(answer: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = answer.to_arrow().to_pylist()
    return rows


def by_key(rows: list[dict[str, Any]], by: tuple[str, ...]) -> dict[Any, dict[str, Any]]:
    return {tuple(row[name] for name in by): row for row in rows}


@pytest.mark.parametrize("of", MEASURES)
@pytest.mark.parametrize("by", [("api",), ("client",), ("topic",), ("tap", "date"), ("window",)])
def test_percentiles_are_within_their_bounds_and_counts_are_exact(
    by: tuple[str, ...], of: str, dataset: Path
) -> None:
    exact = by_key(rows_of(analyse("latency", dataset, by=by, of=of, window=WINDOW)), by)
    found = by_key(rows_of(analyse("latency", dataset, by=by, of=of, rollups=True)), by)
    assert found.keys() == exact.keys()
    for key, row in found.items():
        assert (row["exchanges"], row["max_ns"]) == (exact[key]["exchanges"], exact[key]["max_ns"])
        assert row["waited"] == pytest.approx(exact[key]["waited"])
        for name in PERCENTILES:
            low, high = row[f"{name}_low_ns"], row[f"{name}_high_ns"]
            assert low <= exact[key][f"{name}_ns"] <= high
            assert low <= row[f"{name}_ns"] <= high


def test_rollup_counts_match_other_analyses(dataset: Path) -> None:
    by = ("client",)
    found = by_key(rows_of(analyse("latency", dataset, by=by, rollups=True)), by)
    clients = by_key(rows_of(analyse("clients", dataset, by=by)), by)
    assert found.keys() <= clients.keys()
    for key, row in found.items():
        names = ("unanswered", "request_bytes", "response_bytes")
        assert [row[name] for name in names] == [clients[key][name] for name in names]
        assert row["requests"] == clients[key]["exchanges"]
        assert row["connections_low"] <= clients[key]["connections"] <= row["connections_high"]
        assert row["connections"] == clients[key]["connections"]  # so few are counted exactly
    by = ("topic",)
    condition = "api = 'Produce'"
    found = by_key(rows_of(analyse("latency", dataset, by=by, rollups=True, where=condition)), by)
    traffic = by_key(rows_of(analyse("traffic", dataset, where=condition)), by)
    assert {key: (row["records"], row["record_bytes"]) for key, row in found.items()} == {
        key: (row["produced_records"], row["produced_bytes"])
        for key, row in traffic.items()
        if key in found
    }


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_heavy_tails_are_within_their_bounds_in_any_order(seed: int) -> None:
    chance = np.random.default_rng(seed)
    values = np.rint(chance.pareto(0.7, 400_000) * 1e6).astype("i8")
    parts = np.split(values, np.sort(chance.integers(0, len(values), 90)))
    content = [kll_of(part) for part in parts if len(part)]
    random.Random(seed).shuffle(content)
    merged = sketches().kll_floats_sketch(1600)
    for some in (content[:40], content[40:]):  # merged in groups, and those together
        group = sketches().kll_floats_sketch(1600)
        for one in some:
            group.merge(sketches().kll_floats_sketch.deserialize(one))
        merged.merge(group)
    told = percentiles(merged)
    assert merged.n == len(values)
    assert 0.001 < told["rank_error"] < 0.002
    for name, rank in PERCENTILES.items():
        low, high = told[f"{name}_low_ns"], told[f"{name}_high_ns"]
        assert low <= np.quantile(values, rank) <= high
        # The bounds are useful: they are hardly wider than stated.
        assert np.mean(values < high) - np.mean(values <= low) <= 5 * told["rank_error"]


def made_rows(count: int) -> pa.Table:
    chance = random.Random(count)
    rows = []
    for _ in range(count):
        times = np.array([chance.randrange(1, 10**9) for _ in range(chance.randrange(1, 9))])
        row: dict[str, Any] = {name: chance.randrange(1000) for name in COUNTERS}
        row |= {name: chance.choice([None, chance.randrange(10**9)]) for name in LARGEST}
        row |= {name: chance.choice([None, kll_of(times)]) for name in MEASURES}
        row |= {name: hll_of([chance.randrange(30)]) for name in SETS}
        rows.append(row | {"api": chance.choice(["Fetch", None]), "answered": 1})
    return pa.Table.from_pylist(rows)


def test_counters_are_the_same_in_any_order_and_grouping() -> None:
    rows = made_rows(60)
    places = list(range(60))
    told = []
    for seed in range(4):
        random.Random(seed).shuffle(places)
        groups = Groups(asked_of_rollups(["api"], "work", None, None))
        for start in range(0, 60, 1 + seed * 7):
            groups.add(rows.take(places[start : start + 1 + seed * 7]))
        told.append({key: (one.counters, one.largest) for key, one in groups.groups.items()})
        counts = [one.sets["clients"].get_result().get_estimate() for one in groups.groups.values()]
        assert max(counts) <= 30.1
    assert told[0] == told[1] == told[2] == told[3]
    assert sum(one[0]["answered"] for one in told[0].values()) == 60


def test_a_set_of_many_is_counted_within_its_error() -> None:
    group = Group()
    parts = [hll_of([f"client-{number}" for number in range(at, at + 3000)])
             for at in range(0, 20_000, 1000)]  # fmt: skip
    for part in parts:
        row: dict[str, Any] = dict.fromkeys((*LARGEST, *MEASURES, *SETS))
        group.add(dict.fromkeys(COUNTERS, 0) | row | {"clients": part})
    told = group.values_of("latency")
    assert told["clients_low"] <= 22_000 <= told["clients_high"]
    assert abs(told["clients"] - 22_000) < 22_000 * 0.05
    assert (told["p99_ns"], told["rank_error"], told["connections"]) == (None, None, 0)


@pytest.mark.slow
def test_rollups_go_with_their_files_when_captures_come(tmp_path: Path) -> None:
    paths = rotate("cluster-3.9.1.pcapng", tmp_path / "ring", 4, seed=5)
    dataset = tmp_path / "dataset"
    told: list[str] = []
    for end in (2, 3, 4):
        dissect(None, paths[:end], dataset, split_size=60_000)
        units = units_of(contents_of(dataset))
        missing = {unit.rollup for unit in units} - rollups_in(str(dataset)).keys()
        assert missing
        exact = by_key(rows_of(analyse("latency", dataset, by=["topic", "api"])), ("topic", "api"))
        for _ in range(2):  # with rollups that are made for this answer, then with all
            answer = analyse(
                "latency", dataset, by=["topic", "api"], rollups=True, notice=told.append
            )
            found = by_key(rows_of(answer), ("topic", "api"))
            assert {key: row["exchanges"] for key, row in found.items()} == {
                key: row["exchanges"] for key, row in exact.items()
            }
            before = rollups_in(str(dataset))
            done = roll_up(dataset)
            now = rollups_in(str(dataset))
            assert now.keys() == {unit.rollup for unit in units}
            assert (done.made, done.removed) == (len(now.keys() - before), len(before.keys() - now))
    assert len(told) == 3
    assert told[0].endswith(f" files have no rollup yet; kdissect spark rollup {dataset}")


def test_rollups_of_a_drawn_ring_have_the_numbers_of_latency(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    name = chance.choice(NAMES)
    paths = rotate(f"{name}.pcapng", tmp_path / "ring", chance.randrange(1, 4), seed=SEED)
    dissect(None, paths, tmp_path / "dataset")
    roll_up(tmp_path / "dataset")
    by = tuple(chance.sample(("api", "topic", "tap"), 2))
    of = chance.choice(MEASURES)
    told = f"KDISSECT_SEED={SEED}: {name} by {by} of {of}"
    exact, found = (
        by_key(rows_of(analyse("latency", tmp_path / "dataset", by=by, of=of, **options)), by)
        for options in ({}, {"rollups": True})
    )
    assert found.keys() == exact.keys(), told
    for key, row in found.items():
        for counter in ("requests", "exchanges", "max_ns"):
            assert row[counter] == exact[key][counter], (told, key)
        for rank in PERCENTILES:
            low, high = row[f"{rank}_low_ns"], row[f"{rank}_high_ns"]
            assert low is None or low <= exact[key][f"{rank}_ns"] <= high, (told, key)


def test_days_and_taps_that_are_not_asked_for_are_not_read(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reads(location: str, unit: Any) -> Any:
        read.append(unit.tap)
        return read_rollup(location, unit)

    from kdissect.spark.rollups import read_rollup

    monkeypatch.setattr("kdissect.spark.rollup_reading.read_rollup", reads)
    condition = "tap like 'retries%' and api = 'Produce'"
    (row,) = rows_of(analyse("latency", dataset, by=["tap"], where=condition, rollups=True))
    (exact,) = rows_of(analyse("latency", dataset, by=["tap"], where=condition))
    assert row["exchanges"] == exact["exchanges"]
    assert set(read) == {"retries-4.3.1"}


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("errors", {}, "rollups answer latency, not errors"),
        (
            "latency",
            {"by": ["user"]},
            "rollups are not by 'sasl_user'; they are by api, client_id, ",
        ),
        ("latency", {"by": ["client", "topic"]}, "rollups are by client or by topic, not by both"),
        (
            "latency",
            {"by": ["client"], "where": "topic = 'a'"},
            "rollups are by client or by topic",
        ),
        (
            "latency",
            {"of": "queue"},
            "rollups have no times of 'queue'; they have latency, w",
        ),
        ("latency", {"by": ["window"], "window": 10**9}, "rollups have tens of minutes: windows"),
        ("latency", {"where": "colour = 1"}, "--where 'colour = 1': Binder Error"),
        ("latency", {"slowest": 3}, "latency of rollups has no option 'slowest'"),
    ],
)
def test_queries_that_rollups_cannot_answer_are_an_error(
    name: str, options: dict[str, Any], says: str, dataset: Path
) -> None:
    with pytest.raises(KdissectError) as caught:
        analyse(name, dataset, rollups=True, **options)
    assert str(caught.value).startswith(says)


def test_rollups_are_of_datasets(tmp_path: Path) -> None:
    with pytest.raises(KdissectError, match=r"^rollups are of datasets, and this is none$"):
        analyse("latency", tmp_path, rollups=True)
    with pytest.raises(KdissectError, match=r" is no dataset: rollups are of datasets$"):
        roll_up(tmp_path)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (made,) = rotate("retries-4.3.1.pcapng", tmp_path / "ring", 1, seed=1)
    dataset = tmp_path / "dataset"
    dissect(None, [made], dataset)
    assert run(["spark", "rollup", str(dataset), "--here"]) == 0
    size = sum(rollups_in(str(dataset)).values())
    count = len(rollups_in(str(dataset)))
    assert capsys.readouterr().out.startswith(
        f"{count} rollups made, 0 removed; {count} rollups of"
    )
    assert size > 1000
    words = ["latency", str(dataset), "--rollups", "--by", "window", "--window", "1h"]
    assert run([*words, "--format", "csv", "--columns", "exchanges,clients,p99_high_ns"]) == 0
    out, err = capsys.readouterr()
    ((row),) = rows_of(analyse("latency", dataset, by=["window"], window=6 * WINDOW, rollups=True))
    assert out.splitlines()[1] == f"{row['exchanges']},{row['clients']},{row['p99_high_ns']}"
    assert err == ""


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    {}, {"by": ["topic", "window", "tap"], "where": "date > '2' and request_start > '2020-01-01'"},
    {"by": ["client"], "of": "work"},
], ids=str)  # fmt: skip
def test_spark_merges_them_too(
    options: dict[str, Any], dataset: Path, spark: "SparkSession"
) -> None:
    expected = analyse("latency", dataset, rollups=True, **options).to_arrow()
    found = analyse("latency", dataset, rollups=True, session=spark, **options).to_arrow()
    assert found.num_rows > 5
    assert found.equals(expected, check_metadata=True)


@pytest.mark.slow
def test_spark_makes_them_too(tmp_path: Path, spark: "SparkSession") -> None:
    made = both_of(["retries-4.3.1"], tmp_path).dataset
    expected = analyse("latency", made, rollups=True).to_arrow()
    assert analyse("latency", made, rollups=True, session=spark).to_arrow().equals(expected)
    done = roll_up(made, spark)
    assert done.made == done.files == len(units_of(contents_of(made)))
    assert analyse("latency", made, rollups=True).to_arrow().equals(expected)


@pytest.mark.slow
def test_the_sketches_of_spark_are_those_of_the_library(spark: "SparkSession") -> None:
    query = """
        SELECT kll_sketch_agg_float(CAST(id AS FLOAT), 1600) AS times,
            hll_sketch_agg('client-' || id, 12) AS clients, hll_sketch_agg(id, 12) AS connections
        FROM range(500, 6000)
        """
    (theirs,) = spark.sql(query).collect()
    group = Group()
    empty: dict[str, Any] = dict.fromkeys((*LARGEST, *MEASURES, *SETS))
    zero = dict.fromkeys(COUNTERS, 0)
    empty["latency_max_ns"] = 5999
    group.add(
        zero | empty
        | {"latency": kll_of(np.arange(0, 500))}
        | {"clients": hll_of([f"client-{number}" for number in range(3000)])}
        | {"connections": hll_of(range(3000))}
    )  # fmt: skip
    group.add(
        zero | empty
        | {"latency": bytes(theirs.times)}
        | {"clients": bytes(theirs.clients), "connections": bytes(theirs.connections)}
    )  # fmt: skip
    told = group.values_of("latency")
    assert group.times["latency"].n == 6000
    assert abs(told["p50_ns"] - 3000) <= 6000 * 0.003
    # Were a name hashed in another way, there would be 8500.
    for name in SETS:
        assert told[f"{name}_low"] <= 6000 <= told[f"{name}_high"]
        assert abs(told[name] - 6000) < 6000 * 0.05
