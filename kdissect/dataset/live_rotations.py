"""Directories of live captures → a dataset: each rotation once, as it was written.

A directory is a tap, with the runs in it (`kdissect.tables.rotations`). Ids are unique within a
run, so those of each run are moved to numbers of packets that no other run of the tap has
(`packet_numbers`). The rows of a rotation are final; connections open at its end are in files that
the next rotation of the run replaces. `date` is the day (UTC) of the rotation.

What a tap's state file has are the balances of its runs, as JSON.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kdissect.analysis.engines.live_tables import balance_at
from kdissect.dataset.entries import OWN, CaptureEntry, TapEntry, partition_name
from kdissect.dataset.packet_numbers import Numbers
from kdissect.dataset.rewriting import file_place
from kdissect.dataset.rotation_rows import Rotation, Rows, hash_of, highest, mark_of
from kdissect.dataset.runs import Dataset
from kdissect.dataset.storage import joined, read_below
from kdissect.dataset.stored_run import added
from kdissect.dataset.taps import chain_of, compiled
from kdissect.errors import InvalidArgument, KdissectError, no_such_file
from kdissect.system import strict_json
from kdissect.system.confined import SECRET, Below
from kdissect.tables.balances import checked_balance
from kdissect.tables.ids import LARGEST_TAP, TAP_BITS
from kdissect.tables.rotations import (
    OPEN_CONNECTIONS,
    check_links,
    number_of,
    rotations_in,
    run_order,
    runs_in,
)
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES

LIVE: Final = "live:"  # begins the chain of such a tap
# Of the rotations of one run of the dataset: one file a table, day and tap.
UNIT_BYTES: Final = 1 << 30
STATE_BYTES: Final = 64 << 20


@dataclass
class Ingested:
    """Rotations that were brought in, their bytes and rows; `taps` that changed."""

    rotations: int = 0
    size: int = 0
    rows: int = 0
    taps: int = 0


def ingest(
    directories: Sequence[str | os.PathLike[str]],
    dataset: str | os.PathLike[str],
    *,
    name: str | None = None,
    tap: str | None = None,
    tables: Sequence[str] | None = None,
) -> Ingested:
    """Bring the rotations of live captures that are not in a dataset yet into it; no Spark.

    A directory is the tap `name`, or what the pattern `tap` finds in its path (`find_taps`), or
    else the last part of its path. `tables` are those of a new dataset, by default all that there
    are. Call it again when there are more rotations, before the capture removes them. Raises
    KdissectError, and has then brought in whole units of 1 GB or nothing.
    """
    taps = named_taps([os.fspath(one) for one in directories], name, tap)
    done = Ingested()
    changed: set[str] = set()
    while True:
        with Dataset(dataset, is_upkeep=True) as opened:
            unit = Unit(opened, tables)
            for tap_name, directory in taps.items():
                unit.add(tap_name, directory, UNIT_BYTES)
            if not unit.rotations:
                done.taps = len(changed)
                return done
            unit.commit()
        done.rotations += len(unit.rotations)
        done.size += sum(one.size for one in unit.rotations)
        done.rows += unit.rows
        changed |= unit.changed


def named_taps(directories: Sequence[str], name: str | None, tap: str | None) -> dict[str, Path]:
    """Directories by the names of their taps; raises InvalidArgument where two have the same."""
    if name is not None and (len(directories) > 1 or tap is not None):
        raise InvalidArgument("a name is for one directory, without a pattern")
    expression = None if tap is None else compiled(tap)
    found: dict[str, Path] = {}
    for one in directories:
        path = Path(one).absolute()
        if not path.is_dir():
            raise KdissectError(no_such_file(str(path)))
        for place in (path, *runs_in(path)):
            check_links(place)
        if expression is not None:
            own = chain_of(str(path), expression).removeprefix("tap:")
        else:
            own = name or path.name
        if own in found:
            raise InvalidArgument(
                f"{path} and {found[own]} are both tap {own}: give a pattern that tells them apart"
            )
        found[own] = path
    return found


class Unit:
    """Rotations that one run of the dataset brings in."""

    def __init__(self, dataset: Dataset, tables: Sequence[str] | None) -> None:
        self.dataset = dataset
        before = dataset.contents
        self.contents = replace(before, taps=[*before.taps])
        self.tables = tables
        self.known = before.files()
        self.hashes = {one.sha256 for tap in before.taps for one in tap.captures}
        self.rotations: list[Rotation] = []
        self.rows = 0
        self.changed: set[str] = set()
        self.written: list[str] = []
        self.replaced: list[str] = []

    def add(self, name: str, directory: Path, left: int) -> None:
        """Add new rotations of a directory, about as many bytes as are left, at least one."""
        new = [one for run in runs_of(directory) for one in self._new(run)]
        taken: list[tuple[Rotation, str]] = []
        total = sum(one.size for one in self.rotations)
        for one in new:
            if self.rotations and total + one.size > left:
                break
            digest = hash_of(one)
            if digest in self.hashes:
                continue
            self.hashes.add(digest)
            total += one.size
            taken.append((one, digest))
            self.rotations.append(one)
        if taken:
            self.changed.add(name)
            self._bring(self._tap(name), taken)

    def commit(self) -> None:
        """Commit all of it."""
        if not self.contents.options:
            there = {name for one in self.rotations for name in one.files} & TABLES.keys()
            chosen = self.tables or [name for name in TABLES if name in {*DEFAULT_TABLES, *there}]
            self.contents.options = {"tables": [*chosen]}
        self.dataset.commit(self.contents, self.written, self.replaced)

    def _new(self, run: Path) -> Iterator[Rotation]:
        for path in rotations_in(run):
            with Below(path) as below:
                files = below.files("")
            found = {
                one.removesuffix(".parquet"): size
                for one, size in files.items()
                if one.removesuffix(".parquet") in (*TABLES, OPEN_CONNECTIONS)
            }
            rotation = Rotation(path, found, path.stat().st_mtime_ns)
            if (str(path), rotation.size, rotation.modified_ns) not in self.known:
                yield rotation

    def _tap(self, name: str) -> TapEntry:
        """The tap of this name, new or as it is; in the contents it is a copy."""
        taps = self.contents.taps
        for place, one in enumerate(taps):
            if one.chain == LIVE + name:
                taps[place] = replace(one, captures=[*one.captures], files=[*one.files])
                return taps[place]
            if partition_name(one.name) == partition_name(name):
                raise InvalidArgument(
                    f"the dataset has a tap {name}, of captures; give this directory another name"
                )
        number = self.contents.next_tap
        if number > LARGEST_TAP:
            raise KdissectError(f"a dataset has {LARGEST_TAP + 1} taps at the most")
        taps.append(TapEntry(name, LIVE + name, number, -1))
        return taps[-1]

    def _bring(self, tap: TapEntry, taken: Sequence[tuple[Rotation, str]]) -> None:
        """Write the rows of new rotations, and the state after them."""
        numbers_of = Numbers.of(tap.captures)
        last = last_rotations(tap.captures)
        balances = self._balances(tap)
        with Rows(self.dataset, self._chosen(), tap) as rows:
            for rotation, digest in taken:
                packets = numbers_of.claim(rotation.run, highest(rotation) + 1)
                rows.add(rotation, numbers_of)
                tap.captures.append(entry_of(rotation, digest, packets))
                if number_of(rotation.path) > last.get(rotation.run, 0):
                    last[rotation.run] = number_of(rotation.path)
                    self._replace_open(tap, rotation.run)
                    rows.set_open(rotation, numbers_of)
                    balances[rotation.run] = balance_at(rotation.path) or balances.get(
                        rotation.run, {}
                    )
        if numbers_of.next >> TAP_BITS:
            raise KdissectError(f"tap {tap.name}: more than {1 << TAP_BITS} packets")
        self.rows += rows.count
        tap.files += rows.entries
        self.written += [one.path for one in rows.entries]
        tap.balance = added(balances.values())
        self._write_state(tap, balances)

    def _chosen(self) -> Sequence[str]:
        chosen: Sequence[str] = self.contents.options.get("tables") or self.tables or [*TABLES]
        return chosen

    def _replace_open(self, tap: TapEntry, run: str) -> None:
        """Take out the file with the connections that were open at the run's rotation before."""
        gone = [one for one in tap.files if one.is_open and f"-{mark_of(run)}-open" in one.path]
        self.replaced += [one.path for one in gone]
        tap.files = [one for one in tap.files if one not in gone]

    def _balances(self, tap: TapEntry) -> dict[str, Any]:
        if not tap.state:
            return {}
        content = content_of(self.dataset, tap.state)
        made = strict_json.mapping(strict_json.parsed(content, tap.state), "balances")
        return {run: checked_balance(one) for run, one in made.items()}

    def _write_state(self, tap: TapEntry, balances: Mapping[str, Any]) -> None:
        if tap.state:
            self.replaced.append(tap.state)
        run = self.dataset.contents.run + 1
        tap.state = f"{OWN}/states/{tap.number}/{run:06}-{self.dataset.token}.state"
        with file_place(self.dataset, tap.state) as path:
            path.write_text(json.dumps(balances), encoding="utf-8")
            path.chmod(SECRET)
        self.written.append(tap.state)


def runs_of(directory: Path) -> list[Path]:
    """Runs of a directory, the first one first."""
    return sorted(runs_in(directory), key=run_order)


def last_rotations(captures: Sequence[CaptureEntry]) -> dict[str, int]:
    """Number of the last rotation of each run that is in the dataset."""
    found: dict[str, int] = {}
    for one in captures:
        path = Path(one.path)
        found[path.parent.name] = max(found.get(path.parent.name, 0), number_of(path))
    return found


def entry_of(rotation: Rotation, digest: str, packets: int) -> CaptureEntry:
    """A rotation as the records have it; `packets` are the numbers that it has claimed."""
    return CaptureEntry(
        str(rotation.path), digest, rotation.size, rotation.modified_ns, -1, packets, 0
    )


def content_of(dataset: Dataset, name: str) -> bytes:
    """Bytes of a state."""
    content = read_below(dataset.directory, name, STATE_BYTES)
    if content is None:
        raise KdissectError(no_such_file(joined(dataset.directory, name)))
    return content
