"""Captures in stores: listing, time of the first packet, and local copies.

A scanner needs a file that it can seek in and read twice, so a task downloads the bytes of its
split into a temporary file, at the same offsets as in the capture.
"""

import fnmatch
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from pyarrow import fs

from kdissect.capture.capture_file import CaptureFile
from kdissect.capture.rotation import first_time_of
from kdissect.dataset.storage import (
    BLOCK_SIZE,
    as_stored,
    bucket_of,
    files_in,
    is_uri,
    seen,
    store_errors,
    system_at,
)
from kdissect.errors import CaptureError

MAGIC: Final = re.compile(r"[*?\[]")
# Bytes read to find a capture's first packet: enough for the headers and a packet or two.
FIRST_SIZE: Final = 64 << 10


def captures_at(location: str) -> dict[str, bool] | None:
    """Files of a URI, glob or directory; true: named or matched. None: nothing found.

    A URI that exists under this exact name is not taken for a glob.
    """
    if seen(location)[0] >= 0:
        return {location: True}
    inside = [one.location for one in files_in(location)]
    if not inside and MAGIC.search(location):
        return dict.fromkeys(matching(location), True) or None
    return {one: False for one in inside if not one.rpartition("/")[2].startswith(".")} or None


def matching(pattern: str) -> list[str]:
    """Files in a store that match a glob, as in `glob`; `**` matches any directories."""
    bucket = bucket_of(pattern)
    *parts, last = pattern.removeprefix(bucket).strip("/").split("/")
    places = [bucket]
    for part in parts:
        places = [found for place in places for found in _below(place, part, is_last=False)]
    return sorted({found for place in places for found in _below(place, last, is_last=True)})


class Stream:
    """A capture in a store as a seekable binary file; raises StoreError on failure."""

    def __init__(self, location: str) -> None:
        self.name = location
        with store_errors(location, CaptureError):
            system, path = system_at(location)
            self.file = system.open_input_file(path)

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes."""
        with store_errors(self.name):
            content: bytes = self.file.read(size)
        return content

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Current position."""
        return int(self.file.tell())

    def seek(self, place: int) -> None:
        """Set the position."""
        self.file.seek(place)

    def close(self) -> None:
        """Close; further reads are not allowed."""
        self.file.close()


def first_time_in(location: str) -> int:
    """Like `rotation.first_time_of`, for a capture in a store; reads only its beginning."""
    stream = Stream(location)
    try:
        return first_time_of(CaptureFile(cast("BinaryIO", stream), location, FIRST_SIZE))
    finally:
        stream.close()


@contextmanager
def local_copy(location: str, start: int = 0, end: int | None = None) -> Iterator[str]:
    """Local path with at least the bytes `start` to `end` of a capture.

    That is the location itself if it is not in a store; otherwise a temporary file with the bytes
    at the same offsets, and a hole before them. Raises CaptureError if the capture does not exist,
    StoreError if the store fails.
    """
    if not is_uri(location):
        yield location
        return
    with tempfile.TemporaryDirectory(prefix="kdissect-") as directory:
        # Its name contains only the compression suffix.
        local = Path(directory, "capture")
        with local.open("wb") as file:
            file.seek(start)
            for data in blocks(location, start, end):
                file.write(data)
        yield str(local)


@contextmanager
def local_copies(locations: Iterable[str]) -> Iterator[dict[str, str]]:
    """Local paths with the bytes of captures, mapped to the captures' locations."""
    with ExitStack() as copies:
        yield {copies.enter_context(local_copy(one)): one for one in locations}


def blocks(location: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a capture in a store in blocks."""
    with store_errors(location, CaptureError):
        system, path = system_at(location)
        with system.open_input_file(path) as file:
            stop = file.size() if end is None else min(end, file.size())
            for at in range(start, stop, BLOCK_SIZE):
                yield file.read_at(min(BLOCK_SIZE, stop - at), at)


def _below(place: str, part: str, is_last: bool) -> list[str]:
    """Matches of one part of a glob in a directory: files at the end, otherwise directories."""
    if not MAGIC.search(part):
        there = f"{place}/{part}"
        return [there] if not is_last or seen(there)[0] >= 0 else []
    with store_errors(place):
        system, path = system_at(place)
        is_deep = part == "**"
        selector = fs.FileSelector(path, recursive=is_deep, allow_not_found=True)
        entries = system.get_file_info(selector)
    wanted = fs.FileType.File if is_last else fs.FileType.Directory
    bucket = bucket_of(place)
    found = [
        as_stored(bucket, one).location
        for one in entries
        if one.type == wanted and (is_deep or fnmatch.fnmatchcase(one.base_name, part))
    ]
    return [place, *found] if is_deep and not is_last else found
