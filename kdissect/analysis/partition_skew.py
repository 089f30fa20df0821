"""Skew of bytes over partitions.

The Gini coefficient is 0 when all have the same, and approaches 1 when one has all. With sizes x of
n partitions in order it is 2 (1 x1 + 2 x2 + ...) / (n sum x) - (n + 1) / n.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis.question import RATE, SHARE, TEXT
from kdissect.tables.schemas import INT64, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

SKEW_COLUMNS: Final = (
    Column("partitions", INT64, "", "partitions that were produced to or fetched by clients"),
    Column("top_partition", TEXT, "", "the one with most bytes, produced ones if there are any"),
    Column("top_share", SHARE, "", "its share of the bytes"),
    Column("gini", RATE, "", "0: all partitions have the same; near 1: one has all"),
)


def skew(moved: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """`SKEW_COLUMNS` for each value of `by`, of rows with topic, partition, way and bytes."""
    import ibis

    sizes = sized_partitions(moved, by)
    order = [sizes["size"], sizes.topic, sizes.partition]
    window = ibis.window(group_by=list(by) or None, order_by=order)
    placed = sizes.mutate(place=ibis.row_number().over(window) + 1)
    number, total = placed.count(), placed["size"].sum()
    weighted = (placed.place * placed["size"]).sum()
    gini = 2 * weighted / (number * total.nullif(0)) - (number + 1) / number
    name = placed.topic.coalesce("?") + "-" + placed.partition.cast("string")
    return placed.group_by(list(by)).aggregate(
        partitions=number,
        top_partition=name.argmax(placed.place),
        top_share=placed["size"].max() / total.nullif(0),
        gini=(number > 1).ifelse(gini, None),
    )


def sized_partitions(moved: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """The partitions in each group with their bytes: produced if any, else fetched."""
    clients = moved.filter(moved.way != "replicated")
    keys = list(dict.fromkeys([*by, "topic", "partition"]))
    sizes = clients.group_by(keys).aggregate(
        produced=(clients.way == "produced").ifelse(clients.record_bytes, 0).sum().coalesce(0),
        fetched=(clients.way == "fetched").ifelse(clients.record_bytes, 0).sum().coalesce(0),
    )
    produced = sizes.produced.sum().over(group_by=list(by) or None)
    return sizes.mutate(size=(produced > 0).ifelse(sizes.produced, sizes.fetched))
