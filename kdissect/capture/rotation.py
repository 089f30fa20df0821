"""Order of capture files that one tap wrote in turn, from their names.

    dumpcap -b     tap_00001_20240131235959.pcapng, tap_20240131235959_00001.pcapng
    tcpdump -C     tap.pcap, tap.pcap1, tap.pcap2; with -W tap.pcap00, tap.pcap01, ...
    tcpdump -G     any strftime format: tap-2024-01-31_23:59:59.pcap, tap.1706745599.pcap

Any of them may be compressed afterwards (tcpdump -z): tap.pcap1.gz. A number elsewhere in the name
(broker-1.pcap, broker-2.pcap) is taken as part of a tap's name.
"""

import os
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from kdissect.capture.capture_file import NO_PACKET_NS, CaptureFile, is_regular
from kdissect.errors import TruncatedCapture, UnknownCaptureFormat

COMPRESSION: Final = re.compile(r"\.(?:gz|zst|lz4|xz|bz2)$", re.IGNORECASE)
DUMPCAP: Final = re.compile(r"_(?:(\d{5,})_\d{14}|\d{14}_(\d{5,}))(?=\.[^.]*$|$)")
# After the extension, or at the end of a name without one.
TCPDUMP_COUNT: Final = re.compile(r"(^[^.]*?|\.[A-Za-z]+)(\d+)$")
MINUTES: Final = r"[-_.:h]?[0-5]\d(?:[-_.:m]?[0-5]\d)?"
TIME_OF_DAY: Final = rf"[-_.:T ]?(?:[01]\d|2[0-3])(?:{MINUTES})?(?:Z|[+-]\d{{4}})?"
DATE: Final = re.compile(
    rf"(?<!\d)(?:19|20)\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])(?:{TIME_OF_DAY})?"
    r"(?!\d)"
)
# By how much a file may begin before the one written before it ends: as packets of several queues
# or interfaces within one file are out of order, before their times count as a step of the clock.
EDGE_NS: Final = 100_000_000
# Seconds since 1970, from 2001 to 2286.
EPOCH: Final = re.compile(r"(?<!\d)[1-9]\d{9}(?!\d)")
# In the directories of a path: a day, by itself or in a name; year, month, day and hour in turn.
IN_TURN: Final = re.compile(
    r"(?<=/)(?:19|20)\d\d/(?:0[1-9]|1[0-2])(?:/(?:[0-2]\d|3[01])(?:/(?:[01]\d|2[0-3])h?)?)?(?=/)"
)
PARTS: Final = re.compile(r"(?<=/)(?:date|dt|day|hour|month|year)=[^/]+(?=/)", re.IGNORECASE)
HOUR: Final = re.compile(r"\*/(?:[01]\d|2[0-3])h?(?=/)")
ONLY_TIME: Final = re.compile(r"/(?:\*/)+")


class Chain(NamedTuple):
    """Files of one tap in the order of their first packets; those without packets come last.

    `name` is their common path, with ``*`` for the differing part. `first_time_ns` is that of the
    first packet, 2^63 - 1 if there is none, or a pipe would have to be read for it.
    """

    name: str
    paths: tuple[str, ...]
    first_time_ns: int


class _Dated(NamedTuple):
    """A file of a chain; a number in its name breaks ties of first times."""

    first_time_ns: int
    turn: int
    path: str


def chains(paths: Iterable[str | os.PathLike[str]]) -> list[Chain]:
    """Files grouped by tap, the tap whose first packet is earliest first.

    A ring buffer that has wrapped is ordered by time too. Raises `CaptureError` for missing files
    and files that are not captures; a file that is still empty counts as one without packets.
    """
    taps: dict[str, list[_Dated]] = {}
    for given in paths:
        path = os.fspath(given)
        name, turn = _split_name(path)
        taps.setdefault(name, []).append(_Dated(_first_time_ns(path), turn, path))
    found = []
    for name, files in taps.items():
        files.sort()
        named = files[0].path if len(files) == 1 else name
        found.append(Chain(named, tuple(file.path for file in files), files[0].first_time_ns))
    return sorted(found, key=lambda chain: (chain.first_time_ns, chain.name))


def chain_name(path: str) -> str:
    """Name of the chain that the file would be part of; alone it has the file's own name.

    >>> chain_name("captures/tap.pcap12.gz")
    'captures/tap.pcap*'
    """
    return _split_name(path)[0]


def are_of_one_tap(paths: Iterable[str]) -> bool:
    """Return whether names say that one tap wrote all of these files.

    >>> are_of_one_tap(["a/2026-11-22/tap.pcap7", "a/2026-11-23/tap.pcap0.gz"])
    True
    >>> are_of_one_tap(["a/tap.pcap", "b/tap.pcap"])
    False
    """
    return len({undated(chain_name(path)) for path in paths}) == 1


def undated(path: str) -> str:
    """A path without days and hours in its directories: a directory per day is no tap per day.

    >>> undated("/captures/2026-11-22/b1/ring.pcap*"), undated("/c/2026/11/22/07/ring.pcap*")
    ('/captures/b1/ring.pcap*', '/c/ring.pcap*')
    >>> undated("/c/dt=2026-11-22/hour=07/ring.pcap*"), undated("/c/b1-2026-11-22/07h/r.pcap*")
    ('/c/ring.pcap*', '/c/b1-*/r.pcap*')
    """
    directory, slash, name = path.rpartition("/")
    made = PARTS.sub("*", IN_TURN.sub("*", f"/{directory}{slash}"))
    made = HOUR.sub("*", DATE.sub("*", made))
    return ONLY_TIME.sub("/", made)[1:] + name


def turn_of(path: str) -> int:
    """Number in a file's name that distinguishes it within its chain; -1: none.

    >>> turn_of("captures/tap.pcap12.gz")
    12
    """
    return _split_name(path)[1]


def certain_turns(paths: Iterable[str]) -> list[int] | None:
    """Position of each file in the order in which one tap wrote them; None: not shown by names.

    Names are reliable if numbers never restart: those of dumpcap, and those of tcpdump -C without
    -W, whose first file has none. Dates are only as reliable as the clock.

    >>> certain_turns(["a_00002_20240131235959.pcap", "a_00001_20240131235959.pcap"])
    [2, 1]
    >>> certain_turns(["a.pcap2", "a.pcap", "a.pcap1"]), certain_turns(["a.pcap1", "a.pcap2"])
    ([2, -1, 1], None)
    """
    names = list(paths)
    found = [_split_name(name) for name in names]
    turns = [turn for _, turn in found]
    if len({name for name, _ in found}) != 1 or len(set(turns)) != len(turns):
        return None
    is_dumpcap = all(DUMPCAP.search(COMPRESSION.sub("", name)) for name in names)
    is_dated = any(DATE.search(name) or EPOCH.search(name) for name in map(os.path.basename, names))
    is_counted = -1 in turns and not is_dated
    return turns if is_dumpcap or is_counted else None


def _split_name(path: str) -> tuple[str, int]:
    """Common part of the names of a tap's files, and the number of this one; -1: none."""
    directory, name = os.path.split(path)
    name = COMPRESSION.sub("", name)
    turn = -1
    if match := DUMPCAP.search(name):
        turn = int(match[1] or match[2])
        name = name[: match.start()] + "_*" + name[match.end() :]
    else:
        # Before the number: with -C and -G, the name is a date, an extension and a number.
        dated = EPOCH.sub("*", DATE.sub("*", name))
        if match := TCPDUMP_COUNT.search(dated):
            turn = int(match[2])
            dated = dated[: match.start(2)]
        name = dated if "*" in dated else dated + "*"
    return os.path.join(directory, name), turn  # noqa: PTH118  # a pattern, not a path


def _first_time_ns(path: str) -> int:
    if not is_regular(path):
        return NO_PACKET_NS
    return first_time_of(CaptureFile(path, path))


def first_time_of(file: CaptureFile) -> int:
    """Time of a file's first packet, 2^63 - 1 if it has none; closes the file."""
    try:
        file.look_ahead()
    except (TruncatedCapture, UnknownCaptureFormat) as error:
        if isinstance(error, UnknownCaptureFormat) and file.size != 0:
            raise
    finally:
        file.close()
    return file.first_time_ns
