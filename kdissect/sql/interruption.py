"""Ctrl-C and other signals while DuckDB works.

Python calls the handlers of signals in the main thread. DuckDB lets it do so only now and then, for
some queries never, and replaces what a handler raises by a RuntimeError. So what can take long is
done in another thread while the main one waits.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

T = TypeVar("T")

AGAIN_S: Final = 0.1  # an interruption between two queries is lost
INTERRUPTED: Final = "Query interrupted"


def interruptible(
    call: Callable[[], T],
    interrupt: Callable[[], None],
    thread: Callable[..., threading.Thread] = threading.Thread,
) -> T:
    """The result of the call, in a `thread`; what a signal's handler raises ends it by `interrupt`.

    Called in another thread than the main one, which no signal reaches, it only calls.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: list[T] = []
    failures: list[BaseException] = []
    is_done = threading.Event()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            failures.append(error)
        finally:
            is_done.set()

    try:
        thread(target=run, name="query", daemon=True).start()
    except RuntimeError:  # the system allows no more threads
        with short_queries():
            return call()
    try:
        is_done.wait()
    except BaseException:
        while not is_done.is_set():
            interrupt()
            is_done.wait(AGAIN_S)
        raise
    if failures:
        raise failures.pop()  # else this frame and the error keep each other
    return results[0]


def arrow_rows(connection: "duckdb.DuckDBPyConnection", query: str) -> "pa.Table":
    """The rows of a query, which signals end. Raises what DuckDB raises."""
    return interruptible(lambda: connection.sql(query).to_arrow_table(), connection.interrupt)


@contextmanager
def short_queries() -> Iterator[None]:
    """A context for queries in the main thread that are over at once.

    A signal ends them by KeyboardInterrupt, whichever signal it is.
    """
    try:
        yield
    except RuntimeError as error:
        if str(error) != INTERRUPTED:
            raise
        raise KeyboardInterrupt from error
