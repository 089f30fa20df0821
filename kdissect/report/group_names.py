"""The group of exchanges that do not name it, as `kdissect lag` finds it.

That of the other exchanges on its connection, else of those from its address and client id; none
where these name several.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.consumption import OF_MEMBERS
from kdissect.analysis.summary.arrow_columns import has_word, integers, is_set, names_and_places
from kdissect.tables.matrices import Ints

NO_GROUP: Final = -1
WAITING: Final = 1 << 16  # pairs of 16 bytes between two merges


class GroupOf:
    """Key → its group, `NO_GROUP` where it has several: 16 bytes for each pair."""

    def __init__(self) -> None:
        self._keys, self._groups = np.empty(0, np.int64), np.empty(0, np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []

    def add(self, keys: Ints, groups: Ints) -> None:
        """Note the groups of keys."""
        self._waiting.append((keys, groups))
        if sum(len(of) for of, _ in self._waiting) > max(WAITING, len(self._keys)):
            self._merge()

    def of(self, keys: Ints) -> Ints:
        """The group of each key."""
        self._merge()
        begin, end = (np.searchsorted(self._keys, keys, side) for side in ("left", "right"))
        found = np.full(len(keys), NO_GROUP)
        single = end - begin == 1
        found[single] = self._groups[begin[single]]
        return found

    def _merge(self) -> None:
        """All pairs in order, each once."""
        if not self._waiting:
            return
        keys, groups = (
            np.concatenate(side)
            for side in zip((self._keys, self._groups), *self._waiting, strict=True)
        )
        order = np.lexsort((groups, keys))
        keys, groups = keys[order], groups[order]
        is_new = np.ones(len(keys), bool)
        is_new[1:] = (keys[1:] != keys[:-1]) | (groups[1:] != groups[:-1])
        self._keys, self._groups, self._waiting = keys[is_new], groups[is_new], []


class GroupNames:
    """Groups by number, connection, and client at an address."""

    def __init__(self, connections: Iterable[pa.RecordBatch]) -> None:
        self.groups: dict[str, int] = {}
        self.has_any = False
        self._own, self._near = GroupOf(), GroupOf()
        ids, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        codes: dict[str, int] = {}
        for batch in connections:
            names, of_ip = names_and_places(batch, "client_ip")
            known = [codes.setdefault(name, len(codes)) for name in names]
            ids.append(integers(batch, "connection_id", -1))
            places.append(np.array(known, np.int64)[of_ip])
        self._ips = list(codes)
        order = np.argsort(np.concatenate(ids), kind="stable")
        self._ids, self._places = np.concatenate(ids)[order], np.concatenate(places)[order]

    def add(self, batch: pa.RecordBatch) -> None:
        """Note the groups of exchanges that name one."""
        named = is_set(batch, "group_id")
        self.has_any |= bool(named.any())
        rows = np.flatnonzero(named & has_word(batch, "api", OF_MEMBERS))
        if len(rows):
            groups = self._named(batch, rows)
            self._own.add(integers(batch, "connection_id", -1)[rows], groups)
            keys, is_known = self._clients(batch, rows)
            self._near.add(keys[is_known], groups[is_known])

    def groups_of(self, batch: pa.RecordBatch, rows: Ints) -> Ints:
        """The number of the group of these exchanges, after all batches were added."""
        found = np.full(len(rows), NO_GROUP)
        named = is_set(batch, "group_id")[rows]
        found[named] = self._named(batch, rows[named])
        left = np.flatnonzero(found < 0)
        found[left] = self._own.of(integers(batch, "connection_id", -1)[rows[left]])
        left = left[found[left] < 0]
        keys, is_known = self._clients(batch, rows[left])
        found[left] = np.where(is_known, self._near.of(keys), NO_GROUP)
        return found

    def _named(self, batch: pa.RecordBatch, rows: Ints) -> Ints:
        """The number of the group that each of the rows names; all name one."""
        names, places = names_and_places(batch, "group_id")
        used = np.flatnonzero(np.bincount(places[rows])).tolist()
        codes = np.zeros(len(names), np.int64)
        codes[used] = [self.groups.setdefault(names[one], len(self.groups)) for one in used]
        return codes[places[rows]]

    def _clients(self, batch: pa.RecordBatch, rows: Ints) -> tuple[Ints, "np.ndarray[Any, Any]"]:
        """A key for address and client id of each row, and where both are known."""
        names, places = names_and_places(batch, "client_id")
        connections = integers(batch, "connection_id", -1)[rows]
        if not len(self._ids) or not len(rows):
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), bool)
        at = np.minimum(np.searchsorted(self._ids, connections), len(self._ids) - 1)
        of_ip = self._places[at]
        is_known = (self._ids[at] == connections) & is_set(batch, "client_id")[rows]
        is_known &= np.array([bool(ip) for ip in self._ips], bool)[of_ip]
        pairs, inverse = np.unique(of_ip * len(names) + places[rows], return_inverse=True)
        keys = [
            hash((self._ips[pair // len(names)], names[pair % len(names)]))
            for pair in pairs.tolist()
        ]
        return np.array(keys, np.int64)[inverse.reshape(-1)], is_known


def matches(batch: pa.RecordBatch, column: str, pattern: str) -> "np.ndarray[Any, Any]":
    """Mask of the rows whose text matches."""
    names, places = names_and_places(batch, column)
    wanted = re.compile(pattern)
    found: np.ndarray[Any, Any] = np.array([bool(wanted.search(name)) for name in names], bool)
    return found[places]
