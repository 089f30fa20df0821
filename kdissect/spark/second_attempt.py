"""A second attempt at taps of which a capture vanished or changed while it was read.

The first attempt changed nothing of them. The captures are inspected again: one that is gone or
cannot be read is broken, and the others of its tap are brought in without it.
"""

from collections.abc import Callable

from kdissect.dataset.planning import Planned, Work
from kdissect.dataset.storage import seen
from kdissect.dataset.taps import Broken
from kdissect.dataset.tasks import Task
from kdissect.spark.steps import Done, Steps
from kdissect.spark.task_runners import Runner


def try_again(
    task: Task, done: Done, plan: Callable[[set[str]], Planned], runner: Runner
) -> tuple[Done, list[Broken]]:
    """Result of both attempts, and the captures that the second one found broken.

    `plan` plans the taps with these chains, after what the first attempt brought in.
    """
    failed = {one.tap for one in done.failed}
    changed = {
        work.tap.chain
        for work in task.works.values()
        if work.tap.name in failed and has_changed(work)
    }
    if not changed:
        return done, []
    planned = plan(changed)
    again = task._replace(works=dict(enumerate(planned.works)), attempt=task.attempt + 1)
    names = {work.tap.name for work in task.works.values() if work.tap.chain in changed}
    second = Steps(again, runner).run()
    both = Done(
        [*done.taps, *second.taps],
        [*(one for one in done.failed if one.tap not in names), *second.failed],
        done.boundary_bytes + second.boundary_bytes,
        done.row_bytes + second.row_bytes,
    )
    return both, planned.broken


def has_changed(work: Work) -> bool:
    """Return whether a new capture of a tap is no longer as it was inspected."""
    return any(seen(one.path) != (one.size, one.modified_ns) for one in work.new)
