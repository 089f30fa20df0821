"""Input of the comparison: rows of counts over time windows, with values and bounds.

The counts of both engines become arrays of rows × windows here, the before side first. A share is
of exchanges, a rate is per second, a quantile is represented by the share of slower exchanges.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kdissect.analysis.compare import window_counts
from kdissect.analysis.compare.significance import (
    Array,
    Windows,
    design_effect,
    effective,
    inflation,
    ratio_and_variance,
    ratio_of,
    t_quantile,
    wilson,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from kdissect.analysis.execution import Engine

SURENESS: Final = 0.95  # confidence level of the bounds
FEWEST_WINDOWS: Final = 5  # 5 against 5 have 252 permutations: p is 0.008 at least
FEWEST_BEYOND: Final = 5  # exchanges beyond a quantile
TOPICS: Final = ("topic", "partition")  # an exchange has several
OF_APIS: Final = ("api", "api_version")  # software is not grouped by these
RATES: Final = {
    "requests": "1/s", "records": "1/s", "request_bytes": "bytes/s", "response_bytes": "bytes/s",
}  # fmt: skip

Key = tuple[Any, ...]
Numbers = npt.NDArray[np.int64]
Bounds = tuple[Array, Array]


class Part(NamedTuple):
    """Rows of one measure: their groups, the measure, counts, and values with bounds.

    `is_fact` rows are not samples: a version that a client used is a fact.
    """

    measure: str
    unit: str
    groups: list[Key]
    whats: list[str]
    counts: Windows
    values: tuple[Array, Array]
    bounds: tuple[Bounds, Bounds]
    is_enough: npt.NDArray[np.bool_]
    is_fact: bool = False


class Sides(NamedTuple):
    """Two engines with their time ranges."""

    engines: "tuple[Engine, Engine]"
    spans: tuple[window_counts.Span, window_counts.Span]
    by: tuple[str, ...]

    @property
    def windows(self) -> int:
        """Number of windows of both sides."""
        return self.spans[0].windows + self.spans[1].windows

    @property
    def are_paired(self) -> bool:
        """Return whether both sides cover the same time."""
        return self.spans[0] == self.spans[1]

    def counts(self, x: Array, n: Array) -> Windows:
        """Rows over the windows of both sides."""
        return Windows(x, n, self.spans[0].windows, self.are_paired)

    def ask(self, question: "Callable[[Any, ir.Table], ir.Table]") -> "list[pa.Table]":
        """Rows from both sides of an expression over the exchanges with their windows."""
        tables = []
        for engine in self.engines:
            rows = window_counts.sent_in_windows(engine.tables, self.by, self.spans[0].width_ns)
            tables.append(engine.rows(question(engine.tables, rows)))
        return tables

    def places(self, table: "pa.Table", side: int) -> Numbers:
        """The window of each row, numbered from the first of the before side."""
        span = self.spans[side]
        own: Numbers = np.clip(table["at"].to_numpy() - span.first, 0, span.windows - 1)
        return own + side * self.spans[0].windows

    def numbered(self, tables: "list[pa.Table]", keys: dict[Key, int], *more: str) -> list[Numbers]:
        """Each row's index in `keys`, which is extended; a key is the group and `more`."""
        return [numbers_of(table, (*self.by, *more), keys) for table in tables]

    def grid(
        self,
        tables: "list[pa.Table]",
        numbers: list[Numbers],
        rows: int,
        column: str = "requests",
    ) -> Array:
        """Sums of a column: rows × windows."""
        found = np.zeros(rows * self.windows)
        for side, (table, own) in enumerate(zip(tables, numbers, strict=True)):
            at = own * self.windows + self.places(table, side)
            weights = table[column].to_numpy().astype(np.float64)
            found += np.bincount(at, weights, minlength=len(found))
        return found.reshape(rows, self.windows)


def numbers_of(table: "pa.Table", columns: Sequence[str], keys: dict[Key, int]) -> Numbers:
    """The index of each row's values in `keys`; null is an ordinary value."""
    codes, words = np.zeros(table.num_rows, np.int64), []
    for name in columns:
        encoded = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
        words.append(encoded.dictionary.to_pylist())
        codes = codes * len(words[-1]) + encoded.indices.to_numpy()
    distinct, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    places = np.zeros(len(distinct), np.int64)
    for place, row in enumerate(first.tolist()):
        key = tuple(table[name][row].as_py() for name in columns)
        places[place] = keys.setdefault(key, len(keys))
    return places[inverse]


def amounts(sides: Sides) -> Iterator[Part]:
    """Errors, versions and traffic."""
    tables = sides.ask(lambda _, rows: window_counts.counts(rows, sides.by))
    groups: dict[Key, int] = {}
    numbers = sides.numbered(tables, groups)
    yield from errors(sides, tables, groups, sides.grid(tables, numbers, len(groups), "due"))
    yield spoken(sides, tables)
    for what, unit in RATES.items():
        if what == "requests" or not set(TOPICS) & set(sides.by):
            counts = sides.grid(tables, numbers, len(groups), what)
            yield rates(sides, what, unit, list(groups), counts)


def errors(
    sides: Sides, tables: "list[pa.Table]", groups: dict[Key, int], due: Array
) -> Iterator[Part]:
    """Shares of exchanges with an error, by error name, and with any where several occur."""
    failed = [table.filter(table["problem"].is_valid()) for table in tables]
    keys: dict[Key, int] = {}
    numbers = sides.numbered(failed, keys, "problem")
    counts = sides.grid(failed, numbers, len(keys))
    owners = np.array([groups[key[:-1]] for key in keys], np.int64)
    yield shares(sides, "error", list(keys), counts, due[owners])
    several = [number for number in groups.values() if (owners == number).sum() > 1]
    if several:
        names = list(groups)
        together = np.array([counts[owners == number].sum(0) for number in several])
        named = [(*names[number], "any") for number in several]
        yield shares(sides, "error", named, together, due[several])


def spoken(sides: Sides, tables: "list[pa.Table]") -> Part:
    """Versions of each API: shares of the API's exchanges."""
    keys: dict[Key, int] = {}
    apis: dict[Key, int] = {}
    counts = sides.grid(tables, sides.numbered(tables, keys, "of_api", "spoken"), len(keys))
    totals = sides.grid(tables, sides.numbered(tables, apis, "of_api"), len(apis))
    owners = np.array([apis[key[:-1]] for key in keys], np.int64)
    named = [(*key[:-2], key[-1]) for key in keys]
    return shares(sides, "version", named, counts, totals[owners], is_fact=True)


def libraries(sides: Sides) -> Iterator[Part]:
    """Client software: shares of the clients' exchanges, over all APIs."""
    of_all = sides._replace(by=tuple(name for name in sides.by if name not in OF_APIS))
    tables = of_all.ask(lambda named, rows: window_counts.software(named, rows, of_all.by))
    keys: dict[Key, int] = {}
    groups: dict[Key, int] = {}
    numbers = of_all.numbered(tables, keys, "what")
    counts = of_all.grid(tables, numbers, len(keys))
    totals = of_all.grid(tables, of_all.numbered(tables, groups), len(groups))
    owners = np.array([groups[key[:-1]] for key in keys], np.int64)
    values = [dict(zip(of_all.by, key, strict=False)) for key in keys]
    named = [
        (*[value.get(name) for name in sides.by], key[-1])
        for key, value in zip(keys, values, strict=True)
    ]
    yield shares(sides, "software", named, counts, totals[owners], is_fact=True)


def shares(
    sides: Sides, measure: str, keys: list[Key], x: Array, n: Array, is_fact: bool = False
) -> Part:
    """Rows of shares; only of groups present on both sides."""
    windows = sides.spans[0].windows
    are_both = (n[:, :windows].sum(1) > 0) & (n[:, windows:].sum(1) > 0)
    counts = sides.counts(x[are_both], n[are_both])
    kept = [key for key, is_kept in zip(keys, are_both, strict=True) if is_kept]
    return Part(
        measure, "share", [key[:-1] for key in kept], [key[-1] for key in kept], counts,
        (ratio_of(*counts.side(0)), ratio_of(*counts.side(1))), share_bounds(counts),
        are_enough(counts), is_fact,
    )  # fmt: skip


def are_enough(counts: Windows) -> npt.NDArray[np.bool_]:
    """Return whether both sides have enough non-empty windows."""
    found: npt.NDArray[np.bool_] = (effective(counts.side(0)[1]) >= FEWEST_WINDOWS) & (
        effective(counts.side(1)[1]) >= FEWEST_WINDOWS
    )
    return found


def share_bounds(counts: Windows) -> tuple[Bounds, Bounds]:
    """Bounds of both sides' shares: Wilson's, with their effective number of exchanges."""
    values = [ratio_of(*counts.side(side)) for side in (0, 1)]
    effects = [design_effect(*counts.side(side), values[side]) for side in (0, 1)]
    rare = [effective(np.minimum(x, n - x)) for x, n in (counts.side(0), counts.side(1))]
    wider, times = inflation(counts), times_wide(counts)
    found = []
    for side in (0, 1):
        # A share of 0 or 1 has no variance of its own; that of the other side is used.
        of = [(values[one] > 0) & (values[one] < 1) for one in (side, 1 - side)]
        effect = np.where(of[0], effects[side], effects[1 - side]) * wider
        n = counts.side(side)[1]
        windows = np.where(of[0], rare[side], np.where(of[1], rare[1 - side], effective(n)))
        found.append(known(wilson(values[side], n.sum(1) / effect, times), windows))
    return found[0], found[1]


def known(bounds: Bounds, windows: Array) -> Bounds:
    """Bounds, or NaN where too few windows exist to estimate the variation."""
    is_known = windows >= FEWEST_WINDOWS
    return np.where(is_known, bounds[0], np.nan), np.where(is_known, bounds[1], np.nan)


def times_wide(counts: Windows) -> float:
    """Half-width of the interval in standard errors."""
    return t_quantile((1 + SURENESS) / 2, counts.x.shape[1] - 2)


def rates(sides: Sides, what: str, unit: str, groups: list[Key], x: Array) -> Part:
    """Rows of rates per second."""
    seconds = [*sides.spans[0].seconds(), *sides.spans[1].seconds()]
    is_some = x.sum(1) > 0
    x = x[is_some]
    counts = sides.counts(x, np.tile(np.array(seconds), (len(x), 1)))
    values, bounds = [], []
    for side in (0, 1):
        own, width = counts.side(side)
        sums = np.stack([own, width, own * own, own * width, width * width]).sum(2)
        value, variance = ratio_and_variance(sums, own.shape[1])
        half = times_wide(counts) * np.sqrt(variance * inflation(counts))
        values.append(value)
        windows = np.where(value > 0, effective(own), effective(width))
        bounds.append(known((np.maximum(value - half, 0), value + half), windows))
    kept = [group for group, is_kept in zip(groups, is_some, strict=True) if is_kept]
    enough = effective(x[:, : counts.before]) + effective(x[:, counts.before :]) >= FEWEST_WINDOWS
    return Part(
        "traffic", unit, kept, [what] * len(kept), counts,
        (values[0], values[1]), (bounds[0], bounds[1]), enough,
    )  # fmt: skip
