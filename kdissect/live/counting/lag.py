"""Lag of consumer groups: ends of partitions, and offsets that groups committed, as they are seen.

Both are known per partition, of the `POSITIONS` partitions that were seen last: commits and ends
may come on different connections, and so to different workers, whose `Positions` are merged.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.capture.packet import SECOND_NS
from kdissect.live.counting.columns import NONE, OTHER, Codes, Names, runs, used_texts
from kdissect.protocol.readers import NULL
from kdissect.tables.batches import ints_of
from kdissect.tables.matrices import Ints

# Partitions of groups, and ends of partitions: some 200 bytes each.
POSITIONS: Final = 10_000
# A lower end than the highest is believed after this time, as of a topic that was made again:
# replicas answer fetches, and those may be behind.
STAND_NS: Final = 60 * SECOND_NS
COMMITS: Final = ("OffsetCommit", "TxnOffsetCommit", "OffsetFetch")
PRODUCE: Final = "Produce"

Partition = tuple[str, int]  # topic and index
Place = tuple[str, str, int]  # of a group
Seen = tuple[int, int]  # time and offset


class Positions(NamedTuple):
    """Committed offsets of groups and ends of partitions, with the time of each."""

    committed: Mapping[Place, Seen]
    ends: Mapping[Partition, Seen]


NO_POSITIONS: Final = Positions({}, {})


class GroupLag(NamedTuple):
    """Records that a group has not committed, summed over so many partitions."""

    records: int
    partitions: int


class Asked(NamedTuple):
    """Exchanges in which offsets are committed, or read as committed."""

    exchange_id: int
    group: str
    time_ns: int


class Cells(NamedTuple):
    """Rows of `partitions` that have an offset."""

    exchange_id: Ints
    topic: Codes
    partition: Ints
    error: Ints
    base_offset: Ints
    record_count: Ints
    committed_offset: Ints
    high_watermark: Ints


OFFSETS: Final = Cells._fields[4:]


class OffsetCounts:
    """Takes rows of `exchanges` and `partitions`; those of an exchange come between two ticks."""

    def __init__(self, limit: int = POSITIONS) -> None:
        self._limit = limit
        self._topics = Names(limit)
        self._committed: dict[Place, Seen] = {}
        self._ends: dict[Partition, Seen] = {}
        self._groups: dict[str, None] = {}
        self._begin()

    def _begin(self) -> None:
        self._asked: list[Asked] = []
        self._produces = [np.empty(0, np.int64)]
        self._cells: list[Cells] = []

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        """Take rows of one table; other tables have no effect."""
        if table == "exchanges" and batch.num_rows:
            self._take_exchanges(batch)
        elif table == "partitions" and batch.num_rows:
            self._take_partitions(batch)

    def tick(self, now_ns: int) -> Positions:
        """Positions after the rows so far."""
        if self._cells:
            cells = Cells._make(np.concatenate(parts) for parts in zip(*self._cells, strict=True))
            self._see_ends(cells, now_ns)
            self._see_commits(cells)
        self._begin()
        return Positions(dict(self._committed), dict(self._ends))

    def take_groups(self) -> list[str]:
        """Groups whose commits came since the last call."""
        taken, self._groups = list(self._groups), {}
        return taken

    def _take_exchanges(self, batch: pa.RecordBatch) -> None:
        apis, ids = batch["api"], ints_of(batch["exchange_id"])
        self._produces.append(ids[is_one_of(apis, (PRODUCE,))])
        rows = np.flatnonzero(is_one_of(apis, COMMITS))
        if not len(rows):
            return
        groups = batch["group_id"].take(pa.array(rows)).to_pylist()
        times = ints_of(batch["response_end"])[rows].tolist()
        self._asked += [
            Asked(number, group, time_ns)
            for number, group, time_ns in zip(ids[rows].tolist(), groups, times, strict=True)
            if group and time_ns != NULL
        ]

    def _take_partitions(self, batch: pa.RecordBatch) -> None:
        base, counts, committed, watermark = (ints_of(batch[name]) for name in OFFSETS)
        topics = self._topics.codes(batch["topic"])
        is_known = (topics != NONE) & (topics != OTHER)
        rows = np.flatnonzero(is_known & ((base >= 0) | (committed >= 0) | (watermark >= 0)))
        if len(rows):
            of = (ints_of(batch["exchange_id"]), topics, ints_of(batch["partition"]))
            errors = ints_of(batch["error_code"])
            whole = Cells(*of, errors, base, counts, committed, watermark)
            self._cells.append(Cells._make(column[rows] for column in whole))

    def _see_ends(self, cells: Cells, now_ns: int) -> None:
        """Note the highest end of each partition: high watermarks, and ends of produced runs."""
        is_ok = (cells.error == 0) | (cells.error == NULL)
        is_produce = np.isin(cells.exchange_id, np.concatenate(self._produces))
        is_made = is_ok & (cells.base_offset >= 0) & is_produce
        made = cells.base_offset + np.maximum(cells.record_count, 1)
        ends = np.maximum(np.where(is_made, made, -1), cells.high_watermark)
        order = np.lexsort((-ends, cells.partition, cells.topic))
        # The first of a partition has its highest end.
        first = order[runs(cells.topic[order], cells.partition[order])]
        first = first[ends[first] >= 0]
        columns = (cells.topic[first], cells.partition[first], ends[first])
        lists: list[list[int]] = [column.tolist() for column in columns]
        for code, index, end in zip(*lists, strict=True):
            key = self._topics.texts[code], index
            put_last(self._ends, key, higher(self._ends.get(key), (now_ns, end)), self._limit)

    def _see_commits(self, cells: Cells) -> None:
        """Note the last committed offsets."""
        asked = {one.exchange_id: one for one in self._asked}
        if not asked:
            return
        is_ok = (cells.error == 0) | (cells.error == NULL)
        is_one = is_ok & (cells.committed_offset >= 0)
        rows = np.flatnonzero(is_one & np.isin(cells.exchange_id, list(asked)))
        columns = (cells.exchange_id, cells.topic, cells.partition, cells.committed_offset)
        lists: list[list[int]] = [column[rows].tolist() for column in columns]
        for number, code, index, offset in zip(*lists, strict=True):
            key = asked[number].group, self._topics.texts[code], index
            seen = asked[number].time_ns, offset
            if seen >= self._committed.get(key, seen):
                put_last(self._committed, key, seen, self._limit)
                self._groups[key[0]] = None


def is_one_of(column: pa.DictionaryArray, texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """Per row of a text column, whether it is one of these."""
    codes = [code for code, text in enumerate(used_texts(column)) if text in texts]
    found: np.ndarray[Any, Any] = np.isin(ints_of(column.indices), codes)
    return found


def put_last(found: dict[Any, Seen], key: Any, seen: Seen, limit: int) -> None:
    """Set a value as the one that was seen last; beyond the limit the first is forgotten."""
    found.pop(key, None)
    found[key] = seen
    if len(found) > limit:
        del found[next(iter(found))]


def higher(before: Seen | None, seen: Seen) -> Seen:
    """The higher of two ends; the later one if the other has not been seen for STAND_NS.

    >>> higher((5, 100), (6, 90)), higher((5, 100), (5 + STAND_NS, 90))[1]
    ((5, 100), 90)
    """
    if before is None or seen[1] >= before[1] or seen[0] - before[0] >= STAND_NS:
        return seen
    return before


def merge_positions(parts: Iterable[Positions]) -> Positions:
    """Positions of several workers as one."""
    committed: dict[Place, Seen] = {}
    ends: dict[Partition, Seen] = {}
    for part in parts:
        for place, seen in part.committed.items():
            committed[place] = max(committed.get(place, seen), seen)
        for partition, seen in part.ends.items():
            first, second = sorted((ends.get(partition, seen), seen))
            ends[partition] = higher(first, second)
    return Positions(committed, ends)


def lags(positions: Positions) -> dict[str, GroupLag]:
    """Lag by group, of partitions whose end is known; that of a commit is at least its offset."""
    found: dict[str, GroupLag] = {}
    for (group, topic, index), (_, offset) in positions.committed.items():
        end = positions.ends.get((topic, index))
        if end is not None:
            known = found.get(group, GroupLag(0, 0))
            behind = max(end[1] - offset, 0)
            found[group] = GroupLag(known.records + behind, known.partitions + 1)
    return found
