"""Captures → taps: the files that one tap wrote in turn, and unreadable ones."""

import glob
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.capture.rotation import Chain, certain_turns, chain_name, chains, turn_of, undated
from kdissect.dataset.storage import is_uri, remember, seen
from kdissect.dataset.storage_captures import captures_at, first_time_in
from kdissect.errors import CaptureError, InvalidArgument, KdissectError

# File names in a directory that are meant to be captures.
CAPTURE_NAME: Final = re.compile(r"\.(?:p?cap|pcapng|dmp)\d*(?:\.[a-z0-9]+)?$", re.IGNORECASE)
ROTATED: Final = re.compile(r"[-_.]*\*[-_.]*")
EXTENSION: Final = re.compile(r"\.(?:p?cap|pcapng|dmp)\**(?:\.[a-z0-9]+)?$", re.IGNORECASE)

WILD: Final = re.compile(r"[*?\[]")

# Files whose first packet is cached while they do not change: months of hourly files.
LOOKED_AT: Final = 100_000


class Tap(NamedTuple):
    """Files that follow each other; `chain` is the common part of their paths."""

    name: str
    chain: str
    paths: tuple[str, ...]


class Broken(NamedTuple):
    """An unreadable capture, and its size and time then; -1: it may be readable next time."""

    path: str
    message: str
    size: int = -1
    modified_ns: int = -1


class Taps(NamedTuple):
    """Result of a search for taps; `seen` are size and time of files by path."""

    taps: list[Tap]
    broken: list[Broken]
    seen: Mapping[str, tuple[int, int]]


def find_taps(sources: Iterable[str], pattern: str | None = None) -> Taps:
    """Taps of the given paths, globs and directories.

    Taps are identified by path (`capture.rotation`), without days and hours, and named by what it
    has below the source; or by `pattern`, a regular expression for the path: the name of the tap is
    its group ``tap``, else its first group, else the whole match. In directories, other files than
    captures are ignored unless named like one.

    Raises KdissectError if nothing is found, or the pattern matches nothing; a path that does not
    match it is broken.
    """
    given = [*sources]
    found = taps_of(list_captures(given), pattern, roots_of(given))
    if not found.taps and found.broken and all(is_astray(one) for one in found.broken):
        raise InvalidArgument(found.broken[0].message)  # the pattern is wrong, not the files
    return found


def is_astray(one: "Broken") -> bool:
    """Return whether the file exists, and belongs to no tap."""
    return one.size < 0 <= seen(one.path)[0]


def taps_of(files: Mapping[str, bool], pattern: str | None, roots: Sequence[str]) -> Taps:
    """Taps of these files; those mapped to true must be captures. `roots`: see `roots_of`."""
    times: dict[str, int] = {}
    broken = []
    looked_at = {path: seen(path) for path in files}
    for path, is_named in files.items():
        size, modified_ns = looked_at[path]
        try:
            times[path] = first_time_of(path, size, modified_ns)
        except CaptureError as error:
            if is_named or CAPTURE_NAME.search(path):
                broken.append(Broken(path, str(error), size, modified_ns))
    expression = None if pattern is None else compiled(pattern)
    taps: dict[str, list[tuple[str, int]]] = {}
    astray: list[Broken] = []
    for path, first_time_ns in times.items():
        try:
            taps.setdefault(chain_of(path, expression), []).append((path, first_time_ns))
        except KdissectError as error:
            astray.append(Broken(path, str(error)))
    return Taps(named(in_turn(taps), roots), broken + astray, looked_at)


def in_turn(taps: Mapping[str, Sequence[tuple[str, int]]]) -> list[Chain]:
    """Chains of files with the given first times, the earliest first."""
    made = []
    for chain, files in taps.items():
        ordered = sorted(files, key=lambda file: (file[1], turn_of(file[0]), file[0]))
        turns = certain_turns(path for path, _ in ordered)
        if turns is not None:
            # If the clock was set back, times would reverse their order.
            ordered.sort(key=lambda file: turn_of(file[0]))
        made.append(Chain(chain, tuple(path for path, _ in ordered), ordered[0][1]))
    return sorted(made, key=lambda one: (one.first_time_ns, one.name))


def chain_of(path: str, expression: "re.Pattern[str] | None") -> str:
    """Chain of the file: the common part of its tap's paths, or ``tap:NAME``."""
    if expression is None:
        return undated(chain_name(path))
    match = expression.search(path)
    if match is None:
        raise InvalidArgument(f"{path}: does not match the pattern of taps, {expression.pattern!r}")
    name = match["tap"] if "tap" in expression.groupindex else match[min(1, expression.groups)]
    if not name:
        raise InvalidArgument(f"{path}: no name of a tap in it by {expression.pattern!r}")
    return f"tap:{name}"


def compiled(pattern: str) -> "re.Pattern[str]":
    """Compile a tap pattern; raises KdissectError if it is invalid."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidArgument(f"tap {pattern!r}: {error}") from error


@lru_cache(maxsize=LOOKED_AT)
def first_time_of(path: str, size: int, modified_ns: int) -> int:  # noqa: ARG001  # its identity
    """Time of the first packet; raises CaptureError if there is nothing to read."""
    if not is_uri(path) and Path(path).exists() and not Path(path).is_file():
        raise CaptureError(f"{path}: not a regular file")  # a FIFO would block, a device never end
    if not size:
        raise CaptureError(f"{path}: empty file")
    return first_time_in(path) if is_uri(path) else chains([path])[0].first_time_ns


def list_captures(sources: Iterable[str]) -> dict[str, bool]:
    """The files, each once; true for those named explicitly, or matched by a glob.

    Raises KdissectError if nothing is found.
    """
    found: dict[str, bool] = {}
    for source in sources:
        files = files_of(source)
        if files is None:
            # Without a password that a URI may contain.
            raise KdissectError(f"{remember(source)}: no file matches")
        found = {**files, **found}
    if not found:
        raise KdissectError("no capture was found")
    return found


def files_of(source: str) -> dict[str, bool] | None:
    """Files of a path, glob or directory, as in `list_captures`; None: nothing found."""
    source = remember(source)
    if is_uri(source):
        return captures_at(source)
    matches = [source] if Path(source).exists() else sorted(glob.glob(source, recursive=True))  # noqa: PTH207
    found: dict[str, bool] = {}
    for match in matches:
        if Path(match).is_dir():
            inside = (one for one in sorted(Path(match).iterdir()) if one.is_file())
            found = {**{str(one): False for one in inside if one.name[0] != "."}, **found}
        else:
            found[match] = True
    return found if matches else None


def roots_of(sources: Iterable[str]) -> list[str]:
    """Directories below which paths give the names of taps, without days and hours.

    A directory itself, or what several share; the same of the fixed directories of globs; and those
    that all named files share. So a name depends on its own path and on the sources, not on which
    other files there are.

    >>> roots_of(["/c/b1/ring*", "/c/b2/ring*"]), roots_of(["/c/b1/ring*", "/c/b1/2026-11-22/*"])
    (['/c/'], ['/c/b1/'])
    """
    directories: list[list[str]] = []
    fixed: list[list[str]] = []
    named_files: list[list[str]] = []
    for source in map(remember, sources):
        parts = source.split("/")
        is_there = not is_uri(source) and Path(source).exists()
        if not is_there and WILD.search(source):
            first = next(number for number, part in enumerate(parts) if WILD.search(part))
            fixed.append(undated_parts(parts[:first]))
        elif is_directory(source):
            directories.append(undated_parts(source.rstrip("/").split("/")))
        else:
            named_files.append(parts[:-1])
    files = undated_parts(shared(named_files)) if named_files else None
    roots = [shared(one) for one in (directories, fixed) if one] + ([files] if files else [])
    return ["".join(f"{part}/" for part in root) for root in roots]


def shared(paths: Sequence[Sequence[str]]) -> list[str]:
    """The first directories that all paths have."""
    return [
        parts[0] for parts in takewhile(lambda parts: len({*parts}) == 1, zip(*paths, strict=False))
    ]


def undated_parts(directories: Sequence[str]) -> list[str]:
    """Directories without days and hours."""
    return undated("/".join([*directories, "name"])).split("/")[:-1]


def is_directory(source: str) -> bool:
    """Return whether a source is a directory, in a store a name like no capture's."""
    return Path(source).is_dir() if not is_uri(source) else not CAPTURE_NAME.search(source)


def named(found: Sequence[Chain], roots: Sequence[str]) -> list[Tap]:
    """Chains with short names: what is below a root, without extension and varying parts.

    >>> named([Chain("c/a/ring.pcap*", (), 0), Chain("c/b-*/ring.pcap*", (), 0)], ["c/"])
    [Tap(name='a-ring', chain='c/a/ring.pcap*', paths=()), Tap(name='b-ring', \
chain='c/b-*/ring.pcap*', paths=())]
    """
    return [Tap(name_of(chain.name, roots), chain.name, chain.paths) for chain in found]


def name_of(chain: str, roots: Sequence[str]) -> str:
    """Name of a tap."""
    if chain.startswith("tap:"):
        return chain.removeprefix("tap:")
    root = max((one for one in roots if chain.startswith(one)), key=len, default="")
    return short_name(chain.removeprefix(root), chain.count("/") + 1 if root or not roots else 1)


def short_name(text: str, depth: int) -> str:
    """The last parts of a path pattern without extension and the varying parts.

    >>> short_name("/captures/b1/broker-1_*.pcapng", 1), short_name("/captures/b1/ring.pcap*", 2)
    ('broker-1', 'b1-ring')
    """
    parts = [part for part in text.split("/") if part][-depth:]
    parts[-1] = EXTENSION.sub("", parts[-1])
    shorts = [ROTATED.sub("", part) for part in parts]
    shorts[-1] = shorts[-1] or "capture"
    return "-".join(part for part in shorts if part)
