"""DuckDB connections for user SQL, restricted to given files.

All of DuckDB's own protections are on: no access to other files, to the network or to the variables
of the calling program; no extension is installed or loaded; and no statement can change a setting.
Data beyond the memory limit are spilled below the temporary directory, into a directory that DuckDB
creates on first use and removes with the connection.
"""

import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kdissect.errors import NO_MORE_MEMORY
from kdissect.sql.failures import engine_failures, lacks_memory
from kdissect.sql.files import quoted
from kdissect.sql.interruption import short_queries
from kdissect.sql.memory_limits import memory_limit

if TYPE_CHECKING:
    import duckdb

Settings = dict[str, str | bool | int | float | list[str]]

PREFIX: Final = "kdissect-duckdb-"
# Disable features that no query here needs, independent of the version's defaults.
SETTINGS: Final[Settings] = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}


@contextmanager
def locked_connection(
    files: Iterable[str] = (), settings: Mapping[str, str] | None = None
) -> "Iterator[duckdb.DuckDBPyConnection]":
    """A connection (`connected`) until the end of `with`, for `interruptible` and short queries."""
    with short_queries(), connected(files, settings) as connection:
        yield connection


def connected(
    files: Iterable[str] = (), settings: Mapping[str, str] | None = None
) -> "duckdb.DuckDBPyConnection":
    """A connection to an in-memory database, in UTC, that can read these local files.

    Their paths are those of `PlainPaths`. Arrow tables and datasets can be registered, and tables
    and views created. Nothing else can be read or written. `settings` are further DuckDB settings.
    Raises KdissectError for a memory limit that is none, and MemoryError.
    """
    import duckdb

    spill = Path(tempfile.gettempdir(), f"{PREFIX}{secrets.token_hex(8)}")
    config = Settings(memory_limit=memory_limit()) | Settings(settings or {}) | SETTINGS
    config["temp_directory"] = str(spill)
    try:
        connection = duckdb.connect(config=config)
    except engine_failures() as failure:
        if lacks_memory(failure):
            raise MemoryError(NO_MORE_MEMORY) from failure
        raise
    try:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, files))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection
