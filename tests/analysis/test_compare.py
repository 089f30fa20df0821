"""Changes: made tables with known differences, and real captures."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow.compute as pc
import pytest
from ibis.config import Config
from pyarrow import parquet

import kdissect
from kdissect.analysis.compare import window_counts
from kdissect.analysis.compare.comparison import CHANGED, Settings, spans_of, verdict
from kdissect.analysis.compare.window_counts import Span
from kdissect.analysis.engines.ibis_tables import declared_tables
from kdissect.errors import KdissectError
from kdissect.protocol.apis import find_api
from tests.analysis.made_tables import MS, SECOND, START, Row, connection, exchange, write_tables
from tests.analysis.processes import latencies

SECONDS = 200
QUICKSTART = "captures/quickstart.pcapng"


def made(
    seed: int, produce: float = 1.0, failing: float = 0.0, version: int = 12, later_s: float = 0
) -> list[Row]:
    """Produce and Fetch of one client, `produce` times as slow; some of Produce fail."""
    random = np.random.default_rng(seed)
    found = []
    for api in ("Produce", "Fetch"):
        factor = 10 * (produce if api == "Produce" else 1)
        sent, latency = latencies(random, SECONDS, memory_s=1, a_second=5)
        for at_s, one in zip(
            sent + random.random(len(sent)) + later_s, latency * factor, strict=True
        ):
            fails = api == "Produce" and random.random() < failing
            error = {"error_count": 1, "error": "NOT_ENOUGH_REPLICAS"} if fails else {}
            found.append(
                exchange(
                    len(found), api, one, at_s, client_id="one", request_size=96,
                    response_size=46, record_count=3, api_version=version, **error,
                )
            )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Before; nothing changed; Produce twice as slow, failing, and of another version."""
    place = tmp_path_factory.mktemp("sides")
    named = {
        "before": made(1),
        "like": made(2, later_s=3600),
        "after": made(3, 2, failing=0.03, version=13, later_s=3600),
    }
    told = {"client_software_name": "librdkafka", "client_software_version": "2.16.0"}
    paths = [
        write_tables(place / name, exchanges=rows, connections=[connection(**told)])
        for name, rows in named.items()
    ]
    return paths[0], paths[1], paths[2]


def by_name(found: kdissect.Comparison) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(row["api"], row["measure"], row["what"]): row for row in found.table.to_pylist()}


def test_only_changes_are_reported(sides: tuple[Path, Path, Path]) -> None:
    rows = by_name(kdissect.compare(sides[0], sides[2], of=["latency"]))
    assert {key: row["verdict"] for key, row in rows.items()} == {
        ("Produce", "latency", "p50"): "slower",
        ("Produce", "latency", "p90"): "slower",
        ("Produce", "latency", "p99"): "slower",
        ("Produce", "error", "NOT_ENOUGH_REPLICAS"): "new",
        ("Produce", "version", "Produce 12"): "gone",
        ("Produce", "version", "Produce 13"): "new",
        ("Fetch", "version", "Fetch 12"): "gone",
        ("Fetch", "version", "Fetch 13"): "new",
    }
    median = rows["Produce", "latency", "p50"]
    assert median["ratio"] == pytest.approx(2, rel=0.15)
    assert median["low"] <= median["difference"] <= median["high"]
    assert median["low"] > 5 * MS
    assert median["q_value"] <= 0.01


def test_nothing_changed_is_nothing_told(sides: tuple[Path, Path, Path]) -> None:
    found = kdissect.compare(sides[0], sides[1])
    assert found.table.num_rows == 0
    assert set(found.verdicts) == {"same", "unclear"}


def test_values_are_those_of_the_other_questions(sides: tuple[Path, Path, Path]) -> None:
    rows = by_name(kdissect.compare(sides[0], sides[2], unchanged=True))
    for name, path in (("before", sides[0]), ("after", sides[2])):
        for of in ("latency", "work"):
            for one in kdissect.analyse("latency", path, of=of).table.to_pylist():
                for what in window_counts.QUANTILES:
                    row = rows[one["api"], of, what]
                    assert row[name] == one[f"{what}_ns"]
                    assert row[f"exchanges_{name}"] == one["exchanges"]
    exchanges = parquet.read_table(sides[2] / "exchanges.parquet")
    produced = exchanges.filter(pc.equal(exchanges["api"], "Produce"))
    failed = pc.sum(produced["error_count"]).as_py()
    row = rows["Produce", "error", "NOT_ENOUGH_REPLICAS"]
    assert (row["before"], row["after"]) == (0, failed / produced.num_rows)
    times = pc.min_max(pc.cast(exchanges["request_start"], "int64")).as_py()
    seconds = (times["max"] - times["min"]) / SECOND
    for what, each in (("requests", 1), ("records", 3), ("request_bytes", 96)):
        row = rows["Produce", "traffic", what]
        assert row["after"] == pytest.approx(produced.num_rows * each / seconds, rel=1e-6)
    assert rows[None, "software", "librdkafka 2.16.0"]["verdict"] == "same"


def test_the_same_input_gives_the_same_answer(sides: tuple[Path, Path, Path]) -> None:
    once = kdissect.compare(sides[0], sides[2], by=["client"], unchanged=True)
    again = kdissect.compare(sides[0], sides[2], by=["client"], unchanged=True)
    assert once.table == again.table


def test_a_group_that_lacks_a_measure_is_compared_in_the_others(tmp_path: Path) -> None:
    """Responses without a known broker time, as after lost packets, still have a latency."""
    rows = made(1)
    unknown = [
        exchange(len(rows) + n, "Metadata", 5, n, client_id="one") | {"work_ns": None}
        for n in range(SECONDS)
    ]
    places = [
        write_tables(tmp_path / name, exchanges=[*rows, *unknown], connections=[connection()])
        for name in ("before", "after")
    ]
    found = kdissect.compare(*map(str, places), of=["latency", "work"], unchanged=True)
    times = {(api, measure) for api, measure, what in by_name(found) if what == "p50"}
    assert times == {
        ("Produce", "latency"), ("Produce", "work"), ("Fetch", "latency"), ("Fetch", "work"),
        ("Metadata", "latency"),
    }  # fmt: skip


def test_a_measure_that_one_side_lacks_is_left_out(tmp_path: Path) -> None:
    """No work is known of all that comes after a time, as where the clock jumps all the while."""
    unknown = [{**row, "work_ns": None} for row in made(2, later_s=3600)]
    places = [
        write_tables(tmp_path / name, exchanges=rows, connections=[connection()])
        for name, rows in (("before", made(1)), ("after", unknown))
    ]
    for one, other in (places, places[::-1]):
        found = kdissect.compare(one, other, of=["latency", "work"], unchanged=True)
        assert {key[1] for key in by_name(found) if key[2] == "p50"} == {"latency"}


def test_a_smaller_difference_than_matters_is_small(sides: tuple[Path, Path, Path]) -> None:
    found = kdissect.compare(sides[0], sides[2], least=300, of=["latency"], unchanged=True)
    assert by_name(found)["Produce", "latency", "p50"]["verdict"] == "small"
    found = kdissect.compare(sides[0], sides[2], least_time=10**10, of=["latency"], unchanged=True)
    assert by_name(found)["Fetch", "latency", "p50"]["verdict"] == "same"


def row_like(before: float, after: float, **more: Any) -> dict[str, Any]:
    row = {"before": before, "after": after, "difference": after - before, "unit": "share"}
    return row | {"q_value": 0.01, "low": None, "high": None} | more


@pytest.mark.parametrize(
    ("row", "is_fact", "word"),
    [
        (row_like(0.1, 0.2), False, "more"),
        (row_like(0.2, 0.1), False, "less"),
        (row_like(0, 0.1), False, "new"),
        (row_like(0.1, 0), False, "gone"),
        (row_like(0, 0.1, q_value=0.5), False, "unclear"),
        (row_like(0, 0.1, q_value=0.5), True, "new"),
        (row_like(0.1, 0, q_value=None), True, "gone"),
        (row_like(1, 1, q_value=None), True, "same"),
        (row_like(0.1, 0.2, q_value=None), True, "too few"),
        (row_like(0.1, 0.105), False, "small"),
        (row_like(0.1, 0.1, q_value=1.0, low=-0.009, high=0.009), False, "same"),
        (row_like(0.1, 0.1, q_value=1.0, low=-0.011, high=0.009), False, "unclear"),
        (row_like(0.1, 0.1, q_value=1.0, low=-0.001, high=None), False, "unclear"),
        (row_like(9 * MS, 12 * MS, unit="ns"), False, "slower"),
        (row_like(12 * MS, 9 * MS, unit="ns"), False, "faster"),
        (row_like(90_000, 180_000, unit="ns"), False, "small"),
    ],
)
def test_a_verdict_is_one_word(row: dict[str, Any], is_fact: bool, word: str) -> None:
    assert verdict(row, is_fact, Settings()) == word


@pytest.mark.slow
def test_parts_of_one_source(tmp_path: Path) -> None:
    later = made(3, produce=2, later_s=SECONDS)
    both = write_tables(tmp_path / "both", exchanges=[*made(1), *later], connections=[connection()])
    slower = {("Produce", "latency", "p50"), ("Produce", "latency", "p90")}
    first, last = START, START + SECONDS * SECOND  # 22:13:20 and 22:16:40
    cases: list[dict[str, str]] = [
        {"at": "22:16:40"},
        {"before": "..22:16:40", "after": "22:16:40.."},
        {"after": "2023-11-14T22:16:40..22:25"},
        {"before": "22:13:20..22:16:40"},
        {"before": f"request_start_ns < {last}"},
        {"after": f"request_start_ns >= {last} -- later"},
    ]
    fetched = sum(row["api"] == "Fetch" for row in made(1))
    for case in cases:
        found = kdissect.compare(both, where="api <> 'Fetch'", of=["latency"], least=60, **case)  # type: ignore[arg-type]
        assert slower <= set(by_name(found)), case
        assert {row["verdict"] for row in found.table.to_pylist()} == {"slower"}, case
        assert found.before.exchanges == len(made(1)) - fetched, case
        assert abs(found.before.first_ns - first) < SECOND
        assert abs(found.after.first_ns - last) < SECOND


def test_clients_of_the_same_time_are_compared_second_by_second(tmp_path: Path) -> None:
    """Both have the same slow spells; one of them takes a fifth longer, at any time."""
    random = np.random.default_rng(6)
    sent, latency = latencies(random, SECONDS, memory_s=10, a_second=20)
    names = random.choice(["one", "two"], len(sent))
    factors = np.where(names == "two", 12, 10)
    rows = [
        exchange(number, "Produce", one, at_s, client_id=str(name))
        for number, (one, at_s, name) in enumerate(zip(latency * factors, sent, names, strict=True))
    ]
    path = write_tables(tmp_path / "both", exchanges=rows, connections=[connection()])
    found = kdissect.compare(path, after="client_id = 'two'", of=["latency"])
    told = by_name(found)["Produce", "latency", "p50"]
    assert told["verdict"] == "slower"
    assert told["q_value"] < 0.01
    assert told["ratio"] == pytest.approx(1.2, rel=0.05)


def test_differences_within_slow_spells_are_not_reported(tmp_path: Path) -> None:
    """The same two clients, one an hour later: a fifth is less than spells of 10 s make."""
    random = np.random.default_rng(6)
    sent, latency = latencies(random, SECONDS, memory_s=10, a_second=20)
    is_two = random.choice(["one", "two"], len(sent)) == "two"
    paths = []
    for name, flags, factor, later_s in (("one", ~is_two, 10, 0), ("two", is_two, 12, 3600)):
        rows = [
            exchange(number, "Produce", one, at_s)
            for number, (one, at_s) in enumerate(
                zip(latency[flags] * factor, sent[flags] + later_s, strict=True)
            )
        ]
        paths.append(write_tables(tmp_path / name, exchanges=rows, connections=[connection()]))
    found = kdissect.compare(*paths, of=["latency"], unchanged=True)
    assert by_name(found)["Produce", "latency", "p50"]["verdict"] == "unclear"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "two sources, or one with at"),
        ({"other": QUICKSTART, "at": "+1s"}, "two sources, or one with at"),
        ({"at": "+1s", "before": "+1s.."}, "before and after do not go with it"),
        ({"after": "14:05"}, "after '14:05' is a moment: use at, or a range like 14:05.."),
        ({"after": "colour = 1"}, "after 'colour = 1': no column 'colour'"),
        ({"before": "x =", "after": "+9s.."}, "before 'x =': Parser Error"),
        ({"at": "14:05"}, "nothing after: the source is from 2026-11-21 04:06:05Z to"),
        ({"before": "04:06:10..04:06:08"}, "ends before it begins"),
        ({"at": "+9s", "by": ["window"]}, "cannot group by 'window'"),
        ({"at": "+9s", "of": ["colour"]}, "cannot compare 'colour'; there are: latency"),
        ({"at": "+9s", "top": 3}, "compare has no option 'top'; it has by"),
        ({"at": "+100ms"}, "one side is 17.* s long, the other 0.1 s: choose a part of the longer"),
        ({"other": "captures/tls/tls-closed-4.3.1.pcapng"}, "after: the source has no requests"),
        ({"at": "+9s", "window": 1000}, "windows of 1e-06 s are too many"),
    ],
)
def test_incomparable_sides_are_an_error(
    options: dict[str, Any], said: str, quickstart: Path
) -> None:
    with pytest.raises(KdissectError, match=said):
        kdissect.compare(quickstart, **options)


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("quickstart") / "tables"
    kdissect.write(QUICKSTART, directory)
    return directory


def test_windows_are_of_one_width_and_begin_at_multiples_of_it() -> None:
    before, after = spans_of([(0, 100 * SECOND), (SECOND, 40 * SECOND)], None)
    assert (before.width_ns, after.width_ns) == (39 * SECOND // 20, 39 * SECOND // 20)
    assert (before.windows, after.windows) == (52, 21)
    assert after.first == 0
    assert after.seconds()[:2] == [0.95, 1.95]
    assert sum(after.seconds()) == pytest.approx(39)
    one, other = spans_of([(0, 100 * SECOND), (10 * SECOND, 95 * SECOND)], None)
    assert one == other == Span(0, 100 * SECOND, 5 * SECOND)
    assert [span.windows for span in spans_of([(5, 5), (5, 5)], None)] == [1, 1]


def test_a_capture_and_itself_do_not_differ(quickstart: Path) -> None:
    found = kdissect.compare(quickstart, quickstart, by=["api", "client"])
    assert found.table.num_rows == 0
    assert "small" not in found.verdicts


@pytest.mark.parametrize("scenario", ["retries", "topic-configs"])
def test_two_recordings_of_a_scenario_differ_in_versions_only(scenario: str) -> None:
    found = kdissect.compare(
        *[f"captures/{scenario}-{kafka}.pcapng" for kafka in ("2.8.2", "4.3.1")]
    )
    assert set(found.table["measure"].to_pylist()) == {"version", "software"}


def test_a_poll_that_lasts_as_long_for_all_can_get_longer(tmp_path: Path) -> None:
    paths = [
        write_tables(
            tmp_path / str(latency_ms),
            exchanges=[exchange(number, "Fetch", latency_ms, at_s=number / 10)
                       for number in range(count)],
            connections=[connection()],
        )
        for latency_ms, count in ((300, 400), (500, 900))
    ]  # fmt: skip
    for before, after, word in ((0, 1, "slower"), (1, 0, "faster")):
        found = kdissect.compare(paths[before], paths[after], of=["latency"])
        rows = by_name(found)
        assert rows["Fetch", "latency", "p50"]["verdict"] == word
        assert rows["Fetch", "latency", "p90"]["verdict"] == word


def test_one_stopped_broker_is_one_event_and_no_change(quickstart: Path) -> None:
    """The broker was stopped for 1.2 s: the largest latencies of all, in one window."""
    sidecar = json.loads(Path("captures/quickstart.json").read_text())
    ((start, _),) = sidecar["pauses"]["rows"]
    at = f"+{(start - kdissect.compare(quickstart, at='+9s').before.first_ns) / SECOND - 3:.3f}s"
    found = kdissect.compare(quickstart, at=at, of=["latency"], unchanged=True)
    worst = kdissect.analyse("latency", quickstart, where="api = 'Produce'").table.to_pylist()[0]
    assert worst["max_ns"] > 1.1 * SECOND
    rows = by_name(found)
    assert rows["Produce", "latency", "p99"]["verdict"] == "too few"
    assert [key for key, row in rows.items() if row["verdict"] == "slower"] == []


def test_a_real_capture_made_slower_is_found_slower(quickstart: Path, tmp_path: Path) -> None:
    kdissect.write(QUICKSTART, tmp_path / "slower")
    path = tmp_path / "slower" / "exchanges.parquet"
    table = parquet.read_table(path)
    is_metadata = pc.equal(table["api"], "Metadata")
    later = pc.add(table["latency_ns"], 20 * MS)
    latency = pc.if_else(is_metadata, later, table["latency_ns"])
    place = table.column_names.index("latency_ns")
    parquet.write_table(table.set_column(place, "latency_ns", latency), path)
    rows = by_name(kdissect.compare(quickstart, tmp_path / "slower"))
    assert {key: row["verdict"] for key, row in rows.items()} == {
        ("Metadata", "latency", "p50"): "slower"
    }
    assert rows["Metadata", "latency", "p50"]["difference"] == 20 * MS


def test_versions_that_are_new_or_gone_are_those_that_the_brokers_logged() -> None:
    """Group consumers of two releases: the versions usable with each broker."""
    names = ("consumer-groups-4.0.1", "consumer-groups-4.3.1")
    logged = [versions_logged(name) for name in names]
    of_both = {api for api, _ in logged[0]} & {api for api, _ in logged[1]}
    expected = {
        f"{api} {version}": "gone" if (api, version) in logged[0] else "new"
        for api, version in set(logged[0]) ^ set(logged[1])
        if api in of_both
    }
    sources = [f"captures/{name}.pcapng" for name in names]
    found = kdissect.compare(*sources).table.to_pylist()
    told = {
        row["what"]: row["verdict"]
        for row in found
        if row["measure"] == "version" and row["verdict"] in ("new", "gone")
    }
    assert expected
    assert told == expected


def versions_logged(name: str) -> Counter[tuple[str, int]]:
    rows = json.loads(Path(f"captures/{name}.json").read_text())["exchange_counts"]["rows"]
    return Counter({(find_api(key).name, version): count for key, version, count in rows})


class SparkOptions(Config):
    """SQL as read by Ibis's compiler for Spark."""

    treat_nan_as_null: bool = False


def test_all_that_is_counted_can_be_said_in_the_sql_of_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ibis.options, "pyspark", SparkOptions())
    tables, by = declared_tables(), ("api", "topic", "broker")
    rows = window_counts.sent_in_windows(tables, by, SECOND)
    for question in (
        window_counts.span_of(tables),
        window_counts.counts(rows, by),
        window_counts.software(tables, rows, by),
        window_counts.bins(rows, by, "work"),
        window_counts.quantiles(rows, by, ["work"]),
    ):
        assert str(ibis.to_sql(question, dialect="pyspark")).startswith(("SELECT", "WITH"))


def test_bins_keep_three_digits_of_the_largest_numbers_too() -> None:
    import duckdb

    numbers = [0, 999, 1000, 1009, 12_345, 9_223_372_036_854_775_807]
    rounded = [0, 999, 1000, 1000, 12_300, 9_220_000_000_000_000_000]
    expression = window_counts.rounded(ibis.table({"value": "int64"}, name="numbers").value)
    sql = ibis.to_sql(expression.name("bin"), dialect="duckdb")
    values = ", ".join(f"({number})" for number in numbers)
    duckdb.sql(f"CREATE OR REPLACE TABLE numbers AS SELECT * FROM (VALUES {values}) t(value)")  # noqa: S608
    assert [row[0] for row in duckdb.sql(str(sql)).fetchall()] == rounded


def test_changes_are_the_first_verdicts() -> None:
    assert CHANGED == ("slower", "faster", "new", "gone", "more", "less")
