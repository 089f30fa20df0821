"""DuckDB connections for user SQL, restricted to given files.

All of DuckDB's own protections are on: no access to other files, to the network or to the variables
of the calling program; no extension is installed or loaded; and no statement can change a setting.
Data beyond the memory limit are spilled below the temporary directory, into a directory that DuckDB
creates on first use and removes with the connection.
"""

import os
import secrets
import shutil
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


def spill_in(directory: str) -> str:
    """A new name for the directory into which a connection of this process spills."""
    return str(Path(directory, f"{PREFIX}{os.getpid()}-{secrets.token_hex(8)}"))


def remove_spills(directory: str) -> None:
    """Remove what connections of killed processes of this machine have left in a directory."""
    for left in Path(directory).glob(f"{PREFIX}*-*"):
        process = left.name.removeprefix(PREFIX).partition("-")[0]
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)
        except (ValueError, OverflowError, PermissionError):  # of others
            continue


def connected(
    files: Iterable[str] = (), settings: Mapping[str, str] | None = None
) -> "duckdb.DuckDBPyConnection":
    """A connection to an in-memory database, in UTC, that can read these local files.

    Their paths are those of `PlainPaths`. Arrow tables and datasets can be registered, and tables
    and views created. Nothing else can be read or written. `settings` are further DuckDB settings.
    Raises KdissectError for a memory limit that is none, and MemoryError.
    """
    import duckdb

    defaults = Settings(memory_limit=memory_limit(), temp_directory=spill_in(tempfile.gettempdir()))
    config = defaults | Settings(settings or {}) | SETTINGS
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
