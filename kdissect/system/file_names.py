"""Untrusted file names below a directory: relative, plain, without ``..``."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kdissect.errors import DatasetError

# All that kdissect writes: names of tables, dates, quoted names of taps, numbers. So names have no
# separator, scheme, glob, space or control character, and are the same in a path and a URI.
PART: Final = re.compile(r"[A-Za-z0-9_.=%~-]{1,255}")
LONGEST_NAME: Final = 1024  # of a key in S3


def checked_name(name: object) -> str:
    """Check a name like ``exchanges/date=2026-11-22/a.parquet``; raises DatasetError for others.

    >>> checked_name("_kdissect/states/0/000001.state")
    '_kdissect/states/0/000001.state'
    """
    if not isinstance(name, str):
        raise DatasetError(f"{type(name).__name__} in place of a file's name")
    parts = name.split("/")
    is_good = all(PART.fullmatch(part) and part not in (".", "..") for part in parts)
    if not is_good or len(name) > LONGEST_NAME:
        raise DatasetError(f"{shortened(name)} is no name of a file in a dataset")
    return name


def is_name(name: str) -> bool:
    """Return whether `checked_name` accepts it."""
    try:
        checked_name(name)
    except DatasetError:
        return False
    return True


def shortened(text: str) -> str:
    """Shorten a text from data for an error message."""
    return ascii(text if len(text) <= 80 else f"{text[:77]}...")


def checked_parts(name: str) -> list[str]:
    """Parts of a checked name; none of ""."""
    return checked_name(name).split("/") if name else []


def parent_of(name: str) -> str:
    """Directory of a name, "" without one."""
    return name.rpartition("/")[0]


def joined(parent: str, name: str) -> str:
    """Join a directory, which may be "", and a name."""
    return f"{parent}/{name}" if parent else name


def by_parent(names: Iterable[str]) -> Mapping[str, list[str]]:
    """Group names by directory."""
    parents: dict[str, list[str]] = {}
    for name in names:
        parent, _, last = checked_name(name).rpartition("/")
        parents.setdefault(parent, []).append(last)
    return parents
