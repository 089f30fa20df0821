"""Directories of live captures → a dataset: each rotation once, as it was written.

A directory is a tap, with the runs in it (`kdissect.tables.rotations`). Ids are unique within a
run, so those of each run are moved to numbers of packets that no other run of the tap has
(`Numbers`). The rows of a rotation are final; connections open at its end are in files that the
next rotation of the run replaces. `date` is the day (UTC) of the rotation.

What a tap's state file has are the balances of its runs, as JSON.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from kdissect.analysis.engines.live_tables import balance_at
from kdissect.dataset.days import date_in
from kdissect.dataset.entries import (
    OWN,
    CaptureEntry,
    FileEntry,
    TapEntry,
    partition_name,
)
from kdissect.dataset.rewriting import file_place
from kdissect.dataset.runs import Dataset
from kdissect.dataset.storage import joined, read_bytes
from kdissect.dataset.stored_columns import spark_batch, spark_schema
from kdissect.dataset.stored_run import added
from kdissect.dataset.taps import chain_of, compiled
from kdissect.errors import InvalidArgument, KdissectError, no_such_file
from kdissect.protocol.readers import NULL
from kdissect.system import strict_json
from kdissect.system.confined import SECRET, Below
from kdissect.tables.balances import checked_balance
from kdissect.tables.batches import TEXT_TYPE, arrow_schema, ints_of, numbers
from kdissect.tables.ids import FACTORS, LARGEST_TAP, TAP_BITS, id_offsets
from kdissect.tables.matrices import Ints
from kdissect.tables.rotations import (
    OPEN_CONNECTIONS,
    check_links,
    number_of,
    rotations_in,
    run_order,
    runs_in,
)
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES
from kdissect.tables.stored_rows import as_declared, believed
from kdissect.tables.writers import ParquetFile

LIVE: Final = "live:"  # begins the chain of such a tap
BATCH_ROWS: Final = 65_536
BLOCK: Final = 1 << 20
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


class Rotation(NamedTuple):
    """A rotation that is not in the dataset: its directory, and sizes of its files by table."""

    path: Path
    files: Mapping[str, int]
    modified_ns: int

    @property
    def run(self) -> str:
        """Name of its run."""
        return self.path.parent.name

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(self.files.values())


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


class Rows:
    """Files of a tap; a context manager, `entries` is set at its end."""

    def __init__(self, dataset: Dataset, tables: Sequence[str], tap: TapEntry) -> None:
        self.dataset = dataset
        self.tables = tables
        self.tap = tap
        self.count = 0
        self.entries: list[FileEntry] = []
        self._open = ExitStack()
        self._files: dict[str, ParquetFile] = {}
        self._last_open: dict[str, tuple[Rotation, Numbers]] = {}

    def __enter__(self) -> "Rows":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            for rotation, numbers_of in self._last_open.values():
                self._write(rotation, OPEN_CONNECTIONS, numbers_of)
        with self._open:
            for path, file in self._files.items():
                if kind is not None or not file.rows:
                    file.discard()
                    continue
                file.finish()
                file.publish()
                table, date = path.split("/")[:2]
                size = file.path.stat().st_size
                day = date.removeprefix("date=")
                is_open = path.endswith("-open.parquet")
                self.entries.append(FileEntry(path, table, day, file.rows, size, is_open))

    def add(self, rotation: Rotation, numbers_of: "Numbers") -> None:
        """Add the final rows of a rotation."""
        for table in rotation.files:
            if table in self.tables:
                self._write(rotation, table, numbers_of)

    def set_open(self, rotation: Rotation, numbers_of: "Numbers") -> None:
        """Set the rotation whose open connections count for its run."""
        if OPEN_CONNECTIONS in rotation.files and "connections" in self.tables:
            self._last_open[rotation.run] = rotation, numbers_of

    def _write(self, rotation: Rotation, name: str, numbers_of: "Numbers") -> None:
        is_open = name == OPEN_CONNECTIONS
        table = "connections" if is_open else name
        file = self._file(table, rotation, is_open=is_open)
        schema = spark_schema(TABLES[table], text=TEXT_TYPE)
        for batch in batches_of(rotation, name, table):
            moved = numbers_of.moved(batch, rotation.run, self.tap.number)
            file.write(spark_batch(moved, schema))
            self.count += batch.num_rows

    def _file(self, table: str, rotation: Rotation, *, is_open: bool) -> ParquetFile:
        run = self.dataset.contents.run + 1
        part = f"{mark_of(rotation.run)}-open" if is_open else "live"
        name = (
            f"{table}/date={date_in(rotation.path.name)}/tap={partition_name(self.tap.name)}/"
            f"r{run:06}-{self.dataset.token}-t{self.tap.number}-{part}.parquet"
        )
        if name not in self._files:
            path = self._open.enter_context(file_place(self.dataset, name))
            schema = spark_schema(TABLES[table], text=TEXT_TYPE)
            # As private as its source.
            mode = (rotation.path / f"{next(iter(rotation.files))}.parquet").stat().st_mode & 0o666
            self._files[name] = ParquetFile(path, schema, mode=mode)
        return self._files[name]


@dataclass
class Segment:
    """Numbers of packets of a run from `first` on are moved by `base`."""

    first: int
    base: int


@dataclass
class Numbers:
    """Numbers of packets that the runs of a tap have; `next` is the first that none has.

    A run claims as many as its rotations have used. Where another run has claimed some since, it
    goes on after those: the numbers before keep their place, so an id is always the same.
    """

    next: int = 0
    limits: dict[str, int] = field(default_factory=dict)
    segments: dict[str, list[Segment]] = field(default_factory=dict)

    @classmethod
    def of(cls, captures: Sequence[CaptureEntry]) -> "Numbers":
        """Those that the rotations in a dataset have claimed, in their order."""
        made = cls()
        for one in captures:
            run = Path(one.path).parent.name
            made.claim(run, made.limits.get(run, 0) + one.packets)
        return made

    def claim(self, run: str, limit: int) -> int:
        """Claim the numbers of a run below `limit`; returns how many are new.

        >>> numbers = Numbers()
        >>> numbers.claim("a", 10), numbers.claim("b", 5), numbers.claim("a", 12)
        (10, 5, 2)
        >>> numbers.segments["a"], numbers.next
        ([Segment(first=0, base=0), Segment(first=10, base=5)], 17)
        """
        known = self.limits.get(run, 0)
        count = max(0, limit - known)
        own = self.segments.setdefault(run, [])
        if count:
            if not own or own[-1].base + known != self.next:
                own.append(Segment(known, self.next - known))
            self.limits[run] = known + count
            self.next += count
        return count

    def moved(self, batch: pa.RecordBatch, run: str, tap: int) -> pa.RecordBatch:
        """Rows with the ids of the tap."""
        firsts = np.array([one.first for one in self.segments[run]], np.int64)
        bases = np.array([one.base for one in self.segments[run]], np.int64)
        for name, factor in FACTORS.items():
            index = batch.schema.get_field_index(name)
            if index < 0 or not len(firsts):
                continue
            ids = ints_of(batch[name])
            base = bases[np.searchsorted(firsts, ids // factor, side="right") - 1]
            found: Ints = ids + base * factor + id_offsets(tap)[name]
            made = numbers(np.where(ids == NULL, int(NULL), found), pa.int64())
            batch = batch.set_column(index, batch.schema.field(index), made)
        return batch


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


def mark_of(run: str) -> str:
    """A run in the name of a file."""
    return hashlib.sha256(run.encode()).hexdigest()[:12]


def entry_of(rotation: Rotation, digest: str, packets: int) -> CaptureEntry:
    """A rotation as the records have it; `packets` are the numbers that it has claimed."""
    return CaptureEntry(
        str(rotation.path), digest, rotation.size, rotation.modified_ns, -1, packets, 0
    )


def hash_of(rotation: Rotation) -> str:
    """sha256 of the files of a rotation, and of where it is in its run."""
    made = hashlib.sha256(f"{rotation.run}/{rotation.path.name}".encode())
    with Below(rotation.path) as below:
        for name in sorted(rotation.files):
            made.update(name.encode())
            with os.fdopen(below.open_file(f"{name}.parquet"), "rb") as content:
                while block := content.read(BLOCK):
                    made.update(block)
    return made.hexdigest()


def batches_of(rotation: Rotation, name: str, table: str) -> Iterator[pa.RecordBatch]:
    """Rows of a file of a rotation as kdissect declares them; DatasetError for other files."""
    path = rotation.path / f"{name}.parquet"
    schema = arrow_schema(TABLES[table])
    with (
        believed(str(path)),
        Below(rotation.path) as below,
        os.fdopen(below.open_file(path.name), "rb") as content,
        parquet.ParquetFile(content) as opened,
    ):
        for batch in opened.iter_batches(BATCH_ROWS):
            yield from as_declared(pa.Table.from_batches([batch]), schema).to_batches()


def highest(rotation: Rotation) -> int:
    """Highest number of a packet that ids of a rotation have, -1 for none."""
    found = -1
    for name in rotation.files:
        table = "connections" if name == OPEN_CONNECTIONS else name
        columns = [one.name for one in TABLES[table].columns if one.name in FACTORS]
        for batch in batches_of(rotation, name, table):
            for column in columns:
                ids = ints_of(batch[column])
                ids = ids[ids != NULL]
                if len(ids):
                    found = max(found, int(ids.max()) // FACTORS[column])
    return found


def content_of(dataset: Dataset, name: str) -> bytes:
    """Bytes of a state."""
    if dataset.is_remote:
        content = read_bytes(joined(dataset.directory, name), STATE_BYTES)
        if content is None:
            raise KdissectError(no_such_file(joined(dataset.directory, name)))
        return content
    with Below(dataset.directory) as below:
        try:
            return below.read(name, STATE_BYTES)
        except FileNotFoundError as error:
            raise KdissectError(no_such_file(joined(dataset.directory, name))) from error
