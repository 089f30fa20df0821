"""How much memory DuckDB takes, and what is said when that is too little."""

import os
import re
from typing import Final

from kdissect.errors import InvalidArgument

# DuckDB's default would be four fifths of the machine. What it cannot spill, such as the values of
# exact percentiles and lists, is computed in other ways where it does not fit.
MEMORY_LIMIT: Final = "500MB"
# An analysis starts with less, so that the whole process stays below MEMORY_LIMIT. Where something
# cannot be spilled, it is asked again with more. Some that nearly fit do so in one run, and do not
# in the next.
FIRST_LIMITS: Final = ("200MB", "250MB")
MEMORY_VARIABLE: Final = "KDISSECT_DUCKDB_MEMORY"
MEMORY: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})? ?[KMGT]i?B", re.ASCII | re.IGNORECASE)


def first_limits() -> list[str]:
    """Limits of an analysis, to be tried in turn; that of the environment is the only one."""
    return [memory_limit()] if os.environ.get(MEMORY_VARIABLE) else [*FIRST_LIMITS, MEMORY_LIMIT]


def memory_limit() -> str:
    """The memory of a connection: that of the environment, else `MEMORY_LIMIT`."""
    limit = os.environ.get(MEMORY_VARIABLE, "") or MEMORY_LIMIT
    if MEMORY.fullmatch(limit) is None:
        raise InvalidArgument(f"{MEMORY_VARIABLE}={limit!r}: expected a size, such as 4GB")
    return limit
