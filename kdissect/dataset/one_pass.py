"""Tasks that read captures of a tap in one pass, where splits of them would not give its rows.

    read_on      captures that overlap in time → as `tasks.bring_in`, after the tap's state
    read_alone   captures that came too late   → Parquet files; the tap's state stays as it is

Captures are read as the library reads them, by time, and their packets numbered after all others of
the tap, so that ids are unique.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

from kdissect.capture.files import Capture, open_captures
from kdissect.checkpoint.merger import Merger
from kdissect.checkpoint.validation import going_on
from kdissect.dataset.planning import Work
from kdissect.dataset.publishing import Output
from kdissect.dataset.staging import Staged
from kdissect.dataset.storage_captures import local_copies
from kdissect.dataset.tasks import (
    SETTLED,
    BroughtIn,
    Merged,
    MergedRows,
    Task,
    begun,
    end_tap,
    file_name,
    merged,
    mode_of,
    publish,
    rename,
)
from kdissect.errors import Problem
from kdissect.pipeline import PausedCollector, Run, add_secrets

LATE: Final = "late-capture"  # kind of the problem row of a capture that was dissected alone


def read_on(task: Task, place: tuple[int]) -> BroughtIn:
    """Dissect captures that overlap in time in one pass, continuing the state of their tap."""
    number = place[0]
    work = task.works[number]
    with PausedCollector(), opened(work, work.following) as capture:
        merger, is_new = begun(task, work)
        rows = MergedRows(merger, task, work)
        settled = Staged(task.staged(work, SETTLED))
        with going_on(f"the state of tap {work.tap.name}"):
            for _ in fed(merger, capture, work):
                rows.write(settled, task.options.batch_rows)
        oldest = end_tap(task, work, rows, settled)
    files = publish(task, (number, 0, 1)) + publish(task, (number, -1, 0))
    if work.nameless:
        files += rename(task, place)
    sizes = {"boundary_bytes": 0, "row_bytes": settled.size}
    return BroughtIn(files, merged(merger, is_new, oldest), sizes)


def read_alone(task: Task, place: tuple[int]) -> BroughtIn:
    """Dissect captures that came too late without the state of their tap."""
    work = task.works[place[0]]
    paths = [work.paths[number] for number in work.alone]
    name = file_name(task, work, "late")
    with local_copies(paths) as copies, Run(list(copies), task.options, copies) as run:
        run.capture.first_ordinal = packets_before(work, work.alone) + 1
        run.dissector.add_problems([late_problem(work, path, run.capture) for path in paths])
        with Output(task.run_directory, work, name, mode=mode_of(task)) as output:
            for table, batch in run:
                output.write(table, batch)
    sizes = {"boundary_bytes": 0, "row_bytes": 0}
    return BroughtIn(output.entries, Merged(asdict(run.balance), -1, False), sizes)


def late_problem(work: Work, path: str, capture: Capture) -> Problem:
    """The problem that a capture of a tap came too late."""
    text = (
        f"{path}: later captures of tap {work.tap.name} were dissected before it; "
        "it is dissected alone"
    )
    return Problem("capture", LATE, text, capture=capture.names.index(path))


@contextmanager
def opened(work: Work, numbers: range) -> Iterator[Capture]:
    """Captures of a tap, with packets numbered after those before them."""
    with (
        local_copies(work.paths[number] for number in numbers) as copies,
        open_captures(list(copies), names=copies) as capture,
    ):
        capture.first_ordinal = packets_before(work, numbers) + 1
        yield capture


def packets_before(work: Work, numbers: range) -> int:
    """Number of packets in the captures of a tap before these."""
    return work.packets + sum(one.packets for one in work.new[: numbers.start - work.first])


def fed(merger: Merger, capture: Capture, work: Work) -> Iterator[None]:
    """Feed captures to a merger, in batches of packets."""
    dissector = merger.dissector
    places = [work.paths.index(name, work.first) for name in capture.names]
    for packets in capture:
        add_secrets(dissector.tls.keys, capture.take_secrets())
        for packet in packets:
            packet.capture = places[packet.capture]
        dissector.feed(packets)
        dissector.add_problems(in_tap(capture.take_problems(), places))
        yield
    dissector.add_problems(in_tap(capture.take_problems(), places))


def in_tap(problems: list[Problem], places: list[int]) -> list[Problem]:
    """Problems of reading with the captures' numbers in their tap."""
    return [one._replace(capture=places[one.capture]) for one in problems]
