"""Where tasks run: in this process, or in the executors of a Spark session, one task each."""

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from kdissect.errors import KdissectError, OutputError, StoreError
from kdissect.spark.sessions import failures, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

ANSWER: Final = "place long, answer binary"
PYTHON_ERROR: Final = re.compile(r"^(?:kdissect\.errors\.\w+: (.+)|(\w+Error: .+))$", re.MULTILINE)


class Runner(Protocol):
    """Calls a function with each of the values, wherever that is; the answers in their order."""

    def __call__(self, function: Callable[[T], R], values: Sequence[T]) -> list[R]:
        """Raises what the function raises."""
        ...


def here(function: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """In this process, one after the other."""
    return [function(value) for value in values]


def on_spark(spark: "SparkSession") -> Runner:
    """In executors, each value in a task of its own, which Spark begins again where it fails.

    What kdissect raises (but where it cannot write) would be raised again: it is no failure of the
    task but its answer, which is raised here. KdissectError too where tasks failed for good. By
    DataFrames alone, so through Spark Connect too.
    """

    def run(function: Callable[[T], R], values: Sequence[T]) -> list[R]:
        if not values:
            return []

        def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for place in batch["id"].to_pylist():
                    answer = answer_of(function, values[place])
                    keep_what_is_there()
                    yield pa.RecordBatch.from_pydict({"place": [place], "answer": [answer]})

        count = len(values)
        try:
            rows = spark.range(0, count, 1, count).mapInArrow(answers, ANSWER).collect()
        except failures() as error:
            raise KdissectError(f"Spark: {reason_of(error)}") from error
        by_place = {row.place: bytes(row.answer) for row in rows}
        return [opened(by_place[place]) for place in range(count)]

    return run


@cache
def keep_what_is_there() -> None:
    """Leave modules and their tables out of what a worker's collector looks at, once for all.

    PySpark's workers collect after each task, which takes 40 ms else.
    """
    gc.collect()
    gc.freeze()


def answer_of(function: Callable[[Any], Any], value: Any) -> bytes:
    """What the function gives, or the text of what it raises."""
    # Imported where tasks run: questions about a dataset need neither stages nor states.
    from kdissect.dataset.task_results import answer_bytes

    try:
        return answer_bytes(True, function(value))
    except (OutputError, StoreError):
        raise
    except KdissectError as error:
        return answer_bytes(False, str(error))


def reason_of(error: BaseException) -> str:
    """Why a job failed: the last error of Python in what Spark says, else its first line."""
    found = PYTHON_ERROR.findall(str(error))
    return "".join(found[-1]) if found else first_line(error)


def opened(content: bytes) -> Any:
    """The answer of a task; raises KdissectError where it raised one."""
    from kdissect.dataset.task_results import answer_in

    is_good, answer = answer_in(content)
    if not is_good:
        raise KdissectError(answer)
    return answer
