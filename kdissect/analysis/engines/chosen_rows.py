"""The rows that a condition of --where chooses, as SQL that DuckDB and Spark both read.

A condition is over the columns of `exchanges`, and over the dimensions that other tables have:
`client_ip`, `broker`, `sasl_user` of the connection, and `topic` and `partition`, by which an
exchange is chosen when one of its partitions meets the condition. Of such an exchange the rows of
other partitions are left out.
"""

from collections.abc import Collection
from typing import Final

from kdissect.analysis.engines.ibis_tables import EVERY, OF_EXCHANGES, columns_of
from kdissect.sql.conditions import columns_in
from kdissect.tables.schemas import TABLES

OF_CONNECTION: Final = ("client_ip", "broker", "sasl_user")
OF_PARTITION: Final = ("topic", "partition")
BESIDE: Final = {"connections": OF_CONNECTION, "partitions": OF_PARTITION}
# Tables with a row for a partition, or for something in it.
IN_PARTITIONS: Final = ("partitions", "batches", "records")
CHOSEN: Final = "chosen_partitions"


def condition_columns() -> list[str]:
    """The columns that a condition may name."""
    return [*columns_of(TABLES["exchanges"]), *OF_CONNECTION, *OF_PARTITION]


def tables_beside(where: str | None) -> tuple[str, ...]:
    """The tables beside `exchanges` that a checked condition needs."""
    names = columns_in(where) if where else frozenset()
    return tuple(table for table, columns in BESIDE.items() if names & set(columns))


def chosen_partitions(condition: str, beside: Collection[str], prefix: str = "") -> str:
    """Exchanges that a condition chooses, with the partitions that meet it."""
    joined = f"{prefix}{EVERY}exchanges exchange"
    columns = "exchange.*"
    if "connections" in beside:
        broker = "broker_ip || ':' || CAST(broker_port AS STRING) AS broker"
        joined += (
            f" LEFT JOIN (SELECT connection_id AS connection_of, client_ip, {broker}, sasl_user "  # noqa: S608  # ours
            f"FROM {prefix}{EVERY}connections) ends ON connection_id = connection_of"
        )
        columns += ", client_ip, broker, sasl_user"
    if "partitions" in beside:
        joined += (
            " LEFT JOIN (SELECT exchange_id AS exchange_of, topic, partition "  # noqa: S608  # ours
            f"FROM {prefix}{EVERY}partitions) places ON exchange_id = exchange_of"
        )
        columns += ", topic, partition"
    places = ", topic, partition" if "partitions" in beside else ""
    rows = f"SELECT {columns} FROM {joined}"  # noqa: S608  # ours
    # The condition is the user's: in parentheses of its own, on lines of its own.
    return f"SELECT exchange_id{places} FROM ({rows}) every WHERE (\n{condition}\n)"  # noqa: S608


def chosen_rows(name: str, beside: Collection[str], prefix: str = "") -> str:
    """The WHERE of a table, given the view of `chosen_partitions`; "" for tables as they are."""
    chosen = prefix + CHOSEN
    if name == "exchanges" or (name in OF_EXCHANGES and "partitions" not in beside):
        return f" WHERE exchange_id IN (SELECT exchange_id FROM {chosen})"  # noqa: S608  # ours
    if name not in OF_EXCHANGES:
        return ""
    row = f"{prefix}{EVERY}{name}"
    same = f"{chosen}.exchange_id = {row}.exchange_id"
    if name in IN_PARTITIONS:
        same += "".join(
            f" AND {chosen}.{one} IS NOT DISTINCT FROM {row}.{one}" for one in OF_PARTITION
        )
    return f" WHERE EXISTS (SELECT 1 FROM {chosen} WHERE {same})"  # noqa: S608  # ours
