"""Grace: how much longer than it asked for a request may wait before it is overdue.

A request in flight is not late: it is when it waits longer than nearly all of its API did recently.
"""

from typing import Final

import numpy as np

from kdissect.live.counting.columns import Names
from kdissect.live.counting.time_buckets import ExchangeColumns
from kdissect.protocol.readers import NULL

MINIMUM_NS: Final = 1_000_000_000
MAXIMUM_NS: Final = 60_000_000_000
QUANTILE: Final = 0.999
# Weight of a row after one tick. Half as much after 69 ticks, a hundredth after eight minutes.
DECAY: Final = 0.99
# Upper bounds of the buckets: a quarter more each, from a second on. Faster ones do not matter.
BOUNDS_NS: Final = np.geomspace(MINIMUM_NS, MAXIMUM_NS, 19).astype(np.int64)


class Grace:
    """The 99.9th percentile of broker time by API, of the last minutes; at least a second.

    An upper bound that is exact to a quarter. Broker time excludes long polls and rebalances.
    """

    def __init__(self) -> None:
        self._counts: dict[str, np.ndarray] = {}
        self._by_api: dict[str, int] = {}

    def of(self, api: str) -> int:
        """Grace of an API, in ns."""
        return self._by_api.get(api, MINIMUM_NS)

    def add(self, rows: ExchangeColumns, apis: Names) -> None:
        """Add the rows of one tick, whose APIs are codes of `apis`."""
        for counts in self._counts.values():
            counts *= DECAY
        answered = rows.latency != NULL
        wait = np.where(rows.wait == NULL, 0, rows.wait)
        spent = np.maximum(rows.latency - wait, 0)[answered]
        codes = rows.api[answered]
        bucket = np.searchsorted(BOUNDS_NS, spent, side="left")
        for code in np.unique(codes).tolist():
            added = np.bincount(bucket[codes == code], minlength=len(BOUNDS_NS) + 1)
            known = self._counts.get(apis.texts[code])
            self._counts[apis.texts[code]] = added.astype(float) if known is None else known + added
        self._by_api = {api: percentile(counts) for api, counts in self._counts.items()}


def percentile(counts: np.ndarray) -> int:
    """Upper bound of the bucket that holds the quantile, in ns."""
    sums = np.cumsum(counts)
    place = int(np.searchsorted(sums, QUANTILE * sums[-1], side="left"))
    return int(BOUNDS_NS[min(place, len(BOUNDS_NS) - 1)])
