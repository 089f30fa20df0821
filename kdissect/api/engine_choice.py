"""Choice of the engine: DuckDB in this process, or Spark.

The names of engines are part of every command's help, so their dependencies are imported later.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from kdissect.errors import InvalidArgument
from kdissect.text import human

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kdissect.analysis.engines.stored_tables import Place
    from kdissect.analysis.execution import Engine

    Session = SparkSession | Callable[[], SparkSession]

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"
AUTO: Final = "auto"
ENGINES: Final = (DUCKDB, SPARK, AUTO)
LIMIT: Final = 4_000_000_000  # bytes of Parquet for which `auto` uses DuckDB at most
Notice = Callable[[str], None]


def opened(
    engine: str,
    places: "Sequence[Place]",
    names: Iterable[str],
    where: str | None,
    session: "Session | str | None" = None,
    notice: Notice | None = None,
) -> "AbstractContextManager[Engine]":
    """The engine with these tables; `notice` is called when `auto` uses Spark.

    `session` is a Spark session, the master for a new one, or a function that gives one.
    """
    names = list(names)
    if not takes_spark(engine, places, names, notice):
        from kdissect.analysis.engines.duckdb_tables import DuckTables
        from kdissect.sql.memory_limits import first_limits

        return DuckTables(places, names, where, limits=first_limits())
    from kdissect.spark.spark_tables import SparkTables

    return SparkTables(session_for(session), places, names, where)


def session_for(session: "Session | str | None") -> "SparkSession":
    """A Spark session: the given one, that of a function, or a new one at a master."""
    from kdissect.spark.sessions import LOCAL
    from kdissect.spark.sessions import session as session_at

    if session is None or isinstance(session, str):
        return session_at(session or LOCAL)
    return session() if callable(session) else session


def takes_spark(
    engine: str, places: "Sequence[Place]", names: Iterable[str], notice: Notice | None
) -> bool:
    """Return whether Spark is used."""
    if engine not in ENGINES:
        raise InvalidArgument(f"no engine {engine!r}; there are {', '.join(ENGINES)}")
    if engine != AUTO:
        return engine == SPARK
    from kdissect.analysis.engines.stored_tables import stored_size

    size = stored_size(places, names)
    if size <= LIMIT:
        return False
    if notice is not None:
        notice(f"tables of {human.size(size)}, more than {human.size(LIMIT)}: Spark answers")
    return True
