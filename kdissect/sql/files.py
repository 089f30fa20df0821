"""Paths that DuckDB takes literally, regardless of special characters.

DuckDB treats every path as a pattern (``*``, ``?``, ``[...]``), and turns directories named
``key=value`` into columns. Its escape mechanisms differ between releases, and none works for all
names. So a file with such a character in its path gets another path: a link to its directory.
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
# Places for links if the temporary directory itself has such a name.
PLACES: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  # a directory of its own is made there


class PlainPaths:
    """Alternative paths of files, without special characters, until the end of `with`.

    Paths that have none are unchanged. Raises KdissectError for a name that is not UTF-8, which
    DuckDB cannot open, and if links cannot be created.
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
        """Path by which DuckDB opens a file.

        Below `root` names are kept, as the directories of a partitioned dataset require; they must
        be plain. Without it only the name of the file is kept.
        """
        absolute = Path(path).absolute()
        check_encoding(str(absolute))
        if not root and SPECIAL.search(absolute.name):
            return self._link(absolute)
        top = Path(root).absolute() if root else absolute.parent
        if SPECIAL.search(str(top)):
            return str(Path(self._link(top), absolute.relative_to(top)))
        return str(absolute)

    def with_targets(self, text: str) -> str:
        """A DuckDB message with the original paths."""
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
    """A ``read_parquet`` call for these files, whose paths are plain."""
    return f"read_parquet([{', '.join(map(quoted, paths))}], {partitioning})"


def quoted(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def check_encoding(path: str) -> None:
    """Raise KdissectError for a name that is not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        reason = "the name is not UTF-8; rename it, or link to it"
        raise KdissectError(f"{path!r}: {reason}") from error
