"""Ctrl-C and other signals while Spark works: they cancel the jobs, and end the call.

Where PySpark waits for rows, an exception of a signal's handler waits for the end of the job, and
is then replaced by an error. So the call is done in another thread while the main one waits.
"""

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kdissect.spark.sessions import failures
from kdissect.sql.interruption import interruptible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

CONNECT: Final = "pyspark.sql.connect."


class Tagging(NamedTuple):
    """A kind of thread; how jobs of such a thread get a tag, lose it, and are cancelled by it."""

    thread: Callable[..., threading.Thread]
    add: Callable[[str], object]
    remove: Callable[[str], object]
    cancel: Callable[[str], object]


def cancellable(session: "SparkSession", call: Callable[[], T]) -> T:
    """The result of a call that runs jobs; what a signal's handler raises cancels them.

    Its jobs have the group and other local properties of the calling thread, not on Spark Connect.
    """
    tag = f"kdissect-{secrets.token_hex(8)}"
    tagging = tagging_of(session)

    def tagged() -> T:
        tagging.add(tag)
        try:
            return call()
        finally:
            tagging.remove(tag)

    def cancel() -> None:
        # The signal may have ended the JVM, too.
        with suppress(*failures()):
            tagging.cancel(tag)

    return interruptible(tagged, cancel, tagging.thread)


def tagging_of(session: "SparkSession") -> Tagging:
    """The functions of a session, or of Spark Connect's."""
    if type(session).__module__.startswith(CONNECT):
        return Tagging(threading.Thread, session.addTag, session.removeTag, session.interruptTag)
    from pyspark import InheritableThread

    context = session.sparkContext
    return Tagging(
        InheritableThread, context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
    )
