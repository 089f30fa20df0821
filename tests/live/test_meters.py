"""`Meters` compared with DuckDB on the same rows."""

import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from kdissect.live.counting.addresses import Addresses
from kdissect.live.counting.columns import NAMES_LIMIT, OTHER_NAMES
from kdissect.live.counting.latency_groups import timed, whole_of
from kdissect.live.counting.merged_buckets import MergedBuckets
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.partial_aggregates import fold
from kdissect.live.counting.slowest import slowest
from kdissect.live.counting.snapshot import Failing, Focus, Slow, Timed
from kdissect.live.listener import Listener
from kdissect.live.watcher import Watcher
from kdissect.sources.recorded_source import RecordedSource
from tests.live.made_rows import (
    MS,
    SECOND,
    START,
    batch,
    exchange,
    filled,
    given,
    handed,
    many,
    partition,
    seconds,
    status,
    texts,
)
from tests.seeds import SEED

CAPTURES = Path(__file__).parent.parent.parent / "captures"
NAMES = (
    "quickstart.pcapng", "incident-group-changes-4.3.1.pcapng", "old-formats-0.10.2.2.pcapng",
    "incident-lossy-network-4.3.1.pcapng", "incident-slow-leader-4.3.1.pcapng",
    "cluster-3.9.1.pcapng",
)  # fmt: skip
TOLERANCE = 1 / 256
TIMED = """
    SELECT {name} AS name, count(*), count(*) FILTER (error_count > 0), sum({up}), sum({down}),
           quantile_cont(latency_ns, [0.5, 0.95, 0.99]), max(latency_ns)
    FROM {rows} GROUP BY ALL
"""
# An exchange names a topic once, however many of its partitions it names.
BY_TOPIC = """(
    SELECT coalesce(topic, topic_id, '') AS topic, exchange_id,
           CAST(bool_or(coalesce(p.error_code, 0) != 0) AS INT) AS error_count,
           any_value(latency_ns) AS latency_ns,
           sum(CASE WHEN any_value_api THEN coalesce(p.record_bytes, 0) ELSE 0 END) AS up,
           sum(CASE WHEN any_value_api THEN 0 ELSE coalesce(p.record_bytes, 0) END) AS down
    FROM partitions p JOIN (SELECT *, api IN ('Produce', 'MultiProduce') AS any_value_api
                            FROM exchanges) USING (exchange_id)
    WHERE {where}
    GROUP BY ALL
)"""


class Rows(Listener):
    """Keeps all rows."""

    tables = Meters.tables

    def __init__(self) -> None:
        self.batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in self.tables}

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        self.batches[table].append(batch)

    def database(self) -> duckdb.DuckDBPyConnection:
        database = duckdb.connect()
        for name, batches in self.batches.items():
            made = batches or [batch(name, [])]
            database.register(name, pa.Table.from_batches([plain(each) for each in made]))
        database.sql("CREATE VIEW named AS FROM partitions")
        return database


PERCENTILES = ("p50_ns", "p95_ns", "p99_ns")


def plain(made: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries of batches differ."""
    fields = [
        pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type)
        for f in made.schema
    ]
    return made.cast(pa.schema(fields))


def replayed(path: Path, meters: Meters) -> Rows:
    rows = Rows()
    Watcher(RecordedSource(str(path)), [meters, rows]).run()
    return rows


def expected(rows: Rows, by: str, where: str = "TRUE") -> dict[str, tuple[Any, ...]]:
    """Counts of DuckDB by API, client or topic."""
    exchanges = f"(FROM exchanges WHERE {where})"
    if by == "topic":
        query = TIMED.format(name=by, up="up", down="down", rows=BY_TOPIC.format(where=where))
    else:
        name = f"coalesce({by}, '')" if by else "''"
        query = TIMED.format(name=name, up="request_size", down="response_size", rows=exchanges)
    with rows.database() as database:
        found = database.sql(query).fetchall()
    return {name: rest for name, *rest in found}


def same(found: tuple[Timed, ...], wanted: Mapping[str, Any], window_s: float) -> None:
    assert {one.name for one in found} == set(wanted)
    for one in found:
        count, errors, up, down, quantiles, longest = wanted[one.name]
        rates = (one.rate, one.errors, one.bytes_to_broker, one.bytes_to_client)
        counts = [round(rate * window_s, 6) for rate in rates]
        assert counts == [count, errors, up or 0, down or 0], one.name
        assert one.max_ns == (-1 if longest is None else longest)
        for got, exact in zip(
            (one.p50_ns, one.p95_ns, one.p99_ns), quantiles or (-1, -1, -1), strict=True
        ):
            assert abs(got - exact) <= TOLERANCE * abs(exact), one.name


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_percentiles_of_a_capture_are_those_of_its_rows(name: str) -> None:
    meters = Meters(window_s=100_000)
    rows = replayed(CAPTURES / name, meters)
    snapshot = meters.snapshot()
    window = snapshot.window_s
    same((snapshot.whole,), expected(rows, ""), window)
    same(snapshot.apis, expected(rows, "api"), window)
    same(snapshot.clients, expected(rows, "client_id"), window)
    same(snapshot.topics, expected(rows, "topic"), window)
    assert not snapshot.is_sampled
    assert round(snapshot.packets_rate * window) == snapshot.status.balance.packets
    with rows.database() as database:
        wanted = database.sql("SELECT name, api, count(*) FROM errors JOIN exchanges"
                              " USING (exchange_id) GROUP BY ALL").fetchall()  # fmt: skip
    assert {(one.error, one.api, one.errors) for one in snapshot.errors} == set(wanted)


@pytest.mark.parametrize("focus", [Focus(api="Fetch"), Focus(client="app"), Focus(topic="orders")])
def test_a_focus_leaves_the_exchanges_it_is_on_and_nothing_else(focus: Focus) -> None:
    meters = Meters()
    rows = Rows()
    random = np.random.default_rng(SEED)
    made = [
        exchange(
            number,
            ("Produce", "Fetch")[number % 2],
            float(random.exponential(5)),
            client_id=(None, "app", "other")[number % 3],
        )
        for number in range(1, 500)
    ]
    named = [
        partition(number, topic, record_bytes=number, error_code=0)
        for number in range(1, 500)
        for topic in ("orders", "payments")[: number % 4 % 3]
    ]
    given(meters, handed({"exchanges": made, "partitions": named}))
    given(rows, handed({"exchanges": made, "partitions": named}))
    meters.tick(status(1))
    snapshot = meters.snapshot(focus)
    conditions = {
        "api": f"api = '{focus.api}'",
        "client": f"client_id = '{focus.client}'",
        "topic": f"exchange_id IN (FROM named SELECT exchange_id WHERE topic = '{focus.topic}')",
    }
    where = next(conditions[field] for field, value in focus._asdict().items() if value)
    window = snapshot.window_s
    same((snapshot.whole,), expected(rows, "", where), window)
    same(snapshot.apis, expected(rows, "api", where), window)
    same(snapshot.clients, expected(rows, "client_id", where), window)
    topics = expected(rows, "topic", where)
    if focus.topic:
        topics = {focus.topic: topics[focus.topic]}
    same(snapshot.topics, topics, window)
    assert snapshot.focus == focus
    assert {slow.topic for slow in snapshot.slowest} <= {"", "orders", "payments"}


def test_focus_on_an_unknown_name_shows_nothing() -> None:
    meters = Meters()
    given(meters, handed({"exchanges": [exchange(1)]}))
    meters.tick(status(1))
    snapshot = meters.snapshot(Focus(client="nobody"))
    assert snapshot.whole == Timed("", 0, 0, 0, 0, -1, -1, -1, -1)
    lists = (snapshot.apis, snapshot.clients, snapshot.topics, snapshot.slowest)
    assert lists == ((), (), (), ())


def test_before_the_first_tick_there_is_nothing_to_show() -> None:
    snapshot = Meters().snapshot()
    assert snapshot.whole.rate == 0
    assert (snapshot.apis, snapshot.slowest, snapshot.groups) == ((), (), ())


def test_rates_are_of_the_time_in_which_rows_came() -> None:
    meters = Meters(window_s=10)
    meters.tick(status(0, packets=1000))
    for second in range(1, 4):
        given(meters, handed({"exchanges": [exchange(second * 10 + i) for i in range(5)]}))
        meters.tick(status(second, packets=1000 + second * 20))
    snapshot = meters.snapshot()
    assert (snapshot.window_s, snapshot.whole.rate, snapshot.packets_rate) == (3, 5, 1060 / 3)


def test_rows_older_than_the_window_are_gone() -> None:
    meters = Meters(window_s=10)
    meters.tick(status(0))
    for second in range(1, 31):
        given(meters, handed({"exchanges": [exchange(second, f"Api{second}")]}))
        meters.tick(status(second))
    snapshot = meters.snapshot()
    assert {api.name for api in snapshot.apis} == {f"Api{second}" for second in range(21, 31)}
    assert (snapshot.window_s, snapshot.whole.rate, snapshot.is_sampled) == (10, 1, False)


def test_with_more_rows_than_kept_a_shorter_window_is_reported() -> None:
    meters = Meters(window_s=60, kept_rows=1000)
    meters.tick(status(0))
    for second, rows in enumerate(seconds(20, 300), 1):
        given(meters, rows._asdict())
        meters.tick(status(second))
    snapshot = meters.snapshot()
    assert snapshot.is_sampled
    assert (snapshot.window_s, snapshot.whole.rate) == (3, 300)
    for second in range(21, 79):
        meters.tick(status(second))
    assert not meters.snapshot().is_sampled


def test_of_more_rows_in_a_second_than_are_kept_the_last_ones_are_and_rates_stay_right() -> None:
    meters = Meters(kept_rows=1000)
    meters.tick(status(0))
    rows = many(10_000)
    given(meters, rows._asdict())
    meters.tick(status(2, packets=50_000))
    snapshot = meters.snapshot()
    assert snapshot.is_sampled
    kept = round(snapshot.whole.rate * snapshot.window_s)
    assert 900 <= kept <= 1000
    assert snapshot.whole.rate == pytest.approx(5000, rel=0.01)
    assert snapshot.packets_rate == pytest.approx(25_000, rel=0.01)


def test_a_clock_that_goes_back_begins_anew() -> None:
    meters = Meters()
    given(meters, handed({"exchanges": [exchange(1, "Fetch")]}))
    meters.tick(status(1_000_000))
    given(meters, handed({"exchanges": [exchange(1, "Produce")]}))
    meters.tick(status(1))
    assert [api.name for api in meters.snapshot().apis] == ["Produce"]


def test_the_slowest_are_those_that_did_not_ask_to_wait() -> None:
    meters = Meters()
    rows = [
        exchange(1, "Fetch", 500, wait_ns=499 * MS, connection_id=7),
        exchange(2, "Produce", 30, queue_ns=20 * MS, error="NOT_LEADER_OR_FOLLOWER"),
        exchange(3, "Produce", 3),
        exchange(4, "Produce", 3, outcome="unanswered", latency_ns=None, response_start=None),
    ]
    ended = [{"connection_id": 7, "client_ip": "::1", "client_port": 50_000,
              "broker_ip": "::2", "broker_port": 9092}]  # fmt: skip
    topics = [partition(2, "a"), partition(2, "b")]
    given(meters, handed({"exchanges": rows, "partitions": topics, "connections": ended}))
    meters.tick(status(1))
    slowest = meters.snapshot().slowest
    assert [one.exchange_id for one in slowest] == [2, 3, 1]
    assert slowest[0] == Slow(
        2, START + 2 * MS, "Produce", "app", "a", 30 * MS, 20 * MS, 0, 100, 50,
        "NOT_LEADER_OR_FOLLOWER", "",
    )  # fmt: skip
    assert (slowest[2].wait_ns, slowest[2].client_address) == (499 * MS, "[::1]:50000")


def test_an_error_is_shown_with_where_it_was_met_last() -> None:
    meters = Meters()
    rows = [exchange(number, error_count=1, client_id=f"c{number}") for number in range(1, 4)]
    errors = [
        {"exchange_id": number, "name": "NOT_LEADER_OR_FOLLOWER", "code": 6, "is_retriable": True,
         "topic": f"t{number}"}
        for number in range(1, 4)
    ]  # fmt: skip
    other = {"exchange_id": 1, "name": "UNKNOWN_SERVER_ERROR", "code": -1, "is_retriable": False}
    given(meters, handed({"exchanges": rows, "errors": [*errors, other]}))
    meters.tick(status(1))
    snapshot = meters.snapshot()
    assert snapshot.errors == (
        Failing("NOT_LEADER_OR_FOLLOWER", "Produce", 3, 3 / snapshot.window_s, True,
                START + 4 * MS, "c3", "t3"),
        Failing("UNKNOWN_SERVER_ERROR", "Produce", 1, 1 / snapshot.window_s, False,
                START + 2 * MS, "c1", ""),
    )  # fmt: skip
    assert snapshot.whole.errors * snapshot.window_s == 3


def test_a_topic_named_twice_in_a_message_is_one_topic_of_it() -> None:
    meters = Meters()
    named = [
        partition(1, "a", record_bytes=1), partition(1, "b", record_bytes=2),
        partition(1, "a", record_bytes=4),
    ]  # fmt: skip
    given(meters, handed({"exchanges": [exchange(1)], "partitions": named}))
    meters.tick(status(1))
    topics = {one.name: (one.rate, one.bytes_to_broker) for one in meters.snapshot().topics}
    window = meters.snapshot().window_s
    assert topics == {"a": (1 / window, 5 / window), "b": (1 / window, 2 / window)}


def test_problems_are_those_of_the_whole_run_the_most_frequent_first() -> None:
    meters = Meters()
    meters.tick(status(1, problems={"late": 1, "dropped-packets": 5}))
    assert meters.snapshot().problems == (("dropped-packets", 5), ("late", 1))


def snapshot_size(meters: Meters) -> int:
    tracemalloc.start()
    meters.snapshot()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def renamed(first: int, count: int) -> dict[str, pa.RecordBatch]:
    """Exchanges with a client and a topic of their own each."""
    ids = np.arange(first, first + count)
    clients, topics = ([f"{kind}-{number}" for number in ids] for kind in ("client", "topic"))
    answered = texts(np.zeros(count, np.int32), ["answered"])
    exchanges = {"exchange_id": ids, "client_id": texts(np.arange(count), clients),
                 "outcome": answered}  # fmt: skip
    named = {"exchange_id": ids, "topic": texts(np.arange(count), topics)}
    return {"exchanges": filled("exchanges", exchanges, count),
            "partitions": filled("partitions", named, count)}  # fmt: skip


def test_names_that_come_and_go_do_not_pile_up() -> None:
    meters = Meters(window_s=2)
    most = 0
    for second in range(50):
        given(meters, renamed(second * 2000, 2000))
        meters.tick(status(second + 1))
        most = max(most, len(meters._window.names.clients))
    assert most <= 10_000 + (2 + 10) * 2000
    snapshot = meters.snapshot()
    assert (snapshot.clients_seen, snapshot.topics_seen) == (4000, 4000)
    assert all(int(one.name.split("-")[1]) >= 96_000 for one in snapshot.clients)
    assert all(int(one.name.split("-")[1]) >= 96_000 for one in snapshot.topics)
    assert len(snapshot.clients) <= 400


def test_more_names_than_there_is_room_for_share_one_and_make_room_later() -> None:
    meters = Meters(window_s=3)
    for second in range(30):
        # More new names than there are places, and then a calm client.
        if second < 5:
            given(meters, renamed(second * 30_000, 30_000))
        else:
            given(meters, handed({"exchanges": [exchange(second, client_id="calm")]}))
        meters.tick(status(second + 1))
        if second == 4:
            crowded = meters.snapshot()
    assert crowded.clients[0].name == OTHER_NAMES
    assert crowded.clients_seen <= NAMES_LIMIT + 1
    calm = meters.snapshot()
    assert [(one.name, one.rate) for one in calm.clients] == [("calm", 1)]
    assert len(meters._window.names.clients) < 10_000


def test_names_of_any_length_take_bounded_memory() -> None:
    meters = Meters()
    name = "x" * 32_767
    given(meters, handed({"exchanges": [exchange(1, client_id=name)]}))
    meters.tick(status(1))
    shown = meters.snapshot().clients[0].name
    assert shown == "x" * 254 + "…"
    assert meters.snapshot(Focus(client=shown)).whole.rate > 0


@pytest.mark.slow
def test_memory_of_meters_and_snapshots_is_bounded() -> None:
    meters = Meters(window_s=60, kept_rows=50_000)
    sizes = []
    tracemalloc.start()
    for second, rows in enumerate(seconds(40, 5000)):
        given(meters, rows._asdict())
        meters.tick(status(second + 1))
        del rows
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    # 50 000 exchanges and as many topics in them at 110 bytes.
    assert max(sizes[20:]) - sizes[0] < 16_000_000
    assert abs(sizes[-1] - sizes[20]) < 1_000_000
    assert snapshot_size(meters) < 40_000_000


def test_rows_of_one_tick_may_come_in_several_batches() -> None:
    whole, parts = Meters(), Meters()
    rows = [exchange(number) for number in range(10)]
    named = [partition(number, f"t{number % 3}", record_bytes=5) for number in range(10)]
    given(whole, handed({"exchanges": rows, "partitions": named}))
    for part in (slice(0, 4), slice(4, 10)):
        parts.take("exchanges", batch("exchanges", rows[part]))
    for part in (slice(0, 7), slice(7, 10)):
        parts.take("partitions", batch("partitions", named[part]))
    whole.tick(status(1))
    parts.tick(status(1))
    assert whole.snapshot() == parts.snapshot()


def test_seconds_are_those_of_the_packets_clock() -> None:
    meters = Meters()
    meters.tick(status(0))
    given(meters, handed({"exchanges": [exchange(1)]}))
    meters.tick(status(3600))
    assert meters.snapshot().window_s == 60
    assert meters.snapshot().status.now_ns == START + 3600 * SECOND


def assert_same(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Percentiles are exact in a time bucket of few exchanges, and within 0.4 % of many."""
    assert len(found) == len(wanted)
    for one in wanted:
        near = {name: pytest.approx(getattr(one, name), rel=0.004) for name in PERCENTILES}
        assert any(other._asdict() == {**one._asdict(), **near} for other in found)


def test_sums_of_seconds_equal_counts_of_the_whole() -> None:
    meters = Meters(window_s=8)
    meters.tick(status(0))
    for second, rows in enumerate(seconds(12, 3000), 1):
        given(meters, rows._asdict())
        meters.tick(status(second))
        # Seconds are counted while they come, and not again.
        snapshot = meters.snapshot()
    joined = MergedBuckets(meters._window.buckets, meters._window.names)
    once = fold(joined)
    names = joined.names
    assert len(joined.buckets) == 8
    for found, words, parts in (
        (snapshot.apis, names.apis.texts, once.apis),
        (snapshot.clients, names.clients.texts, once.clients),
        (snapshot.topics, names.topics.texts, once.topics),
    ):
        assert_same(found, timed(parts, words, snapshot.window_s))
    assert_same([snapshot.whole], [whole_of(once.apis, snapshot.window_s)])
    addresses = Addresses({}, joined.connections(), names.addresses)
    assert snapshot.slowest == slowest(joined, once.slowest, addresses)
    assert len(snapshot.slowest) == 50


def test_with_a_topic_in_focus_errors_of_other_topics_are_not_shown() -> None:
    meters = Meters()
    errors = [
        {"exchange_id": 1, "name": name, "topic": topic}
        for name, topic in (("A", "orders"), ("B", "payments"), ("C", None))
    ]
    named = [partition(1, "orders"), partition(1, "payments")]
    batches = {"exchanges": [exchange(1, error_count=3)], "partitions": named, "errors": errors}
    given(meters, handed(batches))
    meters.tick(status(1))
    snapshot = meters.snapshot(Focus(topic="orders"))
    assert {(one.error, one.topic) for one in snapshot.errors} == {("A", "orders"), ("C", "")}
    assert snapshot.slowest[0].topic == "orders"


def test_between_two_ticks_a_snapshot_is_counted_once() -> None:
    meters = Meters()
    assert meters.snapshot() is meters.snapshot()
    given(meters, handed({"exchanges": [exchange(1)]}))
    first = meters.snapshot()
    meters.tick(status(1))
    second = meters.snapshot()
    assert second is meters.snapshot()
    assert (len(first.apis), len(second.apis)) == (0, 1)
    assert meters.snapshot(Focus(api="Fetch")).apis == ()
    assert meters.snapshot() == second
