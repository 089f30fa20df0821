"""Exchanges of each topic: rows of partitions joined with their exchanges."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers
from kdissect.analysis.summary.summary import topics_and_places
from kdissect.tables.matrices import Ints

# Pairs of an exchange and a topic, of 16 bytes each; of more, the first are examined.
MOST: Final = 1 << 20


class TopicsOfExchanges(NamedTuple):
    """Pairs ordered by exchange: ids, and places in `names`; `left_out` rows came too late."""

    names: list[str]
    ids: Ints
    places: Ints
    left_out: int

    def of(self, ids: Ints) -> tuple[Ints, Ints]:
        """For each pair of these exchanges: the exchange's place in `ids`, and its topic's."""
        begin = np.searchsorted(self.ids, ids, "left")
        size = np.searchsorted(self.ids, ids, "right") - begin
        rows = np.repeat(np.arange(len(ids)), size)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(size) - size, size)
        return rows, self.places[np.repeat(begin, size) + offsets]


def topics_of_exchanges(batches: Iterable[pa.RecordBatch]) -> TopicsOfExchanges:
    """The topics of each exchange, each once."""
    codes: dict[str, int] = {}
    parts: list[tuple[Ints, Ints]] = []
    held = left_out = 0
    for batch in batches:
        if held >= MOST:
            left_out += batch.num_rows
            continue
        names, places = topics_and_places(batch)
        own = np.array([codes.setdefault(name, len(codes)) for name in names], np.int64)
        ids, topics = distinct(integers(batch, "exchange_id", -1), own[places])
        parts.append((ids, topics))
        held += len(ids)
    if not parts:
        return TopicsOfExchanges([], np.empty(0, np.int64), np.empty(0, np.int64), 0)
    ids, topics = (np.concatenate(side) for side in zip(*parts, strict=True))
    return TopicsOfExchanges(list(codes), *distinct(ids, topics), left_out)


def distinct(ids: Ints, topics: Ints) -> tuple[Ints, Ints]:
    """Each pair once, in order."""
    order = np.lexsort((topics, ids))
    ids, topics = ids[order], topics[order]
    is_new = np.ones(len(ids), bool)
    is_new[1:] = (ids[1:] != ids[:-1]) | (topics[1:] != topics[:-1])
    return ids[is_new], topics[is_new]
