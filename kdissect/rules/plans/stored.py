"""Columns of the tables that a pass kept, read when a plan wants them."""

from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.engines.ibis_tables import times_of
from kdissect.protocol.readers import NULL
from kdissect.rules.compiled_sql import NS
from kdissect.rules.plans.columns import CODE, Array, Column, Flags, coded, distinct
from kdissect.rules.plans.values import Relation
from kdissect.tables.batches import arrow_schema, ints_of
from kdissect.tables.schemas import TABLES
from kdissect.tables.spilled_tables import KeptTables

US: Final = 1_000  # ns
# Renumbered, in their order: rows with equal ones are found without hashing. No answer has them.
IDS: Final = ("exchange_id", "connection_id")
KEPT_BYTES: Final = 40_000_000  # of columns that several plans read


class KeptRelations:
    """The tables of a pass as relations."""

    def __init__(self, kept: KeptTables) -> None:
        self.kept = kept
        self.columns = kept.columns
        self.ids: dict[str, Array] = {}
        self.read: dict[tuple[str, str], Column] = {}
        self.read_bytes = 0

    def relation(self, table: str) -> Relation:
        """A table; each column is read when it is wanted."""
        times = times_of(TABLES[table])
        names = self.columns[table]
        made = {name: partial(self._column, table, name) for name in names if name not in times}
        for name in times:
            if name in names:
                made[name] = partial(self._time, table, name, US)
                made[f"{name}{NS}"] = partial(self._time, table, name, 1)
        return Relation(self.kept.counts[table], made)

    def _time(self, table: str, name: str, unit: int) -> Column:
        found = self._column(table, name)
        return found if unit == 1 else Column((found.values + unit // 2) // unit, found.valid)

    def _column(self, table: str, name: str) -> Column:
        """A column, which is kept for other plans while there is room."""
        key = (table, name)
        if key in self.read:
            return self.read[key]
        found = self._read(table, name)
        size = found.values.nbytes + (0 if found.valid is None else found.valid.nbytes)
        if self.read_bytes + size <= KEPT_BYTES:
            self.read[key] = found
            self.read_bytes += size
        return found

    def _read(self, table: str, name: str) -> Column:
        found = self._stored(table, name)
        if name not in IDS:
            return found
        return Column(np.searchsorted(self._ids(name), found.values).astype(CODE), found.valid)

    def _ids(self, name: str) -> Array:
        """All ids of exchanges or connections, in order."""
        if name not in self.ids:
            tables = [table for table, columns in self.columns.items() if name in columns]
            found = [self._stored(table, name).values for table in tables]
            self.ids[name] = distinct(np.concatenate(found))
        return self.ids[name]

    def _stored(self, table: str, name: str) -> Column:
        chunks = self.kept.batches(table, name)
        kind = arrow_schema(TABLES[table], [name]).field(0).type
        if pa.types.is_dictionary(kind):
            return _texts(chunks)
        if pa.types.is_boolean(kind):
            return _flags(chunks)
        values = np.concatenate([np.zeros(0, np.int64), *(ints_of(one) for one in chunks)])
        known = values != NULL
        valid = None if known.all() else known
        return Column(values if valid is None else np.where(known, values, 0), valid)


def _flags(arrays: Iterable[pa.Array]) -> Column:
    """A column of booleans."""
    chunks = list(arrays)
    values = np.concatenate([np.zeros(0, bool), *(_bits(one, 1) for one in chunks)])
    known = np.concatenate([np.zeros(0, bool), *(_bits(one, 0) for one in chunks)])
    return Column(values & known, None if known.all() else known)


def _bits(array: pa.Array, number: int) -> Flags:
    """The bits of one of the buffers of a boolean array: of nulls, or of values."""
    buffer = array.buffers()[number]
    if buffer is None:  # no nulls
        return np.ones(len(array), bool)
    end = array.offset + len(array)
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little", count=end)
    return bits[array.offset :].astype(bool)


def _texts(chunks: Iterable[pa.Array]) -> Column:
    """A text column with one dictionary for all chunks."""
    known: dict[str, int] = {}
    found = []
    for chunk in chunks:
        place = [known.setdefault(word, len(known)) for word in chunk.dictionary.to_pylist()]
        codes = ints_of(chunk.indices)
        places = np.array(place or [0], CODE)
        found.append(np.where(codes == NULL, -1, places[np.maximum(codes, 0)]))
    return coded(np.concatenate(found) if found else np.zeros(0, np.int64), list(known))
