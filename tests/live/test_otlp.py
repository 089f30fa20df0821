"""Metrics pushed as OTLP to a receiver made here, decoded by OpenTelemetry's own protobuf."""

import socket
import sys
from typing import Any

import pytest

from kdissect.cli.program import run
from kdissect.errors import InvalidArgument, Problem
from kdissect.live.counting.metric_declarations import METRICS
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.otlp_endpoint import endpoint_of
from kdissect.live.watcher import Watcher
from kdissect.sources.recorded_source import RecordedSource
from tests.live.made_rows import exchange, given, handed, partition, status
from tests.live.replays import CAPTURES
from tests.spans.test_spans import address_of, receiver

pytest.importorskip("opentelemetry.sdk.metrics", reason="needs the extra otel")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from kdissect.live.otlp import Encoder, MetricsPush, name_of

__all__ = ["receiver"]  # a fixture
HOUR_S = 3600.0
CAPTURE = CAPTURES / "cluster-3.9.1.pcapng"


def decoded(body: bytes) -> dict[str, Any]:
    """The metrics of a request by name."""
    message = ExportMetricsServiceRequest.FromString(body)
    (resource,) = message.resource_metrics
    assert {one.key: one.value.string_value for one in resource.resource.attributes}[
        "service.name"
    ] == "kdissect"
    (scope,) = resource.scope_metrics
    names = [metric.name for metric in scope.metrics]
    assert len(names) == len(set(names))
    return {metric.name: metric for metric in scope.metrics}


def attributes(point: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}


def points_of(metric: Any) -> list[Any]:
    return list(getattr(metric, metric.WhichOneof("data")).data_points)


def pushed(metrics: MetricsListener, receiver: Any) -> dict[str, Any]:
    push = MetricsPush(metrics, endpoint_of(address_of(receiver)), interval_s=HOUR_S)
    push.begin()
    push.finish(status(1))
    ((path, answer, body),) = receiver.received
    assert (path, answer) == ("/v1/metrics", 200)
    return decoded(body)


def test_what_is_pushed_is_what_prometheus_gets(receiver: Any) -> None:
    metrics = MetricsListener(labels=1_000)
    with RecordedSource(CAPTURE) as packet_source:
        Watcher(packet_source, [metrics]).run()
    found = pushed(metrics, receiver)
    expected: dict[str, list[Any]] = {}
    for metric, values, distributions in metrics.current():
        for labels, value in values:
            expected.setdefault(name_of(metric, labels).name, []).append(value)
        for one in distributions:
            counts = [count for _, count in one.buckets]
            expected.setdefault(name_of(metric, one.labels).name, []).append(counts)
    shown: dict[str, list[Any]] = {}
    for name, metric in found.items():
        for point in points_of(metric):
            if metric.WhichOneof("data") == "histogram":
                counts = list(point.bucket_counts)
                assert len(counts) == len(point.explicit_bounds) + 1
                assert sum(counts) == point.count
                value: Any = [sum(counts[: at + 1]) for at in range(len(counts))]
            else:
                value = point.as_double or point.as_int
            shown.setdefault(name, []).append(value)
    assert shown == expected
    assert len(shown) > 30


def test_names_and_attributes_are_those_of_the_conventions(receiver: Any) -> None:
    metrics = MetricsListener()
    rows = [exchange(1, latency_ms=3), exchange(2, "Fetch", client_id="reader")]
    named = [partition(1, record_count=5), partition(2, record_count=7)]
    given(metrics, handed({"exchanges": rows, "partitions": named}))
    metrics.tick(status(1, packets=9))
    found = pushed(metrics, receiver)
    duration = found["messaging.client.operation.duration"]
    assert duration.unit == "s"
    assert [attributes(point) for point in points_of(duration)] == [
        {"messaging.system": "kafka", "messaging.operation.name": name,
         "messaging.operation.type": name, "messaging.destination.name": "orders"}
        for name in ("send", "receive")
    ]  # fmt: skip
    assert points_of(duration)[0].sum == pytest.approx(0.003)
    for name, count in (("sent", 5), ("consumed", 7)):
        metric = found[f"messaging.client.{name}.messages"]
        assert (metric.unit, metric.sum.is_monotonic) == ("{message}", True)
        assert [point.as_int for point in points_of(metric)] == [count]
    assert attributes(points_of(found["kdissect.exchanges"])[0]) == {
        "kdissect.api": "Produce", "messaging.client.id": "app", "kdissect.outcome": "answered",
    }  # fmt: skip
    assert found["process.resident_memory_bytes"].unit == "By"
    assert [point.as_int for point in points_of(found["kdissect.packets"])] == [9]


def test_a_series_that_begins_again_has_a_new_start() -> None:
    metrics, encoder = MetricsListener(), Encoder(5)
    starts = []
    for at, packets in enumerate((10, 20, 3)):
        metrics._values = {"kdissect_packets": [((), packets)]}
        data = encoder.data_of(metrics, 10 * (at + 1))
        (metric,) = [one for one in data.resource_metrics[0].scope_metrics[0].metrics
                     if one.name == "kdissect.packets"]  # fmt: skip
        (point,) = metric.data.data_points
        starts.append((point.start_time_unix_nano, point.time_unix_nano))
    assert starts == [(5, 10), (5, 20), (20, 30)]


def test_a_receiver_that_does_not_take_them_is_a_problem(receiver: Any) -> None:
    told: list[Problem] = []
    receiver.answers = [400]
    push = MetricsPush(
        MetricsListener(), endpoint_of(address_of(receiver)), told.append, interval_s=HOUR_S
    )
    push.begin()
    push.finish(status(1))
    assert [(one.kind, "1 times" in one.message) for one in told] == [("otlp-failed", True)]


def test_a_password_in_the_address_is_in_no_problem() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://me:secret@127.0.0.1:{unused.getsockname()[1]}"
        told: list[Problem] = []
        push = MetricsPush(
            MetricsListener(), endpoint_of(url), told.append, interval_s=HOUR_S, timeout_s=1.0
        )
        push.begin()
        push.finish(status(1))
    assert [one.kind for one in told] == ["otlp-failed"]
    assert "secret" not in told[0].message


def test_names_in_opentelemetry_differ() -> None:
    names = [name_of(one, ("none",) * 3).name for one in METRICS if "direction" not in one.labels]
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_live_pushes_at_its_end(receiver: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["live", str(CAPTURE), "--otlp", address_of(receiver)]) == 0
    found = decoded(receiver.received[-1][2])
    (point,) = points_of(found["kdissect.all_exchanges"])
    assert f"{point.as_int} exchanges on" in capfd.readouterr().err


@pytest.mark.parametrize(
    "url", ["localhost:4318", "ftp://a", "http://", "http://[::1", "http://a:x"]
)
def test_an_address_that_is_none_is_an_error(url: str) -> None:
    with pytest.raises(InvalidArgument, match="write it like http://localhost:4318"):
        endpoint_of(url)


@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.sdk.metrics"])
def test_the_extra_is_named(
    missing: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in [one for one in sys.modules if one.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert run(["live", str(CAPTURE), "--otlp", "http://localhost:4318"]) == 2
    assert '--otlp needs the extra "otel"' in capfd.readouterr().err
