"""The steps of a run in order; a tap that fails in one step is excluded from the later ones."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from kdissect.dataset.entries import FileEntry, TapEntry
from kdissect.dataset.one_pass import read_alone, read_on
from kdissect.dataset.planning import Failed, groups_of
from kdissect.dataset.storage_tasks import mirrored
from kdissect.dataset.stored_run import added
from kdissect.dataset.tasks import (
    BroughtIn,
    Merged,
    Task,
    bring_in,
    dissect_part,
    publish,
    rename,
    settle_tap,
)
from kdissect.errors import KdissectError, OutputError, StoreError
from kdissect.spark.task_runners import Runner

# Bytes of captures whose rows are one file: 5 to 150 MB of exchanges. Two splits of the usual size,
# which are slightly larger than nominal, so that one tap also has enough tasks.
FILE_BYTES: Final = 600 << 20
# Staged rows of a tap up to this size are published by the task that merges its splits: that takes
# no longer than a job of Spark.
FEW_ROW_BYTES: Final = 64 << 20

# The number of a work, and the item in it.
Place: TypeAlias = tuple[int, ...]


class Done(NamedTuple):
    """Taps with all their files, failed ones, and the size of boundary states and staged rows."""

    taps: list[TapEntry]
    failed: list[Failed]
    boundary_bytes: int
    row_bytes: int


class Steps:
    """Progress of a run over a tap's works; `run` does all."""

    def __init__(self, task: Task, runner: Runner) -> None:
        self.task = task
        self.runner = runner
        self.taps = [replace(work.tap, files=list(work.tap.files)) for work in task.works.values()]
        # What travels to executors: without the history of the taps.
        self.tasks = {number: task.of_tap(number) for number in task.works}
        self.failed: dict[int, Failed] = {}

    def run(self) -> Done:
        """Do the works of all taps, as far as possible."""
        works = self.task.works
        alone = [(number,) for number, work in works.items() if len(work.splits) == 1]
        cut = [number for number, work in works.items() if len(work.splits) > 1]
        uncut = [(n,) for n, work in works.items() if work.following and not work.splits]
        sizes = [self._bring(place, one) for place, one in self._each(read_on, uncut)]
        sizes += [self._bring(place, one) for place, one in self._each(bring_in, alone)]
        parts = [(number, part) for number in cut for part in range(len(works[number].splits))]
        rows: Counter[int] = Counter()
        for (number, _), size in self._each(dissect_part, parts):
            rows[number] += size["row_bytes"]
            sizes.append(size)
        is_few = {number: rows[number] <= FEW_ROW_BYTES for number in cut}
        for place, one in self._each(settle_tap, [(n, int(few)) for n, few in is_few.items()]):
            self._bring(place, one)
        many = [number for number in cut if not is_few[number]]
        for place, files in self._each(publish, self._groups(many)):
            self._add(place, files)
        renamed = [(number,) for number in many if works[number].nameless]
        for place, files in self._each(rename, renamed):
            self._add(place, files)
        late = [(number,) for number, work in works.items() if work.late]
        for place, one in self._each(read_alone, late):
            self._add(place, one.files)
            self._close(place[0], one.merged.balance)
        return Done(
            [tap for number, tap in enumerate(self.taps) if number not in self.failed],
            list(self.failed.values()),
            sum(size["boundary_bytes"] for size in sizes),
            sum(size["row_bytes"] for size in sizes),
        )

    def _bring(self, place: Place, one: BroughtIn) -> dict[str, int]:
        """Take the result of a tap that one task did; return the sizes."""
        self._settle(place[0], one.merged)
        self._add(place, one.files)
        return one.sizes

    def _groups(self, cut: Sequence[int]) -> list[Place]:
        """Splits that go into the same files, and the open rows at the end of each tap."""
        places = [
            (number, group.start, group.stop)
            for number in cut
            for group in groups_of(self.task.works[number].splits, FILE_BYTES)
        ]
        return [*places, *((number, -1, 0) for number in cut)]

    def _each(
        self, function: Callable[[Task, Any], Any], places: Sequence[Place]
    ) -> list[tuple[Place, Any]]:
        """Results of the function for the places of taps that have not failed."""
        todo = [place for place in places if place[0] not in self.failed]
        items = [(self.tasks[place[0]], place) for place in todo]
        sizes = [self._size(function, place) for place in todo]
        answers = self.runner(partial(tried, function), items, sizes)
        for place, answer in zip(todo, answers, strict=True):
            if isinstance(answer, Failed):
                self.failed.setdefault(place[0], answer)
        pairs = zip(todo, answers, strict=True)
        return [(place, answer) for place, answer in pairs if place[0] not in self.failed]

    def _size(self, function: Callable[[Task, Any], Any], place: Place) -> int:
        """Bytes of captures that the function handles at a place."""
        work = self.task.works[place[0]]
        if function is dissect_part:
            split = work.splits[place[1]]
            return split.end - split.start
        if function is publish and place[1] >= 0:
            return sum(split.end - split.start for split in work.splits[place[1] : place[2]])
        return sum(one.size for one in work.new)

    def _settle(self, number: int, merged: Merged) -> None:
        """Take a tap's new state."""
        tap, work = self.taps[number], self.task.works[number]
        if merged.is_new:
            # What was open at the end of the state before stays as it is.
            tap.files += [replace(file, is_open=False) for file in work.was_open]
            tap.closed = tap.balance
        tap.balance = added([merged.balance, tap.closed])
        tap.state = self.task.state_path(work)
        tap.oldest = min(merged.oldest, len(tap.captures))
        tap.latest_ns = max(merged.latest_ns, -1)

    def _close(self, number: int, balance: dict[str, Any]) -> None:
        """Add what no state counts."""
        tap = self.taps[number]
        tap.balance = added([balance, tap.balance])
        tap.closed = added([balance, tap.closed])

    def _add(self, place: Place, files: list[FileEntry]) -> None:
        self.taps[place[0]].files += files


def tried(function: Callable[[Task, Any], Any], item: tuple[Task, Place]) -> Any:
    """Result of the function, or `Failed` on a permanent error."""
    task, place = item
    try:
        with mirrored(task) as near:
            return function(near, place)
    except (OutputError, StoreError):
        raise
    except KdissectError as error:
        return Failed(task.works[place[0]].tap.name, str(error))
