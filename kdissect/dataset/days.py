"""Datasets and live captures by day: the files of each, and passes over their rows.

The day of a dataset's row is the partition that it is in: that of the first packet of its capture.
That of a live capture's row is that of its rotation. Days are UTC.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.analysis.engines.live_tables import place_of
from kdissect.analysis.engines.stored_tables import Place, StoredFile
from kdissect.dataset.entries import NO_DATE
from kdissect.dataset.stored_run import StoredRun, added
from kdissect.pipeline import Balance, Options
from kdissect.tables.batches import ints_of

UNDATED: Final = "undated"
PARTITION: Final = re.compile(r"/date=([^/]+)/")
CONNECTIONS: Final = "connections"


class Part(NamedTuple):
    """What one dataset, or run of a live capture, has of a day.

    `elsewhere` are its connections of other days. `names` identify the rows: rotations, or files of
    a dataset with their sizes.
    """

    place: Place
    elsewhere: Place
    names: frozenset[str]


class Day(NamedTuple):
    """One day: `name` is 2026-11-22, or `undated`."""

    name: str
    parts: tuple[Part, ...]

    @property
    def names(self) -> frozenset[str]:
        """What identifies the rows of the day."""
        return frozenset().union(*(part.names for part in self.parts))


class DayRun:
    """A pass over the rows of a day, like a `StoredRun`.

    Connections with exchanges on that day belong to it, too, wherever their row is.
    """

    def __init__(self, day: Day, options: Options) -> None:
        self.day = day
        self.options = options
        made = [dict(one) for part in day.parts for one in part.place.balances]
        self.balance = Balance(**added(made))

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        yield from self._connections_elsewhere()
        yield from StoredRun([part.place for part in self.day.parts], self.options)

    def _connections_elsewhere(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        places = [part.elsewhere for part in self.day.parts]
        if not any(place.files[CONNECTIONS] for place in places):
            return
        wanted = self._connections_of_exchanges()
        for table, batch in StoredRun(places, replace(self.options, tables=(CONNECTIONS,))):
            chosen = np.flatnonzero(np.isin(ints_of(batch["connection_id"]), wanted))
            if len(chosen):
                yield table, batch.take(pa.array(chosen))

    def _connections_of_exchanges(self) -> "np.ndarray[Any, Any]":
        options = replace(self.options, tables=("exchanges",), progress=None)
        found = np.empty(0, np.int64)
        for _, batch in StoredRun([part.place for part in self.day.parts], options):
            found = np.union1d(found, ints_of(batch["connection_id"]))
        return found


def days_of(places: Sequence[Place]) -> list[Day]:
    """The days of datasets and live captures, the first one first."""
    found: dict[str, list[Part]] = {}
    for place in places:
        for name, part in (dataset_days if place.is_dataset else live_days)(place):
            found.setdefault(name, []).append(part)
    return [Day(name, tuple(found[name])) for name in sorted(found)]


def dataset_days(place: Place) -> Iterator[tuple[str, Part]]:
    """The files of a dataset by their partition."""
    days = {date_of(file) for files in place.files.values() for file in files}
    for day in days:
        files = {
            table: [one for one in own if date_of(one) == day] for table, own in place.files.items()
        }
        other = [one for one in place.files.get(CONNECTIONS, ()) if date_of(one) != day]
        names = frozenset(
            f"{table} {Path(one.path).parent.name}/{Path(one.path).name} {one.size}"
            for table, own in files.items()
            for one in own
        )
        elsewhere = place._replace(files={CONNECTIONS: other})
        yield day, Part(place._replace(files=files), elsewhere, names)


def live_days(place: Place) -> Iterator[tuple[str, Part]]:
    """The rotations of a live capture's run by their day."""
    rotations = {Path(file.path).parent for files in place.files.values() for file in files}
    for day in {date_in(one.name) for one in rotations}:
        own = sorted(one for one in rotations if date_in(one.name) == day)
        made = place_of(own, Path(place.root))
        # Those open at its last rotation's end are in that.
        elsewhere = made._replace(files={CONNECTIONS: []})
        yield day, Part(made, elsewhere, frozenset(f"{one.parent.name}/{one.name}" for one in own))


def date_of(file: StoredFile) -> str:
    """The day of a file of a dataset."""
    found = PARTITION.search(file.path)
    return UNDATED if found is None or found[1] == NO_DATE else found[1]


def date_in(rotation: str) -> str:
    """The day of a rotation.

    >>> date_in("000001-20261122T060000Z")
    '2026-11-22'
    """
    digits = rotation.partition("-")[2]
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}"
