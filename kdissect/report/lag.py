"""Lag of consumer groups by time bin, with the numbers of `kdissect lag` at the end of each bin.

Rows of partitions and batches come in the order of their exchanges, so each is joined with one of
the last exchanges that were read. Of each partition (and group), a bin keeps its highest end, last
commit and last delivered offset; where those cells are too many, bins become twice as wide.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.brokers import FOLLOWER
from kdissect.analysis.consumption import FETCHES
from kdissect.analysis.questions.lag import COMMITS
from kdissect.analysis.summary.arrow_columns import has_word, integers, is_set
from kdissect.analysis.summary.summary import topics_and_places
from kdissect.report.axis import Axis
from kdissect.report.group_names import NO_GROUP, GroupNames, matches
from kdissect.tables.matrices import Ints

HELD: Final = 1 << 18  # exchanges to join with, 40 bytes each
LATE: Final = 1 << 18  # rows whose exchange was not among those, 48 bytes each
MOST_CELLS: Final = 1 << 18  # of each kind, 24 bytes each
MOST_PLACES: Final = 1 << 16  # partitions, and partitions of groups
GROUPS: Final = 10  # with a line of their own
AT_ONCE: Final = 256  # partitions whose bins are filled at once
WIDTH: Final = 33  # bits of a partition and one more
COMMIT, FETCH, PRODUCE, OTHER = range(4)
UNKNOWN: Final = -1


class Cells:
    """Key → a value and the time that ranks it; of equal keys, the latest is kept."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints, Ints]] = []
        self._merged = 0

    def add(self, keys: Ints, ranks: Ints, values: Ints) -> None:
        """Take values; where ranks are equal, the first stays."""
        if len(keys):
            self._parts.append((keys, ranks, values))
        if sum(len(part[0]) for part in self._parts[1:]) > max(MOST_CELLS, self._merged):
            self.merge()

    def merge(self) -> tuple[Ints, Ints, Ints]:
        """Keys in order, with their ranks and values."""
        if not self._parts:
            none = np.empty(0, np.int64)
            return none, none, none
        if len(self._parts) == 1 and len(self._parts[0][0]) == self._merged:
            return self._parts[0]
        keys, ranks, values = (np.concatenate(side) for side in zip(*self._parts, strict=True))
        order = np.lexsort((-ranks, keys))
        order = order[np.diff(keys[order], prepend=-1) != 0]
        self._parts = [(keys[order], ranks[order], values[order])]
        self._merged = len(order)
        return self._parts[0]

    @property
    def is_large(self) -> bool:
        """Return whether more cells than `MOST_CELLS` are left when merged."""
        return self._merged > MOST_CELLS

    def by_bin(self, numbers: Ints, bins: int) -> Ints:
        """The values of keys ``number * bins + bin``, a row for each number; -1 without one."""
        keys, _, values = self.merge()
        begin = np.searchsorted(keys, numbers * bins)
        size = np.searchsorted(keys, (numbers + 1) * bins) - begin
        rows = np.repeat(np.arange(len(numbers)), size)
        places = np.repeat(begin - np.cumsum(size) + size, size) + np.arange(len(rows))
        made = np.full((len(numbers), bins), UNKNOWN)
        made[rows, keys[places] - numbers[rows] * bins] = values[places]
        return made

    def renumber(self, of: Ints) -> None:
        """Give all merged keys others, of which some are equal."""
        _, ranks, values = self.merge()
        self._parts, self._merged = [(of, ranks, values)], 0
        self.merge()


@dataclass(frozen=True, slots=True)
class Joined:
    """Exchanges by id: kind, times in ns, and the group or `NO_GROUP`."""

    ids: Ints
    kinds: Ints
    asked: Ints
    answered: Ints
    groups: Ints


@dataclass(frozen=True, slots=True)
class Offsets:
    """Rows of partitions or batches with their exchange, place, and columns of offsets."""

    ids: Ints
    places: Ints
    columns: dict[str, Ints]

    def chosen(self, which: Any) -> "Offsets":
        """The rows of a mask or of places."""
        columns = {name: values[which] for name, values in self.columns.items()}
        return Offsets(self.ids[which], self.places[which], columns)


class Lag:
    """Collects the offsets of groups and the ends of partitions, a table after the other."""

    def __init__(self, axis: Axis, connections: Iterable[pa.RecordBatch]) -> None:
        self.axis = axis
        self.names = GroupNames(connections)
        self.shift = 0  # bins are 2 ** shift of the axis' bins wide
        self.is_cut = False  # there are more partitions than `MOST_PLACES`
        self.groups_left_out = 0
        self.at_end: dict[str, int] = {}  # group → lag, once there are lines
        self.rows_left_out = 0
        self._topics: dict[str, int] = {}
        self._places: dict[int, int] = {}  # topic and partition → number
        self._of_groups: dict[int, int] = {}  # group and place → number
        self._ends, self._commits, self._positions = Cells(), Cells(), Cells()
        self._held: list[Joined] = []
        self._exchanges: Iterator[pa.RecordBatch] | None = None  # those after `_held`

    @property
    def is_worth(self) -> bool:
        """Return whether any exchange names a group."""
        return self.names.has_any

    def add_exchanges(self, batch: pa.RecordBatch) -> None:
        """Note which groups connections and clients are of; all batches before any other."""
        self.names.add(batch)

    def add_rows(
        self, table: str, batches: Iterable[pa.RecordBatch],
        exchanges: Callable[[], Iterator[pa.RecordBatch]],
    ) -> None:  # fmt: skip
        """Count rows of `partitions` or `batches`; `exchanges` reads all, in order."""
        if self._exchanges is None:
            self._held, self._exchanges = [], exchanges()
        late: list[Offsets] = []
        is_whole = True  # nothing was let go: the next table needs not read them again
        for batch in batches:
            rows = self._offsets(table, batch)
            for one in self._held:
                rows = self._found(rows, one)
            while len(rows.ids):
                more = next(self._exchanges, None)
                if more is None:
                    break
                self._held.append(self._joined(more))
                rows = self._found(rows, self._held[-1])
                while sum(len(one.ids) for one in self._held[1:]) > HELD:
                    del self._held[0]
                    is_whole = False
            if len(rows.ids):
                late.append(rows)
                self._bound(late)
        if not is_whole:
            self._exchanges = None
        self._add_late(late, exchanges)

    def lines(self) -> list[dict[str, Any]]:
        """Lag by bin of the groups that are furthest behind, null before it is known."""
        self._held, self._exchanges = [], None
        return [{"name": name, "values": values} for _, name, values in self._largest()]

    # Rows

    def _offsets(self, table: str, batch: pa.RecordBatch) -> Offsets:
        names, places = topics_and_places(batch)
        named = np.array([bool(name) for name in names], bool)[places]
        partitions = integers(batch, "partition", UNKNOWN)
        if table == "batches":
            columns = {"last": integers(batch, "last_offset", UNKNOWN)}
            wanted = columns["last"] >= 0
        else:
            columns = {
                "commit": integers(batch, "committed_offset", UNKNOWN),
                "asked": integers(batch, "fetch_offset", UNKNOWN),
                "marked": integers(batch, "high_watermark", UNKNOWN),
                "base": integers(batch, "base_offset", UNKNOWN),
                "count": integers(batch, "record_count", 1),
                "error": integers(batch, "error_code", 0),
            }
            wanted = np.maximum(columns["commit"], columns["asked"]) >= 0
            wanted |= np.maximum(columns["marked"], columns["base"]) >= 0
        rows = np.flatnonzero(wanted & named & (partitions >= 0))
        columns = {name: values[rows] for name, values in columns.items()}
        of = self._numbers(names, places[rows], partitions[rows])
        found = Offsets(integers(batch, "exchange_id", UNKNOWN)[rows], of, columns)
        return found.chosen(of >= 0)

    def _numbers(self, names: Sequence[str], places: Ints, partitions: Ints) -> Ints:
        """The number of each row's topic and partition, or `UNKNOWN` for one too many."""
        topics = np.array(
            [self._topics.setdefault(name, len(self._topics)) for name in names], np.int64
        )
        return self._known(self._places, (topics[places] << WIDTH) + partitions)

    def _known(self, known: dict[int, int], keys: Ints) -> Ints:
        distinct, inverse = np.unique(keys, return_inverse=True)
        found = []
        for key in distinct.tolist():
            if key not in known and len(known) >= MOST_PLACES:
                self.is_cut = True
                found.append(UNKNOWN)
            else:
                found.append(known.setdefault(key, len(known)))
        return np.array(found, np.int64)[inverse.reshape(-1)]

    def _bound(self, late: list[Offsets]) -> None:
        while sum(len(rows.ids) for rows in late) > LATE:
            self.rows_left_out += len(late.pop(0).ids)

    # Joins

    def _joined(self, batch: pa.RecordBatch) -> Joined:
        """The exchanges of a batch by id."""
        ids = integers(batch, "exchange_id", UNKNOWN)
        kinds = np.full(len(ids), OTHER)
        kinds[has_word(batch, "api", COMMITS)] = COMMIT
        kinds[has_word(batch, "api", ("Produce",))] = PRODUCE
        of_clients = ~is_set(batch, "replica_id") & ~matches(batch, "client_id", FOLLOWER)
        kinds[has_word(batch, "api", FETCHES) & of_clients] = FETCH
        groups = np.full(len(ids), NO_GROUP)
        of_group = np.flatnonzero((kinds == COMMIT) | (kinds == FETCH))
        groups[of_group] = self.names.groups_of(batch, of_group)
        columns = (
            kinds, integers(batch, "request_start", UNKNOWN),
            integers(batch, "response_end", UNKNOWN), groups,
        )  # fmt: skip
        order = np.argsort(ids, kind="stable")
        return Joined(ids[order], *(column[order] for column in columns))

    def _found(self, rows: Offsets, known: Joined) -> Offsets:
        """Count the rows whose exchange is known, and return the others."""
        if not len(rows.ids) or not len(known.ids):
            return rows
        if rows.ids.max() < known.ids[0] or rows.ids.min() > known.ids[-1]:
            return rows
        at = np.minimum(np.searchsorted(known.ids, rows.ids), len(known.ids) - 1)
        is_known = known.ids[at] == rows.ids
        if not is_known.any():
            return rows
        self._count(rows.chosen(is_known), known, at[is_known])
        return rows.chosen(~is_known)

    def _add_late(
        self, late: list[Offsets], exchanges: Callable[[], Iterator[pa.RecordBatch]]
    ) -> None:
        """Rows that came after their exchanges were let go, as those of topics named later."""
        for batch in exchanges() if late else ():
            known = self._joined(batch)
            late = [left for rows in late if len((left := self._found(rows, known)).ids)]
            if not late:
                break

    # Counts

    def _count(self, rows: Offsets, known: Joined, at: Ints) -> None:
        kinds, asked, answered, groups = (
            column[at] for column in (known.kinds, known.asked, known.answered, known.groups)
        )
        if "last" in rows.columns:
            chosen = (kinds == FETCH) & (groups >= 0) & (answered >= 0)
            self._add_delivered(rows.chosen(chosen), groups[chosen], answered[chosen])
            return
        of = rows.columns
        is_right = of["error"] == 0
        chosen = (kinds == COMMIT) & (groups >= 0) & (answered >= 0) & is_right
        chosen &= of["commit"] >= 0
        self._add(self._commits, rows, groups, answered, of["commit"], chosen)
        chosen = (kinds == FETCH) & (groups >= 0) & (asked >= 0) & (of["asked"] >= 0)
        self._add(self._positions, rows, groups, asked, of["asked"], chosen)
        written = (kinds == PRODUCE) & is_right & (of["base"] >= 0)
        ends = np.where(written, of["base"] + np.maximum(of["count"], 1), UNKNOWN)
        ends = np.maximum(ends, of["marked"])
        chosen = (ends >= 0) & (answered >= 0)
        keys = self._keys(rows.places[chosen], answered[chosen])
        self._ends.add(keys, ends[chosen], ends[chosen])
        self._widen()

    def _add(
        self, cells: Cells, rows: Offsets, groups: Ints, times: Ints, values: Ints, chosen: Any
    ) -> None:
        if chosen.any():
            of = self._known(self._of_groups, (groups[chosen] << WIDTH) + rows.places[chosen])
            keys = self._keys(of, times[chosen])
            kept = of >= 0
            cells.add(keys[kept], times[chosen][kept], values[chosen][kept])

    def _add_delivered(self, rows: Offsets, groups: Ints, times: Ints) -> None:
        """The offset behind the last batch; of several in one response, the highest."""
        order = np.argsort(-rows.columns["last"], kind="stable")
        ahead = rows.chosen(order)
        self._add(
            self._positions, ahead, groups[order], times[order], ahead.columns["last"] + 1,
            np.ones(len(order), bool),
        )  # fmt: skip
        self._widen()

    def _keys(self, numbers: Ints, times: Ints) -> Ints:
        """The cells of numbers and times."""
        keys: Ints = numbers * self.axis.count + (self.axis.places(times) >> self.shift)
        return keys

    def _widen(self) -> None:
        """Make bins twice as wide while there are too many cells."""
        every = (self._ends, self._commits, self._positions)
        while any(one.is_large for one in every) and self.axis.count >> self.shift > 1:
            self.shift += 1
            for one in every:
                numbers, bins = np.divmod(one.merge()[0], self.axis.count)
                one.renumber(numbers * self.axis.count + (bins >> 1))

    # Lines

    def _largest(self) -> list[tuple[int, str, list[int | None]]]:
        """The largest lag, name, and lag by bin of the groups that are furthest behind."""
        found: list[tuple[int, str, list[int | None]]] = []
        names = list(self.names.groups)
        for group, sums in self._sums():
            if sums[-1] >= 0:  # known at the end
                self.at_end[names[group]] = int(sums[-1])
                values = [value if value >= 0 else None for value in sums.tolist()]
                found.append((-int(sums.max()), names[group], values))
                found.sort(key=lambda one: one[:2])
                del found[GROUPS:]
        self.groups_left_out = len(self.at_end) - len(found)
        return found

    def _sums(self) -> Iterator[tuple[int, Ints]]:
        """Each group with its lag by bin, -1 before it is known; a few partitions at a time."""
        pairs = np.array(list(self._of_groups), np.int64)
        order = np.argsort(pairs >> WIDTH, kind="stable")
        groups, places = pairs[order] >> WIDTH, pairs[order] & ((1 << WIDTH) - 1)
        before: tuple[int, Ints] | None = None
        for first in range(0, len(order), AT_ONCE):
            some = slice(first, first + AT_ONCE)
            lags = self._lags(order[some], places[some])
            begin = np.flatnonzero(np.diff(groups[some], prepend=-1))
            known = np.maximum.reduceat(lags, begin) >= 0
            sums = np.where(known, np.add.reduceat(np.maximum(lags, 0), begin), UNKNOWN)
            for group, of in zip(groups[some][begin].tolist(), sums, strict=True):
                if before is not None and before[0] == group:
                    both = np.maximum(before[1], 0) + np.maximum(of, 0)
                    of = np.where((before[1] >= 0) | (of >= 0), both, UNKNOWN)
                elif before is not None:
                    yield before
                before = group, of
        if before is not None:
            yield before

    def _lags(self, of_groups: Ints, places: Ints) -> Ints:
        """The lag of partitions of groups by bin, -1 before it is known."""
        bins = self.axis.count
        ends = np.maximum.accumulate(self._ends.by_bin(places, bins), axis=1)
        commits = carried(self._commits.by_bin(of_groups, bins))
        reached = carried(self._positions.by_bin(of_groups, bins))
        # An offset that was committed or fetched exists, so the end is at least that.
        lags = np.maximum(np.maximum(ends, commits), reached) - commits
        lags[(ends < 0) | (commits < 0)] = UNKNOWN
        return lags[:, np.arange(bins) >> self.shift]


def carried(values: Ints) -> Ints:
    """The last known value up to each bin.

    >>> carried(np.array([[-1, 5, -1, 7, -1]])).tolist()
    [[-1, 5, 5, 7, 7]]
    """
    last = np.where(values >= 0, np.arange(values.shape[1]), 0)
    found: Ints = np.take_along_axis(values, np.maximum.accumulate(last, axis=1), axis=1)
    return found
