"""Runners of tasks: in this process, or in the executors of a Spark session.

There a value is a task of its own, except small ones in turn, which share one.
"""

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from kdissect.errors import KdissectError, OutputError, StoreError
from kdissect.spark.arrow_rows import one_binary
from kdissect.spark.sessions import failures, first_line
from kdissect.tables.batches import numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

# Small captures up to this size in all are one task: Spark needs some 50 ms for each, in which so
# much is dissected. At most 256 of them, as each costs files to open and to write too.
TASK_BYTES: Final = 16 << 20
LEAST_BYTES: Final = TASK_BYTES >> 8
ANSWER: Final = "place long, answer binary"
PYTHON_ERROR: Final = re.compile(r"^(?:kdissect\.errors\.\w+: (.+)|(\w+Error: .+))$", re.MULTILINE)


class Runner(Protocol):
    """Calls a function with each value, in some process; returns the results in order."""

    def __call__(
        self, function: Callable[[T], R], values: Sequence[T], sizes: Sequence[int] = ()
    ) -> list[R]:
        """Raises the function's exceptions; `sizes` are the bytes that each value stands for."""
        ...


def here(
    function: Callable[[T], R],
    values: Sequence[T],
    sizes: Sequence[int] = (),  # noqa: ARG001
) -> list[R]:
    """Run in this process, sequentially."""
    return [function(value) for value in values]


def shares(count: int, sizes: Sequence[int]) -> list[range]:
    """Values for each task: one, or several in turn of up to TASK_BYTES together.

    >>> shares(4, [9 << 20, 5 << 20, 4 << 20, 99 << 20]), shares(2, [])
    ([range(0, 2), range(2, 3), range(3, 4)], [range(0, 1), range(1, 2)])
    """
    made: list[range] = []
    total = 0
    for number in range(count):
        size = max(sizes[number], LEAST_BYTES) if sizes else TASK_BYTES
        if made and total + size <= TASK_BYTES:
            made[-1] = range(made[-1].start, number + 1)
        else:
            made.append(range(number, number + 1))
            total = 0
        total += size
    return made


def on_spark(spark: "SparkSession") -> Runner:
    """Run in executors, in tasks that Spark retries on failure, small values in one.

    A KdissectError (except failures to write) would recur on retry: it is returned as the result of
    the task, not as its failure, and raised here. KdissectError is also raised if tasks failed for
    good. Uses only DataFrames, so it also works through Spark Connect.
    """

    def run(function: Callable[[T], R], values: Sequence[T], sizes: Sequence[int] = ()) -> list[R]:
        if not values:
            return []
        groups = shares(len(values), sizes)

        def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for place in (place for one in batch["id"].to_pylist() for place in groups[one]):
                    row = answer_row(place, answer_of(function, values[place]))
                    keep_what_is_there()
                    yield row

        count = len(groups)
        try:
            rows = spark.range(0, count, 1, count).mapInArrow(answers, ANSWER).collect()
        except failures() as error:
            raise KdissectError(f"Spark: {reason_of(error)}") from error
        by_place = {row.place: bytes(row.answer) for row in rows}
        return [opened(by_place[place]) for place in range(len(values))]

    return run


@cache
def keep_what_is_there() -> None:
    """Exclude loaded modules and their tables from garbage collection, once per worker.

    PySpark's workers collect after each task, which takes 40 ms otherwise.
    """
    gc.collect()
    gc.freeze()


def answer_of(function: Callable[[Any], Any], value: Any) -> bytes:
    """The function's result, or the text of its exception."""
    # Imported only where tasks run: queries of a dataset need neither stages nor states.
    from kdissect.dataset.task_results import answer_bytes

    try:
        return answer_bytes(True, function(value))
    except (OutputError, StoreError):
        raise
    except KdissectError as error:
        return answer_bytes(False, str(error))


def answer_row(place: int, answer: bytes) -> pa.RecordBatch:
    """A row of `ANSWER`."""
    columns = [numbers(np.array([place]), pa.int64()), one_binary(answer)]
    return pa.RecordBatch.from_arrays(columns, ["place", "answer"])


def reason_of(error: BaseException) -> str:
    """Reason of a failed job: the last Python error in Spark's message, else its first line."""
    found = PYTHON_ERROR.findall(str(error))
    return "".join(found[-1]) if found else first_line(error)


def opened(content: bytes) -> Any:
    """Result of a task; raises KdissectError if the task raised one."""
    from kdissect.dataset.task_results import answer_in

    is_good, answer = answer_in(content)
    if not is_good:
        raise KdissectError(answer)
    return answer
