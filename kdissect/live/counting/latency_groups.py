"""Exchanges by API, client and topic: rates, errors, bytes and percentiles."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from kdissect.analysis.tally import (
    COARSEST,
    Tally,
    bin_count,
    chosen,
    merged,
    precision_for,
    quantiles,
    tally,
)
from kdissect.live.counting.merged_buckets import MergedBuckets
from kdissect.live.counting.snapshot import LISTED, Timed
from kdissect.tables.matrices import Ints

SHARES: Final = (0.5, 0.95, 0.99)
# Of more exchanges in a time bucket, sorting their times takes too long between two screens.
MOST_SORTED: Final = 1 << 12
PRODUCES: Final = frozenset({"Produce", "MultiProduce"})
FETCHES: Final = frozenset({"Fetch", "ShareFetch", "MultiFetch"})


def exchange_tally(joined: MergedBuckets, column: str) -> Tally:
    """The selected exchanges by a column of codes: errors, and bytes of both directions."""
    measures = ("has_error", "request_size", "response_size")
    of = (joined.column(name) for name in measures)
    times = joined.column("latency")
    return tally(joined.column(column), times, *of, bits=bits_for(len(times)))


def topic_tally(joined: MergedBuckets) -> Tally:
    """The selected exchanges by topic: errors, and bytes of records produced and fetched."""
    topics = joined.topics
    produces = np.array([name in PRODUCES for name in joined.names.apis.texts])
    is_produced = produces[joined.whole("api")[topics.row]]
    sizes = topics.bytes * is_produced, topics.bytes * ~is_produced
    times = joined.whole("latency")[topics.row]
    return tally(topics.topic, times, topics.has_error, *sizes, bits=bits_for(len(times)))


def bits_for(rows: int) -> int:
    """Precision for so many rows of some time buckets."""
    return precision_for(rows) if rows <= MOST_SORTED else COARSEST


def timed(of: Tally, names: Sequence[str], seconds: float) -> tuple[Timed, ...]:
    """Measures by name, the names being indexed by key; the most exchanges first."""
    errors, to_broker, to_client = of.sums
    measures = of.rows, errors, to_broker + to_client, of.longest
    places = np.unique(np.concatenate([highest(measure) for measure in measures]))
    some = chosen(of, places)
    rates = np.vstack([some.rows, some.sums]) / seconds
    times = np.column_stack([quantiles(some, SHARES), some.longest])
    order = np.argsort(-some.rows, kind="stable")
    columns = (of.key[places], rates.T, times)
    return tuple(
        Timed._make([names[key], *rate, *found])
        for key, rate, found in zip(*(column[order].tolist() for column in columns), strict=True)
    )


def whole_of(of: Tally, seconds: float) -> Timed:
    """Totals of all exchanges, of a tally that counts each once."""
    if not len(of.key):
        return Timed("", 0.0, 0.0, 0.0, 0.0, -1, -1, -1, -1)
    whole = merged([of._replace(key=of.key * 0, cells=of.cells % bin_count(of.bits))])
    return timed(whole, [""], seconds)[0]


def highest(values: np.ndarray[Any, Any], listed: int = LISTED) -> Ints:
    """Indices of the `listed` highest values."""
    if len(values) <= listed:
        return np.arange(len(values))
    return np.argpartition(values, -listed)[-listed:]
