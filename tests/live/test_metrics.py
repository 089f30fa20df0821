"""The page that Prometheus reads, read by parsers that others wrote."""

import gc
import json
import random
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from prometheus_client import openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from kdissect.errors import OutputError
from kdissect.live.counting.metric_declarations import METRICS
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.http_server import READERS, Handler, Server
from kdissect.live.listener import Listener, Status
from kdissect.live.metrics_server import serve, serve_at
from kdissect.live.metrics_socket import bind
from kdissect.live.watcher import Watcher
from kdissect.sources.packet_source import Behind, Counts
from kdissect.sources.recorded_source import RecordedSource
from kdissect.tables.batches import ints_of
from tests.cli.test_hostile_text import HARMFUL, harmful_in, texts
from tests.live.made_rows import START, exchange, given, handed, many, partition, seconds, status

ROOT = Path(__file__).parent.parent.parent
NAMES = (
    "quickstart.pcapng", "old-formats-0.10.2.2.pcapng", "incident-lossy-network-4.3.1.pcapng",
    "incident-slow-leader-4.3.1.pcapng",
)  # fmt: skip
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
HOSTILE = (
    'quote " in it', "line\nend", "back\\slash", "carriage\rreturn", "{}=,", "\x00\x1b[31m",
    "invalid \\xff\\xfe of UTF-8", "\u202eright to left", "\u2028", "注文", "🎉", " ", "x" * 5000,
)  # fmt: skip
SHOWN = {
    'quote " in it', r"line\nend", r"back\slash", r"carriage\rreturn", "{}=,", r"\x00\e[31m",
    r"invalid \xff\xfe of UTF-8", r"\u202eright to left", r"\u2028", "注文", "🎉", " ",
    "x" * 254 + "…",
}  # fmt: skip


# Serves the metrics, and is scraped once no file can be opened any more.
SCRAPED = """
import socket, sys
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.metrics_server import serve
server = serve(MetricsListener())
opened = []
asked = socket.create_connection((server.address, server.port))
sys.addaudithook(lambda event, told: event in ("open", "import") and opened.append(told[:2]))
asked.sendall(b"GET /metrics HTTP/1.0\\r\\n\\r\\n")
answer = b"".join(iter(lambda: asked.recv(65536), b""))
print(b"kdissect_build_info" in answer, opened)
server.close()
"""


class Rows(Listener):
    """Keeps the rows of three tables as Python has them."""

    tables = frozenset({"exchanges", "partitions", "errors"})

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in self.tables}

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        times = [name for name in batch.schema.names if pa.types.is_timestamp(batch[name].type)]
        plain = batch.drop_columns(times).append_column("start", numbers(batch))
        self.rows[table] += plain.to_pylist()


def numbers(batch: pa.RecordBatch) -> pa.Array:
    name = "request_start" if "request_start" in batch.schema.names else "exchange_id"
    return pa.array(ints_of(batch[name]))


@contextmanager
def served(metrics: MetricsListener) -> Iterator[Server]:
    server = serve(metrics)
    try:
        yield server
    finally:
        server.close()


def page(server: Server, accept: str = "") -> str:
    """A scraper's second page: on its first one, new series are 0."""
    first_page(server, accept)
    return first_page(server, accept)


def first_page(server: Server, accept: str = "") -> str:
    asked = Request(
        f"http://127.0.0.1:{server.port}/metrics", headers={"Accept": accept}
    )  # loopback
    with urlopen(asked, timeout=60) as answer:  # noqa: S310  # loopback
        found: str = answer.read().decode()
    return found


def samples(text: str, parse: Any = text_string_to_metric_families) -> Samples:
    found: Samples = {}
    for family in parse(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, "each series once"
            found[key] = sample.value
    return found


def by(found: Samples, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The values of a metric summed by some of its labels, without zeros."""
    sums: dict[tuple[str, ...], float] = {}
    for (sample, labelled), value in found.items():
        if sample == name and value:
            key = tuple(dict(labelled)[label] for label in labels)
            sums[key] = sums.get(key, 0) + value
    return sums


def summed(rows: list[dict[str, Any]], value: str, *columns: str) -> dict[tuple[str, ...], float]:
    """The same of rows; "" counts them."""
    sums: dict[tuple[str, ...], float] = {}
    for row in rows:
        key = tuple(row[column] or "none" for column in columns)
        sums[key] = sums.get(key, 0) + (1 if not value else row[value] or 0)
    return {key: total for key, total in sums.items() if total}


def replayed(path: Path) -> tuple[MetricsListener, dict[str, list[dict[str, Any]]]]:
    metrics, rows = MetricsListener(), Rows()
    Watcher(RecordedSource(str(path)), [metrics, rows]).run()
    return metrics, rows.rows


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_the_rows_of_the_same_capture(name: str) -> None:
    metrics, rows = replayed(ROOT / "captures" / name)
    with served(metrics) as server:
        found = samples(page(server))
    exchanges = rows["exchanges"]
    api_of = {row["exchange_id"]: row["api"] for row in exchanges}
    client_of = {row["exchange_id"]: row["client_id"] for row in exchanges}
    errors = [
        row | {"api": api_of[row["exchange_id"]], "client_id": client_of[row["exchange_id"]]}
        for row in rows["errors"]
    ]
    partitions = [
        row | {"topic": row["topic"] or row["topic_id"],
               "side": "produced" if api_of[row["exchange_id"]] == "Produce" else "fetched"}
        for row in rows["partitions"]
    ]  # fmt: skip
    columns = ("api", "client_id", "outcome")
    assert by(found, "kdissect_exchanges_total", "api", "client", "outcome") == summed(
        exchanges, "", *columns
    )
    sizes = by(found, "kdissect_message_bytes_total", "direction")
    assert sizes.get(("to_broker",), 0) == sum(row["request_size"] or 0 for row in exchanges)
    assert sizes.get(("to_client",), 0) == sum(row["response_size"] or 0 for row in exchanges)
    assert by(found, "kdissect_errors_total", "api", "error") == summed(errors, "", "api", "name")
    assert by(found, "kdissect_client_errors_total", "client", "error") == summed(
        errors, "", "client_id", "name"
    )
    assert by(found, "kdissect_topic_errors_total", "topic", "error") == summed(
        [row for row in errors if row["topic"]], "", "topic", "name"
    )
    for metric, column in (("bytes", "record_bytes"), ("records", "record_count")):
        assert by(found, f"kdissect_topic_{metric}_total", "topic", "direction") == summed(
            partitions, column, "topic", "side"
        )


@pytest.mark.parametrize("name", NAMES)
def test_histograms_have_every_answered_exchange_in_the_right_buckets(name: str) -> None:
    metrics, rows = replayed(ROOT / "captures" / name)
    with served(metrics) as server:
        found = samples(page(server))
    timed = [row for row in rows["exchanges"] if row["latency_ns"] is not None]
    answered = [row for row in rows["exchanges"] if row["outcome"] == "answered"]
    if name == "quickstart.pcapng":
        assert len(timed) == len(answered)
    for part in ("latency", "queue", "service", "work"):
        metric = f"kdissect_{part}_seconds"
        timed = [row for row in timed if row[f"{part}_ns"] is not None]
        assert by(found, f"{metric}_count", "api") == summed(timed, "", "api")
        total = sum(by(found, f"{metric}_sum", "api").values())
        assert total == pytest.approx(sum(row[f"{part}_ns"] or 0 for row in timed) / 1e9)
        for (sample, labels), value in found.items():
            if sample == f"{metric}_bucket":
                known = dict(labels)
                here = [row[f"{part}_ns"] for row in timed if row["api"] == known["api"]]
                assert value == sum(ns <= float(known["le"]) * 1e9 for ns in here), labels


def test_the_page_is_the_same_for_the_parser_of_openmetrics() -> None:
    metrics, _ = replayed(ROOT / "captures" / "quickstart.pcapng")
    with served(metrics) as server:
        text, open_text = page(server), page(server, OPENMETRICS)
    assert open_text.endswith("# EOF\n")
    assert samples(text) == samples(open_text, openmetrics_families)
    assert openmetrics is not None


def test_names_that_would_break_the_page_come_out_escaped() -> None:
    metrics = MetricsListener()
    rows = [exchange(number, client_id=name) for number, name in enumerate(HOSTILE)]
    named = [partition(number, name, record_bytes=1) for number, name in enumerate(HOSTILE)]
    given(metrics, handed({"exchanges": rows, "partitions": named}))
    metrics.tick(status(1))
    with served(metrics) as server:
        for text, parse in (
            (page(server), text_string_to_metric_families),
            (page(server, OPENMETRICS), openmetrics_families),
        ):
            found = samples(text, parse)
            clients = by(found, "kdissect_exchanges_total", "client")
            assert clients == {(name,): 1 for name in SHOWN}
            topics = by(found, "kdissect_topic_bytes_total", "topic", "direction")
            assert topics == {(name, "produced"): 1 for name in SHOWN}


def test_no_label_has_a_harmful_character() -> None:
    """Labels of every text of the hostile captures, and of every harmful character."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    names = [*texts(), *HARMFUL]
    signs, sizes = [*HARMFUL, *"aé☃\\"], [9, 254, 255, 256, 999]
    names += ["".join(chance.choices(signs, k=chance.choice(sizes))) for _ in range(200)]
    metrics = MetricsListener(labels=5_000)
    rows = [exchange(number, client_id=name) for number, name in enumerate(names)]
    named = [partition(number, name, record_bytes=1) for number, name in enumerate(names)]
    given(metrics, handed({"exchanges": rows, "partitions": named}))
    metrics.tick(status(1))
    with served(metrics) as server:
        pages = ((page(server), text_string_to_metric_families),
                 (page(server, OPENMETRICS), openmetrics_families))  # fmt: skip
    for text, parse in pages:
        assert not harmful_in(text, "\n"), f"seed {seed}"
        found = samples(text, parse)
        clients = by(found, "kdissect_exchanges_total", "client")
        assert sum(clients.values()) == len(names), f"seed {seed}"
        assert max(len(name) for (name,) in clients) == 255
        topics = by(found, "kdissect_topic_bytes_total", "topic")
        assert sum(topics.values()) == len(names), f"seed {seed}"


def test_texts_that_are_shown_alike_are_one_series() -> None:
    metrics = MetricsListener(labels=2)
    alike = ["\u202e", r"\u202e", "\u202e"]
    rows = [exchange(number, client_id=name) for number, name in enumerate([*alike, "b", "\x9b"])]
    given(metrics, handed({"exchanges": rows}))
    metrics.tick(status(1))
    with served(metrics) as server:
        text = page(server)
        found = samples(text)
    assert by(found, "kdissect_exchanges_total", "client") == {
        (r"\u202e",): 3, ("b",): 1, ("other",): 1,
    }  # fmt: skip
    assert text.count('client="\\\\u202e",outcome=') == 1
    assert by(found, "kdissect_label_names_left_out", "label") == {("client",): 1}


def test_names_beyond_the_limit_share_a_label_and_are_counted() -> None:
    metrics = MetricsListener(labels=3)
    rows = [exchange(number, client_id=f"c{number % 10}") for number in range(50)]
    rows += [exchange(50, client_id=None), exchange(51, "api-999"), exchange(52, client_id="other")]
    given(metrics, handed({"exchanges": rows}))
    metrics.tick(status(1))
    with served(metrics) as server:
        found = samples(page(server))
    # `app` of the exchange with an unknown API came after c0 to c2.
    assert by(found, "kdissect_exchanges_total", "client") == {
        ("c0",): 5, ("c1",): 5, ("c2",): 5, ("other",): 37, ("none",): 1,
    }  # fmt: skip
    assert by(found, "kdissect_exchanges_total", "api") == {("Produce",): 52, ("other",): 1}
    left_out = by(found, "kdissect_label_names_left_out", "label")
    assert left_out == {("client",): 8, ("api",): 1}
    assert by(found, "kdissect_label_names", "label")[("client",)] == 3


def test_a_name_like_those_that_stand_for_others_is_no_second_series() -> None:
    metrics = MetricsListener()
    rows = [exchange(1, client_id="none"), exchange(2, client_id=None),
            exchange(3, client_id="other")]  # fmt: skip
    given(metrics, handed({"exchanges": rows}))
    metrics.tick(status(1))
    with served(metrics) as server:
        found = samples(page(server))
    assert by(found, "kdissect_exchanges_total", "client") == {("none",): 2, ("other",): 1}


def values_at(metrics: MetricsListener, now: Status) -> Mapping[Any, float]:
    metrics.tick(now)
    with served(metrics) as server:
        return samples(page(server))


def test_the_status_is_served() -> None:
    now = status(
        1, packets=70, problems={"late": 3, "mid-stream": 8}, packet_source=Counts(100, 7),
        backlog=0.25, behind=Behind(1234, 5.5),
        open_connections=4, level=2, shed={"records": 9}, memory=1000, cpu_seconds=1.5,
    )  # fmt: skip
    found = values_at(MetricsListener(), now)
    told = {
        "kdissect_packets_received_total": 100, "kdissect_packets_dropped_total": 7,
        "kdissect_packets_total": 70, "kdissect_backlog_ratio": 0.25,
        "kdissect_backlog_bytes": 1234, "kdissect_backlog_seconds": 5.5,
        "kdissect_mid_streams_total": 8, "kdissect_all_problems_total": 3,
        "kdissect_open_connections": 4, "kdissect_shedding_level": 2,
        "process_resident_memory_bytes": 1000, "process_cpu_seconds_total": 1.5,
    }  # fmt: skip
    assert {name: found[name, frozenset()] for name in told} == told
    assert by(found, "kdissect_problems_total", "kind") == {("late",): 3}
    assert by(found, "kdissect_shed_total", "what") == {("records",): 9}


def test_counters_never_go_back() -> None:
    metrics = MetricsListener()
    key = "kdissect_packets_received_total", frozenset[Any]()
    received = [100, 250, 40, 60, 10]
    told = [values_at(metrics, status(1, packet_source=Counts(count)))[key] for count in received]
    assert told == [100, 250, 290, 310, 320]


def test_counters_grow_at_ticks_only() -> None:
    metrics = MetricsListener()
    counts = []
    for second, rows in enumerate(seconds(3, 100)):
        given(metrics, rows._asdict())
        with served(metrics) as server:
            before = sum(by(samples(page(server)), "kdissect_exchanges_total", "api").values())
        after = by(values_at(metrics, status(second)), "kdissect_exchanges_total", "api")
        counts.append((before, sum(after.values())))
    assert counts == [(0, 100), (100, 200), (200, 300)]


def test_concurrent_scrapes_see_monotonic_counters_of_whole_ticks() -> None:
    metrics = MetricsListener()
    pages: list[Samples] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def read(server: Server) -> None:
        try:
            while not done.is_set():
                pages.append(samples(page(server)))
        except BaseException as failure:
            failures.append(failure)

    with served(metrics) as server:
        reader = threading.Thread(target=read, args=(server,), daemon=True)
        reader.start()
        for second, rows in enumerate(seconds(20, 1000)):
            given(metrics, rows._asdict())
            metrics.tick(status(second))
        done.set()
        reader.join(60)
        assert not reader.is_alive()
        pages.append(samples(page(server)))
    assert failures == []
    for before, after in pairwise(pages):
        grown = {key for key in before if key[0].endswith(("_total", "_bucket", "_count", "_sum"))}
        assert all(after[key] >= before[key] for key in grown)
    for found in pages:
        assert found["kdissect_all_exchanges_total", frozenset()] % 1000 == 0
    counted = sum(by(pages[-1], "kdissect_exchanges_total", "api").values())
    timed = sum(by(pages[-1], "kdissect_latency_seconds_count", "api").values())
    assert counted == timed == 20_000


def test_all_that_is_declared_is_exported_and_nothing_else() -> None:
    metrics, _ = replayed(ROOT / "captures" / "quickstart.pcapng")
    rows = [{"exchange_id": 1, "time": START, "group_id": "g", "event": "join", "generation": 1}]
    alert = {"kind": "tls-alert", "message": "the client ended TLS by the alert unknown_ca (48)"}
    ended = {"connection_id": 1, "zero_windows_to_broker": 1, "retransmitted_segments_to_client": 1}
    given(metrics, handed({"exchanges": [exchange(1, throttle_ms=5)], "members": rows,
                           "problems": [alert], "connections": [ended]}))  # fmt: skip
    rows[0]["generation"] = 2
    given(metrics, handed({"members": rows}))
    metrics.findings = lambda: [("broker-slow", "problem")]
    metrics.tick(status(1, shed={"records": 1}, problems={"late": 1}))
    with served(metrics) as server:
        text = page(server)
    found: dict[str, set[str]] = {}
    for name, labels in samples(text):
        found.setdefault(name, set()).update(name for name, _ in labels)
    wanted = {
        series: set(metric.labels) | ({"le"} if series.endswith("_bucket") else set())
        for metric in METRICS
        for series in metric.series
    }
    assert found == wanted
    for metric in METRICS:
        assert re.fullmatch(r"(kdissect|process)_[a-z_]+", metric.name)
        assert f"# HELP {metric.series[0]}" in text or f"# HELP {metric.name} " in text


def test_a_taken_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OutputError) as told:
            serve(MetricsListener(), "127.0.0.1", port)
    assert str(told.value) == (
        f"--metrics 127.0.0.1:{port}: the port is in use by another program; choose another one"
    )


@pytest.mark.parametrize(
    ("address", "port", "text"),
    [
        ("192.0.2.1", 9123, "this machine has no such address"),
        ("::2", 9123, r"--metrics \[::2\]:9123: this machine has no such address"),
        ("127.0.0.1", 70_000, "ports are 0 to 65535"),
    ],
)
def test_an_address_that_cannot_be_bound_is_an_error_with_its_reason(
    address: str, port: int, text: str
) -> None:
    with pytest.raises(OutputError, match=text):
        serve(MetricsListener(), address, port)


def test_only_loopback_is_bound_unless_another_address_is_given() -> None:
    with served(MetricsListener()) as server:
        assert server.address == "127.0.0.1"
        assert page(server)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=60)


def test_without_an_address_it_is_loopback_too() -> None:
    server = serve(MetricsListener(), "")
    server.close()
    assert server.address == "127.0.0.1"


def test_silent_clients_do_not_exhaust_threads() -> None:
    with served(MetricsListener()) as server, ExitStack() as stack:
        place = ("127.0.0.1", server.port)
        for _ in range(READERS):
            stack.enter_context(socket.create_connection(place, timeout=60))
        with socket.create_connection(place, timeout=60) as refused:
            assert refused.recv(100) == b""
    with served(MetricsListener()) as server:
        assert page(server)


def test_readers_that_drip_are_cut_off_when_another_one_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each sends a byte before its timeout, and would keep its place indefinitely."""
    with served(MetricsListener()) as server, ExitStack() as stack:
        place = ("127.0.0.1", server.port)
        for _ in range(READERS):
            dripping = stack.enter_context(socket.create_connection(place, timeout=60))
            dripping.sendall(b"G")
        with socket.create_connection(place, timeout=60) as refused:
            assert refused.recv(100) == b""
        assert len(server._listening._began) == READERS
        monkeypatch.setattr("kdissect.live.http_server.READER_TIMEOUT_S", -1)
        # Refused, unless the previous one has been served since.
        with socket.create_connection(place, timeout=60) as another, suppress(OSError):
            another.sendall(WHOLE)
            assert another.recv(100)[:4] in (b"", b"HTTP")
        assert_free(server)
        assert page(server)


LONG_LINE = b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"
MANY_HEADERS = b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 500 + b"\r\n"
WHOLE = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"


def goes_away(place: tuple[str, int], said: bytes) -> None:
    """Send this, and reset the connection without reading an answer."""
    with socket.create_connection(place, timeout=60) as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader.sendall(said)


@pytest.mark.parametrize("said", [b"", b"GET", b"\0" * 70_000, LONG_LINE, MANY_HEADERS, WHOLE])
def test_a_reader_that_disconnects_prints_nothing_on_stderr(
    said: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with served(MetricsListener()) as server:
        for _ in range(READERS - 1):
            with suppress(OSError):
                goes_away(("127.0.0.1", server.port), said)
        assert page(server)  # connections are taken in their order
        assert_free(server)
    assert capfd.readouterr() == ("", "")


def test_a_reader_that_takes_nothing_prints_nothing_on_stderr(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "timeout", 0.2)
    metrics = MetricsListener(labels=5_000)
    rows = [exchange(number, client_id=f"{number:0100}") for number in range(5_000)]
    given(metrics, handed({"exchanges": rows}))
    metrics.tick(status())
    bound = bind()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    server = serve_at(bound, metrics)
    assert sum(len(family.samples) for family in metrics.collect()) > 5_000
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", server.port))
        reader.sendall(WHOLE)
        assert_free(server)
    server.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("said", [LONG_LINE, MANY_HEADERS])
def test_a_request_that_is_too_long_is_refused(said: bytes) -> None:
    with served(MetricsListener()) as server, socket.socket() as reader:
        reader.settimeout(60)
        reader.connect(("127.0.0.1", server.port))
        reader.sendall(said)
        assert reader.recv(12) in (b"HTTP/1.0 414", b"HTTP/1.0 431")


def assert_free(server: Server) -> None:
    """Wait until no reader has a place: all were answered or given up."""
    places = server._listening._places
    for _ in range(READERS):
        assert places.acquire(timeout=60)
    for _ in range(READERS):
        places.release()


def test_it_may_be_closed_twice_and_the_port_is_free_again() -> None:
    server = serve(MetricsListener())
    server.close()
    server.close()
    serve(MetricsListener(), port=server.port).close()


def test_scrapes_create_no_reference_cycles() -> None:
    metrics = MetricsListener()
    given(metrics, many(100)._asdict())
    metrics.tick(status(1))
    with served(metrics) as server:
        page(server)
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                page(server)
            left = gc.collect()
        finally:
            gc.enable()
    assert left < 5


def expressions() -> list[str]:
    board = json.loads((ROOT / "docs" / "grafana" / "kdissect.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    variables = [one["query"]["query"] for one in board["templating"]["list"] if "query" in one
                 and one["type"] == "query"]  # fmt: skip
    return found + variables


def test_dashboard_queries_only_exported_metrics() -> None:
    labels = {
        series: {*metric.labels, "le", "instance", "job"} if series.endswith("_bucket")
        else {*metric.labels, "instance", "job"}
        for metric in METRICS
        for series in metric.series
    }  # fmt: skip
    asked = expressions()
    assert len(asked) > 15
    used = set()
    for expression in asked:
        names = re.findall(r"\b(?:kdissect|process)_\w+", expression)
        assert names, expression
        for name in names:
            assert name in labels, expression
            used.add(name)
        known = set.union(*(labels[name] for name in names))
        for matchers in re.findall(r"\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)) <= known, expression
        for grouping in re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", expression):
            assert {one.strip() for one in grouping.split(",")} <= known, expression
    # The purpose of a dashboard: everything exported by API, client or topic, and the losses.
    wanted = {
        "kdissect_exchanges_total", "kdissect_errors_total", "kdissect_latency_seconds_bucket",
        "kdissect_message_bytes_total", "kdissect_topic_bytes_total", "kdissect_problems_total",
        "kdissect_packets_dropped_total", "kdissect_shed_total", "process_cpu_seconds_total",
        "process_resident_memory_bytes", "kdissect_refused_connections_total",
        "kdissect_reset_connections_total", "kdissect_retransmitted_segments_total",
        "kdissect_zero_windows_total", "kdissect_authentication_failures_total",
        "kdissect_tls_alerts_total", "kdissect_throttle_seconds_total",
        "kdissect_group_generation_changes_total", "kdissect_waiting_requests_by_age",
        "kdissect_payload_bytes_total", "kdissect_backlog_seconds",
    }  # fmt: skip
    assert wanted <= used


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    board = json.loads((ROOT / "docs" / "grafana" / "kdissect.json").read_text())
    taken: set[tuple[int, int]] = set()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_a_scrape_reads_no_file_as_it_may_have_no_permission() -> None:
    done = subprocess.run([sys.executable, "-c", SCRAPED], capture_output=True, check=True)
    assert done.stdout.decode() == "True []\n"
