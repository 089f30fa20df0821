"""Dissects the splits of captures in several processes, including this one, which merges them.

Splits are assigned in order. This process takes the next one when the rows it needs to continue are
not ready yet; while working on it, it assigns more, each time it has read some packets.

An edge of a split costs some 0.25 ms for each connection that is open there. Where this is more
than the split itself, the next splits are dissected by the merger alone, until fewer are open.
"""

import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from kdissect.capture.splits import Split, plan_from
from kdissect.checkpoint.boundary_state import BoundaryState
from kdissect.checkpoint.spill_transfer import BatchFile, read_file
from kdissect.checkpoint.split import SplitRows, SplitRun, undone_split
from kdissect.checkpoint.worker import Task, split_path
from kdissect.checkpoint.worker_pool import WorkerPool
from kdissect.errors import CaptureError
from kdissect.pipeline import Options

# Splits assigned or done and not merged yet, for each process.
AHEAD: Final = 2
# Splits that a worker has at a time: after one it need not wait for the next.
AT_ONCE: Final = 2
# Bytes of a split's rows kept in this process; rows of a split that is not the next are not kept.
KEPT_BYTES: Final = 64 << 20
# Packets that are dissected in the time that a connection takes that is open at an edge.
EDGE_PACKETS: Final = 96
# Splits until the cycle collector frees what little they leave: the two directions of connections
# that another state has replaced. It takes 2 % of the time of a split.
COLLECT_EVERY: Final = 16


class Shared:
    """Iterate over it once: the splits' rows and boundary states, in order.

    `names` returns the topic names known so far, `count_open` the number of connections that are
    open where the merger is. Raises the errors of dissecting a split, and KdissectError when a
    process is killed.
    """

    def __init__(
        self,
        splits: list[Split],
        options: Options,
        captures: Sequence[str],
        pool: WorkerPool,
        names: Callable[[], dict[bytes, str]],
        count_open: Callable[[], int] = lambda: 0,
    ) -> None:
        self.splits = splits
        self.options = replace(options, progress=None)
        self.captures = list(captures)
        self.pool = pool
        self.names = names
        self.count_open = count_open
        self.directory = ""
        # Number of splits assigned to each worker.
        self.given = [0] * len(pool.workers)
        # The next one to assign, and the next one to merge.
        self.next_given = 0
        self.next_taken = 0
        self.answers: dict[int, Any] = {}
        # No starts are guessed any more.
        self.is_planned = False
        # The merger dissects the next split.
        self.is_alone = False

    def __iter__(self) -> Iterator[SplitRows]:
        with tempfile.TemporaryDirectory(prefix="kdissect-") as self.directory, self.pool:
            task = Task(self.options, self.captures, self.directory)
            for number in range(len(self.given)):
                self.pool.send(number, task)
            while self.next_taken < len(self.splits):
                if self.is_alone and self.splits[self.next_taken].layout is not None:
                    yield from self._in_turn(undone_split(self.splits[self.next_taken]))
                    continue
                self._serve(0)
                if self.next_taken in self.answers:
                    yield from self._in_turn(self._taken(self.answers.pop(self.next_taken)))
                elif self._has_more():
                    self._dissect(self._next())
                else:
                    self._serve(None)

    def _in_turn(self, rows: SplitRows) -> Iterator[SplitRows]:
        """Return the rows of the next split, if it ends where the one after it begins."""
        if not self._fits(rows.boundary):
            self._plan_again()
            return
        packets = packets_of(rows.boundary)
        yield rows
        del rows
        self.next_taken += 1
        self.next_given = max(self.next_given, self.next_taken)
        for number in [one for one in self.answers if one < self.next_taken]:
            del self.answers[number]
            self._discard(number)
        self.is_alone = self.count_open() * EDGE_PACKETS > packets
        if self.next_taken % COLLECT_EVERY == 0:
            gc.collect()

    def _discard(self, number: int) -> None:
        """Discard the rows of a split that the merger has dissected, or that began elsewhere."""
        split_path(self.directory, number).unlink(missing_ok=True)

    def _fits(self, boundary: BoundaryState) -> bool:
        """Return whether the split ends where the next one, which may be speculative, begins."""
        reached = boundary.reached
        if boundary.split.is_last or boundary.split.is_counted or reached is None:
            return True
        following = self.splits[self.next_taken + 1]
        return (reached.offset, reached.layout) == (following.start, following.layout)

    def _plan_again(self) -> None:
        """Replan: from the next split on, the guessed places are wrong; find the true ones."""
        wrong = self.splits[self.next_taken]
        if self.is_planned:
            raise CaptureError(f"{wrong.path}: no longer the file that was cut into splits")
        self.is_planned = True
        end = self.splits[-1].end
        # Later splits already begun or done do not count: they are discarded.
        self.next_given = self.next_taken = len(self.splits)
        self.answers.clear()
        self.splits += plan_from(wrong, end)

    def _has_more(self) -> bool:
        """Return whether there is a split to begin, and not too many are begun."""
        ahead = (len(self.given) + 1) * AHEAD
        return self.next_given < min(len(self.splits), self.next_taken + ahead)

    def _next(self) -> int:
        self.next_given += 1
        return self.next_given - 1

    def _serve(self, timeout: float | None) -> None:
        """Take the results of workers and assign more; wait for results `timeout` seconds."""
        for worker, (number, answer) in self.pool.receive(timeout):
            self.given[worker] -= 1
            if number >= self.next_taken:
                self.answers[number] = answer
            else:
                self._discard(number)
        # This process has the first to do: it does not wait for another then.
        if self.next_given == 0:
            return
        for wanted in range(AT_ONCE):
            if wanted and len(self.splits) - self.next_given <= len(self.given) + 1:
                break
            for worker, count in enumerate(self.given):
                if count <= wanted and self._has_more():
                    number = self._next()
                    self.pool.send(worker, (number, self.splits[number], self.names()))
                    self.given[worker] += 1

    def _dissect(self, number: int) -> None:
        """Dissect one split here."""
        try:
            self.answers[number] = self._rows(number)
        except Exception as error:  # raised when it is its turn, as those of others
            self.answers[number] = error

    def _rows(self, number: int) -> SplitRows:
        split = self.splits[number]
        run = SplitRun(
            split, self.options, self.captures, self.names(), between=lambda: self._serve(0)
        )
        batches = []
        size = 0
        rows = iter(run)
        for table, batch in rows:
            batches.append((table, batch))
            size += batch.nbytes
            if size > KEPT_BYTES or number > self.next_taken:
                break
        else:
            return SplitRows(batches, run.boundary)
        path = split_path(self.directory, number)
        file = BatchFile(path)
        try:
            while batches:
                file.write(*batches.pop(0))
            for table, batch in rows:
                file.write(table, batch)
        finally:
            places = file.close()
        return SplitRows(read_file(path, places).batches, run.boundary)

    def _taken(self, answer: Any) -> SplitRows:
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, SplitRows):
            return answer
        batches, boundary = read_file(split_path(self.directory, self.next_taken), answer)
        return SplitRows(batches, BoundaryState.from_bytes(boundary))


def packets_of(boundary: BoundaryState) -> int:
    """Number of packets of a split."""
    reached = boundary.reached
    return boundary.totals.packets if reached is None else reached.ordinal - boundary.split.ordinal
