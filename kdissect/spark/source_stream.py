"""``spark.readStream.format("kdissect")``: rows of captures as they become complete.

An offset says which files its batch has, and of each tap how far it is:

    {"batch": 7, "broken": [[path, size, time]],
     "taps": {"/captures/ring_*.pcap": {"name": "ring", "batch": 7, "captures": 12,
                                        "last_ns": 1700000000000000000, "files": [path, path]}}}

A task reads the files of a tap's batch one after the other, behind the state that the tap's batch
before has left in the directory ``state``, and leaves its own there. So a batch that is done again
gives the same rows. What is open at the end of a batch is in the state, and comes when it is
settled; no row is ever changed, so topics that have no name yet stay without one.
"""

import hashlib
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
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
from kdissect.dataset.staging import most_bytes
from kdissect.dataset.storage import reached_by, remember, seen
from kdissect.dataset.taps import Taps, first_time_of
from kdissect.errors import DatasetError, KdissectError, OutputError
from kdissect.limits import Limits
from kdissect.pipeline import Options
from kdissect.system import strict_json
from kdissect.system.confined import OWNER_ONLY, SECRET, Below
from kdissect.tables.spool import whole_spool, write_whole

BATCH: Final = "batch"
TAPS: Final = "taps"
BROKEN: Final = "broken"
STATE_FILE: Final = re.compile(r"\d{12}\.state", re.ASCII)

Offset = dict[str, Any]


class RowReader(Protocol):
    """What a stream needs of the reader of a table: its captures, columns and options."""

    sources: Any
    pattern: Any

    def made_options(self) -> Options:
        """How to dissect."""
        ...

    def sliced(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch in parts of a size that Spark takes well."""
        ...

    def problem_rows(self, path: str, message: str) -> Iterator[pa.RecordBatch]:
        """A file that cannot be read, as a row of `problems`."""
        ...

    def as_wanted(self, batch: pa.RecordBatch, tap: str) -> pa.RecordBatch:
        """The columns that Spark has asked for."""
        ...


class Found(NamedTuple):
    """A complete file that no batch has."""

    first_time_ns: int
    path: str
    size: int
    chain: str
    name: str


@dataclass
class TapBatch(InputPartition):
    """The files of a tap in a batch, or one that cannot be read, and why.

    `before` and `after` are files with what is known of the tap, "" before the first batch;
    `captures` is how many files came before. `stores` is what it takes to reach them.
    """

    tap: str
    paths: tuple[str, ...]
    before: str = ""
    after: str = ""
    captures: int = 0
    problem: str = ""
    stores: tuple[str, ...] = ()


class KdissectStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds what is complete, and reads it; `reader` knows columns and options."""

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

    def initialOffset(self) -> Offset:  # noqa: N802  # PySpark's names
        """Before the first batch."""
        return {BATCH: 0, TAPS: {}, BROKEN: []}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options say of a batch."""
        return self.limit

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes from now on is for another run."""
        self.frozen = self.look()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The next batch, or `start` when there is nothing to do."""
        check_offset(start)
        found = self.look() if self.frozen is None else self.frozen
        broken = [[one.path, one.size, one.modified_ns] for one in found.broken]
        taken = within(new_files(found, start[TAPS]), limit)
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

    def partitions(self, start: Offset, end: Offset) -> Sequence[TapBatch]:
        """A task for each tap that has files in the batch, and for each that cannot be read."""
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
        """The rows of a tap's batch that are settled; what is known then is left first."""
        if not isinstance(partition, TapBatch):
            return
        for batch in self._batches(partition):
            yield from self.reader.sliced(batch)

    def commit(self, end: Offset) -> None:
        """The batch is done for good: nobody needs what was known before it."""
        check_offset(end)
        for chain, tap in end[TAPS].items():
            place = Path(self._place(chain, tap[BATCH]))
            with suppress(FileNotFoundError), Below(self.state) as below:
                for name in below.names(place.parent.name, STATE_FILE):
                    if name < place.name:
                        below.remove(f"{place.parent.name}/{name}")

    def look(self) -> Taps:
        """What is complete now."""
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
            # Before anybody takes a row: who takes no more of them does not end the task.
            write_state(partition.after, after)
            for path, message in lost:
                yield from reader.problem_rows(path, message)
            for batch in whole_spool(spooled):
                yield reader.as_wanted(batch, partition.tap)


def check_offset(offset: Any) -> None:
    """Raise DatasetError for what is no offset: Spark reads them from a checkpoint."""
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
    """Complete files that begin later than all of their tap that were taken, the earliest first."""
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
    """The first files, as many as the limit lets, and one at least."""
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
    """What was known of a tap; None before its first batch."""
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
    """A file that is there whole or not at all; raises OutputError."""
    to = Path(path)
    try:
        to.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        write_whole(to, state.to_bytes(), mode=SECRET)
    except OSError as error:
        raise OutputError(f"cannot write {to}: {error.strerror}") from error
