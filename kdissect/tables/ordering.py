"""Order of rows by columns, as `--sort` says it: ``latency_ns:desc``.

Missing values come last in both directions; rows that are equal keep their order.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.errors import InvalidArgument
from kdissect.text.suggestions import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

DIRECTIONS: Final = {"asc": False, "desc": True}
# Rows beyond the limit that are held until they are sorted out.
SLACK: Final = 10_000
PLACE: Final = "place among the rows"


class Key(NamedTuple):
    """A column to sort by."""

    name: str
    is_descending: bool = False


def parse_order(texts: str | Iterable[str]) -> tuple[Key, ...]:
    """Keys from ``name`` or ``name:desc``; raises InvalidArgument for another direction.

    >>> parse_order(["api", "latency_ns:desc"])
    (Key(name='api', is_descending=False), Key(name='latency_ns', is_descending=True))
    """
    keys = []
    for text in [texts] if isinstance(texts, str) else texts:
        name, colon, direction = text.partition(":")
        if colon and direction not in DIRECTIONS:
            raise InvalidArgument(f"sort {text!r}: a column, {name}:asc or {name}:desc")
        keys.append(Key(name, DIRECTIONS.get(direction, False)))
    return tuple(keys)


def keys_of(sort: "str | Iterable[str | Key]") -> tuple[Key, ...]:
    """Keys of a `sort` argument: texts, or keys as they are."""
    if isinstance(sort, str):
        return parse_order(sort)
    return tuple(one if isinstance(one, Key) else parse_order(one)[0] for one in sort)


def check_keys(keys: Sequence[Key], names: Sequence[str], what: str) -> None:
    """Raise InvalidArgument for a column that `what` does not have."""
    for key in keys:
        if key.name not in names:
            raise InvalidArgument(no_column(what, key.name, names))


def no_column(what: str, name: str, names: Iterable[str]) -> str:
    """Error text for an unknown column."""
    names = list(names)
    meant = did_you_mean(name, names)
    return f"{what} has no column {name!r}; {meant}it has {', '.join(names)}"


def ordered(table: "pa.Table", keys: Sequence[Key]) -> "pa.Table":
    """The rows in order of the keys."""
    if not keys:
        return table
    import pyarrow as pa
    from pyarrow import compute

    columns = []
    for key in keys:
        column = table[key.name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        columns.append(column)
    names = [str(number) for number in range(len(keys))]
    directions = ["descending" if key.is_descending else "ascending" for key in keys]
    sortable = pa.table([*columns, pa.array(range(table.num_rows), pa.int64())], [*names, PLACE])
    order = [*zip(names, directions, strict=True), (PLACE, "ascending")]
    return table.take(compute.sort_indices(sortable, sort_keys=order))


def first_rows(
    batches: "Iterable[pa.RecordBatch]",
    keys: Sequence[Key],
    limit: int | None,
    schema: "pa.Schema",
) -> "pa.Table":
    """The first rows in order of the keys, all without a limit; holds little more than these."""
    kept: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        kept.append(batch)
        count += batch.num_rows
        if limit is not None and count > limit + SLACK:
            table = _first(kept, keys, limit, schema)
            kept, count = table.to_batches(), table.num_rows
    return _first(kept, keys, limit, schema)


def _first(
    batches: "list[pa.RecordBatch]", keys: Sequence[Key], limit: int | None, schema: "pa.Schema"
) -> "pa.Table":
    import pyarrow as pa

    table = pa.Table.from_batches(batches, schema).unify_dictionaries()
    # Combined: otherwise the rows of all batches stay in memory for those that are kept.
    return ordered(table, keys).slice(0, limit).combine_chunks()
