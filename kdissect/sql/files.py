"""Paths as DuckDB takes them: literally, whatever characters are in their names.

DuckDB reads every path as a pattern (``*``, ``?``, ``[...]``), takes columns from directories that
are named ``key=value``, and expands a leading ``~``. A query therefore holds absolute paths whose
special characters are escaped, and says which directories are keys.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kdissect.errors import KdissectError

SPECIAL: Final = re.compile(r"[*?[]")
NOT_PARTITIONED: Final = "hive_partitioning = false"


def parquet_files(paths: Iterable[str], partitioning: str = NOT_PARTITIONED) -> str:
    """The call of ``read_parquet`` that reads these files of this machine."""
    listed = ", ".join(quoted(pattern_of(path)) for path in paths)
    return f"read_parquet([{listed}], {partitioning})"


def pattern_of(path: str) -> str:
    r"""The pattern that matches this path only.

    >>> pattern_of("/ring*/a[1].parquet")
    '/ring[*]/a[[]1].parquet'

    Raises KdissectError for a name that is not UTF-8, which DuckDB cannot open.
    """
    absolute = str(Path(path).absolute())
    try:
        absolute.encode()
    except UnicodeEncodeError as error:
        raise KdissectError(
            f"{absolute!r}: the name is not UTF-8; rename it, or link to it"
        ) from error
    return "/".join(_escaped(name) for name in absolute.split("/"))


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _escaped(name: str) -> str:
    """The pattern of one name; DuckDB takes a name without special characters literally."""
    if not SPECIAL.search(name):
        return name
    return SPECIAL.sub(r"[\g<0>]", name.replace("\\", "\\\\"))
