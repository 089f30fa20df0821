"""Metrics that only the wire gives, compared with DuckDB on the tables of the same capture."""

import random
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kdissect
from kdissect.live.counting.counters import GroupCounts
from kdissect.live.counting.label_names import IDLE_NS
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.counting.samples import LAG, LAG_PARTITIONS
from kdissect.live.counting.tcp_counts import SIDES, TcpCounts
from kdissect.live.counting.waiting import AGES, Waiting
from kdissect.live.counting.wire_counts import MECHANISMS
from kdissect.live.turns import Turns
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options, make_dissector
from kdissect.sources.recorded_source import RecordedSource
from kdissect.streams.events import Connection
from kdissect.tables.schemas import TABLES
from kdissect.tls.records import Mark
from kdissect.tls.reports import ALERTS, TLS_ALERT, Reports
from tests.conversation import Conversation, conversation
from tests.exchange_builders import request
from tests.live.made_rows import SECOND, START, GivenWire, exchange, given, handed, status
from tests.live.replays import CAPTURES
from tests.live.test_meters_waiting import PRODUCE
from tests.live.test_metrics import by, page, samples, served
from tests.seeds import SEED

SWEPT = sorted([*CAPTURES.glob("*.pcapng"), *CAPTURES.glob("tls/*.pcapng")])
# Each has something to count: refused connections, logins, quotas, losses, groups, TLS.
CHOSEN = (
    "cluster-3.9.1.pcapng", "sasl-4.3.1.pcapng", "throttling-4.3.1.pcapng",
    "incident-lossy-network-4.3.1.pcapng", "incident-group-changes-4.3.1.pcapng",
    "tls/tls12-4.3.1.pcapng",
)  # fmt: skip
SIDED = """
    SELECT 'client', sum({0}_to_broker) / {1} FROM connections
    UNION ALL SELECT 'broker', sum({0}_to_client) / {1} FROM connections
"""
REFUSED = """
    syn_seen AND rst_by = 'broker' AND handshake_rtt_ns IS NULL AND bytes_to_broker = 0
    AND bytes_to_client = 0
"""
# A connection has the client id of its last request, as far as the capture has any.
OF_CLIENTS = """
    WITH named AS (
        SELECT connection_id, arg_max(client_id, exchange_id) AS client FROM exchanges
        WHERE client_id IS NOT NULL GROUP BY 1
    ), sided AS (
        SELECT connection_id, 'client' AS side, {0}_to_broker AS count FROM connections
        UNION ALL SELECT connection_id, 'broker', {0}_to_client FROM connections
    )
    SELECT coalesce(nullif(client, ''), 'none'), side, sum(count) FROM sided LEFT JOIN named USING
    (connection_id) GROUP BY ALL
"""
# Latencies without long polls, by client and by topic.
BOUNDS = "unnest(['0.001', '0.005', '0.025', '0.1', '0.5', '1', '5', '30', '+Inf']) AS _(bound)"
OWN = """
    WITH own AS (
        SELECT *, greatest(latency_ns - wait_ns, 0) / 1e9 AS own FROM exchanges
        WHERE latency_ns IS NOT NULL AND wait_ns IS NOT NULL
    ), client_rows AS (SELECT [coalesce(nullif(client_id, ''), 'none')] AS key, own FROM own),
    topic_rows AS (
        SELECT DISTINCT exchange_id, [topic, CASE api WHEN 'Produce' THEN 'produced' ELSE 'fetched'
        END] AS key, own FROM own JOIN partitions USING (exchange_id)
        WHERE topic <> '' AND api IN ('Produce', 'Fetch', 'ShareFetch')
    )
    SELECT {0} GROUP BY ALL
"""
BUCKETS = "count(*) FILTER (own <= bound::DOUBLE)"
# The value of each metric by its labels, of the tables.
QUERIES = {
    "kdissect_payload_bytes_total": SIDED.format("payload_bytes", 1),
    "kdissect_retransmitted_segments_total": SIDED.format("retransmitted_segments", 1),
    "kdissect_zero_windows_total": SIDED.format("zero_windows", 1),
    "kdissect_zero_window_seconds_total": SIDED.format("zero_window_ns", 1e9),
    "kdissect_refused_connections_total": f"""
        SELECT count(*) FROM connections WHERE {REFUSED}
    """,  # noqa: S608  # ours
    "kdissect_reset_connections_total": f"""
        SELECT rst_by, count(*) FROM connections WHERE rst_by <> '' AND NOT ({REFUSED}) GROUP BY 1
    """,  # noqa: S608  # ours
    "kdissect_authentication_failures_total":
        "SELECT sasl_mechanism, count(*) FROM connections WHERE sasl_outcome = 'failed' GROUP BY 1",
    "kdissect_tls_alerts_total":
        r"SELECT regexp_extract(message, '^the (\w+) ended', 1), "
        r"regexp_extract(message, 'alert ([a-z_ ]+) \(', 1), count(*) FROM problems "
        "WHERE kind = 'tls-alert' GROUP BY ALL",
    "kdissect_throttle_seconds_total":
        "SELECT coalesce(nullif(client_id, ''), 'none'), sum(throttle_ms) / 1e3 FROM exchanges "
        "WHERE throttle_ms > 0 GROUP BY 1",
    "kdissect_throttled_exchanges_total":
        "SELECT coalesce(nullif(client_id, ''), 'none'), count(*) FROM exchanges "
        "WHERE throttle_ms > 0 GROUP BY 1",
    "kdissect_client_retransmitted_segments_total": OF_CLIENTS.format("retransmitted_segments"),
    "kdissect_client_zero_windows_total": OF_CLIENTS.format("zero_windows"),
    "kdissect_client_latency_seconds_count": OWN.format("key[1], count(*) FROM client_rows"),
    "kdissect_client_latency_seconds_sum": OWN.format("key[1], sum(own) FROM client_rows"),
    "kdissect_topic_latency_seconds_count": OWN.format("key[1], key[2], count(*) FROM topic_rows"),
    "kdissect_topic_latency_seconds_sum": OWN.format("key[1], key[2], sum(own) FROM topic_rows"),
    "kdissect_client_latency_seconds_bucket":
        OWN.format(f"key[1], bound, {BUCKETS} FROM client_rows, {BOUNDS}"),
    "kdissect_topic_latency_seconds_bucket":
        OWN.format(f"key[1], key[2], bound, {BUCKETS} FROM topic_rows, {BOUNDS}"),
    "kdissect_group_events_total":
        "SELECT group_id, event, count(*) FROM members WHERE group_id <> '' GROUP BY ALL",
    "kdissect_group_generation":
        "SELECT group_id, max(generation) FROM members WHERE generation >= 0 AND error IS NULL "
        "AND group_id <> '' GROUP BY 1",
    # Generations above all of before, without the first one.
    "kdissect_group_generation_changes_total": """
        WITH numbered AS (SELECT *, row_number() OVER () AS place FROM members),
        known AS (
            SELECT group_id, generation, max(generation) OVER (
                PARTITION BY group_id ORDER BY place
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before FROM numbered
            WHERE generation >= 0 AND error IS NULL AND group_id <> ''
        )
        SELECT group_id, count(*) FROM known WHERE generation > before GROUP BY 1
    """,
}  # fmt: skip


def of_tables(capture: Path) -> dict[str, dict[tuple[str, ...], float]]:
    """The results of QUERIES without zeros, and the lag of groups."""
    found: dict[str, dict[tuple[str, ...], float]] = of_lag(capture)
    with duckdb.connect() as database:
        for table in ("connections", "exchanges", "members", "partitions", "problems"):
            database.register(table, kdissect.read(str(capture), table=table).to_arrow())
        for name, query in QUERIES.items():
            rows = database.execute(query).fetchall()
            found[name] = {tuple(key): value for *key, value in rows if value}
    return found


def of_lag(capture: Path) -> dict[str, dict[tuple[str, ...], float]]:
    """The lag of each group by the analysis of that name."""
    rows = kdissect.analyse("lag", str(capture), latest=True).to_arrow().to_pylist()
    found: dict[str, dict[tuple[str, ...], float]] = {LAG: {}, LAG_PARTITIONS: {}}
    for row in rows:
        if row["lag"] is not None:
            for name, value in ((LAG, row["lag"]), (LAG_PARTITIONS, 1)):
                key = (row["group_id"],)
                found[name][key] = found[name].get(key, 0) + value
    found[LAG] = {key: value for key, value in found[LAG].items() if value}
    return found


def of_page(metrics: MetricsListener) -> dict[str, dict[tuple[str, ...], float]]:
    """The same of the page that a scraper gets."""
    labels = {
        series: (*one.labels, "le") if series.endswith("_bucket") else one.labels
        for one in declared()
        for series in one.series
    }
    with served(metrics) as server:
        found = samples(page(server))
    return {name: by(found, name, *labels[name]) for name in (*QUERIES, LAG, LAG_PARTITIONS)}


def declared() -> Any:
    from kdissect.live.counting.metric_declarations import METRICS

    return METRICS


def replayed(capture: Path) -> MetricsListener:
    metrics = MetricsListener(labels=1_000)
    with RecordedSource(capture) as packet_source:
        Watcher(packet_source, [metrics]).run()
    return metrics


def assert_equal(capture: Path) -> None:
    shown, expected = of_page(replayed(capture)), of_tables(capture)
    for name in expected:
        assert shown[name] == pytest.approx(expected[name]), f"{capture.name}: {name}"


@pytest.mark.parametrize("name", CHOSEN)
def test_metrics_of_a_replay_are_those_of_its_tables(name: str) -> None:
    assert_equal(CAPTURES / name)


@pytest.mark.sweep
@pytest.mark.parametrize("capture", SWEPT, ids=lambda path: path.name)
def test_metrics_of_any_capture_are_those_of_its_tables(capture: Path) -> None:
    assert_equal(capture)


def test_the_chosen_captures_have_each_kind() -> None:
    """Of zero windows and TLS alerts no capture has any: other tests stage those."""
    told = set[str]()
    for name in CHOSEN:
        told |= {metric for metric, values in of_tables(CAPTURES / name).items() if values}
    staged = {"kdissect_zero_windows_total", "kdissect_zero_window_seconds_total",
              "kdissect_tls_alerts_total", "kdissect_client_zero_windows_total"}  # fmt: skip
    assert told == {*QUERIES, LAG, LAG_PARTITIONS} - staged


@pytest.mark.promtool
def test_promtool_accepts_the_page() -> None:
    metrics = replayed(CAPTURES / "incident-group-changes-4.3.1.pcapng")
    with served(metrics) as server:
        text = page(server)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def zero_windows(is_client: bool) -> Conversation:
    """A side that does not read for a while."""
    talk = conversation().client(PRODUCE).ack(is_client, window=0)
    return talk.ack(is_client, window=0, gap_ns=SECOND // 2).ack(is_client, gap_ns=SECOND // 2)


@pytest.mark.parametrize("is_client", [True, False])
def test_zero_windows_are_of_the_side_that_does_not_read(is_client: bool, tmp_path: Path) -> None:
    (tmp_path / "stalled.pcap").write_bytes(zero_windows(is_client).pcap())
    shown, expected = (
        of_page(replayed(tmp_path / "stalled.pcap")),
        of_tables(tmp_path / "stalled.pcap"),
    )
    side = "client" if is_client else "broker"
    assert shown["kdissect_zero_windows_total"] == {(side,): 2}
    assert shown["kdissect_zero_window_seconds_total"] == {(side,): pytest.approx(1.0)}
    assert shown == {name: pytest.approx(values) for name, values in expected.items()}


def test_counts_of_open_connections_are_there_before_they_end() -> None:
    packets = list(zero_windows(True).packets())
    metrics, counts = MetricsListener(), []

    class Seen(MetricsListener):
        def tick(self, told: Any) -> None:
            metrics.tick(told)
            counts.append(of_page(metrics)["kdissect_zero_windows_total"])

    seen = Seen()
    wire = GivenWire(packets[:-2], packets[-2:])
    watcher = Watcher(wire, [metrics, seen])
    watcher.begin()
    while watcher.step():
        watcher._tick()
    before = list(counts)
    watcher.finish()
    assert before[-1] == counts[-1] == {("client",): 2}


class Open(dict[int, Any]):
    """States of connections with drawn counts."""

    def __init__(self, draw: random.Random, count: int) -> None:
        super().__init__()
        for number in range(count):
            dissector = make_dissector(Options(), collects=False, keeps_frames=False)
            dissector.feed(conversation().client(PRODUCE).packets())
            (self[number],) = dissector.exchanges.states.values()
            for counts in self[number].connection.counts:
                counts.payload_bytes = draw.randrange(10**9)
                counts.retransmitted_segments = draw.randrange(10**6)
                counts.zero_windows = draw.randrange(10**6)
                counts.zero_window_ns = draw.randrange(10**12)

    def row(self, number: int) -> dict[str, Any]:
        client, broker = self.pop(number).connection.counts
        sent = (("to_broker", client), ("to_client", broker))
        names = ("payload_bytes", "retransmitted_segments", "zero_windows", "zero_window_ns")
        return {"connection_id": number} | {
            f"{name}_{way}": getattr(counts, name) for way, counts in sent for name in names
        }

    def sum(self, name: str, side: int) -> int:
        return sum(getattr(one.connection.counts[side], name) for one in self.values())


def test_ended_connections_are_counted_once_whether_they_were_polled_or_not() -> None:
    draw = random.Random(f"{SEED} open")
    states = Open(draw, 12)
    whole = [[states.sum(name, side) for name in ("payload_bytes", "zero_windows")]
             for side in (0, 1)]  # fmt: skip
    counts = TcpCounts(states, polled=5)
    first = counts.look()
    assert 0 < first[0].payload_bytes < whole[0][0]
    numbers = draw.sample(range(12), 7)
    tables = handed({"connections": [states.row(number) for number in numbers]})
    counts.take(tables["connections"])
    told = [counts.look() for _ in range(4)]
    assert [[one.payload_bytes, one.zero_windows] for one in told[-1]] == whole, f"seed {SEED}"
    assert told == sorted(told)
    assert counts._open.keys() == states.keys()


def test_turns_give_every_key_in_turn() -> None:
    keys = dict.fromkeys(range(10))
    turns = Turns(keys, 4)
    assert [turns.next() for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    del keys[2]
    keys[20] = None
    assert [turns.next() for _ in range(3)] == [[2, 3, 4, 5], [6, 7, 8, 9], [0, 1, 3, 4]]
    assert Turns({}, 4).next() == []
    assert Turns({1: 2}, 4).next() == [1]


def alert(side: str, text: str) -> dict[str, Any]:
    return {"stage": "tls", "kind": "tls-alert",
            "message": f"the {side} ended TLS by the alert {text}"}  # fmt: skip


def test_tls_alerts_are_counted_by_side_and_name() -> None:
    metrics = MetricsListener()
    rows = [alert("client", "unknown_ca (48)"), alert("client", "unknown_ca (48)"),
            alert("broker", "unknown alert (200)"), alert("broker", "bad_certificate (42)") |
            {"kind": "other"}, alert("proxy", "x (1)")]  # fmt: skip
    given(metrics, handed({"problems": rows}))
    metrics.tick(status(1))
    assert of_page(metrics)["kdissect_tls_alerts_total"] == {
        ("client", "unknown_ca"): 2, ("broker", "unknown alert"): 1,
    }  # fmt: skip


@pytest.mark.parametrize("code", [*ALERTS, 200])
@pytest.mark.parametrize("is_client", [True, False])
def test_each_alert_that_is_reported_is_one_that_is_counted(code: int, is_client: bool) -> None:
    reports = Reports(Connection(1, 0, b"", 0, 0))
    reports.report_alert(bytes([2, code]), is_client, False, Mark(0, 0, 0, 0, 0))
    match = TLS_ALERT.fullmatch(reports.problems[0].message)
    assert match is not None
    assert match["side"] == ("client" if is_client else "broker")
    assert match["alert"] == ALERTS.get(code, "unknown alert")


def test_labels_of_sides_and_mechanisms_are_there_from_the_start() -> None:
    metrics = MetricsListener()
    metrics.tick(status(0))
    with served(metrics) as server:
        found = samples(page(server))
    for name, label, values in (
        ("kdissect_reset_connections_total", "side", SIDES),
        ("kdissect_retransmitted_segments_total", "side", SIDES),
        ("kdissect_zero_windows_total", "side", SIDES),
        ("kdissect_authentication_failures_total", "mechanism", MECHANISMS),
        ("kdissect_waiting_requests_by_age", "age", [age for age, _ in AGES]),
    ):
        for value in values:
            assert found[name, frozenset({(label, value)})] == 0


@pytest.mark.parametrize("mechanism", ["plain", "\x1b[2J", "", None, "X" * 300, "PLAIN "])
def test_mechanisms_that_nobody_knows_share_a_label(mechanism: str | None) -> None:
    metrics = MetricsListener()
    row = {"connection_id": 1, "sasl_outcome": "failed", "sasl_mechanism": mechanism}
    given(metrics, handed({"connections": [row]}))
    metrics.tick(status(1))
    assert of_page(metrics)["kdissect_authentication_failures_total"] == {("other",): 1}


def joined(number: int, group: str, generation: int, **more: Any) -> dict[str, Any]:
    row = {"exchange_id": number, "time": START, "group_id": group, "event": "join"}
    return row | {"member_id": "m", "generation": generation} | more


def ticked(metrics: MetricsListener, at_s: float, members: list[dict[str, Any]]) -> None:
    exchanges = [exchange(number, "JoinGroup") for number in range(len(members))]
    given(metrics, handed({"exchanges": exchanges, "members": members}))
    metrics.tick(status(at_s))


def test_generations_change_when_they_grow() -> None:
    metrics = MetricsListener()
    ticked(metrics, 1, [joined(0, "g", 4), joined(1, "g", 4), joined(2, "h", 1)])
    failed = joined(2, "g", 2**31 - 1, event="heartbeat", error="ILLEGAL_GENERATION")
    ticked(metrics, 2, [joined(0, "g", 5), joined(1, "g", 4), failed, joined(3, "g", 7)])
    shown = of_page(metrics)
    assert shown["kdissect_group_generation_changes_total"] == {("g",): 2}
    assert shown["kdissect_group_generation"] == {("g",): 7, ("h",): 1}
    assert shown["kdissect_group_events_total"] == {
        ("g", "join"): 5, ("g", "heartbeat"): 1, ("h", "join"): 1,
    }  # fmt: skip


def test_groups_beyond_the_limit_share_a_label_and_have_no_generation() -> None:
    metrics = MetricsListener(labels=2)
    ticked(metrics, 1, [joined(number, f"g{number}", number) for number in range(5)])
    ticked(metrics, 2, [joined(number, f"g{number}", number + 1) for number in range(5)])
    shown = of_page(metrics)
    assert shown["kdissect_group_events_total"] == {
        ("g0", "join"): 2, ("g1", "join"): 2, ("other", "join"): 6,
    }  # fmt: skip
    assert shown["kdissect_group_generation"] == {("g0",): 1, ("g1",): 2}
    assert shown["kdissect_group_generation_changes_total"] == {("g0",): 1, ("g1",): 1}
    with served(metrics) as server:
        left_out = by(samples(page(server)), "kdissect_label_names_left_out", "label")
    assert left_out == {("group",): 3}


def test_a_group_that_is_idle_makes_room_for_a_new_one() -> None:
    metrics = MetricsListener(labels=1)
    ticked(metrics, 0, [joined(0, "old", 70), joined(1, "old", 71)])
    ticked(metrics, IDLE_NS / SECOND, [joined(0, "old-still", 3)])
    ticked(metrics, IDLE_NS / SECOND + 1, [joined(0, "new", 3)])
    shown = of_page(metrics)
    assert shown["kdissect_group_generation"] == {("new",): 3}
    assert shown["kdissect_group_generation_changes_total"] == {}


def test_throttle_time_is_of_the_client() -> None:
    metrics = MetricsListener(labels=1)
    rows = [exchange(0, throttle_ms=1500), exchange(1, throttle_ms=0), exchange(2),
            exchange(3, client_id=None, throttle_ms=40), exchange(4, client_id="b", throttle_ms=2),
            exchange(5, throttle_ms=-5)]  # fmt: skip
    given(metrics, handed({"exchanges": rows}))
    metrics.tick(status(1))
    shown = of_page(metrics)
    assert shown["kdissect_throttle_seconds_total"] == {
        ("app",): 1.5, ("none",): 0.04, ("other",): 0.002,
    }  # fmt: skip
    assert shown["kdissect_throttled_exchanges_total"] == {
        ("app",): 1, ("none",): 1, ("other",): 1,
    }  # fmt: skip


def sent_at(seconds: list[float]) -> Iterator[bytes]:
    for number, _ in enumerate(seconds):
        yield request("Produce", 7, number, acks=1, topic_data=[])


@pytest.mark.parametrize("seed", range(3))
def test_ages_are_those_of_each_request_that_waits(seed: int) -> None:
    draw = random.Random(f"{SEED} {seed} ages")
    gaps = [draw.choice([0.01, 0.4, 3, 9, 20]) for _ in range(draw.randint(1, 30))]
    talk = conversation()
    for message, gap in zip(sent_at(gaps), gaps, strict=True):
        talk = talk.client(message, gap_ns=round(gap * SECOND))
    dissector = make_dissector(Options(), collects=False, keeps_frames=False)
    packets = list(talk.packets())
    dissector.feed(packets)
    waiting = Waiting(dissector.exchanges.states, {})
    (state,) = dissector.exchanges.states.values()
    now = packets[-1].time_ns + draw.randrange(70 * SECOND)
    waiting.look(now)
    ages = [(now - one.request_end) / SECOND for one in state.pending]
    assert len(ages) == len(gaps) == waiting.count
    bounds = pairwise([0, 1, 10, 60, float("inf")])
    expected = [sum(low <= age < high for age in ages) for low, high in bounds]
    assert waiting.ages == expected, f"seed {SEED}"
    dissector.finish()
    waiting.look(now)
    waiting.look(now)
    assert waiting.ages == [0, 0, 0, 0]


def test_all_tables_that_are_counted_exist() -> None:
    assert MetricsListener.tables <= TABLES.keys()
    assert GroupCounts._fields == ("events", "changes", "generation")
