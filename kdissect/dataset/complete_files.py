"""Detection of complete files of rotating captures: files that are no longer written to."""

from collections.abc import Iterable, Mapping
from typing import Final

from kdissect.dataset.taps import Broken, Tap, Taps, chain_of, compiled, files_of, roots_of, taps_of
from kdissect.errors import KdissectError

# At least as long as tcpdump may buffer packets before it writes them.
QUIET_S: Final = 60.0


def complete_files(sources: Iterable[str], pattern: str | None, quiet_s: float, now: float) -> Taps:
    """Taps of all files that are complete at `now` (seconds since 1970), in order.

    A capture is complete when the next file of its tap exists, empty or not, or when it has not
    grown for `quiet_s` seconds. An unreadable file is reported as broken only then, as it may still
    be written to. `sources` (paths, globs, directories, as in `find_taps`) are expanded to the
    files that exist now, so the result may be empty. Order: as in `find_taps`; a ring buffer that
    has wrapped has its overwritten files last. Raises KdissectError for an invalid pattern.
    """
    files: dict[str, bool] = {}
    given = [*sources]
    for source in given:
        files = {**(files_of(source) or {}), **files}
    found = taps_of(files, pattern, roots_of(given))
    times = {path: modified_ns for path, (_, modified_ns) in found.seen.items()}
    begun = begun_at(found.broken, times, pattern)
    taps = []
    for tap in found.taps:
        *paths, last = tap.paths
        if is_quiet(times[last], quiet_s, now) or begun.get(tap.chain, -1) >= times[last]:
            paths.append(last)
        if paths:
            taps.append(Tap(tap.name, tap.chain, tuple(paths)))
    broken = [one for one in found.broken if is_quiet(times[one.path], quiet_s, now)]
    return Taps(taps, broken, found.seen)


def is_quiet(modified_ns: int, quiet_s: float, now: float) -> bool:
    """Return whether an existing file has not been written to for this long."""
    return modified_ns >= 0 and now - modified_ns / 1e9 >= quiet_s


def begun_at(
    broken: Iterable[Broken], times: Mapping[str, int], pattern: str | None
) -> dict[str, int]:
    """Per tap, the latest modification time of its files that have nothing to read yet."""
    expression = None if pattern is None else compiled(pattern)
    latest: dict[str, int] = {}
    for one in broken:
        try:
            name = chain_of(one.path, expression)
        except KdissectError:
            continue  # belongs to no tap
        latest[name] = max(latest.get(name, -1), times[one.path])
    return latest
