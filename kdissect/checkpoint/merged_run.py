"""Splits of a capture → the rows of the whole, and its balance."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from kdissect.capture.splits import read_split
from kdissect.checkpoint.corrections import Corrections
from kdissect.checkpoint.merger import FindSecrets, Merger, Reread
from kdissect.checkpoint.numbering import Numbering
from kdissect.checkpoint.split import SplitRows, made_columns
from kdissect.pipeline import Balance, Options
from kdissect.tables.batches import builders_of


class MergedRun:
    """Iterate over it once for ``(table, record batch)``: the merged rows of the splits.

    `splits` are the splits' rows and boundary states in order, `captures` the names of the files.
    """

    def __init__(
        self,
        splits: Iterable[SplitRows],
        options: Options,
        captures: Sequence[str],
        reread: Reread = read_split,
        find_secrets: FindSecrets | None = None,
    ) -> None:
        self.splits = splits
        self.options = options
        self.merger = Merger(options, reread, find_secrets)
        self.numbering = Numbering()
        names = self.merger.dissector.exchanges.names
        self.builders = builders_of(options.tables, captures, names, options.columns)
        # Rows of splits also have the columns needed to correct them.
        made = {name: made_columns(options.columns.get(name)) for name in options.tables}
        self.own = builders_of(options.tables, captures, names, made, held_limit=0)

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        for name, batch in self._as_numbered():
            yield name, self.numbering.apply(batch)

    def _as_numbered(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows with numbers and ids as in the splits."""
        for rows in self.splits:
            self.numbering.add(rows.boundary)
            if rows.is_undone:
                for _ in self.merger.add_whole(rows.boundary):
                    yield from self._own_rows(self.options.batch_rows)
            else:
                corrections = self.merger.add(rows.boundary)
                yield from self._corrected(rows, corrections)
                del corrections
            yield from self._own_rows(self.options.batch_rows)
            # Not kept while the next split is dissected.
            del rows
        self.merger.finish()
        yield from self._own_rows(1)
        for name, builder in self.builders.items():
            for batch in builder.finish():
                yield name, batch

    @property
    def balance(self) -> Balance:
        """Balance of all bytes."""
        return self.merger.balance

    def _corrected(
        self, rows: SplitRows, corrections: Corrections
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        for name, batch in rows.batches:
            kept = self.builders[name].take(corrections.apply(name, batch))
            if kept.num_rows:
                yield name, kept

    def _own_rows(self, row_limit: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        dissector = self.merger.dissector
        for name in dissector.full_tables(row_limit):
            made = self.own[name].batch(dissector.take_rows(name))
            kept = self.builders[name].take(made)
            if kept.num_rows:
                yield name, kept
