"""Metrics in Prometheus' protobuf format, which alone has native histograms.

    page      = family*, each after its size as a varint
    family    = name 1, help 2, kind 3, metric 4 *
    metric    = label 1 *, gauge 2 | counter 3 | histogram 7
    label     = name 1, value 2
    histogram = count 1, sum 2, bucket 3 * (cumulative count 1, upper bound 2),
                schema 5, zero threshold 6, zero count 7, span 12 * (gap 1, length 2), delta 13 *

https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from kdissect.live.counting.metric_declarations import COUNTER, HISTOGRAM, Metric
from kdissect.live.counting.native_histograms import SCHEMA, ZERO_NS, spans
from kdissect.live.counting.samples import Distribution, Labels, Values

CONTENT_TYPE: Final = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)
TYPE: Final = "application/vnd.google.protobuf"
PARAMETERS: Final = {"proto": "io.prometheus.client.MetricFamily", "encoding": "delimited"}
KINDS: Final = {COUNTER: 0, HISTOGRAM: 4}
GAUGE_KIND: Final = 1
VARINT, DOUBLE, SIZED = 0, 1, 2


def is_preferred(accept: str) -> bool:
    """Return whether a scraper prefers this format, by its Accept header.

    >>> is_preferred("application/openmetrics-text;q=0.9,*/*;q=0.1")
    False
    >>> is_preferred(CONTENT_TYPE + ";q=0.6, application/openmetrics-text; version=1.0.0; q=0.5")
    True
    """
    here = others = 0.0
    for part in accept.split(","):
        kind, *words = (word.strip() for word in part.split(";"))
        found = dict(word.split("=", 1) for word in words if "=" in word)
        weight = weight_of(found.get("q", "1"))
        if kind == TYPE and found.items() >= PARAMETERS.items():
            here = max(here, weight)
        else:
            others = max(others, weight)
    return here > 0 and here >= others


def weight_of(text: str) -> float:
    """A weight of an Accept header; 0 if it is none."""
    try:
        return max(0.0, min(1.0, float(text)))
    except ValueError:
        return 0.0


def page(families: Iterable[tuple[Metric, Values, list[Distribution]]]) -> bytes:
    """The page of these families; those without samples are left out."""
    return b"".join(
        varint(len(one)) + one for one in (family(*each) for each in families if each[1] or each[2])
    )


def family(metric: Metric, values: Values, distributions: list[Distribution]) -> bytes:
    """One MetricFamily."""
    (name, *_) = metric.series
    if metric.kind == HISTOGRAM:
        name = metric.name
    parts = [text(1, name), text(2, metric.meaning)]
    parts.append(number(3, KINDS.get(metric.kind, GAUGE_KIND)))
    field = 3 if metric.kind == COUNTER else 2
    for labels, value in values:
        parts.append(sample(metric, labels, sized(field, double(1, value))))
    for one in distributions:
        parts.append(sample(metric, one.labels, sized(7, histogram(one))))
    return b"".join(parts)


def sample(metric: Metric, labels: Labels, value: bytes) -> bytes:
    pairs = zip(metric.labels, labels, strict=True)
    named = (sized(1, text(1, name) + text(2, label)) for name, label in pairs)
    return sized(4, b"".join(named) + value)


def histogram(one: Distribution) -> bytes:
    """A classic histogram, and a native one if it has such buckets."""
    parts = [number(1, int(one.buckets[-1][1])), double(2, one.total)]
    for bound, count in one.buckets:
        parts.append(sized(3, number(1, int(count)) + double(2, float(bound))))
    if one.native is not None:
        parts.extend(native(one.native))
    return b"".join(parts)


def native(counts: dict[int, int]) -> Iterator[bytes]:
    """Fields of a native histogram; its counts are differences to the one before."""
    yield number(5, zigzag(SCHEMA))
    yield double(6, ZERO_NS / 1e9)
    yield number(7, counts.get(0, 0))
    runs = list(spans(counts))
    for gap, run in runs:
        yield sized(12, number(1, zigzag(gap)) + number(2, len(run)))
    before = 0
    for count in (count for _, run in runs for count in run):
        yield number(13, zigzag(count - before))
        before = count


def zigzag(value: int) -> int:
    """A signed number as an unsigned one.

    >>> [zigzag(value) for value in (0, -1, 1, -2)]
    [0, 1, 2, 3]
    """
    return value << 1 if value >= 0 else (-value << 1) - 1


def varint(value: int) -> bytes:
    """An unsigned number, seven bits to a byte, the lowest first.

    >>> varint(300).hex()
    'ac02'
    """
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | VARINT) + varint(value)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | DOUBLE) + struct.pack("<d", value)


def sized(field: int, content: bytes) -> bytes:
    return varint(field << 3 | SIZED) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    return sized(field, value.encode())
