"""The expressions of answers that are worked out bucket by bucket, see `kdissect.sql.buckets`.

A `Question` declares by which columns (`bucketed_by`).
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.sql.buckets import ALL_BUCKETS

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.expr.operations import Node

KEY: Final = "key {} of the order"


class BucketedAnswer(NamedTuple):
    """Expressions: the rows of a bucket, with the keys to sort by, and the sorted rows of all.

    The latter reads the former's rows from a table named `ALL_BUCKETS`.
    """

    bucket: "ir.Table"
    whole: "ir.Table"


def bucketed(answer: "Node") -> BucketedAnswer:
    """The expressions for an answer, which is sorted rows, or columns and values of such."""
    import ibis
    from ibis.expr import operations

    is_sorted = isinstance(answer, operations.Sort)
    order = answer if is_sorted else answer.parent
    rows = order.parent.to_expr()
    columns = {name: rows[name] for name in rows.columns}
    if not is_sorted:
        # The same values, of the rows before they are sorted.
        values = answer.replace({order: order.parent}).values
        columns = {name: value.to_expr() for name, value in values.items()}
    keys = {KEY.format(place): key.arg.to_expr() for place, key in enumerate(order.keys)}
    bucket = rows.select(**columns, **keys)
    kept = ibis.table(bucket.schema(), name=ALL_BUCKETS)
    sorted_by = [
        (ibis.asc if key.ascending else ibis.desc)(kept[name], nulls_first=key.nulls_first)
        for name, key in zip(keys, order.keys, strict=True)
    ]
    return BucketedAnswer(bucket, kept.order_by(sorted_by).select(*columns))
