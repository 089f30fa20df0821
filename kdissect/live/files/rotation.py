"""`RotatedTables`: rows of a live capture as rotating Parquet files; docs/live-files.md.

    take ──▶ memory ──flush──▶ spools ──rotate──▶ DIR/<run>/<rotation>/<table>.parquet
    (reads packets)   (a thread)       (another thread)

The packet thread waits for neither thread, unless more than `HELD_BYTES` wait for a slow disk.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pyarrow as pa

from kdissect.capture.packet import SECOND_NS
from kdissect.errors import DatasetError, OutputError, Problem
from kdissect.live.files.budget import Budget
from kdissect.live.files.disk_errors import DiskTrouble
from kdissect.live.files.publishing import Publisher, Sealed
from kdissect.live.files.runs import Run, left_runs, make_run
from kdissect.live.files.spools import DIRECTORY_MODES, OpenRotation, SpoolWriter
from kdissect.live.files.topics import TopicNames
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.rotations import rotation_name
from kdissect.tables.rows import ProblemRows
from kdissect.tables.schemas import TABLES

# Interval at which open connections are recorded, for recovery after a kill.
SEEN_NS: Final = 10 * SECOND_NS
# Maximum number of rotations waiting to be made: until then rows go to the open one.
QUEUED: Final = 4
OTHERS: Final = 0o077  # permissions of group and others
Notice = Callable[[str], None]


class RotatedTables(Listener):
    """Writes tables to ``directory/<run>/<rotation>/<table>.parquet``.

    A rotation ends at multiples of `every_s` by the packets' clock, when its rows take about `size`
    bytes, and with `reopen`. The newest `keep` rotations are retained, up to `disk` bytes. Rows are
    on disk after `flush_s`, by the same clock; a kill loses those since the last flush. With
    `is_secret` the files are readable by their owner only. At most about `memory` bytes wait to be
    written. `notice` is called with each line for the operator. Raises OutputError if nothing can
    be written.
    """

    def __init__(
        self,
        directory: Path,
        *,
        tables: Sequence[str],
        every_s: int | None = None,
        size: int | None = None,
        keep: int | None = None,
        disk: int | None = None,
        flush_s: float = 5.0,
        is_secret: bool = False,
        memory: int | None = None,
        notice: Notice | None = None,
    ) -> None:
        self.directory = directory
        self.tables = frozenset(tables)
        self.every_ns = every_s * SECOND_NS if every_s else 0
        self.size = size
        self.flush_ns = int(flush_s * SECOND_NS)
        self.is_secret = is_secret
        self.notice = notice
        self.trouble = DiskTrouble()
        self.budget = Budget(directory, keep, disk)
        self.topics = TopicNames(directory, is_secret)
        self.publisher = Publisher(self.trouble, self.budget.apply)
        # One half is for spools; a row group exists three times while it is written.
        held = None if memory is None else memory // 2
        self.group_size = None if memory is None else memory // 8
        self.writer = SpoolWriter(self.trouble, self._give, self._keep_names, held)
        self.current: OpenRotation | None = None
        self.number = 0  # of rotations begun
        self.rows = 0  # taken so far
        self._begun_ns = 0
        self._flushed_ns = 0
        self._seen_ns = 0

    def begin(self, watcher: LiveCapture) -> None:
        """Create the run's directory, recover earlier runs, and read topic names."""
        self.watcher = watcher
        if (self.directory / "exchanges.parquet").exists():
            text = f"{self.directory} has the tables of a capture: live tables need a directory"
            raise OutputError(f"{text} of their own")
        now = watcher.now_ns
        self.run = make_run(self.directory, now, DIRECTORY_MODES[self.is_secret])
        for raw, name in self.topics.read().items():
            watcher.names.setdefault(raw, name)
        if self.topics.damage:
            self.trouble.add(Problem("tables", "damaged-names", self.topics.damage))
        self._recover_all()
        self.publisher.start()
        self.writer.start()
        self.publisher.wake()

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        """Keep rows in memory until the next flush."""
        if not batch.num_rows:
            return
        if self.current is None:
            self.current = self._opened(self.watcher.now_ns)
            self.writer.begin(self.current)
        self.rows += batch.num_rows
        self.writer.put(self.current, table, batch)

    def tick(self, status: Status) -> None:
        """Rotate or flush when due, and report errors."""
        self.writer.check()
        self.publisher.check()
        now = status.now_ns
        # Rows of a replay may come before its clock is known.
        self._begun_ns = min(self._begun_ns, now)
        self.watcher.dissector.add_problems(self._problems(now))
        if self._is_due(now):
            self._rotate(status)
        elif now - self._flushed_ns >= self.flush_ns:
            self._flush(now)
        if self.trouble.is_failing:
            self.writer.wake()
            self.publisher.wake()

    def reopen(self) -> None:
        """Rotate now."""
        self._rotate(self.watcher.status())

    def finish(self, status: Status) -> None:
        """Publish the rest, and wait until that is done.

        Raises OutputError on a disk error; what was flushed is recovered by the next start.
        """
        self._flush(status.now_ns)
        self.writer.drain()
        self.publisher.drain()
        self._take_problems(self._problems(status.now_ns))
        self._rotate(status)
        self.writer.end()
        self.publisher.end()
        self._problems(status.now_ns)
        self.writer.close()
        self.run.close()
        if self.writer.has_work() or self.publisher.has_work():
            raise OutputError(
                f"{self.trouble.reason}: the last rows are not written ({self.trouble.loss()}). "
                f"Make room: the next start with {self.directory} takes up what was flushed"
            )

    def _opened(self, now_ns: int) -> OpenRotation:
        """A rotation whose rows begin now, or when the last one ended."""
        self.number += 1
        if not self._begun_ns:
            self._begun_ns = self._flushed_ns = self._seen_ns = now_ns
        self._begun_ns = max(self._begun_ns, self._boundary(now_ns))
        name = rotation_name(self.number, self._begun_ns)
        return OpenRotation(self.run.path, name, self.is_secret)

    def _boundary(self, now_ns: int) -> int:
        """The last multiple of the interval; 0 without one."""
        return now_ns // self.every_ns * self.every_ns if self.every_ns else 0

    def _is_due(self, now_ns: int) -> bool:
        current = self.current
        if current is None or len(self.publisher.queue) >= QUEUED:
            return False
        if self._boundary(now_ns) > self._begun_ns:
            return True
        if self.size is None:
            return False
        return current.size >= self.size

    def _rotate(self, status: Status) -> None:
        """Rotate; a no-op if there are no rows."""
        if self.current is None:
            return
        now = status.now_ns
        self._see(now)
        self.current.seal(dict(self.watcher.names), asdict(status.balance))
        self.current = None
        self._begun_ns = self._boundary(now) or now
        self._flushed_ns = now
        self.writer.wake()

    def _flush(self, now_ns: int) -> None:
        self._flushed_ns = now_ns
        if now_ns - self._seen_ns >= SEEN_NS:
            self._see(now_ns)
        self.writer.wake()

    def _see(self, now_ns: int) -> None:
        """Record the open connections."""
        if self.current is None or "connections" not in self.tables:
            return
        self._seen_ns = now_ns
        watcher = self.watcher
        builder = BatchBuilder(TABLES["connections"], watcher.packet_source.names, watcher.names)
        batch = builder.batch(watcher.dissector.open_connection_rows())
        index = batch.schema.get_field_index("closed_by")
        field = batch.schema.field(index)
        self.current.see(batch.set_column(index, field, pa.nulls(batch.num_rows, field.type)))

    def _give(self, rotation: OpenRotation) -> None:
        """Pass the writer thread's output to the publisher thread."""
        tables = sorted(self.tables)
        names, balance = rotation.names, rotation.balance
        sealed = Sealed(rotation.directory, tables, names, balance, self.is_secret)
        self.publisher.add(sealed._replace(group_size=self.group_size))

    def _keep_names(self) -> None:
        self.topics.keep(self.watcher.names)

    def _recover_all(self) -> None:
        try:
            for left in left_runs(self.directory):
                self._recover(left)
        except DatasetError:
            self.run.close()
            raise
        except OSError as error:
            self.run.close()
            text = f"cannot put in order what is left in {self.directory}: {error}"
            raise OutputError(f"{text}; let this user write there") from error

    def _recover(self, left: Run) -> None:
        """Publish the rotations that an earlier process left unfinished."""
        all_spools = left.spools()
        for spools in all_spools:
            done = left.close if spools == all_spools[-1] else None
            tables = sorted(self.tables)
            names = self.watcher.names
            # Files that were private to their owner stay so.
            is_secret = self.is_secret or not spools.stat().st_mode & OTHERS
            sealed = Sealed(spools, tables, names, None, is_secret, done, self.group_size)
            self.publisher.queue.append(sealed)
        text = f"{left.path}: its process was killed; what it had flushed is taken up"
        self.trouble.add(Problem("tables", "recovered-run", text))

    def _problems(self, now_ns: int) -> list[Problem]:
        """Problems to report now; they are also shown to the operator."""
        problems = self.trouble.take_problems(now_ns)
        for problem in problems:
            if self.notice is not None:
                self.notice(problem.message)
        return problems

    def _take_problems(self, problems: Sequence[Problem]) -> None:
        """Add problems as rows, once the dissector no longer does so."""
        if not problems or "problems" not in self.tables:
            return
        rows = ProblemRows()
        for problem in problems:
            rows.add(problem)
        watcher = self.watcher
        builder = BatchBuilder(TABLES["problems"], watcher.packet_source.names, watcher.names)
        self.take("problems", builder.batch(rows))
