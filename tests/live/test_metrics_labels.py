"""Labels and first values of the page, as a scraper sees them from page to page."""

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kdissect.live.counting.first_pages import YOUNG_S, FirstPages
from kdissect.live.counting.grace import MAXIMUM_NS, MINIMUM_NS, Grace
from kdissect.live.counting.label_names import IDLE_NS
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.http_server import Server
from kdissect.live.watcher import Watcher
from kdissect.sources.recorded_source import RecordedSource
from tests.live.made_rows import MS, SECOND, batch, exchange, given, handed, partition, status
from tests.live.test_metrics import ROOT, by, first_page, page, samples, served
from tests.seeds import SEED

MINUTE_S = 60.0


def failed(number: int, **more: Any) -> dict[str, Any]:
    row = {"exchange_id": number, "connection_id": 1, "code": 6, "is_retriable": True}
    return row | {"name": "NOT_LEADER_OR_FOLLOWER", "topic": "orders"} | more


def increase(pages: list[str], name: str) -> float:
    """Input of PromQL's increase(): differences of adjacent samples of each series."""
    total = 0.0
    for before, after in pairwise(pages):
        old = {key: value for key, value in samples(before).items() if key[0] == name}
        for key, value in samples(after).items():
            if key in old:
                total += value - old[key] if value >= old[key] else value
    return total


@pytest.mark.parametrize(
    "name",
    [
        "kdissect_errors_total", "kdissect_client_errors_total", "kdissect_topic_errors_total",
        "kdissect_exchanges_total", "kdissect_latency_seconds_count", "kdissect_all_errors_total",
        "kdissect_problems_total", "kdissect_all_problems_total",
    ],
)  # fmt: skip
def test_the_first_burst_of_a_series_is_an_increase(name: str) -> None:
    draw = random.Random(f"{SEED} {name}")
    metrics = MetricsListener()
    burst = draw.randint(1, 50)
    with served(metrics) as server:
        metrics.tick(status(0))
        pages = [first_page(server)]
        rows = [exchange(number, error_count=1, error_code=6) for number in range(burst)]
        given(metrics, handed({"exchanges": rows, "errors": [failed(n) for n in range(burst)]}))
        metrics.tick(status(1, problems={"resync": burst}))
        pages += [first_page(server) for _ in range(draw.randint(2, 4))]
    assert increase(pages, name) == burst, f"seed {SEED}"


def test_each_scraper_has_a_first_page_of_its_own() -> None:
    pages = FirstPages(0.0)
    key = ("kdissect_errors", ("Produce", "X"))
    one, two = ("10.0.0.1", "Prometheus/2.42"), ("10.0.0.2", "Prometheus/2.42")
    assert pages.new_on([], one, 1) == pages.new_on([], two, 2) == set()
    assert pages.new_on([key], one, 16) == {key}
    assert pages.new_on([key], two, 17) == {key}
    assert pages.new_on([key], one, 31) == pages.new_on([key], two, 32) == set()


def test_a_scraper_that_comes_late_gets_the_counts_at_once() -> None:
    key = ("kdissect_errors", ("Produce", "X"))
    assert FirstPages(0.0).new_on([key], ("10.0.0.1", ""), YOUNG_S) == {key}
    assert FirstPages(0.0).new_on([key], ("10.0.0.1", ""), YOUNG_S + 1) == set()


def test_many_scrapers_take_no_memory() -> None:
    pages = FirstPages(0.0)
    for number in range(100):
        pages.new_on([("kdissect_errors", ())], (f"10.0.0.{number}", ""), float(number))
    assert len(pages._pages) == 8


def test_totals_without_labels_are_there_before_anything_comes() -> None:
    metrics = MetricsListener()
    metrics.tick(status(0))
    with served(metrics) as server:
        found = samples(first_page(server))
    totals = {name: value for (name, labels), value in found.items() if "_all_" in name}
    assert totals == dict.fromkeys(
        (
            "kdissect_all_exchanges_total", "kdissect_all_unanswered_total",
            "kdissect_all_errors_total", "kdissect_all_problems_total", "kdissect_all_shed_total",
        ), 0,
    )  # fmt: skip


def test_totals_equal_sums_over_labels() -> None:
    metrics = MetricsListener()
    Watcher(RecordedSource(str(ROOT / "captures" / "incident-leader-killed-4.3.1.pcapng")),
            [metrics]).run()  # fmt: skip
    with served(metrics) as server:
        found = samples(page(server))
    for what in ("exchanges", "errors", "problems"):
        total = found[f"kdissect_all_{what}_total", frozenset()]
        assert total == sum(by(found, f"kdissect_{what}_total").values())
        assert total > 0 or what == "problems"
    outcomes = by(found, "kdissect_exchanges_total", "outcome")
    assert found["kdissect_all_unanswered_total", frozenset()] == outcomes[("unanswered",)]


def test_the_id_of_a_topic_without_a_name_is_no_label() -> None:
    metrics = MetricsListener(labels=3)
    ids = [{"topic": None, "topic_id": f"id-{number}"} for number in range(130)]
    rows = [partition(number, **one, record_bytes=10) for number, one in enumerate(ids)]
    rows += [partition(130 + number, f"t{number}", record_bytes=7) for number in range(3)]
    exchanges = [exchange(number) for number in range(133)]
    errors = [failed(number, **one) for number, one in enumerate(ids)]
    given(metrics, handed({"exchanges": exchanges, "partitions": rows, "errors": errors}))
    metrics.tick(status(1))
    with served(metrics) as server:
        found = samples(page(server))
    assert by(found, "kdissect_topic_bytes_total", "topic") == {
        ("none",): 1300, ("t0",): 7, ("t1",): 7, ("t2",): 7,
    }  # fmt: skip
    assert by(found, "kdissect_topic_errors_total", "topic") == {}
    assert by(found, "kdissect_errors_total", "error") == {("NOT_LEADER_OR_FOLLOWER",): 130}


def page_at(server: Server, metrics: MetricsListener, at_s: float, clients: list[str]) -> Any:
    rows = [exchange(number, client_id=name) for number, name in enumerate(clients)]
    given(metrics, {"exchanges": batch("exchanges", rows)})
    metrics.tick(status(at_s))
    return by(samples(page(server)), "kdissect_exchanges_total", "client")


def test_a_name_that_is_idle_makes_room_for_a_new_one() -> None:
    idle_s = IDLE_NS / SECOND
    metrics = MetricsListener(labels=2)
    with served(metrics) as server:
        assert page_at(server, metrics, 0, ["a", "b", "b"]) == {("a",): 1, ("b",): 2}
        there = page_at(server, metrics, idle_s - 1, ["a", "c"])
        assert there == {("a",): 2, ("b",): 2, ("other",): 1}
        # b is idle now, and c takes its place, with nothing of b.
        there = page_at(server, metrics, idle_s, [])
        there = page_at(server, metrics, idle_s + 1, ["c", "c", "d"])
        assert there == {("a",): 2, ("c",): 2, ("other",): 2}
        found = samples(page(server))
        assert by(found, "kdissect_label_names_left_out", "label") == {("client",): 1}
        # Series that return start from zero: Prometheus takes that for a restart.
        there = page_at(server, metrics, 3 * idle_s, [])
        there = page_at(server, metrics, 3 * idle_s + 1, ["b"])
        assert there[("b",)] == 1


def test_counts_of_names_that_come_and_go_are_those_of_their_rows() -> None:
    draw = random.Random(SEED)
    metrics = MetricsListener(labels=5)
    counted: dict[str, int] = {}
    all_rows = 0
    at_s = 0.0
    with served(metrics) as server:
        for _ in range(40):
            at_s += draw.choice([1.0, MINUTE_S, 20 * MINUTE_S])
            clients = [f"c{draw.randrange(12)}" for _ in range(draw.randrange(6))]
            for name in clients:
                counted[name] = counted.get(name, 0) + 1
            all_rows += len(clients)
            there = page_at(server, metrics, at_s, clients)
            assert len(there) <= 6, f"seed {SEED}"
            assert all(there[key] <= counted[key[0]] for key in there if key != ("other",))
        total = samples(page(server))["kdissect_all_exchanges_total", frozenset()]
    # The total loses nothing when a name's series ends.
    assert total == all_rows, f"seed {SEED}"


def test_grace_is_the_percentile_that_numpy_gives_within_a_quarter() -> None:
    draw = np.random.default_rng(SEED)
    for _ in range(20):
        count = int(draw.integers(1, 5000))
        spent = np.exp(draw.normal(draw.uniform(15, 24), draw.uniform(0.1, 2), count))
        wait = draw.integers(0, 500, count) * MS
        rows = [
            exchange(number, latency_ms=float(took + waits) / MS, wait_ns=int(waits))
            for number, (took, waits) in enumerate(zip(spent, wait, strict=True))
        ]
        metrics = MetricsListener()
        given(metrics, {"exchanges": batch("exchanges", rows)})
        metrics.tick(status(1))
        exact = float(np.quantile(spent, 0.999, method="inverted_cdf"))
        grace = metrics._waiting.grace.of("Produce")
        low, high = min(max(exact, MINIMUM_NS), MAXIMUM_NS), exact * 1.26
        assert low * 0.999 <= grace <= max(high, MINIMUM_NS), f"seed {SEED}"
        assert metrics._waiting.grace.of("Fetch") == MINIMUM_NS


def test_grace_forgets() -> None:
    metrics = MetricsListener()
    given(metrics, handed({"exchanges": [exchange(1, latency_ms=30_000)]}))
    metrics.tick(status(1))
    grace: Grace = metrics._waiting.grace
    assert grace.of("Produce") >= 30 * SECOND
    # A percentile is computed from the rows, so later rows replace the dropped ones.
    for second in range(600):
        given(metrics, handed({"exchanges": [exchange(n, latency_ms=5) for n in range(30)]}))
        metrics.tick(status(2 + second))
    assert grace.of("Produce") == MINIMUM_NS


def test_the_parser_takes_the_first_page() -> None:
    metrics = MetricsListener()
    given(metrics, handed({"exchanges": [exchange(1)]}))
    metrics.tick(status(1))
    with served(metrics) as server:
        text = first_page(server)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    buckets = families["kdissect_latency_seconds"].samples
    assert {sample.value for sample in buckets} == {0.0}
