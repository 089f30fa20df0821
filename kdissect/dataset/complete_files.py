"""Which files of rotating captures are complete: nobody writes to them any more."""

from collections.abc import Iterable, Mapping
from typing import Final

from kdissect.dataset.storage import seen
from kdissect.dataset.taps import Broken, Tap, Taps, chain_of, compiled, files_of, taps_of
from kdissect.errors import KdissectError

# As long as tcpdump may keep packets to itself before it writes them, and more.
QUIET_S: Final = 60.0


def complete_files(sources: Iterable[str], pattern: str | None, quiet_s: float, now: float) -> Taps:
    """The taps of all files that are complete at `now` (seconds since 1970), in order.

    A capture is complete when the next of its tap is there, empty or not, or when it has not grown
    for `quiet_s` seconds. One that cannot be read is broken only then: it may be about to be. Of
    `sources` (paths, globs, directories, as in `find_taps`) those count that are there now, so
    there may be none. Order: as in `find_taps`; a ring buffer that has begun again has its
    overwritten files last. Raises KdissectError for a pattern that is wrong.
    """
    files: dict[str, bool] = {}
    for source in sources:
        files = {**(files_of(source) or {}), **files}
    times = {path: seen(path)[1] for path in files}
    found = taps_of(files, pattern)
    begun = begun_at(found.broken, times, pattern)
    taps = []
    for tap in found.taps:
        *paths, last = tap.paths
        if is_quiet(times[last], quiet_s, now) or begun.get(tap.chain, -1) >= times[last]:
            paths.append(last)
        if paths:
            taps.append(Tap(tap.name, tap.chain, tuple(paths)))
    broken = [one for one in found.broken if is_quiet(times[one.path], quiet_s, now)]
    return Taps(taps, broken)


def is_quiet(modified_ns: int, quiet_s: float, now: float) -> bool:
    """Whether a file that is there has not been written to for so long."""
    return modified_ns >= 0 and now - modified_ns / 1e9 >= quiet_s


def begun_at(
    broken: Iterable[Broken], times: Mapping[str, int], pattern: str | None
) -> dict[str, int]:
    """For each tap when the latest file was written to that has nothing to be read yet."""
    expression = None if pattern is None else compiled(pattern)
    latest: dict[str, int] = {}
    for one in broken:
        try:
            name = chain_of(one.path, expression)
        except KdissectError:
            continue  # of no tap
        latest[name] = max(latest.get(name, -1), times[one.path])
    return latest
