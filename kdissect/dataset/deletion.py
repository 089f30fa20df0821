"""Deletion of the rows of one client, or of one principal, from all tables of a dataset.

A client's are the exchanges with its client id and what depends on them, by `exchange_id`; and all
rows of connections, by `connection_id`, on which only it sent requests. A principal's are those of
its connections (`sasl_user`). Rows of `members` with the client id go too, and bodies of the
exchanges that name it so.

One run commits to all tables, or none; then all files go that the dataset does not have after it,
so that the bytes are gone. Killed before that, it is done by the next call, which finds no rows.
Taps whose state has such a connection, or the name, lose the state: they begin anew with the next
capture.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from kdissect.dataset.delta_actions import opened_file
from kdissect.dataset.entries import Contents, FileEntry, TapEntry
from kdissect.dataset.live_rotations import LIVE
from kdissect.dataset.maintenance import left, remove_all, sizes_of, unneeded
from kdissect.dataset.rewriting import Rewriting, adopt, rows_of
from kdissect.dataset.runs import Dataset, contents_in
from kdissect.dataset.storage import joined, read_below
from kdissect.errors import InvalidArgument, KdissectError
from kdissect.tables.batches import ints_of
from kdissect.tables.matrices import Ints
from kdissect.tables.schemas import TABLES
from kdissect.tables.stored_rows import believed

STATE_BYTES: Final = 1 << 30
LEAST_H: Final = 1  # a run may take so long from its first file to its commit
NONE: Final = np.empty(0, np.int64)


class Forgotten(NamedTuple):
    """Rows that were deleted, or would be; the files that had them; taps that begin anew.

    `removed` files, of `size` bytes, are no longer there: those files, and others that no version
    of the dataset has now; 0 of a dry run.
    """

    rows: int
    files: int
    taps: int
    removed: int
    size: int


@dataclass
class Chosen:
    """Ids of rows to delete, sorted.

    All rows of `connections` go, and of `exchanges`; and the bodies of exchanges that are in
    `naming`. `touched` are all connections with such an exchange.
    """

    client: str | None
    connections: Ints = field(default_factory=lambda: NONE)
    exchanges: Ints = field(default_factory=lambda: NONE)
    naming: Ints = field(default_factory=lambda: NONE)
    touched: Ints = field(default_factory=lambda: NONE)

    def ids(self, table: str, column: str) -> Ints:
        """Ids in a column of a table whose rows go; NULL is none."""
        if column == "connection_id":
            return self.connections
        return np.union1d(self.exchanges, self.naming) if table == "bodies" else self.exchanges

    def is_of(self, table: str, rows: pa.Table) -> pa.ChunkedArray:
        """Which rows of a table are to be deleted."""
        found = np.zeros(rows.num_rows, bool)
        for column in id_columns(table):
            found |= np.isin(ids_of(rows[column]), self.ids(table, column))
        if table == "members" and self.client is not None:
            found |= is_text(rows["client_id"], self.client)
        return pa.chunked_array([pa.array(found)])


def forget(
    dataset: str | os.PathLike[str],
    *,
    client: str | None = None,
    principal: str | None = None,
    dry_run: bool = False,
) -> Forgotten:
    """Delete the rows of a client id, or of a principal (a SASL user), and the files that had them.

    Earlier versions of the dataset, and what was opened before, cannot be read afterwards. Raises
    InvalidArgument unless one of both is given, KdissectError if there is no dataset, or it has not
    the table that says whose rows are whose; OutputError if another process writes to it.
    """
    if bool(client) == bool(principal):
        raise InvalidArgument("either a client or a principal is to be forgotten")
    name = client or principal or ""
    contents = contents_in(dataset)
    check_tables(contents, "connections" if client is None else "exchanges")
    if not dry_run:
        adopt(dataset)
    with Dataset(dataset, is_upkeep=True) as opened:
        contents = opened.contents
        chosen = chosen_by(opened.directory, contents, client, principal)
        found = {file.path: count_of(opened.directory, file, chosen) for file in of_taps(contents)}
        files = [file for file in of_taps(contents) if found[file.path]]
        taps = [tap for tap in contents.taps if has_state_of(opened, tap, chosen, name)]
        counts = Forgotten(sum(found.values()), len(files), len(taps), 0, 0)
        if dry_run:
            return counts
        if files or taps:
            rewriting = Rewriting(opened, "forget")
            for file in files:
                rewriting.rewrite([file], partial(others, file.table, chosen))
            rewriting.commit([tap.number for tap in taps])
        removed = remove_replaced(opened)
        return counts._replace(removed=len(removed), size=sum(removed.values()))


def check_tables(contents: Contents, table: str) -> None:
    """Raise KdissectError where a dataset was made without a table."""
    there = contents.options.get("tables", TABLES)
    if table not in there:
        raise KdissectError(
            f"the dataset has no table {table}, which says whose rows are whose; it has "
            + ", ".join(there)
        )


def chosen_by(
    location: str, contents: Contents, client: str | None, principal: str | None
) -> Chosen:
    """Ids of the rows of a client or a principal."""
    chosen = Chosen(client)
    if principal is not None:
        for rows in table_rows(location, contents, "connections", ("connection_id", "sasl_user")):
            own = rows.filter(pa.array(is_text(rows["sasl_user"], principal)))
            own = own.filter(pc.is_valid(own["connection_id"]))
            chosen.connections = np.union1d(chosen.connections, ids_of(own["connection_id"]))
        chosen.touched = chosen.connections
        return chosen
    wanted = client or ""
    of_others = NONE
    columns = ("connection_id", "exchange_id", "client_id")
    for rows in table_rows(location, contents, "exchanges", columns):
        # The ids of an exchange are never null.
        is_own = is_text(rows["client_id"], wanted)
        is_other = ~is_own & pc.is_valid(rows["client_id"]).to_numpy()
        connections, exchanges = ids_of(rows["connection_id"]), ids_of(rows["exchange_id"])
        chosen.exchanges = np.union1d(chosen.exchanges, exchanges[is_own])
        chosen.touched = np.union1d(chosen.touched, connections[is_own])
        of_others = np.union1d(of_others, connections[is_other])
    for rows in table_rows(location, contents, "members", ("exchange_id", "client_id")):
        rows = rows.filter(pc.is_valid(rows["exchange_id"]))
        naming = ids_of(rows["exchange_id"])[is_text(rows["client_id"], wanted)]
        chosen.naming = np.union1d(chosen.naming, naming)
    chosen.connections = np.setdiff1d(chosen.touched, of_others)
    return chosen


def table_rows(
    location: str, contents: Contents, table: str, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Columns of a table of a dataset."""
    for file in of_taps(contents):
        if file.table == table:
            yield from rows_of(location, file, columns)


def of_taps(contents: Contents) -> Iterable[FileEntry]:
    """Files of all taps."""
    return (file for tap in contents.taps for file in tap.files)


def count_of(location: str, file: FileEntry, chosen: Chosen) -> int:
    """Number of rows of a file that are to be deleted."""
    columns = [*id_columns(file.table), *(("client_id",) if file.table == "members" else ())]
    if file.table != "members" and is_outside(location, file, chosen):
        return 0
    return sum(
        int(pc.sum(chosen.is_of(file.table, rows)).as_py() or 0)
        for rows in rows_of(location, file, columns)
    )


def is_outside(location: str, file: FileEntry, chosen: Chosen) -> bool:
    """Return whether no id of a file can be one of the chosen ones, by the bounds in its footer."""
    with believed(joined(location, file.path)), opened_file(location, file.path) as (content, _):
        metadata = parquet.read_metadata(content)
        places = {name: place for place, name in enumerate(metadata.schema.names)}
        for name in id_columns(file.table):
            ids = chosen.ids(file.table, name)
            for number in range(metadata.num_row_groups):
                bounds = metadata.row_group(number).column(places[name]).statistics
                if bounds is None or not bounds.has_min_max:
                    return False
                first = np.searchsorted(ids, bounds.min)
                if first < len(ids) and ids[first] <= bounds.max:
                    return False
    return True


def others(table: str, chosen: Chosen, rows: pa.Table) -> pa.Table:
    """Rows that stay."""
    return rows.filter(pc.invert(chosen.is_of(table, rows)))


def id_columns(table: str) -> list[str]:
    """Columns by which rows belong to a connection and an exchange."""
    names = [column.name for column in TABLES[table].columns]
    return [name for name in ("connection_id", "exchange_id") if name in names]


def is_text(column: pa.ChunkedArray, text: str) -> Any:
    """Which values of a column are a text; null is not."""
    found = pc.equal(column.cast(pa.string()), text)
    return pc.fill_null(found, False).to_numpy()


def ids_of(column: pa.ChunkedArray) -> Ints:
    """Ids of a column, NULL for null."""
    parts = [ints_of(chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else NONE


def has_state_of(opened: Dataset, tap: TapEntry, chosen: Chosen, name: str) -> bool:
    """Return whether the state of a tap has data of a chosen connection, or the name."""
    if not tap.state or tap.chain.startswith(LIVE):
        return False  # the state of a live capture's tap has counts only
    if name.encode() in (read_below(opened.directory, tap.state, STATE_BYTES) or b""):
        return True
    for file in tap.files:
        if file.is_open and file.table in ("connections", "exchanges"):
            for rows in rows_of(opened.directory, file, ("connection_id",)):
                if np.isin(ids_of(rows["connection_id"]), chosen.touched).any():
                    return True
    return False


def remove_replaced(opened: Dataset) -> dict[str, int]:
    """Remove all files that the dataset has no more; those of no version after an hour only.

    Another run that does not share locks with this one may be about to commit such files.
    """
    names = {*unneeded(opened.tables, opened.contents, 0, is_full=False)}
    names |= {*unneeded(opened.tables, opened.contents, LEAST_H)}
    if opened.is_remote:
        names |= {*left(opened.directory, opened.contents, time.time() - LEAST_H * 3600)}
    sizes = sizes_of(opened.directory, sorted(names))
    remove_all(opened.directory, sizes)
    return sizes
