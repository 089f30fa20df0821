"""Captures, datasets and live captures as table sources, and `read`: one table of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdissect.capture.files import Source
from kdissect.checkpoint.run_choice import make_run
from kdissect.checkpoint.worker_pool import WorkerPool
from kdissect.dataset.locations import stored_places
from kdissect.errors import InvalidArgument
from kdissect.pipeline import Balance, Options, Run, check_columns
from kdissect.sql.row_filter import filtered
from kdissect.tables.batches import arrow_schema
from kdissect.tables.durations import NUMBERS, check_units, in_units
from kdissect.tables.html_rows import SHOWN, html_of
from kdissect.tables.ordering import Key, check_keys, first_rows, keys_of
from kdissect.tables.pandas_frames import pandas_frame
from kdissect.tables.pseudonyms import Pseudonyms, pseudonyms_for
from kdissect.tables.schemas import TABLES

if TYPE_CHECKING:
    from kdissect.dataset.stored_run import StoredRun


@contextmanager
def run_over(
    source: Source | Sequence[Source], options: Options, pool: WorkerPool | None = None
) -> Iterator[Any]:
    """A pass over captures, or over the rows of datasets and live captures; closed afterwards."""
    stored = stored_run(source, options)
    with make_run(source, options, pool) if stored is None else nullcontext(stored) as run:
        yield run


def stored_run(source: Source | Sequence[Source], options: Options) -> "StoredRun | None":
    """A pass over the rows of datasets and live captures; None when any source is another kind."""
    places = stored_places(source)
    if not places or not all(place.is_dataset or place.is_live for place in places):
        return None
    from kdissect.dataset.stored_run import StoredRun

    return StoredRun(places, options)


class Reading:
    """One table of captures, datasets or live captures, read lazily; each iteration is one pass."""

    def __init__(
        self,
        source: Source | Sequence[Source],
        table: str,
        columns: Sequence[str] | None,
        where: str | None,
        limit: int | None,
        sort: "str | Sequence[str | Key]",
        options: Mapping[str, Any],
        units: str = NUMBERS,
        pseudonyms: Pseudonyms | None = None,
    ) -> None:
        check_units(units)
        check_columns(table, columns or ())
        if limit is not None and limit < 0:
            raise InvalidArgument(f"limit is a number of rows, not {limit}")
        self.source = source
        self.table = table
        self.columns = list(dict.fromkeys(columns)) if columns is not None else None
        self.where = where
        self.limit = limit
        self.keys = keys_of(sort)
        check_keys(self.keys, [column.name for column in TABLES[table].columns], table)
        self.options = options
        self.units = units
        self.pseudonyms = pseudonyms
        self._run: Run | StoredRun | None = None

    @property
    def balance(self) -> Balance | None:
        """Account of the bytes read by the last pass; None before it."""
        return None if self._run is None else self._run.balance

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The record batches, in bounded memory; sorted rows are held, `limit` of them."""
        if not self.keys:
            yield from self._in_order_of_time()
            return
        schema = arrow_schema(TABLES[self.table])
        every = Reading(
            self.source, self.table, None, self.where, None, (), {**self.options},
            pseudonyms=self.pseudonyms,
        )  # fmt: skip
        rows = first_rows(every, self.keys, self.limit, schema)
        self._run = every._run
        for batch in rows.to_batches():
            yield batch if self.columns is None else batch.select(self.columns)

    def _in_order_of_time(self) -> Iterator[pa.RecordBatch]:
        if self.limit == 0:
            return
        if self.where:
            # An invalid condition is an error even without rows.
            nothing = pa.RecordBatch.from_pylist([], arrow_schema(TABLES[self.table]))
            filtered(nothing, self.where)
        made = {} if self.columns is None or self.where else {self.table: self.columns}
        options = Options(tables=(self.table,), columns=made, **self.options)
        run = self._run = stored_run(self.source, options) or Run(self.source, options)
        left = self.limit
        for _, batch in run:
            chosen = self._chosen(batch)
            if left is not None:
                chosen = chosen.slice(0, left)
                left -= chosen.num_rows
            if chosen.num_rows:
                yield chosen
            if left == 0:
                return

    def _repr_html_(self) -> str:
        """The first rows as a table of a notebook; text from the wire is escaped."""
        first = Reading(
            self.source, self.table, self.columns, self.where, SHOWN, self.keys, self.options,
            pseudonyms=self.pseudonyms,
        )  # fmt: skip
        return html_of(f"the first rows of {self.table}", first.to_arrow())

    def to_arrow(self, units: str | None = None) -> pa.Table:
        """All rows as an Arrow table; text columns are dictionaries.

        With `units="timedelta"` durations are Arrow's.
        """
        batches = list(self)
        schema = arrow_schema(TABLES[self.table], self.columns)
        found = pa.Table.from_batches(batches, schema).unify_dictionaries()
        declared = {column.name: column.unit for column in TABLES[self.table].columns}
        return in_units(found, units or self.units, declared)

    def to_pandas(self, units: str | None = None) -> Any:
        """All rows as a pandas DataFrame: text as categories, times as UTC with nanoseconds.

        With `units="timedelta"` durations are Timedelta, else numbers.
        """
        return pandas_frame(self.to_arrow(units))

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.where:
            batch = filtered(batch, self.where)
        if self.columns is not None:
            batch = batch.select(self.columns)
        return self.pseudonyms.batch(self.table, batch) if self.pseudonyms else batch


def read(
    source: Source | Sequence[Source],
    *,
    table: str = "exchanges",
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    sort: "str | Sequence[str | Key]" = (),
    units: str = NUMBERS,
    anonymize: bool | bytes = False,
    **options: Any,
) -> Reading:
    """One table of captures: ``read("a.pcap", table="errors").to_pandas()``.

    `source` may also be directories of live captures or of datasets. `where` is an SQL condition
    over the table's columns, `limit` a number of rows, at which reading stops, `sort`
    columns like "latency_ns:desc" that order the rows before. With `units` "timedelta" durations
    are Arrow's and pandas' own. With `anonymize` addresses and names are replaced by pseudonyms,
    those of a random key or of this key of 16 bytes or more, behind `where` and before `sort`.
    Other keywords are those of `Options`.
    """
    pseudonyms = pseudonyms_for(anonymize, [table], options.get("payload", False))
    return Reading(source, table, columns, where, limit, sort, options, units, pseudonyms)
