"""Captures → taps: which files one tap wrote in turn, and those that cannot be read."""

import glob
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.capture.rotation import Chain, chain_name, chains
from kdissect.errors import CaptureError, KdissectError

# What a file in a directory is called that is meant to be a capture.
CAPTURE_NAME: Final = re.compile(r"\.(?:p?cap|pcapng|dmp)\d*(?:\.[a-z0-9]+)?$", re.IGNORECASE)
ROTATED: Final = re.compile(r"[-_.]*\*[-_.]*")
EXTENSION: Final = re.compile(r"\.(?:p?cap|pcapng|dmp)\**(?:\.[a-z0-9]+)?$", re.IGNORECASE)


class Tap(NamedTuple):
    """Files that follow each other; `chain` is what their paths have in common."""

    name: str
    chain: str
    paths: tuple[str, ...]


class Broken(NamedTuple):
    """A capture that cannot be read, and its size and time then; -1: it may be read next time."""

    path: str
    message: str
    size: int = -1
    modified_ns: int = -1


class Taps(NamedTuple):
    """What was found."""

    taps: list[Tap]
    broken: list[Broken]


def find_taps(sources: Iterable[str], pattern: str | None = None) -> Taps:
    """The taps whose files these are: paths, globs and directories.

    They are told by name and first packet (`capture.rotation`), or by `pattern`, a regular
    expression for the path: its group ``tap``, else its first group, else all of it is the name of
    the tap. Of directories, what is not named like a capture and is none is passed over.

    Raises KdissectError where nothing is found, and for paths that the pattern does not match.
    """
    times: dict[str, int] = {}
    broken = []
    for path, is_named in list_captures(sources).items():
        size, modified_ns = seen(path)
        try:
            times[path] = first_time_of(path, size)
        except CaptureError as error:
            if is_named or CAPTURE_NAME.search(path):
                broken.append(Broken(path, str(error), size, modified_ns))
    if pattern is not None:
        return Taps(named(matched(times, pattern)), broken)
    found = [chain._replace(name=chain_name(chain.paths[0])) for chain in chains(times)]
    return Taps(named(found), broken)


def first_time_of(path: str, size: int) -> int:
    """The time of the first packet; raises CaptureError where there is nothing to read."""
    if not size:
        raise CaptureError(f"{path}: empty file")
    return chains([path])[0].first_time_ns


def seen(path: str) -> tuple[int, int]:
    """Size and time of a file, -1 when it is not there."""
    try:
        status = Path(path).stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def list_captures(sources: Iterable[str]) -> dict[str, bool]:
    """The files, each once; true for those that were named, or matched by a glob."""
    found: dict[str, bool] = {}
    for source in sources:
        path = Path(source)
        if path.is_dir():
            inside = (one for one in sorted(path.iterdir()) if one.is_file())
            for one in inside:
                if not one.name.startswith("."):
                    found.setdefault(str(one), False)
            continue
        matches = [source] if path.exists() else sorted(glob.glob(source, recursive=True))  # noqa: PTH207
        if not matches:
            raise KdissectError(f"{source}: no file matches")
        found |= {match: True for match in matches if not Path(match).is_dir()}
    if not found:
        raise KdissectError("no capture was found")
    return found


def matched(times: dict[str, int], pattern: str) -> list[Chain]:
    """The chains that a pattern makes of files, whose first times are given."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise KdissectError(f"tap {pattern!r}: {error}") from error
    taps: dict[str, list[tuple[int, str]]] = {}
    for path, first_time_ns in times.items():
        match = expression.search(path)
        if match is None:
            raise KdissectError(f"{path}: does not match the pattern of taps, {pattern!r}")
        name = match["tap"] if "tap" in expression.groupindex else match[min(1, expression.groups)]
        if not name:
            raise KdissectError(f"{path}: no name of a tap in it by {pattern!r}")
        taps.setdefault(name, []).append((first_time_ns, path))
    made = []
    for name, files in taps.items():
        files.sort()
        made.append(Chain(f"tap:{name}", tuple(path for _, path in files), files[0][0]))
    return sorted(made, key=lambda chain: (chain.first_time_ns, chain.name))


def named(found: Sequence[Chain]) -> list[Tap]:
    """The chains with short names: what is common of the files' names, the directory's if need be.

    >>> named([Chain("a/ring.pcap*", ("a/ring.pcap",), 0), Chain("b/ring.pcap*", (), 0)])
    [Tap(name='a-ring', chain='a/ring.pcap*', paths=('a/ring.pcap',)), Tap(name='b-ring', \
chain='b/ring.pcap*', paths=())]
    """
    texts = [chain.name.removeprefix("tap:") for chain in found]
    shorts = [short_name(text, 1) for text in texts]
    depth = 1
    while len(set(shorts)) < len(shorts) and depth < max(text.count("/") for text in texts) + 1:
        depth += 1
        shorts = [short_name(text, depth) for text in texts]
    return [
        Tap(short if shorts.count(short) == 1 else chain.name, chain.name, chain.paths)
        for short, chain in zip(shorts, found, strict=True)
    ]


def short_name(text: str, depth: int) -> str:
    """The last parts of a path pattern without extension and what differs.

    >>> short_name("/captures/b1/broker-1_*.pcapng", 1), short_name("/captures/b1/ring.pcap*", 2)
    ('broker-1', 'b1-ring')
    """
    parts = [part for part in text.split("/") if part][-depth:]
    parts[-1] = ROTATED.sub("", EXTENSION.sub("", parts[-1])) or "capture"
    return "-".join(parts)
