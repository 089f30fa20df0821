"""``spark.readStream.format("kdissect")``: rows of captures as they become complete.

An offset lists the files of its batch, and the progress of each tap:

    {"batch": 7, "broken": [[path, size, time]],
     "taps": {"/captures/ring_*.pcap": {"name": "ring", "batch": 7, "captures": 12,
                                        "last_ns": 1700000000000000000, "files": [path, path]}}}

A task reads the files of a tap's batch one after the other, continuing from the checkpoint that the
tap's previous batch has written to the directory ``state``, and writes its own there. So a repeated
batch returns the same rows. Exchanges open at the end of a batch are in the checkpoint, and their
rows come once they are settled; rows are never changed, so topics without a known name stay so.
Longer than other modules: offsets, batches and readers of one source.
"""

import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from kdissect.capture.capture_file import NO_PACKET_NS
from kdissect.dataset.complete_files import QUIET_S, complete_files
from kdissect.dataset.incremental_tap import Followed, follow
from kdissect.dataset.new_files import in_turn_of_taps
from kdissect.dataset.staging import most_bytes
from kdissect.dataset.storage import reached_by, remember, seen
from kdissect.dataset.taps import Taps, first_time_of
from kdissect.errors import DatasetError, KdissectError, cannot_write
from kdissect.limits import Limits
from kdissect.pipeline import Options
from kdissect.system import strict_json
from kdissect.system.confined import OWNER_ONLY, SECRET, Below
from kdissect.tables.spool import whole_spool, write_whole

BATCH: Final = "batch"
TAPS: Final = "taps"
BROKEN: Final = "broken"
# One of them is set by Spark for its Python workers.
WORKERS: Final = {"PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH"}
STATE_FILE: Final = re.compile(r"\d{12}\.state", re.ASCII)

Offset = dict[str, Any]


def end_quietly() -> None:
    """Print no stack trace in a worker of Spark when Spark has closed its connection.

    A query that is stopped closes it while its reader waits for the next call. A worker reports all
    errors there, so an uncaught one is always about the connection itself.
    """
    if WORKERS & os.environ.keys():
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
            if not isinstance(error, (EOFError, ConnectionError)):
                before(kind, error, at)

        sys.excepthook = hook


class RowReader(Protocol):
    """Interface of a table's reader for streams: its captures, columns and options."""

    sources: Any
    pattern: Any

    def made_options(self) -> Options:
        """Options for dissection."""
        ...

    def sliced(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Slices of a batch of a size that suits Spark."""
        ...

    def problem_rows(self, path: str, message: str) -> Iterator[pa.RecordBatch]:
        """An unreadable file, as a row of `problems`."""
        ...

    def as_wanted(self, batch: pa.RecordBatch, tap: str) -> pa.RecordBatch:
        """The columns requested by Spark."""
        ...


class Found(NamedTuple):
    """A complete file that is in no batch yet."""

    first_time_ns: int
    path: str
    size: int
    chain: str
    name: str


@dataclass
class TapBatch(InputPartition):
    """Files of a tap in a batch, or an unreadable one, with the reason.

    `before` and `after` are files with the tap's checkpoint, "" before the first batch; `captures`
    is the number of earlier files. `stores` are the settings to reach them.
    """

    tap: str
    paths: tuple[str, ...]
    before: str = ""
    after: str = ""
    captures: int = 0
    problem: str = ""
    stores: tuple[str, ...] = ()


class KdissectStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds complete files, and reads them; `reader` provides columns and options."""

    def __init__(self, reader: RowReader, options: Mapping[str, str]) -> None:
        self.reader = reader
        self.state = Path(options["state"])
        self.quiet_s = float(options.get("quiet", QUIET_S))
        self.limit: ReadLimit = ReadAllAvailable()
        if "maxfilespertrigger" in options:
            self.limit = ReadMaxFiles(int(options["maxfilespertrigger"]))
        elif "maxbytespertrigger" in options:
            self.limit = ReadMaxBytes(int(options["maxbytespertrigger"]))
        self.frozen: Taps | None = None
        self.last: Offset = self.initialOffset()  # before the batch that was planned last

    def initialOffset(self) -> Offset:  # noqa: N802  # PySpark's names
        """Offset before the first batch."""
        return {BATCH: 0, TAPS: {}, BROKEN: []}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Batch limits from the options."""
        return self.limit

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the set of files; later ones are left to another run."""
        self.frozen = self.look()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Offset after the next batch, or `start` if there is nothing to do."""
        check_offset(start)
        self.last = start
        found = self.look() if self.frozen is None else self.frozen
        broken = [[one.path, one.size, one.modified_ns] for one in found.broken]
        waiting = new_files(found, start[TAPS])
        served = {chain: tap[BATCH] for chain, tap in start[TAPS].items()}
        taken = within(in_turn_of_taps(waiting, [one.chain for one in waiting], served), limit)
        if not taken and all(one in start[BROKEN] for one in broken):
            return start
        number = start[BATCH] + 1
        taps = {chain: {**tap, "files": []} for chain, tap in start[TAPS].items()}
        for file in taken:
            names = {tap["name"] for tap in taps.values()}
            name = file.chain if file.name in names else file.name
            tap = taps.setdefault(file.chain, {"name": name, "captures": 0, "files": []})
            tap["files"].append(file.path)
            tap.update(batch=number, captures=tap["captures"] + 1, last_ns=file.first_time_ns)
        return {BATCH: number, TAPS: taps, BROKEN: broken}

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """How far each tap is if all files that are complete now are read, for Spark's progress."""
        latest = self.latestOffset(self.last, ReadAllAvailable())
        taps = {
            chain: {name: tap[name] for name in ("name", "captures", "last_ns")}
            for chain, tap in latest[TAPS].items()
        }
        return {BATCH: latest[BATCH], TAPS: taps, BROKEN: len(latest[BROKEN])}

    def partitions(self, start: Offset, end: Offset) -> Sequence[TapBatch]:
        """One task per tap that has files in the batch, and per unreadable file."""
        check_offset(start)
        check_offset(end)
        if end[BATCH] != start[BATCH] + 1:
            raise KdissectError(f"batch {end[BATCH]} does not follow batch {start[BATCH]}")
        tasks = []
        for chain, tap in end[TAPS].items():
            if tap["files"]:
                known = start[TAPS].get(chain)
                before = "" if known is None else self._place(chain, known[BATCH])
                after = self._place(chain, tap[BATCH])
                captures = tap["captures"] - len(tap["files"])
                paths = tuple(tap["files"])
                stores = reached_by(paths)
                tasks.append(TapBatch(tap["name"], paths, before, after, captures, stores=stores))
        new = [one for one in end[BROKEN] if one not in start[BROKEN]]
        messages = {one.path: one.message for one in self.look().broken} if new else {}
        return tasks + [
            TapBatch("", (path,), problem=messages.get(path, f"{path}: cannot be read"))
            for path, _, _ in new
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Settled rows of a tap's batch; the new checkpoint is written first."""
        if not isinstance(partition, TapBatch):
            return
        for batch in self._batches(partition):
            yield from self.reader.sliced(batch)

    def commit(self, end: Offset) -> None:
        """Finish the batch: earlier checkpoints are no longer needed."""
        check_offset(end)
        for chain, tap in end[TAPS].items():
            place = Path(self._place(chain, tap[BATCH]))
            with suppress(FileNotFoundError), Below(self.state) as below:
                for name in below.names(place.parent.name, STATE_FILE):
                    if name < place.name:
                        below.remove(f"{place.parent.name}/{name}")

    def look(self) -> Taps:
        """Files that are complete now."""
        return complete_files(self.reader.sources, self.reader.pattern, self.quiet_s, time.time())

    def _place(self, chain: str, batch: int) -> str:
        digest = hashlib.sha256(chain.encode()).hexdigest()
        return str(self.state / digest[:32] / f"{batch:012}.state")

    def _batches(self, partition: TapBatch) -> Iterator[pa.RecordBatch]:
        reader = self.reader
        if partition.problem:
            yield from reader.problem_rows(partition.paths[0], partition.problem)
            return
        for one in partition.stores:
            remember(one)
        before = read_state(partition.before)
        with tempfile.TemporaryDirectory(prefix="kdissect-") as directory:
            spooled = Path(directory, "rows")
            options = reader.made_options()
            after, lost = follow(before, partition.captures, partition.paths, options, spooled)
            # Before the first row is taken: a consumer that stops early does not end the task.
            write_state(partition.after, after)
            for path, message in lost:
                yield from reader.problem_rows(path, message)
            for batch in whole_spool(spooled):
                yield reader.as_wanted(batch, partition.tap)


def check_offset(offset: Any) -> None:
    """Raise DatasetError for an invalid offset: Spark reads them from a checkpoint."""
    found = strict_json.mapping(offset, "an offset")
    strict_json.number(found.get(BATCH), "batch")
    for chain, one in strict_json.mapping(found.get(TAPS), "taps").items():
        tap = strict_json.mapping(one, chain)
        strict_json.text(tap.get("name"), "name")
        for name, least in ((BATCH, 1), ("captures", 0), ("last_ns", strict_json.SMALLEST)):
            strict_json.number(tap.get(name), name, least)
        for path in strict_json.items(tap.get("files"), "files"):
            strict_json.text(path, "a file")
    for one in strict_json.items(found.get(BROKEN), "broken"):
        path, *numbers = strict_json.items(one, "a broken file") or [None]
        strict_json.text(path, "a broken file")
        for number in numbers:
            strict_json.any_number(number, "size and time")
        if len(numbers) != 2:
            raise DatasetError("a broken file has a size and a time")


def new_files(found: Taps, taps: Mapping[str, Any]) -> list[Found]:
    """Complete files that begin after those of their tap taken so far, the earliest first."""
    files = []
    for tap in found.taps:
        last_ns = taps.get(tap.chain, {}).get("last_ns", -1)
        for path in tap.paths:
            size, modified_ns = seen(path)
            first_time_ns = first_time_of(path, size, modified_ns)
            if last_ns < first_time_ns < NO_PACKET_NS:
                files.append(Found(first_time_ns, path, size, tap.chain, tap.name))
    return sorted(files)


def within(files: Sequence[Found], limit: ReadLimit) -> Sequence[Found]:
    """The first files, up to the limit, and at least one."""
    if isinstance(limit, ReadMaxFiles):
        return files[: max(1, limit.max_files)]
    if not isinstance(limit, ReadMaxBytes):
        return files
    total = 0
    for count, file in enumerate(files):
        total += file.size
        if count and total > limit.max_bytes:
            return files[:count]
    return files


def read_state(path: str) -> Followed | None:
    """Read the checkpoint of a tap; None before its first batch."""
    if not path:
        return None
    try:
        with Below(Path(path).parent.parent) as below:
            name = "/".join(Path(path).parts[-2:])
            return Followed.from_bytes(below.read(name, most_bytes(Limits())))
    except FileNotFoundError:
        raise KdissectError(
            f"{path} is gone: begin with another checkpoint and another directory of states"
        ) from None


def write_state(path: str, state: Followed) -> None:
    """Write a file atomically; raises OutputError."""
    to = Path(path)
    try:
        to.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        write_whole(to, state.to_bytes(), mode=SECRET)
    except OSError as error:
        raise cannot_write(to, error) from error
