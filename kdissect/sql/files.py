"""Paths as DuckDB takes them literally, whatever characters are in their names.

DuckDB takes every path for a pattern (``*``, ``?``, ``[...]``), and makes columns of directories
that are named ``key=value``. Its ways to escape characters differ between releases, and none works
for all names. So what has such a character in its path gets another one: a link to its directory.
"""

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kdissect.errors import KdissectError

SPECIAL: Final = re.compile(r"[*?\[{\\=]")
NOT_PARTITIONED: Final = "hive_partitioning = false"
PREFIX: Final = "kdissect-links-"
# Where links may be when the temporary directory itself has such a name.
PLACES: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  # a directory of its own is made there


class PlainPaths:
    """Other paths of files, without special characters, until the end of `with`.

    Those that have none keep their own. Raises KdissectError for a name that is not UTF-8, which
    DuckDB cannot open, and where no links can be made.
    """

    def __init__(self) -> None:
        self._links: tempfile.TemporaryDirectory[str] | None = None
        self._linked: dict[str, str] = {}

    def __enter__(self) -> "PlainPaths":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the links."""
        if self._links is not None:
            self._links.cleanup()

    def of(self, path: str, root: str = "") -> str:
        """The path by which DuckDB opens a file.

        Below `root` names are kept, as the directories of a partitioned dataset have to be; they
        must be plain. Without it only the name of the file is.
        """
        absolute = Path(path).absolute()
        check_encoding(str(absolute))
        if not root and SPECIAL.search(absolute.name):
            return self._link(absolute)
        top = Path(root).absolute() if root else absolute.parent
        if SPECIAL.search(str(top)):
            return str(Path(self._link(top), absolute.relative_to(top)))
        return str(absolute)

    def told(self, text: str) -> str:
        """A message of DuckDB with the paths that users know."""
        for target, link in self._linked.items():
            text = text.replace(link, target)
        return text

    def _link(self, target: Path) -> str:
        known = self._linked.get(str(target))
        if known is not None:
            return known
        try:
            if self._links is None:
                self._links = links_directory()
            link = Path(self._links.name, str(len(self._linked)))
            link.symlink_to(target)
        except OSError as error:
            reason = f"no link to it can be made: {error.strerror}"
            raise KdissectError(f"{target}: DuckDB needs a plain name, and {reason}") from error
        self._linked[str(target)] = str(link)
        return str(link)


def links_directory() -> tempfile.TemporaryDirectory[str]:
    """A new directory without special characters in its path."""
    usual = tempfile.gettempdir()
    places = [usual, *PLACES] if not SPECIAL.search(usual) else PLACES
    failed = OSError(0, "no temporary directory has a plain name")
    for place in places:
        try:
            return tempfile.TemporaryDirectory(prefix=PREFIX, dir=place)
        except OSError as error:
            failed = error
    raise failed


def parquet_files(paths: Iterable[str], partitioning: str = NOT_PARTITIONED) -> str:
    """The call of ``read_parquet`` that reads these files, whose paths are plain."""
    return f"read_parquet([{', '.join(map(quoted, paths))}], {partitioning})"


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def check_encoding(path: str) -> None:
    """Raise KdissectError for a name that is not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        reason = "the name is not UTF-8; rename it, or link to it"
        raise KdissectError(f"{path!r}: {reason}") from error
