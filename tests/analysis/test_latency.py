"""Percentiles of latency by any dimensions."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.execution import ask
from kdissect.analysis.questions.latency import MEASURES, PARTS, PERCENTILES
from kdissect.errors import KdissectError
from tests.analysis.made_tables import (
    MS,
    START,
    Row,
    asked,
    connection,
    exchange,
    tables_of,
    write_tables,
)  # fmt: skip
from tests.seeds import SEED

QUICKSTART = "captures/quickstart.pcapng"


def test_percentiles_are_between_the_exchanges_next_to_them(tmp_path: Path) -> None:
    exchanges = [exchange(number, "Produce", latency_ms=number) for number in range(1, 102)]
    (row,) = asked("latency", tmp_path, exchanges=exchanges)
    assert row["exchanges"] == 101
    found = [row[f"{name}_ns"] / MS for name in (*PERCENTILES, "max")]
    assert found == [51, 91, 96, 100, 100.9, 101]


def test_slowest_come_first_and_unanswered_requests_do_not_count(tmp_path: Path) -> None:
    exchanges = [
        exchange(1, "Produce", 5),
        exchange(2, "Fetch", 500, wait_ns=400 * MS, work_ns=100 * MS),
        exchange(3, "Metadata", 9000, outcome="unanswered", latency_ns=None),
    ]
    rows = asked("latency", tmp_path, exchanges=exchanges)
    assert [(row["api"], row["waited"]) for row in rows] == [("Fetch", 0.8), ("Produce", 0.0)]


@pytest.mark.parametrize("of", MEASURES)
def test_the_measure_can_be_any_part(tmp_path: Path, of: str) -> None:
    column = "throttle_ms" if of == "throttle" else f"{of}_ns"
    value = 7 if of == "throttle" else 7 * MS
    exchanges = [exchange(number, "Fetch", **{column: value}) for number in (1, 2)]
    (row,) = asked("latency", tmp_path, {"of": of}, exchanges=exchanges)
    assert (row["p50_ns"], row["max_ns"]) == (7 * MS, 7 * MS)
    if of in PARTS:
        assert row[f"{of}_p99_ns"] == 7 * MS


def test_an_exchange_counts_for_each_of_its_topics_once(tmp_path: Path) -> None:
    partitions = [
        {"exchange_id": 1, "topic": "a", "partition": 0},
        {"exchange_id": 1, "topic": "a", "partition": 1},
        {"exchange_id": 1, "topic": "b", "partition": 0},
        {"exchange_id": 2, "topic": "b", "partition": 0},
    ]
    exchanges = [exchange(1, "Produce", 5), exchange(2, "Produce", 3)]
    rows = asked("latency", tmp_path, {"by": ["topic"]}, exchanges=exchanges, partitions=partitions)
    assert sorted((row["topic"], row["exchanges"]) for row in rows) == [("a", 1), ("b", 2)]


def test_windows_are_in_the_order_of_time_and_begin_at_whole_ones(tmp_path: Path) -> None:
    exchanges = [exchange(number, "Fetch", 9 - number, at_s=number * 0.4) for number in range(6)]
    options = {"by": ["window"], "window": 1_000_000_000}
    rows = asked("latency", tmp_path, options, exchanges=exchanges)
    assert [(row["window"].timestamp() - START / 1e9, row["exchanges"]) for row in rows] == [
        (0, 3), (1, 2), (2, 1),
    ]  # fmt: skip


def test_clients_and_brokers_are_those_of_the_connection(tmp_path: Path) -> None:
    exchanges = [
        exchange(1, "Fetch", 4, client_id="one"),
        exchange(2, "Fetch", 2, client_id="two", connection_id=2),
    ]
    rows = asked(
        "latency",
        tmp_path,
        {"by": ["client", "client_ip", "broker"]},
        exchanges=exchanges,
        connections=[connection(1), connection(2, "10.0.0.2")],
    )
    assert [(row["client"], row["client_ip"], row["broker"]) for row in rows] == [
        ("one", "10.0.0.1", "10.0.0.9:9092"),
        ("two", "10.0.0.2", "10.0.0.9:9092"),
    ]


def test_retransmissions_have_columns_of_their_own(tmp_path: Path) -> None:
    exchanges = [exchange(1, "Fetch", 4), exchange(2, "Fetch", 400, retransmits=2)]
    (row,) = asked("latency", tmp_path, exchanges=exchanges)
    assert (row["retransmitted"], row["retransmitted_p99_ns"]) == (1, 400 * MS)


def test_a_condition_chooses_the_exchanges(tmp_path: Path) -> None:
    tables = write_tables(tmp_path, exchanges=[exchange(1, "Fetch"), exchange(2, "Produce")])
    found = kdissect.analyse("latency", tables, where="api = 'Fetch' -- and nothing else")
    assert found.to_arrow()["api"].to_pylist() == ["Fetch"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": ["colour"]}, "cannot group by 'colour'"),
        ({"top": 3}, "has no option 'top'"),
        ({"where": "nonsense ="}, "--where 'nonsense =': Parser Error"),
    ],
)
def test_unknown_names_are_an_error(tmp_path: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(KdissectError, match=said):
        kdissect.analyse("latency", write_tables(tmp_path), **options)


def test_there_are_only_some_questions() -> None:
    with pytest.raises(KdissectError, match="no question 'meaning'; there are: latency"):
        kdissect.analyse("meaning", QUICKSTART)


def test_capture_and_its_tables_give_equal_answers(tmp_path: Path) -> None:
    kdissect.write(QUICKSTART, tmp_path / "tables")
    of_capture = kdissect.analyse("latency", QUICKSTART, by=["api", "client"])
    of_tables = kdissect.analyse("latency", tmp_path / "tables", by=["api", "client"])
    assert of_capture.to_arrow() == of_tables.to_arrow()
    assert of_capture.balance is not None
    assert of_tables.balance is None


def test_the_slowest_have_their_packets(tmp_path: Path) -> None:
    exchanges = [exchange(number, "Fetch", number) for number in range(1, 30)]
    options = {"number": 3}
    rows = asked("slowest", tmp_path, options, exchanges=exchanges, connections=[connection()])
    assert [(row["latency_ns"] // MS, row["request_packet"]) for row in rows] == [
        (29, 58), (28, 56), (27, 54),
    ]  # fmt: skip
    assert rows[0]["broker"] == "10.0.0.9:9092"


@pytest.mark.parametrize("number", range(4))
def test_a_broker_is_silent_between_its_responses_to_anyone(number: int, tmp_path: Path) -> None:
    """Compared with each exchange's own look at all times; a condition hides no response."""
    chance = random.Random(f"{SEED} {number}")
    exchanges = []
    for at in range(1, 60):
        row = exchange(
            at, chance.choice(["Fetch", "Produce"]), chance.choice([1, 20, 150, 700, 3000]),
            chance.uniform(0, 8), connection_id=chance.choice([1, 2, 3]),
        )  # fmt: skip
        unanswered = {"outcome": "unanswered", "response_start": None, "response_end": None}
        orphan = {"outcome": "orphan", "request_start": None, "request_end": None}
        lost = {"latency_ns": None, "work_ns": None}
        exchanges.append({**row, **chance.choice([{}] * 8 + [unanswered | lost, orphan | lost])})
    connections = [connection(1), connection(2), connection(3, broker_ip="10.0.0.8")]
    for where in (None, "api = 'Fetch'"):
        place = tmp_path / str(where is None)
        with tables_of(place, where, exchanges=exchanges, connections=connections) as tables:
            found = ask(QUESTIONS["slowest"], tables, {"number": 100}).to_pylist()
        assert found
        expected = {row["exchange_id"]: silence_of(row, exchanges) for row in exchanges}
        told = {row["exchange_id"]: row["silent_ns"] for row in found}
        assert told == {name: expected[name] for name in told}, f"seed {SEED}"
        assert any(told.values())


def silence_of(row: Row, exchanges: list[Row]) -> int | None:
    """Longest time without a response of the broker while the exchange waited."""
    if row["outcome"] != "answered":
        return None
    brokers = {1: "a", 2: "a", 3: "b"}
    begin, end = row["request_end"], row["response_start"]
    inside = sorted(
        other["response_start"]
        for other in exchanges
        if brokers[other["connection_id"]] == brokers[row["connection_id"]]
        and begin < (other["response_start"] or 0) < end
    )
    longest: int = max(later - earlier for earlier, later in pairwise([begin, *inside, end]))
    return longest if longest >= 100 * MS else None
