"""PushTelemetry and GetTelemetrySubscriptions (facts 13), with opentelemetry-proto and without."""

import json
import struct
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

import kdissect
from kdissect.errors import DecodeError
from kdissect.messages import telemetry
from kdissect.messages.metric_names import metric_names
from kdissect.messages.telemetry import UNPACKED_LIMIT, decode_metrics
from kdissect.system.extras import missing_extra
from tests.conversation import conversation
from tests.exchange_builders import request, response
from tests.messages.record_builders import compress

LATENCY, SENT, SIZES = "producer.latency.avg", "producer.send.total", "producer.sizes"


def made_metrics() -> bytes:
    """Metrics that a client pushes: a gauge, a delta sum and a histogram."""
    where = KeyValue(key="node", value=AnyValue(int_value=1))
    nested = KeyValueList(values=[KeyValue(key="a", value=AnyValue(string_value="b"))])
    labels = KeyValue(key="labels", value=AnyValue(kvlist_value=nested))
    point = NumberDataPoint(time_unix_nano=7, as_double=float("nan"), attributes=[where, labels])
    gauge = Metric(name=LATENCY, unit="ms", gauge=Gauge(data_points=[point]))
    counts = [NumberDataPoint(start_time_unix_nano=1, time_unix_nano=7, as_int=-3)]
    total = Metric(name=SENT, sum=Sum(
        data_points=counts, aggregation_temporality=AGGREGATION_TEMPORALITY_DELTA, is_monotonic=True
    ))  # fmt: skip
    buckets = HistogramDataPoint(count=2, bucket_counts=[1, 1], explicit_bounds=[10.5])
    sizes = Metric(name=SIZES, histogram=Histogram(data_points=[buckets]))
    scopes = [ScopeMetrics(metrics=[gauge]), ScopeMetrics(metrics=[total, sizes])]
    return MetricsData(resource_metrics=[ResourceMetrics(scope_metrics=scopes)]).SerializeToString()


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if opentelemetry-proto were not installed."""
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    telemetry.metrics_definition.cache_clear()
    yield
    telemetry.metrics_definition.cache_clear()


@pytest.mark.parametrize("codec", range(5))
def test_a_push_has_its_metrics_in_every_codec(codec: int) -> None:
    packed = compress(codec, made_metrics())
    found = decode_metrics(packed, codec)
    ((first, second),) = (part["scope_metrics"] for part in found["resource_metrics"])
    (gauge,) = first["metrics"]
    (point,) = gauge["gauge"].pop("data_points")
    assert str(point.pop("as_double")) == "nan"
    assert point == {
        "time_unix_nano": 7,
        "attributes": [
            {"key": "node", "value": 1},
            {"key": "labels", "value": {"values": [{"key": "a", "value": "b"}]}},
        ],
    }
    assert gauge == {"name": LATENCY, "unit": "ms", "gauge": {}}
    total, sizes = second["metrics"]
    assert total == {
        "name": SENT,
        "sum": {
            "data_points": [{"start_time_unix_nano": 1, "time_unix_nano": 7, "as_int": -3}],
            "aggregation_temporality": "AGGREGATION_TEMPORALITY_DELTA",
            "is_monotonic": True,
        },
    }
    buckets = {"count": 2, "bucket_counts": [1, 1], "explicit_bounds": [10.5]}
    assert sizes == {"name": SIZES, "histogram": {"data_points": [buckets]}}
    assert (found["size"], found["unpacked_size"]) == (len(packed), len(made_metrics()))


@pytest.mark.usefixtures("without_package")
@pytest.mark.parametrize("codec", range(5))
def test_without_the_package_a_push_has_its_sizes_and_names(codec: int) -> None:
    packed = compress(codec, made_metrics())
    assert decode_metrics(packed, codec) == {
        "size": len(packed),
        "unpacked_size": len(made_metrics()),
        "metric_names": [LATENCY, SENT, SIZES],
        "values": missing_extra("values", "telemetry"),
    }


def pushed(metrics: bytes, codec: int) -> dict[str, Any]:
    body = b"\x00" * 16 + struct.pack(">i?b", 5, True, codec)
    return kdissect.decode("PushTelemetry", 0, "request", body + sized(metrics) + b"\x00")


def sized(content: bytes) -> bytes:
    size = len(content) + 1
    return bytes([size & 127 | 128, size >> 7]) + content


def test_a_push_that_cannot_be_read_is_its_size_and_the_body_stays() -> None:
    body = pushed(b"x" * 200, 4)
    assert body == {
        "client_instance_id": "A" * 22,
        "subscription_id": 5,
        "terminating": True,
        "compression_type": 4,
        "metrics": {"undecoded": 200, "error": "not a zstd frame, byte 0 of 200"},
    }
    assert pushed(b"\x0b" * 200, 0)["metrics"]["undecoded"] == 200
    assert pushed(b"y" * 200, 9)["metrics"] == {"undecoded": 200, "error": "unknown codec 9"}


@pytest.mark.parametrize("codec", [*range(5), 9])
def test_a_push_of_no_metrics_is_empty_and_no_null(codec: int) -> None:
    body = pushed(b"", codec)
    assert body["metrics"] == b""
    assert "unexpected_nulls" not in body


def test_a_null_that_is_on_the_wire_stays_null() -> None:
    body = b"\x00" * 16 + struct.pack(">i?b", 5, True, 0) + b"\x00\x00"
    found = kdissect.decode("PushTelemetry", 0, "request", body)
    assert found["metrics"] is None
    assert found["unexpected_nulls"] == [{"path": "metrics", "offset": 22}]


def test_a_push_that_unpacks_to_too_much_is_its_size() -> None:
    bomb = compress(4, bytes(UNPACKED_LIMIT + 1))
    error = f"unpacks to more than the limit of {UNPACKED_LIMIT} bytes"
    assert pushed(bomb, 4)["metrics"] == {"undecoded": len(bomb), "error": error}


def test_an_empty_struct_of_two_bytes_takes_no_more_than_the_limit_counts_on() -> None:
    count = 20_000
    many = compress(4, b"\x0a\x00" * count)
    tracemalloc.start()
    found = decode_metrics(many, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found["resource_metrics"]) == count
    assert peak < 100 * count


def test_subscriptions_are_shown_as_the_broker_gives_them(tmp_path: Path) -> None:
    answer = {"subscription_id": 9, "accepted_compression_types": [4, 3, 1, 2],
              "push_interval_ms": 1000, "telemetry_max_bytes": 1 << 20, "delta_temporality": True,
              "requested_metrics": ["*"]}  # fmt: skip
    talk = conversation().open().client(request("GetTelemetrySubscriptions", 0, 1))
    talk = talk.broker(response("GetTelemetrySubscriptions", 0, 1, **answer))
    push = {"compression_type": 1, "metrics": compress(1, made_metrics())}
    talk = talk.client(request("PushTelemetry", 0, 2, **push))
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.broker(response("PushTelemetry", 0, 2)).close().pcap())
    first, second = kdissect.read(str(path), table="bodies").to_arrow().to_pylist()
    known = {"throttle_time_ms": 0, "error_code": 0, "client_instance_id": "A" * 22}
    names = {"accepted_compression_types_names": ["ZSTD", "LZ4", "GZIP", "SNAPPY"]}
    assert json.loads(first["response"]) == known | answer | names
    metrics = json.loads(second["request"])["metrics"]["resource_metrics"]
    gauge = metrics[0]["scope_metrics"][0]["metrics"][0]["gauge"]
    assert gauge["data_points"][0]["as_double"] == "nan"


def test_the_names_are_those_that_the_package_finds() -> None:
    names = metric_names(made_metrics())
    assert names == [LATENCY, SENT, SIZES]
    assert metric_names(b"") == []


@given(st.binary(max_size=200), st.integers(0, 4))
def test_any_bytes_are_metrics_or_decode_errors(data: bytes, codec: int) -> None:
    for packed in (data, compress(codec, data)):
        try:
            decode_metrics(packed, codec)
        except DecodeError:
            continue


@given(st.binary(max_size=200), st.integers(0, 100))
def test_any_bytes_are_names_or_decode_errors(data: bytes, at: int) -> None:
    whole = made_metrics()
    for protobuf in (data, whole[:at] + data, whole[:at] + data + whole[at:]):
        try:
            metric_names(protobuf)
        except DecodeError:
            continue
