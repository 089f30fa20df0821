"""Answers that are worked out in parts, each from some rows of the tables, where memory is short.

Most analyses look at one partition, or one group, at a time: its rows in the answer depend on its
own rows in the tables only. A `Question` declares by which columns (`parts`). Those of the tables'
rows that have the same remainder of a hash of them are a part; the answer is the rows of all parts,
sorted again.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.expr.operations import Node

COUNTS: Final = (4, 16)  # parts of an answer: more where these do not fit
ALL_PARTS: Final = "rows of all parts"
KEY: Final = "key {} of the order"


class PartedAnswer(NamedTuple):
    """Expressions: the rows of a part, with the keys to sort by, and the sorted rows of all.

    The latter reads the former's rows from a table named `ALL_PARTS`.
    """

    part: "ir.Table"
    whole: "ir.Table"


def parted(answer: "Node") -> PartedAnswer:
    """The expressions for an answer, which is sorted rows or columns of such."""
    import ibis
    from ibis.expr import operations

    is_sorted = isinstance(answer, operations.Sort)
    order = answer if is_sorted else answer.parent
    rows = order.parent.to_expr()
    names = list(answer.schema.names)
    columns = {name: rows[name] for name in names}
    if not is_sorted:
        # The columns are those of the sorted rows, which have the same columns as the rows.
        replaced = answer.replace({order: order.parent})
        columns = {name: value.to_expr() for name, value in replaced.values.items()}
    keys = {KEY.format(place): key.arg.to_expr() for place, key in enumerate(order.keys)}
    part = rows.select(**columns, **keys)
    kept = ibis.table(part.schema(), name=ALL_PARTS)
    sorted_by = [
        (ibis.asc if key.ascending else ibis.desc)(kept[name], nulls_first=key.nulls_first)
        for name, key in zip(keys, order.keys, strict=True)
    ]
    return PartedAnswer(part, kept.order_by(sorted_by).select(*names))


def condition_of_part(columns: str, number: int, count: int) -> str:
    """The SQL condition for the rows of a part."""
    return f"hash({columns}) % {count} = {number}"
