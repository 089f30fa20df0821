"""Latency by client and topic as native histograms, read by the protobuf library and Prometheus."""

import io
import math
import random
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, proto
from prometheus_client.parser import text_string_to_metric_families

from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.counting.native_histograms import COUNT, FIRST, LAST, places_of
from kdissect.live.counting.protobuf_page import CONTENT_TYPE, is_preferred
from kdissect.live.workers.summed_metrics import SummedMetrics
from tests.live.made_rows import exchange, given, handed, partition, status
from tests.live.test_metrics import served
from tests.live.test_prometheus import prometheus, values_of, wait
from tests.seeds import SEED

CLIENT = "kdissect_client_latency_seconds"
TOPIC = "kdissect_topic_latency_seconds"
PREFERS = f"{CONTENT_TYPE.replace('; ', ';')},application/openmetrics-text;version=1.0.0;q=0.8"
RATIO = 2 ** (1 / 8)
# Types of fields of a FieldDescriptorProto: 1 double, 4 uint64, 9 string, 11 message, 13 uint32,
# 14 enum, 17 sint32, 18 sint64. As io/prometheus/client/metrics.proto of client_model has them.
MESSAGES: dict[str, list[tuple[str, int, int, str, bool]]] = {
    "LabelPair": [("name", 1, 9, "", False), ("value", 2, 9, "", False)],
    "Gauge": [("value", 1, 1, "", False)],
    "Counter": [("value", 1, 1, "", False)],
    "Bucket": [("cumulative_count", 1, 4, "", False), ("upper_bound", 2, 1, "", False)],
    "BucketSpan": [("offset", 1, 17, "", False), ("length", 2, 13, "", False)],
    "Histogram": [
        ("sample_count", 1, 4, "", False), ("sample_sum", 2, 1, "", False),
        ("bucket", 3, 11, "Bucket", True), ("schema", 5, 17, "", False),
        ("zero_threshold", 6, 1, "", False), ("zero_count", 7, 4, "", False),
        ("positive_span", 12, 11, "BucketSpan", True), ("positive_delta", 13, 18, "", True),
    ],
    "Metric": [
        ("label", 1, 11, "LabelPair", True), ("gauge", 2, 11, "Gauge", False),
        ("counter", 3, 11, "Counter", False), ("histogram", 7, 11, "Histogram", False),
    ],
    "MetricFamily": [
        ("name", 1, 9, "", False), ("help", 2, 9, "", False), ("type", 3, 5, "", False),
        ("metric", 4, 11, "Metric", True),
    ],
}  # fmt: skip


def family_type() -> Any:
    """MetricFamily, as a class of the protobuf library."""
    file = descriptor_pb2.FileDescriptorProto(
        name="metrics.proto", package="io.prometheus.client", syntax="proto2"
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of, is_repeated in fields:
            made = message.field.add(name=field, number=number, type=kind)
            made.label = 3 if is_repeated else 1
            if of:
                made.type_name = f".io.prometheus.client.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("io.prometheus.client.MetricFamily")
    return message_factory.GetMessageClass(found)


def families(page: bytes) -> dict[str, Any]:
    """The families of a page, by name."""
    kind, found, rest = family_type(), {}, io.BytesIO(page)
    while (one := proto.parse_length_prefixed(kind, rest)) is not None:
        found[one.name] = one
    return found


def counts_of(histogram: Any) -> dict[int, int]:
    """Counts of a native histogram by number of the bucket."""
    found, number, count = {}, 0, 0
    deltas = iter(histogram.positive_delta)
    for span in histogram.positive_span:
        number += span.offset
        for _ in range(span.length):
            count += next(deltas)
            found[number] = count
            number += 1
    assert next(deltas, None) is None
    return found


def drawn(number: int = 400) -> list[float]:
    """Latencies in ms, from below a microsecond to hours."""
    draw = random.Random(SEED)
    return [math.exp(draw.uniform(math.log(5e-4), math.log(1e7))) for _ in range(number)]


def metrics_of(latencies: list[float]) -> MetricsListener:
    metrics = MetricsListener()
    rows = [exchange(at, latency_ms=ms) for at, ms in enumerate(latencies, 1)]
    topics = [partition(at, record_count=1, record_bytes=1) for at in range(1, len(rows) + 1)]
    given(metrics, handed({"exchanges": rows, "partitions": topics}))
    metrics.tick(status(10**6))
    return metrics


def asked(port: int, accept: str) -> tuple[bytes, str]:
    """A scraper's second page, and its content type."""
    for _ in range(2):
        wanted = Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
        with urlopen(wanted, timeout=60) as answer:  # noqa: S310  # loopback
            page, kind = answer.read(), answer.headers["Content-Type"]
    return page, kind


def test_buckets_are_those_of_the_specification() -> None:
    """A value is in (2^((k-1)/8), 2^(k/8)], which is also so at powers of two."""
    edges = [2**exponent * 10**9 for exponent in range(10)]
    values = [round(ms * 1e6) for ms in drawn()] + edges + [one + 1 for one in edges]
    for value, place in zip(values, places_of(np.array(values)).tolist(), strict=True):
        assert 0 <= place < COUNT
        number = place - 1 + FIRST
        if value <= 1_000:
            assert place == 0
        elif number == LAST:
            assert value / 1e9 > RATIO ** (LAST - 1) * (1 - 1e-12)
        else:
            assert RATIO ** (number - 1) * (1 - 1e-12) < value / 1e9 <= RATIO**number * (1 + 1e-12)


def test_a_page_in_protobuf_has_what_the_text_has_and_native_histograms() -> None:
    latencies = drawn()
    with served(metrics_of(latencies)) as server:
        page, kind = asked(server.port, PREFERS)
        text, text_kind = asked(server.port, "text/plain")
    assert kind == CONTENT_TYPE
    assert text_kind.startswith("text/plain")
    found = families(page)
    for family in text_string_to_metric_families(text.decode()):
        if family.type == "histogram":
            compare_histograms(family, found[family.name] if family.samples else None)
        elif family.samples:
            name = family.samples[0].name
            theirs = {
                tuple(sorted((pair.name, pair.value) for pair in one.label)): (
                    one.counter.value if one.HasField("counter") else one.gauge.value
                )
                for one in found[name].metric
            }
            ours = {tuple(sorted(one.labels.items())): one.value for one in family.samples}
            if not name.startswith("process_"):
                assert theirs == ours, name
    (one,) = found[CLIENT].metric
    histogram = one.histogram
    assert (histogram.schema, histogram.zero_threshold) == (3, 1e-6)
    assert histogram.zero_count == sum(round(ms * 1e6) <= 1_000 for ms in latencies)
    assert histogram.zero_count + sum(counts_of(histogram).values()) == len(latencies)


def compare_histograms(text: Any, binary: Any) -> None:
    """Classic buckets, counts and sums of a family."""
    for one in binary.metric if binary is not None else ():
        labels = {pair.name: pair.value for pair in one.label}
        for sample in text.samples:
            bound = sample.labels.get("le")
            if {**sample.labels, "le": None} != {**labels, "le": None} or bound is None:
                continue
            (there,) = [
                each.cumulative_count
                for each in one.histogram.bucket
                if each.upper_bound == float(bound)
            ]
            assert there == sample.value
        assert one.histogram.sample_count == one.histogram.bucket[-1].cumulative_count


def test_histograms_of_workers_are_those_of_one_process() -> None:
    latencies = drawn()
    whole = metrics_of(latencies).samples().distributions
    summed = SummedMetrics(2, 100)
    for upto in (50, 400):
        half = upto // 2
        parts = [latencies[:half], latencies[200 : 200 + half]]
        summed.add([metrics_of(part).samples() for part in parts], {})
    for name in (CLIENT, TOPIC):
        (ours,), (theirs,) = whole[name], summed.samples().distributions[name]
        assert ours.native == theirs.native != {}


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (PREFERS, True),
        ("", False),
        ("*/*", False),
        ("application/vnd.google.protobuf", False),
        ("application/vnd.google.protobuf;proto=other;encoding=delimited", False),
        (f"{CONTENT_TYPE};q=x", False),
        (f"application/openmetrics-text;q=0.5,{CONTENT_TYPE};q=0.4,*/*;q=0.1", False),
    ],
)
def test_protobuf_is_for_scrapers_that_prefer_it(accept: str, wanted: bool) -> None:
    assert is_preferred(accept) == wanted


@pytest.mark.slow
@pytest.mark.prometheus
def test_prometheus_takes_quantiles_of_native_histograms(tmp_path: Path) -> None:
    """They are within the width of a bucket of the exact ones; with a few classic buckets, not."""
    latencies = sorted(random.Random(SEED).lognormvariate(2, 1.5) for _ in range(2_000))
    with (
        served(metrics_of(latencies)) as server,
        prometheus(tmp_path, server.port, "--enable-feature=native-histograms") as (place, running),
    ):
        while not values_of(place, f"histogram_count(increase({CLIENT}[1m])) > 0"):
            wait(running)
        counted = values_of(place, f"histogram_count({CLIENT})")
        for share in (0.5, 0.9, 0.99):
            (found,) = values_of(place, f"histogram_quantile({share}, {TOPIC}{{topic='orders'}})")
            exact = latencies[math.ceil(share * len(latencies)) - 1] / 1e3
            assert 1 / RATIO <= float(found["value"][1]) / exact <= RATIO
    assert [one["value"][1] for one in counted] == ["2000"]
