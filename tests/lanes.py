"""Tests of several processes that share the files: each takes the next that no other has taken.

KDISSECT_LANES names a directory for the claims, which `.ci/lanes` makes. No process is done before
all files are taken, so both cores are busy until the end, whatever a file takes; each failure fails
the process that ran it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest


def run(session: pytest.Session, place: Path) -> None:
    """Run the session's tests, as pytest would do, but those of files that others have taken."""
    remaining = taken(session.items, place)
    item = next(remaining, None)
    while item is not None:
        # The fixtures that the next test needs, too, stay: it is to be known before this one ends.
        following = next(remaining, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    (place / "all-taken").touch()


def taken(items: Iterable[pytest.Item], place: Path) -> Iterator[pytest.Item]:
    """Tests of the files that this process takes; others may be between those of one file."""
    is_mine: dict[str, bool] = {}
    for item in items:
        file = item.location[0]
        if file not in is_mine:
            is_mine[file] = take(place / file.replace("/", "."))
        if is_mine[file]:
            yield item


def take(claim: Path) -> bool:
    """Return whether no other process has taken it."""
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
